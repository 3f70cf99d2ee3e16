"""Real nightlies: a torch that is at hand, under other versions and with other Python files.

Nothing is compressed again and nothing is copied: a wheel is the headers of a zip file and ranges
of the wheel (or the installed files) that it was made from. Sixty of them need one base.
"""

from __future__ import annotations

import base64
import csv
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import distribution
from pathlib import Path

from tests.nightly_index.content import Content
from tests.nightly_index.wheels import Wheel, commit_of, digest, nightly_version, with_record
from tests.nightly_index.zips import Member, compose, members, packed, stored

# What an installer adds; it belongs to the environment, not to the wheel.
_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"}


@dataclass(frozen=True)
class Base:
    """What wheels are made from.

    Args:
        name: of the package.
        version: as its `.dist-info` folder has it.
        tag: of its file name.
        members: without RECORD, by name.
        digests: hash and size of each as RECORD has them.
        read: gives a member's bytes.
    """

    name: str
    version: str
    tag: str
    members: Mapping[str, Member]
    digests: Mapping[str, str]
    read: Callable[[str], bytes]

    @property
    def folder(self) -> str:
        """The name of the `.dist-info` folder."""
        return f"{self.name}-{self.version}.dist-info"

    def wheel(self) -> Wheel:
        """The wheel as it was."""
        return self._made(self.version, {})

    def renamed(
        self,
        version: str,
        replaced: Mapping[str, bytes] | None = None,
        *,
        commit: str | None = None,
        inside: str | None = None,
        metadata_version: str | None = None,
    ) -> Wheel:
        """A wheel of another version.

        Args:
            replaced: new text of files that the base has.
            commit: its `git_version`; None makes one up from the version.
            inside: what `torch/version.py` says, where that is to differ from the name.
            metadata_version: the same for METADATA.
        """
        changed = dict(replaced or {})
        if unknown := sorted(changed.keys() - self.members.keys()):
            raise ValueError(f"the base has no {unknown[0]}")
        about = f"{self.folder}/METADATA"
        stated = f"Version: {metadata_version or version}"
        changed[about] = _one_line(r"Version: .*", stated, self.read(about))
        file = f"{self.name}/version.py"
        if file in self.members and b"git_version" in (text := self.read(file)):
            text = _one_line(r"__version__\b.*", f"__version__ = {inside or version!r}", text)
            commit = commit or commit_of(version)
            changed[file] = _one_line(r"git_version\b.*", f"git_version = {commit!r}", text)
        return self._made(version, changed)

    def _made(self, version: str, changed: Mapping[str, bytes]) -> Wheel:
        folder = f"{self.name}-{version}.dist-info"
        about = f"{self.folder}/METADATA"
        metadata = changed.get(about) or self.read(about)

        def named(name: str) -> str:
            inside = name.startswith(f"{self.folder}/")
            return folder + name[len(self.folder) :] if inside else name

        def make() -> Content:
            new = {name: packed(named(name), data) for name, data in changed.items()}
            taken = [new.get(name) or _moved(at, named(name)) for name, at in self.members.items()]
            digests = dict(self.digests) | {name: digest(data) for name, data in changed.items()}
            listed = {named(name): digests[name] for name in self.members}
            return compose(with_record(taken, listed, folder))

        return Wheel(f"{self.name}-{version}-{self.tag}.whl", metadata, make)


def _moved(member: Member, name: str) -> Member:
    if member.name == name:
        return member
    return Member(
        name, member.data, member.method, member.crc, member.size, member.mode, member.date,
        member.time,
    )  # fmt: skip


def _one_line(pattern: str, line: str, text: bytes) -> bytes:
    changed, count = re.subn(f"(?m)^{pattern}$", lambda match: line, text.decode(), count=1)
    if not count:
        raise ValueError(f"no line matches {pattern!r}")
    return changed.encode()


def base_of_wheel(path: Path) -> Base:
    """From a wheel file, which stays where it is and must not change."""
    name, version, *_ = path.name.split("-")
    tag = path.name.removesuffix(".whl").split("-", 2)[2]
    folder = f"{name}-{version}.dist-info"
    found = {member.name: member for member in members(path)}
    record = found.pop(f"{folder}/RECORD")
    rows = csv.reader(_data(record).decode().splitlines())
    digests = {row[0]: ",".join(row[1:]) for row in rows}
    return Base(name, version, tag, found, digests, lambda name: _data(found[name]))


def _data(member: Member) -> bytes:
    with zipfile.ZipFile(compose([member]).open()) as archive:
        return archive.read(member.name)


def base_of_installed(name: str) -> Base:
    """From what is installed in this interpreter; every file is read once, for its checksum.

    Raises:
        importlib.metadata.PackageNotFoundError: it is not installed.
    """
    found: dict[str, Member] = {}
    digests: dict[str, str] = {}
    installed = distribution(name)
    folder = ""
    for file in installed.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue  # scripts, which installers make from entry points, and bytecode
        if file.parts[0].endswith(".dist-info"):
            folder = file.parts[0]
            if file.name in _INSTALLERS:
                continue
        path = Path(str(installed.locate_file(file)))
        member, hexadecimal = stored(file.as_posix(), path)
        found[member.name] = member
        encoded = base64.urlsafe_b64encode(bytes.fromhex(hexadecimal)).rstrip(b"=").decode()
        digests[member.name] = f"sha256={encoded},{member.size}"
    stem, _, version = folder.removesuffix(".dist-info").rpartition("-")
    about = _data(found[f"{folder}/WHEEL"]).decode()
    tag = _joined(re.findall(r"(?m)^Tag: *(\S+)$", about))
    # Installers and readers look for the .dist-info folder at the end of the file.
    order = sorted(found, key=lambda name: (name.startswith(f"{folder}/"), name))
    return Base(
        stem, version, tag, {name: found[name] for name in order}, digests,
        lambda name: _data(found[name]),
    )  # fmt: skip


def _joined(tags: Iterable[str]) -> str:
    """Several tags as a file name has them: the parts of each place joined by dots."""
    places = zip(*(tag.split("-") for tag in tags), strict=True)
    return "-".join(".".join(dict.fromkeys(place)) for place in places)


def nightlies(
    base: Base,
    dates: Iterable[date],
    replaced: Callable[[date], Mapping[str, bytes]] = lambda day: {},
    release: Callable[[date], str] = lambda day: "2.13.0",
    variant: str = "cpu",
) -> list[Wheel]:
    """One wheel a day; `replaced` gives the files of the base that read differently on a day."""
    return [
        base.renamed(nightly_version(day, release(day), variant), replaced(day)) for day in dates
    ]
