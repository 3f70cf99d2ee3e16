"""Environments made with uv from the test index: exact, from the right index, or it says why not.

Stand-ins of torch are installed by the real uv, with a cache of their own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

import repro.uv
import repro.web
from repro.builds import Build, Origin
from repro.contents import Reader
from repro.errors import Unavailable
from repro.index import Index
from repro.install import COMPANIONS, Installer
from repro.interpreters import find_interpreter
from repro.sources import Sources
from repro.store import Installed
from repro.web import Web
from tests.nightly_index.faults import Fault, Reset, Stall, Status, Truncated
from tests.nightly_index.server import IndexServer
from tests.nightly_index.shelf import Options, Shelf
from tests.nightly_index.wheels import (
    Wheel,
    commit_of,
    fake_nightlies,
    fake_torch,
    fake_triton,
    make_wheel,
    nightly_version,
)

DAY = date(2026, 5, 28)
VERSION = nightly_version(DAY)
PIN = "3.5.0+git5e5685356"


class Shop:
    """A PyTorch index and a default index, and an installer that knows both."""

    def __init__(self, server: IndexServer, folder: Path, options: Options) -> None:
        self.server = server
        self.folder = folder
        self.nightlies = server.shelf("nightly/cpu", options)
        self.default = server.shelf("simple")
        self.default.add(*(make_wheel(name, "1.0", {f"{name}.py": b""}) for name in COMPANIONS))
        web = Web(folder / "pages")
        sources = Sources(self.default.url, f"{server.url}/nightly")
        self.index = Index(web, sources, find_interpreter(None), lambda line: None)
        self.install = Installer(self.index, Reader(web, folder / "wheels"))

    def put_up(self, wheel: Wheel, shelf: Shelf | None = None, **more: str) -> Build:
        """The build of a wheel that is now listed."""
        where = shelf or self.nightlies
        where.add(wheel, **more)
        listing = (
            self.index.default_releases()
            if where.root == "simple"
            else self.index.nightlies(where.root.rpartition("/")[2])
        )
        [build] = [found for found in listing.builds if found.filename == wheel.filename]
        return build

    def make(self, build: Build) -> Installed:
        return self.install(build, self.folder / "environment", (), lambda line: None)

    def run(self, code: str) -> str:
        python = self.folder / "environment" / "bin" / "python"
        return subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()


@pytest.fixture
def options() -> Options:
    return Options()


@pytest.fixture
def shop(options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for name, value in {
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_HTTP_TIMEOUT": "1",
        "UV_HTTP_RETRIES": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(repro.uv, "RETRY_PAUSE", 0.0)
    monkeypatch.setattr(repro.web, "RETRY_BACKOFF", 0.0)
    with IndexServer() as server:
        yield Shop(server, tmp_path, options)


def without_ranges(test):
    return pytest.mark.parametrize(
        "options", [Options(), Options(ranges=False)], ids=["ranges", "no ranges"]
    )(test)


@without_ranges
def test_what_was_asked_for_is_what_is_there(shop):
    build = shop.put_up(fake_torch(VERSION))
    made = shop.make(build)
    assert (made.version, made.git_version, made.triton) == (VERSION, commit_of(VERSION), None)
    assert shop.run("import torch; print(torch.__version__)") == VERSION
    assert shop.run("import numpy, setuptools; print('there')") == "there"


def test_a_neighbour_is_never_taken(shop):
    shop.nightlies.add(*fake_nightlies([date(2026, 5, 27), date(2026, 5, 29)]))
    shop.default.add(fake_torch("2.13.0"))
    build = shop.put_up(fake_torch(VERSION, requires=["missing-package"]))
    with pytest.raises(Unavailable, match="no such version"):
        shop.make(build)


# --- where torch and triton come from -----------------------------------------------------------


@without_ranges
@pytest.mark.parametrize("name", ["triton", "pytorch-triton"])
def test_torch_and_triton_come_from_the_pytorch_index_alone(name, shop):
    """As in December 2022, the default index has packages of the same names and versions."""
    torch = fake_torch(VERSION, cuda="13.0", requires=[f"{name}=={PIN}", "helper"])
    evil = fake_torch(VERSION, commit="e" * 40)
    shop.default.add(evil, fake_torch("99.0.0", commit="e" * 40))
    shop.default.add(fake_triton(PIN, "attacker", name), fake_triton("99.0", "attacker", name))
    shop.default.add(make_wheel("helper", "1.0", {"helper.py": b"FROM = 'default'"}))
    shop.nightlies.add(fake_triton(PIN, "PyTorch", name))
    made = shop.make(shop.put_up(torch))
    assert made.git_version == commit_of(VERSION)
    assert made.triton == f"{name} {PIN}"
    assert shop.run("import triton, helper; print(triton.ORIGIN, helper.FROM)") == "PyTorch default"
    assert shop.server.count(f"/simple/{evil.filename}") == 0
    assert shop.server.count(f"/simple/{name}/") == 0


def test_what_another_package_wants_brings_in_no_other_triton(shop):
    torch = fake_torch(VERSION, requires=[f"triton=={PIN}", "helper"])
    shop.default.add(fake_triton("99.0", "attacker"))
    shop.default.add(make_wheel("helper", "1.0", {"helper.py": b""}, requires=["triton>=1"]))
    shop.nightlies.add(fake_triton(PIN, "PyTorch"))
    assert shop.make(shop.put_up(torch)).triton == f"triton {PIN}"
    assert shop.run("import triton; print(triton.ORIGIN)") == "PyTorch"


def test_a_helper_that_wants_another_triton_is_no_reason_to_take_it(shop):
    torch = fake_torch(VERSION, requires=[f"triton=={PIN}", "helper"])
    shop.default.add(fake_triton("99.0", "attacker"))
    shop.default.add(make_wheel("helper", "1.0", {"helper.py": b""}, requires=["triton==99.0"]))
    shop.nightlies.add(fake_triton(PIN, "PyTorch"))
    with pytest.raises(Unavailable):
        shop.make(shop.put_up(torch))


@without_ranges
def test_a_triton_that_the_pytorch_index_lacks_is_not_looked_for_elsewhere(shop):
    shop.default.add(fake_triton(PIN, "attacker"))
    build = shop.put_up(fake_torch(VERSION, requires=[f"triton=={PIN}"]))
    with pytest.raises(Unavailable, match="which the PyTorch index does not list") as caught:
        shop.make(build)
    assert str(caught.value).startswith(f"{build.filename}: it needs triton=={PIN}")


def test_the_pin_decides_not_the_newest(shop):
    shop.nightlies.add(
        fake_triton("3.5.0+gitffffffff", "later"), fake_triton("3.6.0", "newer"),
        fake_triton(PIN, "pinned"),
    )  # fmt: skip
    shop.make(shop.put_up(fake_torch(VERSION, requires=[f"triton=={PIN}"])))
    assert shop.run("import triton; print(triton.ORIGIN)") == "pinned"


def test_a_release_of_the_default_index_has_its_triton_from_there(shop):
    shop.default.add(fake_triton("3.6.0", "default"))
    build = shop.put_up(fake_torch("2.12.1", requires=["triton==3.6.0"]), shop.default)
    assert build.origin is Origin.DEFAULT
    assert shop.make(build).triton == "triton 3.6.0"


def test_a_release_is_taken_by_its_hash_whatever_other_index_has_one(shop, monkeypatch):
    default = shop.server.shelf("simple", Options(hashes=True))
    default.add(*(make_wheel(name, "1.0", {f"{name}.py": b""}) for name in COMPANIONS))
    build = shop.put_up(fake_torch("2.12.1"), default)
    shop.default = default
    other = shop.server.shelf("other")
    other.add(fake_torch("2.12.1", commit="e" * 40))
    monkeypatch.setenv("UV_INDEX", other.url)
    with pytest.raises(Unavailable, match="sha256 is not what the index states"):
        shop.make(build)
    monkeypatch.delenv("UV_INDEX")
    shutil.rmtree(shop.folder / "environment")
    assert shop.make(build).git_version == commit_of("2.12.1")


def test_a_release_may_say_more_inside_than_in_its_name(shop):
    build = shop.put_up(fake_torch("2.12.1", inside="2.12.1+cu130"), shop.default)
    assert shop.make(build).version == "2.12.1+cu130"


# --- faults -------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[Fault, str]] = {
    "403": (Status(403), "the server answers 403, not available"),
    "404": (Status(404), "the server answers 404, not available"),
    "500": (Status(500), "the server answers 500"),
    "stall": (Stall(), "the server stalled"),
    "stall within": (Stall(after=200), "the server stalled"),
    "truncated": (Truncated(after=200), "cut off"),
    "reset": (Reset(), "cannot be reached"),
}


@without_ranges
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_the_file_is_a_sentence_that_names_it(fault, shop):
    planted, words = FAULTS[fault]
    wheel = fake_torch(VERSION)
    build = shop.put_up(wheel)
    shop.nightlies.fail(wheel, planted)
    with pytest.raises(Unavailable, match=words) as caught:
        shop.make(build)
    assert str(caught.value).startswith(f"{wheel.filename}: ")
    assert caught.value.hint


@without_ranges
@pytest.mark.parametrize("fault", ["500", "stall", "truncated", "reset"])
def test_a_fault_that_passes_is_got_over(fault, shop):
    planted, _ = FAULTS[fault]
    wheel = fake_torch(VERSION)
    build = shop.put_up(wheel)
    shop.nightlies.fail(wheel, replace(planted, times=1))
    assert shop.make(build).version == VERSION


@without_ranges
def test_the_whole_file_cut_off_after_its_parts_were_read(shop):
    wheel = fake_torch(VERSION)
    build = shop.put_up(wheel)
    # The parts are short enough to come through.
    shop.nightlies.fail(wheel, Truncated(after=wheel.content.size - 10))
    with pytest.raises(Unavailable, match="cut off") as caught:
        shop.make(build)
    assert wheel.filename in str(caught.value)


@without_ranges
def test_another_version_inside_than_in_the_name(shop):
    build = shop.put_up(fake_torch(VERSION, inside="2.13.0.dev20260527+cpu"))
    with pytest.raises(Unavailable) as caught:
        shop.make(build)
    assert str(caught.value) == (
        f"{build.filename}: torch/version.py inside says 2.13.0.dev20260527+cpu"
    )


@without_ranges
def test_another_local_version_inside_than_in_the_name(shop):
    build = shop.put_up(fake_torch(VERSION, inside="2.13.0.dev20260528+cu130"))
    with pytest.raises(Unavailable, match=r"inside says 2\.13\.0\.dev20260528\+cu130"):
        shop.make(build)


@without_ranges
def test_wrong_metadata(shop):
    build = shop.put_up(fake_torch(VERSION, metadata_version="2.13.0.dev20260527+cpu"))
    with pytest.raises(Unavailable, match="METADATA") as caught:
        shop.make(build)
    assert str(caught.value).startswith(f"{build.filename}: ")


def test_a_file_that_is_not_what_the_page_says(shop):
    build = shop.put_up(fake_torch(VERSION), sha256="0" * 64)
    with pytest.raises(Unavailable, match="sha256 is not what the index states") as caught:
        shop.make(build)
    assert str(caught.value).startswith(f"{build.filename}: ")


def test_a_package_that_torch_needs_and_cannot_be_had_names_that(shop):
    helper = make_wheel("helper", "1.0", {"helper.py": b""})
    shop.default.add(helper)
    shop.default.fail(helper, Status(404))
    build = shop.put_up(fake_torch(VERSION, requires=["helper"]))
    with pytest.raises(Unavailable, match="404") as caught:
        shop.make(build)
    assert helper.filename in str(caught.value)
    assert build.filename in str(caught.value)


def test_a_wheel_from_disk(shop, tmp_path):
    wheel = fake_torch(VERSION, requires=[f"triton=={PIN}"])
    path = tmp_path / wheel.filename
    path.write_bytes(wheel.content.open().read())
    shop.nightlies.add(fake_triton(PIN, "PyTorch"))
    made = shop.make(Build(wheel.version, wheel.filename, path.as_uri(), Origin.GIVEN))
    assert (made.version, made.triton) == (VERSION, f"triton {PIN}")


def test_credentials_reach_uv_and_no_record(shop):
    wheel = fake_torch(VERSION)
    build = shop.put_up(wheel)
    secret = replace(build, url=build.url.replace("http://", "http://me:hunter2@"))
    shop.make(secret)
    [record] = (shop.folder / "environment").glob("lib/*/site-packages/torch-*/direct_url.json")
    assert "hunter2" not in json.dumps(json.loads(record.read_text()))


def test_a_user_who_set_other_indexes_for_uv_changes_nothing(shop, monkeypatch):
    other = shop.server.shelf("other")
    other.add(fake_torch(VERSION, commit="e" * 40), fake_triton(PIN, "attacker"))
    monkeypatch.setenv("UV_INDEX", other.url)
    monkeypatch.setenv("UV_INDEX_STRATEGY", "unsafe-best-match")
    shop.nightlies.add(fake_triton(PIN, "PyTorch"))
    made = shop.make(shop.put_up(fake_torch(VERSION, requires=[f"triton=={PIN}"])))
    assert made.git_version == commit_of(VERSION)
    assert shop.run("import triton; print(triton.ORIGIN)") == "PyTorch"


def test_a_wheel_that_was_put_in_anothers_place_is_fetched_anew(shop):
    """uv's cache may still have the old one, as it was made for the same address."""
    build = shop.put_up(fake_torch(VERSION))
    shop.make(replace(build, stamp="monday"))
    for commit in ("b" * 40, "c" * 40):
        shutil.rmtree(shop.folder / "environment")
        shop.nightlies.add(fake_torch(VERSION, commit=commit))
        assert shop.make(replace(build, stamp=commit)).git_version == commit


def test_a_version_that_is_none_is_a_sentence(shop):
    build = shop.put_up(fake_torch(VERSION, inside="not a version!"))
    with pytest.raises(Unavailable, match=r"torch/version\.py: 'not a version!' is no version"):
        shop.make(build)
