"""Bytecode, compiled while installing, so that the first import of torch is as fast as the second.

Of everything in an environment: inductor imports more than torch itself, such as sympy and
networkx, and without bytecode the first import of 2.12.1 took 6.3 s and the second 3.5 s.

It takes many seconds, so what was compiled is kept by the content of its source and linked into the
next environment of the same Python that has the same source: two nightlies share most of theirs.
Python itself compares such bytecode with its source at import (PEP 552, "checked hash"), so what
is kept can make an import slow but never wrong.
"""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.integrity import recorded
from repro.locks import exclusive
from repro.process import run

LIMIT = 1800.0
# Tests are many and nothing imports them; `..` and an absolute path lead out of `site-packages`.
_LEFT_OUT = frozenset({"tests", "..", ""})
# As RECORD states it: base64 for URLs, without its padding.
_SHA256 = re.compile(r"sha256=([A-Za-z0-9_-]{43})")
# Magic number and flags; then the hash of the source, 8 bytes (PEP 552).
_HEADER = struct.Struct("<4sI8x")
_CHECKED_HASH = 0b11
# compileall's own pool is for whole folders. The names of what does not compile are printed.
_COMPILE = """\
import functools, json, sys
from compileall import compile_file
from concurrent.futures import ProcessPoolExecutor
from py_compile import PycInvalidationMode
if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sources = json.load(file)
    compiled = functools.partial(
        compile_file, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    with ProcessPoolExecutor() as pool:
        done = list(pool.map(compiled, sources, chunksize=16))
    print(json.dumps([source for source, well in zip(sources, done) if not well]))
"""


@dataclass(frozen=True)
class Kept:
    """Where the bytecode for one Python is kept.

    Args:
        folder: it need not be there.
        lock: of who compiles.
        tag: what this Python names bytecode by, `cpython-311`.
    """

    folder: Path
    lock: Path
    tag: str

    def within(self, site: Path, source: str) -> str:
        """`torch/x.py` is compiled to `torch/__pycache__/x.cpython-311.pyc`."""
        folder, name = os.path.split(source)
        return os.path.join(
            site, folder, "__pycache__", f"{name.removesuffix('.py')}.{self.tag}.pyc"
        )

    def bytecode(self, digest: str) -> str:
        """The compiled file of a source."""
        return f"{self.folder}/{digest}.pyc"

    def failure(self, digest: str) -> str:
        """Is there where a source does not compile."""
        return f"{self.folder}/{digest}.none"


def compile_all(python: Path, site: Path, kept: Kept, holding: Sequence[int] = ()) -> None:
    """Have every module of an environment compiled, but those of packages' own tests.

    Args:
        python: of the environment.
        site: its `site-packages`.
        holding: descriptors that the compiler keeps open.

    A module that does not compile (torch ships templates that are none) is left as it is.
    """
    missing = _missing(dict(_sources(site)), site, kept)
    if not missing:
        return
    # Who installs another build at the same time waits, and has then most of it to link.
    with exclusive(kept.lock):
        missing = _missing(missing, site, kept)
        failed = _compile(python, site, list(missing), holding) if missing else set()
        os.makedirs(kept.folder, exist_ok=True)
        for source, digest in missing.items():
            compiled = kept.within(site, source)
            try:
                if os.path.exists(compiled):
                    _link(compiled, kept.bytecode(digest))
                elif source in failed:
                    Path(kept.failure(digest)).touch()
            except FileNotFoundError:
                return  # somebody has just removed the empty folder; nothing depends on it


def _missing(sources: Mapping[str, str], site: Path, kept: Kept) -> dict[str, str]:
    """Link what is kept of sources; those of which nothing is."""
    folders: set[str] = set()
    missing: dict[str, str] = {}
    for source, digest in sources.items():
        linked = _linked(kept.bytecode(digest), kept.within(site, source), folders)
        if not linked and not os.path.exists(kept.failure(digest)):
            missing[source] = digest
    return missing


def _sources(site: Path) -> Iterator[tuple[str, str]]:
    """Each module, as a path below `site-packages`, with the sha256 that its wheel states."""
    for record in site.glob("*.dist-info/RECORD"):
        try:
            rows = recorded(record)
        except (OSError, UnicodeDecodeError, csv.Error):
            continue
        for path, stated in rows:
            if not path.endswith(".py") or _LEFT_OUT.intersection(path.split("/")):
                continue
            if not os.path.exists(f"{site}/{path}"):
                continue
            if found := _SHA256.fullmatch(stated):
                yield path, base64.urlsafe_b64decode(f"{found[1]}=").hex()


def _linked(kept: str, target: str, folders: set[str]) -> bool:
    """Whether kept bytecode is there and could be given its place in an environment."""
    try:
        with open(kept, "rb") as file:
            head = file.read(_HEADER.size + 1)
        if len(head) <= _HEADER.size or _HEADER.unpack_from(head)[1] != _CHECKED_HASH:
            return False
        folder = os.path.dirname(target)
        if folder not in folders:
            os.makedirs(folder, exist_ok=True)
            folders.add(folder)
        _link(kept, target)
    except FileNotFoundError:  # not kept, or removed since
        return False
    return True


def _compile(python: Path, site: Path, sources: Sequence[str], holding: Sequence[int]) -> set[str]:
    """Compile modules, as many at once as there are cores; those that are no Python."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as listed:
        json.dump(sources, listed)
        listed.flush()
        ended = run(
            [python, "-I", "-c", _COMPILE, listed.name],
            environment=os.environ,
            folder=site,
            timeout=LIMIT,
            holding=holding,
        )
    if ended.exit_code != 0:
        return set()
    return set(json.loads(ended.stdout.text))


def _link(source: str, target: str) -> None:
    """Give a file another name; a copy where the disk cannot. Never half a file."""
    try:
        try:
            os.link(source, target)
        except FileExistsError:
            os.unlink(target)
            os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without hard links
        aside = f"{target}.{os.getpid()}"
        shutil.copy2(source, aside)
        os.replace(aside, target)
