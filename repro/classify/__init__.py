"""From evidence to a stage: the order in which evidence counts.

Pure: no torch, no disk, no clock. `phases`, `frames` and `messages` each hold one kind of evidence,
as tables that were read from the Python sources of torch 2.6.0 to 2.15.0; a rule that holds only
for some releases says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro.classify.frames import side_of, stage_of_frames
from repro.classify.messages import (
    UNSUPPORTED,
    UNSUPPORTED_AT_LOAD,
    missing_here,
    missing_module,
    says,
    stage_of_messages,
)
from repro.classify.phases import BACKWARD_PHASE, pass_of_phases, stages_of_phases
from repro.outcome import Evidence, Raised, Side
from repro.stages import UNKNOWN


@dataclass(frozen=True)
class Verdict:
    """A stage and what it rests on."""

    stage: str
    evidence: Evidence
    side: Side | None = None
    pass_name: str | None = None


def classify_exception(
    chain: Sequence[Raised], phases: Sequence[str] = (), step: str = "compile"
) -> Verdict:
    """Name the stage of an exception.

    Args:
        chain: the exceptions that stand for one another, outermost first.
        phases: torch's phases in which the deepest of them was first seen, outermost first.
        step: what the guest was doing: `import`, `case`, `eager`, `compile`, `compare`, `end`.
    """
    if step == "import":
        return Verdict("import", Evidence.PROCESS)
    if missing_module(chain) or missing_here(chain):
        return Verdict("environment", Evidence.MESSAGE)
    if says(chain, UNSUPPORTED) or (step == "case" and says(chain, UNSUPPORTED_AT_LOAD)):
        return Verdict("unsupported_case", Evidence.MESSAGE)
    if step in ("case", "eager"):
        return Verdict("eager_reference", Evidence.PROCESS)
    side = side_of(chain, phases)
    by_frames = stage_of_frames(chain)
    if by_frames == "environment":
        return Verdict("environment", Evidence.FRAMES)
    stages, default = stages_of_phases(phases)
    if stages:
        name = pass_of_phases(phases)
        if len(stages) == 1:
            return Verdict(stages[0], Evidence.PHASE, side, name)
        for within in (by_frames, stage_of_messages(chain)):
            if within in stages:
                return Verdict(within, Evidence.PHASE, side, name)
        if default:
            return Verdict(stages[0], Evidence.PHASE, side, name)
    if by_frames is not None:
        return Verdict(by_frames, Evidence.FRAMES, side)
    by_message = stage_of_messages(chain)
    if by_message is not None:
        return Verdict(by_message, Evidence.MESSAGE, side)
    return Verdict(UNKNOWN, Evidence.NONE, side)


def classify_end(open_phases: Sequence[str], step: str, compiled: bool) -> Verdict:
    """Name the stage of a process that ended without an exception: crash, time-out, exit.

    Args:
        open_phases: phases started and not ended, outermost first.
        step: the step of the guest that was open.
        compiled: whether a compile had begun at all.
    """
    if step in ("start", "import", "launch"):
        return Verdict("import", Evidence.PROCESS)
    if step in ("case", "eager"):
        return Verdict("eager_reference", Evidence.PROCESS)
    if open_phases:
        stages, default = stages_of_phases(open_phases)
        side = Side.BACKWARD if BACKWARD_PHASE in open_phases else Side.FORWARD
        if stages and (default or len(stages) == 1):
            return Verdict(stages[0], Evidence.PHASE, side, pass_of_phases(open_phases))
        return Verdict(UNKNOWN, Evidence.NONE, side)
    if compiled:
        return Verdict("runtime", Evidence.PROCESS)
    return Verdict(UNKNOWN, Evidence.NONE)
