"""Cases that fail in a known way under the torch of this interpreter: kind, stage and the rest.

The label of each follows from how its failure is made; see the docstrings under tests/planted.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest

from repro.builds import parse_spec
from repro.case import read_case
from repro.outcome import Evidence, How, Kind, Run, Side
from repro.runner import Request, run_case
from repro.store import Environment
from tests.conftest import PLANTED, alive


def run_anew(name: str) -> Run:
    case = read_case(PLANTED / f"{name}.py")
    return run_case(Request(case, parse_spec("current")), Environment(Path(sys.executable)))


# Several tests look at one run; those that change the surroundings run the case anew.
run_planted = functools.cache(run_anew)


# name, stage, how, innermost exception
FAILURES = [
    ("fake_raises", "dynamo_fake_tensor", How.EXCEPTION, "ValueError"),
    ("not_utf8", "dynamo_fake_tensor", How.EXCEPTION, "ValueError"),
    ("graph_break", "dynamo_tracing", How.EXCEPTION, "torch._dynamo.exc.Unsupported"),
    ("post_grad_raises", "post_grad_passes", How.EXCEPTION, "RuntimeError"),
    ("lowering_raises", "inductor_lowering", How.EXCEPTION, "RuntimeError"),
    ("kernel_compile", "kernel_compile", How.EXCEPTION, "torch._inductor.exc.CppCompileError"),
    ("backward_lowering", "inductor_lowering", How.EXCEPTION, "RuntimeError"),
    ("segfault_compile", "inductor_lowering", How.SIGNAL, None),
    ("hang", "inductor_lowering", How.TIMEOUT, None),
    ("exits_early", "inductor_lowering", How.KILLED, None),
    ("two_ranks", "inductor_lowering", How.EXCEPTION, "RuntimeError"),
]


@pytest.mark.parametrize(("name", "stage", "how", "innermost"), FAILURES)
def test_a_compile_failure_has_its_stage_from_the_phases(
    name: str, stage: str, how: How, innermost: str | None
) -> None:
    made = run_planted(name)
    outcome = made.outcome
    assert (outcome.kind, outcome.stage, outcome.how) == (Kind.FAIL, stage, how), made.log
    assert outcome.evidence is Evidence.PHASE
    assert (outcome.exceptions[-1] if outcome.exceptions else None) == innermost
    assert outcome.side is (Side.BACKWARD if name.startswith("backward") else Side.FORWARD)
    assert outcome.signature is not None
    assert outcome.signature.startswith(f"{stage} | ")
    made.log.encode()  # whatever the case printed can be printed again


def test_the_pass_that_raised_is_named() -> None:
    assert run_planted("post_grad_raises").outcome.pass_name == "post_grad_custom_post_pass"


def test_a_guard_that_may_not_recompile() -> None:
    outcome = run_planted("guard_fails").outcome
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "dynamo_guards")


def test_an_op_that_raises_in_compiled_code_fails_at_run_time() -> None:
    outcome = run_planted("runtime_raises").outcome
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "runtime")
    assert outcome.evidence is Evidence.FRAMES  # no phase is open while compiled code runs


def test_a_segfault_in_eager_is_the_case_itself() -> None:
    made = run_planted("segfault_eager")
    outcome = made.outcome
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "eager_reference")
    assert (outcome.how, outcome.signal) == (How.SIGNAL, "SIGSEGV")
    assert outcome.function == "string_at"
    assert "Segmentation fault" in made.log


def test_an_exception_in_eager_is_the_case_itself() -> None:
    outcome = run_planted("eager_raises").outcome
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "eager_reference")
    assert outcome.exceptions == ("RuntimeError",)


def test_a_wrong_result_is_found_and_placed_by_the_ladder() -> None:
    outcome = run_planted("wrong_result").outcome
    assert (outcome.kind, outcome.stage, outcome.how) == (
        Kind.FAIL,
        "accuracy",
        How.WRONG_RESULT,
    )
    assert dict(outcome.ladder) == {
        "eager": "pass",
        "aot_eager": "pass",
        "aot_eager_decomp_partition": "pass",
        "inductor": "wrong_result",
    }
    assert outcome.evidence is Evidence.LADDER


def test_a_hang_is_ended_with_everything_it_started_and_shows_its_stacks() -> None:
    made = run_planted("hang")
    child = int(made.log.partition("child pid=")[2].split()[0])
    assert not alive(child)
    assert made.outcome.function == "lowering"
    assert made.seconds.total is not None
    limit = read_case(PLANTED / "hang.py").timeout
    assert limit <= made.seconds.total < limit + 15


def test_a_gigabyte_on_stdout_changes_nothing_and_is_bounded() -> None:
    made = run_planted("loud")
    assert made.outcome.kind is Kind.PASS, made.log
    assert "bytes left out" in made.log
    assert len(made.log) < 2_000_000


def test_passing_with_backward() -> None:
    made = run_planted("passes")
    assert made.outcome.kind is Kind.PASS, made.log
    assert made.device == "cpu"
    seconds = made.seconds
    assert None not in (seconds.import_, seconds.eager, seconds.compile, seconds.total)


def test_an_error_that_the_case_suppresses_is_a_failure() -> None:
    outcome = run_planted("suppressed").outcome
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "inductor_lowering")


def test_a_second_probe_reuses_the_toolchain_and_nothing_of_the_case(cache: Path) -> None:
    assert run_planted("passes").outcome.kind is Kind.PASS
    kept = {path.name for path in (cache / "toolchain").rglob("*") if path.is_file()}
    assert any(name.endswith(".so") for name in kept)
    sources = [path.read_text() for path in (cache / "toolchain").rglob("*.cpp")]
    assert sources
    assert all("_chk_kernel" in source for source in sources)


def test_a_module_that_is_not_there_is_untestable() -> None:
    outcome = run_planted("missing_module").outcome
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "environment")
    assert "module_that_is_not_there" in (outcome.reason or "")


def test_a_skip_is_unsupported_and_keeps_its_reason() -> None:
    outcome = run_planted("skips").outcome
    assert (outcome.kind, outcome.reason) == (Kind.UNSUPPORTED, "needs an API that no build has")


def test_eager_that_differs_from_itself_is_untestable() -> None:
    outcome = run_planted("nondeterministic").outcome
    assert outcome.kind is Kind.UNTESTABLE
    assert "eager itself gives different results" in (outcome.reason or "")


@pytest.mark.parametrize("name", ["not_compiled", "forced_eager"])
def test_a_case_that_compiles_nothing_does_not_pass(name: str) -> None:
    outcome = run_planted(name).outcome
    assert outcome.kind is Kind.UNTESTABLE
    assert "compiled nothing" in (outcome.reason or "")


def test_without_a_compiler_on_path_it_is_untestable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    outcome = run_anew("passes").outcome
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "environment")
    assert "no working C++ compiler" in (outcome.reason or "")


def test_a_device_that_is_not_there_is_untestable() -> None:
    case = read_case(PLANTED / "passes.py")
    request = Request(case, parse_spec("current"), device="xpu")
    outcome = run_case(request, Environment(Path(sys.executable))).outcome
    assert (outcome.kind, outcome.stage) == (Kind.UNTESTABLE, "environment")
    assert "no such device: the case needs xpu" in (outcome.reason or "")


def test_the_shell_changes_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """TORCHDYNAMO_DISABLE in somebody's shell would make every case pass."""
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    monkeypatch.setenv("PYTHONPATH", os.fspath(PLANTED))
    outcome = run_anew("fake_raises").outcome
    assert (outcome.kind, outcome.stage) == (Kind.FAIL, "dynamo_fake_tensor")
