"""One probe: a case in an environment, to an outcome."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from repro import guest, toolchain
from repro.builds import Spec
from repro.case import Case
from repro.environments import cache_folder
from repro.judge import judge
from repro.outcome import BuildInfo, Evidence, How, Kind, Outcome, Run
from repro.process import Ended, run, signal_name
from repro.store import Environment
from repro.transcript import (
    End,
    Roots,
    Transcript,
    build_info,
    device_of,
    parse_events,
    seconds_of,
)

GUEST = Path(guest.__file__).resolve()
# The order in which torch's own CompilerBisector climbs; the last rung is the run itself.
LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition")
# The guest dumps its stacks when its time is over; the tree is ended this much later, in seconds.
STACKS_GRACE = 1.0
# Variables of the shell that would make an outcome depend on the shell: they change what torch
# compiles or where it caches. Logging and library locations stay.
_REMOVED_PREFIXES = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE", "AOT_", "PYTHON", "TRITON_")
_REMOVED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Request:
    """What to run and how.

    Args:
        device: the only device kind to use; None takes the case's first that is there.
        backend: replaces the case's backend; None keeps it.
        timeout: seconds for one probe; None takes the case's.
        repeat: which of several runs this is, from 1.
    """

    case: Case
    spec: Spec
    device: str | None = None
    backend: str | None = None
    timeout: float | None = None
    repeat: int = 1

    @property
    def used_backend(self) -> str:
        """The backend that will be compiled with."""
        return self.backend or self.case.backend

    @property
    def limit(self) -> float:
        """Seconds for one probe."""
        return self.timeout or self.case.timeout


def removed_variables(shell: Mapping[str, str]) -> list[str]:
    """The shell's variables that change what torch does, which a probe does not get."""
    prefixes = tuple(prefix for prefix in _REMOVED_PREFIXES if prefix != "PYTHON")
    return sorted(name for name in shell if name.startswith(prefixes))


def guest_environment(shell: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The environment of a probe: the shell's, without what would make the outcome depend on it."""
    kept = {
        name: value
        for name, value in shell.items()
        if not name.startswith(_REMOVED_PREFIXES) and name not in _REMOVED
    }
    return kept | {
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch / "tmp"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TORCH_EXTENSIONS_DIR": str(scratch / "extensions"),
        # Without it torch shortens tracebacks and takes its own frames off some exceptions, the
        # frames that name the stage (torch/_dynamo/exc.py, 2.7 and newer).
        "TORCHDYNAMO_VERBOSE": "1",
    }


def guest_config(request: Request, scratch: Path, deadline: float) -> dict[str, object]:
    """What the guest is told. `deadline` is Unix time in seconds."""
    case = request.case
    options = dict(case.compile) | {"backend": request.used_backend}
    if request.used_backend != "inductor":
        # torch hands these to the backend, and only inductor knows them.
        options = {key: value for key, value in options.items() if key not in ("mode", "options")}
    return {
        "case": case.name,
        "path": str(case.path),
        "devices": [request.device] if request.device else list(case.devices),
        "ranks": case.ranks,
        "backward": case.backward,
        "compile": options,
        "events": str(scratch / "events"),
        "deadline": deadline,
    }


def _transcripts(
    folder: Path, ended: Ended, ranks: int
) -> tuple[list[Transcript], Transcript | None]:
    def read(name: str, rank: int | None, code: int | None) -> Transcript | None:
        files = {kind: folder / f"{name}.{kind}" for kind in ("jsonl", "crash", "stacks")}
        if not files["jsonl"].exists():
            return None
        text = {
            kind: file.read_text(encoding="utf-8", errors="backslashreplace")
            for kind, file in files.items()
            if file.exists()
        }
        events = parse_events(text["jsonl"])
        return Transcript(rank, events, text.get("crash", ""), text.get("stacks", ""), code)

    if ranks == 1:
        only = read("0", None, ended.exit_code)
        return ([only] if only else []), None
    found = [read(str(rank), rank, None) for rank in range(ranks)]
    launcher = read("launcher", None, ended.exit_code)
    return [rank for rank in found if rank is not None], launcher


def _log(ended: Ended, ranks: list[Transcript], roots: Roots) -> str:
    """Everything that was printed or dumped, each part under its name, without our own folders."""
    parts = [("stderr", ended.stderr.text), ("stdout", ended.stdout.text)]
    for transcript in ranks:
        where = "" if transcript.rank is None else f" of rank {transcript.rank}"
        parts.append((f"crash{where}", transcript.crash))
        if ended.timed_out:
            parts.append((f"stacks{where}", transcript.stacks))
    log = "\n".join(f"--- {name} ---\n{text.strip()}\n" for name, text in parts if text.strip())
    for path, name in (
        (roots.scratch, "<scratch>"),
        (roots.guest, "<repro>/guest.py"),
        (roots.case, f"<case>/{Path(roots.case).name}"),
    ):
        log = log.replace(path, name)
    return log


def probe(request: Request, environment: Environment) -> Run:
    """Run the case once in the environment.

    Everything that the guest did or left behind is gone when this returns.

    Raises:
        OSError: no scratch folder can be made.
    """
    with tempfile.TemporaryDirectory(prefix="repro-", ignore_cleanup_errors=True) as made:
        scratch = Path(made).resolve()
        for name in ("tmp", "events", "work"):
            (scratch / name).mkdir()
        kept = cache_folder() / "toolchain"
        toolchain.seed(kept, scratch, request.case.ranks)
        config = scratch / "config.json"
        deadline = time.time() + request.limit
        config.write_text(json.dumps(guest_config(request, scratch, deadline)), encoding="utf-8")
        try:
            ended = run(
                [environment.python, GUEST, config],
                environment=guest_environment(os.environ, scratch),
                folder=scratch / "work",
                timeout=request.limit + STACKS_GRACE,
            )
        except OSError as error:
            reason = f"{environment.python}: cannot be started: {error.strerror or error}"
            return untestable(request, "import", reason, "name a Python that runs", "")
        ranks, launcher = _transcripts(scratch / "events", ended, request.case.ranks)
        end = End(
            exit_code=ended.exit_code,
            timed_out=ended.timed_out,
            memory_kill=ended.memory_kill,
            timeout=request.limit,
            signal_names={number: signal_name(number) for number in map(int, signal.Signals)},
            cannot_write=guest.CANNOT_WRITE,
        )
        roots = Roots(str(scratch), str(request.case.path), str(GUEST))
        outcome = judge(ranks, launcher, end, roots)
        if outcome.kind is Kind.PASS:
            toolchain.harvest(kept, scratch)
        log = _log(ended, ranks, roots)
    info = build_info(request.spec.text, ranks)
    if info.version is None:
        info = replace(info, version=environment.version, git_version=environment.git_version)
    elif environment.version is not None and environment.version != info.version:
        reason = f"asked for torch {environment.version}, but torch {info.version} was imported"
        outcome = Outcome(Kind.UNTESTABLE, "import", reason=reason, evidence=Evidence.PROCESS)
    return Run(
        case=request.case.name,
        build=info,
        device=device_of(ranks),
        backend=request.used_backend,
        repeat=request.repeat,
        outcome=outcome,
        seconds=replace(seconds_of(ranks), total=ended.seconds),
        log=log,
    )


def untestable(request: Request, stage: str, reason: str, hint: str | None, log: str) -> Run:
    """The run that could not be made."""
    return Run(
        case=request.case.name,
        build=BuildInfo(request.spec.text),
        device=request.device,
        backend=request.used_backend,
        repeat=request.repeat,
        outcome=Outcome(
            Kind.UNTESTABLE, stage, reason=reason, hint=hint, evidence=Evidence.PROCESS
        ),
        log=log,
    )


def refused(request: Request, version: str) -> Run:
    """The run that the case's own header rules out, so that nothing needs to be installed."""
    reason = f"the case asks for torch{request.case.torch}"
    return Run(
        case=request.case.name,
        build=BuildInfo(request.spec.text, version),
        device=request.device,
        backend=request.used_backend,
        repeat=request.repeat,
        outcome=Outcome(
            Kind.UNSUPPORTED, "unsupported_case", reason=reason, evidence=Evidence.PROCESS
        ),
    )


def noted(run: Run, note: str | None) -> Run:
    """The run with one more sentence that a reader must know."""
    if note is None:
        return run
    return replace(run, outcome=replace(run.outcome, notes=(*run.outcome.notes, note)))


def needs_ladder(request: Request, outcome: Outcome) -> bool:
    """Whether only the backends can say more: a wrong result, or a failure without evidence."""
    if request.used_backend != "inductor" or outcome.kind is not Kind.FAIL:
        return False
    unplaced = outcome.stage == "unknown" and outcome.how is not How.TIMEOUT
    return outcome.how is How.WRONG_RESULT or unplaced


def climb(
    request: Request, environment: Environment, first: Run, narrate: Callable[[str], None]
) -> Run:
    """Run the case again with each simpler backend and note what each came to."""
    rungs: list[tuple[str, str]] = []
    for backend in LADDER:
        narrate(f"{request.case.name}: backend {backend}")
        outcome = probe(replace(request, backend=backend), environment).outcome
        rungs.append((backend, str(outcome.how or outcome.kind)))
    rungs.append(("inductor", str(first.outcome.how)))
    outcome = replace(first.outcome, ladder=tuple(rungs))
    if outcome.how is How.WRONG_RESULT:
        outcome = replace(outcome, evidence=Evidence.LADDER)
    return replace(first, outcome=outcome)


def run_case(
    request: Request, environment: Environment, narrate: Callable[[str], None] = lambda line: None
) -> Run:
    """Probe, and climb the ladder where it can say more. Never raises for what the case does."""
    began = time.monotonic()
    try:
        made = probe(request, environment)
        if needs_ladder(request, made.outcome):
            made = climb(request, environment, made, narrate)
    except OSError as error:
        reason = f"{error.filename or 'scratch folder'}: {error.strerror or error}"
        return untestable(request, "environment", reason, "make room or point TMPDIR elsewhere", "")
    return replace(made, seconds=replace(made.seconds, total=time.monotonic() - began))
