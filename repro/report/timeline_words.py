"""A bisection in words and in one row: what screen, Markdown and JSON share."""

from __future__ import annotations

import shlex
from itertools import groupby

from rich.filesize import decimal

from repro.outcome import Kind, Outcome
from repro.report.words import what
from repro.timeline import Boundary, Change, Plan, Point, Timeline

# One character a build; a failure of another kind than the first has the next letter.
UNTESTED, UNTESTABLE, UNSUPPORTED, PASS = ".", "?", "-", "P"
FAILURES = "FGHIJKLMNOQRSTUVWXYZ"
LOOKING = "looking for what changes between"


def short(outcome: Outcome) -> str:
    """An outcome in a few words: `pass`, `fail at post_grad_passes (AssertionError)`."""
    if outcome.kind is not Kind.FAIL:
        return str(outcome.kind)
    last = outcome.exceptions[-1].rpartition(".")[2] if outcome.exceptions else outcome.signal
    return f"fail at {outcome.stage}" + (f" ({last or outcome.how})" if last or outcome.how else "")


def row(timeline: Timeline) -> str:
    """The builds between the ends, a character each, oldest first."""
    letters: dict[str, str] = {}
    cells = [UNTESTED] * timeline.size
    for point in timeline.points:
        kind = point.outcome.kind
        if kind is Kind.FAIL:
            name = short(point.outcome)
            cells[point.position] = letters.setdefault(
                name, FAILURES[min(len(letters), len(FAILURES) - 1)]
            )
        else:
            cells[point.position] = {
                Kind.PASS: PASS, Kind.UNSUPPORTED: UNSUPPORTED, Kind.UNTESTABLE: UNTESTABLE,
            }[kind]  # fmt: skip
    return "".join(cells)


def legend(timeline: Timeline) -> list[str]:
    """What each character of the row stands for, with the builds that had it."""
    said = []
    drawn = row(timeline)
    marks = [(drawn[point.position], point) for point in timeline.points]
    for (mark, words), group in groupby(marks, key=lambda pair: (pair[0], short(pair[1].outcome))):
        versions = [point.version for _, point in group]
        reach = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        tested = "" if len(versions) < 2 else f", {len(versions)} tested"
        said.append(f"{mark} {words}: {reach}{tested}")
    return said


def _build(point: Point) -> str:
    commit = f" ({point.git_version[:12]})" if point.git_version else ""
    return f"{point.version}{commit}"


def _tried(timeline: Timeline, boundary: Boundary) -> int:
    """How many builds between the sides were tried, in vain."""
    reach = range(boundary.older.position + 1, boundary.newer.position)
    return sum(point.position in reach for point in timeline.points)


def sentence(timeline: Timeline, boundary: Boundary) -> str:
    """A boundary in one sentence, which names no single build where others are untested."""
    case, older, newer = timeline.case, boundary.older, boundary.newer
    before, after = short(older.outcome), short(newer.outcome)
    wide = bool(boundary.untested)
    where = f"between torch {_build(older)} and {_build(newer)}" if wide else (
        f"in torch {_build(newer)}"
    )  # fmt: skip
    if older.outcome.kind is Kind.UNSUPPORTED:
        some = f"some build {where}" if wide else f"torch {_build(newer)}"
        said = f"{case} can be run from {some} on: {after}{' in the newer' if wide else ''}"
    elif newer.outcome.kind is Kind.UNSUPPORTED:
        said = f"{case} cannot be run any more {where}: before, {before}"
    elif boundary.change is Change.BREAKS:
        said = f"{case} breaks {where}: {after}"
    elif boundary.change is Change.FIXES:
        said = f"{case} is fixed {where}: before, {before}"
    else:
        said = f"{case} changes {where}: {before}, then {after}"
    if not wide:
        said += f"; torch {_build(older)} is the one before"
    elif len(boundary.untested) == 1:
        said += f"; torch {boundary.untested[0]} between them is untested"
    else:
        first, last = boundary.untested[0], boundary.untested[-1]
        said += f"; the {len(boundary.untested)} builds between, {first} to {last}, are untested"
    if (tried := _tried(timeline, boundary)) and wide:
        said += f" ({tried} of them tried in vain)"
    if boundary.probability is not None:
        return f"{said}; probability {boundary.probability:.0%}"
    return said if boundary.confirmed else f"{said}; not confirmed by a second run"


def narrow(timeline: Timeline, boundary: Boundary) -> str | None:
    """How to narrow a boundary between whose sides untestable builds lie, None where none can."""
    tried = _tried(timeline, boundary)
    left = len(boundary.untested) - tried
    if not tried or not left or boundary.probability is not None:
        return None
    return f"try the other {left} too: the same command with --max-skips {len(boundary.untested)}"


def retest(case: str, boundary: Boundary) -> str:
    """The command that tests just the two sides of a boundary."""
    builds = " ".join(
        f"--build {shlex.quote(side.version)}" for side in (boundary.older, boundary.newer)
    )
    return f"repro run --case {shlex.quote(case)} {builds}"


def of_the_ends(timeline: Timeline, good: str) -> str | None:
    """What has to be said where the ends are not what they were said to be.

    Args:
        good: version of the end that was said to be good.
    """
    ends = [point for point in timeline.points if point.position in (0, timeline.size - 1)]
    if len(ends) < 2:
        return None  # it was interrupted before both were tested
    first, last = ends
    said = [
        f"torch {end.version} cannot run {timeline.case} ({what(end.outcome)})"
        if end.outcome.kind is Kind.UNSUPPORTED
        else f"torch {end.version} could not be tested ({what(end.outcome)})"
        for end in (first, last)
        if end.outcome.kind in (Kind.UNSUPPORTED, Kind.UNTESTABLE)
    ]
    fine, broken = (first, last) if first.version == good else (last, first)
    kinds = fine.outcome.kind, broken.outcome.kind
    if kinds == (Kind.FAIL, Kind.FAIL):
        alike = short(fine.outcome) == short(broken.outcome)
        said.append(f"both ends {short(fine.outcome)}") if alike else said.append(
            f"torch {fine.version}, named good, has a {short(fine.outcome)}, "
            f"torch {broken.version} a {short(broken.outcome)}"
        )
    elif kinds == (Kind.PASS, Kind.PASS):
        said.append("both ends pass")
    else:
        if fine.outcome.kind is Kind.FAIL:
            said.append(f"torch {fine.version}, named good, has a {short(fine.outcome)}")
        if broken.outcome.kind is Kind.PASS:
            fixed = ": already fixed" if broken is last else ""
            said.append(f"torch {broken.version} passes{fixed}")
    return f"{timeline.case}: {'; '.join(said)}" if said else None


def notes(timeline: Timeline, good: str) -> list[str]:
    """What has to be said about the ends, and of a timeline without boundary."""
    if not timeline.points:
        return [f"{timeline.case}: no build was tested"]
    ends = of_the_ends(timeline, good)
    said = [ends] if ends else []
    able = [p for p in timeline.points if p.outcome.kind in (Kind.PASS, Kind.FAIL)]
    if ends and timeline.points[0].outcome.kind is Kind.UNSUPPORTED and able:
        said.append(f"the first tested build that can is torch {able[0].version}")
    if not timeline.boundaries:
        said.append(f"nothing changes among the {len(timeline.points)} builds that were tested")
    return [*said, *timeline.notes]


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def plan_words(plan: Plan) -> list[str]:
    """What a bisection would take, a line each for builds, steps and download."""
    size = plan.nightlies + plan.releases
    least, most = plan.steps
    steps = str(least) if least == most else f"{least} to {most}"
    lines = [
        f"{size} builds from {plan.oldest} to {plan.newest}: "
        f"{_counted(plan.nightlies, 'nightly', 'nightlies')}, "
        f"{_counted(plan.releases, 'release', 'releases')}",
        f"{_counted(plan.cases, 'case', 'cases')}, {steps} builds to look at if one thing "
        "changes for each, and a second run on both sides of it",
    ]
    count = min(most, plan.missing)
    if not most:
        return [lines[0], "everything is known: running it again tests nothing"]
    if not count:
        return [*lines, "nothing to download: the environments are there"]
    if plan.wheel is None:
        wheels = _counted(count, "wheel of torch", "wheels of torch")
        return [*lines, f"{wheels} to download; the index does not tell the size"]
    return [
        *lines,
        f"about {decimal(count * plan.wheel)} to download: up to "
        f"{_counted(count, 'wheel of torch', 'wheels of torch')} of "
        f"{decimal(plan.wheel)}, and once what they depend on",
    ]
