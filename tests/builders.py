"""Small makers of cases, transcripts and runs that several tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro.case import Case
from repro.outcome import BuildInfo, Evidence, Frame, How, Kind, Outcome, Raised, Run, Seconds
from repro.transcript import End, Roots, Transcript

HEADER = """\
# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6"]
#
# [tool.repro]
# title = "A title"
# ///
"""
ROOTS = Roots("/scratch/abc", "/cases/x.py", "/repro/guest.py")
TORCH_ROOT = "/venv/lib/python3.11/site-packages"
SIGNALS = {6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
CANNOT_WRITE = 97


def header(*tool: str, before: str = "", compile_: str = "") -> str:
    """A case file with these lines in [tool.repro]; `before` and `compile_` are lines too."""
    lines = [*filter(None, before.split("\n")), "[tool.repro]", *tool]
    if compile_:
        lines += ["[tool.repro.compile]", *compile_.split("\n")]
    return "\n".join(["# /// script", *("# " + line for line in lines), "# ///", ""])


def case(name: str = "x", source: str = "print(1)\n", **more: Any) -> Case:
    more.setdefault("title", f"title of {name}")
    return Case(name=name, path=Path(f"/cases/{name}.py"), source=source, **more)


def raised(kind: str, message: str = "", *frames: str, bases: tuple[str, ...] = ()) -> Raised:
    """An exception; a frame is written `file:function`."""
    return Raised(kind, message, tuple(frame(text) for text in frames), bases)


def frame(text: str, line: int | None = 1) -> Frame:
    file, _, function = text.rpartition(":")
    return Frame(file, line, function)


# --- what a guest writes ------------------------------------------------------------------------


def step(name: str, at: float = 1.0) -> dict[str, Any]:
    return {"event": "step", "name": name, "at": at}


def phase(name: str, open_: bool = True, thread: int = 1, at: float = 2.0) -> dict[str, Any]:
    return {"event": "phase", "name": name, "open": open_, "thread": thread, "at": at}


def event(name: str, at: float = 3.0, /, **fields: Any) -> dict[str, Any]:
    return {"event": name, "at": at, **fields}


def torch_event(version: str = "2.12.1+cpu", **more: Any) -> dict[str, Any]:
    fields = {
        "version": version,
        "git_version": "a" * 40,
        "cuda": None,
        "hip": None,
        "xpu": None,
        "python": "3.11.4",
        "file": f"{TORCH_ROOT}/torch/__init__.py",
        "seconds": 1.5,
    }
    return event("torch", **(fields | more))


def raised_event(
    kind: str,
    message: str = "",
    *,
    step: str = "compile",
    phases: tuple[str, ...] = (),
    frames: tuple[tuple[str, int, str], ...] = (),
    at: float = 3.0,
) -> dict[str, Any]:
    link = {"type": kind, "bases": [], "message": message, "frames": [list(f) for f in frames]}
    return event("raised", at, step=step, chain=[link], phases=list(phases))


def transcript(
    *events: dict[str, Any], rank: int | None = None, code: int | None = 0, **more: Any
) -> Transcript:
    return Transcript(rank, tuple(events), exit_code=code, **more)


def passed(rank: int | None = None, at: float = 5.0, **more: Any) -> Transcript:
    """What a guest leaves behind whose case passes."""
    return transcript(
        step("import"),
        torch_event(),
        step("case"),
        step("eager"),
        step("compile"),
        phase("backend_compile"),
        phase("backend_compile", False),
        step("compare", at),
        event("compiled", at, graphs=1),
        event("agreed", at, nondeterministic=False, by_type=[]),
        step("end", at),
        event("done", at),
        rank=rank,
        **more,
    )


def end(
    code: int = 0, timed_out: bool = False, memory_kill: bool = False, timeout: float = 60.0
) -> End:
    return End(code, timed_out, memory_kill, timeout, SIGNALS, CANNOT_WRITE)


# --- runs ---------------------------------------------------------------------------------------


def failure(stage: str = "inductor_lowering", **more: Any) -> Outcome:
    fields: dict[str, Any] = {
        "how": How.EXCEPTION,
        "exceptions": ("torch._inductor.exc.InductorError", "ValueError"),
        "message": "it broke",
        "function": "f",
        "signature": f"{stage} | ValueError | f | it broke",
        "evidence": Evidence.PHASE,
        "frames": (Frame("torch/_inductor/graph.py", 7, "run"), Frame("<case>/x.py", 3, "f")),
    }
    return Outcome(Kind.FAIL, stage, **(fields | more))


def untestable(reason: str = "no such device", **more: Any) -> Outcome:
    fields: dict[str, Any] = {"evidence": Evidence.PROCESS} | more
    return Outcome(Kind.UNTESTABLE, fields.pop("stage", "environment"), reason=reason, **fields)


def run(
    outcome: Outcome | None = None,
    name: str = "x",
    version: str | None = "2.12.1+cu130",
    **more: Any,
) -> Run:
    spec = more.pop("spec", "2.12.1")
    variant = more.pop("variant", "cu130" if version else None)
    fields: dict[str, Any] = {
        "device": "cpu",
        "backend": "inductor",
        "repeat": 1,
        "seconds": Seconds(total=12.34),
    }
    return Run(
        case=name,
        build=BuildInfo(spec, version, variant, "0123456789abcdef" if version else None, "3.11.4"),
        outcome=outcome or Outcome(Kind.PASS),
        **(fields | more),
    )
