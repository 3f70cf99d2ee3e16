"""The commands: parse, call, print."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro import __version__
from repro.case import Case, CaseError, case_files, find_cases, read_case
from repro.commands.bisect import bisect
from repro.commands.builds import builds, doctor, env
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
from repro.outcome import Run

if TYPE_CHECKING:
    from repro.supply import Settings

USAGE, READER_LEFT = 2, 141


class _ReaderLeft(Exception):
    """Whoever read our output has gone. click would make exit status 1 of a BrokenPipeError."""


class _Group(click.Group):
    def invoke(self, context: click.Context) -> Any:
        """Run the command, and see that all it printed has gone out."""
        try:
            status = super().invoke(context)
            sys.stdout.flush()
        except BrokenPipeError:
            raise _ReaderLeft from None
        return status


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="repro")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def group(debug: bool) -> None:
    """Run a torch.compile bug in many torch builds and say which compile stage raised it.

    Exit codes: 0 what could be tested passed, 1 a case failed, 125 nothing could be tested,
    2 usage, 130 interrupted, 141 the reader of the output left.
    """


@group.command()
@case_option
@click.option(
    "--build",
    "specs",
    multiple=True,
    metavar="SPEC",
    help="current, latest, 2.12.1, 2.12, nightly, 2026-05-28, 2.13.0.dev20260528, each but current "
    "also with +cpu and the like, the path of a Python or wheel, or the URL of a wheel; by default "
    "current where this Python has torch, else latest.",
)
@device_option
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME",
    help="Compile with this backend instead of the case's.",
)
@repeat_option
@timeout_option
@settings_options()
@cases_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (schema repro.run/1).")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Write Markdown that can be pasted into a GitHub issue.",
)
@click.pass_context
def run(
    context: click.Context,
    settings: Settings,
    names: Sequence[str],
    specs: Sequence[str],
    device: str | None,
    backends: Sequence[str],
    repeat: int,
    timeout: float | None,
    cases_dirs: Sequence[Path],
    as_json: bool,
    report: Path | None,
) -> None:
    """Run cases in torch builds and name the stage of each failure."""
    from repro.builds import parse_spec
    from repro.matrix import Plan, check_spec, default_specs, run_build
    from repro.outcome import exit_code
    from repro.process import adopt_orphans
    from repro.report.live import Live
    from repro.report.screen import console
    from repro.runner import removed_variables
    from repro.supply import Supply

    if report is not None and not report.absolute().parent.is_dir():
        raise ReproError(f"{report}: no such folder", "--report wants a file in a folder that is")
    cases = find_cases(names, folders(cases_dirs))
    builds = [check_spec(parse_spec(spec)) for spec in dict.fromkeys(specs)] or default_specs()
    plan = Plan(cases, builds, tuple(dict.fromkeys(backends)), device, timeout, repeat)
    narration = console(stderr=True)
    if ignored := removed_variables(os.environ):
        narration.print(f"not passed on to the runs: {', '.join(ignored)}")
    adopt_orphans()
    supply = Supply(settings, narrator(narration))
    redact = redaction()
    runs: list[Run] = []
    interrupted = False
    with Live(narration, plan.size) as live:
        try:
            for spec in plan.specs:
                for made in run_build(plan, spec, supply, lambda line: live.say(redact(line))):
                    runs.append(made)
                    live.step()
        except KeyboardInterrupt:
            interrupted = True
        except Exception:  # a fault of ours goes on up, but takes no finished run with it
            live.stop()
            _publish(cases, runs, settings, as_json, report, interrupted=True)
            raise
    _publish(cases, runs, settings, as_json, report, interrupted)
    if interrupted:
        narration.print(f"interrupted after {len(runs)} of {plan.size} runs")
        context.exit(INTERRUPTED)
    context.exit(exit_code(runs))


def _publish(
    cases: Sequence[Case],
    runs: Sequence[Run],
    settings: Settings,
    as_json: bool,
    report: Path | None,
    interrupted: bool,
) -> None:
    """Print the runs, and write the report, with everything foreign redacted."""
    from repro.doctor import Checks, collect
    from repro.interpreters import find_interpreter
    from repro.report.as_json import runs_json
    from repro.report.markdown import runs_markdown
    from repro.report.screen import console, runs_view, show
    from repro.report.words import mapped

    redact = redaction()
    clean = mapped(tuple(runs), redact)
    if as_json:
        click.echo(runs_json(clean, interrupted))
    elif clean:
        show(console(), runs_view(clean))
    if report is not None and clean:
        machine = collect(Checks(lambda: find_interpreter(settings.python)))
        text = runs_markdown(mapped(tuple(cases), redact), clean, mapped(machine, redact))
        try:
            report.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ReproError(f"{report}: {error.strerror or error}") from None


@group.command(name="list")
@cases_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (repro.list/1).")
def list_cases(cases_dirs: Sequence[Path], as_json: bool) -> None:
    """List the cases that can be found."""
    from repro.report.as_json import cases_json
    from repro.report.screen import cases_view, console, show

    found: list[Case] = []
    broken: list[CaseError] = []
    for path in case_files(folders(cases_dirs)).values():
        try:
            found.append(read_case(path))
        except CaseError as error:
            broken.append(error)
    if as_json:
        click.echo(cases_json(found))
    else:
        show(console(), cases_view(found))
    for complaint in broken:
        _complain(complaint)
    if broken:
        sys.exit(USAGE)


@group.command()
@click.argument("name")
@click.option(
    "--cases-dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("cases"),
    metavar="DIR",
    show_default=True,
    help="The folder that it is written to.",
)
def new(name: str, folder: Path) -> None:
    """Write a case that runs as it is, to be changed into yours."""
    from repro.scaffold import write_case

    path = write_case(name, folder)
    click.echo(path)
    where = "" if folder == Path("cases") else f" --cases-dir {folder}"
    click.echo(f"try it: python {path}, then repro run --case {name}{where}", err=True)


group.add_command(bisect)
group.add_command(builds)
group.add_command(env)
group.add_command(doctor)


def _complain(error: ReproError) -> None:
    redact = redaction()
    click.echo(f"error: {redact(str(error))}", err=True)
    if error.hint:
        click.echo(f"hint: {redact(error.hint)}", err=True)


def _terminated(*_: Any) -> None:
    """SIGTERM ends like Ctrl-C, so that no child outlives it."""
    raise KeyboardInterrupt


def main() -> None:
    """Entry point of the command `repro`."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    debug = "--debug" in sys.argv
    try:
        status = group.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except ReproError as error:
        if debug:
            raise
        _complain(error)
        sys.exit(USAGE)
    except (_ReaderLeft, BrokenPipeError):
        # Nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_LEFT)
    except OSError as error:
        if debug:
            raise
        name = error.filename or "output"
        _complain(ReproError(f"{name}: {error.strerror or error}", "look at the disk and rights"))
        sys.exit(USAGE)
    except Exception as error:
        if debug:
            raise
        click.echo(f"error: internal: {type(error).__name__}: {error}", err=True)
        click.echo("hint: repro --debug … shows where; please report it", err=True)
        sys.exit(USAGE)
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
