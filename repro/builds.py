"""Builds of torch: what a person types for one, what an index offers, and which of them is meant.

Pure. Versions are compared as PEP 440 orders them, never as text: 2.9 is before 2.10, and a
release after the nightlies of its branch and before those of the next.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from repro.errors import ReproError, Unavailable


class SpecKind(StrEnum):
    """The forms of a spec."""

    CURRENT = "current"
    PATH = "path"
    WHEEL = "wheel"
    URL = "url"
    LATEST = "latest"
    NIGHTLY = "nightly"
    SERIES = "series"
    RELEASE = "release"
    DATE = "date"
    DEV = "dev"


@dataclass(frozen=True)
class Spec:
    """A build as it was asked for.

    Args:
        text: what was typed.
        value: the version (`2.12.1`, `2.12`, `2.13.0.dev20260528`), the date (`2026-05-28`), the
            path or the URL; the text itself for words.
        variant: `cpu`, `cu130`, ... where it was typed behind a `+`.
    """

    text: str
    kind: SpecKind
    value: str
    variant: str | None = None

    @property
    def is_nightly(self) -> bool:
        """Whether it asks for a nightly of the index."""
        return self.kind in (SpecKind.NIGHTLY, SpecKind.DATE, SpecKind.DEV)

    @property
    def is_interpreter(self) -> bool:
        """Whether it names a Python that has a torch, so that nothing is installed."""
        return self.kind in (SpecKind.CURRENT, SpecKind.PATH)


UNDERSTOOD = (
    "current, latest, a release (2.12.1), a series (2.12, its newest patch), nightly, "
    "a nightly's date (2026-05-28, nightly-2026-05-28) or version (2.13.0.dev20260528), "
    "each but current also with a variant (2.12.1+cpu), "
    "the path of a Python executable, virtual environment or torch wheel, or the URL of a wheel"
)
VARIANT = r"cpu|cu[0-9]{2,3}|rocm[0-9]+(?:\.[0-9]+)*|xpu"
_FORMS = (
    (SpecKind.LATEST, r"latest"),
    (SpecKind.NIGHTLY, r"nightly"),
    (SpecKind.SERIES, r"[0-9]+\.[0-9]+"),
    (SpecKind.RELEASE, r"[0-9]+\.[0-9]+\.[0-9]+"),
    (SpecKind.DEV, r"[0-9]+\.[0-9]+\.[0-9]+\.dev[0-9]{8}"),
    (SpecKind.DATE, r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
)


def parse_spec(text: str) -> Spec:
    """Read a spec.

    Raises:
        ReproError: lists what would have been understood.
    """
    word = text.strip()
    if word == "current":
        return Spec(word, SpecKind.CURRENT, word)
    if re.match(r"(?:https?|file)://", word, re.IGNORECASE):
        return _url(word)
    if word.endswith(".whl"):
        _named_torch(word, word)
        return Spec(word, SpecKind.WHEEL, str(_expanded(word)))
    plain, _, variant = word.partition("+")
    if variant == "" or re.fullmatch(VARIANT, variant):
        for kind, pattern in _FORMS:
            value = plain.removeprefix("nightly-") if kind is SpecKind.DATE else plain
            if re.fullmatch(pattern, value) and not word.endswith("+"):
                return Spec(word, kind, _checked(kind, value, word), variant or None)
    if "/" in word or word.startswith("~"):
        return Spec(word, SpecKind.PATH, str(_expanded(word)))
    raise ReproError(f"{text!r} names no build", f"understood: {UNDERSTOOD}")


def _url(word: str) -> Spec:
    try:
        parts = urlsplit(word)
        _ = parts.port
    except ValueError:
        raise ReproError(f"{word!r} is no URL", f"understood: {UNDERSTOOD}") from None
    _named_torch(without_credentials(word), unquote(parts.path))
    if parts.scheme == "file":
        return Spec(word, SpecKind.WHEEL, unquote(parts.path))
    return Spec(word, SpecKind.URL, word)


def _expanded(word: str) -> Path:
    try:
        return Path(word).expanduser()
    except RuntimeError:
        raise ReproError(f"{word!r}: no such home folder", "name the whole path") from None


def _named_torch(text: str, path: str) -> None:
    name = path.rpartition("/")[2]
    try:
        project = parse_wheel_filename(name)[0]
    except InvalidWheelFilename:
        raise ReproError(f"{text!r} names no wheel", f"understood: {UNDERSTOOD}") from None
    if project != "torch":
        raise ReproError(f"{text!r} is a wheel of {project}", "name a wheel of torch")


def _checked(kind: SpecKind, value: str, text: str) -> str:
    day = value if kind is SpecKind.DATE else ""
    if kind is SpecKind.DEV:
        day = value.rpartition(".dev")[2]
    try:
        if day:
            date.fromisoformat(day)
    except ValueError:
        raise ReproError(f"{text!r}: there is no such day", f"understood: {UNDERSTOOD}") from None
    return value


def version_and_commit(text: str) -> tuple[str, str | None]:
    """Version and commit out of the text of a `torch/version.py`, which is never run.

    Raises:
        ValueError: it states no version.
    """
    version = re.search(r"^__version__(?:\s*:\s*\w+)?\s*=\s*['\"](.+?)['\"]", text, re.MULTILINE)
    commit = re.search(r"^git_version(?:\s*:[^=]+)?\s*=\s*['\"](.+?)['\"]", text, re.MULTILINE)
    if version is None:
        raise ValueError("no __version__")
    try:
        Version(version[1])
    except InvalidVersion:
        raise ValueError(f"{version[1]!r} is no version") from None
    known = commit is not None and re.fullmatch(r"[0-9a-f]{7,40}", commit[1])
    return version[1], commit[1] if commit is not None and known else None


def variant_of(version: str | None, cuda: str | None, hip: str | None, xpu: str | None) -> str:
    """`cpu`, `cu130`, `rocm6.4`, `xpu`: the local version, else what `torch.version` says."""
    local = (version or "").partition("+")[2].partition(".git")[0]
    if re.fullmatch(VARIANT, local):
        return local
    if cuda:
        return "cu" + cuda.replace(".", "")
    if hip:
        return "rocm" + ".".join(hip.split(".")[:2])
    return "xpu" if xpu else "cpu"


def without_credentials(url: str) -> str:
    """The URL as it can be shown and kept: a signature stands in the query of one."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=netloc, query="", fragment=""))


def same_file(one: str, other: str) -> bool:
    """Whether two URLs name one file, however they are written."""

    def plain(url: str) -> tuple[str, str, str]:
        parts = urlsplit(without_credentials(url))
        return parts.scheme.lower(), parts.netloc.lower(), posixpath.normpath(unquote(parts.path))

    return plain(one) == plain(other)


def with_credentials(url: str, index: str) -> str:
    """The URL of a file with the credentials of its index, where both are on one host."""
    parts, place = urlsplit(url), urlsplit(index)
    given, at, host = place.netloc.rpartition("@")
    if not at or parts.netloc != host:
        return url
    return urlunsplit(parts._replace(netloc=f"{given}@{host}"))


class Origin(StrEnum):
    """Where a wheel comes from, which says where its triton may come from too."""

    PYTORCH = "PyTorch index"
    DEFAULT = "default index"
    GIVEN = "given"


@dataclass(frozen=True)
class Build:
    """One torch wheel that can be had.

    Args:
        version: as the file name has it, local part included.
        filename: not quoted.
        url: where it is (`https://`, `http://` or `file://`), quoted; may hold credentials.
        shelf: the variant of the page that lists it, `""` on a page of all variants.
        sha256: as the page states it.
        uploaded: the day on which it was put up, where the page tells.
        stamp: what tells two files at its address apart, where one may be put in another's place.
        preference: place of its tags in the interpreter's order; the smallest is the best fit.
    """

    version: Version
    filename: str
    url: str
    origin: Origin
    shelf: str = ""
    sha256: str | None = None
    uploaded: date | None = None
    preference: int = 0
    stamp: str = ""

    @property
    def identity(self) -> str:
        """What makes it another wheel, also where it was built again under its name."""
        return f"{without_credentials(self.url)} {self.sha256 or ''} {self.stamp}"

    @property
    def day(self) -> date | None:
        """The day of a nightly, by its version; of anything else the day it was put up."""
        if self.version.dev is None:
            return self.uploaded
        try:
            return datetime.strptime(str(self.version.dev), "%Y%m%d").date()
        except ValueError:
            return None

    @property
    def is_nightly(self) -> bool:
        """Whether it is a nightly, by its version."""
        return self.version.dev is not None

    @property
    def variant(self) -> str | None:
        """`cpu`, `cu130`: by its version, else by its page; None where neither tells."""
        local = self.version.local or ""
        return local if re.fullmatch(VARIANT, local) else self.shelf or None


@dataclass(frozen=True)
class Listed:
    """A build that exists.

    Args:
        git_version: its commit, where it was asked for and can be read.
    """

    build: Build
    git_version: str | None = None


def in_order(builds: Sequence[Build]) -> list[Build]:
    """Oldest first, each version once: the wheel that fits the interpreter best."""
    best: dict[Version, Build] = {}
    for build in builds:
        known = best.get(build.version)
        if known is None or build.preference < known.preference:
            best[build.version] = build
    return sorted(best.values(), key=lambda build: build.version)


@dataclass(frozen=True)
class Choice:
    """The build that a spec means.

    Args:
        note: what the person who typed the spec must know: that another day was taken, and why.
    """

    build: Build
    note: str | None = None


def select(
    spec: Spec,
    builds: Sequence[Build],
    withdrawn: Sequence[Build] = (),
    place: str = "for this Python and platform",
) -> Choice:
    """The build that a spec of an index means.

    Args:
        builds: what there is for the interpreter, in any order.
        withdrawn: what was yanked, so that it can be said.
        place: for what they were looked up, as the end of a complaint.

    Raises:
        Unavailable: none of them is meant.
    """
    ordered = [build for build in in_order(builds) if _fits(spec, build)]
    if spec.kind is SpecKind.DATE:
        return _nearest(spec, ordered)
    if ordered:
        return Choice(ordered[-1])
    if any(_fits(spec, build) for build in withdrawn):
        raise Unavailable(f"torch {spec.text} was withdrawn (yanked)", f"name another; {LOOK}")
    raise Unavailable(f"there is no torch {spec.text} {place}", LOOK)


LOOK = "`repro builds` lists what there is"


def _fits(spec: Spec, build: Build) -> bool:
    version = build.version
    if spec.is_nightly != build.is_nightly or (not build.is_nightly and version.is_prerelease):
        return False
    if spec.variant is not None and build.variant != spec.variant:
        return False
    if spec.kind is SpecKind.SERIES:
        return version.release[:2] == Version(spec.value).release
    if spec.kind in (SpecKind.RELEASE, SpecKind.DEV):
        return Version(version.public) == Version(spec.value)
    return spec.kind is not SpecKind.DATE or build.day is not None


def _nearest(spec: Spec, ordered: Sequence[Build]) -> Choice:
    """The nightly of a day; without one the nearest earlier, which is said."""
    wanted = date.fromisoformat(spec.value)
    earlier = [build for build in ordered if build.day is not None and build.day <= wanted]
    if not earlier:
        first = f"; the oldest that is listed is of {ordered[0].day}" if ordered else ""
        raise Unavailable(
            f"no nightly of {wanted} or earlier is listed{first}",
            f"{LOOK}; an older one can be had by its URL where the server still keeps it",
        )
    # Two branches can have a nightly on one day: the newer branch is main.
    found = max(earlier, key=lambda build: (build.day or date.min, build.version))
    if found.day == wanted:
        return Choice(found)
    return Choice(found, f"no nightly of {wanted}; the nearest earlier is of {found.day}")
