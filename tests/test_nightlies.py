"""`repro run` against an index of nightlies, as a user calls it: stand-ins, faults, real builds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from repro.install import COMPANIONS
from tests.conftest import ROOT, Printed, Repro
from tests.nightly_index.before_fix import FX_UTILS, fx_utils_before_fix
from tests.nightly_index.behaviour import PASSES, Behaviour, fails_in
from tests.nightly_index.faults import Fault, Reset, Stall, Status, Truncated
from tests.nightly_index.nightlies import base_of_installed, nightlies
from tests.nightly_index.server import IndexServer
from tests.nightly_index.shelf import Options, Shelf
from tests.nightly_index.wheels import Wheel, days, fake_nightlies, fake_torch, make_wheel

CASE = Path(__file__).parent / "nightly_index" / "cases" / "small.py"
BROKEN, MENDED = date(2026, 5, 10), date(2026, 5, 20)
DAYS = days(date(2026, 5, 1), date(2026, 5, 28), missing=[date(2026, 5, 14)])
VERSION = "2.13.0.dev20260528+cpu"


def behaviour(day: date) -> Behaviour:
    return fails_in("post_grad_passes") if BROKEN <= day < MENDED else PASSES


class Place:
    """A server, and the command set to use it and nothing else."""

    def __init__(self, server: IndexServer, repro: Repro, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.nightlies = server.shelf("nightly/cpu")
        self.default = server.shelf("simple")
        self.default.add(*(make_wheel(name, "1.0", {f"{name}.py": b""}) for name in COMPANIONS))
        self._repro = repro

    def __call__(self, *arguments: str | Path, **variables: str) -> Printed:
        fixed = {
            "REPRO_NIGHTLY_INDEX_URL": f"{self.server.url}/nightly",
            "REPRO_INDEX_URL": self.default.url,
            "REPRO_CACHE_DIR": str(self.folder / "cache"),
            "UV_CACHE_DIR": str(self.folder / "uv"),
            "UV_HTTP_TIMEOUT": "2",
            "UV_HTTP_RETRIES": "0",
        }
        return self._repro(*arguments, **(fixed | variables))

    def run(self, *builds: str | Path, **variables: str) -> Printed:
        named = [word for build in builds for word in ("--build", str(build))]
        return self("run", "--case", CASE, *named, "--json", **variables)

    @property
    def environments(self) -> list[str]:
        folder = self.folder / "cache" / "environments"
        return sorted(path.name for path in folder.glob("*")) if folder.exists() else []


@pytest.fixture
def place(repro: Repro, tmp_path: Path) -> Iterator[Place]:
    with IndexServer() as server:
        yield Place(server, repro, tmp_path)


def test_nightlies_by_name_date_and_version(place):
    place.nightlies.add(*fake_nightlies(DAYS, behaviour))
    specs = ("nightly", "2026-05-09", "nightly-2026-05-10", "2.13.0.dev20260519+cpu", "2026-05-14")
    printed = place.run(*specs)
    runs = {run["build"]["spec"]: run for run in printed.runs}
    assert {spec: run["outcome"]["kind"] for spec, run in runs.items()} == {
        "nightly": "pass",
        "2026-05-09": "pass",
        "nightly-2026-05-10": "fail",
        "2.13.0.dev20260519+cpu": "fail",
        "2026-05-14": "fail",
    }, printed.err
    assert runs["nightly"]["build"]["version"] == VERSION
    assert runs["2026-05-14"]["build"]["version"] == "2.13.0.dev20260513+cpu"
    note = "no nightly of 2026-05-14; the nearest earlier is of 2026-05-13"
    assert note in runs["2026-05-14"]["outcome"]["notes"]
    assert f"note: {note}" in printed.err
    assert runs["2026-05-14"]["outcome"]["stage"] == "post_grad_passes"


def test_a_second_run_installs_nothing_and_fetches_no_wheel(place):
    place.nightlies.add(*fake_nightlies(DAYS[-2:]))
    assert place.run("nightly").code == 0
    place.server.forget()
    assert place.run("nightly").code == 0
    assert {request.path for request in place.server.requests} == {"/nightly/cpu/torch/"}


def test_a_wheel_and_its_address(place):
    [wheel] = fake_nightlies(DAYS[-1:])
    place.nightlies.add(wheel)
    path = place.folder / wheel.filename
    path.write_bytes(wheel.content.open().read())
    printed = place.run(path, place.nightlies.file_url(wheel))
    assert [run["outcome"]["kind"] for run in printed.runs] == ["pass", "pass"], printed.err
    assert {run["build"]["version"] for run in printed.runs} == {VERSION}


# --- faults -------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[Fault, str]] = {
    "403": (Status(403), "the server answers 403, not available"),
    "404": (Status(404), "the server answers 404, not available"),
    "500": (Status(500), "the server answers 500"),
    "stall": (Stall(), "the server stalled"),
    "stall half way": (Stall(after=300), "the server stalled"),
    "truncated": (Truncated(after=300), "what came was cut off"),
    "reset": (Reset(), "the server cannot be reached"),
}
WHEELS: dict[str, tuple[Wheel, str]] = {
    "another version inside": (
        fake_torch(VERSION, inside="2.13.0.dev20260527+cpu"),
        r"torch/version.py inside says 2\.13\.0\.dev20260527\+cpu",
    ),
    "wrong metadata": (
        fake_torch(VERSION, metadata_version="2.13.0.dev20260527+cpu"),
        "its METADATA says version 2.13.0.dev20260527",
    ),
}


def _untestable(printed: Printed, name: str, words: str) -> None:
    """The one run is untestable at the install, in a sentence that names the file and fault."""
    [run] = printed.runs
    outcome = run["outcome"]
    assert (outcome["kind"], outcome["stage"]) == ("untestable", "install")
    assert printed.code == 125
    assert name in outcome["reason"]
    assert re.search(words, outcome["reason"]), outcome["reason"]
    assert outcome["hint"]


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_file_is_untestable(fault, ranges, place):
    planted, words = FAULTS[fault]
    shelf = place.server.shelf("nightly/cpu", Options(ranges=ranges))
    [wheel] = fake_nightlies(DAYS[-1:])
    shelf.add(wheel)
    shelf.fail(wheel, planted)
    words = words.replace("the server cannot", "cannot")  # uv says it of the index
    _untestable(place.run("nightly"), wheel.filename, words)
    assert place.environments == []
    place.server.mend()
    assert place.run("nightly").code == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_page_is_untestable(fault, place):
    planted, words = FAULTS[fault]
    place.nightlies.add(*fake_nightlies(DAYS))
    place.nightlies.fail("torch", planted)
    _untestable(place.run("nightly"), f"{place.nightlies.url}/torch/", words)
    assert place.environments == []


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("kind", WHEELS)
def test_a_wheel_that_is_not_what_its_name_says_is_untestable(kind, ranges, place):
    wheel, words = WHEELS[kind]
    place.server.shelf("nightly/cpu", Options(ranges=ranges)).add(wheel)
    if kind == "wrong metadata" and not ranges:
        words = "its METADATA states another name or version than its file name"
    _untestable(place.run("nightly"), wheel.filename, words)
    assert place.environments == []


def test_a_yanked_nightly_is_not_taken(place):
    old, new = fake_nightlies(DAYS[-2:])
    place.nightlies.add(old)
    place.nightlies.add(new, yanked="broken")
    printed = place.run("nightly", str(new.version))
    by_spec = {run["build"]["spec"]: run for run in printed.runs}
    assert by_spec["nightly"]["build"]["version"] == str(old.version)
    assert "was withdrawn (yanked)" in by_spec[str(new.version)]["outcome"]["reason"]


def test_a_server_without_ranges_is_no_fault(place):
    place.server.shelf("nightly/cpu", Options(ranges=False)).add(*fake_nightlies(DAYS[-1:]))
    assert place.run("nightly").code == 0


def test_the_network_is_away_but_everything_is_there(place):
    place.nightlies.add(*fake_nightlies(DAYS[-1:]))
    assert place.run("nightly").code == 0
    place.nightlies.fail("torch", Reset())
    printed = place.run("nightly")
    assert printed.code == 0
    assert re.search(
        r"note: index page .* cannot be reached; what it said on .* is used", printed.err
    )


def test_credentials_are_neither_printed_nor_kept(place):
    [wheel] = fake_nightlies(DAYS[-1:])
    place.nightlies.add(wheel)
    url = place.nightlies.file_url(wheel).replace("http://", "http://me:hunter2@")
    index = f"{place.server.url}/nightly".replace("http://", "http://me:hunter2@")
    printed = place.run(url, "nightly", REPRO_NIGHTLY_INDEX_URL=index)
    assert [run["outcome"]["kind"] for run in printed.runs] == ["pass", "pass"], printed.err
    assert "hunter2" not in printed.out + printed.err
    for path in (place.folder / "cache").rglob("*"):
        if path.is_file() and path.suffix in (".json", ".lock", ".sqlite"):
            assert b"hunter2" not in path.read_bytes(), path


def test_what_was_run_before_a_fault_of_ours_is_printed(place):
    place.nightlies.add(*fake_nightlies(DAYS[-1:]))
    code = (
        "import sys, repro.matrix as m\n"
        "real = m.run_build\n"
        "def run_build(plan, spec, supply, narrate):\n"
        "    if spec.text == '2026-05-27': raise ZeroDivisionError('planted')\n"
        "    yield from real(plan, spec, supply, narrate)\n"
        "m.run_build = run_build\n"
        "from repro.cli import main\n"
        "main()"
    )
    variables = {
        "REPRO_NIGHTLY_INDEX_URL": f"{place.server.url}/nightly",
        "REPRO_INDEX_URL": place.default.url,
        "REPRO_CACHE_DIR": str(place.folder / "cache"),
        "UV_CACHE_DIR": str(place.folder / "uv"),
    }
    builds = ("--build", "nightly", "--build", "2026-05-27")
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--case", str(CASE), *builds, "--json"],
        cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    envelope = json.loads(done.stdout)
    assert [run["outcome"]["kind"] for run in envelope["runs"]] == ["pass"]
    assert envelope["interrupted"]
    assert "error: internal: ZeroDivisionError: planted" in done.stderr


# --- the other commands -------------------------------------------------------------------------


def test_builds_lists_what_there_is(place):
    place.nightlies.add(*fake_nightlies(DAYS))
    place.default.add(fake_torch("2.12.1"))
    printed = place("builds", "--since", "2026-05-27", "--commits", "--json")
    listed = json.loads(printed.out)
    assert listed["schema"] == "repro.builds/1"
    assert [(one["version"], one["date"]) for one in listed["builds"]] == [
        ("2.13.0.dev20260527+cpu", "2026-05-27"), (VERSION, "2026-05-28"),
    ]  # fmt: skip
    assert all(re.fullmatch("[0-9a-f]{40}", one["git_version"]) for one in listed["builds"])
    plain = place("builds", "--releases").out
    assert plain.splitlines()[1].split()[0] == "2.12.1"
    assert len(place("builds", "--nightlies").out.splitlines()) == len(DAYS) + 1


def test_environments_are_listed_and_removed(place):
    place.nightlies.add(*fake_nightlies(DAYS[-2:]))
    place.run("nightly", "2026-05-27")
    listed = json.loads(place("env", "list", "--json").out)
    assert listed["schema"] == "repro.environments/1"
    names = {one["version"]: one["name"] for one in listed["environments"]}
    assert set(names) == {VERSION, "2.13.0.dev20260527+cpu"}
    removed = place("env", "remove", names[VERSION])
    assert removed.out.startswith(f"removed {names[VERSION]}, ")
    again = place("env", "remove", names[VERSION])
    assert again.code == 2
    assert "no such environment" in again.err
    assert "removed" in place("env", "prune", "--max-size", "0").out
    assert place.environments == []


def test_doctor_names_each_index_and_its_fault(place):
    place.nightlies.add(*fake_nightlies(DAYS))
    place.default.add(fake_torch("2.12.1"))
    found = {f["name"]: f for f in json.loads(place("doctor", "--json").out)["findings"]}
    assert found["pytorch index"]["value"].endswith(f"{len(DAYS)} files of torch")
    assert found["index"]["state"] == "ok"
    place.default.fail("torch", Status(500))
    printed = place("doctor")
    assert printed.code == 1
    assert re.search(
        r"missing +index +index page .*/simple/torch/: the server answers 500", printed.out
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--variant", "cuda"), "--variant: 'cuda' is none"),
        (("--index-url", "index.example"), "--index-url: 'index.example' is no http"),
        (("--nightly-index-url", "x"), "--nightly-index-url: 'x' is no http"),
        (("--python", "/nowhere/python"), "/nowhere/python: no such file"),
        (("--max-size", "many"), "'many' is no size"),
    ],
)
def test_wrong_settings_are_usage_errors(arguments, words, place):
    printed = place("run", "--case", CASE, "--build", "nightly", *arguments)
    assert (printed.code, printed.out) == (2, "")
    assert words in printed.err
    assert "Traceback" not in printed.err


# --- real builds --------------------------------------------------------------------------------


def _small(shelf: Shelf) -> None:
    base = base_of_installed("torch")
    old = {FX_UTILS: fx_utils_before_fix(base.read(FX_UTILS).decode()).encode()}
    two = [date(2026, 5, 20), date(2026, 5, 28)]
    shelf.add(*nightlies(base, two, replaced=lambda day: old if day == two[0] else {}))


def test_real_nightlies_with_the_old_comparison_until_a_date(repro, tmp_path):
    """Made of torch 2.13.0: what of it needs more comes from the user's own default index."""
    with IndexServer() as server:
        shelf = server.shelf("nightly/cpu")
        _small(shelf)
        printed = repro(
            "run", "--case", "hybridep_dispatch", "--build", "nightly", "--build", "2026-05-20",
            "--json", REPRO_NIGHTLY_INDEX_URL=f"{server.url}/nightly",
            REPRO_CACHE_DIR=str(tmp_path), UV_CACHE_DIR=str(tmp_path / "uv"),
        )  # fmt: skip
        moved = server.moved()
    new, old = printed.runs
    assert new["outcome"]["kind"] == "pass", f"{printed.err}\n{new}"
    assert new["build"]["version"] == VERSION
    assert old["outcome"]["kind"] == "fail"
    assert old["build"]["version"] == "2.13.0.dev20260520+cpu"
    assert old["outcome"]["stage"] == "post_grad_passes"
    assert old["outcome"]["function"] == "is_fake_tensor_same"
    assert moved < 2.2 * sum(wheel.wheel.content.size for wheel in shelf.entries.values()) / 2


def test_a_case_that_the_build_cannot_run_installs_nothing(place):
    place.nightlies.add(*fake_nightlies(DAYS[-1:], release=lambda day: "2.9.0"))
    printed = place("run", "--case", "hybridep_dispatch", "--build", "nightly", "--json")
    assert printed.runs[0]["outcome"]["kind"] == "unsupported", printed.err
    assert place.environments == []


def test_help_names_every_form() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "repro", "run", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for word in ("nightly", "2026-05-28", "2.13.0.dev20260528", "+cpu", "wheel"):
        assert word in done.stdout
