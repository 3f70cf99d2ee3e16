"""Locks between processes: many may use a thing, one alone may make or remove it.

By `flock`, which the kernel releases when its holder ends, however it ends. It belongs to the open
file, so a child that inherits the descriptor holds the lock too: an installer that outlives us
after a SIGKILL keeps others off what it is still writing. (That is why this is not filelock, which
keeps its descriptor to itself.)

Lock files are never removed: one that another process has just opened would be held by two.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from repro.stopping import check

# Seconds between two tries, and after which the user is told what is waited for.
PAUSE, PATIENCE = 0.05, 1.0


def _silent() -> None:
    return


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        # A store that may only be read is locked all the same; flock asks for no right to write.
        descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, mode: int, waiting: Callable[[], None]) -> None:
    """Wait for the lock by trying, so that Ctrl-C ends it and the user can be told."""
    deadline = time.monotonic() + PATIENCE
    told = False
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told and time.monotonic() > deadline:
                waiting()
                told = True
            check()
            time.sleep(PAUSE)
        else:
            return


@contextmanager
def shared(path: Path, waiting: Callable[[], None] = _silent) -> Iterator[int]:
    """Hold a lock together with others who share it.

    Args:
        waiting: called once where somebody has had it alone for a while.
    """
    with _opened(path) as descriptor:
        _take(descriptor, fcntl.LOCK_SH, waiting)
        yield descriptor


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] = _silent) -> Iterator[int]:
    """Hold a lock alone; see `shared`."""
    with _opened(path) as descriptor:
        _take(descriptor, fcntl.LOCK_EX, waiting)
        yield descriptor


@contextmanager
def try_exclusive(path: Path) -> Iterator[int | None]:
    """Hold a lock alone if nobody has it now, else None."""
    with _opened(path) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
