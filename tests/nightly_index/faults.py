"""What can go wrong with a page or a file of the index, as data.

What is wrong inside a wheel (METADATA or torch/version.py of another version) is said where the
wheel is made, what is wrong about a link (hash, yanked) where it is put up.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """One fault.

    Args:
        times: how many answers are spoilt before the server behaves again; None is for ever.
    """

    times: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Status(Fault):
    """Answers with this status and a line of text."""

    code: int = 500


@dataclass(frozen=True)
class Cut(Fault):
    """Behaves up to a point.

    Args:
        after: how many bytes of the body are sent; an answer that is not longer is not spoilt, so
            that range requests can work where the download does not. None: not even a status line.
    """

    after: int | None = None


@dataclass(frozen=True)
class Stall(Cut):
    """Then sends nothing more, until the client gives up or the server closes."""


@dataclass(frozen=True)
class Truncated(Cut):
    """Then closes the connection as if all had been said, shorter than the declared length."""


@dataclass(frozen=True)
class Reset(Cut):
    """Then resets the connection."""
