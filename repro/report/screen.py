"""Runs as a person reads them: in a terminal, or plain and unwrapped in a file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from repro.case import Case
from repro.outcome import Kind, Run
from repro.report.words import build_words, in_order, ladder_words, place, sentences, what
from repro.stages import TITLE

_STYLES = {
    Kind.PASS: "green",
    Kind.FAIL: "bold red",
    Kind.UNSUPPORTED: "yellow",
    Kind.UNTESTABLE: "magenta",
}
# Wide enough for every line that this package writes; a line is as long as what it says.
_UNBOUNDED = 100_000


def console(stderr: bool = False) -> Console:
    """A console whose output off a terminal is plain: no wrapping, no colour, no markup."""
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(
        stderr=stderr, markup=False, emoji=False, highlight=False, width=_UNBOUNDED, no_color=True
    )  # fmt: skip


def show(to: Console, content: RenderableType) -> None:
    """Print, without the blanks with which tables fill their lines."""
    if to.is_terminal:
        to.print(content)
        return
    with to.capture() as captured:
        to.print(content)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    to.file.write("\n".join(lines) + "\n")
    to.file.flush()


def _seconds(run: Run) -> str:
    return "" if run.seconds.total is None else f"{run.seconds.total:.1f} s"


def table_of(*headings: str) -> Table:
    """An empty table whose lines paste well."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading != "title")
    return table


def _details(run: Run) -> list[str]:
    outcome = run.outcome
    lines = [what(outcome), place(outcome), ladder_words(outcome)]
    if outcome.kind is Kind.FAIL:
        lines += outcome.notes
    return [line for line in lines if line]


def runs_view(runs: Sequence[Run]) -> Group:
    """Failures by stage in pipeline order, then the rest, then a sentence a case, then hints."""
    ordered = in_order(runs)
    many_backends = len({run.backend for run in runs}) > 1
    rows = [
        (
            run.case,
            build_words(run),
            (run.device or "") + (f" {run.backend}" if many_backends else ""),
            _seconds(run).rjust(8),
        )
        for run in ordered
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    parts: list[RenderableType] = []
    before = None
    for run, row in zip(ordered, rows, strict=True):
        kind, stage = run.outcome.kind, run.outcome.stage
        if (kind, stage) != before:
            heading = f"{kind} at {stage}: {TITLE[stage]}" if stage in TITLE else str(kind)
            parts.append(Text(heading, style=_STYLES[kind]))
            before = (kind, stage)
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        parts.append(Text("  " + "  ".join(cells).rstrip()))
        parts += [Padding(Text(line), (0, 0, 0, 6), expand=False) for line in _details(run)]
    parts.append(Text(""))
    parts += [Text(sentence) for sentence in sentences(runs)]
    for hint in dict.fromkeys(run.outcome.hint for run in runs if run.outcome.hint):
        parts.append(Text(f"hint: {hint}"))
    return Group(*parts)


def cases_view(cases: Sequence[Case]) -> Table:
    """The table of `repro list`."""
    table = table_of("case", "devices", "ranks", "title")
    for case in cases:
        table.add_row(
            Text(case.name), Text(", ".join(case.devices)), Text(str(case.ranks)), Text(case.title)
        )
    return table
