import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from repro.bisect.candidates import Range, between
from repro.builds import Build, Origin
from repro.errors import ReproError


def build(version: str, preference: int = 0) -> Build:
    name = f"torch-{version}-cp311-cp311-linux_x86_64.whl"
    url = f"https://index.example/{name}"
    return Build(Version(version), name, url, Origin.PYTORCH, preference=preference)


def found(one: str, other: str, *listed: str) -> Range:
    return between(build(one), build(other), [build(version) for version in listed])


def names(builds: Range) -> list[str]:
    return [str(each.version) for each in builds.builds]


def dev(day: int, release: str = "2.13.0", local: str = "") -> str:
    return f"{release}.dev202604{day:02d}{local}"


# --- the ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("good_is_newer", [False, True])
def test_the_ends_are_included_and_the_oldest_comes_first(good_is_newer: bool) -> None:
    ends = [dev(3), dev(9)]
    good, bad = reversed(ends) if good_is_newer else ends
    between_them = found(good, bad, dev(7), dev(3), dev(5), dev(9))
    assert names(between_them) == [dev(3), dev(5), dev(7), dev(9)]


def test_the_ends_are_included_also_where_they_are_listed_no_more() -> None:
    assert names(found(dev(3), dev(9), dev(5))) == [dev(3), dev(5), dev(9)]
    assert names(found(dev(3), dev(9))) == [dev(3), dev(9)]


def test_what_lies_beyond_the_ends_is_left_out() -> None:
    listed = [dev(1), dev(2), dev(4), dev(6), dev(7), "2.12.1", "2.13.0", "2.13.1"]
    assert names(found(dev(2), dev(6), *listed)) == [dev(2), dev(4), dev(6)]


def test_the_builds_of_the_ends_are_those_that_were_named() -> None:
    """The index may list the same version once more, at another address."""
    named = build(dev(3)), build(dev(9))
    listed = [build(dev(3), preference=-1), build(dev(5)), build(dev(9), preference=-1)]
    first, _, last = between(*named, listed).builds
    assert (first, last) == named


def test_versions_are_ordered_as_versions_and_not_as_text() -> None:
    listed = ["2.10.0", "2.9.1", "2.11.0", "2.9.0", "2.100.0"]
    assert names(found("2.8.0", "2.12.0", *listed)) == [
        "2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0",
    ]  # fmt: skip


@pytest.mark.parametrize("version", ["2.12.1", "2.12.1+cpu", dev(5), dev(5, local="+cu130")])
def test_two_ends_that_are_one_build_are_refused_with_a_hint(version: str) -> None:
    with pytest.raises(ReproError) as caught:
        found(version, version, dev(3), dev(9))
    assert str(caught.value) == f"both ends are torch {version}"
    assert caught.value.hint == "name two builds with --good and --bad"


# --- other forms of an end ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "form"),
    [
        ("2.12.1", "2.12.1+cpu"),
        ("2.12.1", "2.12.1+cu130"),
        (dev(3), dev(3, local="+cpu")),
        (dev(3, local="+cpu"), dev(3, local="+cu130")),
    ],
)
def test_another_form_of_the_older_end_is_left_out(end: str, form: str) -> None:
    newer = "2.14.0"
    assert names(found(end, newer, form)) == [end, newer]
    assert names(found(newer, end, form)) == [end, newer]


@pytest.mark.parametrize(
    ("end", "form"),
    [
        ("2.12.1+cpu", "2.12.1"),
        ("2.12.1+cu130", "2.12.1+cpu"),
        (dev(3, local="+cpu"), dev(3)),
        (dev(3, local="+cu130"), dev(3, local="+cpu")),
    ],
)
def test_another_form_of_the_newer_end_is_left_out(end: str, form: str) -> None:
    older = "2.6.0"
    assert names(found(older, end, form)) == [older, end]
    assert names(found(end, older, form)) == [older, end]


def test_neither_a_release_nor_its_nightlies_are_forms_of_each_other() -> None:
    assert names(found("2.12.1", "2.13.0", dev(3))) == ["2.12.1", dev(3), "2.13.0"]
    assert names(found(dev(1), "2.13.1", "2.13.0")) == [dev(1), "2.13.0", "2.13.1"]


# --- releases -----------------------------------------------------------------------------------


def test_a_release_between_listed_nightlies_is_left_out() -> None:
    listed = [dev(2), dev(4), "2.13.0", "2.13.1", dev(6, "2.14.0"), dev(8, "2.14.0")]
    assert names(found("2.12.1", "2.14.0", *listed)) == [
        "2.12.1", dev(2), dev(4), dev(6, "2.14.0"), dev(8, "2.14.0"), "2.14.0",
    ]  # fmt: skip


def test_releases_before_and_after_all_listed_nightlies_are_kept() -> None:
    listed = ["2.11.0", "2.12.0", dev(2), dev(4), "2.13.0", "2.13.1"]
    assert names(found("2.10.0", "2.14.0", *listed)) == ["2.10.0", *listed, "2.14.0"]


def test_a_release_that_is_an_end_is_kept_whatever_is_listed() -> None:
    listed = [dev(2), dev(4, "2.14.0")]
    assert names(found("2.13.0", dev(9, "2.14.0"), *listed)) == [
        "2.13.0", dev(4, "2.14.0"), dev(9, "2.14.0"),
    ]  # fmt: skip


def test_one_listed_nightly_leaves_every_release_outside() -> None:
    listed = ["2.11.0", "2.12.0", dev(2), "2.13.0"]
    assert names(found("2.10.0", "2.14.0", *listed)) == ["2.10.0", *listed, "2.14.0"]


def test_without_nightlies_all_releases_are_looked_at() -> None:
    listed = ["2.11.0", "2.12.0", "2.12.1"]
    assert names(found("2.10.0", "2.13.0", *listed)) == ["2.10.0", *listed, "2.13.0"]


def test_nightlies_beyond_the_ends_leave_no_release_out() -> None:
    listed = [dev(1, "2.9.0"), "2.11.0", dev(9, "2.14.0")]
    assert names(found("2.10.0", "2.13.0", *listed)) == ["2.10.0", "2.11.0", "2.13.0"]


# --- the grid -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "listed", "grid"),
    [
        ((dev(1), dev(9)), [dev(3), dev(5)], ()),
        (("2.12.1", dev(9)), [dev(3), dev(5)], (0,)),
        ((dev(1), "2.13.1"), [dev(3), "2.13.0"], (2, 3)),
        (("2.10.0", "2.14.0"), ["2.11.0", dev(3), dev(5), "2.13.0"], (0, 1, 4, 5)),
        (("2.10.0", "2.12.0"), ["2.11.0"], (0, 1, 2)),
    ],
)
def test_the_grid_holds_the_positions_of_releases(
    ends: tuple[str, str], listed: list[str], grid: tuple[int, ...]
) -> None:
    assert found(*ends, *listed).grid == grid


# --- all of it ----------------------------------------------------------------------------------

VERSIONS = st.one_of(
    st.builds(dev, st.integers(1, 9), st.sampled_from(["2.12.0", "2.13.0", "2.14.0"])),
    st.sampled_from(["2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.13.1", "2.14.0"]),
    st.sampled_from(["2.12.1+cpu", "2.13.0+cpu", dev(3, local="+cpu"), dev(3, local="+cu130")]),
)


@given(st.lists(VERSIONS, unique=True), st.lists(VERSIONS, min_size=2, max_size=2, unique=True))
def test_neither_the_order_of_the_list_nor_of_the_ends_matters(
    listed: list[str], ends: list[str]
) -> None:
    shuffled = random.Random(0).sample(listed, len(listed))
    assert found(*ends, *listed) == found(*reversed(ends), *shuffled)


@given(st.lists(VERSIONS), st.lists(VERSIONS, min_size=2, max_size=2, unique=True))
def test_every_build_is_an_end_or_listed_and_stands_once_and_in_order(
    listed: list[str], ends: list[str]
) -> None:
    made = found(*ends, *listed)
    versions = [each.version for each in made.builds]
    assert versions == sorted(set(versions))
    assert {str(versions[0]), str(versions[-1])} == set(ends)
    assert set(names(made)) <= {*ends, *listed}
    public = [version.public for version in versions[1:-1]]
    assert not {versions[0].public, versions[-1].public} & set(public)
    assert [made.builds[place].is_nightly for place in made.grid] == [False] * len(made.grid)
    assert sum(each.is_nightly for each in made.builds) + len(made.grid) == len(made.builds)


@given(st.lists(VERSIONS), st.lists(VERSIONS, min_size=2, max_size=2, unique=True))
def test_no_listed_nightly_between_the_ends_is_lost(listed: list[str], ends: list[str]) -> None:
    older, newer = sorted(map(Version, ends))
    within = {
        name
        for name in listed
        if Version(name).dev is not None and older < Version(name) < newer
        if Version(name).public not in (older.public, newer.public)
    }
    assert within <= set(names(found(*ends, *listed)))
