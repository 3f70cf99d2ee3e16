"""Pages of an index on disk, with what the server gave to ask whether they still hold.

A file a page, written aside and renamed: any number of processes may read and write them, and a
damaged one is as good as none. (requests-cache, which would do the same, waits for ever on a full
disk and keeps pages as pickles.)
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """A page as the server sent it.

    Args:
        url: where it came from in the end, without credentials.
        kind: its Content-Type.
    """

    url: str
    kind: str
    text: str


@dataclass(frozen=True)
class Page:
    """What was read of a page.

    Args:
        etag, modified: its validators, empty where the server gave none.
        fetched: when, `2026-05-28 12:00 UTC`.
    """

    read: str
    etag: str
    modified: str
    fetched: str


class Pages:
    """Pages below a folder.

    Args:
        folder: made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, url: str) -> Path:
        return self.folder / f"{sha256(url.encode()).hexdigest()[:24]}.json"

    def find(self, url: str) -> Page | None:
        """What was kept of a page, None where that is nothing or damaged."""
        try:
            stored = json.loads(self._path(url).read_text(encoding="utf-8"))
            page = Page(**stored)
        except (OSError, ValueError, TypeError):
            return None
        return page if all(isinstance(value, str) for value in asdict(page).values()) else None

    def keep(self, url: str, page: Page) -> None:
        """Keep a page.

        Raises:
            OSError: it cannot be written.
        """
        path = self._path(url)
        aside = path.with_suffix(f".{os.getpid()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            aside.write_text(json.dumps(asdict(page)), encoding="utf-8")
            os.replace(aside, path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
