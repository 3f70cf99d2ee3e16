"""What a case does from build to build: plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from repro.outcome import Outcome


@dataclass(frozen=True)
class Point:
    """A case in one tested build.

    Args:
        position: place among all builds between the ends.
        git_version: the build's commit, where its torch told it.
    """

    position: int
    version: str
    day: date | None
    git_version: str | None
    outcome: Outcome


class Change(StrEnum):
    """What a boundary does to a case: the failure comes, it goes, or one thing becomes another."""

    BREAKS = "breaks"
    FIXES = "fixes"
    CHANGES = "changes"


@dataclass(frozen=True)
class Boundary:
    """Two neighbouring tested builds with different outcomes.

    Args:
        untested: versions between them, which may have brought the change as well.
        confirmed: whether both sides gave the same again.
        probability: that the change lies here, where the case is flaky.
    """

    older: Point
    newer: Point
    change: Change
    untested: tuple[str, ...] = ()
    confirmed: bool = False
    probability: float | None = None


@dataclass(frozen=True)
class Timeline:
    """A case over the builds that were tested, oldest first.

    Args:
        size: how many builds there are between the ends, both counted.
        note: sentences on what was asked and what is known of it.
    """

    case: str
    size: int
    points: tuple[Point, ...]
    boundaries: tuple[Boundary, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a bisection would take, if one thing changes for each case.

    Args:
        oldest, newest: versions of the ends.
        nightlies, releases: how many of each there are, the ends included.
        steps: how many builds the search looks at, at least and at most: the more the cases
            differ, the fewer builds serve several.
        missing: how many builds, of all that may be looked at, have no environment yet.
        wheel: bytes to download for one of these; None where that cannot be told.
    """

    oldest: str
    newest: str
    nightlies: int
    releases: int
    cases: int
    steps: tuple[int, int]
    missing: int
    wheel: int | None


@dataclass(frozen=True)
class Bisection:
    """What a bisection came to.

    Args:
        good, bad: versions of the ends.
        probes, installs: how many were made this time.
        interrupted: whether it was ended before it was finished.
    """

    good: str
    bad: str
    timelines: tuple[Timeline, ...]
    probes: int
    installs: int
    seconds: float
    interrupted: bool = False
