"""Outcomes on disk, by what produced them, so that nothing that is known is run again.

What an outcome depends on is in its key: the case's source, the build, the Python, the device, the
options, and this package's own code. Running a command again is then the way to go on with it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from repro.outcome import How, Kind, Run
from repro.runner import Request


@dataclass(frozen=True)
class Key:
    """What an outcome depends on.

    Args:
        environment: the name of the build's environment, which tells wheel and Python apart.
        gpus: names of the GPUs that a case may find.
    """

    request: Request
    environment: str
    gpus: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The key as a name of a file."""
        request = self.request
        parts = [
            _own_code(),
            request.case.name,
            request.case.source,
            request.device,
            request.used_backend,
            request.limit,
            request.repeat,
            self.environment,
            self.gpus,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@functools.cache
def _own_code() -> str:
    """What tells the code that runs and judges cases from any other state of it."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted((*here.glob("*.py"), *here.glob("classify/*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def worth_keeping(run: Run) -> bool:
    """Whether a run says something about the build, and not about this machine at this moment."""
    return run.outcome.kind is not Kind.UNTESTABLE and run.outcome.how is not How.TIMEOUT


class Results:
    """Runs below a folder.

    Args:
        fresh: find nothing of what was there before.
    """

    def __init__(self, folder: Path, fresh: bool = False) -> None:
        self._folder = folder
        self._fresh = fresh
        self._mine: set[str] = set()

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / f"{digest}.json"

    def find(self, key: Key) -> Run | None:
        """The run of a key, None where there is none, or none that can be read."""
        from cattrs import BaseValidationError, structure

        digest = key.digest
        if self._fresh and digest not in self._mine:
            return None
        try:
            stored = json.loads(self._path(digest).read_text(encoding="utf-8"))
            return structure(stored, Run)
        except (OSError, ValueError, BaseValidationError):
            return None

    def keep(self, key: Key, run: Run) -> None:
        """Keep a run; on a full disk it is run again the next time."""
        from cattrs import unstructure

        if not worth_keeping(run):
            return
        digest = key.digest
        self._mine.add(digest)
        path = self._path(digest)
        aside = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(unstructure(run)), encoding="utf-8")
            os.replace(aside, path)
