"""The package index that other tests install nightlies from: pages, ranges, faults, counts."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly_index.answers import byte_range
from tests.nightly_index.checks import fetch
from tests.nightly_index.content import Content, Piece
from tests.nightly_index.faults import Reset, Stall, Status, Truncated
from tests.nightly_index.pages import JSON, wants_json
from tests.nightly_index.server import IndexServer
from tests.nightly_index.shelf import Options, Shelf
from tests.nightly_index.wheels import (
    Wheel,
    days,
    fake_nightlies,
    fake_torch,
    fake_triton,
    nightly_version,
)

MAY, JULY = date(2026, 5, 1), date(2026, 7, 9)
VERSION = "2.13.0.dev20260528+cpu"


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer() as made:
        yield made


@pytest.fixture
def shelf(server: IndexServer) -> Shelf:
    return server.shelf("nightly/cpu")


class Anchors(HTMLParser):
    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def anchors(shelf: Shelf, project: str = "torch") -> list[dict[str, str | None]]:
    return Anchors(fetch(f"{shelf.url}/{project}/")[2]).found


# --- pages --------------------------------------------------------------------------------------


def test_html_and_json_tell_the_same(server):
    shelf = server.shelf("cpu", Options(hashes=True, metadata_files=True))
    wheel = fake_torch("2.13.0+cpu")
    shelf.add(wheel, yanked="broken & <withdrawn>")
    [link] = anchors(shelf)
    quoted = wheel.filename.replace("+", "%2B")
    assert link["href"] == f"/cpu/{quoted}#sha256={wheel.content.sha256}"
    assert link["data-yanked"] == "broken & <withdrawn>"
    assert link["data-requires-python"] == ">=3.10"
    page = json.loads(fetch(f"{shelf.url}/torch/", Accept=JSON)[2])
    [file] = page["files"]
    assert page["name"] == "torch"
    assert file["filename"] == wheel.filename
    assert file["hashes"] == {"sha256": wheel.content.sha256}
    assert file["yanked"] == link["data-yanked"]
    assert file["requires-python"] == link["data-requires-python"]
    hashed = file["core-metadata"]["sha256"]
    assert link["data-core-metadata"] == f"sha256={hashed}"
    assert sha256(fetch(urljoin(server.url, file["url"]) + ".metadata")[2]).hexdigest() == hashed


@pytest.mark.parametrize(
    ("accept", "json_wanted"),
    [
        ("", False),
        ("*/*", False),
        (JSON, True),
        (f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01", True),
        (f"text/html, {JSON};q=0.5", False),
    ],
)
def test_the_accept_header_decides(accept, json_wanted):
    assert wants_json(accept) is json_wanted


def test_an_index_may_know_html_alone(server):
    shelf = server.shelf("nightly/cpu", Options(json=False))
    shelf.add(fake_torch(VERSION))
    assert fetch(f"{shelf.url}/torch/", Accept=JSON)[1]["Content-Type"] == "text/html"


def test_the_newest_60_are_listed_and_older_ones_still_served(shelf):
    wheels = fake_nightlies(days(MAY, JULY, missing=[date(2026, 6, 1)]))
    assert len(wheels) == 69
    shelf.add(*wheels)
    listed = [unquote(link["href"] or "") for link in anchors(shelf)]
    assert listed == [shelf.path(wheel) for wheel in wheels[-60:]]
    assert fetch(shelf.file_url(wheels[0]))[0] == 200


def test_the_newest_are_so_by_version_not_by_text(server):
    shelf = server.shelf("cpu", Options(listed=1))
    shelf.add(fake_torch("2.10.0+cpu"), fake_torch("2.9.1+cpu"))
    [link] = anchors(shelf)
    assert "torch-2.10.0" in (link["href"] or "")


def test_files_may_lie_on_another_host(server):
    with IndexServer() as other:
        shelf = server.shelf("nightly/cpu", files_on=other)
        wheel = fake_torch(VERSION)
        shelf.add(wheel)
        [link] = anchors(shelf)
        assert link["href"] == shelf.file_url(wheel)
        assert fetch(shelf.file_url(wheel))[2] == b"".join(wheel.content.read())
        assert fetch(server.url + urlsplit(shelf.file_url(wheel)).path)[0] == 404
        assert fetch(f"{other.url}/nightly/cpu/torch/")[0] == 404


def test_two_indexes_of_one_server_are_apart(server, shelf):
    default = server.shelf("simple")
    shelf.add(fake_torch(VERSION))
    default.add(fake_triton("3.7.0", "default"))
    assert fetch(f"{default.url}/torch/")[0] == 404
    assert fetch(f"{shelf.url}/triton/")[0] == 404
    assert [link["href"] for link in Anchors(fetch(f"{default.url}/")[2]).found] == ["triton/"]


@pytest.mark.parametrize("path", ["nightly/cpu/torch", "nightly/cpu/Torch/", "nightly/cpu"])
def test_other_spellings_of_a_page_lead_to_it(server, shelf, path):
    shelf.add(fake_torch(VERSION))
    status, headers, _ = fetch(f"{server.url}/{path}")
    assert status == 301
    assert fetch(server.url + headers["Location"])[0] == 200


def test_a_wheel_can_be_taken_off(shelf):
    wheel = fake_torch(VERSION)
    shelf.add(wheel)
    shelf.remove(wheel)
    assert fetch(shelf.file_url(wheel))[0] == fetch(f"{shelf.url}/torch/")[0] == 404


# --- validators, ranges, counts -----------------------------------------------------------------


def test_a_page_has_a_validator_that_changes_with_it(shelf):
    shelf.add(fake_torch(VERSION))
    tag = fetch(f"{shelf.url}/torch/")[1]["ETag"]
    assert fetch(f"{shelf.url}/torch/", If_None_Match=tag)[::2] == (304, b"")
    assert fetch(f"{shelf.url}/torch/", If_None_Match=tag, Accept=JSON)[0] == 200
    shelf.add(fake_torch(nightly_version(MAY)))
    assert fetch(f"{shelf.url}/torch/", If_None_Match=f"W/{tag}")[0] == 200


def test_validators_can_be_off(server):
    shelf = server.shelf("cpu", Options(validators=False))
    shelf.add(fake_torch(VERSION))
    assert "ETag" not in fetch(f"{shelf.url}/torch/")[1]


@given(st.binary(min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 70))
def test_a_range_is_a_slice(data, first, last):
    content = Content((data[:7], data[7:8], data[8:]))
    for text, slice_ in (
        (f"bytes={first}-{last}", data[first : last + 1]),
        (f"bytes={first}-", data[first:]),
        (f"bytes=-{last}", data[-last:] if last else b""),
    ):
        found = byte_range(text, content.size)
        if found is None:
            assert last < first
        else:
            assert b"".join(content.read(*found)) == slice_


def test_a_wheel_is_served_in_ranges(server, shelf):
    wheel = fake_torch(VERSION)
    shelf.add(wheel)
    url, data = shelf.file_url(wheel), b"".join(wheel.content.read())
    status, headers, body = fetch(url, "HEAD")
    assert (status, body, headers["Accept-Ranges"]) == (200, b"", "bytes")
    assert int(headers["Content-Length"]) == len(data)
    tag = headers["ETag"]
    server.forget()
    status, headers, body = fetch(url, Range="bytes=10-19", If_Range=tag)
    assert (status, body) == (206, data[10:20])
    assert headers["Content-Range"] == f"bytes 10-19/{len(data)}"
    assert server.moved(shelf.path(wheel)) == server.moved() == 10
    assert [r.range for r in server.requests] == ["bytes=10-19"]
    assert fetch(url, Range="bytes=10-19", If_Range='"other"')[::2] == (200, data)
    assert fetch(url, Range="bytes=0-1,5-6")[::2] == (200, data)
    assert fetch(url, Range=f"bytes={len(data)}-")[0] == 416
    assert server.count(shelf.path(wheel)) == 4


def test_ranges_can_be_off(server):
    shelf = server.shelf("nightly/cpu", Options(ranges=False))
    wheel = fake_torch(VERSION)
    shelf.add(wheel)
    status, headers, body = fetch(shelf.file_url(wheel), Range="bytes=0-3")
    assert (status, len(body)) == (200, wheel.content.size)
    assert "Accept-Ranges" not in headers


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [403, 404, 500])
def test_a_status_can_be_planted_for_a_page_and_for_a_file(shelf, code):
    wheel = fake_torch(VERSION)
    shelf.add(wheel)
    shelf.fail(wheel, Status(code))
    assert {fetch(shelf.file_url(wheel))[0] for _ in range(3)} == {code}
    assert fetch(f"{shelf.url}/torch/")[0] == 200
    shelf.fail("torch", Status(code, times=2))
    assert [fetch(f"{shelf.url}/torch/")[0] for _ in range(3)] == [code, code, 200]


def test_a_stall_says_nothing_at_all(server, shelf):
    shelf.add(fake_torch(VERSION))
    shelf.fail("torch", Stall())
    with pytest.raises(TimeoutError):
        fetch(f"{shelf.url}/torch/", timeout=0.2)
    [request] = server.requests
    assert (request.status, request.sent) == (0, 0)
    server.mend()
    assert fetch(f"{shelf.url}/torch/")[0] == 200


def test_a_stall_can_begin_after_some_bytes(server, shelf):
    wheel = fake_torch(VERSION)
    shelf.add(wheel)
    shelf.fail(wheel, Stall(after=100))
    with pytest.raises(TimeoutError):
        fetch(shelf.file_url(wheel), timeout=0.2)
    assert server.moved() == 100
    assert fetch(shelf.file_url(wheel), Range="bytes=0-99")[0] == 206


def test_the_server_can_be_closed_while_it_stalls():
    before = threading.active_count()
    with IndexServer() as server:
        shelf = server.shelf("nightly/cpu")
        server.fail(shelf.page("torch"), Stall())
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                fetch(f"{shelf.url}/torch/", timeout=30)
            except (http.client.RemoteDisconnected, ConnectionError) as error:
                ended.append(error)

        client = threading.Thread(target=wait)
        client.start()
        while not server.requests:
            time.sleep(0.01)
        began = time.monotonic()
    client.join()
    assert time.monotonic() - began < 5
    assert len(ended) == 1
    assert threading.active_count() == before


def test_a_kept_connection_does_not_keep_the_server():
    with IndexServer() as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        connection.request("GET", "/")
        assert connection.getresponse().read()
        began = time.monotonic()
    assert time.monotonic() - began < 5
    connection.close()


def test_a_body_can_be_truncated(server, shelf):
    wheel = fake_torch(VERSION)
    shelf.add(wheel)
    shelf.fail(wheel, Truncated(after=1000, times=1))
    with pytest.raises(http.client.IncompleteRead) as caught:
        fetch(shelf.file_url(wheel))
    assert len(caught.value.partial) == 1000
    assert caught.value.expected == wheel.content.size - 1000
    assert fetch(shelf.file_url(wheel))[0] == 200


@pytest.mark.parametrize("after", [None, 0, 1000])
def test_a_connection_can_be_reset(shelf, after):
    wheel = fake_torch(VERSION)
    shelf.add(wheel)
    shelf.fail(wheel, Reset(after=after))
    with pytest.raises(ConnectionResetError):
        fetch(shelf.file_url(wheel))


def test_what_breaks_in_the_server_is_not_swallowed(tmp_path):
    lost = Content((Piece(tmp_path / "gone", 0, 10),))
    wheel = Wheel("torch-1.0-py3-none-any.whl", b"", lambda: lost)
    server = IndexServer()
    shelf = server.shelf("cpu")
    shelf.add(wheel)

    def use() -> None:
        with server, pytest.raises(http.client.IncompleteRead):
            fetch(shelf.file_url(wheel))

    with pytest.raises(FileNotFoundError):
        use()
