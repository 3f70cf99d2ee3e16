"""Zip files whose members keep the compressed bytes that they have in another file.

`zipfile` can only write a member by compressing it again, half a minute for a torch wheel. Here the
headers are written anew and the data stays where it is, as a range of the file that has it.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tests.nightly_index.content import CHUNK, Content, Part, Piece, size_of

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s2B5H3L5HL")  # without the offset, its last field
_END = struct.Struct("<4s4H2LH")
_NEEDS, _UNIX, _UTF8 = 20, 3, 0x800
_ENCRYPTED = 0x1
# 1980-01-01, the first date of the format: bytes do not depend on when they were made.
_DATE, _TIME = (1 << 5) | 1, 0
_LIMIT_32, _LIMIT_16 = 0xFFFFFFFF, 0xFFFF


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a zip.

    Args:
        data: the bytes as they lie in the zip, so compressed by `method`.
        crc: of the bytes before compression, as is `size`.
    """

    name: str
    data: Part
    method: int
    crc: int
    size: int
    mode: int = 0o644
    date: int = _DATE
    time: int = _TIME
    header: bytes = field(init=False, repr=False)
    entry: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Write both headers once: thousands of members are shared by all wheels of a base."""
        stored = size_of(self.data)
        if max(stored, self.size) >= _LIMIT_32:
            raise ValueError(f"{self.name}: 4 GB and more need zip64, which is not written here")
        name = self.name.encode()
        flags = 0 if self.name.isascii() else _UTF8
        common = (flags, self.method, self.time, self.date, self.crc, stored, self.size)
        header = _LOCAL.pack(b"PK\x03\x04", _NEEDS, *common, len(name), 0) + name
        attributes = (stat.S_IFREG | self.mode) << 16
        entry = _CENTRAL.pack(
            b"PK\x01\x02", _NEEDS, _UNIX, _NEEDS, *common, len(name), 0, 0, 0, 0, attributes
        )
        object.__setattr__(self, "header", header)
        object.__setattr__(self, "entry", entry)


def packed(name: str, data: bytes, compress: bool = True, mode: int = 0o644) -> Member:
    """A member made of bytes; level 1, since RECORD of torch is more than a megabyte."""
    crc = zlib.crc32(data)
    if not compress:
        return Member(name, data, zipfile.ZIP_STORED, crc, len(data), mode)
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    raw = deflate.compress(data) + deflate.flush()
    return Member(name, raw, zipfile.ZIP_DEFLATED, crc, len(data), mode)


def stored(name: str, path: Path) -> tuple[Member, str]:
    """A member that lies uncompressed in a file of its own, and the file's sha256."""
    crc, digest, size = 0, sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            crc = zlib.crc32(chunk, crc)
            digest.update(chunk)
            size += len(chunk)
        mode = 0o755 if os.fstat(file.fileno()).st_mode & stat.S_IXUSR else 0o644
    return Member(name, Piece(path, 0, size), zipfile.ZIP_STORED, crc, size, mode), (
        digest.hexdigest()
    )


def members(path: Path) -> Iterator[Member]:
    """The members of a zip file, in the order in which they lie in it.

    Raises:
        ValueError: a member is encrypted or needs zip64.
    """
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
            if info.is_dir():
                continue
            if info.flag_bits & _ENCRYPTED:
                raise ValueError(f"{path}: {info.filename} is encrypted")
            file.seek(info.header_offset)
            *_, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
            # The local name and extra field need not be as long as those of the directory. What
            # lies behind the data, a data descriptor (flag bit 3), is not needed: sizes are known.
            data = Piece(path, info.header_offset + _LOCAL.size + name + extra, info.compress_size)
            year, month, day, hour, minute, second = info.date_time
            yield Member(
                info.filename,
                data,
                info.compress_type,
                info.CRC,
                info.file_size,
                (info.external_attr >> 16) & 0o777 or 0o644,
                (year - 1980) << 9 | month << 5 | day,
                hour << 11 | minute << 5 | second // 2,
            )


def compose(files: Iterable[Member]) -> Content:
    """The zip file of these members.

    Raises:
        ValueError: it would need zip64.
    """
    parts: list[Part] = []
    directory: list[bytes] = []
    at = 0
    for member in files:
        if at >= _LIMIT_32:
            raise ValueError("a zip file of 4 GB and more needs zip64, which is not written here")
        directory += (member.entry, struct.pack("<L", at), member.name.encode())
        parts += (member.header, member.data)
        at += len(member.header) + size_of(member.data)
    count, size = len(directory) // 3, sum(map(len, directory))
    if count >= _LIMIT_16 or at >= _LIMIT_32:
        raise ValueError(f"a zip file of {count} files and {at} bytes needs zip64")
    directory.append(_END.pack(b"PK\x05\x06", 0, 0, count, count, size, at, 0))
    return Content((*parts, b"".join(directory)))
