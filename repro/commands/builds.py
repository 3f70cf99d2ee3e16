"""`repro builds`, `repro env` and `repro doctor`: what there is to run cases in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

import click

from repro.commands.options import (
    max_size_option,
    narrator,
    redaction,
    settings_options,
)

if TYPE_CHECKING:
    from repro.environments import Environments
    from repro.supply import Settings

_DAY = click.DateTime(formats=["%Y-%m-%d"])


def _day(value: datetime | None) -> date | None:
    return value.date() if value else None


@click.command()
@click.option("--since", type=_DAY, metavar="DATE", help="Leave out what is older.")
@click.option("--until", type=_DAY, metavar="DATE", help="Leave out what is newer.")
@click.option("--releases", "only", flag_value="releases", help="Releases alone.")
@click.option("--nightlies", "only", flag_value="nightlies", help="Nightlies alone.")
@click.option("--commits", is_flag=True, help="Read each build's commit out of its wheel.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (repro.builds/1).")
@settings_options(max_size=False)
def builds(
    settings: Settings,
    since: datetime | None,
    until: datetime | None,
    only: str | None,
    commits: bool,
    as_json: bool,
) -> None:
    """List the builds of torch that can be named, for one Python and variant."""
    from repro.builds import Listed
    from repro.catalog import Wanted, available, with_commits
    from repro.report.listing import builds_json, builds_view
    from repro.report.live import Live
    from repro.report.screen import console, show
    from repro.supply import Supply

    narration = console(stderr=True)
    wanted = Wanted(only != "releases", only != "nightlies", _day(since), _day(until))
    supply = Supply(settings, narrator(narration))
    found = available(supply.index, supply.variants, wanted, supply.say)
    if not found:
        supply.say(f"nothing is listed for Python {supply.interpreter.full} on this platform")
    listed = [Listed(build) for build in found]
    if commits:
        listed = []
        with Live(narration, len(found)) as live:
            for one in with_commits(found, supply.reader, supply.say):
                listed.append(one)
                live.step()
                live.say(f"read {one.build.filename}")
    if as_json:
        click.echo(builds_json(listed))
    else:
        show(console(), builds_view(listed, commits))


@click.group()
def env() -> None:
    """Look at the environments that runs are made in, and remove them."""


_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _environments() -> Environments:
    from repro.environments import Environments, cache_folder

    return Environments(cache_folder())


@env.command(name="list")
@_JSON
def list_environments(as_json: bool) -> None:
    """List the environments, the last used first (repro.environments/1)."""
    from repro.report.listing import environments_json, environments_view
    from repro.report.screen import console, show

    environments = _environments()
    found, size = environments.all(), environments.size()
    if as_json:
        click.echo(environments_json(found, size))
    else:
        show(console(), environments_view(found, size))


@env.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: Sequence[str]) -> None:
    """Remove environments, named as `repro env list` shows them."""
    from repro.report.listing import removed_words

    environments = _environments()
    for name in names:
        click.echo(removed_words(environments.remove(name)))


@env.command()
@max_size_option
def prune(max_size: str) -> None:
    """Remove leftovers, then whole environments, the least recently used first, until the rest is
    within --max-size."""
    from repro.disk import parse_size
    from repro.report.listing import removed_words

    for removed in _environments().prune(parse_size(max_size)):
        click.echo(removed_words(removed))
    click.echo(
        "uv's cache may still hold their files: `uv cache prune` frees what nothing uses", err=True
    )


@click.command()
@_JSON
@settings_options()
@click.pass_context
def doctor(context: click.Context, settings: Settings, as_json: bool) -> None:
    """Say what is there to run cases with, what each missing thing prevents, and how to mend it.

    Exit codes: 0 nothing is missing, 1 something is.
    """
    from repro.doctor import Cache, Checks, collect
    from repro.findings import anything_missing
    from repro.interpreters import find_interpreter
    from repro.report.diagnosis import findings_json, findings_view
    from repro.report.screen import console, show
    from repro.report.words import mapped
    from repro.supply import described

    checks = Checks(
        interpreter=lambda: find_interpreter(settings.python),
        index=lambda: described(settings, settings.sources.default),
        pytorch_index=lambda: described(settings, settings.nightly_index),
        cache=Cache(settings.folder, _environments().size(), settings.max_size),
    )
    findings = mapped(collect(checks), redaction())
    if as_json:
        click.echo(findings_json(findings))
    else:
        show(console(), findings_view(findings))
    context.exit(int(anything_missing(findings)))
