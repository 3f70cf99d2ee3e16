import faulthandler
import json
import tempfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.judge import FRAMES_KEPT, judge
from repro.outcome import BuildInfo, Evidence, Frame, How, Kind, Outcome, Seconds, Side
from repro.transcript import (
    build_info,
    device_of,
    dumped_frames,
    open_phases,
    parse_events,
    seconds_of,
    short_file,
)
from tests.builders import (
    CANNOT_WRITE,
    ROOTS,
    TORCH_ROOT,
    end,
    event,
    passed,
    phase,
    raised_event,
    step,
    torch_event,
    transcript,
)

COMPILING = (step("import"), torch_event(), step("case"), step("eager"), step("compile"))


def verdict(*ranks, launcher=None, ended=None) -> Outcome:
    code = ranks[0].exit_code if ranks else 0
    return judge(ranks, launcher, ended or end(code or 0), ROOTS)


# --- reading ------------------------------------------------------------------------------------


def test_events_are_read_line_by_line():
    lines = [event("start", pid=3), step("import")]
    assert parse_events("".join(json.dumps(line) + "\n" for line in lines)) == tuple(lines)
    assert parse_events("") == ()


@given(st.integers(min_value=1))
def test_a_last_line_that_was_cut_is_dropped(cut):
    whole, last = json.dumps(step("import")) + "\n", json.dumps(phase("dynamo é"))
    assert parse_events(whole + last[: cut % len(last)]) == (step("import"),)


def test_lone_surrogates_become_printable():
    [read] = parse_events(json.dumps(event("raised", message="a\ud800b", chain=[["\udfff"]])))
    assert read["message"] == "a\\ud800b"
    assert read["chain"] == [["\\udfff"]]
    json.dumps(read, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("file", "short"),
    [
        ("/cases/x.py", "<case>/x.py"),
        ("/scratch/abc/inductor/ab/cab.py", "<generated>/cab.py"),
        ("/scratch/abcd/x.py", "/scratch/abcd/x.py"),
        (f"{TORCH_ROOT}/torch/_inductor/graph.py", "torch/_inductor/graph.py"),
        (f"{TORCH_ROOT}/numpy/a.py", "numpy/a.py"),
        ("/usr/lib/python3.11/contextlib.py", "python3.11/contextlib.py"),
        ("/usr/lib/python3/dist-packages/six.py", "six.py"),
        ("/elsewhere/y.py", "/elsewhere/y.py"),
        ("<string>", "<string>"),
    ],
)
def test_folders_of_this_machine_are_taken_off_file_names(file, short):
    assert short_file(file, ROOTS, TORCH_ROOT) == short


def test_a_torch_that_was_built_in_place_is_shortened_too():
    assert short_file("/src/pytorch/torch/_ops.py", ROOTS, "/src/pytorch") == "torch/_ops.py"


def test_open_phases_are_those_started_and_not_ended():
    events = [phase("a"), phase("b"), phase("b", False), step("x"), phase("c"), phase("d")]
    assert open_phases(events) == ("a", "c", "d")
    assert open_phases([]) == ()
    assert open_phases([phase("a"), phase("a", False)]) == ()


def test_the_end_of_an_outer_phase_ends_what_was_left_open_inside():
    events = [phase("a"), phase("b"), phase("c"), phase("b", False)]
    assert open_phases(events) == ("a",)
    assert open_phases([phase("a"), phase("z", False)]) == ("a",)


def test_a_phase_inside_itself_is_ended_once():
    assert open_phases([phase("a"), phase("a"), phase("a", False)]) == ("a",)


def test_phases_of_threads_are_kept_apart():
    events = [phase("a"), phase("worker", thread=2), phase("b")]
    assert open_phases(events) == ("a", "b")
    assert open_phases([*events, phase("x", thread=2)]) == ("worker", "x")
    done = [*events, phase("worker", False, thread=2)]
    assert open_phases(done) == ("a", "b")


CRASH = f"""\
Fatal Python error: Segmentation fault

Thread 0x00007f7c2b7fe6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f7c8a3ec740 (most recent call first):
  File "{TORCH_ROOT}/torch/_inductor/graph.py", line 1234 in run_node
  File "{TORCH_ROOT}/torch/_dynamo/utils.py", line ??? in <lambda>
  File "/scratch/abc/inductor/xy/cxy.py", line 7 in call
  File "/cases/x.py", line 12 in f
  File "/repro/guest.py", line 300 in probe
  File "/repro/guest.py", line 400 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C (total: 2)
"""
STACKS = f"""\
Timeout (0:00:05)!
Thread 0x00007f7c2b7fe6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait

Thread 0x00007f7c8a3ec740 (most recent call first):
  File "{TORCH_ROOT}/torch/_inductor/scheduler.py", line 50 in fuse_nodes
  File "/repro/guest.py", line 300 in probe
"""


def test_frames_of_a_crash_are_those_of_the_thread_that_crashed():
    assert dumped_frames(CRASH, ROOTS, TORCH_ROOT) == (
        Frame("<case>/x.py", 12, "f"),
        Frame("<generated>/cxy.py", 7, "call"),
        Frame("torch/_dynamo/utils.py", None, "<lambda>"),
        Frame("torch/_inductor/graph.py", 1234, "run_node"),
    )


def test_frames_of_a_time_out_are_those_of_the_thread_that_ran_the_case():
    [only] = dumped_frames(STACKS, ROOTS, TORCH_ROOT)
    assert only == Frame("torch/_inductor/scheduler.py", 50, "fuse_nodes")


def test_a_crash_outside_python_has_no_frames_of_another_thread():
    dump = "Current thread 0x1 (most recent call first):\n  <no Python frame>\n\n" + STACKS
    assert dumped_frames(dump, ROOTS, TORCH_ROOT) == ()


@pytest.mark.parametrize("dump", ["", "Fatal Python error: Aborted\n", '  File "x", line 1 in f'])
def test_a_dump_without_a_stack_has_no_frames(dump):
    assert dumped_frames(dump, ROOTS, None) == ()


def test_a_dump_of_this_very_process_is_read():
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        frames = dumped_frames(file.read(), ROOTS, None)
    assert frames[-1].function == "test_a_dump_of_this_very_process_is_read"
    assert frames[-1].file.endswith("test_judge.py")
    assert isinstance(frames[-1].line, int)


@given(st.text())
def test_any_dump_is_read(dump):
    dumped_frames(dump, ROOTS, TORCH_ROOT)


# --- one process --------------------------------------------------------------------------------


def test_a_case_that_agrees_passes():
    assert verdict(passed()) == Outcome(Kind.PASS)


def test_eager_that_is_not_bitwise_steady_is_noted_on_a_pass():
    base = passed()
    events = tuple(
        event_ | {"nondeterministic": True} if event_["event"] == "agreed" else event_
        for event_ in base.events
    )
    outcome = verdict(replace(base, events=events))
    assert outcome.kind is Kind.PASS
    assert "not bitwise deterministic" in outcome.notes[0]


def test_a_case_that_skips_itself_is_unsupported():
    outcome = verdict(transcript(step("case"), event("skip", reason="needs 2.11")))
    assert (outcome.kind, outcome.stage) == (Kind.UNSUPPORTED, "unsupported_case")
    assert outcome.reason == "needs 2.11"
    silent = verdict(transcript(step("case"), event("skip", reason="")))
    assert silent.reason == "the case skips itself without saying why"


def test_no_device_is_untestable_and_names_what_was_wanted():
    gone = event("no_device", wanted=["cuda", "xpu"], ranks=2)
    outcome = verdict(transcript(step("case"), gone, step("end"), event("done")))
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "environment")
    assert "cuda or xpu for 2 ranks" in outcome.reason
    assert outcome.hint


def test_an_exception_is_a_failure_with_its_stage_and_everything_known():
    raised = raised_event(
        "torch._inductor.exc.InductorError",
        "KeyError: 'buf3' in /scratch/abc/inductor/x.py",
        phases=("entire_frame_compile", "GraphLowering.run"),
        frames=(
            ("/cases/x.py", 3, "f"),
            (f"{TORCH_ROOT}/torch/_inductor/graph.py", 9, "run_node"),
        ),
    )
    outcome = verdict(transcript(*COMPILING, phase("dynamo"), raised, code=1))
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "inductor_lowering")
    assert (outcome.how, outcome.evidence) == (How.EXCEPTION, Evidence.PHASE)
    assert outcome.side is Side.FORWARD
    assert outcome.exceptions == ("torch._inductor.exc.InductorError",)
    assert outcome.message == "KeyError: 'buf3' in <scratch>/inductor/x.py"
    assert outcome.function == "run_node"
    assert outcome.frames == (
        Frame("<case>/x.py", 3, "f"),
        Frame("torch/_inductor/graph.py", 9, "run_node"),
    )
    assert outcome.phases == ("entire_frame_compile", "GraphLowering.run")
    assert outcome.signature.startswith("inductor_lowering | torch._inductor.exc.InductorError | ")
    assert (outcome.reason, outcome.signal) == (None, None)


def test_a_case_and_its_pasted_form_have_one_signature():
    def named(module):
        message = f"Unknown type <class '{module}.Handle'>"
        return verdict(transcript(*COMPILING, raised_event("AssertionError", message), code=1))

    assert named("case_x").signature == named("__main__").signature


def test_the_innermost_frames_are_kept():
    frames = tuple((f"/a/{number}.py", number, "f") for number in range(30))
    raised = raised_event("ValueError", frames=frames)
    kept = verdict(transcript(*COMPILING, raised, code=1)).frames
    assert [frame.line for frame in kept] == list(range(30))[-FRAMES_KEPT:]


def test_an_exception_that_tells_of_the_machine_is_untestable_with_a_hint():
    raised = raised_event("RuntimeError", "No CUDA GPUs are available", step="eager")
    outcome = verdict(transcript(*COMPILING[:4], raised, code=1))
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "environment")
    assert outcome.reason
    assert outcome.hint


def test_an_api_that_is_missing_is_unsupported():
    message = "module 'torch.library' has no attribute 'custom_op'\nmore"
    raised = raised_event("AttributeError", message, step="case")
    outcome = verdict(transcript(*COMPILING[:3], raised, code=1))
    assert outcome.kind is Kind.UNSUPPORTED
    assert "has no attribute 'custom_op'" in outcome.reason
    assert "more" not in outcome.reason


def test_torch_that_cannot_be_imported_is_untestable():
    raised = raised_event("ImportError", "libcusparse.so.12: undefined symbol", step="import")
    outcome = verdict(transcript(step("import"), raised, code=1))
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "import")
    assert "undefined symbol" in outcome.reason


def test_a_torch_without_phase_events_is_noted():
    raised = raised_event("ValueError")
    outcome = verdict(transcript(*COMPILING, event("phases", available=False), raised, code=1))
    assert "no phase events" in outcome.notes[0]


def test_another_result_than_eager_is_a_failure_in_accuracy():
    differs = event(
        "wrong_result",
        seed=1,
        difference="output, leaf 0: 3 of 8 differ",
        eager_differs=None,
        eager_is_exact=True,
    )
    outcome = verdict(transcript(*COMPILING, step("compare"), differs))
    assert (outcome.kind, outcome.stage, outcome.how) == (
        Kind.FAIL,
        "accuracy",
        How.WRONG_RESULT,
    )
    assert outcome.message == "output, leaf 0: 3 of 8 differ"
    assert outcome.notes == ("seed 1",)
    assert outcome.signature == "accuracy | - | - | output, leaf N"


def test_eager_that_differs_from_itself_leaves_nothing_to_compare_with():
    differs = event(
        "wrong_result", seed=0, difference="x", eager_differs="output: y\nz", eager_is_exact=False
    )
    outcome = verdict(transcript(*COMPILING, differs))
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "eager_reference")
    assert "output: y" in outcome.reason
    assert outcome.hint


def test_a_case_that_compiles_nothing_is_no_pass():
    events = [e | {"graphs": 0} if e["event"] == "compiled" else e for e in passed().events]
    outcome = verdict(transcript(*events))
    assert outcome.kind is Kind.UNTESTABLE
    assert "compiled nothing" in outcome.reason
    assert "fullgraph" in outcome.hint


# --- ends without an answer ---------------------------------------------------------------------


def test_a_crash_is_placed_by_the_phase_that_was_open():
    crashed = transcript(
        *COMPILING, phase("entire_frame_compile"), phase("GraphLowering.run"), code=-11, crash=CRASH
    )
    outcome = verdict(crashed)
    assert (outcome.kind, outcome.stage, outcome.how) == (
        Kind.FAIL,
        "inductor_lowering",
        How.SIGNAL,
    )
    assert (outcome.signal, outcome.evidence) == ("SIGSEGV", Evidence.PHASE)
    assert outcome.phases == ("entire_frame_compile", "GraphLowering.run")
    assert outcome.function == "run_node"
    assert outcome.message == "the process was ended by SIGSEGV"
    assert outcome.signature == "inductor_lowering | SIGSEGV | run_node | -"


def test_a_crash_in_a_wide_phase_is_placed_by_the_dumped_stack():
    crashed = transcript(*COMPILING, phase("backend_compile"), code=-6, crash=CRASH)
    outcome = verdict(crashed)
    assert (outcome.stage, outcome.evidence) == ("inductor_lowering", Evidence.FRAMES)
    assert outcome.signal == "SIGABRT"


def test_a_crash_in_eager_is_no_matter_of_the_compiler():
    outcome = verdict(transcript(*COMPILING[:4], code=-11, crash=CRASH))
    assert (outcome.kind, outcome.stage, outcome.signal) == (
        Kind.FAIL,
        "eager_reference",
        "SIGSEGV",
    )


def test_a_crash_while_torch_is_imported_is_untestable():
    outcome = verdict(transcript(step("import"), code=-11))
    assert (outcome.kind, outcome.stage, outcome.how) == (Kind.UNTESTABLE, "import", How.SIGNAL)
    assert outcome.signal == "SIGSEGV"
    assert "SIGSEGV" in outcome.reason


def test_a_crash_of_compiled_code_is_runtime():
    events = (*COMPILING, phase("dynamo"), phase("dynamo", False))
    assert verdict(transcript(*events, code=-8)).stage == "runtime"


def test_a_kill_from_outside_is_untestable():
    outcome = verdict(transcript(*COMPILING, phase("dynamo"), code=-9))
    assert (outcome.kind, outcome.stage, outcome.how) == (
        Kind.UNTESTABLE,
        "environment",
        How.KILLED,
    )
    assert "SIGKILL" in outcome.reason
    assert "memory" not in outcome.reason


def test_a_kill_for_memory_says_so():
    killed = transcript(*COMPILING, code=-9)
    outcome = verdict(killed, ended=end(-9, memory_kill=True))
    assert outcome.kind is Kind.UNTESTABLE
    assert "memory" in outcome.reason
    assert "memory" in outcome.hint


def test_a_time_out_is_a_failure_where_it_hung():
    hung = transcript(*COMPILING, phase("Scheduler.__init__"), code=-9, stacks=STACKS)
    outcome = verdict(hung, ended=end(-9, timed_out=True, timeout=60))
    assert (outcome.kind, outcome.stage, outcome.how) == (
        Kind.FAIL,
        "inductor_scheduling",
        How.TIMEOUT,
    )
    assert outcome.message == "no end after 60 s"
    assert outcome.function == "fuse_nodes"
    assert outcome.signal is None


def test_a_time_out_outside_every_phase_is_placed_by_the_dumped_stack():
    hung = transcript(*COMPILING, code=-9, stacks=STACKS)
    outcome = verdict(hung, ended=end(-9, timed_out=True))
    assert (outcome.stage, outcome.evidence) == ("inductor_scheduling", Evidence.FRAMES)


def test_a_time_out_in_eager_stays_there():
    hung = transcript(*COMPILING[:4], code=-9, stacks=STACKS)
    outcome = verdict(hung, ended=end(-9, timed_out=True))
    assert (outcome.stage, outcome.how) == ("eager_reference", How.TIMEOUT)


def test_a_hang_after_the_case_was_done_is_no_pass():
    hung = replace(passed(), exit_code=-9)
    outcome = verdict(hung, ended=end(-9, timed_out=True))
    assert (outcome.kind, outcome.how) == (Kind.FAIL, How.TIMEOUT)


def test_an_exit_half_way_is_a_failure_though_its_status_is_0():
    outcome = verdict(transcript(*COMPILING, phase("build_guards"), code=0))
    assert (outcome.kind, outcome.stage, outcome.how) == (Kind.FAIL, "dynamo_guards", How.KILLED)
    assert outcome.message == "the process left with exit status 0 before the case was finished"


def test_an_exit_half_way_without_evidence_is_unknown():
    outcome = verdict(transcript(*COMPILING, code=3))
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "unknown")
    assert outcome.evidence is Evidence.NONE


def test_events_that_could_not_be_written_are_untestable():
    outcome = verdict(transcript(*COMPILING, code=CANNOT_WRITE))
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "environment")
    assert "disk" in outcome.reason


def test_a_check_that_rejects_identical_results_is_what_is_named():
    differs = event(
        "wrong_result", seed=0, difference=None, eager_differs="check: no", eager_is_exact=True
    )
    outcome = verdict(transcript(*COMPILING, differs))
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "eager_reference")
    assert outcome.reason == "the case's check rejects two identical eager results: check: no"


def test_leaves_that_were_compared_by_type_alone_are_noted_on_a_pass():
    events = [
        event_ | {"by_type": ["x.Handle"]} if event_["event"] == "agreed" else event_
        for event_ in passed().events
    ]
    outcome = verdict(transcript(*events))
    assert (outcome.kind, outcome.notes) == (Kind.PASS, ("compared by type alone: x.Handle",))


def test_leaving_at_exit_is_not_said_to_be_half_way():
    outcome = verdict(replace(passed(), exit_code=3))
    assert (outcome.kind, outcome.how) == (Kind.FAIL, How.KILLED)
    assert "while Python was shutting down, after the case had agreed" in outcome.message


def test_an_interpreter_that_leaves_no_events_is_untestable():
    outcome = judge([], None, end(1), ROOTS)
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "import")
    assert "left no events" in outcome.reason


def test_a_crash_at_exit_after_the_case_was_done_is_no_pass():
    outcome = verdict(replace(passed(), exit_code=-11))
    assert (outcome.kind, outcome.how, outcome.signal) == (Kind.FAIL, How.SIGNAL, "SIGSEGV")


def test_a_bad_status_after_the_case_was_done_is_no_pass():
    assert verdict(replace(passed(), exit_code=1)).kind is Kind.FAIL


def test_a_process_that_wrote_nothing_at_all_is_untestable():
    outcome = judge((), None, end(1), ROOTS)
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "import")


# --- several ranks ------------------------------------------------------------------------------


def failed(rank: int, at: float, kind: str = "ValueError", code: int | None = 1):
    return transcript(
        *COMPILING, raised_event(kind, f"of rank {rank}", at=at), rank=rank, code=code
    )


def silent(rank: int, at: float = 2.0):
    """A rank that was ended while it compiled; its exit status is the launcher's to know."""
    return transcript(*COMPILING, phase("GraphLowering.run", at=at), rank=rank, code=None)


def launcher(codes: dict[int, int] | None = None, code: int = 0):
    told = (
        []
        if codes is None
        else [event("ranks_ended", exit_codes={str(r): c for r, c in codes.items()})]
    )
    last = [event("done")] if codes is None else []
    return transcript(step("import"), step("launch"), *told, *last, code=code)


def test_all_ranks_pass():
    assert verdict(passed(0), passed(1), launcher=launcher()) == Outcome(Kind.PASS)


def test_the_rank_that_failed_first_counts():
    ranks = failed(0, 9.0, "RuntimeError", None), failed(1, 4.0, "KeyError", None)
    outcome = verdict(*ranks, launcher=launcher({0: 1, 1: 1}, 1))
    assert (outcome.rank, outcome.exceptions) == (1, ("KeyError",))


def test_a_rank_that_passed_does_not_hide_one_that_failed():
    ranks = passed(0, code=None), failed(1, 4.0, code=None)
    assert verdict(*ranks, launcher=launcher({1: 1}, 1)).rank == 1


def test_a_rank_that_the_launcher_ended_does_not_hide_the_one_that_raised():
    ranks = silent(0), failed(1, 30.0, code=None)
    outcome = verdict(*ranks, launcher=launcher({0: -15, 1: 1}, 1))
    assert (outcome.rank, outcome.how) == (1, How.EXCEPTION)


def test_a_rank_that_the_launcher_ended_does_not_hide_the_one_that_crashed():
    ranks = silent(0, 2.0), silent(1, 8.0)
    outcome = verdict(*ranks, launcher=launcher({0: -15, 1: -11}, 1))
    assert (outcome.rank, outcome.signal) == (1, "SIGSEGV")


@pytest.mark.parametrize("code", [1, -11])
def test_a_rank_of_which_the_launcher_says_nothing_does_not_hide_the_one_it_names(code):
    """torchrun up to 2.10 names the ranks that failed, not those that it ended after them."""
    last = failed(1, 30.0, code=None) if code == 1 else silent(1, 30.0)
    outcome = verdict(silent(0, 2.0), last, launcher=launcher({1: code}, 1))
    assert outcome.rank == 1
    assert outcome.how is (How.EXCEPTION if code == 1 else How.SIGNAL)


def test_a_rank_ended_by_the_launcher_counts_where_nothing_else_is_known():
    outcome = verdict(silent(0), passed(1, code=None), launcher=launcher({0: -15}, 1))
    assert (outcome.kind, outcome.rank) == (Kind.FAIL, 0)


def test_a_rank_that_crashes_at_exit_is_no_pass():
    ranks = passed(0, code=None), passed(1, code=None)
    outcome = verdict(*ranks, launcher=launcher({1: -11}, 1))
    assert (outcome.kind, outcome.rank, outcome.signal) == (Kind.FAIL, 1, "SIGSEGV")


def test_on_a_time_out_the_rank_that_fell_silent_first_counts():
    ranks = silent(0, 8.0), silent(1, 3.0)
    outcome = verdict(*ranks, launcher=launcher({}), ended=end(-9, timed_out=True))
    assert (outcome.rank, outcome.how) == (1, How.TIMEOUT)


def test_on_a_time_out_a_rank_that_was_done_is_not_the_one_that_hung():
    ranks = passed(0, at=2.0, code=None), silent(1, 8.0)
    outcome = verdict(*ranks, launcher=launcher({}), ended=end(-9, timed_out=True))
    assert (outcome.rank, outcome.stage) == (1, "inductor_lowering")


def test_on_a_time_out_a_rank_that_was_silent_does_not_hide_what_another_raised():
    ranks = silent(0, 2.0), failed(1, 5.0, code=None)
    outcome = verdict(*ranks, launcher=launcher({}), ended=end(-9, timed_out=True))
    assert (outcome.rank, outcome.how) == (1, How.EXCEPTION)


def test_a_rank_that_left_nothing_behind_is_no_pass():
    outcome = verdict(passed(0, code=None), launcher=launcher({1: 1}, 1), ended=end(1))
    assert outcome.kind is not Kind.PASS


def test_one_rank_without_a_device_makes_the_probe_untestable():
    gone = transcript(step("case"), event("no_device", wanted=["cuda"], ranks=2), rank=1, code=None)
    outcome = verdict(silent(0), gone, launcher=launcher({0: -15}, 1))
    assert outcome.kind is Kind.UNTESTABLE
    assert "no such device" in outcome.reason


def test_one_rank_that_skips_makes_the_probe_unsupported():
    skipped = transcript(step("case"), event("skip", reason="no"), rank=0, code=None)
    assert verdict(skipped, passed(1, code=None), launcher=launcher()).kind is Kind.UNSUPPORTED


@pytest.mark.parametrize("code", [1, -11])
def test_a_launcher_that_cannot_import_torch_is_untestable(code):
    started = transcript(event("start"), step("import"), code=code)
    outcome = judge((), started, end(code), ROOTS)
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "import")


# --- what else is read --------------------------------------------------------------------------


def test_the_build_is_what_torch_says_of_itself():
    silent_ = transcript(step("import"))
    told = transcript(torch_event("2.12.1+cu130", cuda="13.0"))
    assert build_info("2.12", [silent_, told]) == BuildInfo(
        "2.12", "2.12.1+cu130", "cu130", "a" * 40, "3.11.4"
    )
    assert build_info("2.12", [silent_]) == BuildInfo("2.12")


def test_the_device_is_the_first_that_is_told():
    assert device_of([transcript(), transcript(event("device", device="cuda"))]) == "cuda"
    assert device_of([transcript()]) is None


def test_seconds_are_those_of_the_slowest_rank():
    def rank(number, seconds):
        return transcript(
            torch_event(seconds=seconds),
            event("seconds", name="eager", seconds=seconds * 2),
            rank=number,
        )

    assert seconds_of([rank(0, 1.0), rank(1, 3.0)]) == Seconds(import_=3.0, eager=6.0)
    assert seconds_of([]) == Seconds()
