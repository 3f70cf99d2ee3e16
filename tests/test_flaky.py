import math
import random
import time
from itertools import accumulate
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.bisect import flaky
from repro.bisect.flaky import Candidate, Runs, ask, candidates, posterior, rates


def search(rng, runs, change, bad, good=0.0, each=1, **asked):
    """Ask and draw until nothing is asked. Positions from `change` on are the bad side."""
    while positions := ask(runs, **asked):
        for position in positions:
            for _ in range(each):
                runs = runs.told(position, rng.random() < (bad if position >= change else good))
    return runs


def holds(found, change):
    return any(one.older < change <= one.newer for one in found)


@st.composite
def histories(draw, most=12):
    size = draw(st.integers(2, 40))
    places = st.integers(0, size - 1)
    counts = st.tuples(st.integers(0, most), st.integers(0, most))
    seen = draw(st.dictionaries(places, counts, max_size=8))
    skipped = draw(st.frozensets(places, max_size=size // 2))
    return Runs(size, seen, skipped, draw(st.booleans()))


# --- does it find the change, and how soon ------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "good", "searches", "each", "usual"),
    [(0.9, 0, 2000, 1, 16), (0.5, 0, 2000, 2, 48), (0.2, 0, 2000, 3, 141), (0.7, 0.1, 500, 1, 62)],
)
def test_the_change_is_among_the_candidates_as_often_as_stated(
    bad, good, searches, each, usual, record_property
):
    rng = random.Random(20260401)
    found, used, single = 0, [], 0
    for _ in range(searches):
        size = rng.randint(2, 60)
        change = rng.randint(1, size - 1)
        runs = search(rng, Runs(size), change, bad, good, each)
        left = candidates(runs)
        found += holds(left, change)
        single += len(left) == 1
        used.append(runs.used)
    said = f"{bad} / {good}: {found / searches:.4f} found, median {median(used)}, most {max(used)}"
    print(said)
    record_property("flaky", said)
    assert found >= 0.95 * searches, said
    assert single == searches
    assert median(used) <= usual, said


def ends(runs, **asked):
    """Every way a search can go, with the runs that it ends with."""
    positions = ask(runs, **asked)
    if not positions:
        return [runs]
    return [end for shown in (True, False) for end in ends(runs.told(positions[0], shown), **asked)]


def ways(runs, change, bad, good):
    """The chance of these outcomes in this order."""
    chance = 1.0
    for position, (shown, hidden) in runs.seen.items():
        rate = bad if position >= change else good
        chance *= rate**shown * (1 - rate) ** hidden
    return chance


@pytest.mark.parametrize("confidence", [0.5, 0.8])
def test_the_promise_holds_exactly_at_every_pair_of_rates(confidence):
    """Without chance: all ways that short searches can go, weighed by true rates.

    The rates lie between those of the grid, and an average over rates alone breaks the promise.
    """
    size = 4
    finished = [
        (runs, [holds(candidates(runs, confidence), change) for change in range(1, size)])
        for runs in ends(Runs(size), confidence=confidence, limit=11)
    ]
    steps = [0.0, 0.013, 0.033, 0.071, 0.13, 0.27, 0.44, 0.61, 0.77, 0.93, 0.99, 1.0]
    for bad in steps:
        for good in (rate for rate in steps if rate < bad):
            found, total = 0.0, 0.0
            for runs, held in finished:
                for change in range(1, size):
                    chance = ways(runs, change, bad, good) / (size - 1)
                    total += chance
                    found += chance * held[change - 1]
            assert total == pytest.approx(1)
            assert found >= confidence, (bad, good)


@pytest.mark.parametrize("size", [2, 3, 4, 8, 21, 60, 400])
def test_without_chance_it_takes_a_binary_search_and_a_few_repeats(size):
    most = math.ceil(math.log2(size - 1)) + 10 if size > 2 else 0
    for change in {1, 2, size // 3, size // 2, size - 1} & set(range(1, size)):
        runs = search(random.Random(1), Runs(size), change, 1.0)
        assert candidates(runs)[0].newer == change
        assert len(candidates(runs)) == 1
        assert runs.used <= most, (change, runs)


def test_what_was_seen_before_counts():
    """A plain search that was fooled once: position 12 is bad, but did not show it."""
    before = Runs(32, {0: (0, 2), 31: (2, 1), 16: (1, 1), 8: (0, 1), 12: (0, 1), 14: (1, 0)})
    done = 0
    for seed in range(60):
        rng = random.Random(seed)
        done += holds(candidates(search(rng, before, 11, 0.6)), 11)
    assert done >= 57


def test_a_higher_confidence_costs_more_runs():
    used = {}
    for confidence in (0.6, 0.95, 0.999):
        rng = random.Random(3)
        ended = [search(rng, Runs(20), 7, 0.5, confidence=confidence, limit=500) for _ in range(40)]
        used[confidence] = median(runs.used for runs in ended)
    assert used[0.6] < used[0.95] < used[0.999]


# --- skips and limits ---------------------------------------------------------------------------


def test_a_change_among_skipped_builds_is_named_as_their_range():
    runs = Runs(30, skipped=frozenset(range(10, 20)))
    done = 0
    for seed in range(60):
        rng = random.Random(seed)
        ended = search(rng, runs, rng.randint(10, 20), 0.5)
        assert runs.skipped.isdisjoint(ended.seen)
        left = candidates(ended)
        assert len(left) == 1
        done += (left[0].older, left[0].newer) == (9, 20)
    assert done >= 57


def test_a_build_that_is_skipped_half_way_keeps_what_it_told():
    runs = Runs(9, {0: (0, 9), 4: (0, 60), 8: (8, 2)})
    later = Runs(9, runs.seen, frozenset({4}))
    assert posterior(later) == pytest.approx(posterior(runs))
    rng = random.Random(2)
    ended = search(rng, later, 5, 0.8)
    assert ended.seen[4] == (0, 60)
    assert [(one.older, one.newer) for one in candidates(ended)] == [(4, 5)]


@pytest.mark.parametrize(
    ("runs", "left"),
    [
        (Runs(2), {(0, 1)}),
        (Runs(6, skipped=frozenset({1, 2, 3, 4})), {(0, 5)}),
        (Runs(4, {0: (0, 1), 2: (1, 1)}, frozenset({1, 2})), {(0, 2), (2, 3)}),
        (Runs(4, {0: (0, 1), 2: (1, 1)}, frozenset(range(4))), {(0, 2), (2, 3)}),
    ],
)
def test_nothing_is_asked_where_no_build_can_tell(runs, left):
    assert ask(runs) == ()
    assert {(one.older, one.newer) for one in candidates(runs)} == left


@pytest.mark.parametrize("count", [1, 4])
def test_the_limit_holds_and_the_candidates_stay_honest(count):
    rng = random.Random(4)
    done = 0
    for _ in range(200):
        change = rng.randint(1, 39)
        runs = search(rng, Runs(40), change, 0.3, count=count, limit=22)
        assert runs.used <= 22
        left = candidates(runs)
        done += holds(left, change)
        assert sum(one.probability for one in left) >= 0.95
        assert len(left) == 1 or runs.used == 22
    assert done >= 190
    assert ask(Runs(40, {3: (10, 12)}), limit=22) == ask(Runs(40, {3: (10, 12)}), limit=5) == ()


def test_both_sides_alike_end_at_the_limit():
    rng = random.Random(6)
    short = 0
    for _ in range(20):
        runs = search(rng, Runs(12), 12, 0.4, good=0.4, limit=60)
        assert runs.used <= 60
        short += runs.used < 60
    assert short <= 3


def test_several_at_once_begin_with_the_best_and_end_well():
    runs = Runs(30, {0: (0, 1), 29: (1, 1)})
    several = ask(runs, count=4)
    assert len(several) == 4
    assert several[:1] == ask(runs)
    assert len(set(several)) > 1
    assert ask(runs, count=4, limit=5) == several[:2]
    rng = random.Random(8)
    ended = [search(rng, Runs(30), 13, 0.6, count=4) for _ in range(40)]
    assert sum(holds(candidates(runs), 13) for runs in ended) >= 38
    assert median(runs.used for runs in ended) <= 60


# --- the model ----------------------------------------------------------------------------------


def plainly(runs, steps=150):
    """The posterior by the definition: every pair of rates on a grid much finer, no sums shared."""
    fine = [math.sin(math.pi * (step + 0.5) / (2 * steps)) ** 2 for step in range(steps)]

    def likelihood(change, bad, good):
        product = 1.0
        for position, (shown, hidden) in runs.seen.items():
            rate = bad if (position >= change) == runs.breaks else good
            product *= rate**shown * (1 - rate) ** hidden
        return product

    weights = []
    for change in range(1, runs.size):
        one = sum(likelihood(change, bad, 0.0) for bad in fine) / steps
        pairs = [likelihood(change, bad, good) for bad in fine for good in fine if good < bad]
        weights.append(0.5 * one + 0.5 * sum(pairs) / len(pairs))
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize(
    ("runs", "near"),
    [
        (Runs(5, {2: (0, 1)}), 0.005),
        (Runs(5, {0: (0, 3), 2: (0, 4), 4: (3, 2)}), 0.0015),
        (Runs(5, {0: (1, 6), 2: (2, 5), 3: (3, 2), 4: (4, 1)}), 0.0015),
        (Runs(4, {1: (5, 3), 2: (0, 7)}, breaks=False), 0.0015),
        (Runs(4, {1: (0, 12), 2: (1, 20), 3: (7, 6)}), 0.0015),
    ],
)
def test_the_posterior_is_the_definition(runs, near):
    assert posterior(runs) == pytest.approx(plainly(runs), rel=0, abs=near)


def test_before_any_run_every_build_is_as_likely():
    assert posterior(Runs(6, skipped=frozenset({2, 3}))) == pytest.approx([0.2] * 5)
    widest = candidates(Runs(6, skipped=frozenset({2, 3})))[0]
    assert widest == Candidate(1, 4, pytest.approx(0.6))


@given(histories())
def test_the_posterior_is_a_distribution(runs):
    found = posterior(runs)
    assert len(found) == runs.size - 1
    assert min(found) >= 0
    assert sum(found) == pytest.approx(1)


@given(histories())
def test_candidates_are_apart_ordered_and_hold_enough(runs):
    left = candidates(runs, 0.9)
    probabilities = [one.probability for one in left]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) >= 0.9 - 1e-9
    spread = posterior(runs)
    taken = [change for one in left for change in range(one.older + 1, one.newer + 1)]
    assert len(taken) == len(set(taken))
    for one in left:
        inner = range(one.older + 1, one.newer)
        assert all(place in runs.skipped and place not in runs.seen for place in inner)
        assert one.probability == pytest.approx(sum(spread[one.older : one.newer]))


@given(histories())
def test_older_and_newer_are_mirror_images(runs):
    other = runs.mirrored()
    assert other.mirrored() == runs
    last = runs.size - 1
    assert posterior(other) == pytest.approx(posterior(runs)[::-1])
    assert [last - position for position in ask(other, count=2)] == list(ask(runs, count=2))
    there = {(last - one.newer, last - one.older) for one in candidates(other)}
    assert len(there) == len(candidates(runs))
    one, same = rates(other), rates(runs)
    assert (one.bad, one.good) == pytest.approx((same.bad, same.good))
    assert one.one_sided == same.one_sided


@given(histories(), st.integers(1, 4))
def test_what_is_asked_can_be_run_and_ends_with_one_candidate(runs, count):
    positions = ask(runs, count=count)
    assert len(positions) <= count
    assert runs.skipped.isdisjoint(positions)
    left = candidates(runs)
    assert not positions or len(left) > 1
    if not positions and len(left) > 1:
        inner = range(min(one.older for one in left) + 1, max(one.newer for one in left))
        assert runs.skipped.issuperset(inner)


@given(st.integers(3, 40), st.data())
def test_one_run_moves_the_change_to_its_proper_side(size, data):
    position = data.draw(st.integers(1, size - 2))
    counts = st.integers(0, 9)
    ended = {0: (0, data.draw(counts)), size - 1: (data.draw(counts), data.draw(counts))}
    runs = Runs(size, ended)

    def before(one):
        return list(accumulate(posterior(one)))[position - 1]

    assert before(runs.told(position, True)) > before(runs)
    assert before(runs.told(position, False)) < before(runs)
    fixes = Runs(size, {0: ended[size - 1], size - 1: ended[0]}, breaks=False)
    assert before(fixes.told(position, True)) < before(fixes)
    assert before(fixes.told(position, False)) > before(fixes)


def test_a_side_that_never_shows_the_bug_makes_one_showing_nearly_certain():
    runs = Runs(20, {0: (0, 40), 19: (12, 28)})
    assert rates(runs).one_sided
    assert sum(posterior(runs.told(9, True))[:9]) > 0.98
    noisy = Runs(20, {0: (8, 32), 19: (20, 20)})
    assert not rates(noisy).one_sided
    assert sum(posterior(noisy.told(9, True))[:9]) < 0.7


def test_rates_are_estimated():
    one = rates(Runs(10, {0: (0, 50), 4: (0, 60), 5: (24, 36), 9: (8, 12)}))
    assert one.bad == pytest.approx(0.4, abs=0.03)
    assert (one.good, one.one_sided) == (0.0, True)
    two = rates(Runs(10, {0: (5, 45), 4: (7, 53), 5: (44, 16), 9: (13, 7)}))
    assert two.bad == pytest.approx(0.7, abs=0.05)
    assert two.good == pytest.approx(0.11, abs=0.03)
    assert not two.one_sided


@pytest.mark.parametrize("breaks", [True, False])
def test_thousands_of_runs_do_not_underflow(breaks):
    """Also where they say that the bug is on the other side than it was said to be."""
    seen = {0: (3, 4000), 4: (2, 3000), 5: (1500, 2500), 9: (900, 1600)}
    found = posterior(Runs(10, seen, breaks=breaks))
    assert sum(found) == pytest.approx(1)
    assert all(map(math.isfinite, found))
    if breaks:
        assert found[4] > 0.999999
        assert candidates(Runs(10, seen)) == (Candidate(4, 5, pytest.approx(1)),)


@pytest.mark.parametrize("confidence", [0.95, 0.999999999])
def test_an_answer_takes_little_time(confidence):
    rng = random.Random(5)
    spread = Runs(400)
    for _ in range(400):
        position = rng.randrange(400)
        spread = spread.told(position, position >= 250 and rng.random() < 0.2)
    spent = []
    for _ in range(3):
        flaky._evidence.cache_clear()
        flaky._side.cache_clear()
        began = time.process_time()
        ask(spread, confidence)
        spent.append(time.process_time() - began)
    assert min(spent) < 0.05


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 1},
        {"size": 3, "seen": {3: (0, 1)}},
        {"size": 3, "skipped": frozenset({-1})},
    ],
)
def test_what_is_no_range_is_refused(wrong):
    with pytest.raises(ValueError, match=r"builds"):
        Runs(**wrong)


@settings(max_examples=30)
@given(histories(most=400))
def test_what_contradicts_itself_is_still_answered(runs):
    assert sum(posterior(runs)) == pytest.approx(1)
    assert candidates(runs)
    assert all(0 <= position < runs.size for position in ask(runs))
