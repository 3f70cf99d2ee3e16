"""The stages of a compile, as data, and the way from evidence to a stage.

Pure: no torch, no disk, no clock. The tables were read from the Python sources of torch 2.6.0 to
2.15.0; a rule that holds only for some releases says so. A stage is the innermost compile phase
that was open when the exception that finally reached the caller (or its deepest chained cause) was
first raised; it is not the root cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro.outcome import Evidence, Frame, Kind, Raised, Side

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Stage:
    """One stage.

    Args:
        id: the word in outcomes and reports.
        kind: what an outcome in this stage is; only `Kind.FAIL` says something about the build.
        title: what torch is doing there, in a few words.
    """

    id: str
    kind: Kind
    title: str


# In pipeline order.
STAGES: tuple[Stage, ...] = (
    Stage("install", Kind.UNTESTABLE, "making the environment"),
    Stage("import", Kind.UNTESTABLE, "importing torch"),
    Stage("environment", Kind.UNTESTABLE, "something on this machine is missing"),
    Stage("unsupported_case", Kind.UNSUPPORTED, "the build lacks an API that the case needs"),
    Stage("eager_reference", Kind.FAIL, "the case itself, without torch.compile"),
    Stage("dynamo_tracing", Kind.FAIL, "Dynamo reads the Python bytecode"),
    Stage("dynamo_fake_tensor", Kind.FAIL, "Dynamo runs an op on fake tensors"),
    Stage("dynamo_guards", Kind.FAIL, "Dynamo builds or checks guards, recompile limits"),
    Stage("pre_grad_passes", Kind.FAIL, "inductor's passes before autograd"),
    Stage("aot_metadata", Kind.FAIL, "AOTAutograd collects metadata"),
    Stage("aot_joint_trace", Kind.FAIL, "AOTAutograd traces forward and backward"),
    Stage("joint_passes_partition", Kind.FAIL, "joint-graph passes and the partitioner"),
    Stage("post_grad_passes", Kind.FAIL, "inductor's passes after autograd"),
    Stage("inductor_lowering", Kind.FAIL, "inductor lowers the graph to its IR"),
    Stage("autotuning", Kind.FAIL, "inductor benchmarks its choices"),
    Stage("inductor_scheduling", Kind.FAIL, "inductor orders and fuses"),
    Stage("inductor_codegen", Kind.FAIL, "inductor writes code"),
    Stage("kernel_compile", Kind.FAIL, "the generated code is compiled and loaded"),
    Stage("cudagraphs", Kind.FAIL, "CUDA graphs are recorded or replayed"),
    Stage("runtime", Kind.FAIL, "the compiled code runs"),
    Stage("accuracy", Kind.FAIL, "the compiled code gives another result than eager"),
    Stage(UNKNOWN, Kind.FAIL, "no evidence says where"),
)
ORDER = {stage.id: place for place, stage in enumerate(STAGES)}
KIND = {stage.id: stage.kind for stage in STAGES}
TITLE = {stage.id: stage.title for stage in STAGES}


@dataclass(frozen=True)
class Verdict:
    """A stage and what it rests on."""

    stage: str
    evidence: Evidence
    side: Side | None = None
    pass_name: str | None = None


# --- phases -------------------------------------------------------------------------------------

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
_BACKWARD_PHASE = "entire_backward_compile"


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


# --- frames -------------------------------------------------------------------------------------

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
    backward = _BACKWARD_PHASE in phases or any(
        f.file.endswith(file) and re.fullmatch(functions, f.function)
        for f in frames_outwards(chain)
        for file, functions in _BACKWARD_FRAMES
    )
    return Side.BACKWARD if backward else Side.FORWARD


# --- classes and texts --------------------------------------------------------------------------

_TRITON = "install triton for this build, or run with --device cpu"
# (class, text, what is missing, what to do). Looked for in every exception of the chain, before
# phases and frames: the machine, not the build, is the cause.
_ENVIRONMENT: tuple[tuple[str, str, str, str], ...] = (
    (r".*\.Triton(Missing|UnavailableError)", r"", "inductor finds no working triton", _TRITON),
    (r".*", r"Cannot find a working triton", "inductor finds no working triton", _TRITON),
    (r".*\.GPUTooOldForTriton", r"", "the GPU is too old for triton", "use --device cpu"),
    (
        r".*",
        r"too old to be supported by the triton",
        "the GPU is too old for triton",
        "use --device cpu",
    ),
    (
        r".*",
        r"No working C\+\+ compiler found|InvalidCxxCompiler|Compiler: \S+ is not found",
        "there is no working C++ compiler, which inductor needs for the CPU",
        "install g++ or clang++ and have it on PATH, or name it in CXX",
    ),
    (
        r".*",
        r"fatal error: '?Python\.h'?",
        "the headers of this Python (Python.h) are missing, which compiled kernels include",
        "install the development package of this Python (python3-dev)",
    ),
    (
        r".*",
        r"cannot find -lcuda",
        "the linker finds no libcuda",
        "install the NVIDIA driver's development link, or use --device cpu",
    ),
    (
        r".*",
        r"No CUDA GPUs are available|Found no NVIDIA driver",
        "there is no GPU or no driver here",
        "use --device cpu, if the case can",
    ),
    (
        r".*",
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "make room or point TMPDIR elsewhere",
    ),
    (
        r"MemoryError|.*\.OutOfMemoryError",
        r"",
        "this machine has too little memory for the case",
        "free memory or make the case smaller",
    ),
    (
        r".*",
        r"DefaultCPUAllocator: can't allocate memory|CUDA out of memory",
        "this machine has too little memory for the case",
        "free memory or make the case smaller",
    ),
)
# The build lacks an API that the case needs, wherever that shows.
_UNSUPPORTED: tuple[tuple[str, str], ...] = (
    (r".*", r"Return has unsupported type"),
    (r".*", r"FallbackKernel output type .* is not supported"),
    (r".*", r"An opaque object was created in the middle of the program"),
    (r".*\.InvalidBackend", r""),
)
# While the case is being loaded or set up: a name that this torch does not have.
_UNSUPPORTED_AT_LOAD: tuple[tuple[str, str], ...] = (
    (r"ModuleNotFoundError", r"No module named '(torch|functorch)\b"),
    (r"ImportError", r"cannot import name .* from (partially initialized module )?'torch\b"),
    (r"AttributeError", r"(module|type object|object) '?torch\b.* has no attribute"),
    (r"AttributeError", r"'_OpNamespace' '.*' object has no attribute|torch\.ops"),
    (r"TypeError", r"unexpected keyword argument"),
)
# Where neither phases nor frames say anything.
_MESSAGES: tuple[tuple[str, str, str], ...] = (
    ("dynamo_guards", r".*\.(FailOnRecompileLimitHit|RecompileLimitExceeded|RecompileError)", r""),
    ("dynamo_guards", r".*\.ConstraintViolationError", r""),
    ("dynamo_guards", r".*", r"Guard failed on the same frame it was created"),
    ("autotuning", r".*\.NoValidChoicesError", r""),
    # A wrapper's text begins with the class that it wraps.
    ("autotuning", r".*", r"\bNoValidChoicesError: "),
    ("kernel_compile", r".*", r"^(backend='\w+' raised:\n)?(CppCompileError|SubprocException): "),
    ("inductor_lowering", r".*", r"^(backend='\w+' raised:\n)?LoweringException: "),
    # Operations (2.5 and newer) are looked up by name in the scheduler alone.
    ("inductor_scheduling", r".*", r"^(KeyError: )?'op\d+'$"),
    ("dynamo_tracing", r".*\.UnsafeScriptObjectError", r"access unregistered member"),
    ("inductor_lowering", r".*\.(LoweringException|MissingOperatorWith(out)?Decomp)", r""),
    ("kernel_compile", r".*\.(CppCompileError|CUDACompileError|XPUCompileError)", r""),
    ("kernel_compile", r".*\.SubprocException|.*\.BrokenProcessPool", r""),
    ("kernel_compile", r"triton\..*\.CompilationError", r""),
    ("dynamo_fake_tensor", r".*\.TorchRuntimeError", r""),
    ("dynamo_fake_tensor", r".*", r"There was no fake impl registered"),
    ("dynamo_tracing", r".*\.(UncapturedHigherOrderOpError|InternalTorchDynamoError)", r""),
    ("cudagraphs", r".*", r"tensor output of CUDAGraphs that has been overwritten"),
    ("dynamo_tracing", r"RuntimeError", r"found no compiled frames"),
)
# Unsupported is Dynamo's own answer, except where it carries a failure of the backend
# (2.6: text; 2.7 and newer: the gb_type).
_DYNAMO_ANSWER = re.compile(r"torch\._dynamo\.exc\.(Unsupported|UserError)")
_BACKEND_ANSWER = re.compile(
    r"Backend compiler exception|Backend compiler failed with a fake tensor exception"
)
_FOREIGN_MODULE = re.compile(r"No module named '(?!torch\b|functorch\b)(?P<name>[^']+)'")


def _says(chain: Sequence[Raised], rules: Sequence[tuple[str, str]]) -> bool:
    return any(
        any(re.fullmatch(cls, name) for name in (raised.type, *raised.bases))
        and re.search(text, raised.message)
        for raised in chain
        for cls, text in rules
    )


def missing_module(chain: Sequence[Raised]) -> str | None:
    """The module, not one of torch's, that could not be imported."""
    for raised in reversed(chain):
        if raised.type == "ModuleNotFoundError" and (
            found := _FOREIGN_MODULE.search(raised.message)
        ):
            return found["name"]
    return None


def _missing_here(chain: Sequence[Raised]) -> tuple[str, str] | None:
    """What this machine lacks and what to do, where an exception of the chain says so."""
    for cls, text, missing, hint in _ENVIRONMENT:
        if _says(chain, ((cls, text),)):
            return missing, hint
    return None


def environment_reason(chain: Sequence[Raised], stage: str) -> tuple[str, str]:
    """The sentence behind `untestable`, and what to do about it."""
    innermost = f"{chain[-1].type}: {chain[-1].message.strip().partition(chr(10))[0]}"
    if module := missing_module(chain):
        return (
            f"the Python module {module!r}, which is not one of torch's, cannot be imported",
            "install it into the environment, or have the case raise unittest.SkipTest without it",
        )
    if found := _missing_here(chain):
        return found
    if stage == "import":
        return (
            f"torch cannot be imported: {innermost}",
            "name another build with --build, or install torch for this interpreter",
        )
    return f"something on this machine is missing: {innermost}", "mend that and run it again"


def _by_message(chain: Sequence[Raised]) -> str | None:
    for raised in reversed(chain):
        for stage, cls, text in _MESSAGES:
            names = (raised.type, *raised.bases)
            if any(re.fullmatch(cls, name) for name in names) and re.search(text, raised.message):
                return stage
    if (
        chain
        and _DYNAMO_ANSWER.fullmatch(chain[0].type)
        and not _BACKEND_ANSWER.search(chain[0].message)
    ):
        return "dynamo_tracing"
    return None


# --- the decision -------------------------------------------------------------------------------


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
    if missing_module(chain) or _missing_here(chain):
        return Verdict("environment", Evidence.MESSAGE)
    if _says(chain, _UNSUPPORTED) or (step == "case" and _says(chain, _UNSUPPORTED_AT_LOAD)):
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
        for within in (by_frames, _by_message(chain)):
            if within in stages:
                return Verdict(within, Evidence.PHASE, side, name)
        if default:
            return Verdict(stages[0], Evidence.PHASE, side, name)
    if by_frames is not None:
        return Verdict(by_frames, Evidence.FRAMES, side)
    by_message = _by_message(chain)
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
        side = Side.BACKWARD if _BACKWARD_PHASE in open_phases else Side.FORWARD
        if stages and (default or len(stages) == 1):
            return Verdict(stages[0], Evidence.PHASE, side, pass_of_phases(open_phases))
        return Verdict(UNKNOWN, Evidence.NONE, side)
    if compiled:
        return Verdict("runtime", Evidence.PROCESS)
    return Verdict(UNKNOWN, Evidence.NONE)


_NORMAL: tuple[tuple[str, str], ...] = (
    (r"0x[0-9a-fA-F]+", "0xN"),
    (r"(?:/+[\w.+@-]+)+/+([\w.+@-]+)", r"\1"),
    (r"\b__main__\.|\bcase_\w+?\.", ""),
    (r"\b(buf|op|arg|primals_|tangents_|s|u)\d+(_\d+)?\b", r"\1N"),
    (r"\b\d+(\.\d+)?\b", "N"),
    (r"\s+", " "),
)


def normalised_line(message: str) -> str:
    """The first line that says something, without what changes from run to run."""
    line = next((part.strip() for part in message.splitlines() if part.strip()), "")
    return _normal(_normal(line)[:200].strip())


def _normal(line: str) -> str:
    """Until nothing changes any more: one replacement can make room for another."""
    before = None
    while line != before:
        before = line
        for pattern, replacement in _NORMAL:
            line = re.sub(pattern, replacement, line)
    return line


def signature(stage: str, exception: str | None, function: str | None, message: str | None) -> str:
    """What makes two failures the same bug: stage, innermost type, raising function, first line."""
    parts = (stage, exception or "-", function or "-", normalised_line(message or "") or "-")
    return " | ".join(parts)
