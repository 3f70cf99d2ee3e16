"""Which builds lie between two ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from repro.builds import Build, in_order
from repro.errors import ReproError


@dataclass(frozen=True)
class Range:
    """Builds in order, the ends included.

    Args:
        grid: positions of releases, which are looked at first where nothing seems to change.
    """

    builds: tuple[Build, ...]
    grid: tuple[int, ...]


def between(one: Build, other: Build, listed: Iterable[Build]) -> Range:
    """The builds from one end to the other: nightlies, and releases where none is listed.

    A release lies on a branch; where nightlies of main are listed on both sides of it, it says
    nothing that they do not.

    Raises:
        ReproError: the ends are one build.
    """
    older, newer = sorted((one, other), key=lambda build: build.version)
    if older.version == newer.version:
        raise ReproError(
            f"both ends are torch {older.version}", "name two builds with --good and --bad"
        )
    inside = [
        build
        for build in listed
        if older.version < build.version < newer.version and _comparable(build, older, newer)
    ]
    nightlies = [build.version for build in inside if build.is_nightly]
    kept = [
        build
        for build in inside
        if build.is_nightly or not nightlies or not min(nightlies) < build.version < max(nightlies)
    ]
    builds = in_order([older, *kept, newer])
    grid = tuple(place for place, build in enumerate(builds) if not build.is_nightly)
    return Range(tuple(builds), grid)


def _comparable(build: Build, older: Build, newer: Build) -> bool:
    """Whether a build is no other form of one of the ends (`2.12.1` and `2.12.1+cpu`)."""
    return build.version.public not in (older.version.public, newer.version.public)
