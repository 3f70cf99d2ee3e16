"""The operating system, CPU and memory, in a line each."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from pathlib import Path

import psutil

from repro.findings import Finding, State, Thing
from repro.process import run

CPU_FILE = Path("/proc/cpuinfo")
ASK_LIMIT = 10.0
# The instructions by which inductor chooses its vector code (torch/_inductor/cpu_vec_isa.py).
_VECTORS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve", "sve2")


def in_gigabytes(size: int) -> str:
    """`12.3 GB`."""
    return f"{size / 1e9:.1f} GB"


def find_platform() -> Finding:
    """The operating system with its version, kernel and C library."""
    words = platform.platform()
    # macOS has none, nor have some small systems.
    with contextlib.suppress(OSError, KeyError):
        words = f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {words}"
    return Finding(Thing.PLATFORM, State.OK, words)


def _asked_of_macos() -> str:
    try:
        ended = run(
            ["sysctl", "-n", "machdep.cpu.brand_string"],
            environment=os.environ,
            folder=Path("/"),
            timeout=ASK_LIMIT,
        )
    except OSError:
        return ""
    return ended.stdout.text.strip()


def _usable_cores() -> str:
    there = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else there
    return f"{there} cores" if usable == there else f"{usable} of {there} cores"


def find_cpu() -> Finding:
    """Model, cores that may be used, and the vector instructions that inductor looks for."""
    try:
        told = CPU_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = f"model name: {_asked_of_macos()}"
    model = re.search(r"^model name[ \t]*:[ \t]*(\S.*)$", told, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)[ \t]*:[ \t]*(.*)$", told, re.MULTILINE)
    has = set(flags[1].split()) if flags else set()
    words = [model[1].strip() if model else platform.machine(), _usable_cores()]
    if vectors := [name for name in _VECTORS if name in has]:
        words.append(" ".join(vectors))
    return Finding(Thing.CPU, State.OK, ", ".join(words))


def find_memory() -> Finding:
    """How much there is, and how much of it is free."""
    memory = psutil.virtual_memory()
    return Finding(
        Thing.MEMORY,
        State.OK,
        f"{in_gigabytes(memory.total)}, {in_gigabytes(memory.available)} free",
    )
