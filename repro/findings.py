"""What a machine has and lacks, as plain data: for `repro doctor` and for a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# What a maintainer asks for; disks and indexes say nothing about a bug.
REPORTED = (
    "platform",
    "cpu",
    "memory",
    "python",
    "interpreter",
    "uv",
    "compiler",
    "C compiler",
    "gpu",
    "driver",
)


class State(StrEnum):
    """How it stands with one thing."""

    OK = "ok"
    WARNING = "warning"  # all that does not need it runs
    MISSING = "missing"  # something that is usually wanted does not run


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Args:
        name: what it is.
        value: what is there, or what was found instead, in one line.
        prevents: what cannot be done without it, a sentence; None where nothing is wrong.
        mend: the next step, a command where there is one; None where nothing is wrong.
    """

    name: str
    state: State
    value: str
    prevents: str | None = None
    mend: str | None = None


def anything_missing(findings: Iterable[Finding]) -> bool:
    """Whether something has to be mended."""
    return any(finding.state is State.MISSING for finding in findings)
