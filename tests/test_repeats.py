import random
from collections.abc import Hashable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.bisect.flaky import Runs, candidates
from repro.bisect.repeats import CONFIDENCE, LIMIT, Doubt, doubts
from repro.bisect.search import SKIP, Change

P, F, G, BLANK = "pass", ("fail", 1), ("fail", 2), "unsupported"
Labels = dict[int, list[Hashable]]


def change(older: int, newer: int) -> Change:
    return Change(older, newer, tuple(range(older + 1, newer)))


def only(changes: Sequence[Change], labels: Labels) -> Doubt:
    [doubt] = doubts(changes, labels).values()
    return doubt


def share(doubt: Doubt, labels: Labels) -> dict[tuple[int, int], float]:
    return {pair: round(part, 6) for pair, part in doubt.likely(labels).items()}


# --- what is in doubt ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("older", "newer", "in_doubt"),
    [
        ([P], [F], False),
        ([P, P], [F, F], False),
        ([P, P], [F, P], True),
        ([P, F], [F, F], True),
        ([P, P], [F, G], True),
        ([P, SKIP], [F, SKIP], False),
        ([SKIP, P], [F, SKIP, F], False),
        ([P, P], [F, SKIP, P], True),
        ([BLANK, BLANK], [P, F], True),
    ],
)
def test_a_change_is_in_doubt_where_a_side_gave_something_else(
    older: list[Hashable], newer: list[Hashable], in_doubt: bool
) -> None:
    changed = change(0, 1)
    assert bool(doubts([changed], {0: older, 1: newer})) is in_doubt


def test_what_disagrees_with_itself_beside_no_change_puts_none_in_doubt() -> None:
    labels: Labels = {0: [P, F], 1: [P, P], 2: [F, F], 3: [F, P]}
    assert doubts([change(1, 2)], labels) == {}


def test_no_change_no_doubt() -> None:
    assert doubts([], {0: [P, F], 1: [F, P]}) == {}
    assert doubts([], {}) == {}


def test_a_build_between_two_changes_puts_both_in_doubt() -> None:
    changes = [change(1, 2), change(2, 3), change(5, 6)]
    labels: Labels = {0: [P], 1: [P], 2: [F, P], 3: [G], 5: [G], 6: [P, P], 7: [P]}
    assert list(doubts(changes, labels)) == changes[:2]


# --- where the change is looked for -------------------------------------------------------------

THREE = [change(2, 3), change(5, 6), change(8, 9)]


@pytest.mark.parametrize(
    ("place", "first", "last"),
    [(0, 0, 5), (1, 3, 8), (2, 6, 11)],
)
def test_the_range_ends_at_the_neighbouring_changes_and_at_what_was_looked_at(
    place: int, first: int, last: int
) -> None:
    labels: Labels = {
        0: [P], 2: [P], 3: [F], 5: [F], 6: [G], 8: [G], 9: [P], 11: [P],
    }  # fmt: skip
    side = THREE[place].newer
    labels[side] = [*labels[side], SKIP, BLANK]
    doubt = only(THREE, labels)
    assert (doubt.first, doubt.runs.size) == (first, last - first + 1)
    assert {first + position for position in doubt.runs.seen} <= set(range(first, last + 1))


def test_what_was_seen_counts_from_the_first_build_of_the_range() -> None:
    labels: Labels = {1: [P], 3: [P, P, P], 4: [F, P, F], 6: [F], 7: [F, F]}
    doubt = only([change(3, 4)], labels)
    assert doubt.first == 1
    assert doubt.runs == Runs(7, {0: (0, 1), 2: (0, 3), 3: (2, 1), 5: (1, 0), 6: (2, 0)})


def test_what_could_not_be_tested_counts_for_nothing() -> None:
    labels: Labels = {0: [P, SKIP], 1: [SKIP], 2: [SKIP, SKIP], 3: [F, P, SKIP], 4: [F]}
    doubt = only([change(0, 3)], labels)
    assert doubt.runs == Runs(5, {0: (0, 1), 3: (1, 1), 4: (1, 0)}, frozenset({1, 2}))


def test_a_bug_that_goes_away_belongs_to_the_older_side() -> None:
    labels: Labels = {0: [F], 1: [F, P], 2: [P, P], 3: [P]}
    doubt = only([change(1, 2)], labels)
    assert doubt.runs == Runs(4, {0: (1, 0), 1: (1, 1), 2: (0, 2), 3: (0, 1)}, breaks=False)


def test_where_one_failure_follows_another_the_newer_one_is_the_bug() -> None:
    labels: Labels = {0: [F], 1: [F, G], 2: [G, F], 3: [G, P]}
    doubt = only([change(1, 2)], labels)
    assert doubt.runs == Runs(4, {0: (0, 1), 1: (1, 1), 2: (1, 1), 3: (1, 1)})


# --- how likely each place is -------------------------------------------------------------------


def test_several_candidates_between_two_tested_builds_are_one() -> None:
    """Nothing tells the four places between 0 and 4 apart: each has a quarter."""
    labels: Labels = {0: [P, P], 4: [F, P]}
    doubt = only([change(0, 4)], labels)
    assert [round(one.probability, 6) for one in candidates(doubt.runs, CONFIDENCE)] == [0.25] * 4
    assert share(doubt, labels) == {(0, 4): 1.0}


def test_the_parts_of_a_pair_are_added_up() -> None:
    """Six builds: 1 of 5 places before the tested one in the middle and 4 after it."""
    labels: Labels = {10: [P, P], 11: [P, P], 15: [F, P]}
    doubt = only([change(11, 15)], labels)
    found = doubt.likely(labels)
    assert list(found) == [(10, 11), (11, 15)]
    places = {one.older: one.probability for one in candidates(doubt.runs, CONFIDENCE)}
    assert set(places) == {0, 1, 2, 3, 4}
    assert found[10, 11] == pytest.approx(places[0])
    assert found[11, 15] == pytest.approx(sum(places[older] for older in (1, 2, 3, 4)))
    assert found[11, 15] > 4 * found[10, 11]
    assert sum(found.values()) == pytest.approx(1)


def test_an_untestable_build_is_no_side_of_a_pair() -> None:
    labels: Labels = {0: [P, P], 1: [SKIP], 2: [SKIP, SKIP], 3: [F, P], 4: [F]}
    assert list(only([change(0, 3)], labels).likely(labels)) == [(0, 3), (3, 4)]


def test_a_build_that_was_tested_once_is_a_side_though_other_runs_were_skipped() -> None:
    labels: Labels = {0: [P, P], 1: [SKIP, P], 2: [F, P], 3: [F]}
    assert list(only([change(0, 2)], labels).likely(labels)) == [(0, 1), (1, 2), (2, 3)]


def test_builds_that_were_not_looked_at_are_no_sides() -> None:
    labels: Labels = {0: [P], 7: [P, P], 9: [F, P], 20: [F]}
    assert list(only([change(7, 9)], labels).likely(labels)) == [(0, 7), (7, 9), (9, 20)]


def test_pairs_come_oldest_first() -> None:
    labels: Labels = {0: [P], 1: [P], 2: [P], 3: [P], 4: [F, P], 5: [F], 6: [F]}
    found = list(only([change(3, 4)], labels).likely(labels))
    assert found == sorted(found)
    assert len(found) > 1


def test_enough_runs_leave_one_place() -> None:
    """A bug that shows in half of the runs, after 30 in which it never showed before it."""
    labels: Labels = {0: [P] * 30, 1: [P] * 30, 2: [F, P] * 15, 3: [F, P] * 15}
    [(pair, part)] = only([change(1, 2)], labels).likely(labels).items()
    assert pair == (1, 2)
    assert part > 0.99


# --- what is run again --------------------------------------------------------------------------


def test_what_is_asked_lies_in_the_range_and_is_as_many_as_can_be_run() -> None:
    labels: Labels = {0: [P], 2: [P], 3: [F], 5: [F], 6: [G, F], 8: [G], 9: [P], 11: [P]}
    doubt = doubts(THREE, labels)[THREE[1]]
    for count in (0, 1, 4):
        asked = doubt.ask(count)
        assert len(asked) == count
        assert set(asked) <= set(range(3, 9))


def test_nothing_is_asked_where_one_place_is_left() -> None:
    assert only([change(0, 1)], {0: [P, P], 1: [F, P]}).ask(5) == []
    settled: Labels = {0: [P] * 30, 1: [P] * 30, 2: [F, P] * 15, 3: [F, P] * 15}
    assert only([change(1, 2)], settled).ask(5) == []


def test_no_change_is_run_more_often_than_the_limit() -> None:
    """Both sides are alike, so that no number of runs would tell."""
    alike: list[Hashable] = [F, P] * (LIMIT // 8)
    labels = dict.fromkeys(range(4), alike)
    used = sum(map(len, labels.values()))
    assert LIMIT - 8 < used < LIMIT
    assert len(only([change(1, 2)], labels).ask(20)) == LIMIT - used
    labels = {place: [*alike, F, P] for place in range(4)}
    doubt = only([change(1, 2)], labels)
    assert doubt.ask(20) == []
    assert sum(doubt.likely(labels).values()) >= CONFIDENCE


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("breaks", [True, False])
def test_the_place_is_found_by_running_what_is_asked(seed: int, breaks: bool) -> None:
    """The bug shows in 7 of 10 runs on its side of a change that the search saw one too late."""
    rng = random.Random(seed)
    bad, true = range(5, 12), (4, 5)
    labels: Labels = {0: [P], 4: [P, P], 5: [P], 6: [F, P], 11: [F]}
    seen = change(5, 6)
    if not breaks:
        labels = {11 - place: runs for place, runs in labels.items()}
        bad, true, seen = range(0, 7), (6, 7), change(5, 6)
    while asked := (doubt := only([seen], labels)).ask(1):
        [position] = asked
        shows = position in bad and rng.random() < 0.7
        labels[position] = [*labels.get(position, ()), F if shows else P]
    assert doubt.runs.used <= LIMIT
    found = doubt.likely(labels)
    assert sum(found.values()) >= CONFIDENCE
    assert true in found


# --- whatever was seen --------------------------------------------------------------------------


@st.composite
def doubted(draw: st.DrawFn) -> tuple[Change, Labels]:
    """A change of which a side disagrees, among builds of which the outermost were tested."""
    size = draw(st.integers(2, 9))
    newer = draw(st.integers(1, size - 1))
    older = draw(st.integers(0, newer - 1))
    several = st.lists(st.sampled_from([P, F, SKIP]), min_size=1, max_size=6)
    beyond = st.sampled_from(sorted({*range(older), *range(newer + 1, size)} or {0}))
    labels: Labels = dict(draw(st.dictionaries(beyond, several)))
    labels |= {at: [SKIP] for at in draw(st.sets(st.integers(0, size - 1)))}
    labels |= {0: [draw(st.sampled_from([P, F]))], size - 1: [draw(st.sampled_from([P, F]))]}
    labels |= {older: [P, *draw(several)], newer: [F, P, *draw(several)]}
    return change(older, newer), labels


@settings(deadline=None)
@given(doubted())
def test_pairs_are_neighbouring_tested_builds_and_hold_nearly_all(
    given_: tuple[Change, Labels],
) -> None:
    changed, labels = given_
    doubt = only([changed], labels)
    tested = sorted(at for at, seen in labels.items() if set(seen) != {SKIP})
    found = doubt.likely(labels)
    assert set(found) <= set(pairwise(tested))
    assert CONFIDENCE <= sum(found.values()) <= 1 + 1e-9
    total = sum(one.probability for one in candidates(doubt.runs, CONFIDENCE))
    assert sum(found.values()) == pytest.approx(total)
    assert all(0 <= at < doubt.runs.size for at in (place - doubt.first for place in doubt.ask(3)))
