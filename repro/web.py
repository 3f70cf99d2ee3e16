"""HTTP: pages of an index, kept on disk, and parts of wheels. The one place that asks the network.

Installing is uv's, which has a client of its own.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from repro.builds import LOOK, without_credentials
from repro.errors import Unavailable
from repro.pages import Answer, Page, Pages

if TYPE_CHECKING:
    from requests import Response, Session

T = TypeVar("T")
# uv's own settings hold here too: seconds between two packets, and how often a request is repeated.
TIMEOUT_VARIABLE, RETRIES_VARIABLE = "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES"
CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 30.0
RETRIES = 2
RETRY_BACKOFF = 0.5
PASSING = (429, 500, 502, 503, 504)
_GONE = (401, 403, 404, 410)


class Unreachable(Unavailable):
    """The server did not answer, or with an error of its own: another server may have it."""


class CutOff(Unreachable):
    """The answer broke off half way, which the client library does not repeat by itself."""


class Web:
    """Requests that are bounded and repeated where that can help.

    Args:
        folder: where pages are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._pages = Pages(folder)
        seconds = _number(TIMEOUT_VARIABLE, READ_TIMEOUT)
        self.timeout = min(seconds, CONNECT_TIMEOUT), seconds

    @functools.cached_property
    def session(self) -> Session:
        """The session of all requests."""
        from requests import Session

        return _patient(Session())

    def page(
        self, url: str, accept: str, read: Callable[[Answer], str], say: Callable[[str], None]
    ) -> str:
        """What is read of a page, and kept; a kept one that still holds is not read again.

        When the server cannot be reached what was kept is used, and it is said.

        Raises:
            Unreachable: no answer, and nothing is kept.
            Unavailable: the server has no such page.
        """
        from requests.utils import get_auth_from_url

        # Credentials are no part of what is kept.
        auth = get_auth_from_url(url)
        url = without_credentials(url)
        kept = self._pages.find(url)
        try:
            page = twice(
                lambda: self._fetched(url, accept, read, auth if any(auth) else None, kept)
            )
        except Unreachable as fault:
            if kept is None:
                raise
            say(f"{fault}; what it said on {kept.fetched} is used")
            return kept.read
        if page is not kept:
            try:
                self._pages.keep(url, page)
            except OSError as error:
                say(f"{self._pages.folder}: pages cannot be kept: {error.strerror or error}")
        return page.read

    def _fetched(
        self,
        url: str,
        accept: str,
        read: Callable[[Answer], str],
        auth: tuple[str, str] | None,
        kept: Page | None,
    ) -> Page:
        """The page as it is now: the kept one, where the server says that it still holds."""
        from requests import RequestException

        headers = {"Accept": accept}
        if kept is not None and kept.etag:
            headers["If-None-Match"] = kept.etag
        if kept is not None and kept.modified:
            headers["If-Modified-Since"] = kept.modified
        try:
            answer = self.session.get(url, headers=headers, auth=auth, timeout=self.timeout)
            answer.raise_for_status()
        except RequestException as error:
            raise fault_of(error, f"index page {url}") from error
        if answer.status_code == HTTPStatus.NOT_MODIFIED and kept is not None:
            return kept
        kind = answer.headers.get("Content-Type", "")
        return Page(
            read=read(Answer(without_credentials(answer.url), kind, answer.text)),
            etag=answer.headers.get("ETag", ""),
            modified=answer.headers.get("Last-Modified", ""),
            fetched=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        )

    def stamp(self, url: str) -> str:
        """What tells two files at one address apart, as far as the server says.

        Raises:
            Unavailable: the file cannot be had.
        """
        headers = self._head(url).headers
        names = ("ETag", "Last-Modified", "Content-Length")
        return " ".join(headers.get(name, "") for name in names).strip()

    def size(self, url: str) -> int | None:
        """Bytes of a file, None where the server does not tell.

        Raises:
            Unavailable: the file cannot be had.
        """
        stated = self._head(url).headers.get("Content-Length", "")
        return int(stated) if stated.isdecimal() else None

    def exists(self, url: str) -> bool:
        """Whether the server gives a file; 403 and 404 mean that it does not.

        Raises:
            Unreachable: no answer.
        """
        try:
            self._head(url)
        except Unreachable:
            raise
        except Unavailable:
            return False
        return True

    def _head(self, url: str) -> Response:
        from requests import RequestException

        name = unquote(urlsplit(url).path).rpartition("/")[2]
        try:
            answer = self.session.head(url, timeout=self.timeout, allow_redirects=True)
            answer.raise_for_status()
        except RequestException as error:
            raise fault_of(error, name) from error
        return answer


def _number(variable: str, otherwise: float) -> float:
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise


def twice(attempt: Callable[[], T]) -> T:
    """What an attempt gives; a second one is made where the first was cut off."""
    try:
        return attempt()
    except CutOff:
        return attempt()


def _patient(session: Session) -> Session:
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    retry = Retry(
        total=int(_number(RETRIES_VARIABLE, RETRIES)),
        # No connection at all seldom comes back within a second, and there may be a kept page.
        connect=1,
        backoff_factor=RETRY_BACKOFF,
        status_forcelist=PASSING,
        # The last answer itself says more than that retrying did not help.
        raise_on_status=False,
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    return session


def fault_of(error: BaseException, name: str) -> Unavailable:
    """What went wrong with a request, as a sentence that names the page or file.

    Args:
        error: of requests or urllib3.
    """
    from requests import ConnectionError, HTTPError, ReadTimeout, Timeout
    from requests.exceptions import InvalidSchema, InvalidURL

    if isinstance(error, HTTPError) and error.response is not None:
        status = error.response.status_code
        if status in _GONE:
            return Unavailable(f"{name}: the server answers {status}, not available", LOOK)
        return Unreachable(f"{name}: the server answers {status}", "try it again later")
    if isinstance(error, (InvalidURL, InvalidSchema)):
        return Unavailable(f"{name}: this is no address of a server", "look at the address")
    text = re.sub(r"\s+", " ", str(error))
    if isinstance(error, Timeout):
        what = "stalled" if isinstance(error, ReadTimeout) else "did not answer"
        return Unreachable(f"{name}: the server {what}", "look at the network and try it again")
    if "Read timed out" in text:  # within a body it is a ConnectionError, or one of urllib3's
        return CutOff(f"{name}: the server stalled", "look at the network and try it again")
    if "IncompleteRead" in text or "Connection broken" in text:
        return CutOff(f"{name}: what came was cut off", "look at the network and try it again")
    if isinstance(error, ConnectionError):
        return Unreachable(
            f"{name}: the server cannot be reached",
            "look at the network, the proxy and the index settings, then run it again",
        )
    return Unreachable(f"{name}: what came is damaged: {text[:200]}", "try it again")
