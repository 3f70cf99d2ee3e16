"""What `repro doctor` found, as a person reads it and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from repro.findings import Finding, State

DOCTOR_SCHEMA = "repro.doctor/1"
_STYLES = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "bold red"}


def _one_line(text: str) -> str:
    return " ".join(text.split())


def findings_view(findings: Sequence[Finding]) -> Group:
    """A line a thing; below what is not in order, what it prevents and how to mend it."""
    names = max((len(finding.name) for finding in findings), default=0)
    states = max(map(len, State))
    parts: list[RenderableType] = []
    for finding in findings:
        line = Text(finding.state.ljust(states), style=_STYLES[finding.state])
        line = Text.assemble(line, f"  {finding.name.ljust(names)}  {_one_line(finding.value)}")
        parts.append(line)
        for word, text in (("prevents", finding.prevents), ("mend", finding.mend)):
            if text:
                said = Text(f"{word}: {_one_line(text)}")
                parts.append(Padding(said, (0, 0, 0, states + 4), expand=False))
    return Group(*parts)


def findings_json(findings: Sequence[Finding]) -> str:
    """The object that `repro doctor --json` prints."""
    envelope = {"schema": DOCTOR_SCHEMA, "findings": [asdict(finding) for finding in findings]}
    return json.dumps(envelope, indent=2, ensure_ascii=False)
