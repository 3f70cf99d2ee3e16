"""What a bisection does with a build: make its environment, run cases in it, keep what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from repro.builds import Build, Spec, SpecKind
from repro.case import Case
from repro.errors import Unavailable
from repro.outcome import Run
from repro.results import Key, Results
from repro.runner import Request, refused, run_case, untestable
from repro.stopping import Stopped, stoppable
from repro.supply import Supply

Narrate = Callable[[str], None]


@dataclass(frozen=True)
class Way:
    """How cases are run, whatever the build.

    Args:
        gpus: names of the GPUs that cases may find; an outcome depends on them.
    """

    device: str | None = None
    backend: str | None = None
    timeout: float | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One build, and what is run in it.

    Args:
        runs: pairs of a case and the number of its run.
        likely: whether it is to be run, and not only installed in case it is needed.
        soon: whether it may be needed next, so that it is worth an installation ahead.
    """

    position: int
    runs: tuple[tuple[Case, int], ...]
    likely: bool = True
    soon: bool = True


@dataclass(frozen=True)
class Made:
    """A run that a task made.

    Args:
        probed: whether the case was really run: in a build that cannot be had it is not.
    """

    case: Case
    position: int
    number: int
    run: Run
    probed: bool


class Doer(Protocol):
    """What does the work of a bisection. `Worker` is the one in use and says what each is."""

    @property
    def installs(self) -> int: ...  # noqa: D102

    def is_installed(self, position: int) -> bool: ...  # noqa: D102

    def size(self, position: int) -> int | None: ...  # noqa: D102

    def note(self, line: str) -> None: ...  # noqa: D102

    def recalled(self, case: Case, position: int, number: int) -> Run | None: ...  # noqa: D102

    def install(self, task: Task, narrate: Narrate) -> list[Made]: ...  # noqa: D102

    def probe(self, task: Task, narrate: Narrate, unwanted: Event) -> list[Made]: ...  # noqa: D102


class Worker:
    """Does the work of a bisection; its methods may be called in any thread.

    Args:
        builds: a position is a place in it.
    """

    def __init__(
        self, builds: tuple[Build, ...], way: Way, supply: Supply, results: Results
    ) -> None:
        self._builds = builds
        self._way = way
        self._supply = supply
        self._results = results

    @property
    def installs(self) -> int:
        """How many environments were made."""
        return self._supply.store.installs

    def size(self, position: int) -> int | None:
        """Bytes of a build's wheel, None where they cannot be told."""
        return self._supply.size(self._builds[position])

    def note(self, line: str) -> None:
        """Say what the user must know."""
        self._supply.say(line)

    def is_installed(self, position: int) -> bool:
        """Whether there is an environment of a build; a look at the disk."""
        return self._supply.store.folder(self._builds[position]).exists()

    def recalled(self, case: Case, position: int, number: int) -> Run | None:
        """A run that was made earlier, or that need not be made: the case refuses the build."""
        request = self._request(case, position, number)
        version = str(self._builds[position].version)
        if not case.admits(version):
            return refused(request, version)
        return self._results.find(self._key(request, position))

    def install(self, task: Task, narrate: Narrate) -> list[Made]:
        """Make the environment of a build; where it cannot be had, that is the task's outcome."""
        try:
            with self._supply.use(self._builds[task.position], narrate):
                return []
        except Unavailable as error:
            return self._not_probed(task.position, task.runs, error)

    def probe(self, task: Task, narrate: Narrate, unwanted: Event) -> list[Made]:
        """Run a task in its environment.

        Args:
            unwanted: once it is set, the task ends with what it has.
        """
        build = self._builds[task.position]
        made: list[Made] = []
        try:
            with stoppable(unwanted), self._supply.use(build, narrate) as environment:
                for case, number in task.runs:
                    request = self._request(case, task.position, number)
                    narrate(f"running {case.name} in torch {build.version}")
                    run = run_case(request, environment, narrate)
                    self._results.keep(self._key(request, task.position), run)
                    made.append(Made(case, task.position, number, run, probed=True))
        except Unavailable as error:
            made += self._not_probed(task.position, task.runs[len(made) :], error)
        except Stopped:
            if not unwanted.is_set():
                raise
        return made

    def _not_probed(
        self, position: int, runs: tuple[tuple[Case, int], ...], error: Unavailable
    ) -> list[Made]:
        reason = f"torch {self._builds[position].version}: {error}"
        made: list[Made] = []
        for case, number in runs:
            request = self._request(case, position, number)
            run = untestable(request, "install", reason, error.hint, error.log)
            made.append(Made(case, position, number, run, probed=False))
        return made

    def _request(self, case: Case, position: int, number: int) -> Request:
        way, version = self._way, str(self._builds[position].version)
        spec = Spec(version, SpecKind.RELEASE, version)
        return Request(case, spec, way.device, way.backend, way.timeout, number)

    def _key(self, request: Request, position: int) -> Key:
        name = self._supply.store.folder(self._builds[position]).name
        return Key(request, name, self._way.gpus)
