import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repro.classify import Verdict, classify_end, classify_exception
from repro.classify.frames import side_of, stage_of_frames
from repro.classify.messages import environment_reason, missing_module
from repro.classify.phases import pass_of_phases, stages_of_phases
from repro.classify.signature import normalised_line, signature
from repro.outcome import Evidence, Frame, Kind, Raised, Side
from repro.stages import KIND, ORDER, STAGES
from tests.builders import raised

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "stages.jsonl"
LOWERING = ("entire_frame_compile", "backend_compile", "inductor_compile", "GraphLowering.run")


def stage(*chain: Raised, phases=(), step="compile") -> str:
    return classify_exception(chain, phases, step).stage


def frames(*texts: str) -> tuple[Raised]:
    return (raised("ValueError", "x", *texts),)


# --- the table ----------------------------------------------------------------------------------


def test_stages_stand_in_pipeline_order():
    assert [stage.id for stage in STAGES] == [
        "install",
        "import",
        "environment",
        "unsupported_case",
        "eager_reference",
        "dynamo_tracing",
        "dynamo_fake_tensor",
        "dynamo_guards",
        "pre_grad_passes",
        "aot_metadata",
        "aot_joint_trace",
        "joint_passes_partition",
        "post_grad_passes",
        "inductor_lowering",
        "autotuning",
        "inductor_scheduling",
        "inductor_codegen",
        "kernel_compile",
        "cudagraphs",
        "runtime",
        "accuracy",
        "unknown",
    ]
    assert sorted(ORDER, key=ORDER.__getitem__) == [stage.id for stage in STAGES]


def test_only_failures_say_something_about_the_build():
    assert [KIND[name] for name in ("install", "import", "environment")] == [Kind.UNTESTABLE] * 3
    assert KIND["unsupported_case"] is Kind.UNSUPPORTED
    assert {stage.kind for stage in STAGES[4:]} == {Kind.FAIL}


# --- signatures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no handle at 0x7f3a10", "no handle at 0x55Bc"),
        ("cannot open /tmp/abc/x.py", "cannot open /home/me/x.py"),
        ("cannot open /tmp/a//b/x.py", "cannot open /x/x.py"),
        ("expected 1024, got 768", "expected 2, got 3"),
        ("took 1.5 s", "took 20.25 s"),
        ("KeyError: 'buf3'", "KeyError: 'buf17'"),
        ("KeyError: 'op19'", "KeyError: 'op2'"),
        ("primals_1 and s0", "primals_22 and s5"),
        ("Unknown type <class 'case_x.Handle'>", "Unknown type <class '__main__.Handle'>"),
        ("<class 'case_two_ranks.H'>", "<class 'case_x.H'>"),
        ("\n\n  first  line \nsecond", "first line"),
    ],
)
def test_what_changes_from_run_to_run_is_no_part_of_the_line(one, other):
    assert normalised_line(one) == normalised_line(other)
    assert normalised_line(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("expected a tensor", "expected a handle"),
        ("<class 'a.Handle'>", "<class 'b.Handle'>"),
        ("cannot open /tmp/x.py", "cannot open /tmp/y.py"),
        ("torch.ops.deepep.dispatch", "torch.ops.deepep.combine"),
    ],
)
def test_what_tells_bugs_apart_stays(one, other):
    assert normalised_line(one) != normalised_line(other)


def test_a_message_without_words_gives_an_empty_line():
    assert normalised_line("") == normalised_line(" \n\t\n") == ""


_LINES = st.text() | st.lists(
    st.sampled_from(
        ["/", "a", "tmp", "0x", "1f", "12", ".", "case_", "__main__", "buf", "op", "_", " ", "'"]
    ),
    max_size=90,
).map("".join)


@given(_LINES)
@example("/x//a/b")
@example("word " * 39 + "1234 5abc")
def test_a_normalised_line_is_one_line_and_stays_as_it_is(text):
    line = normalised_line(text)
    assert line.splitlines() in ([], [line])
    assert len(line) <= 200
    assert line == line.strip()
    assert normalised_line(line) == line


def test_a_signature_has_stage_type_function_and_line():
    assert signature("runtime", "KeyError", "call", "'buf7'\nmore") == (
        "runtime | KeyError | call | 'bufN'"
    )
    assert signature("accuracy", None, None, None) == "accuracy | - | - | -"


# --- frames -------------------------------------------------------------------------------------

OWNED = {
    "torch/_dynamo/guards.py:build_guards": "dynamo_guards",
    "torch/_dynamo/convert_frame.py:build_guards": "dynamo_guards",
    "torch/_dynamo/utils.py:get_fake_value": "dynamo_fake_tensor",
    "torch/_dynamo/symbolic_convert.py:CALL_FUNCTION": "dynamo_tracing",
    "torch/_dynamo/variables/torch.py:call_function": "dynamo_tracing",
    "torch/_inductor/compile_fx.py:_recursive_pre_grad_passes": "pre_grad_passes",
    "torch/_functorch/_aot_autograd/collect_metadata_analysis.py:inner": "aot_metadata",
    "torch/_functorch/_aot_autograd/graph_capture.py:aot_dispatch_autograd_graph": (
        "aot_joint_trace"
    ),
    "torch/_functorch/_aot_autograd/dispatch_and_compile_graph.py:aot_dispatch_base_graph": (
        "aot_joint_trace"
    ),
    "torch/_functorch/partitioners.py:min_cut_rematerialization_partition": (
        "joint_passes_partition"
    ),
    "torch/_inductor/fx_passes/post_grad.py:post_grad_passes": "post_grad_passes",
    "torch/_inductor/fx_passes/reinplace.py:reinplace_inplaceable_ops_core": "post_grad_passes",
    "torch/_inductor/graph.py:run_node": "inductor_lowering",
    "torch/_inductor/lowering.py:wrapped": "inductor_lowering",
    "torch/_inductor/select_algorithm.py:autotune": "autotuning",
    "torch/_inductor/scheduler.py:_init": "inductor_scheduling",
    "torch/_inductor/scheduler.py:fuse_nodes_once": "inductor_scheduling",
    "torch/_inductor/graph.py:codegen": "inductor_codegen",
    "torch/_inductor/scheduler.py:_codegen": "inductor_codegen",
    "torch/_inductor/codecache.py:load_by_key_path": "kernel_compile",
    "torch/_inductor/async_compile.py:wait": "kernel_compile",
    "<generated>/cabc.py:<module>": "kernel_compile",
    "/tmp/torchinductor_me/ab/cabc.py:<module>": "kernel_compile",
    "<generated>/cabc.py:call": "runtime",
    "torch/_inductor/output_code.py:__call__": "runtime",
    "torch/_inductor/cudagraph_trees.py:record": "cudagraphs",
}


@pytest.mark.parametrize("text", OWNED)
def test_a_frame_that_owns_a_stage_names_it(text):
    assert stage_of_frames(frames(text)) == OWNED[text]


def test_the_innermost_owner_wins_and_helpers_are_passed_over():
    chain = frames(
        "<case>/x.py:f",
        "torch/_dynamo/symbolic_convert.py:run",
        "torch/_inductor/graph.py:run_node",
        "torch/_inductor/scheduler.py:__init__",
        "torch/_inductor/ir.py:simplify_and_reorder",
        "torch/_dynamo/utils.py:time_wrapper",
        "torch/_subclasses/fake_tensor.py:dispatch",
        "torch/_inductor/pattern_matcher.py:apply",
    )
    assert stage_of_frames(chain) == "inductor_scheduling"


def test_the_innermost_exception_of_a_chain_is_looked_at_first():
    outer = raised("A", "", "torch/_inductor/graph.py:run_node")
    inner = raised("B", "", "torch/_inductor/select_algorithm.py:autotune")
    assert stage_of_frames((outer, inner)) == "autotuning"
    assert stage_of_frames((outer, raised("B", "", "helper.py:f"))) == "inductor_lowering"


def test_helpers_alone_name_nothing():
    chain = frames("<case>/x.py:f", "torch/fx/interpreter.py:run", "torch/_compile.py:inner")
    assert stage_of_frames(chain) is None


def test_a_backend_that_raises_itself_is_not_dynamo():
    chain = frames(
        "torch/_dynamo/symbolic_convert.py:run",
        "torch/_dynamo/output_graph.py:_call_user_compiler",
        "/somewhere/backend.py:mine",
    )
    assert stage_of_frames(chain) is None


def test_the_tail_of_a_log_gives_a_hint():
    assert stage_of_frames(frames("torch/_inductor/codegen/cpp.py:codegen_nodes")) == (
        "inductor_codegen"
    )
    chain = frames("torch/_inductor/graph.py:run", "torch/_inductor/codegen/cpp.py:x")
    assert stage_of_frames(chain) == "inductor_lowering"


def test_a_frame_of_dynamo_that_only_lies_above_the_gap_names_nothing():
    """`_compile` is on the stack of everything that Dynamo does, not of guards alone."""
    chain = frames(
        "torch/_dynamo/convert_frame.py:_convert_frame_assert",
        "torch/_dynamo/convert_frame.py:_compile",
        "torch/_dynamo/utils.py:time_wrapper",
        "torch/_dynamo/bytecode_transformation.py:clean_and_assemble_instructions",
    )
    assert stage_of_frames(chain) != "dynamo_guards"


def test_the_recompile_limit_is_a_matter_of_guards():
    chain = (
        raised(
            "torch._dynamo.exc.FailOnRecompileLimitHit",
            "recompile_limit reached with fullgraph=True",
            "torch/_dynamo/convert_frame.py:__call__",
            "torch/_dynamo/convert_frame.py:_compile",
        ),
    )
    assert stage(*chain) == "dynamo_guards"
    assert stage(*chain, phases=("entire_frame_compile",)) == "dynamo_guards"


# --- phases -------------------------------------------------------------------------------------

NAMED = {
    "build_guards": "dynamo_guards",
    "_recursive_pre_grad_passes": "pre_grad_passes",
    "aot_collect_metadata": "aot_metadata",
    "aot_trace_joint_graph": "aot_joint_trace",
    "_recursive_joint_graph_passes": "joint_passes_partition",
    "min_cut_rematerialization_partition": "joint_passes_partition",
    "_recursive_post_grad_passes": "post_grad_passes",
    "pass.post_grad_passes.reinplace_inplaceable_ops": "post_grad_passes",
    "pass.joint_graph_passes.constant_fold_uniform_value": "joint_passes_partition",
    "pass.pre_grad_passes.fuse": "pre_grad_passes",
    "additional_fake_tensor_prop": "post_grad_passes",
    "mm_template_autotuning": "autotuning",
    "CachingAutotuner.benchmark_all_configs": "autotuning",
    "Scheduler.__init__": "inductor_scheduling",
    "Scheduler.codegen": "inductor_codegen",
    "GraphLowering.codegen": "inductor_codegen",
    "PythonWrapperCodegen.generate": "inductor_codegen",
    "WrapperCodeGen.generate": "inductor_codegen",
    "PyCodeCache.load_by_key_path": "kernel_compile",
    "async_compile.wait": "kernel_compile",
    "compile_file": "kernel_compile",
    "cudagraphify": "cudagraphs",
}


@pytest.mark.parametrize("name", NAMED)
def test_a_phase_that_names_one_stage_wins_over_frames(name):
    chain = frames("torch/_dynamo/symbolic_convert.py:run", "torch/_functorch/partitioners.py:f")
    verdict = classify_exception(chain, ("entire_frame_compile", name))
    assert (verdict.stage, verdict.evidence) == (NAMED[name], Evidence.PHASE)


def test_the_pass_is_named_where_torch_names_it():
    phases = ("_recursive_post_grad_passes", "pass.post_grad_passes.reinplace_inplaceable_ops")
    assert pass_of_phases(phases) == "reinplace_inplaceable_ops"
    assert classify_exception(frames("x.py:f"), phases).pass_name == "reinplace_inplaceable_ops"
    assert pass_of_phases(LOWERING) is None


@pytest.mark.parametrize(
    ("phases", "text", "wanted"),
    [
        (("entire_frame_compile",), "torch/_dynamo/utils.py:get_fake_value", "dynamo_fake_tensor"),
        (("entire_frame_compile",), "torch/_dynamo/guards.py:check", "dynamo_guards"),
        (("entire_frame_compile",), "helper.py:f", "dynamo_tracing"),
        (("backend_compile",), "torch/_functorch/partitioners.py:f", "joint_passes_partition"),
        (
            ("backend_compile", "create_aot_dispatcher_function"),
            "torch/_functorch/_aot_autograd/collect_metadata_analysis.py:inner",
            "aot_metadata",
        ),
        (("inductor_compile",), "torch/_inductor/scheduler.py:_codegen", "inductor_codegen"),
        (
            ("inductor_compile", "GraphLowering.compile_to_fn"),
            "torch/_inductor/scheduler.py:__init__",
            "inductor_scheduling",
        ),
        (LOWERING, "torch/_inductor/select_algorithm.py:__call__", "autotuning"),
        (LOWERING, "helper.py:f", "inductor_lowering"),
    ],
)
def test_frames_refine_a_wide_phase(phases, text, wanted):
    verdict = classify_exception(frames(text), phases)
    assert (verdict.stage, verdict.evidence) == (wanted, Evidence.PHASE)


def test_a_wide_phase_without_telling_frames_is_no_guess():
    verdict = classify_exception(frames("helper.py:f"), ("backend_compile",))
    assert (verdict.stage, verdict.evidence) == ("unknown", Evidence.NONE)


def test_frames_outside_a_phase_that_has_a_default_do_not_move_it():
    chain = frames("torch/_functorch/partitioners.py:f")
    assert stage(*chain, phases=LOWERING) == "inductor_lowering"


@pytest.mark.parametrize("name", ["TritonBundler.collect", "gc", "a phase of tomorrow"])
def test_unknown_phase_names_are_transparent(name):
    assert stages_of_phases((*LOWERING, name)) == stages_of_phases(LOWERING)
    assert stage(*frames("helper.py:f"), phases=(*LOWERING, name)) == "inductor_lowering"


def test_no_phase_stands_for_nothing():
    assert stages_of_phases(()) == ((), False)
    assert stages_of_phases(("gc",)) == ((), False)


@pytest.mark.parametrize(
    ("chain", "phases", "side"),
    [
        (frames("helper.py:f"), ("entire_backward_compile", "GraphLowering.run"), Side.BACKWARD),
        (frames("torch/autograd/graph.py:_engine_run_backward", "x.py:f"), (), Side.BACKWARD),
        (
            frames("torch/_functorch/_aot_autograd/runtime_wrappers.py:_backward_impl"),
            (),
            Side.BACKWARD,
        ),
        (
            frames("torch/_functorch/_aot_autograd/runtime_wrappers.py:process_runtime_tangent"),
            (),
            Side.BACKWARD,
        ),
        (
            frames(
                "torch/_dynamo/backends/common.py:_wrapped_bw_compiler",
                "torch/_inductor/compile_fx.py:bw_compiler",
            ),
            (),
            Side.BACKWARD,
        ),
        (frames("torch/_inductor/graph.py:run"), LOWERING, Side.FORWARD),
        (frames("torch/_functorch/_aot_autograd/runtime_wrappers.py:f"), (), Side.FORWARD),
    ],
)
def test_the_side_of_the_graph(chain, phases, side):
    assert side_of(chain, phases) is side
    assert classify_exception(chain, phases).side in (side, None)


# --- what comes before phases -------------------------------------------------------------------

MACHINE = {
    "no compiler": ("torch._inductor.exc.InvalidCxxCompiler", "No working C++ compiler found"),
    "no triton": ("torch._inductor.exc.TritonMissing", "Cannot find a working triton"),
    "no triton, 2.14": ("torch._inductor.exc.TritonUnavailableError", "x"),
    "old GPU": ("torch._inductor.exc.GPUTooOldForTriton", "x"),
    "no headers": ("torch._inductor.exc.CppCompileError", "a.cpp:1: fatal error: Python.h: No"),
    "no libcuda": ("RuntimeError", "/usr/bin/ld: cannot find -lcuda: No such file"),
    "no GPU": ("RuntimeError", "No CUDA GPUs are available"),
    "full disk": ("OSError", "[Errno 28] No space left on device: '/tmp/x'"),
    "no memory": ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB"),
    "no module": ("ModuleNotFoundError", "No module named 'deep_ep'"),
}


@pytest.mark.parametrize("what", MACHINE)
@pytest.mark.parametrize("step", ["case", "eager", "compile"])
def test_what_the_machine_lacks_comes_before_phases_and_frames(what, step):
    chain = (
        raised("torch._inductor.exc.InductorError", "wrapped", "torch/_inductor/graph.py:run"),
        raised(*MACHINE[what], "torch/_inductor/graph.py:codegen"),
    )
    verdict = classify_exception(chain, LOWERING, step)
    assert verdict == Verdict("environment", Evidence.MESSAGE)
    reason, hint = environment_reason(chain, "environment")
    assert reason
    assert hint


def test_a_missing_module_is_named():
    chain = (raised("ModuleNotFoundError", "No module named 'deep_ep.buffer'"),)
    assert missing_module(chain) == "deep_ep.buffer"
    assert "'deep_ep.buffer'" in environment_reason(chain, "environment")[0]


@pytest.mark.parametrize("name", ["torch._library.opaque_object", "torch", "functorch.compile"])
def test_a_module_of_torch_that_is_missing_is_an_api_that_is_missing(name):
    chain = (raised("ModuleNotFoundError", f"No module named '{name}'"),)
    assert missing_module(chain) is None
    assert stage(*chain, step="case") == "unsupported_case"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("AttributeError", "module 'torch.library' has no attribute 'custom_op'"),
        ("ImportError", "cannot import name 'x' from 'torch._library' (/a/b.py)"),
        ("TypeError", "register_fake() got an unexpected keyword argument 'allow_override'"),
    ],
)
def test_an_api_that_is_missing_while_the_case_is_loaded(kind, message):
    assert stage(raised(kind, message), step="case") == "unsupported_case"
    assert stage(raised(kind, message), step="eager") == "eager_reference"


def test_the_step_decides_what_came_before_compilation():
    chain = frames("torch/_inductor/graph.py:run")
    assert stage(*chain, step="import") == "import"
    assert stage(*chain, step="case") == "eager_reference"
    assert stage(*chain, step="eager") == "eager_reference"
    assert classify_exception(chain, (), "eager").evidence is Evidence.PROCESS


def test_a_backend_that_needs_triton_tells_by_its_frames():
    chain = frames("torch/_inductor/scheduler.py:create_backend")
    assert classify_exception(chain, ("Scheduler.__init__",)).stage == "environment"


# --- classes and texts --------------------------------------------------------------------------


def test_unsupported_is_an_answer_of_dynamo():
    chain = (raised("torch._dynamo.exc.Unsupported", "Call to print\n  Explanation: ..."),)
    assert classify_exception(chain).stage == "dynamo_tracing"
    assert classify_exception(chain).evidence is Evidence.MESSAGE


@pytest.mark.parametrize(
    "message",
    [
        "Backend compiler exception\n  Explanation: Backend compiler `inductor` failed",
        "Backend compiler failed with a fake tensor exception at \n f(x)",
    ],
)
def test_unsupported_that_carries_a_failure_of_the_backend_is_not_dynamos(message):
    assert stage(raised("torch._dynamo.exc.Unsupported", message)) == "unknown"


@pytest.mark.parametrize(
    ("kind", "message", "wanted"),
    [
        ("torch._dynamo.exc.FailOnRecompileLimitHit", "x", "dynamo_guards"),
        ("AssertionError", "Guard failed on the same frame it was created.", "dynamo_guards"),
        ("torch._inductor.select_algorithm.NoValidChoicesError", "x", "autotuning"),
        ("torch._inductor.exc.LoweringException", "x", "inductor_lowering"),
        ("torch._inductor.exc.CppCompileError", "C++ compile error", "kernel_compile"),
        ("torch._dynamo.exc.TorchRuntimeError", "x", "dynamo_fake_tensor"),
        ("torch._dynamo.exc.InternalTorchDynamoError", "x", "dynamo_tracing"),
        ("torch._inductor.exc.InductorError", "KeyError: 'x'", "unknown"),
        ("torch._dynamo.exc.BackendCompilerFailed", "backend='inductor' raised:\nx", "unknown"),
        ("ValueError", "x", "unknown"),
    ],
)
def test_class_and_text_decide_where_nothing_else_does(kind, message, wanted):
    verdict = classify_exception((raised(kind, message),))
    assert verdict.stage == wanted
    assert verdict.evidence is (Evidence.NONE if wanted == "unknown" else Evidence.MESSAGE)


def test_a_subclass_is_known_by_its_bases():
    link = raised("my.Own", "x", bases=("torch._inductor.exc.LoweringException", "Exception"))
    assert stage(link) == "inductor_lowering"


def test_frames_win_over_class_and_text():
    link = raised("torch._inductor.exc.LoweringException", "x", "<generated>/cabc.py:call")
    assert classify_exception((link,)) == Verdict("runtime", Evidence.FRAMES, Side.FORWARD)


@given(
    st.lists(
        st.builds(
            Raised,
            st.text(),
            st.text(),
            st.lists(st.builds(Frame, st.text(), st.none() | st.integers(), st.text())).map(tuple),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    st.lists(st.text() | st.sampled_from(sorted(NAMED)), max_size=4).map(tuple),
    st.sampled_from(["import", "case", "eager", "compile", "compare", "end"]),
)
def test_every_exception_gets_a_stage_and_evidence_that_fit(chain, phases, step):
    verdict = classify_exception(chain, phases, step)
    assert verdict.stage in ORDER
    assert (verdict.stage == "unknown") == (verdict.evidence is Evidence.NONE)


# --- ends without an exception ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phases", "step", "compiled", "wanted", "evidence"),
    [
        ((), "start", False, "import", Evidence.PROCESS),
        ((), "import", False, "import", Evidence.PROCESS),
        ((), "launch", False, "import", Evidence.PROCESS),
        ((), "case", False, "eager_reference", Evidence.PROCESS),
        ((), "eager", False, "eager_reference", Evidence.PROCESS),
        (LOWERING, "compile", True, "inductor_lowering", Evidence.PHASE),
        (("build_guards",), "compile", True, "dynamo_guards", Evidence.PHASE),
        (("backend_compile",), "compile", True, "unknown", Evidence.NONE),
        (("gc",), "compile", True, "unknown", Evidence.NONE),
        ((), "compile", True, "runtime", Evidence.PROCESS),
        ((), "end", True, "runtime", Evidence.PROCESS),
        ((), "compile", False, "unknown", Evidence.NONE),
    ],
)
def test_an_end_without_an_exception(phases, step, compiled, wanted, evidence):
    verdict = classify_end(phases, step, compiled)
    assert (verdict.stage, verdict.evidence) == (wanted, evidence)


def test_a_crash_in_the_backward_compile_is_on_that_side():
    phases = ("entire_backward_compile", "GraphLowering.run")
    assert classify_end(phases, "compile", True).side is Side.BACKWARD


# --- failures that were reported in public ------------------------------------------------------

_STEPS = {"import": "import", "unsupported_case": "case", "eager_reference": "eager"}


def records(*evidence: str) -> list[dict]:
    if not CORPUS.exists():
        pytest.skip("the labelled corpus is not there")
    found = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    return [record for record in found if record["evidence"] in evidence]


def classified(record: dict) -> str:
    """The frames of a record are those of its innermost exception."""
    told = tuple(Frame(*entry) for entry in record["frames"])
    last = len(record["exceptions"]) - 1
    chain = tuple(
        Raised(link["type"], link["message"], told if number == last else ())
        for number, link in enumerate(record["exceptions"])
    )
    return classify_exception(chain, (), _STEPS.get(record["stage"], "compile")).stage


def test_reported_failures_that_show_frames_are_placed_right():
    found = records("frames", "frames_named_in_report")
    wrong = {
        record["id"]: (record["stage"], classified(record))
        for record in found
        if classified(record) != record["stage"]
    }
    assert len(found) >= 18
    assert len(wrong) <= 0.05 * len(found), wrong


def test_reported_failures_known_by_message_are_placed_right_or_not_at_all():
    found = records("message")
    placed = {record["id"]: (record["stage"], classified(record)) for record in found}
    wrong = {name: pair for name, pair in placed.items() if pair[1] not in (pair[0], "unknown")}
    assert found
    assert not wrong


def test_reported_failures_without_evidence_are_not_placed():
    placed = {record["id"]: classified(record) for record in records("report")}
    assert placed
    assert set(placed.values()) == {"unknown"}, placed
