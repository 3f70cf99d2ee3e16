"""What is there to run cases with, what each missing thing prevents, and how to mend it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from repro import uv
from repro.compilers import find_c_compiler, find_compiler, find_headers
from repro.errors import ReproError
from repro.findings import Finding, State, Thing
from repro.gpu import Absent, look_for_driver
from repro.hardware import find_cpu, find_memory, find_platform, in_gigabytes
from repro.interpreters import Interpreter
from repro.variants import Driver, variants_for

ASK_LIMIT = 20.0
# What an install takes: the libraries of a CUDA build alone are 4.5 GB and more.
CUDA_BUILD, CPU_BUILD = 8 * 10**9, 10**9
_NO_INSTALL = "No build can be installed: `--build current` and paths remain."
# The last two are what a missing uv raises, whoever called it.
_FAILURES = (ReproError, OSError, ImportError)


@dataclass(frozen=True)
class Cache:
    """Where environments are kept, as the caller knows it.

    Args:
        size: bytes that they take now.
        limit: bytes that they may take; None for no limit.
    """

    folder: Path
    size: int
    limit: int | None


@dataclass(frozen=True)
class Checks:
    """What to look at besides this process and machine.

    Args:
        interpreter: gives the Python that environments are made of, or raises ReproError.
        index: asks the default index and says what it has, or raises ReproError.
        pytorch_index: the same of the PyTorch index.
        cache: where environments are kept.

    Whatever is None is left out: a report wants no network and no disks.
    """

    interpreter: Callable[[], Interpreter]
    index: Callable[[], str] | None = None
    pytorch_index: Callable[[], str] | None = None
    cache: Cache | None = None


def collect(checks: Checks) -> tuple[Finding, ...]:
    """Look at everything, one thing after the other; nothing that is missing stops it."""
    return tuple(map(_printable, _all(checks)))


def _printable(finding: Finding) -> Finding:
    """Its value in one line that can be printed: a path may hold bytes that are no text."""
    value = finding.value.encode("utf-8", "backslashreplace").decode()
    return replace(finding, value=" ".join(value.splitlines()))


def _all(checks: Checks) -> Iterator[Finding]:
    yield from (find_platform(), find_cpu(), find_memory())
    yield Finding(Thing.PYTHON, State.OK, f"{platform.python_version()}, {sys.executable}")
    yield from _interpreter(checks.interpreter)
    yield _uv()
    yield _torch()
    yield find_compiler()
    yield from _gpu()
    if checks.index is not None:
        yield _index(Thing.INDEX, checks.index, "What torch needs cannot be fetched.")
    if checks.pytorch_index is not None:
        nightlies = "There are no nightlies and no choice of variants."
        yield _index(Thing.PYTORCH_INDEX, checks.pytorch_index, nightlies)
    if checks.cache is not None:
        yield _disk(checks.cache.folder)
        yield _cache(checks.cache)
        yield _links(checks.cache.folder)


def _missing(name: Thing, error: Exception, prevents: str, mend: str) -> Finding:
    """What an error says was not to be had, in one line."""
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    said = said.partition("\n")[0] or type(error).__name__
    return Finding(name, State.MISSING, said, prevents, mend)


def _hint(error: Exception, otherwise: str) -> str:
    return (error.hint if isinstance(error, ReproError) else None) or otherwise


def _interpreter(find: Callable[[], Interpreter]) -> Iterator[Finding]:
    try:
        found = find()
    except _FAILURES as error:
        mend = _hint(error, "name another with --python")
        yield _missing(Thing.INTERPRETER, error, _NO_INSTALL, mend)
        return
    kind = " free-threaded" if found.free_threaded else ""
    yield Finding(Thing.INTERPRETER, State.OK, f"{found.full}{kind}, {found.executable}")
    yield find_headers(found)


def _uv() -> Finding:
    try:
        ended = uv.call(["--version"], Path("/"), ASK_LIMIT)
    except _FAILURES as error:
        return _missing(Thing.UV, error, _NO_INSTALL, f"{sys.executable} -m pip install uv")
    return Finding(Thing.UV, State.OK, ended.stdout.text.strip())


def _torch() -> Finding:
    """The torch of this Python, by its metadata: importing it would take seconds."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            Thing.TORCH,
            State.WARNING,
            "none in the Python that runs repro",
            "There is no `--build current`; without `--build`, the newest release is installed.",
            f"{sys.executable} -m pip install torch",
        )
    return Finding(Thing.TORCH, State.OK, version)


def _gpu() -> Iterator[Finding]:
    found = look_for_driver()
    if isinstance(found, Absent):
        state = State.MISSING if found.broken else State.WARNING
        untestable = "Cases that need cuda are untestable; others run on the CPU."
        takes_cpu = "`--variant auto` takes cpu."
        yield Finding(Thing.GPU, state, found.reason, untestable, found.mend)
        yield Finding(Thing.DRIVER, state, "none in use", takes_cpu, found.mend)
        return
    yield find_c_compiler()
    counted = (f"{found.devices.count(name)} x {name}" for name in dict.fromkeys(found.devices))
    # Which of them it chooses is CUDA's to say: it does not number them as NVML does.
    name = "CUDA_VISIBLE_DEVICES"
    chosen = [f"{name}={os.environ[name]}"] if name in os.environ else []
    yield Finding(Thing.GPU, State.OK, ", ".join([*counted, *chosen]))
    yield _driver(found)


def _driver(driver: Driver) -> Finding:
    best = variants_for(driver)[0]
    value = f"{driver.version}, CUDA {driver.cuda[0]}.{driver.cuda[1]}, runs up to {best}"
    if best != "cpu":
        return Finding(Thing.DRIVER, State.OK, value)
    prevents = "It is older than every CUDA build of torch: `--variant auto` takes cpu."
    return Finding(Thing.DRIVER, State.WARNING, value, prevents, "install a newer NVIDIA driver")


def _index(name: Thing, ask: Callable[[], str], prevents: str) -> Finding:
    try:
        return Finding(name, State.OK, ask())
    except _FAILURES as error:
        mend = _hint(error, "look at the network, the proxy and the index settings")
        return _missing(name, error, prevents, mend)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there: a cache is made when it is needed."""
    folder = folder.absolute()
    # Not Path.exists, which raises where a folder above may not be entered.
    return next(path for path in (folder, *folder.parents) if os.path.exists(path))


def _disk(folder: Path) -> Finding:
    mend = "uv cache prune, or point REPRO_CACHE_DIR and UV_CACHE_DIR at another disk"
    try:
        free = shutil.disk_usage(_existing(folder)).free
    except OSError as error:
        return _missing(Thing.DISK, error, _NO_INSTALL, mend)
    value = f"{in_gigabytes(free)} free"
    if free < CPU_BUILD:
        return Finding(Thing.DISK, State.MISSING, value, "Not even a CPU build (1 GB) fits.", mend)
    if free < CUDA_BUILD:
        prevents = "A CUDA build (4.5 to 7 GB) may not fit."
        return Finding(Thing.DISK, State.WARNING, value, prevents, mend)
    return Finding(Thing.DISK, State.OK, value)


def _cache(cache: Cache) -> Finding:
    there = _existing(cache.folder)
    limit = "no limit" if cache.limit is None else f"at most {in_gigabytes(cache.limit)}"
    value = f"{cache.folder}, {in_gigabytes(cache.size)}, {limit}"
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding(Thing.CACHE, State.OK, value)
    mend = "point REPRO_CACHE_DIR at a folder of yours"
    return Finding(Thing.CACHE, State.MISSING, f"{value}: cannot be written", _NO_INSTALL, mend)


def _links(folder: Path) -> Finding:
    """Whether uv can link files from its cache into environments: tried, for disks can deceive."""
    prevents = "Every environment takes its full size, 4.5 to 7 GB with CUDA, and longer to make."
    try:
        told = uv.call(["cache", "dir"], Path("/"), ASK_LIMIT).stdout.text
        source = _existing(Path(told.strip()))
        with tempfile.NamedTemporaryFile(dir=source, prefix=".repro-") as file:
            link = _existing(folder) / f"{Path(file.name).name}.link"
            try:
                os.link(file.name, link)
            finally:
                link.unlink(missing_ok=True)
    except _FAILURES as error:
        mend = "point REPRO_CACHE_DIR or UV_CACHE_DIR at the other's disk"
        fault = _missing(Thing.LINKS, error, prevents, mend)
        value = f"files of uv's cache cannot be linked: {fault.value}"
        return replace(fault, state=State.WARNING, value=value)
    return Finding(Thing.LINKS, State.OK, f"files are shared with uv's cache, {told.strip()}")
