"""Runs as Markdown that can be pasted into a GitHub issue."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Sequence

from repro import __version__
from repro.case import Case
from repro.findings import REPORTED, Finding
from repro.outcome import Kind, Run
from repro.report.words import build_words, in_order, ladder_words, sentences, what

# GitHub refuses an issue body above this many characters.
LIMIT = 65_536
# What stands in a line; the log has the rest.
SPAN_LIMIT = 500
_LOG_STEPS = (20_000, 8_000, 3_000, 1_000, 0)


def fenced(text: str, language: str = "") -> str:
    """A code block that no run of backticks inside can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def span(text: str) -> str:
    """A code span in one line, safe in a table cell too."""
    line = re.sub(r"\s+", " ", text).strip()
    line = f"{line[:SPAN_LIMIT]} [...]" if len(line) > SPAN_LIMIT else line
    # A pipe after a backslash would end the cell: GitHub reads two backslashes as one.
    line = re.sub(r"\\(?=\|)", r"\\ ", line).replace("|", "\\|")
    if not line:
        return ""
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    if limit == 0:
        return f"[... {len(text)} characters left out to fit GitHub's limit ...]"
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"


def _bare(text: str) -> str:
    """One line inside HTML, where Markdown's own code spans mean nothing."""
    return html.escape(re.sub(r"\s+", " ", text)).replace("@", "&#64;")


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


def _failure(run: Run, log_limit: int) -> str:
    outcome = run.outcome
    lines = [f"### {span(run.case)} in {span(build_words(run))}, {outcome.stage}", ""]
    lines.append(f"- what: {span(what(outcome))}")
    if outcome.exceptions:
        lines.append(f"- exceptions, outermost first: {span(' > '.join(outcome.exceptions))}")
    lines.append(f"- signature: {span(outcome.signature or '')}")
    lines.append(f"- the stage rests on: {outcome.evidence}")
    if outcome.phases:
        lines.append(f"- torch's phases, outermost first: {span(' > '.join(outcome.phases))}")
    if ladder := ladder_words(outcome):
        lines.append(f"- by backend: {span(ladder)}")
    if outcome.frames:
        frames = "\n".join(f"{f.file}:{f.line} in {f.function}" for f in outcome.frames)
        lines += ["", "Innermost frames, the raising one last:", "", fenced(frames)]
    if run.log:
        lines += ["", _folded("Log", fenced(_shortened(run.log, log_limit)))]
    return "\n".join(lines)


def _table(runs: Sequence[Run]) -> str:
    rows = ["| outcome | stage | case | build | commit | device | what |", "|" + "---|" * 7]
    for run in in_order(runs):
        cells = (
            run.outcome.kind,
            run.outcome.stage or "",
            span(run.case),
            span(build_words(run)),
            span((run.build.git_version or "")[:12]),
            run.device or "",
            span(what(run.outcome)),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _reproduce(cases: Sequence[Case], runs: Sequence[Run]) -> str:
    worst = in_order(runs)[0]
    version = (worst.build.version or "").partition("+")[0]
    lines = [f"pip install torch{'==' if version else ''}{version} numpy setuptools"]
    lines += [f"python {case.name}.py" for case in cases]
    # The path of somebody's environment is of no use to anybody else; its version is.
    builds = dict.fromkeys(
        run.build.version.partition("+")[0]
        if run.build.version and "/" in run.build.spec
        else run.build.spec
        for run in runs
    )
    tool = " ".join(
        [
            "repro run",
            *(f"--case {case.name}" for case in cases),
            *(f"--build {shlex.quote(b)}" for b in builds),
        ]
    )
    return "\n\n".join(
        (fenced("\n".join(lines), "sh"), f"or with torch-compile-repro {__version__}:",
         fenced(tool, "sh"))
    )  # fmt: skip


def _versions(environment: Sequence[Finding]) -> str:
    """A line a thing that a maintainer asks for."""
    lines = (
        f"{finding.name}: {' '.join(finding.value.split())[:SPAN_LIMIT]}"
        for finding in environment
        if finding.name in REPORTED
    )
    return fenced("\n".join(lines))


def _compose(
    cases: Sequence[Case], runs: Sequence[Run], environment: Sequence[Finding], log_limit: int
) -> str:
    parts = [
        f"# {' / '.join(span(case.title) for case in cases)}",
        *sentences(runs, lambda run: span(build_words(run))),
        _table(runs),
    ]
    failures = [run for run in in_order(runs) if run.outcome.kind is Kind.FAIL]
    if failures:
        parts += ["## Error logs", *(_failure(run, log_limit) for run in failures)]
    others = [run for run in in_order(runs) if run.outcome.kind is Kind.UNTESTABLE and run.log]
    parts += [
        _folded(
            _bare(f"Log of {run.case} in {build_words(run)}, untestable"),
            fenced(_shortened(run.log, log_limit)),
        )
        for run in others
    ]
    parts += ["## How to reproduce", _reproduce(cases, runs)]
    for case in cases:
        parts += [f"## {span(case.name + '.py')}", fenced(case.source, "python")]
    if environment:
        parts += ["## Versions", _versions(environment)]
    return "\n\n".join(parts) + "\n"


def runs_markdown(
    cases: Sequence[Case], runs: Sequence[Run], environment: Sequence[Finding] = ()
) -> str:
    """The report of some runs. Logs are shortened first, and it says so, to fit GitHub's limit.

    Args:
        environment: what the machine has; those that a maintainer asks for are listed.
    """
    for log_limit in _LOG_STEPS:
        text = _compose(cases, runs, environment, log_limit)
        if len(text) <= LIMIT:
            break
    return text
