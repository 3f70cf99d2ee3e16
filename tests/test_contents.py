"""What is read out of a wheel, and how little is moved for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

import repro.web
from repro.builds import Build, Origin
from repro.contents import Contents, Reader, triton_of, version_and_commit
from repro.errors import Unavailable
from repro.interpreters import find_interpreter
from repro.web import Unreachable, Web
from tests.nightly_index.faults import Reset, Stall, Status, Truncated
from tests.nightly_index.nightlies import base_of_installed
from tests.nightly_index.server import IndexServer
from tests.nightly_index.shelf import Options, Shelf
from tests.nightly_index.wheels import Wheel, commit_of, fake_torch, make_wheel

VERSION = "2.13.0.dev20260528+cpu"
TRITON = "pytorch-triton==3.5.0+gitabcdef12; platform_system == 'Linux'"


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repro.web, "RETRY_BACKOFF", 0.0)
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(Web(tmp_path / "pages"), tmp_path / "wheels")


def build_of(shelf: Shelf, wheel: Wheel) -> Build:
    return Build(wheel.version, wheel.filename, shelf.file_url(wheel), Origin.PYTORCH, "cpu")


def put_up(server: IndexServer, wheel: Wheel, options: Options | None = None) -> Build:
    shelf = server.shelf("nightly/cpu", options or Options())
    shelf.add(wheel)
    return build_of(shelf, wheel)


def test_version_commit_and_pin_are_read_without_downloading_the_wheel(server, reader):
    build = put_up(server, fake_torch(VERSION, requires=["filelock", TRITON]))
    contents = reader.read(build)
    assert contents == Contents(VERSION, commit_of(VERSION), ("filelock", TRITON))
    assert all(request.range for request in server.requests)


def test_a_real_wheel_moves_less_than_2_mb(server, reader):
    base = base_of_installed("torch")
    wheel = base.renamed(VERSION, {}, commit="a" * 40)
    build = put_up(server, wheel)
    contents = reader.read(build)
    assert contents is not None
    assert (contents.version, contents.git_version) == (VERSION, "a" * 40)
    assert any(need.startswith("sympy") for need in contents.requires)
    assert wheel.content.size > 150_000_000
    assert server.moved() < 2_000_000


def test_what_was_read_is_kept(server, reader, tmp_path):
    build = put_up(server, fake_torch(VERSION))
    first = reader.read(build)
    asked = len(server.requests)
    again = Reader(Web(tmp_path / "pages"), tmp_path / "wheels")
    assert again.read(build) == first
    assert len(server.requests) == asked


def test_what_was_kept_and_damaged_is_read_again(server, reader, tmp_path):
    build = put_up(server, fake_torch(VERSION))
    first = reader.read(build)
    [kept] = (tmp_path / "wheels").iterdir()
    for text in ("", "{", "[]", '{"version": "1"}'):
        kept.write_text(text)
        assert reader.read(build) == first


def test_a_server_without_ranges_is_not_asked_for_the_whole(server, reader):
    wheel = fake_torch(VERSION)
    build = put_up(server, wheel, Options(ranges=False))
    assert reader.read(build) is None
    [request] = server.requests
    assert request.range


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Status(404), Unavailable, "answers 404, not available"),
        (Status(403), Unavailable, "answers 403, not available"),
        (Status(500), Unreachable, "answers 500"),
        (Stall(), Unreachable, "stalled"),
        (Stall(after=100), Unreachable, "stalled"),
        (Truncated(after=100), Unavailable, "cut off"),
        (Reset(), Unreachable, "cannot be reached"),
    ],
)
def test_each_fault_of_a_file_is_a_sentence_that_names_it(fault, kind, words, server, reader):
    wheel = fake_torch(VERSION)
    build = put_up(server, wheel)
    server.shelves["nightly/cpu"].fail(wheel, fault)
    with pytest.raises(kind, match=words) as caught:
        reader.read(build)
    assert str(caught.value).startswith(f"{wheel.filename}: ")


def test_a_file_that_is_no_wheel(server, reader, tmp_path):
    other = make_wheel("torch", VERSION, {"nothing.py": b""})
    build = put_up(server, other)
    with pytest.raises(Unavailable, match="no torch is in this wheel"):
        reader.read(build)
    path = tmp_path / other.filename
    path.write_bytes(b"no zip at all")
    with pytest.raises(Unavailable, match="damaged"):
        reader.read(replace(build, url=path.as_uri()))


def test_a_wheel_on_disk_is_read_there(reader, tmp_path):
    wheel = fake_torch(VERSION)
    path = tmp_path / wheel.filename
    path.write_bytes(wheel.content.open().read())
    build = Build(Version(VERSION), wheel.filename, path.as_uri(), Origin.GIVEN)
    contents = reader.read(build)
    assert contents is not None
    assert contents.git_version == commit_of(VERSION)
    rebuilt = fake_torch(VERSION, commit="b" * 40)  # a wheel that was built again
    path.write_bytes(rebuilt.content.open().read())
    again = reader.read(build)
    assert again is not None
    assert again.git_version == "b" * 40


OLD = "__version__ = '2.6.0+cu124'\ngit_version = '2236df1770800ffea5697b11b0bb0d910b2e59e1'\n"
NEW = (
    '__version__: str = "2.13.0"\n'
    'git_version: Optional[str] = "cf30153cbd7f79a84949c2a0c4d4bda4a6ddb4f6"\n'
)


def test_both_styles_of_version_py():
    assert version_and_commit(OLD) == ("2.6.0+cu124", "2236df1770800ffea5697b11b0bb0d910b2e59e1")
    assert version_and_commit(NEW) == ("2.13.0", "cf30153cbd7f79a84949c2a0c4d4bda4a6ddb4f6")


@pytest.mark.parametrize("commit", ["'Unknown'", "''", "None"])
def test_a_commit_that_is_not_known(commit):
    assert version_and_commit(f"__version__ = '2.13.0'\ngit_version = {commit}\n")[1] is None


@given(st.text())
def test_any_other_text_is_a_value_error(text):
    try:
        version, commit = version_and_commit(text)
    except ValueError:
        return
    assert version
    assert commit is None or re.fullmatch("[0-9a-f]{7,40}", commit)


@pytest.mark.parametrize(
    ("requires", "name"),
    [
        ([TRITON], "pytorch-triton"),
        (["sympy", "triton==3.7.0; platform_system == 'Linux' and python_version < '4'"], "triton"),
        (["pytorch_triton_rocm==3.5.0+gitabc"], "pytorch_triton_rocm"),
        (["triton-xpu==3.5"], "triton-xpu"),
        (["tritonclient", "numpy"], None),
        (["triton==3.7.0; platform_system == 'Windows'"], None),
        (["triton==3.7.0; python_version < '3.2'"], None),
        (["triton==3.7.0; extra == 'gpu'"], None),
        (["no requirement !!", TRITON], "pytorch-triton"),
    ],
)
def test_the_triton_among_requirements(requires, name):
    found = triton_of(requires, find_interpreter(None))
    assert (found.name if found else None) == name


def test_the_python_of_the_environments_decides_about_markers():
    newer = replace(find_interpreter(None), version=(3, 14), full="3.14.0")
    pins = ["triton==3.4; python_version < '3.14'", "triton==3.5; python_version >= '3.14'"]
    assert str(triton_of(pins, newer).specifier) == "==3.5"
