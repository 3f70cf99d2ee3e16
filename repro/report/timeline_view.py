"""A bisection on the screen and as JSON."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from repro.report.as_json import outcome_object
from repro.report.timeline_words import legend, narrow, notes, retest, row, sentence
from repro.timeline import Bisection, Boundary, Point, Timeline

BISECT_SCHEMA = "repro.bisect/1"
_COLOURS = {"P": "green", "?": "magenta", "-": "yellow", ".": "dim"}


def bisection_view(bisection: Bisection) -> Group:
    """For each case its row, what the row says, a sentence a boundary, and how to test it again."""
    parts: list[RenderableType] = []
    for timeline in bisection.timelines:
        drawn = Text(f"{timeline.case}  ", style="bold")
        for mark in row(timeline):
            drawn.append(mark, style=_COLOURS.get(mark, "bold red"))
        parts.append(drawn)
        parts += [Text(f"  {line}") for line in legend(timeline)]
        parts += [Text(f"{line}.") for line in notes(timeline, bisection.good)]
        for boundary in timeline.boundaries:
            parts.append(Text(f"{sentence(timeline, boundary)}.", style="bold"))
            if hint := narrow(timeline, boundary):
                parts.append(Text(f"  {hint}"))
            parts.append(Text(f"  test it again: {retest(timeline.case, boundary)}"))
        parts.append(Text(""))
    parts.append(
        Text(f"{bisection.probes} probes, {bisection.installs} installs, {bisection.seconds:.0f} s")
    )
    return Group(*parts)


def _point(point: Point) -> dict[str, Any]:
    return {
        "version": point.version,
        "date": point.day.isoformat() if point.day else None,
        "git_version": point.git_version,
        "outcome": outcome_object(point.outcome),
    }


def _side(point: Point) -> dict[str, Any]:
    return {"version": point.version, "git_version": point.git_version}


def _boundary(boundary: Boundary) -> dict[str, Any]:
    return {
        "older": _side(boundary.older),
        "newer": _side(boundary.newer),
        "change": boundary.change,
        "from": outcome_object(boundary.older.outcome),
        "to": outcome_object(boundary.newer.outcome),
        "untested": list(boundary.untested),
        "confirmed": boundary.confirmed,
        "probability": boundary.probability,
    }


def _timeline(timeline: Timeline, good: str) -> dict[str, Any]:
    return {
        "case": timeline.case,
        "timeline": [_point(point) for point in timeline.points],
        "boundaries": [_boundary(boundary) for boundary in timeline.boundaries],
        "note": "; ".join(notes(timeline, good)) or None,
    }


def bisection_json(bisection: Bisection) -> str:
    """The object that `repro bisect --json` prints."""
    envelope: dict[str, Any] = {
        "schema": BISECT_SCHEMA,
        "good": bisection.good,
        "bad": bisection.bad,
        "cases": [_timeline(timeline, bisection.good) for timeline in bisection.timelines],
        "probes": bisection.probes,
        "installs": bisection.installs,
        "seconds": round(bisection.seconds, 3),
    }
    if bisection.interrupted:
        envelope["interrupted"] = True
    return json.dumps(envelope, indent=2, ensure_ascii=False)
