"""From the transcripts of a probe to its outcome. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from repro.classify import Verdict, classify_end, classify_exception
from repro.classify.frames import stage_of_frames
from repro.classify.messages import environment_reason
from repro.classify.signature import signature
from repro.outcome import Evidence, Frame, How, Kind, Outcome, Raised
from repro.stages import KIND
from repro.transcript import (
    End,
    Event,
    Roots,
    Transcript,
    dumped_frames,
    open_phases,
    read_chain,
    torch_root,
)

FRAMES_KEPT = 12
# How torch.distributed.run ends the other ranks when one has failed: SIGTERM, then SIGKILL.
_ENDED_BY_LAUNCHER = (-15, -9)
# Dynamo's way to raise Unsupported, under a name that changed twice (2.7, 2.10); who called it says
# more and keeps the signature the same over releases.
_RAISERS = ("unimplemented", "unimplemented_v2")


def raising_function(frames: Sequence[Frame]) -> str | None:
    """The function that raised, without helpers that only raise; None without frames."""
    names = [frame.function for frame in frames]
    return next((name for name in reversed(names) if name not in _RAISERS), None)


def _untestable(stage: str, reason: str, hint: str | None = None, **more: Any) -> Outcome:
    return Outcome(
        Kind.UNTESTABLE, stage, reason=reason, hint=hint, evidence=Evidence.PROCESS, **more
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _from_exception(
    transcript: Transcript, event: Event, roots: Roots, root: str | None
) -> Outcome:
    chain = read_chain(event, roots, root)
    innermost = chain[-1]
    verdict = classify_exception(chain, event["phases"], event["step"])
    frames = next((raised.frames for raised in reversed(chain) if raised.frames), ())
    function = raising_function(frames)
    reason, hint = None, None
    kind = KIND[verdict.stage]
    if kind is Kind.UNTESTABLE:
        reason, hint = environment_reason(chain, verdict.stage)
    elif kind is Kind.UNSUPPORTED:
        reason = f"the build refuses the case: {_first_line(innermost.message)}"
    notes: tuple[str, ...] = ()
    phases = transcript.find("phases")
    if phases is not None and not phases["available"]:
        notes = ("this torch has no phase events; the stage rests on frames",)
    return Outcome(
        kind=kind,
        stage=verdict.stage,
        pass_name=verdict.pass_name,
        side=verdict.side,
        how=How.EXCEPTION,
        exceptions=tuple(raised.type for raised in chain),
        message=innermost.message,
        function=function,
        signature=signature(verdict.stage, innermost.type, function, innermost.message),
        evidence=verdict.evidence,
        reason=reason,
        hint=hint,
        phases=tuple(event["phases"]),
        frames=frames[-FRAMES_KEPT:],
        rank=transcript.rank,
        notes=notes,
    )


def _from_wrong_result(transcript: Transcript, event: Event) -> Outcome:
    if event["eager_differs"] is not None and event["eager_is_exact"]:
        return _untestable(
            "eager_reference",
            "the case's check rejects two identical eager results: "
            f"{_first_line(event['eager_differs'])}",
            "mend check(expected, actual) of the case",
            rank=transcript.rank,
        )
    if event["eager_differs"] is not None:
        return _untestable(
            "eager_reference",
            "eager itself gives different results for the same inputs, so there is nothing to "
            f"compare with: {_first_line(event['eager_differs'])}",
            "make the case deterministic, or give it a check(expected, actual) that holds anyway",
            rank=transcript.rank,
        )
    message = event["difference"]
    return Outcome(
        kind=Kind.FAIL,
        stage="accuracy",
        how=How.WRONG_RESULT,
        message=message,
        signature=signature("accuracy", None, None, _first_line(message).split(":")[0]),
        evidence=Evidence.PROCESS,
        rank=transcript.rank,
        notes=(f"seed {event['seed']}",),
    )


def _from_silence(transcript: Transcript, end: End, roots: Roots, root: str | None) -> Outcome:
    """The process said nothing more: it crashed, hung, left or was killed."""
    code = transcript.exit_code
    if code == end.cannot_write:
        return _untestable(
            "environment",
            "the guest could not write its events: the disk that holds the scratch folder is full, "
            "or the case closed files that are not its own",
            "make room or point TMPDIR elsewhere",
        )
    if code == -9 and not end.timed_out:
        memory = "; the kernel counted a kill for memory" if end.memory_kill else ""
        return _untestable(
            "environment",
            f"the process was ended by SIGKILL from outside while in {transcript.step}{memory}",
            "free memory and run it again" if end.memory_kill else "run it again",
            how=How.KILLED,
            rank=transcript.rank,
        )
    phases = open_phases(transcript.events)
    compiled = any(event["event"] == "phase" for event in transcript.events)
    verdict = classify_end(phases, transcript.step, compiled)
    frames = dumped_frames(transcript.stacks if end.timed_out else transcript.crash, roots, root)
    if transcript.step not in ("start", "import", "launch", "case", "eager"):
        verdict = _refined(verdict, frames)
    ended_by = code if code is not None and not end.timed_out else 0  # else it was we who ended it
    name = end.signal_names.get(-ended_by) if ended_by < 0 else None
    if end.timed_out:
        how, what = How.TIMEOUT, f"no end after {end.timeout:g} s"
    elif name is not None:
        how, what = How.SIGNAL, f"the process was ended by {name}"
    else:
        status = "" if code is None else f" with exit status {code}"
        how, what = How.KILLED, f"the process left{status} before the case was finished"
    if transcript.find("done") is not None:
        what = what.replace(" before the case was finished", "")
        what += " while Python was shutting down, after the case had agreed with eager"
    kind = KIND[verdict.stage]
    function = frames[-1].function if frames else None
    if kind is Kind.UNTESTABLE:
        return _untestable(
            verdict.stage,
            f"{what} while torch was being imported",
            "try `python -c 'import torch'` with the interpreter of this build",
            how=how,
            signal=name,
            rank=transcript.rank,
        )
    return Outcome(
        kind=kind,
        stage=verdict.stage,
        pass_name=verdict.pass_name,
        side=verdict.side,
        how=how,
        message=what,
        function=function,
        signature=signature(verdict.stage, name or how.value, function, None),
        evidence=verdict.evidence,
        phases=phases,
        frames=frames[-FRAMES_KEPT:],
        signal=name,
        rank=transcript.rank,
    )


def _refined(verdict: Verdict, frames: Sequence[Frame]) -> Verdict:
    """The dumped stack, where the open phases alone name no stage."""
    if verdict.evidence is Evidence.PHASE:
        return verdict
    found = stage_of_frames((Raised("", "", tuple(frames)),))
    if found is None:
        return verdict
    return replace(verdict, stage=found, evidence=Evidence.FRAMES)


def _rank_outcome(transcript: Transcript, end: End, roots: Roots, root: str | None) -> Outcome:
    if event := transcript.find("no_device"):
        wanted = " or ".join(event["wanted"])
        many = f" for {event['ranks']} ranks" if event["ranks"] > 1 else ""
        return _untestable(
            "environment",
            f"no such device: the case needs {wanted}{many}, and this torch can use none here",
            "repro run --device cpu, if the case can",
        )
    if event := transcript.find("skip"):
        return Outcome(
            Kind.UNSUPPORTED,
            "unsupported_case",
            reason=event["reason"] or "the case skips itself without saying why",
            evidence=Evidence.PROCESS,
        )
    if event := transcript.find("raised"):
        return _from_exception(transcript, event, roots, root)
    if event := transcript.find("wrong_result"):
        return _from_wrong_result(transcript, event)
    if (
        end.timed_out
        or transcript.find("done") is None
        or (transcript.exit_code is not None and transcript.exit_code != 0)
    ):
        return _from_silence(transcript, end, roots, root)
    compiled, agreed = transcript.find("compiled"), transcript.find("agreed")
    if compiled is not None and compiled["graphs"] == 0:
        return _untestable(
            "dynamo_tracing",
            "torch.compile compiled nothing of this case: no graph was left to compile",
            "set fullgraph = true under [tool.repro.compile] to see where torch gives up",
        )
    notes: tuple[str, ...] = ()
    if agreed is not None and agreed["nondeterministic"]:
        notes = ("eager is not bitwise deterministic here, though within the tolerance",)
    if agreed is not None and agreed["by_type"]:
        notes += (f"compared by type alone: {', '.join(agreed['by_type'])}",)
    return Outcome(Kind.PASS, notes=notes)


def judge(
    ranks: Sequence[Transcript], launcher: Transcript | None, end: End, roots: Roots
) -> Outcome:
    """One outcome for a probe.

    Of several ranks the one that failed first counts: what the others raise when a peer is gone is
    a consequence. On a time-out it is a rank that raised, else the one that fell silent first. A
    rank that the launcher ended because another failed counts only where nothing else is known.
    """
    root = torch_root(ranks)
    if launcher is not None:
        ended = launcher.find("ranks_ended")
        codes = {int(rank): code for rank, code in (ended or {}).get("exit_codes", {}).items()}
        ranks = [_with_code(rank, codes, end) for rank in ranks]
        if not end.timed_out and any(_told(rank) for rank in ranks):
            ranks = [rank for rank in ranks if _told(rank) or rank.find("done")]
    if not ranks:
        if launcher is None and not end.timed_out and end.exit_code != end.cannot_write:
            return _untestable(
                "import",
                f"the interpreter ended with exit status {end.exit_code} and left no events: it is "
                "no Python 3.10 or newer, or the case removed the scratch folder",
                "name a Python that runs",
            )
        silent = launcher or Transcript(None, (), exit_code=end.exit_code)
        if event := silent.find("raised"):
            return _from_exception(silent, event, roots, root)
        return _from_silence(silent, end, roots, root)
    outcomes = [(rank, _rank_outcome(rank, end, roots, root)) for rank in ranks]
    for kind in (Kind.UNTESTABLE, Kind.UNSUPPORTED):
        for _, outcome in outcomes:
            if outcome.kind is kind:
                return outcome
    failed = [pair for pair in outcomes if pair[1].kind is Kind.FAIL]
    if not failed:
        if launcher is not None and launcher.find("done") is None:
            return _from_silence(launcher, end, roots, root)
        return outcomes[0][1]
    if end.timed_out:
        raised = [pair for pair in failed if _raised(pair[0])]
        failed = raised or [pair for pair in failed if pair[0].find("done") is None] or failed
    return min(failed, key=lambda pair: _failed_at(pair[0]))[1]


def _told(rank: Transcript) -> bool:
    """Whether the rank came to an end of its own, not one that the launcher gave it."""
    events = ("raised", "wrong_result", "skip", "no_device")
    ended = rank.exit_code not in (None, 0, *_ENDED_BY_LAUNCHER)
    return ended or any(rank.find(name) for name in events)


def _with_code(rank: Transcript, codes: Mapping[int, int], end: End) -> Transcript:
    """The rank with its exit status. torchrun up to 2.10 names only the ranks that failed by
    themselves: one that it does not name had passed or was ended after another failed."""
    code = codes.get(rank.rank or 0)
    if code is None and codes and not end.timed_out:
        code = 0 if rank.find("done") else _ENDED_BY_LAUNCHER[0]
    return replace(rank, exit_code=code)


def _raised(transcript: Transcript) -> Event | None:
    return transcript.find("raised") or transcript.find("wrong_result")


def _failed_at(transcript: Transcript) -> float:
    event = _raised(transcript)
    return float(event["at"]) if event else transcript.last_heard
