"""What a machine has and lacks, as plain data: for `repro doctor` and for a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Thing(StrEnum):
    """What is looked for. No plain text, which redaction changes where a host is called `gpu`."""

    PLATFORM = "platform"
    CPU = "cpu"
    MEMORY = "memory"
    PYTHON = "python"
    INTERPRETER = "interpreter"
    HEADERS = "headers"
    UV = "uv"
    TORCH = "torch"
    COMPILER = "compiler"
    C_COMPILER = "C compiler"
    GPU = "gpu"
    DRIVER = "driver"
    INDEX = "index"
    PYTORCH_INDEX = "pytorch index"
    DISK = "disk"
    CACHE = "cache"
    LINKS = "links"


# What a maintainer asks for; disks and indexes say nothing about a bug.
REPORTED = (
    Thing.PLATFORM,
    Thing.CPU,
    Thing.MEMORY,
    Thing.PYTHON,
    Thing.INTERPRETER,
    Thing.UV,
    Thing.COMPILER,
    Thing.C_COMPILER,
    Thing.GPU,
    Thing.DRIVER,
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

    name: Thing
    state: State
    value: str
    prevents: str | None = None
    mend: str | None = None


def anything_missing(findings: Iterable[Finding]) -> bool:
    """Whether something has to be mended."""
    return any(finding.state is State.MISSING for finding in findings)
