from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.bisect.labels import UNSUPPORTED, Match, change_between, label_of
from repro.bisect.search import SKIP
from repro.outcome import How, Kind, Outcome
from repro.timeline import Change
from tests.builders import failure, untestable

PASS = Outcome(Kind.PASS)
REFUSED = Outcome(Kind.UNSUPPORTED, "unsupported_case", reason="needs 2.11")
KILLED = Outcome(Kind.UNTESTABLE, "runtime", how=How.KILLED, reason="killed from outside")
OTHER_MESSAGE = failure(message="other", signature="inductor_lowering | ValueError | f | other")
OTHER_OUTER = failure(exceptions=("RuntimeError", "ValueError"))
OTHER_INNER = failure(
    exceptions=("torch._inductor.exc.InductorError", "TypeError"),
    signature="inductor_lowering | TypeError | f | it broke",
)
OTHER_STAGE = failure("autotuning")


def crash(how: How, **more: str) -> Outcome:
    """A failure without exception; all of them at one stage, so that it tells none apart."""
    return failure("runtime", how=how, exceptions=(), **more)


def hang(stage: str) -> Outcome:
    return failure(stage, how=How.TIMEOUT, exceptions=())


@pytest.mark.parametrize(
    ("other", "at_stage", "by_signature"),
    [
        (failure(), True, True),
        (failure(message="another line", pass_name="reinplace", rank=1), True, True),
        (OTHER_OUTER, True, True),
        (OTHER_MESSAGE, True, False),
        (OTHER_INNER, False, False),
        (OTHER_STAGE, False, False),
    ],
)
def test_how_much_two_failures_must_share_to_be_the_same(
    other: Outcome, at_stage: bool, by_signature: bool
) -> None:
    def same(match: Match) -> bool:
        return label_of(failure(), match) == label_of(other, match)

    assert same(Match.STAGE) is at_stage
    assert same(Match.SIGNATURE) is by_signature
    assert same(Match.ANY)


def test_the_raising_function_is_no_part_of_a_stage_and_one_of_a_signature() -> None:
    other = failure(function="g", signature="inductor_lowering | ValueError | g | it broke")
    assert label_of(failure(), Match.STAGE) == label_of(other, Match.STAGE)
    assert label_of(failure(), Match.SIGNATURE) != label_of(other, Match.SIGNATURE)


def test_any_makes_one_class_of_all_failures_and_of_nothing_else() -> None:
    failures = [failure(), OTHER_STAGE, crash(How.SIGNAL, signal="SIGSEGV"), crash(How.KILLED)]
    labels = {label_of(outcome, Match.ANY) for outcome in failures}
    assert len(labels) == 1
    assert labels.isdisjoint(label_of(one, Match.ANY) for one in (PASS, REFUSED, untestable()))


@pytest.mark.parametrize("match", Match)
def test_what_is_no_failure_has_a_class_whatever_must_match(match: Match) -> None:
    assert label_of(PASS, match) == Kind.PASS
    assert label_of(REFUSED, match) == UNSUPPORTED == Kind.UNSUPPORTED
    assert label_of(untestable(), match) is SKIP
    assert len({label_of(one, match) for one in (PASS, REFUSED, untestable(), failure())}) == 4


@pytest.mark.parametrize("match", Match)
@pytest.mark.parametrize("hangs", [False, True])
def test_what_could_not_be_tested_is_skipped_also_where_hangs_are_looked_for(
    match: Match, hangs: bool
) -> None:
    stuck = untestable("torch cannot be imported in time", how=How.TIMEOUT)
    assert label_of(KILLED, match, hangs) is SKIP
    assert label_of(stuck, match, hangs) is SKIP


def test_why_a_case_is_unsupported_makes_no_other_class() -> None:
    other = Outcome(Kind.UNSUPPORTED, "unsupported_case", reason="no such op")
    assert label_of(other, Match.SIGNATURE) == label_of(REFUSED, Match.SIGNATURE)


ENDS = (
    crash(How.WRONG_RESULT),
    crash(How.KILLED),
    crash(How.SIGNAL, signal="SIGSEGV"),
    crash(How.SIGNAL, signal="SIGABRT"),
    failure("runtime"),
)


@pytest.mark.parametrize(
    ("one", "other"),
    list(combinations(ENDS, 2)),
)
def test_without_exception_the_end_of_the_process_tells_failures_apart(
    one: Outcome, other: Outcome
) -> None:
    assert label_of(one, Match.STAGE) != label_of(other, Match.STAGE)


# --- time-outs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("match", Match)
def test_a_time_out_is_skipped_unless_hangs_are_looked_for(match: Match) -> None:
    assert label_of(hang("runtime"), match) is SKIP
    assert label_of(hang("runtime"), match, hangs=True) is not SKIP


@pytest.mark.parametrize("match", Match)
def test_where_the_time_was_over_tells_no_time_out_from_another(match: Match) -> None:
    one, other = hang("runtime"), hang("autotuning")
    assert one.signature != other.signature
    assert label_of(one, match, hangs=True) == label_of(other, match, hangs=True)


@pytest.mark.parametrize(("match", "same"), [("stage", False), ("signature", False), ("any", True)])
def test_a_hang_that_is_looked_for_is_another_failure_than_an_exception(
    match: str, same: bool
) -> None:
    labels = [label_of(one, Match(match), hangs=True) for one in (hang("runtime"), failure())]
    assert (labels[0] == labels[1]) is same


@pytest.mark.parametrize("match", Match)
def test_looking_for_hangs_changes_the_class_of_nothing_else(match: Match) -> None:
    for outcome in (PASS, REFUSED, failure(), crash(How.SIGNAL, signal="SIGSEGV"), untestable()):
        assert label_of(outcome, match, hangs=True) == label_of(outcome, match)


@given(
    st.sampled_from([failure(), OTHER_STAGE, OTHER_MESSAGE, hang("runtime"), crash(How.KILLED)]),
    st.sampled_from([PASS, REFUSED, untestable()]),
    st.sampled_from(Match),
    st.booleans(),
)
def test_a_failure_that_counts_is_a_tuple_and_nothing_else_is(
    failed: Outcome, other: Outcome, match: Match, hangs: bool
) -> None:
    """What several runs of a build come to rests on this."""
    counts = hangs or failed.how is not How.TIMEOUT
    assert isinstance(label_of(failed, match, hangs), tuple) is counts
    assert not isinstance(label_of(other, match, hangs), tuple)


# --- changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("older", "newer"), list(product(Kind, repeat=2)))
def test_what_a_change_does_to_a_case(older: Kind, newer: Kind) -> None:
    said = {("pass", "fail"): Change.BREAKS, ("fail", "pass"): Change.FIXES}
    change = change_between(Outcome(older), Outcome(newer))
    assert change is said.get((str(older), str(newer)), Change.CHANGES)
