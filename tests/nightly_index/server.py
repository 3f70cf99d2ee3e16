"""The server: indexes on loopback, faults, and a count of what was moved.

Open an `IndexServer`, ask it for shelves, put wheels on them, and give the `url` of a shelf to what
is tested. `Shelf.fail` plants a fault; `IndexServer.requests`, `count` and `moved` tell what was
asked.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import threading
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from packaging.utils import canonicalize_name

from tests.nightly_index.answers import Answer, answer, plain
from tests.nightly_index.faults import Cut, Fault, Reset, Stall, Status
from tests.nightly_index.shelf import USUAL, Options, Resource, Shelf

_LOOK_EVERY = 0.02
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_HEADERS = ("Accept", "If-None-Match", "If-Range", "Range")


@dataclass
class Request:
    """One request.

    Args:
        path: not quoted.
        range: its Range header, "" where there was none.
        status: of the answer; 0 where none was sent.
        sent: bytes of the body that were handed to the network.
    """

    method: str
    path: str
    range: str = ""
    status: int = 0
    sent: int = 0


class IndexServer:
    """Serves shelves from a free port of 127.0.0.1 while it is open as a context."""

    def __init__(self) -> None:
        self.shelves: dict[str, Shelf] = {}
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._faults: dict[str, Fault] = {}
        self._requests: list[Request] = []
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_LOOK_EVERY,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> IndexServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()
        if self._server.broken is not None and error is None:
            raise self._server.broken

    def shelf(
        self, root: str, options: Options = USUAL, files_on: IndexServer | None = None
    ) -> Shelf:
        """A new index below a root.

        Args:
            files_on: another server, which the links then name; it serves the files alone.
        """
        made = Shelf(root, self, files_on or self, options)
        self.shelves[root] = made
        if files_on is not None:
            files_on.shelves[root] = made
        return made

    def fail(self, path: str, fault: Fault) -> None:
        """Spoil the answers of a path (not quoted), in place of what spoilt them before."""
        with self._lock:
            self._faults[path] = fault

    def mend(self) -> None:
        """Behave from now on."""
        with self._lock:
            self._faults.clear()

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order in which they came."""
        with self._lock:
            return [replace(request) for request in self._requests]

    def forget(self) -> None:
        """Count from here."""
        with self._lock:
            self._requests.clear()

    def count(self, path: str, method: str = "GET") -> int:
        """How many requests of a path."""
        return sum((r.path, r.method) == (path, method) for r in self.requests)

    def moved(self, path: str | None = None) -> int:
        """Bytes of bodies sent for a path, or for all."""
        return sum(r.sent for r in self.requests if path in (None, r.path))

    def note(self, request: Request, sent: int = 0) -> None:
        """Count before sending, so that who has the bytes finds them counted."""
        with self._lock:
            request.sent += sent

    def opened(self, method: str, path: str, byte_range: str) -> Request:
        """Write down that a request came."""
        request = Request(method, path, byte_range)
        with self._lock:
            self._requests.append(request)
        return request

    def fault(self, path: str, length: int) -> Fault | None:
        """The fault that spoils an answer of this length, counted down."""
        with self._lock:
            found = self._faults.get(path)
            if isinstance(found, Cut) and found.after is not None and length <= found.after:
                return None
            if found is not None and found.times is not None:
                if found.times <= 0:
                    return None
                self._faults[path] = replace(found, times=found.times - 1)
            return found

    def answer(self, path: str, asked: dict[str, str]) -> Answer:
        """What a well-behaved index would say."""
        if moved := self._moved(path):
            return plain(301, "moved", Location=quote(moved))
        found = self._find(path, asked["Accept"])
        return plain(404, "not here") if found is None else answer(found, asked)

    def _find(self, path: str, accept: str) -> Resource | None:
        shelf = self.shelves.get(path.strip("/").rpartition("/")[0]) or self.shelves.get(
            path.strip("/")
        )
        if shelf is None:
            return None
        if path.endswith("/"):
            return shelf.listing(path, accept) if shelf.host is self else None
        return shelf.file(path) if shelf.files is self else None

    def _moved(self, path: str) -> str | None:
        """The page that is meant by a path without its slash, or by another spelling."""
        root, _, project = path.strip("/").rpartition("/")
        if path.strip("/") in self.shelves:
            wanted = f"/{path.strip('/')}/"
        elif root in self.shelves and not project.endswith((".whl", ".metadata")):
            wanted = f"/{root}/{canonicalize_name(project)}/"
        else:
            return None
        return None if path == wanted else wanted


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, index: IndexServer) -> None:
        self.index = index
        self.broken: BaseException | None = None
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End connections that clients keep open, or their threads would wait for ever."""
        for connection in tuple(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it ended meanwhile

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError):  # else a client that went away, as some must
            self.broken = self.broken or error


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes; together with delayed ACKs this would cost 40 ms a request.
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        index = self.server.index
        path = unquote(urlsplit(self.path).path)
        asked = {name: self.headers.get(name, "") for name in _HEADERS}
        request = index.opened(self.command, path, asked["Range"])
        made = index.answer(path, asked)
        length = made.length if self.command == "GET" else 0
        fault = index.fault(path, length)
        if isinstance(fault, Status):
            made, fault = plain(fault.code, f"planted: {fault.code}"), None
        if not isinstance(fault, Cut):
            self._send(made, request, made.length)
            return
        if fault.after is not None:
            self._send(made, request, fault.after)
        self._end(fault)

    do_HEAD = do_GET

    def _send(self, made: Answer, request: Request, limit: int) -> None:
        request.status = made.status
        self.send_response(made.status)
        for name, value in made.headers.items():
            self.send_header(name, value)
        if made.status != 304:
            self.send_header("Content-Length", str(made.length))
        self.end_headers()
        if self.command == "HEAD":
            return
        for chunk in made.content.read(made.start, made.start + min(limit, made.length)):
            self.server.index.note(request, len(chunk))
            self.wfile.write(chunk)

    def _end(self, fault: Cut) -> None:
        self.close_connection = True
        if isinstance(fault, Stall):
            while not self.server.index.stopping.wait(_LOOK_EVERY) and not _gone(self.connection):
                pass
        elif isinstance(fault, Reset):
            # Not by `shutdown`, which would say goodbye first.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            socket.close(self.connection.detach())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _gone(connection: socket.socket) -> bool:
    """Whether the client has hung up."""
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except ConnectionError:
        return True
