"""torch's bytecode, compiled while installing, so that the first import is as fast as the second.

It takes many seconds, so what was compiled is kept and linked into the next environment of the same
wheel and Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from repro.process import run

LIMIT = 1800.0
# Files that are compiled faster one after the other than by a pool that has to be started.
FEW = 20
# What torch's wheel brings, and the large packages that importing inductor brings in: without
# their bytecode the first import of 2.12.1 took 6.3 s and the second 3.5 s.
PACKAGES = ("torch", "torchgen", "functorch", "sympy", "mpmath", "numpy")
# They are many and nothing imports them.
LEFT_OUT = "tests"
# Sources that do not compile, with the time and size that they had: not tried again.
FAILED = "failed.json"
# Magic number, flags, and for flags 0 the source's time (seconds) and size, 32 bits each (PEP 552).
_HEADER = struct.Struct("<4s3I")


def compile_torch(python: Path, site: Path, kept: Path, holding: Sequence[int]) -> None:
    """Have every module of torch compiled, and of what its import mostly consists of.

    Args:
        python: of the environment.
        site: its `site-packages`.
        kept: where the bytecode of this wheel and Python is kept, and will be.
        holding: descriptors that the compiler keeps open.

    A module that does not compile (torch ships templates that are none) is left as it is.
    """
    linked = set(_link_all(site, kept))
    failed = _failed(kept)
    missing = [
        source
        for source in _sources(site)
        if source not in linked and failed.get(_below(site, source)) != _state(source)
    ]
    if not missing:
        return
    # -j 0, one worker a core, holds for folders only; what is compiled there already is skipped.
    # The mode is named because SOURCE_DATE_EPOCH would change the default.
    few = len(missing) <= FEW
    what = missing if few else [site / package for package in PACKAGES]
    options = ["-qq", "-x", f"/{LEFT_OUT}/", "--invalidation-mode", "timestamp"]
    if not few:
        options += ["-j", "0"]
    command = [python, "-I", "-m", "compileall", *options, *what]
    ended = run(command, environment=os.environ, folder=site, timeout=LIMIT, holding=holding)
    _keep(site, kept, linked)
    compiled = {_source_of(path) for package in PACKAGES for path in _files(site / package)}
    left = {_below(site, source): _state(source) for source in missing if source not in compiled}
    # It ends with 1 where some do not compile, and with something else where it broke off.
    if left and ended.exit_code == 1 and kept.is_dir():
        (kept / FAILED).write_text(json.dumps(failed | left), encoding="utf-8")


def _below(site: Path, path: str) -> str:
    return path.removeprefix(f"{site}/")


def _state(source: str) -> list[int]:
    stat = os.stat(source)
    return [stat.st_mtime_ns, stat.st_size]


def _failed(kept: Path) -> dict[str, list[int]]:
    try:
        stored = json.loads((kept / FAILED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _sources(site: Path) -> Iterator[str]:
    for package in PACKAGES:
        yield from (path for path in _files(site / package) if path.endswith(".py"))


def _files(folder: Path) -> Iterator[str]:
    """Every file below a folder but for tests. By os.walk, several times as fast as rglob."""
    for parent, folders, names in os.walk(folder):
        if LEFT_OUT in folders:
            folders.remove(LEFT_OUT)
        yield from (f"{parent}/{name}" for name in names)


def _source_of(compiled: str) -> str:
    """`torch/__pycache__/x.cpython-311.pyc` is of `torch/x.py`."""
    folder, _, name = compiled.rpartition("/__pycache__/")
    return f"{folder}/{name.partition('.')[0]}.py"


def _link_all(site: Path, kept: Path) -> Iterator[str]:
    """Link what was kept of exactly these sources; the sources that have their bytecode now."""
    made: set[str] = set()
    for compiled in _files(kept):
        target = f"{site}{compiled.removeprefix(str(kept))}"
        source = _source_of(target)
        if compiled.endswith(".pyc") and _is_of(compiled, source):
            folder = os.path.dirname(target)
            if folder not in made:
                os.makedirs(folder, exist_ok=True)
                made.add(folder)
            _link(compiled, target)
            yield source


def _is_of(compiled: str, source: str) -> bool:
    """Whether bytecode is of a source as it is now, by the rule by which Python takes it."""
    mask = 0xFFFFFFFF
    with contextlib.suppress(OSError, struct.error):
        stat = os.stat(source)
        with open(compiled, "rb") as file:
            _, flags, time, size = _HEADER.unpack(file.read(_HEADER.size))
        return (flags, time, size) == (0, int(stat.st_mtime) & mask, stat.st_size & mask)
    return False


def _keep(site: Path, kept: Path, linked: set[str]) -> None:
    """Keep what was compiled for the next environment of this wheel and Python."""
    for package in PACKAGES:
        for compiled in _files(site / package):
            if compiled.endswith(".pyc") and _source_of(compiled) not in linked:
                target = f"{kept}{compiled.removeprefix(str(site))}"
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _link(compiled, target)


def _link(source: str, target: str) -> None:
    """Give a file another name; a copy where the disk cannot. Never half a file."""
    try:
        try:
            os.link(source, target)
        except FileExistsError:
            os.unlink(target)
            os.link(source, target)
    except OSError:  # another disk, or one without hard links
        aside = f"{target}.{os.getpid()}"
        shutil.copy2(source, aside)
        os.replace(aside, target)
