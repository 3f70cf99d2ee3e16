"""How a stand-in torch behaves, as data that is packed into its wheel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum


class Ends(StrEnum):
    """How a compile with the stand-in ends."""

    PASS = "pass"
    RAISE = "raise"
    RAISE_WHEN_RUN = "raise when run"
    WRONG_RESULT = "wrong result"
    ABORT = "abort"
    LEAVE = "leave"
    HANG = "hang"
    NO_IMPORT = "no import"


@dataclass(frozen=True)
class Behaviour:
    """What the stand-in does when something is compiled by inductor; other backends pass.

    Args:
        phases: torch's phases that are open when it ends, outermost first.
        exception: a builtin class, raised with `message`.
        lacks: names that `torch` does not have.
    """

    ends: Ends = Ends.PASS
    phases: tuple[str, ...] = ()
    exception: str = "AssertionError"
    message: str = "planted"
    lacks: tuple[str, ...] = ()

    def source(self) -> str:
        """It as a Python module."""
        lines = ['"""What this build is scripted to do."""', ""]
        for field in fields(self):
            value = getattr(self, field.name)
            plain = value.value if isinstance(value, Ends) else value
            lines.append(f"{field.name.upper()} = {plain!r}")
        return "\n".join(lines) + "\n"


PASSES = Behaviour()
WRONG_RESULT = Behaviour(Ends.WRONG_RESULT)
CANNOT_BE_IMPORTED = Behaviour(Ends.NO_IMPORT, message="libtorch_cpu.so: undefined symbol")
# A text by which every torch refuses a case that it has no API for.
REFUSES = Behaviour(Ends.RAISE, exception="RuntimeError", message="Return has unsupported type")

_DYNAMO = ("dynamo", "entire_frame_compile", "_compile.compile_inner")
_AOT = (*_DYNAMO, "backend_compile", "create_aot_dispatcher_function")
_INDUCTOR = (*_AOT, "compile_fx.<locals>.fw_compiler_base", "compile_fx_inner")
_CODE = (*_INDUCTOR, "fx_codegen_and_compile")
# The phases that torch 2.13 has open in a stage.
PHASES = {
    "dynamo_tracing": (*_DYNAMO, "bytecode_tracing"),
    "dynamo_guards": (*_DYNAMO, "build_guards"),
    "pre_grad_passes": (*_DYNAMO, "backend_compile", "_recursive_pre_grad_passes"),
    "aot_metadata": (*_AOT, "aot_collect_metadata"),
    "aot_joint_trace": (*_AOT, "aot_trace_joint_graph"),
    "joint_passes_partition": (*_AOT, "_recursive_joint_graph_passes"),
    "post_grad_passes": (*_CODE, "_recursive_post_grad_passes"),
    "inductor_lowering": (*_CODE, "GraphLowering.run"),
    "inductor_scheduling": (*_CODE, "GraphLowering.compile_to_fn", "Scheduler.__init__"),
    "inductor_codegen": (*_CODE, "GraphLowering.compile_to_fn", "Scheduler.codegen"),
    "kernel_compile": (*_CODE, "GraphLowering.compile_to_fn", "async_compile.wait"),
}


def fails_in(stage: str, message: str = "planted", exception: str = "AssertionError") -> Behaviour:
    """Raises in a stage: one of `PHASES`, or `runtime`."""
    if stage == "runtime":
        return Behaviour(Ends.RAISE_WHEN_RUN, (), exception, message)
    return Behaviour(Ends.RAISE, PHASES[stage], exception, message)


def ends_in(stage: str, ends: Ends) -> Behaviour:
    """Aborts, leaves or hangs in a stage of `PHASES`."""
    return Behaviour(ends, PHASES[stage])
