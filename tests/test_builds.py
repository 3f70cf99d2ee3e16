from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.builds import UNDERSTOOD, Spec, SpecKind, parse_spec, variant_of
from repro.errors import ReproError


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("current", SpecKind.CURRENT, "current"),
        ("latest", SpecKind.LATEST, "latest"),
        ("2.12", SpecKind.SERIES, "2.12"),
        ("2.12.1", SpecKind.RELEASE, "2.12.1"),
        (" 2.6.0 ", SpecKind.RELEASE, "2.6.0"),
        ("/opt/venv/bin/python", SpecKind.PATH, "/opt/venv/bin/python"),
        ("./venv", SpecKind.PATH, "venv"),
        ("../venv", SpecKind.PATH, "../venv"),
        ("a/2.12", SpecKind.PATH, "a/2.12"),
    ],
)
def test_forms_of_a_spec(text, kind, value):
    assert parse_spec(text) == Spec(text, kind, value)


def test_a_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert parse_spec("~/venv").value == "/somewhere/venv"
    assert parse_spec("~").value == str(Path("/somewhere"))


@pytest.mark.parametrize(
    "text", ["", "  ", "2", "2.", "2.12.", "2.12.1.4", "v2.12", "newest", "venv", "2.12,2.11", "-1"]
)
def test_anything_else_lists_what_is_understood(text):
    with pytest.raises(ReproError, match="names no build") as caught:
        parse_spec(text)
    assert repr(text) in str(caught.value)
    assert caught.value.hint == f"understood: {UNDERSTOOD}"
    for word in ("current", "latest", "2.12.1", "2.12", "path"):
        assert word in UNDERSTOOD


def test_the_home_of_an_unknown_user_is_an_error_of_ours():
    with pytest.raises(ReproError):
        parse_spec("~no-such-user-here/venv")


@given(st.text(max_size=20))
def test_any_text_is_a_spec_or_an_error_of_ours(text):
    try:
        spec = parse_spec(text)
    except ReproError:
        return
    assert spec.text == text
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
