from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from repro.builds import (
    UNDERSTOOD,
    Build,
    Origin,
    Spec,
    SpecKind,
    in_order,
    parse_spec,
    same_file,
    select,
    variant_of,
    with_credentials,
    without_credentials,
)
from repro.errors import ReproError, Unavailable

WHEEL = "torch-2.13.0.dev20260528+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
URL = f"https://index.example/whl/nightly/cpu/{WHEEL.replace('+', '%2B')}"


def build(version: str, **values) -> Build:
    name = f"torch-{version}-cp311-cp311-linux_x86_64.whl"
    given = {"origin": Origin.PYTORCH, "url": f"https://index.example/{name}"} | values
    return Build(Version(version), name, **given)


@pytest.mark.parametrize(
    ("text", "kind", "value", "variant"),
    [
        ("current", SpecKind.CURRENT, "current", None),
        ("latest", SpecKind.LATEST, "latest", None),
        ("latest+cu130", SpecKind.LATEST, "latest", "cu130"),
        ("nightly", SpecKind.NIGHTLY, "nightly", None),
        ("nightly+cpu", SpecKind.NIGHTLY, "nightly", "cpu"),
        ("2.12", SpecKind.SERIES, "2.12", None),
        ("2.6+rocm6.2.4", SpecKind.SERIES, "2.6", "rocm6.2.4"),
        ("2.12.1", SpecKind.RELEASE, "2.12.1", None),
        ("2.12.1+cpu", SpecKind.RELEASE, "2.12.1", "cpu"),
        (" 2.6.0 ", SpecKind.RELEASE, "2.6.0", None),
        ("2026-05-28", SpecKind.DATE, "2026-05-28", None),
        ("2026-05-28+xpu", SpecKind.DATE, "2026-05-28", "xpu"),
        ("nightly-2026-05-28", SpecKind.DATE, "2026-05-28", None),
        ("nightly-2026-05-28+cpu", SpecKind.DATE, "2026-05-28", "cpu"),
        ("2.13.0.dev20260528", SpecKind.DEV, "2.13.0.dev20260528", None),
        ("2.13.0.dev20260528+cpu", SpecKind.DEV, "2.13.0.dev20260528", "cpu"),
        ("/opt/venv/bin/python", SpecKind.PATH, "/opt/venv/bin/python", None),
        ("./venv", SpecKind.PATH, "venv", None),
        ("../venv", SpecKind.PATH, "../venv", None),
        ("a/2.12", SpecKind.PATH, "a/2.12", None),
        ("a/b+cpu", SpecKind.PATH, "a/b+cpu", None),
        (WHEEL, SpecKind.WHEEL, WHEEL, None),
        (f"dist/{WHEEL}", SpecKind.WHEEL, f"dist/{WHEEL}", None),
        (URL, SpecKind.URL, URL, None),
        (f"file:///a%20b/{WHEEL}", SpecKind.WHEEL, f"/a b/{WHEEL}", None),
        (f"{URL}#sha256=12", SpecKind.URL, f"{URL}#sha256=12", None),
    ],
)
def test_forms_of_a_spec(text, kind, value, variant):
    assert parse_spec(text) == Spec(text.strip(), kind, value, variant)


def test_a_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert parse_spec("~/venv").value == "/somewhere/venv"
    assert parse_spec("~").value == str(Path("/somewhere"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "2",
        "2.",
        "2.12.",
        "2.12.1.4",
        "v2.12",
        "newest",
        "venv",
        "2.12,2.11",
        "-1",
        "current+cpu",
        "2.12.1+",
        "2.12.1+cuda",
        "+cpu",
        "2.12.1+cpu+cpu",
        "nightly-",
        "nightly-2.13",
        "nightly-latest",
        "20260528",
        "2026-5-28",
        "2.13.0.dev2026",
        "2.13.dev20260528",
        "2.13.0rc1",
        "2026-05-28T00:00",
        "file.txt",
    ],
)
def test_anything_else_lists_what_is_understood(text):
    with pytest.raises(ReproError, match="names no build") as caught:
        parse_spec(text)
    assert repr(text) in str(caught.value)
    assert caught.value.hint == f"understood: {UNDERSTOOD}"
    for word in ("current", "latest", "2.12.1", "2.12", "path", "nightly", "2026-05-28", "URL"):
        assert word in UNDERSTOOD


@pytest.mark.parametrize("text", ["2026-02-30", "nightly-2025-13-01", "2.13.0.dev20260230"])
def test_a_day_that_never_was(text):
    with pytest.raises(ReproError, match="there is no such day") as caught:
        parse_spec(text)
    assert caught.value.hint == f"understood: {UNDERSTOOD}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("https://index.example/whl/numpy-2.0.0-py3-none-any.whl", "is a wheel of numpy"),
        ("dist/torchvision-1.0-py3-none-any.whl", "is a wheel of torchvision"),
        ("torch.whl", "names no wheel"),
        ("https://index.example/whl/torch/", "names no wheel"),
        ("http://[::1/torch-2.13.0-py3-none-any.whl", "is no URL"),
        ("http://a.example:99999/torch-2.13.0-py3-none-any.whl", "is no URL"),
    ],
)
def test_a_wheel_of_something_else(text, complaint):
    with pytest.raises(ReproError, match=complaint):
        parse_spec(text)


def test_the_home_of_an_unknown_user_is_an_error_of_ours():
    with pytest.raises(ReproError):
        parse_spec("~no-such-user-here/venv")


@given(st.text(max_size=20))
def test_any_text_is_a_spec_or_an_error_of_ours(text):
    try:
        spec = parse_spec(text)
    except ReproError:
        return
    assert spec.text == text.strip()
    if spec.kind in (SpecKind.SERIES, SpecKind.RELEASE):
        assert spec.value.isascii()


@pytest.mark.parametrize("text", ["２.１２.１", "٢.٦"])  # noqa: RUF001 - that is the point
def test_digits_of_other_scripts_are_no_version(text):
    with pytest.raises(ReproError):
        parse_spec(text)


@pytest.mark.parametrize(
    ("version", "cuda", "hip", "xpu", "variant"),
    [
        ("2.12.1+cpu", None, None, None, "cpu"),
        ("2.12.1+cu130", "13.0", None, None, "cu130"),
        ("2.10.0.dev20251201+rocm6.4", None, "6.4.43482-0f2d60242", None, "rocm6.4"),
        ("2.12.1+xpu", None, None, "20250301", "xpu"),
        ("2.12.1", "12.8", None, None, "cu128"),
        ("2.12.1", None, "6.4.43482-0f2d60242", None, "rocm6.4"),
        ("2.12.1", None, None, "20250301", "xpu"),
        ("2.12.1", None, None, None, "cpu"),
        ("2.13.0a0+git1234567", "13.0", None, None, "cu130"),
        ("2.13.0a0+git1234567", None, None, None, "cpu"),
        ("2.6.0+cpu.cxx11.abi", None, None, None, "cpu"),
        (None, None, None, None, "cpu"),
    ],
)
def test_the_variant_is_the_local_version_else_what_torch_says(version, cuda, hip, xpu, variant):
    assert variant_of(version, cuda, hip, xpu) == variant


# --- which build is meant -----------------------------------------------------------------------

SOME = [
    build(version)
    for version in (
        "2.10.0+cpu", "2.9.0+cpu", "2.9.1+cpu", "2.13.0.dev20260527+cpu", "2.13.0.dev20260528+cpu",
        "2.14.0.dev20260602+cpu", "2.14.0.dev20260604+cpu", "2.12.0+cpu", "2.12.0rc3+cpu",
    )
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("latest", "2.12.0+cpu"),
        ("2.9", "2.9.1+cpu"),
        ("2.9.0", "2.9.0+cpu"),
        ("2.10", "2.10.0+cpu"),
        ("2.12", "2.12.0+cpu"),
        ("nightly", "2.14.0.dev20260604+cpu"),
        ("nightly+cpu", "2.14.0.dev20260604+cpu"),
        ("2026-05-28", "2.13.0.dev20260528+cpu"),
        ("2026-06-02", "2.14.0.dev20260602+cpu"),
        ("2.13.0.dev20260527", "2.13.0.dev20260527+cpu"),
        ("2.13.0.dev20260527+cpu", "2.13.0.dev20260527+cpu"),
    ],
)
def test_the_build_that_a_spec_means(text, version):
    choice = select(parse_spec(text), SOME)
    assert (str(choice.build.version), choice.note) == (version, None)


@pytest.mark.parametrize(
    ("text", "version", "day"),
    [
        ("2026-06-01", "2.13.0.dev20260528+cpu", "2026-05-28"),
        ("2026-06-03", "2.14.0.dev20260602+cpu", "2026-06-02"),
        ("2030-01-01", "2.14.0.dev20260604+cpu", "2026-06-04"),
    ],
)
def test_a_day_without_a_nightly_gives_the_nearest_earlier_and_says_so(text, version, day):
    choice = select(parse_spec(text), SOME)
    assert str(choice.build.version) == version
    assert choice.note == f"no nightly of {text}; the nearest earlier is of {day}"


def test_before_the_first_nightly_there_is_none():
    with pytest.raises(
        Unavailable, match=r"2026-05-26 or earlier is listed; the oldest .* 2026-05-27"
    ):
        select(parse_spec("2026-05-26"), SOME)
    with pytest.raises(Unavailable, match=r"or earlier is listed$"):
        select(parse_spec("2026-05-26"), [])


@pytest.mark.parametrize("text", ["2.11", "2.9.2", "2.13.0.dev20260529", "2.13.0", "latest+cu130"])
def test_what_is_not_there_is_said(text):
    with pytest.raises(Unavailable, match="there is no torch") as caught:
        select(parse_spec(text), SOME)
    assert text in str(caught.value)
    assert "repro builds" in (caught.value.hint or "")


def test_what_was_withdrawn_is_said_and_never_taken():
    with pytest.raises(Unavailable, match="was withdrawn"):
        select(parse_spec("2.11.0"), SOME, [build("2.11.0+cpu")])
    assert str(select(parse_spec("2.9"), SOME, [build("2.9.2+cpu")]).build.version) == "2.9.1+cpu"


def test_two_branches_on_the_day_of_the_cut_give_main():
    both = [build("2.14.0.dev20260602+cpu"), build("2.13.0.dev20260602+cpu")]
    assert str(select(parse_spec("2026-06-02"), both).build.version) == "2.14.0.dev20260602+cpu"


def test_the_wheel_that_fits_best_is_taken():
    worse, better = build("2.9.0", preference=9), build("2.9.0", preference=1)
    assert in_order([worse, better]) == in_order([better, worse]) == [better]


SERIES = st.tuples(st.integers(2, 3), st.integers(0, 20), st.integers(0, 3))
DAYS = st.dates(date(2023, 1, 1), date(2029, 12, 31))


@given(st.lists(SERIES, min_size=1, unique=True))
def test_releases_are_ordered_by_number_not_by_text(series):
    builds = [build("{}.{}.{}".format(*parts)) for parts in series]
    assert [tuple(b.version.release) for b in in_order(builds)] == sorted(series)
    newest = select(parse_spec("latest"), builds).build.version.release
    assert tuple(newest) == max(series)


@given(SERIES, DAYS, st.sampled_from(["", "+cpu", "+cu130"]))
def test_a_release_is_after_its_nightlies_and_before_those_of_the_next_branch(series, day, local):
    major, minor, _ = series
    before = build(f"{major}.{minor}.0.dev{day:%Y%m%d}{local}")
    release = build(f"{major}.{minor}.0{local}")
    after = build(f"{major}.{minor + 1}.0.dev{day:%Y%m%d}{local}")
    assert in_order([after, release, before]) == [before, release, after]
    assert before.day == after.day == day
    assert before.is_nightly
    assert not release.is_nightly
    assert before.variant == (local.removeprefix("+") or None)


@given(st.lists(DAYS, min_size=1, unique=True), DAYS, DAYS)
def test_the_nearest_earlier_day_across_a_branch_cut(days, cut, wanted):
    builds = [build(f"2.{14 if day >= cut else 13}.0.dev{day:%Y%m%d}+cpu") for day in days]
    earlier = [day for day in days if day <= wanted]
    spec = parse_spec(wanted.isoformat())
    if not earlier:
        with pytest.raises(Unavailable):
            select(spec, builds)
        return
    choice = select(spec, builds)
    assert choice.build.day == max(earlier)
    assert (choice.note is None) == (wanted in days)


@given(DAYS, st.sampled_from(["", "nightly-"]), st.sampled_from(["", "+cpu", "+cu128", "+xpu"]))
def test_every_date_is_understood_as_it_is_written(day, prefix, variant):
    spec = parse_spec(f"{prefix}{day}{variant}")
    assert (spec.kind, spec.value) == (SpecKind.DATE, day.isoformat())
    assert spec.variant == (variant.removeprefix("+") or None)
    version = parse_spec(f"2.13.0.dev{day:%Y%m%d}{variant}")
    assert (version.kind, version.variant) == (SpecKind.DEV, spec.variant)


def test_the_day_of_a_version_that_holds_none():
    assert build("2.13.0.dev7").day is None
    assert build("2.13.0", uploaded=date(2026, 7, 1)).day == date(2026, 7, 1)
    assert build("2.13.0").day is None


def test_the_variant_of_a_wheel_is_in_its_version_or_its_page():
    assert build("2.13.0+cu130", shelf="cpu").variant == "cu130"
    assert build("2.13.0", shelf="cpu").variant == "cpu"
    assert build("2.13.0").variant is None
    assert build("2.13.0a0+git1234567").variant is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@index.example/a.whl#sha256=1", "https://index.example/a.whl"),
        ("https://token@index.example:8080/a?x=1", "https://index.example:8080/a"),
        ("file:///a/b%2Bc.whl", "file:///a/b%2Bc.whl"),
    ],
)
def test_credentials_are_taken_out(url, shown):
    assert without_credentials(url) == shown


@pytest.mark.parametrize(
    ("url", "index", "whole"),
    [
        ("https://a.example/w.whl", "https://me:pw@a.example/x", "https://me:pw@a.example/w.whl"),
        ("https://files.example/w.whl", "https://me:pw@a.example/x", "https://files.example/w.whl"),
        ("https://a.example/w.whl", "https://a.example/x", "https://a.example/w.whl"),
    ],
)
def test_credentials_of_an_index_go_to_its_own_files_alone(url, index, whole):
    assert with_credentials(url, index) == whole


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://A.example/x/%2B.whl", "https://a.example/x/+.whl", True),
        ("https://a.example/x/../+.whl", "https://me:pw@a.example/+.whl?sig=1#sha256=2", True),
        ("https://a.example/+.whl", "https://b.example/+.whl", False),
        ("file:///a/b.whl", "file:///a/c.whl", False),
    ],
)
def test_one_file_under_two_spellings(one, other, same):
    assert same_file(one, other) is same
