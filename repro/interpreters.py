"""The Python that runs a build: found, and asked what it is."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags

from repro import uv
from repro.errors import ReproError, Unavailable
from repro.process import run

ASK_LIMIT = 60.0
_ASK = """\
import json, sys, sysconfig
print(json.dumps([sys.implementation.name, sys.version_info[:2], sys.version.split()[0],
                  bool(sysconfig.get_config_var("Py_GIL_DISABLED")), sys.base_prefix]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that environments are made of.

    Args:
        executable: its path.
        version: `(3, 12)`.
        full: `3.12.1`.
        free_threaded: whether it was built without the GIL, which needs wheels of its own.
        base: where it lies; environments point into it.
    """

    executable: Path
    version: tuple[int, int]
    full: str
    free_threaded: bool
    base: str

    @property
    def name(self) -> str:
        """Tells interpreters apart in folder names: version and place."""
        where = hashlib.sha256(str(Path(self.base).resolve()).encode()).hexdigest()[:8]
        return f"py{self.version[0]}.{self.version[1]}{'t' * self.free_threaded}-{where}"

    @property
    def cache_tag(self) -> str:
        """What it names bytecode by, as its `sys.implementation.cache_tag`: `cpython-312`."""
        return f"cpython-{self.version[0]}{self.version[1]}"

    def tags(self) -> dict[Tag, int]:
        """The wheel tags that it takes on this platform, the best first, with their places."""
        major, minor = self.version
        abi = f"cp{major}{minor}{'t' * self.free_threaded}"
        return {tag: place for place, tag in enumerate(_tags(self.version, abi))}


def _tags(version: tuple[int, int], abi: str) -> Iterator[Tag]:
    platforms = list(platform_tags())
    yield from cpython_tags(version, [abi], platforms)
    yield from compatible_tags(version, f"cp{version[0]}{version[1]}", platforms)


def executable_in(path: Path) -> Path:
    """The Python executable that a path names: itself, or that of a virtual environment.

    Raises:
        ReproError: there is none.
    """
    hint = "name a Python executable or a virtual environment"
    # os.path says no to a name that is too long; Path.exists raises.
    if not os.path.exists(path):
        raise ReproError(f"{path}: no such file", hint)
    if path.is_dir():
        found = path / "bin" / "python"
        if not found.exists():
            raise ReproError(f"{path}: a folder without bin/python is no virtual environment", hint)
        return found.absolute()
    if not os.access(path, os.X_OK):
        raise ReproError(f"{path}: not executable, so no Python", hint)
    return path.absolute()


def find_interpreter(request: str | None) -> Interpreter:
    """The Python that is asked for: a version (`3.12`) or a path; None is the one that runs us.

    A version is looked for by uv: its own Pythons, then PATH. Nothing is downloaded.

    Raises:
        ReproError: there is none such.
    """
    if request is None:
        return _asked(Path(sys.executable))
    if "/" in request or request.startswith("~"):
        try:
            path = Path(request).expanduser()
        except RuntimeError:
            raise ReproError(f"{request}: no such home folder", "name the whole path") from None
        return _asked(executable_in(path))
    if request.startswith("-"):
        raise ReproError(f"--python {request}: this is no Python", "name a version or a path")
    try:
        ended = uv.call(["python", "find", request], Path(tempfile.gettempdir()), ASK_LIMIT)
    except Unavailable as error:
        raise ReproError(
            f"--python {request}: {error}",
            f"name the path of a Python, or get one: `uv python install {request}`",
        ) from None
    return _asked(Path(ended.stdout.text.strip()))


@functools.cache
def _asked(executable: Path) -> Interpreter:
    try:
        ended = run(
            [executable, "-I", "-c", _ASK],
            environment=os.environ,
            folder=Path("/"),
            timeout=ASK_LIMIT,
        )
        name, version, full, free_threaded, base = json.loads(ended.stdout.text)
    except (OSError, ValueError, TypeError):
        raise ReproError(f"{executable}: this is no working Python", "name another") from None
    if name != "cpython":
        raise ReproError(f"{executable}: torch has wheels for CPython, not for {name}")
    return Interpreter(executable, (version[0], version[1]), full, free_threaded, base)
