"""From what the guest wrote and how its process ended to an outcome. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.builds import variant_of
from repro.outcome import BuildInfo, Evidence, Frame, How, Kind, Outcome, Raised, Seconds
from repro.stages import (
    KIND,
    Verdict,
    classify_end,
    classify_exception,
    environment_reason,
    signature,
    stage_of_frames,
)

Event = Mapping[str, Any]
FRAMES_KEPT = 12
# How torch.distributed.run ends the other ranks when one has failed: SIGTERM, then SIGKILL.
_ENDED_BY_LAUNCHER = (-15, -9)
_PYTHON_LIBRARY = re.compile(r".*/(?:site-packages|dist-packages)/|.*/lib/(?=python3\.\d+/)")
_DUMPED_FRAME = re.compile(r'\s+File "(?P<file>.+)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)')


@dataclass(frozen=True)
class Roots:
    """Folders of this machine that are taken off file names and messages.

    Args:
        scratch: where the probe ran; inductor's generated code is below it.
        case: the case file.
        guest: the guest file, whose frames are the harness's own.
    """

    scratch: str
    case: str
    guest: str


@dataclass(frozen=True)
class Transcript:
    """What one process of a probe left behind.

    Args:
        rank: its rank, None for the only process or the launcher.
        events: its events in order.
        crash: what faulthandler wrote at a fatal signal, "" where there was none.
        stacks: the stacks it dumped when its time was over.
        exit_code: the exit status or minus the signal; None where nobody knows.
    """

    rank: int | None
    events: tuple[Event, ...]
    crash: str = ""
    stacks: str = ""
    exit_code: int | None = None

    def find(self, name: str) -> Event | None:
        """The first event of a name."""
        return next((event for event in self.events if event["event"] == name), None)

    @property
    def step(self) -> str:
        """The step that was open last."""
        steps = [event["name"] for event in self.events if event["event"] == "step"]
        return str(steps[-1]) if steps else "start"

    @property
    def last_heard(self) -> float:
        """Unix time of the last event, 0.0 where there is none."""
        return float(self.events[-1]["at"]) if self.events else 0.0


@dataclass(frozen=True)
class End:
    """How the process that the host started came to its end; see `repro.process.Ended`."""

    exit_code: int
    timed_out: bool
    memory_kill: bool
    timeout: float
    signal_names: Mapping[int, str]
    cannot_write: int


def parse_events(text: str) -> tuple[Event, ...]:
    """Events of a file; a last line that was cut by a kill is dropped."""
    events = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            break
        events.append(_printable(event))
    return tuple(events)


def _printable(value: Any) -> Any:
    """The same without lone surrogates, which no stream could print."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    return value


def short_file(file: str, roots: Roots, torch_root: str | None) -> str:
    """A file name without the folders of this machine."""
    if file == roots.case:
        return "<case>/" + file.rpartition("/")[2]
    if file.startswith(roots.scratch + "/"):
        return "<generated>/" + file.rpartition("/")[2]
    if torch_root and file.startswith(torch_root + "/torch/"):
        return file[len(torch_root) + 1 :]
    return _PYTHON_LIBRARY.sub("", file, count=1)


def _torch_root(transcripts: Iterable[Transcript]) -> str | None:
    for transcript in transcripts:
        if torch := transcript.find("torch"):
            return str(torch["file"]).rpartition("/torch/")[0] or None
    return None


def read_chain(event: Event, roots: Roots, torch_root: str | None) -> tuple[Raised, ...]:
    """The exception chain of a `raised` event."""
    return tuple(
        Raised(
            type=raised["type"],
            bases=tuple(raised["bases"]),
            message=raised["message"].replace(roots.scratch, "<scratch>"),
            frames=tuple(
                Frame(short_file(file, roots, torch_root), line, function)
                for file, line, function in raised["frames"]
            ),
        )
        for raised in event["chain"]
    )


def dumped_frames(dump: str, roots: Roots, torch_root: str | None) -> tuple[Frame, ...]:
    """The stack of the thread that ran the case, outermost first, from a faulthandler dump."""
    blocks: list[list[Frame]] = []
    current: list[bool] = []
    for line in dump.splitlines():
        if "(most recent call first)" in line:
            blocks.append([])
            current.append(line.startswith("Current thread"))
        elif blocks and (found := _DUMPED_FRAME.fullmatch(line)):
            number = int(found["line"]) if found["line"].isdigit() else None
            blocks[-1].append(Frame(found["file"], number, found["function"]))
    ours = [block for block in blocks if any(frame.file == roots.guest for frame in block)]
    crashed = [block for block, now in zip(blocks, current, strict=True) if now]
    chosen = (crashed or ours or [[]])[0]
    return tuple(
        replace(frame, file=short_file(frame.file, roots, torch_root))
        for frame in reversed(chosen)
        if frame.file != roots.guest
    )


# Dynamo's way to raise Unsupported, under a name that changed twice (2.7, 2.10); who called it says
# more and keeps the signature the same over releases.
_RAISERS = ("unimplemented", "unimplemented_v2")


def raising_function(frames: Sequence[Frame]) -> str | None:
    """The function that raised, without helpers that only raise; None without frames."""
    names = [frame.function for frame in frames]
    return next((name for name in reversed(names) if name not in _RAISERS), None)


def open_phases(events: Iterable[Event]) -> tuple[str, ...]:
    """Phases started and not ended in the thread that started one last, outermost first."""
    stacks: dict[int, list[str]] = {}
    last = None
    for event in events:
        if event["event"] != "phase":
            continue
        last = event["thread"]
        stack = stacks.setdefault(last, [])
        if event["open"]:
            stack.append(event["name"])
        elif event["name"] in stack:
            del stack[len(stack) - 1 - stack[::-1].index(event["name"]) :]
    if last is not None and stacks[last]:
        return tuple(stacks[last])
    return tuple(next((stack for stack in stacks.values() if stack), ()))


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
            "the guest could not write its events: the disk that holds the scratch folder is full",
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
    return Outcome(Kind.PASS, notes=notes)


def judge(
    ranks: Sequence[Transcript], launcher: Transcript | None, end: End, roots: Roots
) -> Outcome:
    """One outcome for a probe.

    Of several ranks the one that failed first counts: what the others raise when a peer is gone is
    a consequence. On a time-out it is a rank that raised, else the one that fell silent first. A
    rank that the launcher ended because another failed counts only where nothing else is known.
    """
    root = _torch_root(ranks)
    if launcher is not None:
        ended = launcher.find("ranks_ended")
        codes = {int(rank): code for rank, code in (ended or {}).get("exit_codes", {}).items()}
        ranks = [_with_code(rank, codes, end) for rank in ranks]
        if not end.timed_out and any(_told(rank) for rank in ranks):
            ranks = [rank for rank in ranks if _told(rank) or rank.find("done")]
    if not ranks:
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


def build_info(spec: str, ranks: Sequence[Transcript]) -> BuildInfo:
    """The torch that ran, as it said itself; all None where it was never imported."""
    for transcript in ranks:
        if torch := transcript.find("torch"):
            return BuildInfo(
                spec=spec,
                version=torch["version"],
                variant=variant_of(torch["version"], torch["cuda"], torch["hip"], torch["xpu"]),
                git_version=torch["git_version"],
                python=torch["python"],
            )
    return BuildInfo(spec)


def device_of(ranks: Sequence[Transcript]) -> str | None:
    """The kind of device that the case ran on."""
    events = (transcript.find("device") for transcript in ranks)
    return next((str(event["device"]) for event in events if event), None)


def seconds_of(ranks: Sequence[Transcript]) -> Seconds:
    """Import, eager and compile times: the slowest rank's, None where no rank got that far."""

    def slowest(name: str) -> float | None:
        values = [
            float(event["seconds"])
            for transcript in ranks
            for event in transcript.events
            if event["event"] == name or (event["event"] == "seconds" and event["name"] == name)
        ]
        return max(values, default=None)

    return Seconds(import_=slowest("torch"), eager=slowest("eager"), compile=slowest("compile"))
