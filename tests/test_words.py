from itertools import permutations

import pytest

from repro.outcome import Evidence, Frame, Kind, Outcome, Side
from repro.report.words import (
    build_words,
    first_line,
    in_order,
    ladder_words,
    mapped,
    place,
    sentences,
    what,
)
from tests.builders import failure, run, untestable

UNSUPPORTED = Outcome(Kind.UNSUPPORTED, "unsupported_case", reason="needs 2.11")


def test_runs_come_by_kind_and_failures_by_stage_in_pipeline_order():
    runs = [
        run(failure("dynamo_tracing"), "a"),
        run(failure("autotuning"), "b"),
        run(failure("runtime"), "c"),
        run(failure("unknown"), "d"),
        run(untestable(), "e"),
        run(UNSUPPORTED, "f"),
        run(name="g"),
    ]
    for shuffled in list(permutations(runs))[::97]:
        assert in_order(shuffled) == runs


def test_runs_of_one_stage_keep_their_order():
    runs = [run(failure("runtime"), name) for name in "cab"]
    assert in_order(runs) == runs


@pytest.mark.parametrize(
    ("version", "variant", "spec", "words"),
    [
        ("2.12.1+cu130", "cu130", "2.12", "2.12.1 cu130"),
        ("2.12.1", "cpu", "2.12", "2.12.1 cpu"),
        ("2.12.1+cpu", None, "2.12", "2.12.1 cpu"),
        ("2.12.1", None, "2.12", "2.12.1"),
        (None, None, "2.12", "2.12"),
    ],
)
def test_a_build_in_words(version, variant, spec, words):
    assert build_words(run(version=version, variant=variant, spec=spec)) == words


def test_what_happened_in_one_line():
    assert what(failure()) == "ValueError in f: it broke"
    assert what(failure(message="\n\n first \nsecond")) == "ValueError in f: first"
    assert what(failure(message="")) == "ValueError in f"
    assert what(failure(message="got:")) == "ValueError in f: got:"
    assert what(failure(function=None)) == "ValueError: it broke"
    assert what(failure(pass_name="reinplace", side=Side.BACKWARD, rank=1)) == (
        "ValueError in f (pass reinplace, backward, rank 1): it broke"
    )
    assert what(failure(exceptions=(), message="the process was ended by SIGSEGV")) == (
        "the process was ended by SIGSEGV in f"
    )
    assert what(untestable("no GPU")) == "no GPU"
    assert what(UNSUPPORTED) == "needs 2.11"
    assert what(Outcome(Kind.PASS)) == ""
    assert what(Outcome(Kind.PASS, notes=("a", "b"))) == "a; b"


def test_the_forward_side_goes_without_saying():
    assert what(failure(side=Side.FORWARD)) == what(failure())


def test_the_place_is_the_innermost_frame():
    assert place(failure()) == "<case>/x.py:3"
    assert place(failure(frames=(Frame("a.py", None, "f"),))) == "a.py"
    assert place(failure(frames=())) is None
    assert place(untestable(frames=(Frame("a.py", 1, "f"),))) is None


def test_the_ladder_in_words():
    ladder = (("eager", "pass"), ("inductor", "wrong_result"))
    assert ladder_words(failure(ladder=ladder)) == "eager pass, inductor wrong_result"
    assert ladder_words(failure()) is None


def test_the_first_line_that_says_something():
    assert first_line("\n  \n a \nb") == "a"
    assert first_line(None) == first_line("") == ""


# --- sentences ----------------------------------------------------------------------------------


def test_one_sentence_a_case_says_where_it_fails_and_where_not():
    runs = [
        run(name="a", version="2.13.0+cpu", variant="cpu"),
        run(failure("runtime"), "a", version="2.12.1+cpu", variant="cpu"),
        run(failure("dynamo_tracing"), "a", version="2.11.0+cpu", variant="cpu"),
        run(UNSUPPORTED, "a", version="2.6.0+cpu", variant="cpu"),
        run(untestable(), "a", version=None, spec="2.9"),
        run(name="b", version="2.13.0+cpu", variant="cpu"),
    ]
    assert sentences(runs) == [
        "a fails in 2.11.0 cpu at dynamo_tracing; fails in 2.12.1 cpu at runtime; "
        "passes in 2.13.0 cpu; is not supported by 2.6.0 cpu; could not be tested in 2.9.",
        "b passes in 2.13.0 cpu.",
    ]


def test_builds_of_one_stage_are_listed_together_and_once():
    runs = [
        run(failure("runtime"), version=f"{version}+cpu", variant="cpu")
        for version in ("2.12.1", "2.13.0", "2.12.1")
    ]
    assert sentences(runs) == ["x fails in 2.12.1 cpu, 2.13.0 cpu at runtime."]


def test_no_runs_no_sentences():
    assert sentences([]) == []


# --- changing every text ------------------------------------------------------------------------


def test_every_text_of_a_run_is_changed_and_nothing_else():
    before = run(
        failure(
            "runtime",
            ladder=(("eager", "pass"),),
            notes=("a",),
            phases=("b",),
            pass_name="c",
            side=Side.FORWARD,
            rank=2,
        ),
        log="secret",
    )
    [after] = mapped((before,), lambda text: text.replace("secret", "***").replace("<case>", "C"))
    assert after.log == "***"
    assert after.outcome.frames[-1] == Frame("C/x.py", 3, "f")
    assert after.outcome.kind is Kind.FAIL
    assert after.outcome.evidence is Evidence.PHASE
    assert (after.outcome.rank, after.seconds) == (2, before.seconds)
    touched = []
    mapped((before,), lambda text: touched.append(text) or text)
    for text in (
        "secret",
        "it broke",
        "f",
        "ValueError",
        "eager",
        "a",
        "b",
        "c",
        "2.12.1",
        "3.11.4",
    ):
        assert text in touched
    assert "fail" not in touched
    assert mapped((before,), lambda text: text) == (before,)
