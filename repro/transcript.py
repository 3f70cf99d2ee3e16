"""What the guest wrote and how its process ended, read into frozen data. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.builds import variant_of
from repro.outcome import BuildInfo, Frame, Raised, Seconds

Event = Mapping[str, Any]
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


def torch_root(transcripts: Iterable[Transcript]) -> str | None:
    """The folder that holds the `torch` package which was imported."""
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
