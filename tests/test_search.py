"""The search against brute force: what it may say follows from the truth and from what it saw."""

import ast
import math
import random
from dataclasses import dataclass
from itertools import pairwise

import pytest

import repro.bisect.search as search
from repro.bisect.search import SKIP, Change, History, ask, changes, ends, steps_left

# Classes have no order and need none.
CLASSES = ("pass", None, ("fail", 3), frozenset("x"))


@dataclass(frozen=True)
class World:
    """What every build would do (`full`), and which of them can be tested at all."""

    full: tuple
    untestable: frozenset

    def answer(self, position):
        return SKIP if position in self.untestable else self.full[position]

    @property
    def testable(self):
        return [i for i in range(len(self.full)) if i not in self.untestable]


def world(text: str) -> World:
    """`AA?B`: one letter a build; what a `?` would do is what the build before it does."""
    full = []
    for letter in text:
        full.append(letter if letter != "?" else full[-1] if full else text.strip("?")[0])
    return World(tuple(full), frozenset(i for i, letter in enumerate(text) if letter == "?"))


def one_change(size: int, change: int, untestable=()) -> World:
    """`change` is the first position that differs."""
    return World(("A",) * change + ("B",) * (size - change), frozenset(untestable))


def random_world(rng: random.Random, most_changes: int = 4, islands: int = 3) -> World:
    size = rng.choice((rng.randint(2, 12), rng.randint(2, 40), rng.randint(2, 120)))
    if rng.random() < 0.06:
        size = rng.randint(121, 400)
    starts = sorted(rng.sample(range(1, size), min(size - 1, rng.randint(0, most_changes))))
    full, now = [], rng.choice(CLASSES)
    for start, end in pairwise((0, *starts, size)):
        if start:
            now = rng.choice([c for c in CLASSES if c != now])
        full += [now] * (end - start)
    for _ in range(rng.randint(0, islands)):
        full[rng.randrange(size)] = rng.choice(CLASSES)
    skips = set()
    kind = rng.choice(("none", "scattered", "runs", "both", "ends"))
    if kind in ("scattered", "both"):
        skips |= set(rng.sample(range(size), rng.randint(0, size // 2)))
    if kind in ("runs", "both"):
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(size)
            skips |= set(range(start, min(size, start + rng.randint(1, max(1, size // 3)))))
    if kind == "ends":
        skips = set(range(rng.randint(0, size // 4))) | set(
            range(size - rng.randint(0, size // 4), size)
        )
    while len(skips) > size // 2:
        skips.discard(rng.choice(sorted(skips)))
    return World(tuple(full), frozenset(skips))


def random_options(rng: random.Random, size: int) -> dict:
    return {
        "grid": rng.sample(range(size), rng.randint(0, min(size, 9))) if rng.random() < 0.5 else (),
        "max_skips": rng.choice((0, 1, 3, search.MAX_SKIPS, 9, 40, None)),
        "blank": (rng.choice(CLASSES),) if rng.random() < 0.3 else (),
    }


def play(truth: World, history: History, count: int = 1, rng: random.Random | None = None):
    """Answers until nothing is asked; a batch in any order, some of it only after the next batch.

    Gives the last history and the positions in the order in which they were asked for.
    """
    asked, pending = [], []
    while batch := [p for p in ask(history, count + len(pending)) if p not in pending]:
        assert len(batch) <= count + len(pending)
        asked += batch
        pending += batch
        if rng:
            rng.shuffle(pending)
        for _ in range(len(pending) if not rng else rng.randint(1, len(pending))):
            position = pending.pop(0)
            assert position not in history.told
            history = history.told_also(position, truth.answer(position))
    for position in pending:
        history = history.told_also(position, truth.answer(position))
    # Late answers may have brought something new to light.
    return (history, asked) if ask(history) == () else play(truth, history, count)


def result(truth: World, **options):
    return changes(play(truth, History(len(truth.full), **options))[0])


def probes(truth: World, **options) -> int:
    return len(play(truth, History(len(truth.full), **options))[0].told)


def check(truth: World, history: History) -> None:
    """All that has to hold when nothing is asked any more, from the truth and the told alone."""
    told, size = dict(history.told), len(truth.full)
    assert ask(history, 5) == ()
    assert steps_left(history) == 0
    assert all(truth.answer(position) == outcome for position, outcome in told.items())
    tested = [p for p in range(size) if p in told and told[p] is not SKIP]
    differing = [(a, b) for a, b in pairwise(tested) if truth.full[a] != truth.full[b]]
    reported = changes(history)
    assert [(c.older, c.newer) for c in reported] == differing
    assert changes(history, final=False) == reported
    for change in reported:
        assert change.untested == tuple(range(change.older + 1, change.newer))
        between = range(change.older, change.newer)
        assert any(truth.full[i] != truth.full[i + 1] for i in between)
        check_gap(history, change.older, change.newer)
    assert {0, size - 1} <= told.keys()
    if tested:
        assert ends(history) == (tested[0], tested[-1])
        for older, newer in ((-1, tested[0]), (tested[-1], size)):
            check_gap(history, older, newer)
    else:
        assert ends(history) is None
    if history.max_skips is None:
        check_unlimited(truth, tested)
    check_grid(history, tested)


def check_gap(history: History, older: int, newer: int) -> None:
    """Untested ones next to the tested are untestable; untold ones only where the budget ended."""
    inside = range(older + 1, newer)
    if not inside:
        return
    assert history.told[inside[0]] is SKIP
    assert history.told[inside[-1]] is SKIP
    untold = [p for p in inside if p not in history.told]
    assert not untold or history.max_skips is not None
    assert not untold or len(inside) - len(untold) >= history.max_skips


def check_unlimited(truth: World, tested: list) -> None:
    """Without a budget every end and every change is as narrow as it can be."""
    testable = truth.testable
    assert bool(tested) == bool(testable)
    if testable:
        assert (tested[0], tested[-1]) == (testable[0], testable[-1])
    for older, newer in pairwise(tested):
        if truth.full[older] != truth.full[newer]:
            assert not [p for p in testable if older < p < newer]


def check_grid(history: History, tested: list) -> None:
    """Ends that agree: nothing on the grid was left out, and the rest was sampled."""
    told = history.told
    if not tested or told[tested[0]] != told[tested[-1]]:
        return
    sample = math.log2(history.size) + 2
    for older, newer in pairwise(tested):
        if told[older] == told[newer]:
            assert not [p for p in history.grid if older < p < newer and p not in told]
            seen = [p for p in range(older, newer + 1) if p in told]
            assert max(b - a for a, b in pairwise(seen)) <= history.size / sample + 1


# --- any history --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_one_by_one_any_history(seed):
    rng = random.Random(seed)
    for _ in range(1400):
        truth = random_world(rng)
        start = History(len(truth.full), **random_options(rng, len(truth.full)))
        history, asked = play(truth, start)
        assert len(asked) == len(set(asked)) == len(history.told)
        check(truth, history)


@pytest.mark.parametrize("seed", range(8))
def test_in_parallel_in_any_order_any_history(seed):
    rng = random.Random(1000 + seed)
    for _ in range(1100):
        truth = random_world(rng)
        start = History(len(truth.full), **random_options(rng, len(truth.full)))
        history, asked = play(truth, start, rng.randint(2, 9), rng)
        assert len(asked) == len(set(asked))
        check(truth, history)


@pytest.mark.parametrize("count", [1, 4])
def test_one_change_and_any_skips_is_one_change_around_the_truth(count):
    rng = random.Random(count)
    for _ in range(1000):
        truth = random_world(rng, most_changes=1, islands=0)
        where = [i for i, (a, b) in enumerate(pairwise(truth.full)) if a != b]
        options = random_options(rng, len(truth.full)) | {"blank": ()}
        history, _ = play(truth, History(len(truth.full), **options), count, rng)
        seen = {outcome for outcome in history.told.values() if outcome is not SKIP}
        reported = changes(history)
        assert len(reported) == (len(seen) == 2)
        if where and not {0, len(truth.full) - 1} & truth.untestable:
            assert len(reported) == 1
        if where and options["max_skips"] is None:
            assert len(reported) == (len({truth.full[p] for p in truth.testable}) == 2)
        for change in reported:
            assert change.older <= where[0] < change.newer
            if change.newer - change.older == 1:
                assert where == [change.older]


def test_all_small_histories():
    """Every history of up to 5 builds of two classes, testable or not, and every budget."""
    for size in range(1, 6):
        for number in range(4**size):
            digits = [number // 4**i % 4 for i in range(size)]
            full = tuple("AB"[d % 2] for d in digits)
            truth = World(full, frozenset(i for i, d in enumerate(digits) if d > 1))
            for max_skips in (0, 2, None):
                history, asked = play(truth, History(size, max_skips=max_skips))
                assert len(asked) == len(set(asked))
                check(truth, history)


# --- how many probes ----------------------------------------------------------------------------


def test_one_change_without_skips_takes_log2_and_2_probes():
    rng = random.Random(0)
    for size in range(2, 401):
        places = range(1, size)
        for place in places if size <= 48 else {1, size - 1, *rng.sample(places, 5)}:
            history, _ = play(one_change(size, place), History(size))
            assert changes(history) == (Change(place - 1, place, ()),)
            assert len(history.told) <= math.ceil(math.log2(size)) + 2


def test_20_untestable_among_60_take_14_probes_wherever_they_lie():
    for start in range(1, 40):
        run = tuple(range(start, start + 20))
        for place in range(start, start + 21):
            history, _ = play(one_change(60, place, run), History(60))
            assert changes(history) == (Change(start - 1, start + 20, run),)
            assert len(history.told) <= 14


def test_steps_left_is_an_upper_bound_that_ends_at_nothing():
    rng = random.Random(5)
    for _ in range(600):
        size = rng.randint(2, 400)
        truth = one_change(size, rng.randint(1, size))
        history, seen = History(size), []
        while batch := ask(history):
            seen.append(steps_left(history))
            history = history.told_also(batch[0], truth.answer(batch[0]))
        assert steps_left(history) == 0
        if len(changes(history)) == 1:
            assert all(left >= len(seen) - i for i, left in enumerate(seen))
            assert seen[0] <= math.ceil(math.log2(size)) + 2
            assert seen == sorted(seen, reverse=True)


def test_steps_left_is_nothing_exactly_when_nothing_is_asked():
    rng = random.Random(6)
    for _ in range(600):
        truth = random_world(rng)
        history = History(len(truth.full), **random_options(rng, len(truth.full)))
        while batch := ask(history, 2):
            assert steps_left(history) > 0
            history = history.told_also(batch[-1], truth.answer(batch[-1]))
        assert steps_left(history) == 0


# --- several at once ----------------------------------------------------------------------------


def test_the_first_of_many_are_what_fewer_would_be():
    rng = random.Random(7)
    for _ in range(150):
        truth = random_world(rng)
        history = History(len(truth.full), **random_options(rng, len(truth.full)))
        while batch := ask(history, 12):
            assert len(set(batch)) == len(batch)
            assert not history.told.keys() & set(batch)
            for fewer in range(len(batch)):
                assert ask(history, fewer) == batch[:fewer]
            position = rng.choice(batch)
            history = history.told_also(position, truth.answer(position))


def test_both_ends_come_first_and_then_what_their_difference_would_need():
    assert ask(History(65), 2) == (0, 64)
    assert ask(History(65), 5) == (0, 64, 32, 16, 48)
    assert ask(History(65, {0: "A", 64: "B"}), 3) == (32, 16, 48)


def test_each_interval_comes_once_before_any_comes_twice():
    history = History(65, {0: "A", 16: "B", 48: "B", 64: "C"})
    assert ask(history, 6) == (8, 56, 4, 52, 12, 60)


def test_what_is_needed_next_was_among_the_first_three():
    for size in (17, 60, 400):
        for place in range(1, size, 7):
            truth, history = one_change(size, place), History(size)
            while batch := ask(history, 3):
                history = history.told_also(batch[0], truth.answer(batch[0]))
                if len(history.told) > 1:
                    assert set(ask(history)) <= set(batch[1:])


def test_three_at_once_quarter_the_interval():
    for place in range(1, 400, 3):
        truth, history, rounds = one_change(400, place), History(400), 0
        while batch := ask(history, 3):
            rounds += 1
            for position in batch:
                history = history.told_also(position, truth.answer(position))
        assert rounds <= 1 + math.ceil(math.log2(400) / 2)


# --- untestable builds --------------------------------------------------------------------------


def test_the_run_is_measured_from_both_sides_before_anything_inside_it():
    truth = one_change(60, 30, range(20, 40))
    _, asked = play(truth, History(60, max_skips=None))
    edges = max(asked.index(p) for p in (19, 20, 39, 40))
    inside_before = [
        p
        for i, p in enumerate(asked[:edges])
        if any(q < p for q in asked[:i] if 20 <= q < 40)
        and any(p < q for q in asked[:i] if 20 <= q < 40)
    ]
    assert not inside_before


def test_a_larger_budget_finds_a_testable_build_inside_the_run():
    for lone in range(23, 38):
        truth = one_change(60, 30, set(range(20, 40)) - {lone})
        (wide,) = result(truth)
        (narrow,) = result(truth, max_skips=None)
        assert narrow.older == (lone if lone < 30 else 19)
        assert narrow.newer == (lone if lone >= 30 else 40)
        assert wide.older <= narrow.older < narrow.newer <= wide.newer


def test_no_budget_is_as_narrow_as_can_be_and_any_budget_holds_the_truth():
    rng = random.Random(9)
    for _ in range(150):
        size = rng.randint(10, 120)
        untestable = set(rng.sample(range(1, size - 1), size // 2 - 1))
        truth = one_change(size, rng.randint(1, size - 1), untestable)
        (best,) = result(truth, max_skips=None)
        for max_skips in (0, 3, 6, 12):
            (change,) = result(truth, max_skips=max_skips)
            assert change.older <= best.older < best.newer <= change.newer
        assert best.untested == tuple(p for p in range(size) if best.older < p < best.newer)
        assert set(best.untested) <= untestable


def test_a_budget_of_nothing_tries_nothing_between_two_untestable_builds():
    rng = random.Random(10)
    for _ in range(300):
        truth, told = random_world(rng), {}
        history = History(len(truth.full), max_skips=0)
        while batch := ask(history):
            (p,) = batch
            skips = [q for q, outcome in told.items() if outcome is SKIP]
            tested = [q for q in told if q not in skips]
            older = max((q for q in tested if q < p), default=-1)
            newer = min((q for q in tested if q > p), default=len(truth.full))
            # Where tested neighbours agree it is the grid that asks.
            agree = older >= 0 and newer < len(truth.full) and told[older] == told[newer]
            if tested and not agree:
                assert not [q for q in skips if older < q < p] or not [
                    q for q in skips if p < q < newer
                ]
            told[p] = truth.answer(p)
            history = history.told_also(p, told[p])


def test_an_untestable_end_gives_way_to_the_nearest_testable_build():
    assert result(world("?" + "A" * 30 + "B" * 29)) == (Change(30, 31, ()),)
    truth = world("?" * 20 + "A" * 15 + "B" * 15 + "?" * 10)
    history, asked = play(truth, History(60))
    assert ends(history) == (20, 49)
    assert changes(history) == (Change(34, 35, ()),)
    assert len(asked) <= 2 + 9 + 8 + 5
    assert asked[:2] == [0, 59]


@pytest.mark.parametrize("newer", [False, True])
def test_an_untestable_end_is_not_walked_build_by_build(newer):
    for length in range(1, 200, 3):
        run = range(400 - length, 400) if newer else range(length)
        truth = World(("A",) * 400, frozenset(run))
        history = History(400, max_skips=0)
        steps = 0
        while (batch := ask(history)) and ends(history) is None:
            history = history.told_also(batch[0], truth.answer(batch[0]))
            steps += 1
        assert ends(history) == ((0, 399 - length) if newer else (length, 399))
        assert steps <= 2 + 2 * math.ceil(math.log2(length + 1))


def test_ends_are_not_named_before_they_are_certain():
    assert ends(History(9)) is None
    assert ends(History(9, {0: "A"})) is None
    assert ends(History(9, {0: "A", 8: "A"})) == (0, 8)
    assert ends(History(9, {0: SKIP, 8: "A"})) is None
    assert ends(History(9, {0: SKIP, 1: "A", 8: "A"})) == (1, 8)
    assert ends(History(9, {0: "A", 8: SKIP})) is None
    assert ends(History(9, {0: "A", 7: "A", 8: SKIP})) == (0, 7)


def test_nothing_can_be_tested():
    truth = World(("A",) * 60, frozenset(range(60)))
    history, asked = play(truth, History(60))
    assert changes(history) == ()
    assert ends(history) is None
    assert 6 <= len(asked) <= 14
    assert probes(truth, max_skips=None) == 60


def test_one_testable_build_is_found_on_the_grid():
    truth = World(("A",) * 60, frozenset(range(60)) - {41})
    history, _ = play(truth, History(60, grid=(41,)))
    assert ends(history) == (41, 41)


# --- several changes, islands, the grid ---------------------------------------------------------


def test_an_island_that_is_seen_makes_two_changes():
    assert result(world("AABAA")) == (Change(1, 2, ()), Change(2, 3, ()))
    truth = World(("A",) * 37 + ("B",) + ("A",) * 62, frozenset())
    assert result(truth, grid=(37,)) == (Change(36, 37, ()), Change(37, 38, ()))


def test_a_third_outcome_between_is_bisected_on_both_sides():
    truth = World(("A",) * 20 + ("C",) * 25 + ("B",) * 15, frozenset())
    assert result(truth) == (Change(19, 20, ()), Change(44, 45, ()))


def test_ends_that_agree_are_not_the_end():
    rng = random.Random(11)
    for _ in range(300):
        size = rng.randint(5, 400)
        older, newer = sorted(rng.sample(range(1, size), 2))
        truth = World(
            ("A",) * older + ("B",) * (newer - older) + ("A",) * (size - newer), frozenset()
        )
        inside = rng.randrange(older, newer)
        found = result(truth, grid=(inside,))
        assert found == (Change(older - 1, older, ()), Change(newer - 1, newer, ()))
        if newer - older > size / (math.log2(size) + 2) + 1:
            assert result(truth) == found


def test_nothing_changed_is_concluded_from_about_log2_probes():
    for size in (2, 3, 10, 60, 400, 2000):
        told = play(World(("A",) * size, frozenset()), History(size))[0].told
        assert len(told) <= min(size, math.log2(size) + 6)
        assert len(told) >= min(size, math.log2(size) + 2)


def test_the_given_grid_comes_first_and_is_left_alone_when_large_enough():
    truth = World(("A",) * 61, frozenset())
    _, asked = play(truth, History(61, grid=(50, 7)))
    assert set(asked[2:4]) == {7, 50}
    grid = tuple(range(5, 60, 5))
    _, asked = play(truth, History(61, grid=grid))
    assert set(asked) == {0, 60, *grid}
    assert asked[2] == 30


def test_the_grid_costs_nothing_where_the_ends_differ():
    truth = one_change(60, 41)
    assert probes(truth, grid=tuple(range(0, 60, 3))) == probes(truth)


def test_a_blank_end_has_the_grid_looked_at():
    unsupported = World(("U",) * 20 + ("A",) * 10 + ("B",) * 5 + ("A",) * 25, frozenset())
    assert result(unsupported) == (Change(19, 20, ()),)
    found = result(unsupported, grid=(32,), blank=("U",))
    assert found == (Change(19, 20, ()), Change(29, 30, ()), Change(34, 35, ()))
    history, _ = play(unsupported, History(60, grid=(5, 12), blank=("U",)))
    assert not {5, 12} <= history.told.keys()


def test_a_blank_end_costs_nothing_where_a_change_is_found_anyway():
    truth = World(("U",) * 20 + ("B",) * 25 + ("A",) * 15, frozenset())
    assert result(truth, blank=("U",)) == (Change(19, 20, ()), Change(44, 45, ()))
    assert probes(truth, blank=("U",)) == probes(truth)


# --- stateless ----------------------------------------------------------------------------------


def test_the_same_told_is_the_same_ask_whatever_the_order_or_the_names():
    rng = random.Random(12)
    for _ in range(500):
        truth = random_world(rng)
        options = random_options(rng, len(truth.full)) | {"blank": ()}
        told = {
            p: truth.answer(p)
            for p in rng.sample(range(len(truth.full)), rng.randint(0, len(truth.full)))
        }
        shuffled = dict(rng.sample(sorted(told.items(), key=lambda item: item[0]), len(told)))
        names = dict(zip(CLASSES, rng.sample(range(9), 4), strict=True)) | {SKIP: SKIP}
        renamed = {p: names[outcome] for p, outcome in shuffled.items()}
        first = History(len(truth.full), told, **options)
        for other in (shuffled, renamed):
            second = History(len(truth.full), other, **options)
            assert ask(first, 9) == ask(second, 9)
            assert changes(first) == changes(second)
            assert steps_left(first) == steps_left(second)


def test_any_part_of_what_was_told_can_be_gone_on_from():
    rng = random.Random(13)
    for _ in range(700):
        truth = random_world(rng)
        size = len(truth.full)
        options = random_options(rng, size)
        whole, _ = play(truth, History(size, **options))
        kept = rng.sample(sorted(whole.told), rng.randint(0, len(whole.told)))
        part = History(size, {p: truth.answer(p) for p in kept}, **options)
        again, asked = play(truth, part)
        assert not set(kept) & set(asked)
        check(truth, again)
        assert ask(History(size, whole.told, **options)) == ()


def test_interrupted_anywhere_the_end_is_the_same():
    rng = random.Random(14)
    for _ in range(500):
        truth = random_world(rng)
        size = len(truth.full)
        options = random_options(rng, size)
        whole, asked = play(truth, History(size, **options))
        kept = asked[: rng.randint(0, len(asked))]
        part = History(size, {p: truth.answer(p) for p in kept}, **options)
        again, more = play(truth, part)
        assert kept + more == asked
        assert changes(again) == changes(whole)


def test_answers_from_elsewhere_are_used():
    rng = random.Random(15)
    for _ in range(500):
        truth = random_world(rng)
        size = len(truth.full)
        told = {p: truth.answer(p) for p in rng.sample(range(size), rng.randint(0, size))}
        history, asked = play(truth, History(size, told))
        assert not told.keys() & set(asked)
        check(truth, history)


def test_what_is_final_stays():
    rng = random.Random(16)
    for _ in range(500):
        truth = random_world(rng)
        history = History(len(truth.full), **random_options(rng, len(truth.full)))
        final = set()
        while batch := ask(history):
            now = set(changes(history))
            assert final <= now
            in_sight = set(changes(history, final=False))
            assert now <= in_sight
            assert not any(c.older < batch[0] < c.newer for c in now)
            final = now
            history = history.told_also(batch[0], truth.answer(batch[0]))
        assert final <= set(changes(history))


def test_changes_in_sight_are_between_tested_builds():
    assert changes(History(9), final=False) == ()
    assert changes(History(9, {0: "A", 4: "B"}), final=False) == (Change(0, 4, (1, 2, 3)),)
    assert changes(History(9, {0: "A", 4: "B"})) == ()
    assert changes(History(9, {3: "A", 4: "B"})) == (Change(3, 4, ()),)
    assert changes(History(9, {7: "A"}), final=False) == ()


def test_none_and_one_build():
    assert ask(History(0), 3) == ()
    assert changes(History(0)) == ()
    assert steps_left(History(0)) == 0
    assert ask(History(1), 3) == (0,)
    assert steps_left(History(1)) == 1
    for outcome in ("A", SKIP, None):
        assert ask(History(1, {0: outcome}), 3) == ()
        assert steps_left(History(1, {0: outcome})) == 0
        assert changes(History(1, {0: outcome})) == ()


def test_what_cannot_be_is_refused():
    for told, grid in (({9: "A"}, ()), ({-1: "A"}, ()), ({}, (9,))):
        with pytest.raises(ValueError, match="is not among 9 builds"):
            History(9, told, grid=grid)
    history = History(9).told_also(3, "A")
    assert history.told_also(3, "A") == history
    assert History(9).told == {}
    for outcome in ("B", SKIP):
        with pytest.raises(ValueError, match="told before"):
            history.told_also(3, outcome)


def test_it_is_pure():
    with open(search.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {
        a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names
    }
    plain = {
        "collections",
        "collections.abc",
        "dataclasses",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "typing",
    }
    assert imported <= plain | {"__future__"}
