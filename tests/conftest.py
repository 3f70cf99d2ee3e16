"""What the tests share: the torch of this interpreter, and environments of real releases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
PLANTED = ROOT / "tests" / "planted"


@dataclass(frozen=True)
class Printed:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs of `repro run --json`."""
        envelope = json.loads(self.out)
        assert envelope["schema"] == "repro.run/1"
        return list(envelope["runs"])


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie, which only waits to be counted by its parent, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


Repro = Callable[..., Printed]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of this test session: environments are made anew, uv's own cache is the user's."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def repro(cache: Path) -> Repro:
    """Calls the command as a user does, in a process of its own."""

    def call(*arguments: str | Path, folder: Path = ROOT, **variables: str) -> Printed:
        done = subprocess.run(
            [sys.executable, "-m", "repro", *map(str, arguments)],
            cwd=folder,
            env=os.environ | {"REPRO_CACHE_DIR": str(cache)} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return Printed(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the user's cache."""
    monkeypatch.setenv("REPRO_CACHE_DIR", str(cache))
