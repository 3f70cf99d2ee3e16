"""Cases by builds: provide each environment, run each case in it."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from repro.builds import Spec, SpecKind, parse_spec
from repro.case import Case
from repro.errors import ReproError, Unavailable
from repro.interpreters import executable_in
from repro.outcome import Run
from repro.runner import Request, noted, refused, run_case, untestable
from repro.store import Environment
from repro.supply import Supply


@dataclass(frozen=True)
class Plan:
    """What `repro run` was asked for.

    Args:
        backends: each runs every case; empty keeps the cases' own.
        repeat: runs of each case in each build with each backend.
    """

    cases: Sequence[Case]
    specs: Sequence[Spec]
    backends: Sequence[str] = ()
    device: str | None = None
    timeout: float | None = None
    repeat: int = 1

    def requests(self, spec: Spec) -> list[Request]:
        """Everything that is run in one build."""
        return [
            Request(case, spec, self.device, backend, self.timeout, number)
            for case in self.cases
            for backend in (self.backends or (None,))
            for number in range(1, self.repeat + 1)
        ]

    @property
    def size(self) -> int:
        """How many runs that is."""
        return sum(len(self.requests(spec)) for spec in self.specs)


def default_specs() -> list[Spec]:
    """`current` where this interpreter has torch (looked for, not imported), else `latest`."""
    return [parse_spec("current" if importlib.util.find_spec("torch") else "latest")]


def check_spec(spec: Spec) -> Spec:
    """The same spec.

    Raises:
        ReproError: it names an interpreter or a wheel that is not there.
    """
    if spec.kind is SpecKind.PATH:
        executable_in(Path(spec.value))
    if spec.kind is SpecKind.WHEEL and not os.path.isfile(spec.value):
        raise ReproError(f"{spec.value}: no such file", "name a wheel that is there")
    return spec


def run_build(
    plan: Plan, spec: Spec, supply: Supply, narrate: Callable[[str], None]
) -> Iterator[Run]:
    """Run everything that one build is asked for. What cannot be made gives untestable runs."""
    requests = plan.requests(spec)
    if spec.is_interpreter:
        current = spec.kind is SpecKind.CURRENT
        python = Path(sys.executable) if current else executable_in(Path(spec.value))
        yield from _run_all(requests, Environment(python), narrate, install=None)
        return
    began = time.monotonic()
    with ExitStack() as held:
        try:
            narrate(f"resolving torch {spec.text}")
            choice = supply.resolve(spec)
            version = str(choice.build.version)
            possible = [request for request in requests if request.case.admits(version)]
            yield from (refused(item, version) for item in requests if item not in possible)
            if not possible:
                return
            environment = held.enter_context(supply.use(choice.build, narrate))
        except Unavailable as error:
            yield from (
                untestable(item, "install", str(error), error.hint, error.log) for item in requests
            )
            return
        install = time.monotonic() - began
        for made in _run_all(possible, environment, narrate, install):
            yield noted(made, choice.note)


def _run_all(
    requests: Sequence[Request],
    environment: Environment,
    narrate: Callable[[str], None],
    install: float | None,
) -> Iterator[Run]:
    """The first run of a build carries the seconds that its environment took."""
    for request in requests:
        again = f", run {request.repeat}" if request.repeat > 1 else ""
        narrate(f"running {request.case.name} in torch {request.spec.text}{again}")
        made = run_case(request, environment, narrate)
        if install is not None:
            total = (made.seconds.total or 0.0) + install
            made = replace(made, seconds=replace(made.seconds, install=install, total=total))
            install = None
        yield made
