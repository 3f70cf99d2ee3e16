"""From torch's own phase events to stages. Names were read in 2.6.0 to 2.15.0."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DYNAMO = ("dynamo_tracing", "dynamo_fake_tensor", "dynamo_guards")
_AOT = ("aot_metadata", "aot_joint_trace", "joint_passes_partition")
_INDUCTOR = (
    "post_grad_passes",
    "inductor_lowering",
    "autotuning",
    "inductor_scheduling",
    "inductor_codegen",
    "kernel_compile",
    "cudagraphs",
)

# Name of a phase (a regular expression for the whole name) -> the stages it can stand for. One
# stage: the phase decides. Several: the phase is wider than a stage and frames decide among them;
# where frames say nothing, the first stage holds if the phase is marked with `default`.
_PHASES: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    (r"build_guards", ("dynamo_guards",), True),
    (r"dynamo|entire_frame_compile|compile_attempt_\d+|_compile\.compile_inner", _DYNAMO, True),
    (r"bytecode_tracing|fullgraph_capture|invoke_subgraph_trace", _DYNAMO, True),
    (r"_recursive_pre_grad_passes|pass\.pre_grad_passes\..*", ("pre_grad_passes",), True),
    (r"backend_compile|entire_backward_compile", ("pre_grad_passes", *_AOT, *_INDUCTOR), False),
    (r"create_aot_dispatcher_function", (*_AOT, "pre_grad_passes"), False),
    (r"aot_collect_metadata", ("aot_metadata",), True),
    (r"aot_trace_joint_graph", ("aot_joint_trace",), True),
    (
        r"_recursive_joint_graph_passes|min_cut_rematerialization_partition"
        r"|pass\.joint_graph_passes\..*",
        ("joint_passes_partition",),
        True,
    ),
    (
        r"_recursive_post_grad_passes|additional_fake_tensor_prop|pass\.post_grad_passes\..*",
        ("post_grad_passes",),
        True,
    ),
    (r"GraphLowering\.run", ("inductor_lowering", "autotuning"), True),
    (
        r".*_template_(precompiling|autotuning)|CachingAutotuner\.benchmark_all_configs"
        r"|CachingAutotuner\.coordinate_descent_tuning|coordinate_descent_tuning",
        ("autotuning",),
        True,
    ),
    (
        r"Scheduler\.__init__|Scheduler\.fused_nodes|benchmark_fused_nodes",
        ("inductor_scheduling",),
        True,
    ),
    (
        r"Scheduler\.codegen|GraphLowering\.codegen|(PythonWrapperCodegen|WrapperCodeGen)\.generate",
        ("inductor_codegen",),
        True,
    ),
    (
        r"PyCodeCache\.load_by_key_path|async_compile\.(wait|precompile)|compile_file"
        r"|AotCodeCompiler\.compile",
        ("kernel_compile",),
        True,
    ),
    (r"cudagraphify.*", ("cudagraphs",), True),
    (
        r"inductor_compile|fx_codegen_and_compile|compile_fx_inner"
        r"|compile_fx\.<locals>\.(fw|bw)_compiler_base|GraphLowering\.compile_to_(fn|module)|code_gen",
        _INDUCTOR,
        False,
    ),
)
_PASS_PHASE = re.compile(r"pass\.\w+\.(?P<name>.+)")
BACKWARD_PHASE = "entire_backward_compile"


def stages_of_phases(phases: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The stages that open phases can stand for, and whether the first holds without more evidence.

    The innermost phase that is known decides: torch adds names at every release, most of them for
    a part of a phase that has its own (`TritonBundler.collect`, `gc`).
    """
    for name in reversed(phases):
        for pattern, stages, default in _PHASES:
            if re.fullmatch(pattern, name):
                return stages, default
    return (), False


def pass_of_phases(phases: Sequence[str]) -> str | None:
    """The innermost pass that torch names (`pass.<subsystem>.<name>`, 2.11 and newer)."""
    for name in reversed(phases):
        if found := _PASS_PHASE.fullmatch(name):
            return found["name"]
    return None
