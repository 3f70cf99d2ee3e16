"""What is known of one case: its runs, what the search makes of them, and the timeline. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from repro.bisect.candidates import Range
from repro.bisect.labels import UNSUPPORTED, Match, change_between, label_of
from repro.bisect.repeats import doubts
from repro.bisect.search import SKIP, History, ask, changes
from repro.outcome import How, Run
from repro.timeline import Boundary, Point, Timeline

# A first run and one that confirms it.
CONFIRMED = 2
# How many times as long one outcome takes as another that is to be told from it by that.
SLOWER = 1.5
# Runs of a case that disagreed with itself are numbered from here: the search is not told of them.
AGAIN = 1000
_FLAKY = "it does not always give the same, so it was run again and again"


@dataclass(frozen=True)
class Assumed:
    """What is likely of a case.

    Args:
        sure: whether time has told; else a probe may still come to either.
    """

    history: History
    sure: bool


class Knowledge:
    """One case over the builds of a bisection. It changes by `learn` alone.

    Args:
        repeat: runs of each probe; the search is told of a build once all of them are there.
        max_skips: as `repro.bisect.search.History` has it; None for its own.
    """

    def __init__(
        self, case: str, builds: Range, match: Match, repeat: int = 1, max_skips: int | None = None
    ) -> None:
        self.case = case
        self._builds = builds.builds
        self._match = match
        self._usual = range(1, repeat + 1)
        self._runs: dict[int, dict[int, Run]] = {}
        history = History(len(builds.builds), grid=builds.grid, blank=(UNSUPPORTED,))
        self._nothing = history if max_skips is None else replace(history, max_skips=max_skips)
        self._derived: History | None = None

    # --- what is learned ------------------------------------------------------------------------

    def learn(self, position: int, number: int, run: Run) -> None:
        """Take in a run."""
        self._runs.setdefault(position, {})[number] = run
        self._derived = None

    @property
    def history(self) -> History:
        """What the search is told. Derived anew from all runs when one was learned: an end that
        times out makes time-outs elsewhere mean something."""
        if self._derived is None:
            told = {
                at: _worst([self._label(runs[n]) for n in self._usual])
                for at, runs in self._runs.items()
                if all(n in runs for n in self._usual)
            }
            self._derived = replace(self._nothing, told=told)
        return self._derived

    def _hangs(self) -> bool:
        """Whether an end timed out: then that is what is looked for."""
        ends = 0, len(self._builds) - 1
        runs = (run for end in ends for run in self._runs.get(end, {}).values())
        return any(run.outcome.how is How.TIMEOUT for run in runs)

    def _label(self, run: Run) -> Hashable:
        return label_of(run.outcome, self._match, self._hangs())

    def _labels(self) -> Mapping[int, Sequence[Hashable]]:
        return {at: [self._label(runs[n]) for n in sorted(runs)] for at, runs in self._runs.items()}

    # --- what to run ----------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the search asks for anything."""
        return bool(ask(self.history))

    @property
    def asked(self) -> set[int]:
        """Every position that would tell the search something."""
        return set(ask(self.history, self.history.size))

    def assuming(self, elapsed: Mapping[int, float]) -> Assumed:
        """What the search is told if each build that is being probed comes to what is likely.

        Where one of its two neighbours took much longer than the other, that is the slower one once
        it runs for longer than the quicker did. Until then there is no telling, and the quicker is
        assumed: if it is that one, what comes next is wanted soonest.

        Args:
            elapsed: for how many seconds each is being probed.
        """
        assumed, sure = self.history, True
        for position, seconds in elapsed.items():
            told = [at for at, label in assumed.told.items() if label is not SKIP]
            older = max((at for at in told if at < position), default=None)
            newer = min((at for at in told if at > position), default=None)
            if older is None or newer is None or position in assumed.told:
                continue
            quick, slow = sorted((older, newer), key=self._seconds)
            if self._seconds(slow) > SLOWER * self._seconds(quick):
                is_slow = seconds >= SLOWER * self._seconds(quick)
                sure &= is_slow
                label = assumed.told[slow if is_slow else quick]
                assumed = assumed.told_also(position, label)
        return Assumed(assumed, sure)

    def _seconds(self, position: int) -> float:
        """How long a build took; for ever where it is only assumed to be slow."""
        runs = self._runs.get(position, {}).values()
        return max((run.seconds.total or 0.0 for run in runs), default=math.inf)

    def to_probe(self, position: int) -> list[int]:
        """The numbers of the runs of a build that the search waits for."""
        if position not in self.asked:
            return []
        return [n for n in self._usual if n not in self._runs.get(position, {})]

    def to_confirm(self) -> dict[int, list[int]]:
        """Positions beside a boundary that were not run twice, with the missing numbers."""
        sides = [side for c in changes(self.history) for side in (c.older, c.newer)]
        missing = {
            side: [n for n in range(1, CONFIRMED + 1) if n not in self._runs[side]]
            for side in sides
        }
        return {side: numbers for side, numbers in missing.items() if numbers}

    def to_repeat(self, count: int) -> dict[int, int]:
        """Where the case disagreed with itself: positions, the most telling first, and a number."""
        found: dict[int, int] = {}
        for doubt in doubts(changes(self.history), self._labels()).values():
            for position in doubt.ask(count):
                found[position] = max((AGAIN, *self._runs.get(position, ()))) + 1
        return found

    # --- the answer -----------------------------------------------------------------------------

    def point(self, position: int) -> Point | None:
        """What the first run of a build came to."""
        runs = self._runs.get(position)
        if not runs:
            return None
        build, run = self._builds[position], runs[min(runs)]
        return Point(position, str(build.version), build.day, run.build.git_version, run.outcome)

    def timeline(self, finished: bool = True) -> Timeline:
        """The answer; with `finished=False` the changes that are in sight so far too."""
        labels = self._labels()
        found = changes(self.history, final=finished)
        in_doubt = doubts(found, labels)
        boundaries: list[Boundary] = []
        for change in found:
            sure = self._boundary(change.older, change.newer)
            if change in in_doubt:
                boundaries += (
                    replace(self._boundary(*pair), change=sure.change, probability=probability)
                    for pair, probability in in_doubt[change].likely(labels).items()
                )
            else:
                steady = all(
                    len(labels[side]) >= CONFIRMED and len(set(labels[side])) == 1
                    for side in (change.older, change.newer)
                )
                boundaries.append(replace(sure, confirmed=steady))
        points = (self.point(position) for position in sorted(self._runs))
        return Timeline(
            case=self.case,
            size=len(self._builds),
            points=tuple(point for point in points if point is not None),
            boundaries=tuple(boundaries),
            notes=(_FLAKY,) if in_doubt else (),
        )

    def _boundary(self, older: int, newer: int) -> Boundary:
        before, after = self.point(older), self.point(newer)
        assert before is not None
        assert after is not None
        return Boundary(
            older=before,
            newer=after,
            change=change_between(before.outcome, after.outcome),
            untested=tuple(str(self._builds[p].version) for p in range(older + 1, newer)),
        )


def _worst(labels: Sequence[Hashable]) -> Hashable:
    """What several runs of one build come to: the most frequent failure before a pass."""
    failures = [label for label in labels if isinstance(label, tuple)]
    if failures:
        return max(failures, key=failures.count)
    return SKIP if SKIP in labels else labels[0]
