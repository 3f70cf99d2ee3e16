"""Where a case changed that gives one outcome now and another then: runs are draws, not facts.

On the bad side of the change the bug shows with one rate, on the other with a lower one, usually
never. Neither rate is known. Each place of the change is weighed by how well it explains all runs,
averaged over the rates (Bayes), and the next run goes where it tells most between the places.

An average over rates is right on average only: at rates that it thinks unlikely it rules out too
much. So each place is ruled out by the rates that speak best for it: as long as

    sum over what is ruled out of prior * best likelihood <= (1 - confidence) * average likelihood

the true place is ruled out with a chance of at most 1 - confidence at every pair of rates, however
the positions were chosen and whenever the search ends, because the average likelihood sums to 1
over all histories. The prior is that each build is as likely as another to bring the change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from operator import add, attrgetter, mul
from typing import NamedTuple


@dataclass(frozen=True)
class Runs:
    """What was seen of the builds among which the change lies.

    Args:
        size: how many builds, the oldest at position 0, both sides of the change included.
        seen: for each position how often the bug showed and how often it did not.
        skipped: positions that cannot be run (any more); what was seen there still counts.
        breaks: the bug belongs to the newer side; else to the older, and the change fixes it.
    """

    size: int
    seen: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    skipped: frozenset[int] = frozenset()
    breaks: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for what is no range of builds."""
        if self.size < 2:
            raise ValueError(f"a change needs two builds, not {self.size}")
        outside = [place for place in (*self.seen, *self.skipped) if not 0 <= place < self.size]
        if outside:
            raise ValueError(f"no such positions among {self.size} builds: {outside}")

    @property
    def used(self) -> int:
        """How many runs there were."""
        return sum(shown + hidden for shown, hidden in self.seen.values())

    def told(self, position: int, shown: bool) -> Runs:
        """The same with one more run."""
        before = self.seen.get(position, (0, 0))
        after = (before[0] + shown, before[1] + (not shown))
        return replace(self, seen={**self.seen, position: after})

    def mirrored(self) -> Runs:
        """The same read from the newest build to the oldest."""
        last = self.size - 1
        return Runs(
            self.size,
            {last - position: counts for position, counts in self.seen.items()},
            frozenset(last - position for position in self.skipped),
            not self.breaks,
        )


@dataclass(frozen=True)
class Candidate:
    """A change that may be the one: after the build `older`, up to and with the build `newer`.

    The two are neighbours, unless what lies between them cannot be run.
    """

    older: int
    newer: int
    probability: float


@dataclass(frozen=True)
class Rates:
    """How often the bug seems to show.

    Args:
        bad: on the side of the bug.
        good: on the other side; exactly 0 when one-sided.
        one_sided: more likely than not it never shows on the other side.
    """

    bad: float
    good: float
    one_sided: bool


def posterior(runs: Runs) -> list[float]:
    """How likely the change lies just before position 1, 2, …, size - 1. The sum is 1."""
    spread: list[float] = []
    for cell in _cells(runs):
        width = cell.newer - cell.older
        spread += [cell.probability / width] * width
    return spread


def candidates(runs: Runs, confidence: float = 0.95) -> tuple[Candidate, ...]:
    """The fewest changes of which one is the true one with `confidence`, most likely first."""
    return tuple(
        Candidate(cell.older, cell.newer, cell.probability)
        for cell in _standing(_cells(runs), confidence)
    )


def rates(runs: Runs) -> Rates:
    """What the runs say about the rates, wherever the change lies."""
    cells = _cells(runs)
    never = sum(cell.probability * cell.evidence.one_sided for cell in cells)
    bad = sum(cell.probability * cell.evidence.bad for cell in cells)
    good = sum(cell.probability * cell.evidence.good for cell in cells)
    # Before any run it is even, however the sum was rounded.
    if never >= 0.5 - 1e-9:
        return Rates(bad, 0.0, True)
    return Rates(bad, good / (1 - never), False)


def ask(
    runs: Runs, confidence: float = 0.95, count: int = 1, limit: int | None = None
) -> tuple[int, ...]:
    """The positions to run next, the one that tells most first; one may be named several times.

    Empty when one candidate is left, when `limit` runs are used up, or when no build that can be
    run lies between the candidates. Where both sides are alike after all, no number of runs ends
    the search: give a limit.

    Args:
        count: how many runs can be made at once. Those after the first assume the likelier outcome
            of those before.
    """
    room = count if limit is None else min(count, limit - runs.used)
    chosen: list[int] = []
    while len(chosen) < room:
        best = _next(runs, confidence)
        if best is None:
            break
        chosen.append(best[0])
        runs = runs.told(best[0], shown=best[1] > 0.5)
    return tuple(chosen)


# --- the rates ----------------------------------------------------------------------------------

# sin² of evenly spaced angles: n runs tell angles about 1 / (2 * sqrt(n)) apart, whatever the rate,
# so one grid is fine enough everywhere, and equal weights on it (Jeffreys' prior) favour no rate.
_STEPS = 32
_RATES = tuple(math.sin(math.pi * step / (2 * _STEPS)) ** 2 for step in range(1, _STEPS + 1))
# Not the logarithm of 0: what is impossible stays comparable with what is more so.
_NOTHING = 1e-300
_SHOWN = tuple(math.log(rate) for rate in _RATES)
_HIDDEN = tuple(math.log(max(1 - rate, _NOTHING)) for rate in _RATES)
# Before any run it is even whether the bug never shows on the good side.
_ONE_SIDED = 0.5 / _STEPS
_TWO_SIDED = 0.5 / (_STEPS * (_STEPS - 1) / 2)


class _Evidence(NamedTuple):
    """How well one place of the change explains all runs.

    `log` is of the likelihood averaged over the rates, `regret` how much higher the likelihood is
    at the best rates; `bad` and `good` are the mean rates, `one_sided` how likely `good` is 0.
    """

    log: float
    regret: float
    bad: float
    good: float
    one_sided: float


class _Side(NamedTuple):
    """The likelihood at each rate as a part of the highest, and sums of it that are used often."""

    top: float
    each: Sequence[float]
    mean: Sequence[float]
    until: Sequence[float]
    mean_until: Sequence[float]
    best_until: Sequence[float]


@lru_cache(maxsize=1 << 12)
def _side(shown: int, hidden: int) -> _Side:
    logs = [shown * yes + hidden * no for yes, no in zip(_SHOWN, _HIDDEN, strict=True)]
    top = max(logs)
    each = [math.exp(log - top) for log in logs]
    mean = list(map(mul, each, _RATES))
    until, mean_until = list(accumulate(each)), list(accumulate(mean))
    return _Side(top, each, mean, until, mean_until, list(accumulate(each, max)))


@lru_cache(maxsize=1 << 15)
def _evidence(bad_shown: int, bad_hidden: int, good_shown: int, good_hidden: int) -> _Evidence:
    """Over all pairs of rates with the bad one higher; the good one is 0 or of the grid."""
    bad, good = _side(bad_shown, bad_hidden), _side(good_shown, good_hidden)
    never = 0.0 if good_shown else math.exp(-good.top)
    # Each bad rate goes with the good rates before it.
    higher, higher_mean = bad.each[1:], bad.mean[1:]
    one = _ONE_SIDED * never * bad.until[-1]
    total = one + _TWO_SIDED * sum(map(mul, higher, good.until)) + _NOTHING
    one_mean = _ONE_SIDED * never * bad.mean_until[-1]
    bad_mean = one_mean + _TWO_SIDED * sum(map(mul, higher_mean, good.until))
    good_mean = _TWO_SIDED * sum(map(mul, higher, good.mean_until))
    best = max(never, max(map(mul, higher, good.best_until))) + _NOTHING
    return _Evidence(
        log=bad.top + good.top + math.log(total),
        regret=best / total,
        bad=bad_mean / total,
        good=good_mean / total,
        one_sided=one / total,
    )


# --- the places ---------------------------------------------------------------------------------


class _Cell(NamedTuple):
    """The changes between two neighbours among the builds that can be told apart.

    `doubt` is the probability by the rates that speak best for this place.
    """

    older: int
    newer: int
    probability: float
    doubt: float
    evidence: _Evidence


_PROBABILITY = attrgetter("probability")
_DOUBT = attrgetter("doubt")


def _cells(runs: Runs) -> list[_Cell]:
    """All places of the change, oldest first; each weighs as much as it holds builds."""
    if not runs.breaks:
        last = runs.size - 1
        return [
            cell._replace(older=last - cell.newer, newer=last - cell.older)
            for cell in reversed(_cells(runs.mirrored()))
        ]
    edges = sorted({0, runs.size - 1, *runs.seen, *(set(range(runs.size)) - runs.skipped)})
    counts = [runs.seen.get(edge, (0, 0)) for edge in edges]
    shown = list(accumulate(count for count, _ in counts))
    hidden = list(accumulate(count for _, count in counts))
    evidence = [
        _evidence(shown[-1] - good_shown, hidden[-1] - good_hidden, good_shown, good_hidden)
        for good_shown, good_hidden in zip(shown[:-1], hidden[:-1], strict=True)
    ]
    top = max(one.log for one in evidence)
    weights = [
        (newer - older) * math.exp(one.log - top)
        for older, newer, one in zip(edges[:-1], edges[1:], evidence, strict=True)
    ]
    total = sum(weights)
    shares = [weight / total for weight in weights]
    doubts = [share * one.regret for share, one in zip(shares, evidence, strict=True)]
    return list(map(_Cell, edges[:-1], edges[1:], shares, doubts, evidence))


def _standing(cells: Sequence[_Cell], confidence: float) -> list[_Cell]:
    """What cannot be ruled out together, the most likely first, which always stays."""
    first = max(cells, key=_PROBABILITY)
    others = sorted((cell for cell in cells if cell is not first), key=_DOUBT)
    out = sum(doubt <= 1 - confidence for doubt in accumulate(map(_DOUBT, others)))
    return [first, *sorted(others[out:], key=_PROBABILITY, reverse=True)]


# --- the next run -------------------------------------------------------------------------------


def _next(runs: Runs, confidence: float) -> tuple[int, float] | None:
    """The position that tells most, and how likely the bug shows there."""
    if not runs.breaks:
        best = _next(runs.mirrored(), confidence)
        return best and (runs.size - 1 - best[0], best[1])
    cells = _cells(runs)
    standing = _standing(cells, confidence)
    oldest = min(cell.older for cell in standing)
    newest = max(cell.newer for cell in standing)
    if set(range(oldest + 1, newest)) <= runs.skipped:
        return None
    likeliest = standing[0]
    edges = [cells[0].older, *(cell.newer for cell in cells)]
    shows = _shows(cells)
    if likeliest.probability < 0.5:
        worth = _information(cells, shows)
    else:
        worth = _separation(cells, likeliest)
    able = [place for place, edge in enumerate(edges) if edge not in runs.skipped]
    best_place = max(able, key=worth.__getitem__)
    return edges[best_place], shows[best_place]


def _shows(cells: Sequence[_Cell]) -> list[float]:
    """For each edge of a cell how likely the bug shows there, wherever the change is."""
    return _across(
        [cell.probability * cell.evidence.bad for cell in cells],
        [cell.probability * cell.evidence.good for cell in cells],
    )


def _across(bad: Sequence[float], good: Sequence[float]) -> list[float]:
    """For each edge the sum of `bad` over the changes up to it and of `good` over those after."""
    after = [*accumulate(reversed(good), initial=0.0)]
    return list(map(add, accumulate(bad, initial=0.0), reversed(after)))


def _information(cells: Sequence[_Cell], shows: Sequence[float]) -> list[float]:
    """By how much one run at each edge is expected to lower the entropy over the changes."""
    known = _across(
        [cell.probability * _entropy(cell.evidence.bad) for cell in cells],
        [cell.probability * _entropy(cell.evidence.good) for cell in cells],
    )
    return [_entropy(chance) - rest for chance, rest in zip(shows, known, strict=True)]


def _separation(cells: Sequence[_Cell], likeliest: _Cell) -> list[float]:
    """How well one run at each edge is expected to tell the likeliest change from all others.

    Entropy hardly moves once one change is nearly certain. This still sees that a better known rate
    makes each clean run worth more, which ends a search at a low rate a third earlier.
    """
    others = [0.0 if cell is likeliest else cell.probability for cell in cells]
    total = sum(others)
    bad = [share * cell.evidence.bad for share, cell in zip(others, cells, strict=True)]
    good = [share * cell.evidence.good for share, cell in zip(others, cells, strict=True)]
    edges = [cells[0].older, *(cell.newer for cell in cells)]
    here = likeliest.evidence
    return [
        _divergence(here.bad if edge >= likeliest.newer else here.good, shown / total)
        for edge, shown in zip(edges, _across(bad, good), strict=True)
    ]


def _entropy(chance: float) -> float:
    """Of one draw, in nats."""
    if not 0 < chance < 1:
        return 0.0
    return -chance * math.log(chance) - (1 - chance) * math.log1p(-chance)


def _divergence(chance: float, other: float) -> float:
    """How much one draw at `chance` is expected to speak against `other`, in nats."""
    other = min(max(other, _NOTHING), 1 - 1e-16)
    told = chance * math.log(chance / other) if chance > 0 else 0.0
    return told + ((1 - chance) * math.log((1 - chance) / (1 - other)) if chance < 1 else 0.0)
