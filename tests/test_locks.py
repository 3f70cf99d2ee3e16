"""Locks between real processes: who holds, who waits, and what a death leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from repro import locks
from repro.locks import exclusive, shared, try_exclusive
from tests.conftest import ROOT

LIMIT = 60.0
PREAMBLE = """\
import signal, subprocess, sys
from pathlib import Path
from repro import locks
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
locks.PATIENCE = 0.1
def say(word): print(word, flush=True)
kind, path = sys.argv[1], Path(sys.argv[2])
"""
HOLD = """
with getattr(locks, kind)(path, lambda: say("waiting")):
    say("held")
    sys.stdin.read()
"""
# Its child has the descriptor, the same input, and the same output.
HAND_ON = """
with getattr(locks, kind)(path) as descriptor:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    subprocess.Popen([sys.executable, "-S", "-c", code], pass_fds=[descriptor])
    signal.pause()
"""
COUNT = """
locks.PAUSE = 0.001
for _ in range(25):
    with locks.exclusive(path):
        counter = path.with_name("counter")
        counter.write_text(str(int(counter.read_text()) + 1))
"""


class Other:
    """Another process, which goes on until its input ends."""

    def __init__(self, code: str, kind: str, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + code, kind, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> str:
        """End its input and wait for its end; what it had still to say."""
        return self.process.communicate(timeout=LIMIT)[0]


@contextmanager
def other(code: str, kind: str, path: Path) -> Iterator[Other]:
    started = Other(code, kind, path)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate(timeout=LIMIT)


@contextmanager
def held_elsewhere(kind: str, path: Path) -> Iterator[Other]:
    """Another process holds a lock."""
    with other(HOLD, kind, path) as holder:
        assert holder.says() == "held"
        yield holder


def is_free(path: Path) -> bool:
    with try_exclusive(path) as descriptor:
        return descriptor is not None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "one.lock"


def test_many_share_a_lock_at_once(path):
    with ExitStack() as holders:
        for _ in range(3):
            holders.enter_context(held_elsewhere("shared", path))
        with shared(path):
            pass
        assert not is_free(path)
    assert is_free(path)


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_who_has_it_alone_keeps_others_off(kind, path):
    with held_elsewhere("exclusive", path) as first, other(HOLD, kind, path) as second:
        assert not is_free(path)
        assert second.says() == "waiting"
        first.end()
        assert second.says() == "held"


def test_who_shares_it_keeps_those_off_who_want_it_alone(path):
    with (
        held_elsewhere("shared", path) as first,
        held_elsewhere("shared", path) as second,
        other(HOLD, "exclusive", path) as third,
    ):
        assert third.says() == "waiting"
        first.end()
        assert not is_free(path)
        second.end()
        assert third.says() == "held"


def test_only_one_at_a_time_is_inside(path):
    path.parent.mkdir()
    counter = path.with_name("counter")
    counter.write_text("0")
    workers = [Other(COUNT, "exclusive", path) for _ in range(4)]
    for worker in workers:
        worker.end()
    assert [worker.process.returncode for worker in workers] == [0] * 4
    assert counter.read_text() == "100"


def test_threads_of_one_process_keep_each_other_off(path):
    with exclusive(path):
        assert not is_free(path)
    with shared(path), shared(path):
        assert not is_free(path)
    assert is_free(path)


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_a_holder_that_is_killed_holds_nothing(kind, path):
    with held_elsewhere(kind, path) as holder:
        assert not is_free(path)
        holder.process.send_signal(signal.SIGKILL)
        holder.process.wait(timeout=LIMIT)
        assert is_free(path)


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_a_child_that_has_the_descriptor_holds_it_after_its_parent_was_killed(kind, path):
    with other(HAND_ON, kind, path) as parent:
        assert parent.says() == "up"
        parent.process.send_signal(signal.SIGKILL)
        parent.process.wait(timeout=LIMIT)
        assert not is_free(path)
        assert parent.end() == ""  # comes back when the child, which has the same output, is gone
        assert is_free(path)


def test_a_child_that_was_not_given_the_descriptor_holds_nothing(path):
    with ExitStack() as held:
        held.enter_context(exclusive(path))
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
        held.close()
        assert is_free(path)
        child.communicate(timeout=LIMIT)


def test_try_exclusive_gives_a_descriptor_or_none(path):
    with try_exclusive(path) as descriptor:
        assert isinstance(descriptor, int)
        with try_exclusive(path) as second:
            assert second is None
        # The second let go of nothing that it did not have.
        assert not is_free(path)
    with held_elsewhere("shared", path), try_exclusive(path) as descriptor:
        assert descriptor is None


def test_a_lock_file_stays(path):
    for lock in (shared, exclusive, try_exclusive):
        with lock(path):
            inode = path.stat().st_ino
        assert path.stat().st_ino == inode


def test_what_goes_wrong_inside_lets_go_of_it(path):
    for lock in (shared, exclusive, try_exclusive):
        with pytest.raises(ZeroDivisionError), lock(path):
            raise ZeroDivisionError
        assert is_free(path)


# --- waiting ------------------------------------------------------------------------------------


class Clock:
    """Stands in for `time`; sleeping is what lets time pass.

    Args:
        at: what to do after so many seconds.
    """

    def __init__(self, at: dict[int, Callable[[], None]]) -> None:
        self.now = 0.0
        self.at = at

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for second in [second for second in self.at if second <= self.now]:
            self.at.pop(second)()


@pytest.mark.parametrize("kind", [shared, exclusive])
@pytest.mark.parametrize(("released", "told"), [(4, 0), (6, 1), (600, 1)])
def test_who_waits_is_told_once_and_only_when_it_takes_long(
    kind, released, told, path, monkeypatch
):
    monkeypatch.setattr(locks, "PATIENCE", 5.0)
    held = ExitStack()
    held.enter_context(exclusive(path))
    clock = Clock({released: held.close})
    monkeypatch.setattr(locks, "time", clock)
    calls: list[float] = []
    with kind(path, lambda: calls.append(clock.now)):
        assert not is_free(path)
    assert clock.now >= released
    assert len(calls) == told
    assert all(5.0 < call < 5.2 for call in calls)


def test_who_need_not_wait_is_told_nothing(path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", -1.0)
    calls: list[str] = []
    with shared(path, lambda: calls.append("first")), shared(path, lambda: calls.append("second")):
        assert calls == []


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_ctrl_c_ends_the_waiting(kind, path):
    with held_elsewhere("exclusive", path) as holder, other(HOLD, kind, path) as waiter:
        assert waiter.says() == "waiting"
        waiter.process.send_signal(signal.SIGINT)
        out, err = waiter.process.communicate(timeout=LIMIT)
        assert waiter.process.returncode != 0
        assert err.rstrip().endswith("KeyboardInterrupt")
        assert out == ""
        assert not is_free(path)
        holder.end()
        assert is_free(path)


def test_an_interrupted_wait_leaves_no_descriptor_open(path, monkeypatch):
    def interrupt() -> None:
        raise KeyboardInterrupt

    opened: list[int] = []
    real = locks.os.open
    monkeypatch.setattr(
        locks.os, "open", lambda *arguments: opened.append(real(*arguments)) or opened[-1]
    )
    monkeypatch.setattr(locks, "time", Clock({1: interrupt}))
    with exclusive(path):
        with pytest.raises(KeyboardInterrupt), exclusive(path):
            raise AssertionError
        with pytest.raises(OSError, match="descriptor"):
            locks.os.fstat(opened[1])
        locks.os.fstat(opened[0])


def test_many_threads_wait_and_each_gets_its_turn(path, monkeypatch):
    monkeypatch.setattr(locks, "PAUSE", 0.001)
    inside: list[int] = []
    most: list[int] = []

    def enter(number: int) -> None:
        with exclusive(path):
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(8)]
    with exclusive(path):
        for thread in threads:
            thread.start()
        assert most == []
    for thread in threads:
        thread.join(timeout=LIMIT)
    assert most == [1] * 8
