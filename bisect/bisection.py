"""Search and runner together: every build that breaks or fixes each case, all cases in one pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from repro.bisect.candidates import Range
from repro.bisect.knowledge import AGAIN, CONFIRMED, Assumed, Knowledge
from repro.bisect.labels import Match
from repro.bisect.search import ask, steps_left
from repro.bisect.sharing import wanted
from repro.bisect.work import Doer, Made, Narrate, Task
from repro.builds import Build
from repro.case import Case
from repro.report.timeline_words import LOOKING, of_the_ends
from repro.stopping import stopped
from repro.timeline import Bisection, Plan

# How many builds are looked at for what to install next: one that is needed, and what may follow.
AHEAD = 3
# For how many seconds the loop sleeps at most.
SLICE = 0.2


@dataclass(frozen=True)
class Question:
    """What a bisection is asked.

    Args:
        good, bad: the ends, resolved.
        jobs: probes at once.
        repeat: runs of each probe; a build passes if all of them do.
    """

    cases: tuple[Case, ...]
    good: Build
    bad: Build
    match: Match = Match.STAGE
    repeat: int = 1
    jobs: int = 1
    max_skips: int | None = None


@dataclass
class Probing:
    """A task that is being run.

    Args:
        unwanted: is set where its answer is of no use any more.
        began: when, on the monotonic clock.
    """

    task: Task
    unwanted: Event = field(default_factory=Event)
    began: float = field(default_factory=time.monotonic)


class Bisector:
    """One bisection.

    Builds go through two stages, each in the order of worth: installed, and probed, `jobs` at once.
    What the search needs for certain waits for nothing that it only may need.

    Args:
        narrate: is told what is being done, and how many steps are left.
    """

    def __init__(
        self,
        question: Question,
        builds: Range,
        worker: Doer,
        narrate: Narrate,
    ) -> None:
        self._question = question
        self._builds = builds.builds
        self._worker = worker
        self._narrate = narrate
        self._probes = 0
        # Positions of which an installation was begun; each is begun once. Who probes a build that
        # was removed again meanwhile installs it anew.
        self._begun: set[int] = set()
        self._probing: dict[Future[list[Made]], Probing] = {}
        self._installing: dict[Future[list[Made]], int] = {}
        self._unsaid: str | None = None
        self._known = {
            case.name: Knowledge(
                case.name, builds, question.match, question.repeat, question.max_skips
            )
            for case in question.cases
        }
        self._recall()

    def plan(self) -> Plan:
        """What is left to do if one thing changes for each case."""
        steps = [steps_left(known.history) for known in self._all()]
        left = sorted(set().union(*(known.asked for known in self._all())))
        missing = [position for position in left if not self._worker.is_installed(position)]
        # Wheels of one index differ little in size, so one stands for all.
        middle = missing[len(missing) // 2 : len(missing) // 2 + 1]
        return Plan(
            oldest=str(self._builds[0].version),
            newest=str(self._builds[-1].version),
            nightlies=sum(build.is_nightly for build in self._builds),
            releases=sum(not build.is_nightly for build in self._builds),
            cases=len(self._known),
            steps=(max(steps), min(sum(steps), len(left))),
            missing=len(missing),
            wheel=next((self._worker.size(position) for position in middle), None),
        )

    # --- the loop -------------------------------------------------------------------------------

    def run(self) -> Bisection:
        """Ask until nothing is left to ask. Ctrl-C ends it with what is known so far."""
        began = time.monotonic()
        interrupted = False
        jobs = self._question.jobs
        with _threads(jobs, "probe") as probing, _threads(4 * jobs, "install") as installing:
            try:
                self._loop(probing, installing)
            except KeyboardInterrupt:
                interrupted = True
        return Bisection(
            good=str(self._question.good.version),
            bad=str(self._question.bad.version),
            timelines=tuple(known.timeline(not interrupted) for known in self._all()),
            probes=self._probes,
            installs=self._worker.installs,
            seconds=time.monotonic() - began,
            interrupted=interrupted,
        )

    def _loop(self, probing: ThreadPoolExecutor, installing: ThreadPoolExecutor) -> None:
        untold = self._untold_ends()
        while tasks := self._tasks():
            self._stop_useless()
            for task in self._to_probe(tasks):
                begun = Probing(task)
                future = probing.submit(self._worker.probe, task, self._say, begun.unwanted)
                self._probing[future] = begun
            for task in self._to_install(tasks):
                self._begun.add(task.position)
                future = installing.submit(self._worker.install, task, self._say_of_install)
                self._installing[future] = task.position
            self._say_unsaid()
            # In slices, so that Ctrl-C is seen, and which probe takes longer than another did.
            running = [*self._probing, *self._installing]
            done, _ = wait(running, timeout=SLICE, return_when=FIRST_COMPLETED)
            for future in done:
                self._probing.pop(future, None)
                self._installing.pop(future, None)
                for made in future.result():
                    self._probes += made.probed
                    self._known[made.case.name].learn(made.position, made.number, made.run)
            still = self._untold_ends()
            for known in [known for case, known in untold.items() if case not in still]:
                self._tell_of(known)
            untold = still

    # --- what to do -----------------------------------------------------------------------------

    def _all(self) -> list[Knowledge]:
        return list(self._known.values())

    def _tasks(self) -> list[Task]:
        """What is worth doing, the most first: what is needed, what is likely needed next, and
        what else may be; or repeats, if there is nothing else.
        """
        made: dict[int, list[tuple[Case, int]]] = {}
        count = max(AHEAD, self._question.jobs + 1)
        needed = self._needed()
        possible = wanted([known.history for known in self._all()], count)
        assumed = [known.assuming(self._elapsed(known)) for known in self._all()]
        likely = wanted([each.history for each in assumed if each.sure], count)
        soon = self._soon(wanted([each.history for each in assumed], count), assumed)
        first = [*(position for position in possible if position in needed), *sorted(needed)]
        for position in dict.fromkeys((*first, *likely, *soon, *possible)):
            made[position] = [
                (self._case(known), number)
                for known in self._all()
                for number in known.to_probe(position) or known.to_confirm().get(position, [])
            ]
        if not made:
            # Numbers of repeats follow from what is there, so they are given out batch by batch.
            running = [begun.task for begun in self._probing.values() if _repeats(begun.task)]
            if running:
                return running
            for known in self._all():
                for position, number in known.to_repeat(self._question.jobs).items():
                    made.setdefault(position, []).append((self._case(known), number))
                    likely.append(position)
        return [
            Task(
                position,
                tuple(runs),
                likely=position in needed or position in likely,
                soon=position in needed or position in soon,
            )
            for position, runs in made.items()
        ]

    def _soon(self, positions: list[int], assumed: list[Assumed]) -> list[int]:
        """What is worth an installation ahead: the one that follows from what is assumed, or, where
        nothing is, what follows from either outcome.
        """
        free = [position for position in positions if position not in self._busy]
        guessed = any(
            each.history is not known.history
            for each, known in zip(assumed, self._all(), strict=True)
        )
        return free[: max(1, self._question.jobs - len(self._busy))] if guessed else free

    def _first(self, known: Knowledge) -> set[int]:
        """Positions that a case's search looks at first: those at which it does, else the next."""
        return self._busy & known.asked or set(ask(known.history))

    def _elapsed(self, known: Knowledge) -> dict[int, float]:
        """For how long each of these positions is being probed, in seconds."""
        now = time.monotonic()
        began = {begun.task.position: begun.began for begun in self._probing.values()}
        return {position: now - began.get(position, now) for position in self._first(known)}

    def _needed(self) -> set[int]:
        """Positions that are looked at whatever else is told."""
        return set().union(
            *(self._first(known) for known in self._all()),
            *(known.to_confirm() for known in self._all()),
        )

    def _to_install(self, tasks: list[Task]) -> list[Task]:
        """Builds of which an environment is to be made now; those that are needed come first.

        With one case a build that may be needed next is installed in vain half of the times, which
        costs less than to wait for it. With several there is one that is certain.
        """
        most = max(1, self._question.jobs - len(self._probing))
        needed = self._needed()
        several = sum(known.is_open for known in self._all()) > 1
        installing = set(self._installing.values())
        chosen: list[Task] = []
        for task in tasks:
            position = task.position
            rivals = installing & needed if position in needed else installing
            if (
                len(rivals) + len(chosen) < most
                and (position in needed or (task.soon and not several))
                and position not in self._begun | self._busy
                and not self._worker.is_installed(position)
            ):
                chosen.append(task)
        return chosen

    def _to_probe(self, tasks: list[Task]) -> list[Task]:
        """Tasks to begin now: of the likely ones with the most worth, those that are installed."""
        installing = set(self._installing.values())
        ready = [
            task
            for task in tasks[: self._question.jobs]
            if task.likely
            and task.position not in self._busy | installing
            and (task.position in self._begun or self._worker.is_installed(task.position))
        ]
        return ready[: self._question.jobs - len(self._probing)]

    def _stop_useless(self) -> None:
        """End probes whose answer the search does not need any more."""
        useful = self._needed().union(*(known.asked for known in self._all()))
        for begun in self._probing.values():
            if begun.task.position not in useful and not _repeats(begun.task):
                begun.unwanted.set()

    @property
    def _busy(self) -> set[int]:
        """Positions at which a task runs."""
        return {begun.task.position for begun in self._probing.values()}

    def _case(self, known: Knowledge) -> Case:
        return next(case for case in self._question.cases if case.name == known.case)

    def _recall(self) -> None:
        """Take in everything that is known from earlier."""
        usual = range(1, max(CONFIRMED, self._question.repeat) + 1)
        for case in self._question.cases:
            for position, build in enumerate(self._builds):
                for number in usual:
                    self._recalled(case, position, number)
                number = AGAIN + 1
                while case.admits(str(build.version)) and self._recalled(case, position, number):
                    number += 1

    def _recalled(self, case: Case, position: int, number: int) -> bool:
        found = self._worker.recalled(case, position, number)
        if found is not None:
            self._known[case.name].learn(position, number, found)
        return found is not None

    # --- saying it ------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        left = max(steps_left(known.history) for known in self._all())
        self._narrate(f"{line}, at most {left} builds left" if left else line)

    def _say_of_install(self, line: str) -> None:
        """Say what an installation does, but only once no probe says what it does."""
        self._unsaid = line
        if not self._probing:
            self._say_unsaid()

    def _say_unsaid(self) -> None:
        if self._unsaid is not None and self._installing and not self._probing:
            self._say(self._unsaid)
            self._unsaid = None

    def _untold_ends(self) -> dict[str, Knowledge]:
        """The cases of which an end is not known yet."""
        ends = 0, len(self._builds) - 1
        return {k.case: k for k in self._all() if any(k.point(end) is None for end in ends)}

    def _tell_of(self, known: Knowledge) -> None:
        """Say, before the search goes on, where the ends are not what they were said to be."""
        sentence = of_the_ends(known.timeline(), str(self._question.good.version))
        if sentence is not None:
            self._worker.note(f"{sentence}; {LOOKING}" if known.is_open else sentence)


def _repeats(task: Task) -> bool:
    """Whether a task runs a flaky case again, of which the search is not told."""
    return all(number > AGAIN for _, number in task.runs)


@contextmanager
def _threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Threads whose processes are ended when the context is left, however that is."""
    pool = ThreadPoolExecutor(count, name)
    try:
        yield pool
    finally:
        with stopped():
            pool.shutdown(wait=True, cancel_futures=True)
