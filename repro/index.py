"""Which wheels there are: pages of package indexes (PEP 503 and 691), read for one interpreter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import date

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from repro.builds import Build, Origin, with_credentials, without_credentials
from repro.errors import Unavailable
from repro.interpreters import Interpreter
from repro.pages import Answer
from repro.sources import Sources
from repro.web import Unreachable, Web

# As pypi_simple.ACCEPT_JSON_PREFERRED has it (1.8): to load that takes half a second.
_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, "
    "text/html;q=0.01"
)


@dataclass(frozen=True)
class File:
    """A file on a page, as far as it matters here.

    Args:
        uploaded: day, ISO 8601; None where the page does not tell.
    """

    filename: str
    url: str
    requires_python: str | None = None
    sha256: str | None = None
    uploaded: str | None = None
    is_yanked: bool = False


@dataclass(frozen=True)
class Listing:
    """What one page offers an interpreter.

    Args:
        builds: wheels that it can run, in no order.
        withdrawn: those that were yanked.
        others: how many wheels there are for other Pythons and platforms.
        python: version of the interpreter.
    """

    builds: tuple[Build, ...]
    withdrawn: tuple[Build, ...] = ()
    others: int = 0
    python: str = ""

    @property
    def place(self) -> str:
        """For what it was read, as the end of a complaint."""
        others = f"; {self.others} wheels are for other Pythons or platforms" if self.others else ""
        return f"for Python {self.python} on this platform{others}"


def listing_of(
    files: Iterable[File], interpreter: Interpreter, origin: Origin, shelf: str
) -> Listing:
    """The wheels of a page that fit an interpreter."""
    tags = interpreter.tags()
    builds: list[Build] = []
    withdrawn: list[Build] = []
    others = 0
    for file in files:
        try:
            _, version, _, wheel_tags = parse_wheel_filename(file.filename)
            needs = SpecifierSet(file.requires_python or "")
        except (InvalidWheelFilename, InvalidSpecifier):
            continue  # source archives, and names that no installer would take
        places = [tags[tag] for tag in wheel_tags if tag in tags]
        if not places or interpreter.full not in needs:
            others += 1
            continue
        build = Build(
            version=version,
            filename=file.filename,
            url=file.url,
            origin=origin,
            shelf=shelf,
            sha256=file.sha256,
            uploaded=date.fromisoformat(file.uploaded) if file.uploaded else None,
            preference=min(places),
        )
        (withdrawn if file.is_yanked else builds).append(build)
    return Listing(tuple(builds), tuple(withdrawn), others, interpreter.full)


def fetch_files(web: Web, url: str, project: str, say: Callable[[str], None]) -> tuple[File, ...]:
    """What the page of a project lists, in either format.

    Raises:
        repro.web.Unreachable: no answer, or one that is no such page, and nothing is kept.
        Unavailable: there is no such page.
    """
    read = web.page(url, _ACCEPT, lambda answer: _read(answer, url, project), say)
    return tuple(File(**file) for file in json.loads(read))


def _read(answer: Answer, asked: str, project: str) -> str:
    """The files of a page as JSON, which is what is kept: to load what reads pages takes long."""
    from pypi_simple import ProjectPage, UnsupportedRepoVersionError

    kind = answer.kind.partition(";")[0].strip().lower()
    try:
        if kind == "application/vnd.pypi.simple.v1+json":
            page = ProjectPage.from_json_data(json.loads(answer.text), answer.url)
        elif kind in ("text/html", "application/vnd.pypi.simple.v1+html", ""):
            page = ProjectPage.from_html(project, answer.text, answer.url)
        else:
            raise ValueError(f"it is {kind}")
    except (UnsupportedRepoVersionError, ValueError) as error:
        raise Unreachable(
            f"{without_credentials(asked)}: this is no page of a package index: {error}",
            "look at the index settings",
        ) from error
    files = (
        File(
            filename=package.filename,
            url=package.url,
            requires_python=package.requires_python,
            sha256=package.digests.get("sha256"),
            uploaded=package.upload_time.date().isoformat() if package.upload_time else None,
            is_yanked=package.is_yanked,
        )
        for package in page.packages
    )
    return json.dumps([asdict(file) for file in files])


class Index:
    """The PyTorch index and the default index, for one interpreter.

    A page is asked for once in a process.

    Args:
        say: is told what the user must know, for instance that a kept page was used.
    """

    def __init__(
        self, web: Web, sources: Sources, interpreter: Interpreter, say: Callable[[str], None]
    ) -> None:
        self.web = web
        self.sources = sources
        self.interpreter = interpreter
        self._say = say
        self._pages: dict[str, tuple[File, ...] | Unavailable] = {}

    def nightlies(self, variant: str, project: str = "torch") -> Listing:
        """What the PyTorch index lists for nightlies of a variant.

        Raises:
            repro.web.Unreachable: the index does not answer and nothing is kept.
            Unavailable: it has no such page.
        """
        return self._listing(self.sources.nightly(variant), project, Origin.PYTORCH, variant)

    def releases(self, variant: str, project: str = "torch") -> Listing:
        """What the PyTorch index lists for releases of a variant; as `nightlies`.

        Nothing where the user named an index of their own for releases.
        """
        if not self.sources.has_pytorch_releases:
            return Listing(())
        return self._listing(self.sources.release(variant), project, Origin.PYTORCH, variant)

    def default_releases(self) -> Listing:
        """What the default index lists, whose wheels tell no variant; as `nightlies`."""
        return self._listing(self.sources.default, "torch", Origin.DEFAULT, "")

    def _listing(self, index: str, project: str, origin: Origin, shelf: str) -> Listing:
        files = (
            replace(file, url=with_credentials(file.url, index))
            for file in self._files(index, project)
        )
        return listing_of(files, self.interpreter, origin, shelf)

    def _files(self, index: str, project: str) -> tuple[File, ...]:
        url = f"{index}/{project}/"
        if url not in self._pages:
            try:
                self._pages[url] = fetch_files(self.web, url, project, self._say)
            except Unavailable as error:
                self._pages[url] = error
        files = self._pages[url]
        if isinstance(files, Unavailable):
            raise files
        return files
