"""What every CPU compile of a build needs and no case decides, kept between probes.

A probe starts with empty caches. Two things in them say nothing about the case but cost most of a
small compile (about 16 of 28 s of g++ on 2.13.0): inductor's checks of what vector instructions the
compiler and CPU take, and its precompiled header. torch names both by content: the checks by
compiler version, flags and torch version (`torch/_inductor/cpu_vec_isa.py`), the header by its
preprocessed text, flags and compiler version (`torch/_inductor/codecache.py:_precompile_header`),
so one that does not fit is never picked up. They are taken only from a probe that passed.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

# A precompiled header is about 150 MB.
HEADERS_KEPT = 4
CHECKS_KEPT = 400
# Every source of an instruction check defines a function of such a name (2.6.0 to 2.15.0).
_CHECK = re.compile(rb"\w_chk_kernel\w*\(")


def _copy(source: Path, target: Path) -> None:
    """Link where it can be, else copy; whole or not at all, and never over what is there."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{uuid.uuid4().hex}")
    try:
        try:
            os.link(source, aside)
        except OSError:
            shutil.copy2(source, aside)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


def _headers_of(scratch: Path) -> Path:
    """Where torch puts precompiled headers: `default_cache_dir` of runtime/cache_dir_utils.py."""
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    return scratch / "tmp" / f"torchinductor_{user}" / "precompiled_headers"


def _checks(inductor: Path) -> Iterator[Path]:
    """Source and library of every instruction check in the inductor caches of all ranks."""
    for source in inductor.glob("*/*/*.cpp"):
        library = source.with_suffix(".so")
        if library.exists() and _CHECK.search(source.read_bytes()):
            yield from (source, library)


def _headers(folder: Path) -> Iterator[Path]:
    """Precompiled headers. clang's stay out: they hold the path of the folder they were made in."""
    if sys.platform != "darwin" and "clang" not in os.environ.get("CXX", ""):
        for compiled in folder.glob("*.h.gch"):
            yield from (compiled.with_suffix(""), compiled)


def _keep_newest(files: Iterable[Path], number: int) -> None:
    def age(path: Path) -> float:
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
        return 0.0

    for path in sorted(files, key=age, reverse=True)[number:]:
        path.unlink(missing_ok=True)


def seed(kept: Path, scratch: Path, ranks: int) -> None:
    """Give a probe's empty caches what is kept. A file that cannot be had is simply not there.

    Args:
        ranks: each has an inductor cache of its own, see `repro.guest.own_caches`.
    """
    with contextlib.suppress(OSError):
        for path in (kept / "checks").glob("*/*"):
            for rank in map(str, range(ranks)):
                _copy(path, scratch / "inductor" / rank / path.parent.name / path.name)
        for path in _headers(kept / "headers"):
            _copy(path, _headers_of(scratch) / path.name)


def harvest(kept: Path, scratch: Path) -> None:
    """Keep what a probe that passed has made. A full disk costs time later, not the outcome."""
    with contextlib.suppress(OSError):
        for path in _checks(scratch / "inductor"):
            _copy(path, kept / "checks" / path.parent.name / path.name)
        for path in _headers(_headers_of(scratch)):
            _copy(path, kept / "headers" / path.name)
        _keep_newest((kept / "headers").glob("*.gch"), HEADERS_KEPT)
        _keep_newest((kept / "checks").glob("*/*"), CHECKS_KEPT)
