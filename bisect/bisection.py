"""Search and runner together: every build that breaks or fixes each case, all cases in one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from repro.bisect.candidates import Range
from repro.bisect.knowledge import AGAIN, CONFIRMED, Knowledge
from repro.bisect.labels import Match
from repro.bisect.search import steps_left
from repro.bisect.sharing import certain, wanted
from repro.builds import Build, Spec, SpecKind
from repro.case import Case
from repro.errors import Unavailable
from repro.outcome import Run
from repro.report.timeline_words import LOOKING, of_the_ends
from repro.results import Key, Results
from repro.runner import Request, refused, run_case, untestable
from repro.stopping import Stopped, stopped
from repro.supply import Supply
from repro.timeline import Bisection, Plan

Narrate = Callable[[str], None]


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
    device: str | None = None
    backend: str | None = None
    timeout: float | None = None
    repeat: int = 1
    jobs: int = 1
    max_skips: int | None = None


@dataclass(frozen=True)
class Task:
    """One build, and what is run in it: pairs of a case and the number of its run."""

    position: int
    runs: tuple[tuple[Case, int], ...]


@dataclass(frozen=True)
class Made:
    """A run that a task made."""

    case: Case
    position: int
    number: int
    run: Run


class Bisector:
    """One bisection.

    Args:
        gpus: names of the GPUs that cases may find; an outcome depends on them.
        narrate: is told what is being done, and how many steps are left.
    """

    def __init__(
        self,
        question: Question,
        builds: Range,
        supply: Supply,
        results: Results,
        gpus: tuple[str, ...],
        narrate: Narrate,
    ) -> None:
        self._question = question
        self._builds = builds.builds
        self._supply = supply
        self._results = results
        self._gpus = gpus
        self._narrate = narrate
        self._probes = 0
        self._prepared: set[int] = set()
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
        missing = [self._builds[position] for position in left if not self._is_there(position)]
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
            wheel=next((self._supply.size(build) for build in middle), None),
        )

    # --- the loop -------------------------------------------------------------------------------

    def run(self) -> Bisection:
        """Ask until nothing is left to ask. Ctrl-C ends it with what is known so far."""
        began = time.monotonic()
        interrupted = False
        with _threads(self._question.jobs, "probe") as pool, _threads(1, "install") as ahead:
            try:
                self._loop(pool, ahead)
            except KeyboardInterrupt:
                interrupted = True
        return Bisection(
            good=str(self._question.good.version),
            bad=str(self._question.bad.version),
            timelines=tuple(known.timeline(not interrupted) for known in self._all()),
            probes=self._probes,
            installs=self._supply.store.installs,
            seconds=time.monotonic() - began,
            interrupted=interrupted,
        )

    def _loop(self, pool: ThreadPoolExecutor, ahead: ThreadPoolExecutor) -> None:
        running: dict[Future[list[Made]], Task] = {}
        installing: Future[None] | None = None
        untold = self._untold_ends()
        while True:
            busy = {task.position for task in running.values()}
            for task in self._tasks(busy, self._question.jobs - len(running)):
                running[pool.submit(self._work, task)] = task
            if not running:
                return
            if installing is None or installing.done():
                installing = self._install_ahead(ahead, {t.position for t in running.values()})
            # In slices, so that Ctrl-C is seen.
            done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                del running[future]
                for made in future.result():
                    self._known[made.case.name].learn(made.position, made.number, made.run)
            still = self._untold_ends()
            for known in [known for case, known in untold.items() if case not in still]:
                self._tell_of(known)
            untold = still

    def _install_ahead(self, ahead: ThreadPoolExecutor, running: set[int]) -> Future[None] | None:
        """Make an environment that is needed next, while probes run.

        With one case it is half of the times in vain, which costs less than to wait for it. With
        several there is one that is needed for certain. Each is tried once: whoever probes a build
        that cannot be had meets the fault again, and says it.
        """
        histories = [known.history for known in self._all() if known.is_open]
        needed = certain(histories)
        for position in wanted(histories, len(running) + 2):
            worth = len(histories) == 1 or position in needed
            fresh = position not in running | self._prepared and not self._is_there(position)
            if worth and fresh:
                self._prepared.add(position)
                return ahead.submit(self._prepare, self._builds[position])
        return None

    def _prepare(self, build: Build) -> None:
        try:
            with self._supply.use(build, lambda line: None):
                return
        except (Unavailable, Stopped):
            return

    # --- what to do -----------------------------------------------------------------------------

    def _all(self) -> list[Knowledge]:
        return list(self._known.values())

    def _is_there(self, position: int) -> bool:
        return self._supply.store.folder(self._builds[position]).exists()

    def _tasks(self, busy: set[int], count: int) -> list[Task]:
        """What to run now: what the search asks, else what confirms its answer, else repeats."""
        made: dict[int, list[tuple[Case, int]]] = {}
        for position in wanted([known.history for known in self._all()], count + len(busy)):
            made[position] = [
                (self._case(known), number)
                for known in self._all()
                for number in known.to_probe(position)
            ]
        for known in self._all():
            for position, numbers in known.to_confirm().items():
                runs = made.setdefault(position, [])
                runs += [(self._case(known), number) for number in numbers]
        # Numbers of repeats follow from what is there, so they are given out batch by batch.
        if not made and not busy:
            for known in self._all():
                for position, number in known.to_repeat(count).items():
                    made.setdefault(position, []).append((self._case(known), number))
        idle = {position: runs for position, runs in made.items() if position not in busy and runs}
        return [Task(position, tuple(runs)) for position, runs in idle.items()][:count]

    def _case(self, known: Knowledge) -> Case:
        return next(case for case in self._question.cases if case.name == known.case)

    # --- doing it -------------------------------------------------------------------------------

    def _request(self, case: Case, position: int, number: int) -> Request:
        question = self._question
        version = str(self._builds[position].version)
        spec = Spec(version, SpecKind.RELEASE, version)
        return Request(case, spec, question.device, question.backend, question.timeout, number)

    def _key(self, request: Request, position: int) -> Key:
        name = self._supply.store.folder(self._builds[position]).name
        return Key(request, name, self._gpus)

    def _recall(self) -> None:
        """Read everything that is known from earlier."""
        usual = range(1, max(CONFIRMED, self._question.repeat) + 1)
        for case in self._question.cases:
            for position, build in enumerate(self._builds):
                if not case.admits(str(build.version)):
                    run = refused(self._request(case, position, 1), str(build.version))
                    for number in usual:
                        self._known[case.name].learn(position, number, run)
                    continue
                for number in usual:
                    self._recalled(case, position, number)
                number = AGAIN + 1
                while self._recalled(case, position, number):
                    number += 1

    def _recalled(self, case: Case, position: int, number: int) -> bool:
        request = self._request(case, position, number)
        found = self._results.find(self._key(request, position))
        if found is not None:
            self._known[case.name].learn(position, number, found)
        return found is not None

    def _work(self, task: Task) -> list[Made]:
        """Run a task in its environment. What cannot be made gives untestable runs."""
        build = self._builds[task.position]
        made: list[Made] = []
        try:
            with self._supply.use(build, self._say) as environment:
                for case, number in task.runs:
                    request = self._request(case, task.position, number)
                    self._say(f"running {case.name} in torch {build.version}")
                    run = run_case(request, environment, self._say)
                    self._probes += 1
                    self._results.keep(self._key(request, task.position), run)
                    made.append(Made(case, task.position, number, run))
        except Unavailable as error:
            reason = f"torch {build.version}: {error}"
            for case, number in task.runs[len(made) :]:
                request = self._request(case, task.position, number)
                run = untestable(request, "install", reason, error.hint, error.log)
                made.append(Made(case, task.position, number, run))
        return made

    # --- saying it ------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        left = max(steps_left(known.history) for known in self._all())
        self._narrate(f"{line}, at most {left} builds left" if left else line)

    def _untold_ends(self) -> dict[str, Knowledge]:
        """The cases of which an end is not known yet."""
        ends = 0, len(self._builds) - 1
        return {k.case: k for k in self._all() if any(k.point(end) is None for end in ends)}

    def _tell_of(self, known: Knowledge) -> None:
        """Say, before the search goes on, where the ends are not what they were said to be."""
        sentence = of_the_ends(known.timeline(), str(self._question.good.version))
        if sentence is not None:
            self._supply.say(f"{sentence}; {LOOKING}" if known.is_open else sentence)


@contextmanager
def _threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Threads whose processes are ended when the context is left, however that is."""
    pool = ThreadPoolExecutor(count, name)
    try:
        yield pool
    finally:
        with stopped():
            pool.shutdown(wait=True, cancel_futures=True)
