"""How much disk folders take, as the disk sees hard links: a file counts once, whoever links it."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def parse_size(text: str) -> int:
    """Bytes: `40 GB`, `500MB`, `1.5TB`, `1000`; units of 1000.

    Raises:
        ReproError: it is no size.
    """
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)", text.strip(), re.ASCII)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ReproError(f"{text!r} is no size", "write it as 40GB, 500MB or 1.5TB")
    return round(float(found[1]) * unit)


@dataclass(frozen=True)
class File:
    """A file on a disk, whatever names it has.

    Args:
        size: bytes that it takes.
        links: how many names it has in all.
    """

    size: int
    links: int


Inode = tuple[int, int]


@dataclass(frozen=True)
class Content:
    """What lies in a folder.

    Args:
        files: by device and inode.
        names: how many names of each lie within.
    """

    files: Mapping[Inode, File]
    names: Mapping[Inode, int]

    @property
    def size(self) -> int:
        """Bytes of the disk that it takes."""
        return sum(file.size for file in self.files.values())

    def frees(self, *others: Content) -> int:
        """Bytes that its removal frees: of files that have no name elsewhere.

        Args:
            others: whose names of its files go with it.
        """
        return sum(
            file.size
            for inode, file in self.files.items()
            if sum(where.names.get(inode, 0) for where in (self, *others)) >= file.links
        )


def content_of(folder: Path) -> Content:
    """What lies in a folder; nothing where it is not there. What vanishes meanwhile is left out."""
    files: dict[Inode, File] = {}
    names: Counter[Inode] = Counter()
    for entry in _entries(str(folder)):
        with contextlib.suppress(FileNotFoundError):
            stat = entry.stat(follow_symlinks=False)
            inode = stat.st_dev, stat.st_ino
            # POSIX counts st_blocks in units of 512 bytes, whatever the file system has.
            # A folder's own links are its subfolders.
            links = 1 if entry.is_dir(follow_symlinks=False) else stat.st_nlink
            files[inode] = File(stat.st_blocks * 512, links)
            names[inode] += 1
    return Content(files, names)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder, the folder itself left out."""
    # What may not be read is left out: it is not ours.
    gone = (FileNotFoundError, NotADirectoryError, PermissionError)
    with contextlib.suppress(*gone), os.scandir(folder) as found:
        for entry in found:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)


def together(contents: Iterable[Content]) -> int:
    """Bytes that several folders take, what they share counted once."""
    files: dict[Inode, File] = {}
    for content in contents:
        files.update(content.files)
    return sum(file.size for file in files.values())
