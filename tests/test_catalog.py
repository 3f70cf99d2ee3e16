"""What exists: the builds of both indexes, for one interpreter, oldest first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from packaging.version import Version

import repro.web
from repro.builds import Build, Listed, Origin
from repro.catalog import READ_AT_ONCE, Wanted, available, with_commits
from repro.contents import Contents, Reader
from repro.errors import Unavailable
from repro.resolve import Variants
from repro.web import Unreachable, Web
from tests.nightly_index.faults import Reset, Status, Truncated
from tests.nightly_index.server import IndexServer
from tests.nightly_index.shelf import Options
from tests.nightly_index.wheels import commit_of, fake_nightlies, fake_torch, nightly_version
from tests.test_resolve import HIDDEN, LISTED, Place, branch

RELEASES = ["2.6.0+cpu", "2.9.1+cpu", "2.10.0+cpu", "2.12.1+cpu"]
DEFAULTS = ["2.5.1", "2.12.0", "2.12.1", "2.13.0"]
NIGHTLIES = [nightly_version(day, branch(day)) for day in (*HIDDEN, *LISTED)]
CPU = Variants(("cpu",))
ALL, ONLY_RELEASES, ONLY_NIGHTLIES = Wanted(), Wanted(nightlies=False), Wanted(releases=False)


class Catalog(Place):
    """Both indexes, and what is listed of them."""

    def available(
        self, wanted: Wanted = ALL, variants: Variants = CPU, index_url: str | None = None
    ) -> list[Build]:
        return available(self.index(index_url), variants, wanted, self.said.append)

    def versions(self, *arguments, **more) -> list[str]:
        return [str(build.version) for build in self.available(*arguments, **more)]

    def asked(self) -> set[str]:
        return {request.path for request in self.server.requests}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    monkeypatch.setattr(repro.web, "RETRY_BACKOFF", 0.0)
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "0.5")
    with IndexServer() as server:
        made = Catalog(server, tmp_path)
        monkeypatch.setattr("repro.sources._default_of_uv", lambda: made.default.url)
        yield made


def test_nightlies_and_releases_oldest_first(place):
    builds = place.available()
    versions = [str(build.version) for build in builds]
    assert sorted(versions) == sorted(RELEASES + NIGHTLIES)
    assert versions == sorted(versions, key=Version)
    assert versions.index("2.9.1+cpu") < versions.index("2.10.0+cpu") < versions.index(NIGHTLIES[0])
    assert {build.origin for build in builds} == {Origin.PYTORCH}
    assert {build.variant for build in builds} == {"cpu"}
    assert place.said == []


def test_the_default_index_is_not_asked_where_the_pytorch_index_has_releases(place):
    place.available()
    assert place.asked() == {"/whl/nightly/cpu/torch/", "/whl/cpu/torch/"}


def test_releases_alone(place):
    assert place.versions(ONLY_RELEASES) == RELEASES
    assert place.asked() == {"/whl/cpu/torch/"}


def test_nightlies_alone(place):
    place.nightlies.add(fake_torch("2.11.0+cpu"))  # by a mistake, or a mirror of both
    assert place.versions(ONLY_NIGHTLIES) == NIGHTLIES
    assert place.asked() == {"/whl/nightly/cpu/torch/"}


def test_each_version_once(place):
    # As 2.6, whose wheels are there under two platform tags.
    [tag] = {build.filename.split("-", 2)[2] for build in place.available(ONLY_RELEASES)}
    place.releases.add(fake_torch("2.6.0+cpu", tag="py3-none-any"))
    builds = place.available(ONLY_RELEASES)
    assert [str(build.version) for build in builds] == RELEASES
    assert builds[0].filename.endswith(tag)
    assert place.said == []  # nothing is left out


def test_what_was_withdrawn_a_pre_release_or_for_another_python_is_not_listed(place):
    place.releases.add(fake_torch("2.11.0+cpu"), yanked="broken")
    place.releases.add(fake_torch("2.14.0rc1+cpu"))
    place.releases.add(fake_torch("2.8.0+cpu", tag="cp27-cp27m-linux_x86_64"))
    assert place.versions(ONLY_RELEASES) == RELEASES


# --- days ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        (date(2026, 5, 27), date(2026, 5, 30), [27, 30]),
        (date(2026, 5, 28), date(2026, 5, 30), [30]),
        (date(2026, 5, 29), date(2026, 5, 29), []),
        (date(2026, 5, 27), date(2026, 5, 27), [27]),
        (date(2026, 5, 30), date(2026, 5, 27), []),
    ],
)
def test_both_days_are_counted(since, until, days, place):
    builds = place.available(Wanted(releases=False, since=since, until=until))
    assert [build.day for build in builds] == [date(2026, 5, day) for day in days]
    assert place.said == []


def test_one_bound_is_enough(place):
    late = place.available(Wanted(releases=False, since=date(2026, 6, 9)))
    assert [build.day for build in late] == [date(2026, 6, 9), date(2026, 6, 10)]
    early = place.available(Wanted(releases=False, until=date(2026, 1, 2)))
    assert [build.day for build in early] == [date(2026, 1, 1), date(2026, 1, 2)]


def test_releases_whose_day_is_not_told_are_left_out_and_that_is_said(place):
    builds = place.available(Wanted(since=date(2026, 6, 9)))
    assert [build.day for build in builds] == [date(2026, 6, 9), date(2026, 6, 10)]
    assert place.said == ["4 builds whose day the index does not tell are left out"]


def test_a_release_is_of_the_day_it_was_put_up():
    build = Build(Version("2.12.1"), "x.whl", "https://index.example/x.whl", Origin.DEFAULT)
    told = replace(build, uploaded=date(2026, 5, 1))
    assert Wanted().admits(build)
    assert Wanted(since=date(2026, 5, 1), until=date(2026, 5, 1)).admits(told)
    assert not Wanted(since=date(2026, 5, 2)).admits(told)
    assert not Wanted(until=date(2026, 4, 30)).admits(told)
    assert not Wanted(since=date(2000, 1, 1)).admits(build)
    assert not Wanted(until=date(2100, 1, 1)).admits(build)


# --- an index that is away ----------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Reset(), Status(500), Status(404)], ids=str)
def test_without_the_nightlies_there_are_releases_and_it_is_said(fault, place):
    place.nightlies.fail("torch", fault)
    assert place.versions() == RELEASES
    [said] = place.said
    assert "/whl/nightly/cpu/torch/" in said


@pytest.mark.parametrize("fault", [Reset(), Status(500), Status(404)], ids=str)
def test_without_the_releases_those_of_the_default_index_are_listed_and_it_is_said(fault, place):
    place.releases.fail("torch", fault)
    assert sorted(place.versions()) == sorted(NIGHTLIES + DEFAULTS)
    [said] = place.said
    assert "/whl/cpu/torch/" in said


def test_without_the_pytorch_index_there_is_the_default_index(place):
    for shelf in (place.nightlies, place.releases):
        shelf.fail("torch", Reset())
    builds = place.available()
    assert [str(build.version) for build in builds] == DEFAULTS
    assert {(build.origin, build.variant) for build in builds} == {(Origin.DEFAULT, None)}
    assert len(place.said) == 2


def test_without_any_index_there_is_an_error(place):
    for shelf in (place.nightlies, place.releases, place.default):
        shelf.fail("torch", Reset())
    for wanted in (ALL, ONLY_RELEASES):
        with pytest.raises(Unreachable):
            place.available(wanted)
    assert place.said == []


def test_nightlies_alone_are_never_taken_from_the_default_index(place):
    place.default.add(*fake_nightlies([date(2027, 1, 1)], variant=""))
    place.nightlies.fail("torch", Reset())
    with pytest.raises(Unreachable):
        place.available(ONLY_NIGHTLIES)
    assert f"/{place.default.root}/torch/" not in place.asked()


def test_nothing_in_the_range_is_no_error(place):
    assert place.available(Wanted(releases=False, since=date(2030, 1, 1))) == []


# --- variants -----------------------------------------------------------------------------------


def test_the_first_variant_that_there_is_a_page_of(place):
    for root in ("whl/nightly/cu130", "whl/nightly/cu128"):
        day = date(2026, 5, 20)
        place.server.shelf(root).add(*fake_nightlies([day], variant=root.rpartition("/")[2]))
    variants = Variants(("cu134", "cu130", "cu128", "cpu"))
    builds = place.available(ONLY_NIGHTLIES, variants)
    assert [(str(b.version), b.variant) for b in builds] == [
        ("2.13.0.dev20260520+cu130", "cu130")
    ]  # fmt: skip
    # The releases of the same order are of the one variant that has a page.
    assert place.versions(ONLY_RELEASES, variants) == RELEASES
    assert place.said == []
    assert "/whl/nightly/cu128/torch/" not in place.asked()


def test_a_server_that_is_away_is_not_asked_for_the_next_variant(place):
    place.server.shelf("whl/nightly/cu130").fail("torch", Reset())
    with pytest.raises(Unreachable):
        place.available(ONLY_NIGHTLIES, Variants(("cu130", "cpu")))
    assert "/whl/nightly/cpu/torch/" not in place.asked()


def test_no_variant_has_a_page(place):
    with pytest.raises(Unavailable, match=r"whl/nightly/cu128/torch/.* answers 404"):
        place.available(ONLY_NIGHTLIES, Variants(("cu130", "cu128")))


def test_a_variant_that_was_chosen_is_not_replaced_by_the_default_index(place):
    with pytest.raises(Unavailable, match=r"whl/cu134/torch/.* answers 404"):
        place.available(ONLY_RELEASES, Variants(("cu134",), chosen=True))
    assert f"/{place.default.root}/torch/" not in place.asked()


def test_releases_of_an_index_that_was_named(place):
    url = place.default.url
    for wanted in (ONLY_RELEASES, ALL):
        releases = [build for build in place.available(wanted, CPU, url) if not build.is_nightly]
        assert [str(build.version) for build in releases] == DEFAULTS
    assert "/whl/cpu/torch/" not in place.asked()


def test_of_an_index_that_was_named_only_the_chosen_variant_is_listed(place):
    """As a spec is resolved: what tells no variant is not taken for the one that was chosen."""
    place.default.add(fake_torch("2.12.1+cu130"), fake_torch("2.12.1+cpu"))
    chosen = Variants(("cu130",), chosen=True)
    place.server.shelf("whl/nightly/cu130").add(
        *fake_nightlies([date(2026, 5, 20)], variant="cu130")
    )
    assert place.versions(ONLY_RELEASES, chosen, place.default.url) == ["2.12.1+cu130"]
    assert place.versions(ALL, chosen, place.default.url) == [
        "2.12.1+cu130", "2.13.0.dev20260520+cu130",
    ]  # fmt: skip


# --- commits ------------------------------------------------------------------------------------


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(Web(tmp_path / "pages"), tmp_path / "wheels")


def test_commits_are_read_out_of_the_wheels_in_the_order_of_the_builds(place, reader):
    builds = place.available(Wanted(since=date(2026, 5, 15), releases=False))
    assert len(builds) > 2 * READ_AT_ONCE
    listed = list(with_commits(builds, reader, place.said.append))
    assert listed == [Listed(build, commit_of(str(build.version))) for build in builds]
    assert place.said == []
    place.server.forget()
    assert list(with_commits(builds, reader, place.said.append)) == listed
    assert place.server.requests == []


def test_no_builds_have_no_commits(reader):
    assert list(with_commits([], reader, pytest.fail)) == []


def test_a_wheel_without_a_commit_has_none(place, reader):
    place.releases.add(fake_torch("2.11.0+cpu", commit="Unknown"))
    [build] = [b for b in place.available(ONLY_RELEASES) if str(b.version) == "2.11.0+cpu"]
    assert list(with_commits([build], reader, place.said.append)) == [Listed(build, None)]
    assert place.said == []


def test_a_server_without_parts_of_files_is_said(place, reader):
    place.releases.options = Options(ranges=False)
    builds = place.available(ONLY_RELEASES)
    assert list(with_commits(builds, reader, place.said.append)) == [Listed(b) for b in builds]
    assert place.said == [f"{b.filename}: the server gives no parts of files" for b in builds]


@pytest.mark.parametrize("fault", [Status(500), Status(404), Reset(), Truncated(after=20)], ids=str)
def test_a_wheel_that_cannot_be_read_is_said_and_the_others_are_read(fault, place, reader):
    place.releases.fail(fake_torch("2.9.1+cpu"), fault)
    builds = place.available(ONLY_RELEASES)
    listed = list(with_commits(builds, reader, place.said.append))
    assert [one.build for one in listed] == builds
    assert [one.git_version for one in listed] == [
        None if version == "2.9.1+cpu" else commit_of(version) for version in RELEASES
    ]
    [said] = place.said
    assert said.startswith(f"{builds[1].filename}: ")


class SlowReader:
    """Answers when it may.

    Args:
        first: the one that is answered at once.
    """

    def __init__(self, first: Build) -> None:
        self.first = first
        self.go_on = threading.Event()
        self.read_of: list[Build] = []

    def read(self, build: Build) -> Contents:
        self.read_of.append(build)
        if build != self.first:
            self.go_on.wait(30)
        return Contents(str(build.version), "a" * 40, ())


def test_who_stops_early_does_not_wait_for_all(place):
    builds = place.available(ONLY_NIGHTLIES)
    reader = SlowReader(builds[0])
    listing = with_commits(builds, reader, pytest.fail)
    assert next(listing) == Listed(builds[0], "a" * 40)
    threading.Timer(0.3, reader.go_on.set).start()
    listing.close()
    assert len(reader.read_of) < len(builds) / 2
