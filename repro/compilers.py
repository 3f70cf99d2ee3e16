"""The compilers that torch calls, and whether they do what it wants of them.

Inductor compiles C++ for the CPU, triton compiles a launcher in C for the GPU. Both take a compiler
of this machine, so a fault here looks like a fault of a build until it is told apart.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from repro.findings import Finding, State, Thing
from repro.interpreters import Interpreter
from repro.process import run

LIMIT = 30.0
# As the CPU kernels of every build do.
_SOURCE = """\
#include <omp.h>
extern "C" int threads() { return omp_get_max_threads(); }
"""
# What builds compile with (torch/_inductor/cpp_builder.py), the newest first, and which do.
_STANDARDS = (("c++20", "torch 2.12 and newer"), ("c++17", "torch up to 2.11"))
_COMPILES = "Inductor compiles C++ for the CPU: every case that is run there is untestable."
_LAUNCHES = "Triton compiles its launchers in C: every case that is run on the GPU is untestable."
_MAKE_ROOM = "make room in the folder for temporary files, or point TMPDIR at another"
_INCLUDES = "Compiled kernels include Python.h: every case that gets as far is untestable."
# Where torch looks for it (`_get_python_include_dirs`): the second is that of a macOS framework.
_ASK_HEADERS = """\
import pathlib, sysconfig
print(sysconfig.get_path("include"))
print(pathlib.Path(sysconfig.get_path("stdlib")).parent.parent / "Headers")
"""
# Both start it as it stands: `CXX="ccache g++"` is the usual mistake.
_NAME_ONE = "unset {}, or let it name one program, without arguments"
# (what os-release names, command, C++ compiler, clang's OpenMP, headers, C compiler)
_INSTALLERS = (
    ("debian", "apt install", "g++", "libomp-dev", "python{}-dev", "gcc"),
    ("ubuntu", "apt install", "g++", "libomp-dev", "python{}-dev", "gcc"),
    ("fedora", "dnf install", "gcc-c++", "libomp-devel", "python{}-devel", "gcc"),
    ("rhel", "dnf install", "gcc-c++", "libomp-devel", "python{}-devel", "gcc"),
    ("arch", "pacman -S", "gcc", "openmp", "python", "gcc"),
)


@dataclass(frozen=True)
class _Packages:
    """What to type to get each thing."""

    compiler: str
    openmp: str
    headers: str
    c_compiler: str


def _packages() -> _Packages:
    if sys.platform == "darwin":
        tools = "xcode-select --install"
        return _Packages(tools, "brew install libomp", "use a Python that brings Python.h", tools)
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        told = {}
    systems = [told.get("ID", ""), *told.get("ID_LIKE", "").split()]
    for system, command, *names in _INSTALLERS:
        if system in systems:
            return _Packages(*(f"{command} {name}" for name in names))
    return _Packages(
        "install g++, or name a C++ compiler in CXX",
        "install the OpenMP library of clang, or name g++ in CXX",
        "install the development package of Python {}",
        "install gcc, or name a C compiler in CC",
    )


def _ran(command: list[str], folder: Path) -> tuple[bool, str]:
    """Whether a command ended well, and what it said; why not, where it could not be started."""
    try:
        ended = run(command, environment=os.environ | {"LC_ALL": "C"}, folder=folder, timeout=LIMIT)
    except OSError as error:
        return False, error.strerror or str(error)
    if ended.timed_out:
        return False, f"had not finished after {LIMIT:g} s"
    return ended.exit_code == 0, f"{ended.stdout.text}\n{ended.stderr.text}".strip()


def _first(text: str) -> str:
    """The line that matters: the first that complains, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = [line for line in lines if re.search(r"\berror\b|cannot find", line)]
    return next(iter([*complaints, *lines]), "without a word")


def _openmp_of_macos(folder: Path) -> list[str]:
    """Where Apple's compiler gets OpenMP from, which it does not bring: as torch looks for it."""
    found, brewed = _ran(["brew", "--prefix", "libomp"], folder)
    places = (
        os.environ.get("OMP_PREFIX"),
        os.environ.get("CONDA_PREFIX"),
        brewed if found else None,
    )
    for place in places:
        if place and (Path(place) / "include" / "omp.h").is_file():
            return [f"-I{place}/include", f"-L{place}/lib", "-lomp"]
    return ["-lomp"]


def _flags(version: str, folder: Path) -> list[str]:
    if sys.platform != "darwin":
        return ["-shared", "-fPIC", "-fopenmp", "-lgomp"]
    flags = ["-shared", "-fPIC", "-undefined", "dynamic_lookup", "-Xclang", "-fopenmp"]
    return flags + (_openmp_of_macos(folder) if version.startswith("Apple") else [])


def find_compiler() -> Finding:
    """The C++ compiler that inductor takes, CXX else one name alone, and whether it compiles."""
    try:
        with tempfile.TemporaryDirectory(prefix="repro-") as made:
            return _tried(Path(made))
    except OSError as error:
        value = f"not tried, for want of a temporary file: {error.strerror or error}"
        return Finding(Thing.COMPILER, State.MISSING, value, _COMPILES, _MAKE_ROOM)


def _tried(folder: Path) -> Finding:
    packages = _packages()
    name = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    works, told = _ran([name, "--version"], folder)
    if not works:
        mend = packages.compiler
        if "CXX" in os.environ:
            mend = _NAME_ONE.format("CXX")
        return Finding(Thing.COMPILER, State.MISSING, f"{name}: {_first(told)}", _COMPILES, mend)
    version = told.splitlines()[0] if told else name
    (folder / "check.cpp").write_text(_SOURCE)
    complaints = []
    for standard, builds in _STANDARDS:
        source = ["-std=" + standard, "check.cpp", "-o", "check.so"]
        works, told = _ran([name, *source, *_flags(version, folder)], folder)
        if works:
            break
        complaints.append((builds, _first(told)))
    if not complaints:
        return Finding(Thing.COMPILER, State.OK, version)
    builds, complaint = complaints[0]
    value = f"{version}: {complaint}"
    if works:
        return Finding(
            Thing.COMPILER,
            State.WARNING,
            value,
            f"It cannot compile what {builds} make for the CPU.",
            f"a newer compiler: {packages.compiler}",
        )
    clang = "clang" in version
    mend = packages.openmp if clang and re.search(r"omp", complaint) else packages.compiler
    if "No space left" in complaint:
        mend = _MAKE_ROOM
    return Finding(Thing.COMPILER, State.MISSING, value, _COMPILES, mend)


def find_c_compiler() -> Finding:
    """The C compiler that triton takes: CC, else gcc, else clang (triton/runtime/build.py)."""
    name = os.environ.get("CC", shutil.which("gcc") or shutil.which("clang") or "gcc")
    works, told = _ran([name, "--version"], Path("/"))
    if works:
        return Finding(Thing.C_COMPILER, State.OK, _first(told))
    value = f"{name}: {_first(told)}"
    mend = _NAME_ONE.format("CC") if "CC" in os.environ else _packages().c_compiler
    return Finding(Thing.C_COMPILER, State.MISSING, value, _LAUNCHES, mend)


def find_headers(interpreter: Interpreter) -> Finding:
    """Python.h of the interpreter that environments are made of."""
    command = [str(interpreter.executable), "-I", "-c", _ASK_HEADERS]
    works, told = _ran(command, Path("/"))
    places = [Path(line) for line in told.splitlines()] if works else []
    for place in places:
        if (place / "Python.h").is_file():
            return Finding(Thing.HEADERS, State.OK, str(place))
    value = f"no Python.h in {places[0]}" if places else _first(told)
    mend = _packages().headers.format(".".join(map(str, interpreter.version)))
    return Finding(Thing.HEADERS, State.MISSING, value, _INCLUDES, mend)
