"""Where a case disagrees with itself: what is run again, and how likely each change is. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from repro.bisect.flaky import Runs, ask, candidates
from repro.bisect.search import SKIP, Change

CONFIDENCE = 0.95
# Runs of one change after which the candidates that remain are the answer: half an hour for most.
LIMIT = 150

# The classes of all runs, by position.
Labels = Mapping[int, Sequence[Hashable]]


@dataclass(frozen=True)
class Doubt:
    """A change one side of which did not give the same again.

    Args:
        first: the first build of the range in which the change is looked for.
        runs: what was seen in that range.
    """

    first: int
    runs: Runs

    def ask(self, count: int) -> list[int]:
        """Positions to run next; none when the answer is as good as it gets."""
        return [self.first + p for p in ask(self.runs, CONFIDENCE, count, LIMIT)]

    def likely(self, labels: Labels) -> dict[tuple[int, int], float]:
        """Pairs of tested builds between which the change lies, with their probabilities."""
        tested = sorted(p for p, seen in labels.items() if any(s is not SKIP for s in seen))
        found: dict[tuple[int, int], float] = {}
        for candidate in candidates(self.runs, CONFIDENCE):
            older, newer = self.first + candidate.older, self.first + candidate.newer
            pair = (
                max(p for p in tested if p <= older),
                min(p for p in tested if p >= newer),
            )
            found[pair] = found.get(pair, 0.0) + candidate.probability
        return dict(sorted(found.items()))


def doubts(changes: Sequence[Change], labels: Labels) -> dict[Change, Doubt]:
    """The changes that are in doubt: a side was run again and gave something else."""
    made = {}
    for place, change in enumerate(changes):
        if any(len(_told(labels[side])) > 1 for side in (change.older, change.newer)):
            first = changes[place - 1].newer if place else min(labels)
            last = changes[place + 1].older if place + 1 < len(changes) else max(labels)
            made[change] = _doubt(change, first, last, labels)
    return made


def _told(labels: Sequence[Hashable]) -> set[Hashable]:
    return {label for label in labels if label is not SKIP}


def _doubt(change: Change, first: int, last: int, labels: Labels) -> Doubt:
    """The range around a change, in which one side shows the bug at times and the other hardly."""
    older, newer = labels[change.older][0], labels[change.newer][0]
    breaks = isinstance(newer, tuple) or not isinstance(older, tuple)
    bug = newer if breaks else older
    seen: dict[int, tuple[int, int]] = {}
    skipped = set()
    for position in range(first, last + 1):
        runs = [label for label in labels.get(position, ()) if label is not SKIP]
        if runs:
            shown = sum(label == bug for label in runs)
            seen[position - first] = (shown, len(runs) - shown)
        elif position in labels:
            skipped.add(position - first)
    return Doubt(first, Runs(last - first + 1, seen, frozenset(skipped), breaks))
