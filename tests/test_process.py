import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from repro.locks import exclusive, try_exclusive
from repro.process import HEAD_BYTES, TAIL_BYTES, Captured, Ended, run, signal_name
from repro.stopping import Stopped, stoppable


def python(code: str, folder: Path, *arguments: str, timeout: float = 30.0) -> Ended:
    return run(
        [sys.executable, "-S", "-c", code, *arguments],
        environment={"PATH": os.environ["PATH"]},
        folder=folder,
        timeout=timeout,
    )


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def started(folder: Path, count: int = 1) -> list[int]:
    """The processes that wrote their number into the folder, once all of them have."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
        if len(found) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError("no process has started")


# Starts sleepers of every kind that may outlive its parent, each of which leaves its number.
SLEEPERS = """
import os, signal, subprocess, sys, time
def sleep(): open(str(os.getpid()), "w").close(); time.sleep(60)
def child(body):
    if os.fork() == 0:
        try: body()
        finally: os._exit(0)
def deaf(): signal.signal(signal.SIGTERM, signal.SIG_IGN); sleep()
def own_session(): os.setsid(); sleep()
def orphan(): os.setsid(); child(sleep)
for body in (sleep, deaf, own_session, orphan): child(body)
while sum(name.isdigit() for name in os.listdir(".")) < 4: time.sleep(0.01)
"""


def test_exit_status_and_both_streams(tmp_path):
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    ended = python(code, tmp_path)
    assert (ended.exit_code, ended.timed_out, ended.memory_kill) == (3, False, False)
    assert (ended.stdout.text, ended.stderr.text) == ("out\n", "err\n")
    assert ended.signal_name is None
    assert 0 < ended.seconds < 10


def test_folder_environment_and_input_are_those_given(tmp_path):
    code = "import os, sys; print(os.getcwd(), os.environ.get('HOME'), repr(sys.stdin.read()))"
    assert python(code, tmp_path).stdout.text == f"{tmp_path} None ''\n"


def test_no_shell_is_involved(tmp_path):
    code = "import sys; print(sys.argv[1])"
    assert python(code, tmp_path, "$HOME; *").stdout.text == "$HOME; *\n"


def test_a_signal_is_named(tmp_path):
    ended = python("import os; os.kill(os.getpid(), 11)", tmp_path)
    assert (ended.exit_code, ended.signal_name, ended.timed_out) == (-11, "SIGSEGV", False)


def test_names_of_signals():
    assert signal_name(signal.SIGKILL) == "SIGKILL"
    assert signal_name(250) == "signal 250"


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        run([tmp_path / "none"], environment={}, folder=tmp_path, timeout=5)


def test_a_file_that_is_no_program(tmp_path):
    path = tmp_path / "text"
    path.write_text("hello")
    with pytest.raises(PermissionError):
        run([path], environment={}, folder=tmp_path, timeout=5)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        python("", tmp_path / "nowhere")


def test_long_output_keeps_its_two_ends(tmp_path):
    code = (
        "import os\n"
        "def put(data):\n"
        "    while data: data = data[os.write(1, data):]\n"
        "put(b'begin')\n"
        "for _ in range(50): put(b'x' * 2**20)\n"
        "put(b'end')"
    )
    kept = python(code, tmp_path).stdout
    assert kept.total == 50 * 2**20 + 8
    assert kept.head.startswith(b"begin")
    assert kept.tail.endswith(b"end")
    assert (len(kept.head), len(kept.tail)) == (HEAD_BYTES, TAIL_BYTES)
    assert f"[... {kept.total - HEAD_BYTES - TAIL_BYTES} bytes left out ...]" in kept.text


@pytest.mark.parametrize("extra", [0, 1, TAIL_BYTES, TAIL_BYTES + 1])
def test_output_at_the_bound_is_whole_or_says_what_is_missing(tmp_path, extra):
    size = HEAD_BYTES + extra
    kept = python(f"import os; os.write(1, b'x' * {size})", tmp_path).stdout
    assert kept.total == size
    assert ("left out" in kept.text) is (extra > TAIL_BYTES)
    assert kept.text.count("x") == min(size, HEAD_BYTES + TAIL_BYTES)


def test_bytes_that_are_no_utf8_are_shown(tmp_path):
    code = r"import os; os.write(1, b'a\xff\xe2\x82z'); os.write(2, 'é'.encode())"
    ended = python(code, tmp_path)
    assert ended.stdout.text == "a\\xff\\xe2\\x82z"
    assert ended.stderr.text == "é"


def test_a_character_that_is_cut_at_the_bound_loses_no_byte():
    kept = Captured(b"a\xe2\x82", b"\xac!", 10)
    assert kept.text == "a\\xe2\\x82\n[... 5 bytes left out ...]\n\\xac!"


def test_a_time_out_ends_the_whole_tree(tmp_path):
    began = time.monotonic()
    ended = python(SLEEPERS + "deaf()", tmp_path, timeout=1.5)
    assert time.monotonic() - began < 12
    assert ended.timed_out
    assert (ended.exit_code, ended.signal_name) == (-9, "SIGKILL")
    assert not ended.memory_kill
    pids = started(tmp_path, 5)
    assert all(is_gone(pid) for pid in pids)


def test_the_status_of_a_process_that_takes_long_to_die_is_its_own(tmp_path, monkeypatch):
    """Whoever else waits for it takes the status away; with much memory there is time to."""

    def refuse(group, number):
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)  # so that it is killed one by one, and last
    code = "x = b'x' * (256 * 2**20); import time; time.sleep(60)"
    ended = python(code, tmp_path, timeout=1.0)
    assert (ended.timed_out, ended.exit_code) == (True, -9)


def test_what_a_finished_process_left_running_is_ended(tmp_path):
    ended = python(SLEEPERS + "print('bye', flush=True); os._exit(0)", tmp_path)
    assert (ended.exit_code, ended.timed_out, ended.stdout.text) == (0, False, "bye\n")
    assert all(is_gone(pid) for pid in started(tmp_path, 4))
    assert ended.seconds < 15


def test_nothing_outlives_an_interrupt(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            python(SLEEPERS + "sleep()", tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(is_gone(pid) for pid in started(tmp_path, 5))


def test_nothing_outlives_a_stop_and_only_what_is_stopped_ends(tmp_path):
    unwanted = threading.Event()

    def wanted() -> Ended:
        return python("import sys; sys.stdin.read(); import time; time.sleep(2)", tmp_path)

    def not_wanted() -> None:
        with stoppable(unwanted):
            python(SLEEPERS + "sleep()", tmp_path, timeout=60.0)

    with ThreadPoolExecutor(2) as pool:
        others, ours = pool.submit(wanted), pool.submit(not_wanted)
        pids = started(tmp_path, 5)
        unwanted.set()
        with pytest.raises(Stopped):
            ours.result(30.0)
        assert all(is_gone(pid) for pid in pids)
        assert others.result(30.0).exit_code == 0


def test_processes_of_others_are_left_alone(tmp_path):
    marked = {"REPRO_PROCESS": "another run", "PATH": os.environ["PATH"]}
    other = psutil.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=marked)
    try:
        python("", tmp_path)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_tree_that_keeps_forking_is_ended(tmp_path):
    code = """
import os, time
open(str(os.getpid()), "w").close()
while True:
    if os.fork(): os._exit(0)
    os.setsid() if os.getpid() != os.getsid(0) else None
    time.sleep(0.05)
"""
    ended = python(code, tmp_path, timeout=1.0)
    assert ended.exit_code == 0
    time.sleep(0.3)
    mine = str(tmp_path)
    left = [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == mine]
    for process in left:
        process.kill()
    assert not left


def _is_held(path: Path) -> bool:
    """Whether somebody else holds the lock of a file."""
    with path.open("r+") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@pytest.mark.parametrize("given", [True, False])
def test_a_child_holds_the_locks_that_it_is_given_even_without_us(tmp_path, given):
    path = tmp_path / "lock"
    path.touch()
    child = (
        "import os, time\n"
        "open(str(os.getpid()), 'w').close()\n"
        "while not os.path.exists('end'): time.sleep(0.01)"
    )
    parent = (
        "import fcntl, os, sys; from pathlib import Path; from repro.process import run\n"
        "file = open('lock', 'r+'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "run([sys.executable, '-c', sys.argv[1]], environment=os.environ, folder=Path.cwd(),"
        " timeout=60, holding=[file.fileno()] if sys.argv[2] == 'True' else [])"
    )
    ours = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    process = psutil.Popen(
        [sys.executable, "-c", parent, child, str(given)], cwd=tmp_path, env=os.environ | ours
    )
    [pid] = started(tmp_path)
    process.kill()
    process.wait()
    assert not is_gone(pid)
    assert _is_held(path) is given
    (tmp_path / "end").touch()
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)
    assert not _is_held(path)


def test_the_number_of_a_descriptor_is_the_same_in_the_child(tmp_path):
    with (tmp_path / "file").open("w") as file:
        ended = run(
            [sys.executable, "-S", "-c", f"import os; os.write({file.fileno()}, b'here')"],
            environment={},
            folder=tmp_path,
            timeout=30,
            holding=[file.fileno()],
        )
    assert ended.exit_code == 0
    assert (tmp_path / "file").read_text() == "here"


HAS = "import os, sys; print(os.fstat(int(sys.argv[1])).st_ino)"


def holding(code: str, folder: Path, descriptor: int, *held: int) -> Ended:
    return run(
        [sys.executable, "-S", "-c", code, str(descriptor)],
        environment={"PATH": os.environ["PATH"]},
        folder=folder,
        timeout=30.0,
        holding=held,
    )


def test_a_child_has_the_descriptors_that_it_is_to_hold_and_no_others(tmp_path):
    descriptors = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("one", "two")]
    try:
        for descriptor in descriptors:
            held = holding(HAS, tmp_path, descriptor, *descriptors)
            assert held.stdout.text == f"{os.fstat(descriptor).st_ino}\n"
            assert not os.get_inheritable(descriptor)
        other = holding(HAS, tmp_path, descriptors[0], descriptors[1])
        assert other.exit_code != 0
        assert "Bad file descriptor" in other.stderr.text
        assert holding(HAS, tmp_path, descriptors[0]).exit_code != 0
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def test_descendants_that_hold_a_lock_are_ended_with_the_rest(tmp_path):
    with exclusive(tmp_path / "lock") as descriptor:
        ended = holding(SLEEPERS + "os._exit(0)", tmp_path, descriptor, descriptor)
        assert ended.exit_code == 0
    assert all(is_gone(pid) for pid in started(tmp_path, 4))
    with try_exclusive(tmp_path / "lock") as descriptor:
        assert descriptor is not None


def test_a_process_that_has_just_started_is_nobodys_orphan(tmp_path, monkeypatch):
    """One run ends between another's start of its process and the note of it."""
    monkeypatch.setattr("repro.process._adopting", True)
    real = subprocess.Popen

    def slow(*arguments, **options):
        child = real(*arguments, **options)
        if "last" in arguments[0]:
            (tmp_path / "started").touch()
            deadline = time.monotonic() + 1
            while not first.done() and time.monotonic() < deadline:
                time.sleep(0.02)
        return child

    code = "open('first', 'w').close()\nwhile not os.path.exists('started'): time.sleep(0.02)"
    monkeypatch.setattr(subprocess, "Popen", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(python, f"import os, time\n{code}", tmp_path, "first")
        while not (tmp_path / "first").exists():
            time.sleep(0.02)
        last = pool.submit(python, "import time; time.sleep(2)", tmp_path, "last")
    # Killed and reaped by another thread it would seem to have ended with 0.
    assert last.result().seconds > 2
    assert (first.result().exit_code, last.result().exit_code) == (0, 0)
