"""From the frames of a traceback to a stage: which file and function owns which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from repro.classify.phases import BACKWARD_PHASE
from repro.outcome import Frame, Raised, Side

# (stage, end of the file name, functions). Searched from the innermost frame outwards; the first
# rule that matches a frame wins. Only functions that own a stage are listed: helpers that several
# stages share (pattern_matcher.py, ir.py, proxy_tensor.py, fx/interpreter.py, _subclasses) say
# nothing, so the search goes on to whoever called them. A stage of None ends the search.
_OWNERS: tuple[tuple[str | None, str, str], ...] = (
    ("environment", "torch/_inductor/scheduler.py", r"create_backend"),
    ("environment", "torch/_dynamo/device_interface.py", r"raise_if_triton_unavailable"),
    (
        "environment",
        "torch/_inductor/cpp_builder.py",
        r"get_cpp_compiler|check_compiler_exist_windows|check_msvc_cl_language_id",
    ),
    (
        "dynamo_guards",
        "torch/_dynamo/guards.py",
        r"__init__|build_guards|check|CheckFunctionManager",
    ),
    ("dynamo_guards", "torch/_dynamo/convert_frame.py", r"build_guards"),
    (
        "dynamo_fake_tensor",
        "torch/_dynamo/utils.py",
        r"get_fake_value|wrap_fake_exception|run_node",
    ),
    ("dynamo_fake_tensor", "torch/_dynamo/variables/builder.py", r"wrap_to_fake_tensor_and_record"),
    ("dynamo_tracing", "torch/_dynamo/symbolic_convert.py", r".*"),
    ("dynamo_tracing", "torch/_dynamo/side_effects.py", r".*"),
    ("dynamo_tracing", r"torch/_dynamo/variables/", r".*"),
    ("dynamo_tracing", "torch/_dynamo/compiled_autograd.py", r".*"),
    ("pre_grad_passes", "torch/_inductor/compile_fx.py", r"_recursive_pre_grad_passes"),
    ("pre_grad_passes", "torch/_inductor/compile_fx.py", r"run_pre_grad_passes"),
    ("pre_grad_passes", "torch/_inductor/fx_passes/pre_grad.py", r".*"),
    ("aot_metadata", "_functorch/_aot_autograd/collect_metadata_analysis.py", r".*"),
    (
        "aot_metadata",
        "torch/_functorch/aot_autograd.py",
        r"create_aot_state|_create_aot_dispatcher_function",
    ),
    ("aot_joint_trace", "_functorch/_aot_autograd/graph_capture.py", r".*"),
    ("aot_joint_trace", "_functorch/_aot_autograd/graph_capture_wrappers.py", r".*"),
    ("aot_joint_trace", "_functorch/_aot_autograd/dispatch_and_compile_graph.py", r".*"),
    ("aot_joint_trace", "_functorch/_aot_autograd/traced_function_transforms.py", r".*"),
    ("aot_joint_trace", "_functorch/_aot_autograd/functional_utils.py", r"assert_functional_graph"),
    ("joint_passes_partition", "torch/_inductor/compile_fx.py", r"_recursive_joint_graph_passes"),
    ("joint_passes_partition", "torch/_inductor/fx_passes/joint_graph.py", r"joint_graph_passes"),
    ("joint_passes_partition", "torch/_functorch/partitioners.py", r".*"),
    (
        "post_grad_passes",
        "torch/_inductor/compile_fx.py",
        r"_recursive_post_grad_passes|view_to_reshape|fake_tensor_prop",
    ),
    ("post_grad_passes", "torch/_inductor/fx_passes/post_grad.py", r"post_grad_passes"),
    ("post_grad_passes", "torch/_inductor/fx_passes/reinplace.py", r".*"),
    (
        "autotuning",
        "torch/_inductor/select_algorithm.py",
        r"__call__|autotune|precompile|do_autotuning|benchmark|make_precompile_fn",
    ),
    ("autotuning", "torch/_inductor/autotune_process.py", r".*"),
    (
        "autotuning",
        "torch/_inductor/runtime/triton_heuristics.py",
        r"benchmark_all_configs|autotune_to_one_config|coordinate_descent_tuning",
    ),
    (
        "kernel_compile",
        "torch/_inductor/runtime/triton_heuristics.py",
        r"_precompile_config|_precompile_worker|precompile|_make_launchers",
    ),
    ("runtime", "torch/_inductor/runtime/triton_heuristics.py", r"run"),
    (
        "inductor_lowering",
        "torch/_inductor/graph.py",
        r"run|run_node|call_function|call_method|placeholder|get_attr|output|finalize",
    ),
    ("inductor_lowering", "torch/_inductor/lowering.py", r"wrapped"),
    ("inductor_scheduling", "torch/_inductor/graph.py", r"_update_scheduler"),
    (
        "inductor_scheduling",
        "torch/_inductor/scheduler.py",
        r"__init__|_init|fuse_nodes\w*|compute_\w+|create_foreach_nodes|merge_loops",
    ),
    ("inductor_scheduling", "torch/_inductor/memory.py", r".*"),
    ("inductor_scheduling", "torch/_inductor/comms.py", r".*"),
    ("inductor_codegen", "torch/_inductor/scheduler.py", r"codegen|_codegen\w*"),
    ("inductor_codegen", "torch/_inductor/graph.py", r"codegen\w*"),
    (
        "kernel_compile",
        "torch/_inductor/codecache.py",
        r"load_by_key_path|compile_file|_compile_file|load_async|load_pybinding\w*|future",
    ),
    (
        "kernel_compile",
        "torch/_inductor/async_compile.py",
        r"wait|_wait_futures|get_result|result|_get_ready",
    ),
    ("kernel_compile", "torch/_inductor/runtime/compile_tasks.py", r".*"),
    ("kernel_compile", "torch/_inductor/cpp_builder.py", r"run_compile_cmd|_run_compile_cmd|build"),
    ("cudagraphs", "torch/_inductor/cudagraph_trees.py", r".*"),
    ("cudagraphs", "torch/_inductor/compile_fx.py", r"cudagraphify\w*"),
    ("cudagraphs", "torch/_inductor/output_code.py", r"cudagraph_post_compile"),
    ("kernel_compile", "<generated>/", r"<module>"),
    ("runtime", "<generated>/", r".*"),
    ("runtime", "torch/_inductor/utils.py", r"run"),
    ("runtime", "torch/_inductor/output_code.py", r"__call__"),
    (
        "runtime",
        "_functorch/_aot_autograd/runtime_wrappers.py",
        r"runtime_wrapper|process_runtime_tangent|_runtime_wrapper",
    ),
    (None, "torch/_dynamo/output_graph.py", r"_?call_user_compiler"),
    ("runtime", "torch/autograd/graph.py", r"_engine_run_backward"),
)
# Read only where no owner was found: a log that shows its last frames alone.
_HINTS: tuple[tuple[str, str, str], ...] = (
    ("environment", "torch/_inductor/scheduler.py", r"get_backend"),
    # Dynamo, passes and lowering trace with it too, but then their own frames are further out.
    (
        "aot_joint_trace",
        "torch/fx/experimental/proxy_tensor.py",
        r"dispatch_trace|proxy_call|maybe_handle_decomp",
    ),
    ("inductor_codegen", "torch/_inductor/codegen/", r".*"),
    ("inductor_lowering", "torch/_inductor/lowering.py", r".*"),
    ("inductor_lowering", "torch/_inductor/kernel/", r".*"),
    ("post_grad_passes", "torch/_inductor/fx_passes/post_grad.py", r".*"),
    ("joint_passes_partition", "torch/_inductor/fx_passes/joint_graph.py", r".*"),
    ("dynamo_tracing", "torch/_dynamo/output_graph.py", r".*"),
)
_GENERATED = re.compile(
    r"(?:^|/)(?:torchinductor_[^/]+|<generated>|<torchinductor[^/]*>)(?:/[^/]+)*/[^/]+\.py$"
)


def _owner(frame: Frame, table: Sequence[tuple[str | None, str, str]]) -> tuple[str | None] | None:
    file = "<generated>/x.py" if _GENERATED.search(frame.file) else frame.file
    for stage, suffix, functions in table:
        here = suffix in file if suffix.endswith("/") else file.endswith(suffix)
        if here and re.fullmatch(functions, frame.function):
            return (stage,)
    return None


def frames_outwards(chain: Sequence[Raised]) -> Iterator[Frame]:
    """Every frame of a chain from the innermost outwards."""
    for raised in reversed(chain):
        yield from reversed(raised.frames)


# `_compile` is on the stack of everything that Dynamo does; what it raises itself is the limit.
_INNERMOST = (("dynamo_guards", "torch/_dynamo/convert_frame.py", r"_compile"),)
_INDUCTOR_ERROR = "torch._inductor.exc.InductorError"


def stage_of_frames(chain: Sequence[Raised]) -> str | None:
    """The stage that owns the innermost telling frame, None where no frame tells."""
    innermost = next(frames_outwards(chain), None)
    if innermost is not None and (found := _owner(innermost, _INNERMOST)) is not None:
        return found[0]
    for table in (_OWNERS, _HINTS):
        for frame in frames_outwards(chain):
            found = _owner(frame, table)
            if found is not None:
                # InductorError is raised around the compile alone (2.7 and newer), so what is
                # on the stack further out is not where it came from.
                outside = found[0] == "runtime" and any(_INDUCTOR_ERROR in r.type for r in chain)
                return None if outside else found[0]
    return None


_BACKWARD_FRAMES = (
    ("runtime_wrappers.py", r"_backward_impl|process_runtime_tangent"),
    ("torch/autograd/graph.py", r"_engine_run_backward"),
    ("torch/_dynamo/backends/common.py", r"_wrapped_bw_compiler"),
    ("torch/_inductor/compile_fx.py", r"bw_compiler(_base)?"),
)


def side_of(chain: Sequence[Raised], phases: Sequence[str]) -> Side:
    """Backward where the backward compile is open or autograd's engine is on the stack."""
    backward = BACKWARD_PHASE in phases or any(
        f.file.endswith(file) and re.fullmatch(functions, f.function)
        for f in frames_outwards(chain)
        for file, functions in _BACKWARD_FRAMES
    )
    return Side.BACKWARD if backward else Side.FORWARD
