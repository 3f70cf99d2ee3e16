"""Pages of an index as an interpreter sees them, and what is said when the index is away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from packaging.version import Version

import repro.web
from repro.builds import Origin
from repro.errors import ReproError, Unavailable
from repro.index import File, Index, fetch_files, listing_of
from repro.interpreters import Interpreter, find_interpreter
from repro.sources import Sources
from repro.web import Unreachable, Web
from tests.nightly_index.faults import Reset, Stall, Status, Truncated
from tests.nightly_index.server import IndexServer
from tests.nightly_index.shelf import Options, Shelf
from tests.nightly_index.wheels import days, fake_nightlies, fake_torch, fake_triton, host_tag

MAY = days(date(2026, 5, 1), date(2026, 5, 9), missing=[date(2026, 5, 4)])


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer() as made:
        yield made


@pytest.fixture
def shelf(server: IndexServer) -> Shelf:
    made = server.shelf("nightly/cpu")
    made.add(*fake_nightlies(MAY))
    return made


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repro.web, "RETRY_BACKOFF", 0.0)
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")


class Opened(Index):
    """An index of a test server, and what it said."""

    def __init__(
        self, server: IndexServer, folder: Path, interpreter: Interpreter | None = None
    ) -> None:
        self.said: list[str] = []
        super().__init__(
            Web(folder),
            Sources(f"{server.url}/simple", f"{server.url}/nightly"),
            interpreter or find_interpreter(None),
            self.said.append,
        )


@pytest.fixture
def index(server: IndexServer, tmp_path: Path) -> Opened:
    return Opened(server, tmp_path)


@pytest.mark.parametrize("json", [True, False], ids=["PEP 691", "PEP 503"])
def test_both_formats_give_the_same(json, server, index):
    shelf = server.shelf("nightly/cpu", Options(json=json, hashes=True))
    wheels = fake_nightlies(MAY)
    shelf.add(*wheels)
    listing = index.nightlies("cpu")
    assert [b.day for b in sorted(listing.builds, key=lambda b: b.version)] == MAY
    assert {b.filename: b.sha256 for b in listing.builds} == {
        w.filename: w.content.sha256 for w in wheels
    }
    assert {b.url for b in listing.builds} == {shelf.file_url(w) for w in wheels}
    assert {b.origin for b in listing.builds} == {Origin.PYTORCH}
    assert {b.variant for b in listing.builds} == {"cpu"}


def test_links_to_another_host_are_followed(server, index):
    with IndexServer() as elsewhere:
        shelf = server.shelf("nightly/cpu", files_on=elsewhere)
        [wheel] = fake_nightlies(MAY[:1])
        shelf.add(wheel)
        [build] = index.nightlies("cpu").builds
        assert build.url.startswith(elsewhere.url)
        assert index.web.exists(build.url)


def test_other_pythons_and_platforms_are_left_out(shelf, index):
    ours = len(MAY)
    for tag in ("cp27-cp27m-manylinux1_x86_64", "cp311-cp311-win_amd64", "pp311-pypy311_pp73-any"):
        shelf.add(fake_torch("2.13.0.dev20260601+cpu", tag=tag))
    listing = index.nightlies("cpu")
    assert (len(listing.builds), listing.others) == (ours, 3)


def test_the_python_of_the_environments_decides(server, shelf, tmp_path):
    platform = host_tag().rpartition("-")[2]
    shelf.add(fake_torch("2.13.0.dev20260601+cpu", tag=f"cp314-cp314-{platform}"))
    shelf.add(fake_torch("2.13.0.dev20260602+cpu", tag=f"cp314-cp314t-{platform}"))
    ours = find_interpreter(None)
    newer = replace(ours, version=(3, 14), full="3.14.2")
    [build] = Opened(server, tmp_path, newer).nightlies("cpu").builds
    assert build.day == date(2026, 6, 1)
    threaded = replace(newer, free_threaded=True)
    [build] = Opened(server, tmp_path, threaded).nightlies("cpu").builds
    assert build.day == date(2026, 6, 2)


def test_requires_python_holds(server, index, tmp_path):
    wheel = fake_torch("2.13.0.dev20260601+cpu")  # its METADATA asks for 3.10
    shelf = server.shelf("nightly/cpu")
    shelf.add(wheel)
    assert len(index.nightlies("cpu").builds) == 1
    older = replace(find_interpreter(None), full="3.9.9")
    assert Opened(server, tmp_path, older).nightlies("cpu").others == 1


def test_yanked_files_are_left_out(shelf, index):
    wheel = fake_torch("2.13.0.dev20260601+cpu")
    shelf.add(wheel, yanked="broken")
    listing = index.nightlies("cpu")
    assert Version("2.13.0.dev20260601+cpu") not in {b.version for b in listing.builds}
    assert [b.filename for b in listing.withdrawn] == [wheel.filename]


def test_what_is_no_wheel_is_passed_over():
    names = (
        "torch-2.12.1.tar.gz", "torch-2.12.1-x1-py3-none-any.whl", "torch-x.y-py3-none-any.whl",
        "torch-2.12.1-py3-none-any.whl", "readme.txt",
    )  # fmt: skip
    files = [File(name, f"https://torch.example/{name}") for name in names]
    listing = listing_of(files, find_interpreter(None), Origin.PYTORCH, "cpu")
    assert [b.filename for b in listing.builds] == ["torch-2.12.1-py3-none-any.whl"]
    assert listing.builds[0].url == "https://torch.example/torch-2.12.1-py3-none-any.whl"
    assert listing.others == 0


def test_another_project_has_its_own_page(server, shelf, index):
    shelf.add(fake_triton("3.5.0+gitabc", "pytorch"))
    [found] = index.nightlies("cpu", "triton").builds
    assert str(found.version) == "3.5.0+gitabc"


def test_releases_come_from_the_index_that_was_named(server, tmp_path):
    server.shelf("simple").add(fake_torch("2.12.1"))
    index = Opened(server, tmp_path)
    assert not index.sources.has_pytorch_releases
    assert index.releases("cpu").builds == ()
    [build] = index.default_releases().builds
    assert (build.origin, build.variant) == (Origin.DEFAULT, None)


# --- keeping pages ------------------------------------------------------------------------------


def test_a_page_is_asked_for_once_in_a_process(server, shelf, index):
    index.nightlies("cpu")
    index.nightlies("cpu")
    assert server.count("/nightly/cpu/torch/") == 1


def test_a_page_that_has_not_changed_is_not_sent_again(server, shelf, tmp_path):
    first = Opened(server, tmp_path).nightlies("cpu")
    moved = server.moved("/nightly/cpu/torch/")
    again = Opened(server, tmp_path)
    assert again.nightlies("cpu") == first
    assert server.requests[-1].status == 304
    assert server.moved("/nightly/cpu/torch/") == moved
    assert again.said == []


def test_a_page_that_has_changed_is_seen_at_once(server, shelf, tmp_path):
    Opened(server, tmp_path).nightlies("cpu")
    shelf.add(*fake_nightlies([date(2026, 5, 20)]))
    days_seen = {b.day for b in Opened(server, tmp_path).nightlies("cpu").builds}
    assert date(2026, 5, 20) in days_seen


@pytest.mark.parametrize(
    "fault",
    [Status(500), Status(503), Stall(), Stall(after=20), Truncated(after=20), Reset()],
    ids=["500", "503", "stall", "stall within", "truncated", "reset"],
)
def test_the_kept_page_is_used_with_a_note_when_the_index_is_away(fault, server, shelf, tmp_path):
    first = Opened(server, tmp_path).nightlies("cpu")
    shelf.add(*fake_nightlies([date(2026, 5, 20)]))  # so that it cannot say "not modified"
    shelf.fail("torch", fault)
    again = Opened(server, tmp_path)
    assert again.nightlies("cpu") == first
    [said] = again.said
    assert f"index page {shelf.url}/torch/" in said
    assert re.search(r"what it said on 20\d\d-\d\d-\d\d \d\d:\d\d UTC is used$", said)


def test_the_kept_page_is_used_when_there_is_no_network(tmp_path):
    with IndexServer() as server:
        server.shelf("nightly/cpu").add(*fake_nightlies(MAY))
        Opened(server, tmp_path).nightlies("cpu")
    again = Opened(server, tmp_path)  # nobody listens there any more
    assert len(again.nightlies("cpu").builds) == len(MAY)
    assert "cannot be reached; what it said on" in again.said[0]


def test_a_page_that_is_gone_is_not_replaced_by_the_kept_one(server, shelf, tmp_path):
    Opened(server, tmp_path).nightlies("cpu")
    shelf.fail("torch", Status(404))
    with pytest.raises(Unavailable, match="answers 404, not available"):
        Opened(server, tmp_path).nightlies("cpu")


@pytest.mark.parametrize("status", [403, 404])
def test_no_page_is_no_failure_of_the_server(status, shelf, index):
    shelf.fail("torch", Status(status))
    with pytest.raises(Unavailable, match=f"{shelf.url}/torch/.* answers {status}") as caught:
        index.nightlies("cpu")
    assert not isinstance(caught.value, Unreachable)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Status(500), "answers 500"),
        (Stall(), "stalled"),
        (Stall(after=20), "stalled"),
        (Truncated(after=20), "cut off"),
        (Reset(), "cannot be reached"),
    ],
)
def test_each_fault_of_a_page_is_a_sentence_that_names_it(fault, words, server, shelf, index):
    shelf.fail("torch", fault)
    with pytest.raises(Unreachable, match=words) as caught:
        index.nightlies("cpu")
    assert f"index page {shelf.url}/torch/" in str(caught.value)


@pytest.mark.parametrize("fault", [Status(500, times=1), Reset(times=1), Stall(times=1)])
def test_a_passing_fault_is_got_over(fault, shelf, index):
    shelf.fail("torch", fault)
    assert len(index.nightlies("cpu").builds) == len(MAY)
    assert index.said == []


def test_pages_are_read_though_none_can_be_kept(server, shelf, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    index = Opened(server, blocked / "folder")
    assert len(index.nightlies("cpu").builds) == len(MAY)
    assert "pages cannot be kept" in index.said[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}', "\x00"])
def test_a_damaged_kept_page_is_as_good_as_none(text, server, shelf, tmp_path):
    first = Opened(server, tmp_path).nightlies("cpu")
    [kept] = tmp_path.iterdir()
    kept.write_text(text)
    again = Opened(server, tmp_path)
    assert again.nightlies("cpu") == first
    assert server.requests[-1].status == 200
    assert again.said == []


def test_a_page_that_is_none(server, tmp_path):
    shelf = server.shelf("nightly/cpu")
    [wheel] = fake_nightlies(MAY[:1])
    shelf.add(wheel)
    index = Opened(server, tmp_path)
    # A file where a page is wanted, as of a portal that wants one to log in.
    with pytest.raises(Unreachable, match="this is no page of a package index"):
        fetch_files(index.web, shelf.file_url(wheel), "torch", index.said.append)


def test_whether_a_file_is_there(server, shelf, index):
    [wheel] = fake_nightlies(MAY[:1])
    assert index.web.exists(shelf.file_url(wheel))
    for status in (403, 404):
        shelf.fail(wheel, Status(status))
        assert not index.web.exists(shelf.file_url(wheel))
    shelf.fail(wheel, Status(500))
    with pytest.raises(Unreachable, match=re.escape(f"{wheel.filename}: the server answers 500")):
        index.web.exists(shelf.file_url(wheel))


def test_credentials_reach_the_index_and_its_files_but_no_file_of_ours(server, shelf, tmp_path):
    index = Opened(server, tmp_path)
    secret = server.url.replace("http://", "http://me:hunter2@")
    index.sources = Sources(f"{secret}/simple", f"{secret}/nightly")
    build = index.nightlies("cpu").builds[0]
    assert build.url.startswith(f"{secret}/nightly/cpu/torch-")
    index.nightlies("cpu")
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path
    shelf.fail("torch", Status(404))
    again = Opened(server, tmp_path)
    again.sources = index.sources
    with pytest.raises(Unavailable) as caught:
        again.nightlies("cpu")
    assert "hunter2" not in str(caught.value)


# --- where the indexes are ----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "/", "/cpu", "/cu130/"])
def test_the_folder_of_a_variant_may_be_named_too(end):
    sources = Sources(nightly_index_url=f"https://torch.example/whl/nightly{end}")
    assert sources.nightly("xpu") == "https://torch.example/whl/nightly/xpu"
    assert sources.release("cpu") == "https://torch.example/whl/cpu"


def test_a_mirror_of_nightlies_alone_has_no_releases():
    assert not Sources(nightly_index_url="https://torch.example/dev").has_pytorch_releases


def test_an_index_for_releases_replaces_both():
    sources = Sources(index_url="https://index.example/simple/")
    assert not sources.has_pytorch_releases
    assert sources.default == "https://index.example/simple"


def test_an_address_that_is_none():
    for url in ("index.example/simple", "ftp://index.example", "https://"):
        with pytest.raises(ReproError, match=r"--index-url: .* is no http or https URL"):
            Sources(index_url=url)
        with pytest.raises(ReproError, match="--nightly-index-url"):
            Sources(nightly_index_url=url)


def test_uv_tells_its_default_index_with_the_users_settings(monkeypatch):
    import repro.sources

    repro.sources._default_of_uv.cache_clear()
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://me:secret@index.example/simple")
    assert Sources().default == "https://me:secret@index.example/simple"
    repro.sources._default_of_uv.cache_clear()


def test_uv_tells_where_the_pytorch_index_is():
    sources = Sources()
    nightly, release = sources.nightly("cu130"), sources.release("cu130")
    assert nightly.endswith("/nightly/cu130")
    assert release == nightly.replace("/nightly/", "/")
    assert re.match(r"https://[^/]+pytorch[^/]+/", nightly)
