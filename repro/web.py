"""HTTP: pages of an index, kept on disk, and parts of wheels. The one place that asks the network.

Installing is uv's, which has a client of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from repro.builds import LOOK, without_credentials
from repro.errors import Unavailable

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
        folder: where pages are kept, with the server's validators (ETag, Last-Modified).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        seconds = _number(TIMEOUT_VARIABLE, READ_TIMEOUT)
        self.timeout = min(seconds, CONNECT_TIMEOUT), seconds

    @functools.cached_property
    def session(self) -> Session:
        """A session that keeps nothing."""
        from requests import Session

        return _patient(Session())

    @functools.cached_property
    def _keeping(self) -> Session:
        """A session that keeps pages and asks the server each time whether they still hold."""
        from requests_cache import EXPIRE_IMMEDIATELY, CachedSession

        self.folder.mkdir(parents=True, exist_ok=True)
        return _patient(
            CachedSession(
                self.folder / "pages",
                backend="sqlite",
                wal=True,  # several processes read and write it at once
                always_revalidate=True,
                expire_after=EXPIRE_IMMEDIATELY,
            )
        )

    def page(self, url: str, accept: str, say: Callable[[str], None]) -> Response:
        """A page. When the server cannot be reached the one that was kept is used, and it is said.

        Raises:
            Unreachable: no answer, and nothing is kept.
            Unavailable: the server has no such page.
        """
        from requests import RequestException
        from requests.utils import get_auth_from_url

        headers = {"Accept": accept}
        # Apart from the URL, which is kept with the page.
        auth = get_auth_from_url(url)
        url = without_credentials(url)

        def get() -> Response:
            wanted: dict[str, Any] = {"headers": headers, "timeout": self.timeout}
            if any(auth):
                wanted["auth"] = auth
            try:
                try:
                    answer = self._keeping.get(url, **wanted)
                except (OSError, sqlite3.Error) as error:
                    if isinstance(error, RequestException):
                        raise
                    say(f"{self.folder}: pages cannot be kept: {error}")
                    answer = self.session.get(url, **wanted)
                answer.raise_for_status()
            except RequestException as error:
                raise fault_of(error, f"index page {url}") from error
            return answer

        try:
            return twice(get)
        except Unreachable as fault:
            kept = self._kept(url, headers)
            if kept is None:
                raise
            say(f"{fault}; what it said on {kept[1]} is used")
            return kept[0]

    def _kept(self, url: str, headers: dict[str, str]) -> tuple[Response, str] | None:
        from requests import Request
        from requests_cache import CachedSession

        with contextlib.suppress(OSError, sqlite3.Error):
            session = self._keeping
            assert isinstance(session, CachedSession)
            request = session.prepare_request(Request("GET", url, headers=headers))
            found = session.cache.get_response(session.cache.create_key(request))
            if found is not None:
                return found, f"{found.created_at:%Y-%m-%d %H:%M} UTC"
        return None

    def exists(self, url: str) -> bool:
        """Whether the server gives a file; 403 and 404 mean that it does not.

        Raises:
            Unreachable: no answer.
        """
        from requests import RequestException

        name = unquote(urlsplit(url).path).rpartition("/")[2]
        try:
            answer = self.session.head(url, timeout=self.timeout, allow_redirects=True)
            if answer.status_code in _GONE:
                return False
            answer.raise_for_status()
        except RequestException as error:
            raise fault_of(error, name) from error
        return True


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

    if isinstance(error, HTTPError) and error.response is not None:
        status = error.response.status_code
        if status in _GONE:
            return Unavailable(f"{name}: the server answers {status}, not available", LOOK)
        return Unreachable(f"{name}: the server answers {status}", "try it again later")
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
