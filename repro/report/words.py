"""Runs in words: the pieces that screen, Markdown and JSON share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from repro.outcome import Kind, Outcome, Run
from repro.stages import ORDER

T = TypeVar("T")
LINE_LIMIT = 500
_KINDS = (Kind.FAIL, Kind.UNTESTABLE, Kind.UNSUPPORTED, Kind.PASS)


def mapped(value: T, change: Callable[[str], str]) -> T:
    """The same frozen data with every text in it changed (words of an enumeration stay)."""
    return _mapped(value, change)  # type: ignore[no-any-return]


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if type(value) is str:
        return change(value)
    if isinstance(value, tuple):
        return tuple(_mapped(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value,
            **{item.name: _mapped(getattr(value, item.name), change) for item in fields(value)},
        )
    return value


def in_order(runs: Iterable[Run]) -> list[Run]:
    """Failures by stage in pipeline order, then what could not be tested, unsupported, passes."""
    return sorted(
        runs,
        key=lambda run: (_KINDS.index(run.outcome.kind), ORDER.get(run.outcome.stage or "", 0)),
    )


def first_line(text: str | None) -> str:
    """The first line that says something, bounded: it stands in tables and sentences."""
    line = next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
    return line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]} [...]"


def build_words(run: Run) -> str:
    """`2.12.1 cu130`; the spec where the build never told its version."""
    if run.build.version is None:
        return run.build.spec
    version, _, local = run.build.version.partition("+")
    variant = run.build.variant or local
    return f"{version} {variant}".strip()


def what(outcome: Outcome) -> str:
    """What happened, in one line: exception or reason, with the pass and the backward named."""
    if outcome.kind in (Kind.UNSUPPORTED, Kind.UNTESTABLE):
        return outcome.reason or ""
    if outcome.kind is Kind.PASS:
        return "; ".join(outcome.notes)
    where = f" in {outcome.function}" if outcome.function else ""
    extra = [f"pass {outcome.pass_name}"] if outcome.pass_name else []
    if outcome.side == "backward":
        extra.append("backward")
    if outcome.rank is not None:
        extra.append(f"rank {outcome.rank}")
    inside = f" ({', '.join(extra)})" if extra else ""
    if outcome.exceptions:
        name = outcome.exceptions[-1].rpartition(".")[2]
        return f"{name}{where}{inside}" + (
            f": {line}" if (line := first_line(outcome.message)) else ""
        )
    return f"{first_line(outcome.message)}{where}{inside}"


def place(outcome: Outcome) -> str | None:
    """Where the innermost frame is, with its line."""
    if outcome.kind is not Kind.FAIL or not outcome.frames:
        return None
    frame = outcome.frames[-1]
    return f"{frame.file}:{frame.line}" if frame.line is not None else frame.file


def ladder_words(outcome: Outcome) -> str | None:
    """`eager pass, aot_eager pass, ..., inductor wrong_result`."""
    if not outcome.ladder:
        return None
    return ", ".join(f"{backend} {result}" for backend, result in outcome.ladder)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def sentences(runs: Sequence[Run], named: Callable[[Run], str] = build_words) -> list[str]:
    """One sentence a case that says where it fails, with which stage, and where it does not."""
    said = []
    for case in dict.fromkeys(run.case for run in runs):
        parts = []
        mine = [run for run in in_order(runs) if run.case == case]
        failed = [run for run in mine if run.outcome.kind is Kind.FAIL]
        for stage in dict.fromkeys(run.outcome.stage for run in failed):
            builds = _listed([named(r) for r in failed if r.outcome.stage == stage])
            parts.append(f"fails in {builds} at {stage}")
        for kind, words in (
            (Kind.PASS, "passes in"),
            (Kind.UNSUPPORTED, "is not supported by"),
            (Kind.UNTESTABLE, "could not be tested in"),
        ):
            builds = _listed([named(run) for run in mine if run.outcome.kind is kind])
            if builds:
                parts.append(f"{words} {builds}")
        said.append(f"{case} {'; '.join(parts)}.")
    return said
