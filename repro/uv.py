"""The one place that calls uv, and that turns its complaints into sentences."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from repro.errors import Unavailable
from repro.process import Ended, run

INSTALL_LIMIT = 3600.0
ATTEMPTS = 3
RETRY_PAUSE = 2.0
_FOLDERS = ("UV_CACHE_DIR", "UV_CONFIG_FILE", "UV_PYTHON_INSTALL_DIR", "SSL_CERT_FILE")


@dataclass(frozen=True)
class _Complaint:
    pattern: str
    reason: str
    hint: str
    passing: bool = False  # whether trying again can help
    of_file: bool = False  # whether the file that uv names belongs in the sentence


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
        r"Hash mismatch",
        "its sha256 is not what the index states",
        "this is a fault of the index or of what is between; name another build",
        of_file=True,
    ),
    _Complaint(
        r"does not match filename|does not match given version|does not match the expected",
        "its METADATA states another name or version than its file name",
        "this is a fault of the index; name another build",
        of_file=True,
    ),
    _Complaint(
        r"HTTP status client error \((\d+)|\b(40[134]) ",
        "the server answers {status}, not available",
        "look at uv's index settings and their credentials",
        of_file=True,
    ),
    _Complaint(
        r"HTTP status server error \((\d+)",
        "the server answers {status}",
        "try it again later",
        passing=True,
        of_file=True,
    ),
    _Complaint(
        r"timed out|network timeout",
        "the server stalled",
        "look at the network, then run it again; UV_HTTP_TIMEOUT is how long uv waits",
        of_file=True,
    ),
    _Complaint(
        r"end of file before message length|unexpected end of file|error reading a body",
        "what came was cut off",
        "look at the network, then run it again",
        passing=True,
        of_file=True,
    ),
    _Complaint(
        r"error sending request|[Ff]ailed to fetch|Failed to download|dns error"
        r"|client error|connection|Could not connect|Network is unreachable|tunneling",
        "the package index cannot be reached",
        "look at the network, the proxy and uv's index settings, then run it again",
        passing=True,
        of_file=True,
    ),
    _Complaint(
        r"Failed to unzip|Failed to read from zip|invalid package format|malformed wheel",
        "the file is damaged",
        "this is a fault of the index; name another build",
        of_file=True,
    ),
    _Complaint(
        r"no wheels with a matching|not available for .*platform|not compatible with|no wheels"
        r"|has no .*wheels|requires Python|depend on Python|current Python version",
        "the index has no wheel of it for this Python and platform",
        "choose another Python with --python",
    ),
    _Complaint(
        r"No solution found|no version of|not found in the package registry|unsatisfiable",
        "the index has no such version",
        "`repro builds` lists what there is",
    ),
)


# With what uv draws the tree of causes.
_BOX = " \u00d7\u2570\u2500\u25b6\u2502\u251c"


def _file_in(log: str) -> str:
    """The wheel that uv complains of, as the beginning of a sentence."""
    found = re.search(r"([^/\s`'\"]+\.whl)\b", log)
    return f"{unquote(found[1])}: " if found else ""


def _complaint(log: str) -> _Complaint:
    text = re.sub(r"\s+", " ", log)
    for complaint in _COMPLAINTS:
        if found := re.search(complaint.pattern, text):
            status = next((group for group in found.groups() if group), "")
            reason = complaint.reason.format(status=status)
            name = _file_in(log) if complaint.of_file else ""
            return replace(complaint, reason=f"{name}{reason}")
    told = re.search(r"^\s*(?:error:|\u00d7).*", log, re.MULTILINE | re.DOTALL)
    lines = [
        re.sub(r"^(?:error|cause|Caused by):\s*", "", line.lstrip(_BOX).rstrip(":"))
        for line in (told[0] if told else log).splitlines()
        if line.strip()
    ]
    # The first line says what could not be done, the last cause why.
    causes = [
        line
        for line in (told[0] if told else "").splitlines()
        if re.match(r"[\s\u2570\u251c\u2500\u25b6\u2502]*(?:cause|Caused by):", line)
    ]
    said = lines[0] if lines else "without a word"
    if causes:
        last = causes[-1].lstrip(_BOX)
        said += f": {last.partition(': ')[2]}"
    return _Complaint("", f"uv failed: {said}", "see the log")


def call(
    arguments: Sequence[str | Path],
    folder: Path,
    timeout: float = INSTALL_LIMIT,
    holding: Sequence[int] = (),
) -> Ended:
    """Run uv, again where the network failed. uv's own settings and cache are the user's.

    Args:
        arguments: those of uv.
        folder: its working directory: a folder of ours, so that no project's file is picked up.
        timeout: seconds for one attempt.
        holding: descriptors of locks that are to last as long as uv runs, even without us.

    Raises:
        Unavailable: it failed, with the sentence that says why.
    """
    import uv  # finds the executable that was installed with us

    settings = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    settings |= {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    # It is run in a folder of ours, where what is relative would mean something else.
    settings |= {name: os.path.abspath(settings[name]) for name in _FOLDERS if settings.get(name)}
    for attempt in range(1, ATTEMPTS + 1):
        ended = run(
            [uv.find_uv_bin(), *arguments],
            environment=settings,
            folder=folder,
            timeout=timeout,
            holding=holding,
        )
        if ended.exit_code == 0:
            return ended
        if ended.timed_out:
            raise Unavailable(
                f"uv had not finished after {timeout:g} s",
                "look at the network, then run it again",
                ended.stderr.text,
            )
        complaint = _complaint(ended.stderr.text)
        if not complaint.passing or attempt == ATTEMPTS:
            break
        time.sleep(RETRY_PAUSE * attempt)
    raise Unavailable(complaint.reason, complaint.hint, ended.stderr.text)
