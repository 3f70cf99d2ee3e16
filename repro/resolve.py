"""Which build a spec means, asked of the indexes."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from repro.builds import Build, Choice, Origin, Spec, SpecKind, select
from repro.errors import Unavailable
from repro.index import Index, Listing
from repro.web import Unreachable

# An index lists the newest 60 versions and keeps the older files: how many days before the day that
# was asked for, and how many minor versions before the oldest that is listed, are tried by name.
_DAYS_TRIED, _SERIES_TRIED = 3, 5


@dataclass(frozen=True)
class Variants:
    """The variants to look for.

    Args:
        names: the best first.
        chosen: whether a person named it, so that no other may be taken instead.
    """

    names: tuple[str, ...]
    chosen: bool = False


def resolve(spec: Spec, index: Index, variants: Variants, say: Callable[[str], None]) -> Choice:
    """The build that a spec means now.

    Args:
        spec: of any kind but those that name an interpreter.
        say: is told where a build comes from when that is not where one would expect it.

    Raises:
        Unavailable: there is none, or the index cannot be asked.
    """
    if spec.kind in (SpecKind.URL, SpecKind.WHEEL):
        return Choice(_given(spec, index))
    if spec.variant is not None:
        variants = Variants((spec.variant,), chosen=True)
    if spec.is_nightly:
        return _first(spec, index, variants, index.nightlies, _hidden)
    return _release(spec, index, variants, say)


def _given(spec: Spec, index: Index) -> Build:
    """The wheel that a path or URL names."""
    url = Path(os.path.abspath(spec.value)).as_uri() if spec.kind is SpecKind.WHEEL else spec.value
    filename = unquote(urlsplit(url).path).rpartition("/")[2]
    _, version, _, tags = parse_wheel_filename(filename)
    if not tags & index.interpreter.tags().keys():
        raise Unavailable(
            f"{filename} is not for Python {index.interpreter.full} on this platform",
            "choose another Python with --python",
        )
    address, _, fragment = url.partition("#")
    digest = re.search(r"(?:^|&)sha256=([0-9a-fA-F]{64})(?:&|$)", fragment)
    if "sha256=" in fragment and digest is None:
        raise Unavailable(f"{filename}: its address states no whole sha256", "leave it away")
    sha256 = digest[1].lower() if digest else None
    if spec.kind is SpecKind.WHEEL:
        if not os.path.isfile(spec.value):
            raise Unavailable(f"{spec.value}: no such file", "name a wheel that is there")
        stat = os.stat(spec.value)
        stamp = f"{stat.st_size} {stat.st_mtime_ns}"
    else:
        stamp = index.web.stamp(url)
    return Build(version, filename, address, Origin.GIVEN, sha256=sha256, stamp=stamp)


def _first(
    spec: Spec,
    index: Index,
    variants: Variants,
    listing: Callable[[str], Listing],
    otherwise: Callable[[Spec, Index, Listing], Choice | None] | None = None,
) -> Choice:
    """The build in the first variant that has it; the first complaint where none has."""
    complaint: Unavailable | None = None
    for variant in variants.names:
        try:
            found = listing(variant)
            try:
                return select(spec, found.builds, found.withdrawn, found.place)
            except Unavailable:
                hidden = otherwise(spec, index, found) if otherwise else None
                if hidden is not None:
                    return hidden
                raise
        except Unreachable as error:
            # Its neighbours are on the same server.
            raise complaint or error from None
        except Unavailable as error:
            complaint = complaint or error
    assert complaint is not None, "no variant was asked for"
    raise complaint


def _release(spec: Spec, index: Index, variants: Variants, say: Callable[[str], None]) -> Choice:
    """A release: of the PyTorch index, which has every variant, else of the default index."""
    complaint: Unavailable | None = None
    if index.sources.has_pytorch_releases:
        try:
            return _first(spec, index, variants, index.releases)
        except Unavailable as error:
            if variants.chosen:
                raise
            complaint = error
    listing = index.default_releases()
    wanted = spec if not variants.chosen else replace(spec, variant=variants.names[0])
    choice = select(wanted, listing.builds, listing.withdrawn, listing.place)
    if complaint is not None:
        say(f"{complaint}; torch {choice.build.version} comes from the default index")
    return choice


def _hidden(spec: Spec, index: Index, listing: Listing) -> Choice | None:
    """A nightly that is listed no more but still served, found by its name."""
    listed = sorted(
        (build for build in listing.builds if build.is_nightly and build.day is not None),
        key=lambda build: build.version,
    )
    if not listed or spec.kind not in (SpecKind.DEV, SpecKind.DATE):
        return None
    model = listed[0]
    withdrawn = {build.version for build in listing.withdrawn}
    for version in _candidates(spec, model):
        name = version if model.version.local is None else f"{version}+{model.version.local}"
        build = _renamed(model, Version(name))
        if build.version not in withdrawn and index.web.exists(build.url):
            note = f"{build.filename} is listed no more; the server still has it"
            if spec.kind is SpecKind.DATE and build.day != date.fromisoformat(spec.value):
                note += f", and it is of {build.day}, the nearest earlier day"
            return Choice(build, note)
    return None


def _candidates(spec: Spec, oldest: Build) -> list[str]:
    """Versions that a hidden nightly may have, likeliest first."""
    if spec.kind is SpecKind.DEV:
        return [spec.value]
    wanted = date.fromisoformat(spec.value)
    major, minor = oldest.version.release[:2]
    days = [wanted - timedelta(back) for back in range(min(_DAYS_TRIED, wanted.toordinal()))]
    minors = range(minor, max(minor - _SERIES_TRIED, -1), -1)
    return [f"{major}.{m}.0.dev{d:%Y%m%d}" for d, m in itertools.product(days, minors)]


def _renamed(model: Build, version: Version) -> Build:
    """The same file of another version: everything else in its name and place is the same."""
    filename = model.filename.replace(str(model.version), str(version), 1)
    folder, _, last = model.url.rpartition("/")
    quoted = quote(unquote(last).replace(str(model.version), str(version), 1))
    return replace(
        model, version=version, filename=filename, url=f"{folder}/{quoted}", sha256=None,
        uploaded=None,
    )  # fmt: skip
