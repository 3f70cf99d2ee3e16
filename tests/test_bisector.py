"""What a bisection installs and probes when: a worker that only pretends, on real threads."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.bisect.bisection import Bisector, Question
from repro.bisect.labels import UNSUPPORTED
from repro.bisect.work import Made, Narrate, Task
from repro.case import Case
from repro.outcome import Kind, Outcome, Run, Seconds
from tests.builders import case as make_case
from tests.builders import failure, run, untestable
from tests.test_knowledge import builds

LIMIT = 30.0
PASS, FAIL = Outcome(Kind.PASS), failure()
Scripted = Callable[[str, int], Outcome]


class Pretender:
    """A worker whose builds take as long and come to what they are told.

    Args:
        outcome: by name of the case and position.
        installing, probing: seconds, by position.
        missing: positions of builds that cannot be had.
    """

    def __init__(
        self,
        outcome: Scripted,
        installing: Callable[[int], float] = lambda at: 0.0,
        probing: Callable[[int], float] = lambda at: 0.0,
        missing: frozenset[int] = frozenset(),
        installed: frozenset[int] = frozenset(),
    ) -> None:
        self.outcome = outcome
        self.installing = installing
        self.probing = probing
        self.missing = missing
        self.there = set(installed)
        self.installs = 0
        self.finished: list[tuple[str, int, int]] = []
        self.stopped: list[int] = []
        self.notes: list[str] = []
        # What began and ended, in order: ("probe", position) and ("probed", position), as well as
        # ("install", ...) and ("installed", ...).
        self.log: list[tuple[str, int]] = []
        self.most = {"install": 0, "probe": 0}
        self._now = {"install": 0, "probe": 0}
        self._lock = threading.Lock()

    def is_installed(self, position: int) -> bool:
        return position in self.there

    def size(self, position: int) -> int | None:
        return 1000 + position

    def recalled(self, case: Case, position: int, number: int) -> Run | None:
        return None

    def note(self, line: str) -> None:
        self.notes.append(line)

    def _begin(self, what: str, by: int) -> None:
        with self._lock:
            self._now[what] += by
            self.most[what] = max(self.most[what], self._now[what])

    def install(self, task: Task, narrate: Narrate) -> list[Made]:
        assert task.position not in self.there, "it was installed before"
        self._begin("install", 1)
        self.log.append(("install", task.position))
        narrate(f"installing {task.position}")
        time.sleep(self.installing(task.position))
        self.log.append(("installed", task.position))
        self._begin("install", -1)
        if task.position in self.missing:
            return [
                Made(
                    case, task.position, number, run(untestable(stage="install"), case.name), False
                )
                for case, number in task.runs
            ]
        self.there.add(task.position)
        self.installs += 1
        return []

    def probe(self, task: Task, narrate: Narrate, unwanted: threading.Event) -> list[Made]:
        assert task.position in self.there, "it was not installed"
        assert task.runs
        self._begin("probe", 1)
        self.log.append(("probe", task.position))
        made: list[Made] = []
        for case, number in task.runs:
            narrate(f"running {case.name} in {task.position}")
            if unwanted.wait(self.probing(task.position)):
                self.stopped.append(task.position)
                break
            self.finished.append((case.name, task.position, number))
            took = Seconds(total=self.probing(task.position))
            outcome = self.outcome(case.name, task.position)
            made.append(
                Made(case, task.position, number, run(outcome, case.name, seconds=took), True)
            )
        self.log.append(("probed", task.position))
        self._begin("probe", -1)
        return made


class Searched:
    """A bisection by a pretender."""

    def __init__(
        self, worker: Pretender, size: int, jobs: int = 1, cases: tuple[str, ...] = ("moe",)
    ) -> None:
        row = builds(size)
        made = tuple(make_case(name) for name in cases)
        question = Question(made, row.builds[0], row.builds[-1], jobs=jobs)
        self.said: list[str] = []
        began = time.monotonic()
        self.answer = Bisector(question, row, worker, self.said.append).run()
        self.seconds = time.monotonic() - began

    @property
    def sides(self) -> list[list[tuple[int, int]]]:
        return [
            [(b.older.position, b.newer.position) for b in timeline.boundaries]
            for timeline in self.answer.timelines
        ]


def since(change: int) -> Scripted:
    return lambda name, position: FAIL if position >= change else PASS


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_takes_how_long_the_answer_is_right_and_nothing_is_done_twice(data) -> None:
    size = data.draw(st.integers(2, 40), "size")
    jobs = data.draw(st.integers(1, 4), "jobs")
    cases = tuple(f"case{n}" for n in range(data.draw(st.integers(1, 3), "cases")))
    changes = {name: data.draw(st.integers(1, size - 1), name) for name in cases}
    pauses = data.draw(st.lists(st.sampled_from([0.0, 0.001, 0.003]), min_size=8, max_size=8))
    installed = data.draw(st.frozensets(st.integers(0, size - 1)), "installed")
    worker = Pretender(
        lambda name, position: FAIL if position >= changes[name] else PASS,
        installing=lambda at: pauses[at % 4],
        probing=lambda at: pauses[4 + at % 4],
        installed=installed,
    )
    searched = Searched(worker, size, jobs, cases)
    assert searched.sides == [[(changes[name] - 1, changes[name])] for name in cases]
    assert all(b.confirmed for t in searched.answer.timelines for b in t.boundaries)
    assert len(set(worker.finished)) == len(worker.finished)
    assert worker.most["probe"] <= jobs
    assert searched.answer.probes == len(worker.finished)
    assert searched.answer.installs == worker.installs
    if jobs == 1:
        assert worker.stopped == []
        steps = math.ceil(math.log2(size)) + 2
        assert len(worker.finished) <= len(cases) * (steps + 2)


def test_a_build_that_cannot_be_had_is_untestable_and_not_probed() -> None:
    worker = Pretender(since(5), missing=frozenset({4, 5}))
    searched = Searched(worker, 12)
    assert searched.sides == [[(3, 6)]]
    assert not {4, 5} & {position for _, position, _ in worker.finished}
    [timeline] = searched.answer.timelines
    tried = [point for point in timeline.points if point.outcome.kind is Kind.UNTESTABLE]
    assert {point.position for point in tried} == {4, 5}
    assert searched.answer.probes == len(worker.finished)


def test_the_next_build_is_installed_while_a_probe_runs() -> None:
    worker = Pretender(since(8), installing=lambda at: 0.05, probing=lambda at: 0.2)
    Searched(worker, 16)
    # 2 + 4 probes and 2 that confirm.
    assert len(worker.finished) == 8
    assert worker.most == {"install": 1, "probe": 1}
    # Only while the first was installed was nothing probed.
    idle = []
    probing = False
    for at, (what, position) in enumerate(worker.log):
        probing = what == "probe" or (probing and what != "probed")
        if what == "install" and not probing:
            meanwhile = worker.log[at : worker.log.index(("installed", position))]
            idle += [] if any(what == "probe" for what, _ in meanwhile) else [position]
    assert idle == [0]


def test_what_was_begun_in_vain_is_not_waited_for() -> None:
    """It fails at once where it fails; a build that passes for an hour is not needed."""
    worker = Pretender(since(2), probing=lambda at: LIMIT if at in (3, 4, 6, 8) else 0.05)
    searched = Searched(worker, 10, jobs=8)
    assert searched.sides == [[(1, 2)]]
    assert searched.seconds < LIMIT / 2
    assert worker.stopped
    assert not set(worker.stopped) & {position for _, position, _ in worker.finished}


def test_while_a_slow_build_is_probed_the_quick_side_is_looked_at() -> None:
    """Who passes takes long: what takes long lies behind the fix, and the fix before it."""

    def outcome(name: str, position: int) -> Outcome:
        return PASS if position >= 3 else FAIL

    worker = Pretender(outcome, probing=lambda at: 0.6 if at >= 3 else 0.02)
    searched = Searched(worker, 16, jobs=2)
    assert searched.sides == [[(2, 3)]]
    assert {position for _, position, _ in worker.finished if position >= 3} <= {15, 7, 3}
    # 15 takes as long as 7, so of the two that are probed at once one is free only while 3 is.
    of_3 = [worker.log.index((what, 3)) for what in ("probe", "probed")]
    assert {at for what, at in worker.log[slice(*of_3)] if what == "probed"} >= {1, 2}


def test_what_follows_from_the_quick_outcome_is_installed_ahead_and_nothing_else() -> None:
    """Every build between the ends fails, and quickly, so what a pass would ask for is in vain."""
    worker = Pretender(
        lambda name, position: PASS if position >= 15 else FAIL,
        installing=lambda at: 0.01,
        probing=lambda at: 1.5 if at >= 15 else 0.2,
    )
    searched = Searched(worker, 16)
    assert searched.sides == [[(14, 15)]]
    assert worker.there == {position for _, position, _ in worker.finished}


def test_an_installation_is_told_of_only_while_nothing_is_probed() -> None:
    worker = Pretender(since(8), installing=lambda at: 0.02, probing=lambda at: 0.1)
    searched = Searched(worker, 16)
    assert searched.said[0].startswith("installing 0, at most ")
    probing = [line for line in searched.said if line.startswith("running")]
    assert len(probing) == 8
    assert searched.said.index(probing[0]) == 1
    assert [line for line in searched.said[2:] if line.startswith("installing")] == []


def test_with_several_cases_nothing_is_installed_in_vain() -> None:
    changes = {"a": 10, "b": 30, "c": 50}
    worker = Pretender(
        lambda name, position: FAIL if position >= changes[name] else PASS,
        installing=lambda at: 0.001,
        probing=lambda at: 0.002,
    )
    searched = Searched(worker, 60, cases=("a", "b", "c"))
    assert searched.sides == [[(9, 10)], [(29, 30)], [(49, 50)]]
    probed = {position for _, position, _ in worker.finished}
    # With one search left there may be one a step that is not needed.
    assert len(worker.there - probed) <= 6


def test_an_end_that_cannot_run_it_is_told_before_the_search() -> None:
    def outcome(name: str, position: int) -> Outcome:
        if position < 4:
            return Outcome(UNSUPPORTED, "unsupported_case", reason="too old")
        return FAIL

    worker = Pretender(outcome)
    searched = Searched(worker, 9)
    assert searched.sides == [[(3, 4)]]
    [note] = worker.notes
    assert note.startswith("moe: torch ")
    assert note.endswith("cannot run moe (too old); looking for what changes between")


def test_the_plan_counts_what_is_not_installed() -> None:
    row = builds(16)
    question = Question((make_case("moe"),), row.builds[0], row.builds[-1])
    worker = Pretender(since(3), installed=frozenset({0, 7}))
    plan = Bisector(question, row, worker, lambda line: None).plan()
    assert plan.steps == (6, 6)
    assert plan.missing == 14
    assert plan.wheel is not None
    assert plan.wheel > 1000


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_fault_of_ours_is_not_hidden(jobs: int) -> None:
    def outcome(name: str, position: int) -> Outcome:
        raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError, match="a fault of ours"):
        Searched(Pretender(outcome), 9, jobs)
