"""`repro bisect`: which build breaks or fixes each case."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repro.case import find_cases
from repro.commands.options import (
    INTERRUPTED,
    case_option,
    cases_dir_option,
    device_option,
    folders,
    narrator,
    redaction,
    repeat_option,
    settings_options,
    timeout_option,
)
from repro.errors import ReproError

if TYPE_CHECKING:
    from repro.bisect.bisection import Question
    from repro.bisect.candidates import Range
    from repro.builds import Build
    from repro.supply import Settings, Supply
    from repro.timeline import Bisection

FOUND, UNCHANGED, NOTHING_TESTED = 0, 1, 125


@click.command()
@case_option
@click.option("--good", required=True, metavar="SPEC", help="The build at one end.")
@click.option("--bad", required=True, metavar="SPEC", help="The build at the other end.")
@click.option(
    "--match",
    type=click.Choice(["stage", "signature", "any"]),
    default="stage",
    show_default=True,
    help="What makes two failures the same: stage and exception, the signature too, or nothing.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="Probes at once.")  # fmt: skip
@click.option(
    "--max-skips",
    type=click.IntRange(0),
    metavar="N",
    help="How many builds may turn out untestable around a change before it is left wide.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print how many builds and steps it would take, and how much to download.",
)
@click.option("--fresh", is_flag=True, help="Run again what is known from earlier.")
@repeat_option
@device_option
@click.option("--backend", metavar="NAME", help="Compile with this instead of the case's backend.")
@timeout_option
@settings_options()
@cases_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (repro.bisect/1).")
@click.pass_context
def bisect(
    context: click.Context,
    settings: Settings,
    names: Sequence[str],
    good: str,
    bad: str,
    match: str,
    jobs: int,
    max_skips: int | None,
    dry_run: bool,
    fresh: bool,
    repeat: int,
    device: str | None,
    backend: str | None,
    timeout: float | None,
    cases_dirs: Sequence[Path],
    as_json: bool,
) -> None:
    """Find the builds between two ends at which the outcome of a case changes.

    Breaks and fixes are both found, whichever end is good. Running the same command again goes on
    where it was ended.

    Exit codes: 0 a boundary was found, 1 nothing changes between the ends, 125 nothing could be
    tested, 2 usage, 130 interrupted.
    """
    from repro.bisect.bisection import Bisector, Question
    from repro.bisect.labels import Match
    from repro.bisect.work import Way, Worker
    from repro.gpu import find_driver
    from repro.process import adopt_orphans
    from repro.report.live import Live
    from repro.report.screen import console, show
    from repro.report.timeline_view import bisection_json, bisection_view
    from repro.report.timeline_words import plan_words
    from repro.report.words import mapped
    from repro.results import Results
    from repro.supply import Supply

    cases = tuple(find_cases(names, folders(cases_dirs)))
    narration = console(stderr=True)
    supply = Supply(settings, narrator(narration))
    redact = redaction()
    ends = _end(supply, "--good", good), _end(supply, "--bad", bad)
    driver = find_driver()
    way = Way(device, backend, timeout, driver.devices if driver else ())
    question = Question(cases, *ends, Match(match), repeat, jobs, max_skips)
    builds = _builds(supply, question)
    adopt_orphans()
    with Live(narration, 1) as live:
        worker = Worker(builds.builds, way, supply, Results(settings.folder / "results", fresh))
        bisector = Bisector(question, builds, worker, lambda line: live.say(redact(line)))
        if dry_run:
            click.echo("\n".join(plan_words(bisector.plan())))
            return
        answer = bisector.run()
    clean = mapped(answer, redact)
    if as_json:
        click.echo(bisection_json(clean))
    else:
        show(console(), bisection_view(clean))
    if answer.interrupted:
        command = shlex.join(["repro", *sys.argv[1:]])
        narration.print(f"interrupted; what is known is kept, to go on: {command}")
        context.exit(INTERRUPTED)
    context.exit(_status(answer))


def _end(supply: Supply, option: str, text: str) -> Build:
    from repro.builds import parse_spec

    spec = parse_spec(text)
    if spec.is_interpreter:
        raise ReproError(
            f"{option} {text}: this has no place among the builds of an index",
            "name a release, a date or nightly",
        )
    return supply.resolve(spec).build


def _builds(supply: Supply, question: Question) -> Range:
    from repro.bisect.candidates import between
    from repro.catalog import Wanted, available

    ends = question.good, question.bad
    # Between two nightlies of one release no release has its place.
    one = len({build.version.release for build in ends}) == 1 and all(b.is_nightly for b in ends)
    wanted = Wanted(nightlies=True, releases=not one)
    return between(*ends, available(supply.index, supply.variants, wanted, supply.say))


def _status(answer: Bisection) -> int:
    from repro.outcome import Kind

    if any(timeline.boundaries for timeline in answer.timelines):
        return FOUND
    tested = [
        point
        for timeline in answer.timelines
        for point in timeline.points
        if point.outcome.kind is not Kind.UNTESTABLE
    ]
    return UNCHANGED if tested else NOTHING_TESTED
