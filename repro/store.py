"""Environments on disk, each with exactly one build: whole or absent, checked before use."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

from repro import uv
from repro.errors import ReproError

RECORD = "repro.json"
# What torch needs to compile and does not always declare: inductor imports setuptools when it
# builds C++ (up to 2.9), and numpy is wanted by many paths. Without them an environment made by
# uv would fail in a way that says nothing about the build.
COMPANIONS = ("setuptools", "numpy")


@dataclass(frozen=True)
class Environment:
    """A Python that has the build in it.

    Args:
        python: its executable.
        version: the torch that is in it, as its `torch/version.py` says; None for an interpreter
            that is not ours and was not looked into.
        git_version: the commit it was built from.
    """

    python: Path
    version: str | None = None
    git_version: str | None = None


def cache_folder() -> Path:
    """Where environments are kept: `REPRO_CACHE_DIR`, else the user's cache folder."""
    chosen = os.environ.get("REPRO_CACHE_DIR")
    return Path(chosen) if chosen else platformdirs.user_cache_path("torch-compile-repro")


def interpreter(path: Path) -> Path:
    """The Python executable that a path names: itself, or that of a virtual environment.

    Raises:
        ReproError: there is none.
    """
    if not path.exists():
        raise ReproError(f"{path}: no such file", "name a Python executable or an environment")
    if path.is_dir():
        found = path / "bin" / "python"
        if not found.exists():
            raise ReproError(f"{path}: a folder without bin/python is no virtual environment")
        return found.absolute()
    if not os.access(path, os.X_OK):
        raise ReproError(f"{path}: not executable, so no Python")
    return path.absolute()


def read_version(version_file: Path) -> tuple[str, str | None]:
    """Version and commit out of a `torch/version.py`, which is read as text, not run.

    Raises:
        OSError: it cannot be read.
        ValueError: it states no version.
    """
    text = version_file.read_text(encoding="utf-8")
    version = re.search(r"^__version__(?:\s*:\s*\w+)?\s*=\s*['\"](.+?)['\"]", text, re.MULTILINE)
    commit = re.search(r"^git_version(?:\s*:[^=]+)?\s*=\s*['\"](.+?)['\"]", text, re.MULTILINE)
    if version is None:
        raise ValueError(f"{version_file}: no __version__")
    return version[1], commit[1] if commit else None


class Store:
    """The environments below one folder.

    Args:
        root: the folder; made when it is first needed.
        base: the interpreter that environments are made of.
    """

    def __init__(self, root: Path, base: Path | None = None) -> None:
        self.root = root
        self.base = base or Path(sys.executable)

    @property
    def _tag(self) -> str:
        """Tells interpreters apart: version, and where it lies (an environment points into it)."""
        where = hashlib.sha256(str(Path(sys.base_prefix).resolve()).encode()).hexdigest()[:8]
        return f"py{sysconfig.get_python_version()}-{where}"

    def folder(self, version: str) -> Path:
        """Where the environment of a version is, or will be."""
        return self.root / "environments" / f"torch-{version}-{self._tag}"

    def find(self, version: str) -> Environment | None:
        """The finished environment of a version, None where there is none or it was broken."""
        folder = self.folder(version)
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            there = read_version(folder / record["version_file"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        python = folder / "bin" / "python"
        if there != (record["version"], record["git_version"]) or not python.exists():
            return None
        return Environment(python, record["version"], record["git_version"])

    def provide(
        self, version: str, narrate: Callable[[str], None] = lambda line: None
    ) -> Environment:
        """The environment of an exact version, made now where it is not there.

        Raises:
            repro.uv.InstallError: it could not be made, with the sentence that says why.
        """
        try:
            if found := self.find(version):
                return found
            locks = self.root / "locks"
            locks.mkdir(parents=True, exist_ok=True)
            with FileLock(locks / f"{self.folder(version).name}.lock"):
                return self.find(version) or self._make(version, narrate)
        except OSError as error:
            raise uv.InstallError(
                f"{error.filename or self.root}: {error.strerror or error}",
                "make room, or point REPRO_CACHE_DIR at a folder of yours",
                str(error),
            ) from error

    def _make(self, version: str, narrate: Callable[[str], None]) -> Environment:
        """Make it aside and rename it, so that it appears whole or not at all."""
        final = self.folder(version)
        final.parent.mkdir(parents=True, exist_ok=True)
        self._sweep(final)
        aside = final.parent / f".{final.name}.{uuid.uuid4().hex[:8]}"
        narrate(f"installing torch {version}")
        try:
            uv.call(["venv", "--quiet", "--relocatable", "--python", self.base, aside], self.root)
            python = aside / "bin" / "python"
            uv.call(
                ["pip", "install", "--python", python, f"torch=={version}", *COMPANIONS], self.root
            )
            environment = self._record(aside, version)
            os.rename(aside, final)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return Environment(final / "bin" / "python", environment.version, environment.git_version)

    def _sweep(self, final: Path) -> None:
        """Remove what a killed install or a broken environment left; the lock is held."""
        for leftover in final.parent.glob(f".{final.name}.*"):
            shutil.rmtree(leftover)
        if final.exists():
            shutil.rmtree(final)

    @staticmethod
    def _record(aside: Path, wanted: str) -> Environment:
        """Check that what was asked for is what is there, and write that down."""
        files = list(aside.glob("lib/python*/site-packages/torch/version.py"))
        if not files:
            raise uv.InstallError("the install brought no torch", "see the log", "")
        try:
            version, commit = read_version(files[0])
        except ValueError as error:
            raise uv.InstallError(str(error), "name another build", "") from error
        if version != wanted and version.partition("+")[0] != wanted:
            raise uv.InstallError(
                f"asked for torch {wanted}, but torch {version} was installed",
                "this is a fault of the index; name another build",
                "",
            )
        environment = Environment(aside / "bin" / "python", version, commit)
        record = asdict(environment) | {
            "python": "bin/python",
            "version_file": str(files[0].relative_to(aside)),
        }
        (aside / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
        return environment
