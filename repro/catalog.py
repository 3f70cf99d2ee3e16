"""What exists: the builds that `repro builds` lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from repro.builds import Build, Listed, in_order
from repro.contents import Reader
from repro.errors import Unavailable
from repro.index import Index, Listing
from repro.resolve import Variants
from repro.web import Unreachable

# Each read is three small requests that mostly wait for the server.
READ_AT_ONCE = 8


@dataclass(frozen=True)
class Wanted:
    """Which builds to list.

    Args:
        since, until: days, both counted; a build whose day is not known is left out.
    """

    nightlies: bool = True
    releases: bool = True
    since: date | None = None
    until: date | None = None

    def asks_for(self, build: Build) -> bool:
        """Whether the build is of a kind that is wanted."""
        return self.nightlies if build.is_nightly else self.releases

    def admits(self, build: Build) -> bool:
        """Whether the build's day is within."""
        if self.since is None and self.until is None:
            return True
        day = build.day
        return day is not None and (self.since or day) <= day <= (self.until or day)


def available(
    index: Index, variants: Variants, wanted: Wanted, say: Callable[[str], None]
) -> list[Build]:
    """The builds there are for the interpreter, oldest first.

    Args:
        say: is told of an index that could not be asked while another could.

    Raises:
        Unavailable: no index could be asked.
    """
    found: list[Build] = []
    complaints: list[Unavailable] = []
    pages: list[Callable[[str], Listing]] = []
    if wanted.nightlies:
        pages.append(index.nightlies)
    named = not index.sources.has_pytorch_releases
    if wanted.releases and not named:
        pages.append(index.releases)
    asked = 0
    for page in pages:
        listing = _first_page(page, variants, complaints)
        if listing is not None:
            asked += 1
            found += listing.builds
    # What the PyTorch index lists stands for all: the default index has the same and no variants.
    has_releases = any(not build.is_nightly for build in found)
    if wanted.releases and not has_releases and (named or not variants.chosen):
        try:
            builds = index.default_releases().builds
            asked += 1
            # As `resolve` has it: what was chosen is not replaced by what tells no variant.
            found += [b for b in builds if not variants.chosen or b.variant in variants.names]
        except Unavailable as error:
            complaints.append(error)
    if not asked and complaints:
        raise complaints[0]
    for complaint in complaints:
        say(str(complaint))
    stable = [build for build in found if build.is_nightly or not build.version.is_prerelease]
    shown = in_order([build for build in stable if wanted.asks_for(build)])
    admitted = [build for build in shown if wanted.admits(build)]
    if unknown := sum(build.day is None and not wanted.admits(build) for build in shown):
        say(f"{unknown} builds whose day the index does not tell are left out")
    return admitted


def _first_page(
    page: Callable[[str], Listing], variants: Variants, complaints: list[Unavailable]
) -> Listing | None:
    for variant in variants.names:
        try:
            return page(variant)
        except Unreachable as error:
            complaints.append(error)
            return None
        except Unavailable as error:
            if variant == variants.names[-1]:
                complaints.append(error)
    return None


def with_commits(
    builds: Sequence[Build], reader: Reader, say: Callable[[str], None]
) -> Iterator[Listed]:
    """The builds with their commits, read out of the wheels; what cannot be read is said."""

    def read(build: Build) -> tuple[str | None, str | None]:
        try:
            contents = reader.read(build)
        except Unavailable as error:
            return None, str(error)
        if contents is None:
            return None, f"{build.filename}: the server gives no parts of files"
        return contents.git_version, None

    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        for build, (commit, complaint) in zip(builds, pool.map(read, builds), strict=True):
            if complaint is not None:
                say(complaint)
            yield Listed(build, commit)
