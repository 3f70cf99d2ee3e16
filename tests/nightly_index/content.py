"""Bytes put together from pieces of files, read by range and never copied to disk."""

from __future__ import annotations

import hashlib
import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Piece:
    """`size` bytes of a file from `offset` on."""

    path: Path
    offset: int
    size: int


Part = bytes | Piece


def size_of(part: Part) -> int:
    """How many bytes a part is."""
    return part.size if isinstance(part, Piece) else len(part)


@dataclass(frozen=True)
class Content:
    """Parts in order, as if they were one file."""

    parts: Sequence[Part]

    @cached_property
    def starts(self) -> list[int]:
        """Where each part begins, and behind the last one the size of all."""
        return list(accumulate(map(size_of, self.parts), initial=0))

    @property
    def size(self) -> int:
        """How many bytes it is."""
        return self.starts[-1]

    @cached_property
    def sha256(self) -> str:
        """The hash of all bytes, which reads them all."""
        found = hashlib.sha256()
        for chunk in self.read():
            found.update(chunk)
        return found.hexdigest()

    @cached_property
    def tag(self) -> str:
        """Changes with the content, without reading a file: what an ETag needs."""
        found = hashlib.sha256()
        for part in self.parts:
            found.update(repr(part).encode() if isinstance(part, Piece) else part)
        return found.hexdigest()[:32]

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `stop`, in chunks of a size that is worth a system call."""
        pending = bytearray()
        for piece in self._pieces(start, self.size if stop is None else stop):
            pending += piece
            if len(pending) >= CHUNK:
                yield bytes(pending)
                pending.clear()
        if pending:
            yield bytes(pending)

    def _pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        index = bisect_right(self.starts, start) - 1
        file, path = None, None
        with ExitStack() as opened:
            while start < stop:
                part, skip = self.parts[index], start - self.starts[index]
                size = min(size_of(part) - skip, stop - start, CHUNK)
                if isinstance(part, Piece):
                    if file is None or path != part.path:
                        opened.close()
                        file, path = opened.enter_context(part.path.open("rb")), part.path
                    file.seek(part.offset + skip)
                    chunk = file.read(size)
                    if len(chunk) != size:
                        raise OSError(f"{part.path} became shorter while it was being served")
                    yield chunk
                else:
                    yield memoryview(part)[skip : skip + size]
                start += size
                while index + 1 < len(self.parts) and self.starts[index + 1] <= start:
                    index += 1

    def open(self) -> io.BufferedReader:
        """A seekable file of it, for `zipfile`."""
        return io.BufferedReader(_Reader(self), CHUNK)

    def write(self, path: Path) -> Path:
        """Put it on disk after all."""
        with path.open("wb") as file:
            file.writelines(self.read())
        return path


class _Reader(io.RawIOBase):
    def __init__(self, content: Content) -> None:
        self.content = content
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.content.size}[whence]
        if origin + offset < 0:
            raise OSError("a seek to before the start")
        self.at = origin + offset
        return self.at

    def readinto(self, buffer: Any) -> int:
        stop = min(self.at + len(buffer), self.content.size)
        data = b"".join(self.content.read(self.at, stop)) if self.at < stop else b""
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)
