"""What happened when a case ran in a build: plain frozen data, no behaviour beyond reading it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What happened. Only `PASS` and `FAIL` say something about the build."""

    PASS = "pass"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"
    UNTESTABLE = "untestable"


class How(StrEnum):
    """How a run that did not pass came to its end.

    `KILLED` is an end that no exception, fatal signal or time-out explains: SIGKILL from outside,
    or a process that left by itself (`os._exit`) before the case was finished.
    """

    EXCEPTION = "exception"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    WRONG_RESULT = "wrong_result"
    KILLED = "killed"


class Side(StrEnum):
    """Which graph was being compiled or run."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Evidence(StrEnum):
    """What a stage rests on, best first.

    `PHASE`: torch's own phase events, tied to the exception by identity (for a crash or a time-out:
    the phases still open). `FRAMES`: files and functions of the traceback. `LADDER`: the first
    backend of eager, aot_eager, aot_eager_decomp_partition, inductor that fails. `MESSAGE`: class
    and text alone. `PROCESS`: which step of the run the process was in. `NONE`: nothing, so the
    stage is `unknown`.
    """

    PHASE = "phase"
    FRAMES = "frames"
    LADDER = "ladder"
    MESSAGE = "message"
    PROCESS = "process"
    NONE = "none"


@dataclass(frozen=True)
class Frame:
    """One traceback entry.

    Args:
        file: path with the machine's own folders taken off: `torch/_inductor/graph.py`,
            `<case>/name.py`, `<generated>/abc.py`, or an absolute path for anything else.
        line: 1-based, or None where a pasted log has none.
        function: the code object's name.
    """

    file: str
    line: int | None
    function: str


@dataclass(frozen=True)
class Raised:
    """One exception of a chain.

    Args:
        type: qualified name, builtins without their module (`AssertionError`,
            `torch._inductor.exc.InductorError`).
        bases: qualified names of its other classes, in method resolution order.
        message: `str(exception)`, bounded by the guest.
        frames: its own traceback, outermost first.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    bases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds; None for a part that was not reached.

    `eager` is the eager references (twice, two seeds), `compile` the compiled calls of both seeds
    with their backward, `total` the probe as the host saw it, installation included.
    """

    install: float | None = None
    import_: float | None = None
    eager: float | None = None
    compile: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What one run of one case came to.

    Args:
        stage: a stage id of `repro.stages.STAGES`; None for a pass.
        pass_name: torch's name of the pass that raised, where torch gives one (2.11 and newer).
        exceptions: qualified type names, outermost first.
        function: the function that raised the innermost exception.
        signature: what makes two failures the same bug (`repro.classify.signature`).
        reason: the sentence behind `unsupported` and `untestable`; for others None.
        hint: what the reader can do about the reason, where there is something to do.
        phases: torch's phases that were open, outermost first.
        frames: the innermost frames, innermost last.
        ladder: backend -> what it came to (`pass`, `fail`, ...), where the ladder was climbed.
        signal: name of the fatal signal (`SIGSEGV`).
        rank: the rank that failed first, where there is more than one.
        notes: sentences a reader must know and that change no verdict.
    """

    kind: Kind
    stage: str | None = None
    pass_name: str | None = None
    side: Side | None = None
    how: How | None = None
    exceptions: tuple[str, ...] = ()
    message: str | None = None
    function: str | None = None
    signature: str | None = None
    evidence: Evidence = Evidence.NONE
    reason: str | None = None
    hint: str | None = None
    phases: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    ladder: tuple[tuple[str, str], ...] = ()
    signal: str | None = None
    rank: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildInfo:
    """The torch that was really run, as it says itself.

    Args:
        spec: what was asked for.
        variant: `cpu`, `cu130`, `rocm6.4`, ...
        git_version: commit of the pytorch repository.
        python: version of the interpreter that ran it.
    """

    spec: str
    version: str | None = None
    variant: str | None = None
    git_version: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Run:
    """One probe, with everything that a report says about it."""

    case: str
    build: BuildInfo
    device: str | None
    backend: str
    repeat: int
    outcome: Outcome
    seconds: Seconds = field(default_factory=Seconds)
    log: str = ""


# Exit statuses of the command; 125 is what `git bisect run` takes for "cannot be tested".
PASSED, FAILED, NOTHING_TESTED = 0, 1, 125


def exit_code(runs: Iterable[Run]) -> int:
    """1 where a run failed, 0 where what could be tested passed, 125 where nothing could be."""
    kinds = {run.outcome.kind for run in runs}
    if Kind.FAIL in kinds:
        return FAILED
    return PASSED if Kind.PASS in kinds else NOTHING_TESTED
