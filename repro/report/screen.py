"""Runs as a person reads them: in a terminal, or plain and unwrapped in a file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from repro.case import Case
from repro.outcome import Kind, Run
from repro.report.words import build_words, in_order, ladder_words, place, sentences, what

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


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading not in ("what", "title"))
    return table


def runs_view(runs: Sequence[Run]) -> Group:
    """The table (failures by stage in pipeline order), then a sentence a case, then hints."""
    table = _table("outcome", "stage", "case", "build", "device", "time", "what")
    before = None
    many_backends = len({run.backend for run in runs}) > 1
    for run in in_order(runs):
        outcome = run.outcome
        group = (outcome.kind, outcome.stage)
        same = group == before
        before = group
        lines = [what(outcome), place(outcome), ladder_words(outcome)]
        if outcome.kind is Kind.FAIL:
            lines += outcome.notes
        backend = f" {run.backend}" if many_backends else ""
        table.add_row(
            Text("" if same else outcome.kind, style=_STYLES[outcome.kind]),
            Text("" if same else outcome.stage or ""),
            Text(run.case),
            Text(build_words(run)),
            Text((run.device or "") + backend),
            Text(_seconds(run)),
            Text("\n".join(line for line in lines if line)),
        )
    parts: list[RenderableType] = [table, Text("")]
    parts += [Text(sentence) for sentence in sentences(runs)]
    for hint in dict.fromkeys(run.outcome.hint for run in runs if run.outcome.hint):
        parts.append(Text(f"hint: {hint}"))
    return Group(*parts)


def cases_view(cases: Sequence[Case]) -> Table:
    """The table of `repro list`."""
    table = _table("case", "devices", "ranks", "title")
    for case in cases:
        table.add_row(
            Text(case.name), Text(", ".join(case.devices)), Text(str(case.ranks)), Text(case.title)
        )
    return table
