"""Which builds to look at next, and which changes are certain: pure, deterministic, stateless.

Builds are positions 0..size-1 in order, outcomes are classes that are only equal or not. Everything
follows from what is told, in whatever order it was told: a search that is repeated with the answers
it had, or with some of them, goes on as if nothing had happened.

The search knows what it was shown. Two neighbouring tested builds that differ have a change between
them and are bisected, so any number of changes and of outcomes is found one by one. Two that agree
are taken to have none: what comes and goes between them is seen only if the grid falls on it.

Builds that cannot be tested mostly come in runs. One that is met in the middle is therefore taken
for part of a run, whose two ends are searched from outside, each by halving; builds between two
untestable ones are tried last, and only within a budget. What stays untested is named.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import islice, pairwise
from typing import Final


class Skip(Enum):
    """The type of `SKIP`."""

    SKIP = "could not be tested"


SKIP: Final = Skip.SKIP

# The most with which 60 builds, 20 untestable ones in a row around the change, take 14 probes.
MAX_SKIPS = 5

# Two told positions with only untold ones between.
Hole = tuple[int, int]


@dataclass(frozen=True)
class History:
    """What is known.

    Args:
        size: number of builds.
        told: outcome class by position, `SKIP` where a build could not be tested.
        grid: positions worth a look before it is concluded that nothing changed, such as releases;
            evenly spread ones are added where these leave wide holes.
        max_skips: between two untestable builds others are tried only while fewer than this many
            are known to be untestable between the same two tested builds; None tries them all.
        blank: outcomes that say nothing about the bug, such as "unsupported". Where an end has one
            of them and no change between others is found, the grid is looked at as well.
    """

    size: int
    told: Mapping[int, Hashable] = field(default_factory=dict)
    grid: Sequence[int] = ()
    max_skips: int | None = MAX_SKIPS
    blank: Collection[Hashable] = ()

    def __post_init__(self) -> None:
        """Refuse positions that are none: no answer to them would ever fit."""
        for position in (*self.told, *self.grid):
            if not 0 <= position < self.size:
                raise ValueError(f"position {position} is not among {self.size} builds")

    def told_also(self, position: int, outcome: Hashable) -> History:
        """This history and one more answer; a second answer that differs is an error."""
        if self.told.get(position, outcome) != outcome:
            raise ValueError(f"position {position} was told before, with another outcome")
        return replace(self, told={**self.told, position: outcome})

    @cached_property
    def _stretches(self) -> tuple[_Stretch, ...]:
        return tuple(_stretches(self))


@dataclass(frozen=True)
class Change:
    """Two tested builds with different outcomes, and no tested one between.

    Args:
        older: position before the change.
        newer: position after it.
        untested: every position between; none where one build is known to have brought the change.
    """

    older: int
    newer: int
    untested: tuple[int, ...]


def ask(history: History, count: int = 1) -> tuple[int, ...]:
    """The next positions in order of worth, none of them told; none when nothing is left to ask.

    Each place that is still searched comes once before any comes twice. Its first position is
    needed for certain, the others if the first turns out as is likely: they are worth an idle
    processor, or an installation ahead.
    """
    return tuple(islice(_asked(history), count))


def changes(history: History, *, final: bool = True) -> tuple[Change, ...]:
    """The changes between which nothing more is asked; with `final=False` all that are in sight."""
    return tuple(
        Change(s.older, s.newer, tuple(range(s.older + 1, s.newer)))
        for s in history._stretches
        if s.differs and {s.older, s.newer} <= history.told.keys() and not (final and s.is_open)
    )


def ends(history: History) -> tuple[int, int] | None:
    """The oldest and the newest testable build, once nothing beyond them is asked any more."""
    first, last = history._stretches[0], history._stretches[-1]
    if first is last or first.is_open or last.is_open or _untold_ends(history):
        return None
    return first.newer, last.older


def steps_left(history: History) -> int:
    """How many more positions are asked one by one, at most, unless more skips or changes show."""
    stretches = sum(s.steps() for s in history._stretches)
    return len(_untold_ends(history)) + len(_grid(history)) + stretches


@dataclass(frozen=True)
class _Stretch:
    """What lies between two neighbouring tested positions, or beyond the first or last of them."""

    older: int
    newer: int
    skipped: tuple[int, ...]
    differs: bool
    history: History

    @property
    def is_open(self) -> bool:
        return next(self.worth(), None) is not None

    @property
    def is_beyond(self) -> bool:
        return self.older < 0 or self.newer == self.history.size

    @cached_property
    def holes(self) -> tuple[list[Hole], list[Hole]]:
        """Those beside a tested position, and those between two untestable ones."""
        if not self.differs:
            return [], []
        tested = {self.older, self.newer} - {-1, self.history.size}
        holes = list(pairwise(sorted({*tested, *self.skipped})))
        beside = [hole for hole in holes if not tested.isdisjoint(hole)]
        return beside, [hole for hole in holes if tested.isdisjoint(hole)]

    def budget(self, between: list[Hole]) -> int:
        """How many positions between untestable ones may be tried."""
        untold = sum(newer - older - 1 for older, newer in between)
        if self.history.max_skips is None:
            return untold
        return min(untold, max(0, self.history.max_skips - len(self.skipped)))

    def worth(self) -> Iterator[int]:
        """Positions in order of worth."""
        beside, between = self.holes
        yield from _halve(beside, self.cut)
        yield from islice(_halve(between, _middle), self.budget(between))

    def cut(self, older: int, newer: int) -> int:
        """Where to look between an untestable or tested position and a tested one.

        Beyond the outermost tested position in strides that double from the end of the history:
        most runs of untestable builds are short, and the nearest testable one is wanted.
        """
        middle = _middle(older, newer)
        if self.older < 0:
            return min(2 * older + 1, middle)
        return max(2 * newer - self.history.size, middle) if self.is_beyond else middle

    def steps(self) -> int:
        beside, between = self.holes
        steps = self.budget(between)
        for older, newer in beside:
            if self.is_beyond and newer - older > 1:
                # To the nearest testable position, and to the change that it may bring to light.
                first = self.cut(older, newer)
                steps += 1 + _halvings(first - older) + _halvings(newer - first)
            else:
                steps += _halvings(newer - older)
        return steps


def _asked(history: History) -> Iterator[int]:
    yield from _untold_ends(history)
    lanes = deque([iter(_grid(history)), *(s.worth() for s in history._stretches)])
    # Only where nothing is tested yet does the grid fall on what another lane asks.
    seen = set[int]()
    while lanes:
        lane = lanes.popleft()
        for position in islice(lane, 1):
            lanes.append(lane)
            if position not in seen:
                seen.add(position)
                yield position


def _untold_ends(history: History) -> list[int]:
    ends = sorted({0, history.size - 1})
    return [end for end in ends if 0 <= end < history.size and end not in history.told]


def _stretches(history: History) -> Iterator[_Stretch]:
    """The history, cut at every tested position.

    An end that is not told yet counts as tested and unlike any other, which is what is likeliest:
    so there is something to install ahead from the start.
    """
    told: dict[int, Hashable] = {end: object() for end in _untold_ends(history)} | {**history.told}
    older, skipped = -1, list[int]()
    for position in (*sorted(told), history.size):
        if told.get(position) is SKIP:
            skipped.append(position)
            continue
        differs = older < 0 or position == history.size or told[older] != told[position]
        yield _Stretch(older, position, tuple(skipped), differs, history)
        older, skipped = position, []


def _grid(history: History) -> list[int]:
    """The positions of the grid that are still to be looked at, if it has to be looked at."""
    told, reach, blank = history.told, ends(history), set[Hashable]()
    if reach is None:
        nothing_tested = set(told.values()) == {SKIP} and not _untold_ends(history)
        return [p for p in _whole_grid(history) if p not in told] if nothing_tested else []
    if told[reach[0]] != told[reach[1]]:
        blank = set(history.blank)
        others = {*told.values()} - blank - {SKIP}
        if blank.isdisjoint(told[end] for end in reach) or len(others) > 1:
            return []
    agree = [s for s in history._stretches if not s.differs and told[s.older] not in blank]
    untold = (p for p in _whole_grid(history) if p not in told)
    return [p for p in untold if any(s.older < p < s.newer for s in agree)]


def _whole_grid(history: History) -> list[int]:
    """The given positions, and others so that no hole is wider than about size / log2(size)."""
    last, parts = history.size - 1, _halvings(history.size) + 3
    given = sorted({*history.grid} - {0, last})
    added: list[int] = []
    for older, newer in pairwise(sorted({0, *given, last})):
        cuts = -(-(newer - older) * parts // last)
        added += sorted({older + (newer - older) * i // cuts for i in range(1, cuts)} - {older})
    return [row[i] for row in (given, added) for i in _halve([(-1, len(row))], _middle)]


def _halve(holes: Iterable[Hole], cut: Callable[[int, int], int]) -> Iterator[int]:
    """All positions inside the holes, the widest hole cut first, as if both parts were needed."""
    heap = [(older - newer, older, newer) for older, newer in holes]
    heapq.heapify(heap)
    while heap:
        width, older, newer = heapq.heappop(heap)
        if width < -1:
            position = cut(older, newer)
            yield position
            heapq.heappush(heap, (older - position, older, position))
            heapq.heappush(heap, (position - newer, position, newer))


def _middle(older: int, newer: int) -> int:
    return (older + newer) // 2


def _halvings(width: int) -> int:
    """How often a hole is halved until nothing is left inside: the logarithm, rounded up."""
    return max(0, width - 1).bit_length()
