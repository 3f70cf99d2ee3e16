"""Start a process, bound it, and end it with all its descendants. The one place that does.

Linux and macOS. A descendant is found by parentage while it runs, by its process group, and by a
mark in its environment, so one that left the group and whose parent is gone is found too. On Linux
one that has emptied its environment as well is found where `adopt_orphans` was called.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from repro.stopping import check

MARK = "REPRO_PROCESS"
HEAD_BYTES = 64 * 1024
TAIL_BYTES = 192 * 1024
# How long a killed tree may take to vanish, in seconds. SIGKILL needs longer than a moment only
# for a process in uninterruptible sleep (a dead network file system, a GPU driver).
END_LIMIT = 10.0


@dataclass(frozen=True)
class Captured:
    """The beginning and the end of a stream, and how many bytes it had in all."""

    head: bytes
    tail: bytes
    total: int

    @property
    def text(self) -> str:
        """The stream as text: no byte is lost silently, none is decoded into something else."""
        left_out = self.total - len(self.head) - len(self.tail)
        gap = f"\n[... {left_out} bytes left out ...]\n".encode() if left_out else b""
        return (self.head + gap + self.tail).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Args:
        exit_code: the exit status, or minus the signal that ended it.
        timed_out: whether it was ended here because its time was over.
        memory_kill: whether the kernel counted a kill for memory in this control group meanwhile.
        seconds: wall-clock seconds from start to end.
    """

    exit_code: int
    timed_out: bool
    memory_kill: bool
    stdout: Captured
    stderr: Captured
    seconds: float

    @property
    def signal_name(self) -> str | None:
        """`SIGSEGV` and the like, None where no signal ended the process."""
        if self.exit_code >= 0:
            return None
        return signal_name(-self.exit_code)


def signal_name(number: int) -> str:
    """The name of a signal; its number where the platform knows no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Reader(threading.Thread):
    """Drains a pipe, so that the writer never waits, and keeps its two ends."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self.start()

    def run(self) -> None:
        descriptor = self._pipe.fileno()
        while block := os.read(descriptor, 1 << 20):
            self._total += len(block)
            room = HEAD_BYTES - len(self._head)
            self._head += block[:room]
            self._tail += block[max(room, 0) :]
            if len(self._tail) > 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]

    def captured(self) -> Captured:
        self.join(timeout=END_LIMIT)
        return Captured(bytes(self._head), bytes(self._tail[-TAIL_BYTES:]), self._total)


def _memory_kills() -> int:
    """Kills for memory that the kernel counted in this control group (v2); 0 where it has none."""
    try:
        path = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        events = Path(f"/sys/fs/cgroup{path}/memory.events").read_text()
    except OSError:
        return 0
    counts = dict(line.split() for line in events.splitlines())
    return int(counts.get("oom_kill", 0))


# Processes that `run` has started and not yet ended, and whether orphans come to this process.
# The lock: without it a child that another thread has just started would look like an orphan.
_roots: set[int] = set()
_starting = threading.Lock()
_adopting = False


def adopt_orphans() -> None:
    """Have Linux give orphaned descendants to this process, where `run` finds and ends them.

    Only for a process that starts others by `run` alone: any other child would be ended too.
    """
    global _adopting
    if sys.platform == "linux":
        pr_set_child_subreaper = 36
        _adopting = ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0


def _adopted() -> list[psutil.Process]:
    """Orphans that came to this process; none while several runs are on, which they could be of."""
    with _starting:
        if not _adopting or len(_roots) != 1:
            return []
        return [child for child in psutil.Process().children() if child.pid not in _roots]


class _Tree:
    """Everything that a started process brought into the world."""

    def __init__(self, pid: int, mark: str) -> None:
        self._group = pid
        self._mark = mark
        self._seen: dict[int, psutil.Process] = {}
        self._root: psutil.Process | None = None
        with contextlib.suppress(psutil.NoSuchProcess):
            self._root = psutil.Process(pid)

    def look(self) -> None:
        """Note the descendants of now; later their parents may be gone."""
        for orphan in _adopted():
            self._seen.setdefault(orphan.pid, orphan)
        for process in [self._root, *self._seen.values()]:
            if process is None:
                continue
            with contextlib.suppress(psutil.Error):
                for child in process.children(recursive=True):
                    self._seen.setdefault(child.pid, child)

    def _marked(self) -> list[psutil.Process]:
        """Who has our mark in its environment.

        On Linux that is read here: psutil takes longer for all processes than one that forks and
        leaves again and again lives.
        """
        found = []
        if sys.platform == "linux":
            mark = f"{MARK}={self._mark}".encode()
            for entry in os.scandir("/proc"):
                if entry.name.isdecimal():
                    with contextlib.suppress(OSError, psutil.Error):
                        if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                            found.append(psutil.Process(int(entry.name)))
            return found
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self._mark:
                    found.append(process)
        return found

    def end(self) -> None:
        """SIGKILL all of it, again and again until nothing is left: a process may be forking."""
        deadline = time.monotonic() + END_LIMIT
        while True:
            self.look()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
            alive = [*self._seen.values(), *self._marked()]
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
                # An adopted one stays a zombie until it is asked for its status.
                if _adopting and process.pid not in _roots:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(process.pid, os.WNOHANG)
            alive = [process for process in alive if _runs(process)]
            if not alive or time.monotonic() > deadline:
                return
            # Not psutil.wait_procs: it would take the exit status of our own child.
            time.sleep(0.02)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _ends(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ends within so many seconds; who does not want it any more is heard at once."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=min(left, 0.1))
            return True
        check()
    return False


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    folder: Path,
    timeout: float,
    holding: Sequence[int] = (),
) -> Ended:
    """Run a command to its end and leave nothing of it behind.

    Args:
        command: program and arguments; no shell is involved.
        environment: the whole environment of the child.
        folder: its working directory.
        timeout: seconds after which the whole tree is ended.
        holding: file descriptors that the child has too, and with them their locks.

    Raises:
        OSError: the program cannot be started.
        repro.stopping.Stopped: nobody wants it any more; nothing of it is left either.
    """
    mark = uuid.uuid4().hex
    kills_before = _memory_kills()
    began = time.monotonic()
    with _starting:
        child = subprocess.Popen(
            [str(part) for part in command],
            env={**environment, MARK: mark},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(holding),
        )
        _roots.add(child.pid)
    tree = _Tree(child.pid, mark)
    timed_out = False
    try:
        assert child.stdout is not None
        assert child.stderr is not None
        readers = _Reader(child.stdout), _Reader(child.stderr)
        while child.poll() is None:
            left = began + timeout - time.monotonic()
            if left <= 0:
                timed_out = True
                break
            if _ends(child, min(left, 1.0)):
                break
            tree.look()
    finally:
        tree.end()
        child.wait()
        _roots.discard(child.pid)
    seconds = time.monotonic() - began
    stdout, stderr = (reader.captured() for reader in readers)
    return Ended(
        exit_code=child.returncode,
        timed_out=timed_out,
        memory_kill=child.returncode == -signal.SIGKILL and _memory_kills() > kills_before,
        stdout=stdout,
        stderr=stderr,
        seconds=seconds,
    )
