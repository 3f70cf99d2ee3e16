"""What the store holds and what it removed: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Stored:
    """An environment on disk.

    Args:
        version: of its torch; None where the environment is none that this version can use.
        triton: name and version, None where the build needs none.
        python: version of its interpreter.
        used: when it was last used.
        in_use: whether somebody uses or makes it now.
        size: bytes of the disk that it takes.
        frees: bytes that its removal frees: what uv's cache or another environment shares stays.
    """

    name: str
    version: str | None
    variant: str | None
    git_version: str | None
    triton: str | None
    python: str | None
    used: datetime
    in_use: bool
    size: int
    frees: int


@dataclass(frozen=True)
class Removed:
    """An environment that is gone.

    Args:
        frees: bytes that this freed.
    """

    name: str
    frees: int
