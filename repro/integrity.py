"""Whether an environment is still as it was installed.

Every file's size and time are written down, which tells in a tenth of a second what reading its
gigabytes would tell in a minute.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from repro.errors import Unavailable

# Python writes bytecode there whenever it likes.
_BYTECODE = "__pycache__"


def site_packages(folder: Path) -> Path:
    """The `site-packages` of a virtual environment.

    Raises:
        Unavailable: there is none.
    """
    found = sorted(folder.glob("lib/python*/site-packages"))
    if not found:
        raise Unavailable(f"{folder.name}: no site-packages", "run it again")
    return found[0]


def write_down(folder: Path, listed: Path) -> None:
    """Write down what is in an environment now."""
    listed.write_text(json.dumps(_state(folder)), encoding="utf-8")


def _state(folder: Path) -> dict[str, Any]:
    """Everything by which a change shows: files of `site-packages`, and what Python starts from."""
    state: dict[str, Any] = {
        path: [size, time] for path, size, time in _files(site_packages(folder))
    }
    state["../pyvenv.cfg"] = (folder / "pyvenv.cfg").read_text(encoding="utf-8")
    state["../python"] = os.path.realpath(folder / "bin" / "python")
    return state


def changed(folder: Path, listed: Path) -> frozenset[str]:
    """Files of `site-packages` that are not as they were written down, or not there, or new.

    An environment without interpreter, `pyvenv.cfg` or list has changed as a whole: ``{"."}``.
    """
    whole = frozenset({"."})
    # Without pyvenv.cfg it is the base interpreter, in which there is no torch.
    if not os.access(folder / "bin" / "python", os.X_OK) or not (folder / "pyvenv.cfg").exists():
        return whole
    try:
        before = json.loads(listed.read_text(encoding="utf-8"))
        now = _state(folder)
        return frozenset(
            path for path in before.keys() | now.keys() if before.get(path) != now.get(path)
        )
    except (OSError, ValueError, AttributeError, Unavailable):
        return whole


def damaged(folder: Path, suspects: Iterable[str]) -> list[str]:
    """Packages of which a suspect file is not what its wheel had, by the sha256 in RECORD.

    Args:
        suspects: paths within `site-packages`; `.` stands for every Python file.
    """
    site = site_packages(folder)
    suspects = frozenset(suspects)
    found = []
    if not suspects:
        return []
    for record in sorted(site.glob("*.dist-info/RECORD")):
        name = record.parent.name.partition("-")[0]
        try:
            rows = recorded(record)
        except (UnicodeDecodeError, csv.Error):
            found.append(name)
            continue
        suspicious = (
            row
            for row in rows
            if row[0] in suspects or ("." in suspects and row[0].endswith(".py"))
        )
        if any(not _is(site / path, expected) for path, expected in suspicious):
            found.append(name)
    return found


def recorded(record: Path) -> list[tuple[str, str]]:
    """What a RECORD states: path below `site-packages`, and hash (`sha256=…`) where it has one.

    Raises:
        UnicodeDecodeError, csv.Error: it is damaged.
        OSError: it cannot be read.
    """
    with record.open(encoding="utf-8", newline="") as file:
        return [(row[0], row[1]) for row in csv.reader(file) if len(row) == 3 and row[1]]


def _is(path: Path, expected: str) -> bool:
    algorithm, _, digest = expected.partition("=")
    if algorithm != "sha256":
        return True
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return False
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode() == digest


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Path below the folder, size and time (ns) of every file that is no bytecode."""
    start = len(str(folder)) + 1
    pending = [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != _BYTECODE:
                        pending.append(entry.path)
                else:
                    stat = entry.stat(follow_symlinks=False)
                    yield entry.path[start:], stat.st_size, stat.st_mtime_ns
