"""Small wheels: a stand-in torch whose behaviour is scripted, triton, and any other package."""

from __future__ import annotations

import base64
import csv
import io
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from tests.nightly_index.behaviour import PASSES, Behaviour
from tests.nightly_index.content import Content
from tests.nightly_index.zips import Member, compose, packed

STAND_IN = Path(__file__).parent / "stand_in"
_VERSION_FILE = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = {version!r}
debug = False
cuda: Optional[str] = {cuda!r}
git_version = {commit!r}
hip: Optional[str] = None
rocm: Optional[str] = None
xpu: Optional[str] = None
"""


@dataclass(frozen=True)
class Wheel:
    """A wheel that can be put up.

    Args:
        filename: not quoted: `torch-2.13.0.dev20260528+cpu-cp311-….whl`.
        metadata: its METADATA, which is also what a `.metadata` file would say.
        make: gives its bytes; called when they are first asked for, since most wheels never are.
    """

    filename: str
    metadata: bytes
    make: Callable[[], Content]

    @cached_property
    def content(self) -> Content:
        """Its bytes."""
        return self.make()

    @property
    def project(self) -> str:
        """The normalised name of its package."""
        return str(parse_wheel_filename(self.filename)[0])

    @property
    def version(self) -> Version:
        """The version in its file name."""
        return parse_wheel_filename(self.filename)[1]


def host_tag() -> str:
    """The tag of PyTorch's wheels for the interpreter that runs this, where it takes such wheels.

    On other platforms the first that the interpreter takes.
    """
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    taken = [str(tag) for tag in sys_tags()]
    usual = f"{python}-{python}-manylinux_2_28_{platform.machine()}"
    return usual if usual in taken else taken[0]


def digest(data: bytes) -> str:
    """Hash and size as a line of RECORD has them."""
    encoded = base64.urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={encoded},{len(data)}"


def with_record(members: Iterable[Member], digests: Mapping[str, str], folder: str) -> list[Member]:
    """The members with a RECORD as the last of them, where PyTorch's wheels have it too."""
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    for name, value in digests.items():
        write((name, *value.split(",")))
    write((f"{folder}/RECORD", "", ""))
    return [*members, packed(f"{folder}/RECORD", text.getvalue().encode())]


def make_wheel(
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    tag: str = "py3-none-any",
    requires: Iterable[str] = (),
    metadata_version: str | None = None,
) -> Wheel:
    """A wheel of these files.

    Args:
        version: in the file name and the name of the `.dist-info` folder.
        requires: values of Requires-Dist.
        metadata_version: the version that METADATA states, where it is to be another.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = "".join(
        [
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {metadata_version or version}\n",
            "Requires-Python: >=3.10\n",
            *(f"Requires-Dist: {requirement}\n" for requirement in requires),
        ]
    ).encode()
    pure = str(tag.endswith("-none-any")).lower()
    about = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    folder = f"{stem}.dist-info"
    everything = dict(files) | {f"{folder}/METADATA": metadata, f"{folder}/WHEEL": about.encode()}

    def make() -> Content:
        listed = {name: digest(data) for name, data in everything.items()}
        packs = [packed(name, data) for name, data in everything.items()]
        return compose(with_record(packs, listed, folder))

    return Wheel(f"{stem}-{tag}.whl", metadata, make)


def commit_of(version: str) -> str:
    """A commit for a version: 40 hexadecimal digits that differ from version to version."""
    return sha256(version.encode()).hexdigest()[:40]


def fake_torch(
    version: str,
    behaviour: Behaviour = PASSES,
    *,
    commit: str | None = None,
    inside: str | None = None,
    cuda: str | None = None,
    tag: str | None = None,
    requires: Iterable[str] = (),
    metadata_version: str | None = None,
) -> Wheel:
    """A torch of a few KB that runs a case through the guest to a scripted end.

    Args:
        commit: its `git_version`; None makes one up from the version.
        inside: what `torch/version.py` says, where that is to differ from the name.
        cuda: what `torch.version.cuda` says.
        tag: of the file name; None takes that of this interpreter.
    """
    stated = _VERSION_FILE.format(
        version=inside or version, cuda=cuda, commit=commit or commit_of(version)
    )
    files = {
        path.relative_to(STAND_IN).as_posix(): path.read_bytes()
        for path in sorted(STAND_IN.rglob("*.py"))
    }
    files["torch/version.py"] = stated.encode()
    files["torch/_behaviour.py"] = behaviour.source().encode()
    return make_wheel(
        "torch",
        version,
        files,
        tag=tag or host_tag(),
        requires=requires,
        metadata_version=metadata_version,
    )


def fake_triton(version: str, origin: str, name: str = "triton") -> Wheel:
    """A package that is imported as `triton`; `triton.ORIGIN` tells from which index it came."""
    source = f"__version__ = {version!r}\nORIGIN = {origin!r}\n"
    return make_wheel(name, version, {"triton/__init__.py": source.encode()}, tag=host_tag())


def days(first: date, last: date, missing: Iterable[date] = ()) -> list[date]:
    """Every day from the first to the last, both counted, without the missing ones."""
    count = (last - first).days + 1
    without = set(missing)
    return [day for n in range(count) if (day := first + timedelta(n)) not in without]


def nightly_version(day: date, release: str = "2.13.0", variant: str = "cpu") -> str:
    """`2.13.0.dev20260528+cpu`; no local version where the variant is empty, as on macOS."""
    local = f"+{variant}" if variant else ""
    return f"{release}.dev{day:%Y%m%d}{local}"


def fake_nightlies(
    dates: Iterable[date],
    behaviour: Callable[[date], Behaviour] = lambda day: PASSES,
    release: Callable[[date], str] = lambda day: "2.13.0",
    variant: str = "cpu",
) -> list[Wheel]:
    """One stand-in a day; `release` says of which branch cut, for the day it changes."""
    return [
        fake_torch(nightly_version(day, release(day), variant), behaviour(day)) for day in dates
    ]
