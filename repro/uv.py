"""The one place that calls uv, and that turns its complaints into sentences."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.process import Ended, run

INSTALL_LIMIT = 3600.0
ATTEMPTS = 3
RETRY_PAUSE = 5.0


class InstallError(Exception):
    """uv could not do it. `str()` is one sentence; `hint` the next step; `log` what uv printed."""

    def __init__(self, reason: str, hint: str, log: str) -> None:
        super().__init__(reason)
        self.hint = hint
        self.log = log


@dataclass(frozen=True)
class _Complaint:
    pattern: str
    reason: str
    hint: str
    passing: bool = False  # whether trying again can help


_COMPLAINTS = (
    _Complaint(
        r"No space left on device|Disk quota exceeded|os error 28",
        "the disk is full",
        "make room (uv cache prune), or point REPRO_CACHE_DIR and UV_CACHE_DIR at another disk",
    ),
    _Complaint(
        r"Permission denied|Read-only file system",
        "a folder cannot be written",
        "point REPRO_CACHE_DIR and UV_CACHE_DIR at folders of yours",
    ),
    _Complaint(
        r"network was disabled",
        "uv may not use the network and has none of it in its cache",
        "unset UV_OFFLINE, then run it again",
    ),
    _Complaint(
        r"HTTP status client error|\b40[134] ",
        "the package index refuses",
        "look at uv's index settings and their credentials",
    ),
    _Complaint(
        r"error sending request|[Ff]ailed to fetch|Failed to download|dns error|timed out"
        r"|client error|connection|Could not connect|Network is unreachable|tunneling",
        "the package index cannot be reached",
        "look at the network, the proxy and uv's index settings, then run it again",
        passing=True,
    ),
    _Complaint(
        r"no wheels with a matching|not available for .*platform|not compatible with|no wheels"
        r"|has no .*wheels|requires Python|depend on Python|current Python version",
        "the index has no wheel of it for this Python and platform",
        "run repro with another Python, for instance in an environment made by "
        "`uv venv --python 3.12`",
    ),
    _Complaint(
        r"No solution found|no version of|not found in the package registry|unsatisfiable",
        "the index has no such version",
        "`uvx pip index versions torch` lists what it has",
    ),
)


def _complaint(log: str) -> _Complaint:
    text = re.sub(r"\s+", " ", log)
    for complaint in _COMPLAINTS:
        if re.search(complaint.pattern, text):
            return complaint
    told = re.search(r"^\s*(?:error:|\u00d7).*", log, re.MULTILINE | re.DOTALL)
    lines = [
        line.lstrip(" \u00d7\u2570\u2500\u25b6\u2502\u251c")
        for line in (told[0] if told else log).splitlines()
        if line.strip()
    ]
    return _Complaint("", f"uv failed: {lines[0] if lines else 'without a word'}", "see the log")


def call(arguments: Sequence[str | Path], folder: Path, timeout: float = INSTALL_LIMIT) -> Ended:
    """Run uv, again where the network failed. uv's own settings and cache are the user's.

    Args:
        arguments: those of uv.
        folder: its working directory: a folder of ours, so that no project's file is picked up.
        timeout: seconds for one attempt.

    Raises:
        InstallError: it failed, with the sentence that says why.
    """
    import uv  # finds the executable that was installed with us

    settings = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    settings |= {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    for attempt in range(1, ATTEMPTS + 1):
        ended = run(
            [uv.find_uv_bin(), *arguments], environment=settings, folder=folder, timeout=timeout
        )
        if ended.exit_code == 0:
            return ended
        if ended.timed_out:
            raise InstallError(
                f"uv had not finished after {timeout:g} s",
                "look at the network, then run it again",
                ended.stderr.text,
            )
        complaint = _complaint(ended.stderr.text)
        if not complaint.passing or attempt == ATTEMPTS:
            break
        time.sleep(RETRY_PAUSE * attempt)
    raise InstallError(complaint.reason, complaint.hint, ended.stderr.text)
