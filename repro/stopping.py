"""One flag for everything that waits in a thread: what it waits for is not wanted any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_asked = threading.Event()


class Stopped(BaseException):
    """What a thread was doing was ended because nobody wants it any more. As KeyboardInterrupt."""


@contextmanager
def stopped() -> Iterator[None]:
    """While this lasts, everything that waits in another thread ends."""
    _asked.set()
    try:
        yield
    finally:
        _asked.clear()


def check() -> None:
    """Raise `Stopped` where that was asked for."""
    if _asked.is_set():
        raise Stopped
