"""Which wheels there are: pages of package indexes (PEP 503 and 691), read for one interpreter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from repro.builds import Build, Origin, with_credentials, without_credentials
from repro.errors import Unavailable
from repro.interpreters import Interpreter
from repro.sources import Sources
from repro.web import Unreachable, Web

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, ProjectPage


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
    packages: Iterable[DistributionPackage], interpreter: Interpreter, origin: Origin, shelf: str
) -> Listing:
    """The wheels of a page that fit an interpreter."""
    tags = interpreter.tags()
    builds: list[Build] = []
    withdrawn: list[Build] = []
    others = 0
    for package in packages:
        try:
            _, version, _, wheel_tags = parse_wheel_filename(package.filename)
            needs = SpecifierSet(package.requires_python or "")
        except (InvalidWheelFilename, InvalidSpecifier):
            continue  # source archives, and names that no installer would take
        places = [tags[tag] for tag in wheel_tags if tag in tags]
        if not places or interpreter.full not in needs:
            others += 1
            continue
        build = Build(
            version=version,
            filename=package.filename,
            url=package.url,
            origin=origin,
            shelf=shelf,
            sha256=package.digests.get("sha256"),
            uploaded=package.upload_time.date() if package.upload_time else None,
            preference=min(places),
        )
        (withdrawn if package.is_yanked else builds).append(build)
    return Listing(tuple(builds), tuple(withdrawn), others, interpreter.full)


def fetch_page(web: Web, url: str, project: str, say: Callable[[str], None]) -> ProjectPage:
    """The page of a project, in either format.

    Raises:
        repro.web.Unreachable: no answer, or one that is no such page, and nothing is kept.
        Unavailable: there is no such page.
    """
    from pypi_simple import ACCEPT_JSON_PREFERRED, ProjectPage, UnsupportedRepoVersionError

    page = web.page(url, ACCEPT_JSON_PREFERRED, say)
    kind = page.kind.partition(";")[0].strip().lower()
    try:
        if kind == "application/vnd.pypi.simple.v1+json":
            return ProjectPage.from_json_data(json.loads(page.text), page.url)
        if kind in ("text/html", "application/vnd.pypi.simple.v1+html", ""):
            return ProjectPage.from_html(project, page.text, page.url)
        raise ValueError(f"it is {kind}")
    except (UnsupportedRepoVersionError, ValueError) as error:
        raise Unreachable(
            f"{without_credentials(url)}: this is no page of a package index: {error}",
            "look at the index settings",
        ) from error


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
        self._pages: dict[str, ProjectPage | Unavailable] = {}

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
        packages = self._page(index, project).packages
        for package in packages:
            package.url = with_credentials(package.url, index)
        return listing_of(packages, self.interpreter, origin, shelf)

    def _page(self, index: str, project: str) -> ProjectPage:
        url = f"{index}/{project}/"
        if url not in self._pages:
            try:
                self._pages[url] = fetch_page(self.web, url, project, self._say)
            except Unavailable as error:
                self._pages[url] = error
        page = self._pages[url]
        if isinstance(page, Unavailable):
            raise page
        return page
