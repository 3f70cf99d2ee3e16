"""Flags for everything that waits in a thread: what it waits for is not wanted any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_all = threading.Event()
_own = threading.local()


class Stopped(BaseException):
    """What a thread was doing was ended because nobody wants it any more. As KeyboardInterrupt."""


@contextmanager
def stopped() -> Iterator[None]:
    """While this lasts, everything that waits in another thread ends."""
    _all.set()
    try:
        yield
    finally:
        _all.clear()


@contextmanager
def stoppable(unwanted: threading.Event) -> Iterator[None]:
    """While this lasts, what this thread waits for ends once the event is set."""
    outer = getattr(_own, "events", ())
    _own.events = (*outer, unwanted)
    try:
        yield
    finally:
        _own.events = outer


def check() -> None:
    """Raise `Stopped` where that was asked for."""
    if _all.is_set() or any(event.is_set() for event in getattr(_own, "events", ())):
        raise Stopped
