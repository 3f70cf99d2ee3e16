"""Every form of a spec, resolved against the test index."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

import repro.web
from repro.builds import Choice, Origin, parse_spec
from repro.errors import Unavailable
from repro.index import Index
from repro.interpreters import find_interpreter
from repro.resolve import Variants, resolve
from repro.sources import Sources
from repro.web import Unreachable, Web
from tests.nightly_index.faults import Reset, Status
from tests.nightly_index.server import IndexServer
from tests.nightly_index.wheels import days, fake_nightlies, fake_torch, host_tag

CUT = date(2026, 5, 20)
LISTED = days(date(2026, 5, 1), date(2026, 6, 10), missing=[date(2026, 5, 28), date(2026, 5, 29)])
HIDDEN = days(date(2026, 1, 1), date(2026, 1, 5))


def branch(day: date) -> str:
    if day < date(2026, 4, 1):
        return "2.12.0"
    return "2.13.0" if day < CUT else "2.14.0"


class Place:
    """A PyTorch index with nightlies and releases, and a default index."""

    def __init__(self, server: IndexServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.said: list[str] = []
        self.nightlies = server.shelf("whl/nightly/cpu")
        self.nightlies.add(*fake_nightlies(HIDDEN, release=branch))
        self.nightlies.add(*fake_nightlies(LISTED, release=branch))
        self.releases = server.shelf("whl/cpu")
        self.releases.add(*(fake_torch(f"{v}+cpu") for v in ("2.6.0", "2.9.1", "2.10.0", "2.12.1")))
        self.default = server.shelf("simple")
        self.default.add(*(fake_torch(v) for v in ("2.5.1", "2.12.0", "2.12.1", "2.13.0")))

    def index(self, index_url: str | None = None) -> Index:
        return Index(
            Web(self.folder),
            Sources(index_url, f"{self.server.url}/whl/nightly"),
            find_interpreter(None),
            self.said.append,
        )

    def resolve(
        self, text: str, names: tuple[str, ...] = ("cpu",), chosen: bool = False, **more: str
    ) -> Choice:
        index = self.index(**more)
        return resolve(parse_spec(text), index, Variants(names, chosen), self.said.append)

    def version(self, text: str, *arguments, **more) -> str:
        return str(self.resolve(text, *arguments, **more).build.version)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(repro.web, "RETRY_BACKOFF", 0.0)
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")
    with IndexServer() as server:
        made = Place(server, tmp_path)
        monkeypatch.setattr("repro.sources._default_of_uv", lambda: made.default.url)
        yield made


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("latest", "2.12.1+cpu"),
        ("latest+cpu", "2.12.1+cpu"),
        ("2.6", "2.6.0+cpu"),
        ("2.9", "2.9.1+cpu"),
        ("2.12.1", "2.12.1+cpu"),
        ("2.12.1+cpu", "2.12.1+cpu"),
        ("nightly", "2.14.0.dev20260610+cpu"),
        ("nightly+cpu", "2.14.0.dev20260610+cpu"),
        ("2026-05-19", "2.13.0.dev20260519+cpu"),
        ("2026-05-20", "2.14.0.dev20260520+cpu"),
        ("nightly-2026-05-20", "2.14.0.dev20260520+cpu"),
        ("nightly-2026-05-20+cpu", "2.14.0.dev20260520+cpu"),
        ("2.13.0.dev20260519", "2.13.0.dev20260519+cpu"),
        ("2.13.0.dev20260519+cpu", "2.13.0.dev20260519+cpu"),
    ],
)
def test_each_form_of_the_index(text, version, place):
    choice = place.resolve(text)
    assert str(choice.build.version) == version
    assert choice.build.origin is Origin.PYTORCH
    assert choice.note is None
    assert place.said == []


def test_a_wheel_by_its_address_or_path_asks_no_index(place, tmp_path):
    [wheel] = fake_nightlies([date(2026, 5, 19)])
    url = place.nightlies.file_url(wheel)
    digest = "ab" * 32
    build = place.resolve(f"{url}#sha256={digest}").build
    assert (str(build.version), build.url, build.origin, build.sha256) == (
        "2.13.0.dev20260519+cpu", url, Origin.GIVEN, digest,
    )  # fmt: skip
    with pytest.raises(Unavailable, match="states no whole sha256"):
        place.resolve(f"{url}#sha256=abc")
    path = tmp_path / "a folder" / wheel.filename
    path.parent.mkdir()
    path.write_bytes(b"")
    assert place.resolve(str(path)).build.url == path.as_uri()
    os.chdir(path.parent)
    assert place.resolve(wheel.filename).build.url == path.as_uri()
    assert place.resolve(path.as_uri()).build.url == path.as_uri()
    assert place.resolve(f"../{path.parent.name}/{wheel.filename}").build.url == path.as_uri()
    assert {request.method for request in place.server.requests} == {"HEAD"}


def test_a_wheel_that_was_put_in_anothers_place_is_another_build(place):
    [wheel] = fake_nightlies([date(2026, 5, 19)])
    url = place.nightlies.file_url(wheel)
    before = place.resolve(url).build
    assert place.resolve(url).build == before
    place.nightlies.add(fake_torch(str(wheel.version), commit="b" * 40))
    assert place.resolve(url).build.identity != before.identity


def test_a_wheel_that_is_not_there_or_not_for_this_python(place):
    with pytest.raises(Unavailable, match="no such file"):
        place.resolve("nowhere/torch-2.13.0-py3-none-any.whl")
    name = f"torch-2.13.0-cp27-cp27m-{host_tag().rpartition('-')[2]}.whl"
    with pytest.raises(Unavailable, match=r"is not for Python 3\.") as caught:
        place.resolve(f"https://torch.example/{name}")
    assert "--python" in caught.value.hint


def test_a_day_without_a_nightly(place):
    choice = place.resolve("2026-05-29")
    assert str(choice.build.version) == "2.14.0.dev20260527+cpu"
    assert choice.note == "no nightly of 2026-05-29; the nearest earlier is of 2026-05-27"


def test_the_first_days_of_all_are_no_days_of_nightlies(place):
    with pytest.raises(Unavailable, match="or earlier is listed"):
        place.resolve("0001-01-01")


def test_a_version_without_a_nightly_is_not_replaced(place):
    with pytest.raises(Unavailable, match=r"no torch 2\.14\.0\.dev20260529"):
        place.resolve("2.14.0.dev20260529")


# --- listed no more -----------------------------------------------------------------------------


def test_a_nightly_that_is_listed_no_more_is_found_by_its_version(place):
    place.nightlies.options = place.nightlies.options.__class__(listed=len(LISTED))
    choice = place.resolve("2.12.0.dev20260103")
    assert str(choice.build.version) == "2.12.0.dev20260103+cpu"
    assert place.index().web.exists(choice.build.url)
    assert choice.note.endswith("is listed no more; the server still has it")


@pytest.mark.parametrize(("asked", "found"), [("2026-01-03", "03"), ("2026-01-07", "05")])
def test_a_day_that_is_listed_no_more(asked, found, place):
    place.nightlies.options = place.nightlies.options.__class__(listed=len(LISTED))
    choice = place.resolve(asked)
    assert str(choice.build.version) == f"2.12.0.dev202601{found}+cpu"
    assert ("nearest earlier day" in choice.note) == (asked != f"2026-01-{found}")


def test_a_day_that_is_not_kept_either(place):
    place.nightlies.options = place.nightlies.options.__class__(listed=len(LISTED))
    with pytest.raises(Unavailable, match="2026-02-20 or earlier is listed; the oldest"):
        place.resolve("2026-02-20")


def test_a_withdrawn_nightly_is_not_taken_for_one_that_is_listed_no_more(place):
    [wheel] = fake_nightlies([date(2026, 5, 28)], release=branch)
    place.nightlies.add(wheel, yanked="broken")
    with pytest.raises(Unavailable, match="was withdrawn"):
        place.resolve(str(wheel.version))


# --- variants -----------------------------------------------------------------------------------


def test_the_first_variant_that_has_it(place):
    place.server.shelf("whl/nightly/cu128").add(
        *fake_nightlies([date(2026, 5, 19)], variant="cu128")
    )
    order = ("cu134", "cu128", "cpu")
    assert place.version("2026-05-19", order) == "2.13.0.dev20260519+cu128"
    assert place.version("2.14.0.dev20260521", order) == "2.14.0.dev20260521+cpu"
    assert place.version("2.14.0.dev20260521+cpu", order) == "2.14.0.dev20260521+cpu"


def test_a_variant_that_was_typed_is_not_replaced(place):
    with pytest.raises(Unavailable, match=r"whl/nightly/cu134/torch/.* answers 404"):
        place.resolve("nightly+cu134")
    with pytest.raises(Unavailable, match=r"whl/cu134/torch/.* answers 404"):
        place.resolve("2.12.1+cu134")
    with pytest.raises(Unavailable, match=r"whl/cu134/torch/.* answers 404"):
        place.resolve("2.12.1", ("cu134",), chosen=True)


# --- releases -----------------------------------------------------------------------------------


def test_a_release_that_the_pytorch_index_lacks_comes_from_the_default_index_and_it_is_said(place):
    choice = place.resolve("2.13")
    assert (str(choice.build.version), choice.build.origin) == ("2.13.0", Origin.DEFAULT)
    assert place.said == [
        f"there is no torch 2.13 for Python {find_interpreter(None).full} on this platform; "
        "torch 2.13.0 comes from the default index"
    ]


def test_releases_come_from_the_default_index_when_the_pytorch_index_is_away(place):
    place.releases.fail("torch", Reset())
    assert place.version("2.12.1") == "2.12.1"
    assert "cannot be reached; torch 2.12.1 comes from the default index" in place.said[0]


def test_an_index_that_was_named_is_the_only_one_for_releases(place):
    url = place.default.url
    assert place.version("2.12.1", index_url=url) == "2.12.1"
    assert place.version("latest", index_url=url) == "2.13.0"
    assert place.said == []
    with pytest.raises(Unavailable):
        place.resolve("2.9.1", index_url=url)


def test_nightlies_never_come_from_the_default_index(place):
    place.default.add(*fake_nightlies([date(2027, 1, 1)], variant=""))
    place.nightlies.fail("torch", Status(500))
    for text in ("nightly", "2026-05-19", "2.13.0.dev20270101"):
        with pytest.raises(Unreachable, match="answers 500"):
            place.resolve(text)
    place.server.mend()
    assert place.version("nightly") == "2.14.0.dev20260610+cpu"


def test_a_withdrawn_release_is_said(place):
    place.releases.add(fake_torch("2.11.0+cpu"), yanked="broken")
    place.default.add(fake_torch("2.11.0"), yanked="broken")
    with pytest.raises(Unavailable, match="was withdrawn"):
        place.resolve("2.11.0")


def test_pre_releases_are_no_releases(place):
    place.releases.add(fake_torch("2.13.0rc1+cpu"))
    assert place.version("latest") == "2.12.1+cpu"
