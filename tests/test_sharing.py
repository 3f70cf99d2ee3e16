import math
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.bisect.search import SKIP, History, ask
from repro.bisect.sharing import wanted

P, F, G = "pass", ("fail", 1), ("fail", 2)
SIZE = 17


def history(told: dict[int, Hashable], size: int = SIZE) -> History:
    return History(size, told)


def ends(older: Hashable, newer: Hashable, size: int = SIZE) -> History:
    return history({0: older, size - 1: newer}, size)


@st.composite
def histories(draw: st.DrawFn, size: int = SIZE) -> History:
    """Anything that a search may know of a row of builds."""
    outcomes = st.sampled_from([P, P, F, F, G, SKIP, "unsupported"])
    told = draw(st.dictionaries(st.integers(0, size - 1), outcomes, max_size=size))
    grid = draw(st.lists(st.integers(0, size - 1), max_size=3))
    limit = draw(st.sampled_from([0, 2, None]))
    return History(size, told, grid, limit, ("unsupported",))


ROWS = st.lists(histories(), max_size=4)
COUNTS = st.integers(1, 9)
FINISHED = history({0: P, 1: F}, 2)


# --- one search ---------------------------------------------------------------------------------


@given(histories(), COUNTS)
def test_for_one_history_it_is_what_the_search_asks(known: History, count: int) -> None:
    assert wanted([known], count) == list(ask(known, count))


@given(histories(), COUNTS)
def test_histories_that_ask_nothing_change_nothing(known: History, count: int) -> None:
    assert ask(FINISHED) == ()
    assert wanted([FINISHED, known, FINISHED], count) == list(ask(known, count))


@pytest.mark.parametrize("count", [1, 5])
def test_where_nothing_is_asked_nothing_is_wanted(count: int) -> None:
    assert wanted([], count) == wanted([FINISHED, FINISHED], count) == []


@given(histories(), COUNTS)
def test_the_same_history_twice_wants_the_same_builds(known: History, count: int) -> None:
    assert set(wanted([known, known], count)) == set(ask(known, count))


# --- several ------------------------------------------------------------------------------------


@given(ROWS, COUNTS)
def test_only_what_some_search_asks_is_wanted_and_once(row: list[History], count: int) -> None:
    asked = wanted(row, count)
    assert len(asked) == len(set(asked)) <= count
    assert set(asked) <= {position for known in row for position in ask(known, count)}


@given(ROWS, COUNTS)
def test_something_is_wanted_as_long_as_any_search_asks(row: list[History], count: int) -> None:
    assert bool(wanted(row, count)) is any(ask(known) for known in row)


@given(ROWS, COUNTS)
def test_what_is_first_for_some_search_comes_before_what_is_for_none(
    row: list[History], count: int
) -> None:
    firsts = {position for known in row for position in ask(known)}
    is_first = [position in firsts for position in wanted(row, count)]
    assert is_first == sorted(is_first, reverse=True)
    assert sum(is_first) == min(count, len(firsts))


@given(ROWS)
def test_what_is_needed_does_not_depend_on_which_case_is_named_first(row: list[History]) -> None:
    turned = row[1:] + row[:1]
    assert set(wanted(row, SIZE)) == set(wanted(turned, SIZE))


@given(ROWS)
def test_looking_at_what_is_wanted_ends_every_search(row: list[History]) -> None:
    known, left = row, 2 * SIZE * len(row)
    while positions := wanted(known, 1):
        [position] = positions
        known = [
            one.told_also(position, P if position < SIZE // 2 else F)
            if position in ask(one, SIZE)
            else one
            for one in known
        ]
        left -= 1
        assert left > 0
    assert not any(ask(one) for one in known)


# --- what a build is worth ----------------------------------------------------------------------

LOWER = history({0: P, 8: F, 16: F})
UPPER = history({0: P, 8: P, 16: F})


@pytest.mark.parametrize(("most", "few"), [(LOWER, UPPER), (UPPER, LOWER)])
def test_a_build_in_the_middle_of_two_searches_comes_before_one_that_serves_one(
    most: History, few: History
) -> None:
    """Wherever it lies, and whichever case is named first."""
    both, alone = ask(most)[0], ask(few)[0]
    assert {both, alone} == {4, 12}
    assert wanted([most, most, few], 2) == [both, alone]
    assert wanted([few, most, most], 2) == [both, alone]
    assert wanted([most, few, most], 1) == [both]


def test_a_build_that_tells_all_searches_something_comes_before_the_middle_of_two() -> None:
    """8 is the middle for two and told to the third, 12 its middle.

    12 cuts the others at 3/4, so that it tells 0.81 bits of each: 2.62 in all, and 8 only 2.
    """
    wide = ends(P, F)
    assert (ask(wide), ask(UPPER)) == ((8,), (12,))
    assert wanted([wide, wide, UPPER], 2) == [12, 8]
    assert 1 + 2 * -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25)) > 2


def test_among_equals_the_older_build_comes_first() -> None:
    assert wanted([LOWER, UPPER], 2) == wanted([UPPER, LOWER], 2) == [4, 12]
