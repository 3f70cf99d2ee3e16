"""One index of a server: which wheels it has, which it lists, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from re import search
from typing import Protocol
from urllib.parse import quote

from packaging.utils import canonicalize_name

from tests.nightly_index.content import Content
from tests.nightly_index.faults import Fault
from tests.nightly_index.pages import (
    HTML,
    JSON,
    Link,
    html_page,
    html_root,
    json_page,
    json_root,
    wants_json,
)
from tests.nightly_index.wheels import Wheel

NEWEST = 60


@dataclass(frozen=True)
class Options:
    """How an index behaves.

    Args:
        ranges: answers range requests and says so.
        hashes: links carry a sha256; PyTorch's nightly links carry none.
        metadata_files: offers METADATA as a file of its own (PEP 658).
        listed: how many of the newest versions of a package are listed; None lists all.
        json: knows PEP 691.
        validators: sends ETags and honours them.
        cache_control: for pages; None leaves the header away.
    """

    ranges: bool = True
    hashes: bool = False
    metadata_files: bool = False
    listed: int | None = NEWEST
    json: bool = True
    validators: bool = True
    cache_control: str | None = "no-cache"


USUAL = Options()


@dataclass(frozen=True)
class Resource:
    """What lies at a path."""

    content: Content
    kind: str
    options: Options
    page: bool = False


@dataclass(frozen=True)
class Entry:
    """A wheel on a shelf; see `Shelf.add`."""

    wheel: Wheel
    yanked: str | None = None
    sha256: str | None = None


class Host(Protocol):
    """The server of a shelf, as far as a shelf knows it."""

    url: str

    def fail(self, path: str, fault: Fault) -> None:
        """Spoil the answers of a path."""


@dataclass
class Shelf:
    """An index below a root: `nightly/cpu`, `cu130`, `simple`.

    Args:
        host: serves the pages.
        files: serves the files; links then name another host.
    """

    root: str
    host: Host
    files: Host
    options: Options
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """What `--index-url` takes."""
        return f"{self.host.url}/{self.root}"

    def add(self, *wheels: Wheel, yanked: str | None = None, sha256: str | None = None) -> None:
        """Put up wheels, again where they are there.

        Args:
            yanked: why they are withdrawn.
            sha256: given in the link whatever the file's is; "" for none.
        """
        for wheel in wheels:
            # In one step, since a request may be reading it.
            self.entries = self.entries | {wheel.filename: Entry(wheel, yanked, sha256)}

    def remove(self, *wheels: Wheel) -> None:
        """Take wheels off, page and file."""
        gone = {wheel.filename for wheel in wheels}
        self.entries = {name: entry for name, entry in self.entries.items() if name not in gone}

    def page(self, project: str) -> str:
        """The path of a project's page."""
        return f"/{self.root}/{canonicalize_name(project)}/"

    def path(self, wheel: Wheel) -> str:
        """The path of a file, not quoted."""
        return f"/{self.root}/{wheel.filename}"

    def file_url(self, wheel: Wheel) -> str:
        """Where a file is, listed or not."""
        return self.files.url + quote(self.path(wheel))

    def fail(self, what: Wheel | str, fault: Fault) -> None:
        """Spoil a file, or the page of a project."""
        if isinstance(what, Wheel):
            self.files.fail(self.path(what), fault)
        else:
            self.host.fail(self.page(what), fault)

    def file(self, path: str) -> Resource | None:
        """The file at a path, or the METADATA of one."""
        name = path.removeprefix(f"/{self.root}/")
        if (entry := self.entries.get(name)) is not None:
            return Resource(entry.wheel.content, "binary/octet-stream", self.options)
        entry = self.entries.get(name.removesuffix(".metadata"))
        if entry is None or not self.options.metadata_files:
            return None
        return Resource(Content((entry.wheel.metadata,)), "binary/octet-stream", self.options)

    def listing(self, path: str, accept: str) -> Resource | None:
        """The page at a path, None where there is none."""
        as_json = self.options.json and wants_json(accept)
        projects = sorted({entry.wheel.project for entry in self.entries.values()})
        if path == f"/{self.root}/":
            text = (json_root if as_json else html_root)(projects)
        else:
            project = next((name for name in projects if path == self.page(name)), None)
            if project is None:
                return None
            text = (json_page if as_json else html_page)(project, self.links(project))
        return Resource(Content((text,)), JSON if as_json else HTML, self.options, page=True)

    def links(self, project: str) -> list[Link]:
        """The links of a project's page, oldest version first."""
        entries = [entry for entry in self.entries.values() if entry.wheel.project == project]
        versions = sorted({entry.wheel.version for entry in entries})
        if self.options.listed is not None:
            versions = versions[-self.options.listed :]
        entries.sort(key=lambda entry: (entry.wheel.version, entry.wheel.filename))
        return [self._link(entry) for entry in entries if entry.wheel.version in set(versions)]

    def _link(self, entry: Entry) -> Link:
        wheel = entry.wheel
        found = entry.sha256
        if found is None and self.options.hashes:
            found = wheel.content.sha256
        needs = search(rb"(?m)^Requires-Python: *(.+)$", wheel.metadata)
        elsewhere = self.files is not self.host
        return Link(
            filename=wheel.filename,
            url=(self.files.url if elsewhere else "") + quote(self.path(wheel)),
            sha256=found or None,
            metadata=sha256(wheel.metadata).hexdigest() if self.options.metadata_files else None,
            yanked=entry.yanked,
            requires_python=needs[1].decode() if needs else None,
        )
