"""`repro bisect` as a user calls it, on stand-ins whose behaviour is scripted by date."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from repro.install import COMPANIONS
from tests.conftest import ROOT, Printed, Repro
from tests.nightly_index.before_fix import FX_UTILS, fx_utils_before_fix
from tests.nightly_index.behaviour import CANNOT_BE_IMPORTED, PASSES, Behaviour, fails_in
from tests.nightly_index.nightlies import base_of_installed, nightlies
from tests.nightly_index.server import IndexServer
from tests.nightly_index.wheels import days, fake_nightlies, fake_torch, make_wheel, nightly_version

CASE = Path(__file__).parent / "nightly_index" / "cases" / "small.py"
FIRST, LAST = date(2026, 4, 1), date(2026, 5, 30)
DAYS = days(FIRST, LAST)
CHANGE = date(2026, 5, 10)
POST, LOWERING = fails_in("post_grad_passes"), fails_in("inductor_lowering")
# A case of its own for each date: it fails where the date in the version is within.
DATED = '''\
# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repro]
# title = "a failure between two dates"
# devices = ["cpu"]
# backward = false
# ///
"""Fails where the build is of {since} to {until}."""

import torch


def make(device):
    day = torch.__version__.partition(".dev")[2][:8]
    if "{since}" <= day <= "{until}":
        raise ValueError("planted")
    return lambda x: x + 1


def inputs(device, seed):
    return (torch.tensor([1.0, 2.0]),)
'''


class Place:
    def __init__(self, server: IndexServer, repro: Repro, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.nightlies = server.shelf("nightly/cpu")
        self.default = server.shelf("simple")
        self.default.add(*(make_wheel(name, "1.0", {f"{name}.py": b""}) for name in COMPANIONS))
        self._repro = repro
        self.variables = {
            "REPRO_NIGHTLY_INDEX_URL": f"{server.url}/nightly",
            "REPRO_INDEX_URL": self.default.url,
            "REPRO_CACHE_DIR": str(folder / "cache"),
            "UV_CACHE_DIR": str(folder / "uv"),
        }

    def put_up(self, behaviour: Callable[[date], Behaviour], dates: list[date] = DAYS) -> None:
        self.nightlies.add(*fake_nightlies(dates, behaviour))

    def __call__(self, *more: str, cases: tuple[Path, ...] = (CASE,)) -> Printed:
        named = [word for case in cases for word in ("--case", str(case))]
        ends = ("--good", FIRST.isoformat(), "--bad", "nightly")
        return self._repro("bisect", *named, *ends, *more, **self.variables)

    def json(self, *more: str, cases: tuple[Path, ...] = (CASE,)) -> dict[str, Any]:
        printed = self(*more, "--json", cases=cases)
        assert printed.out, printed.err
        answer: dict[str, Any] = json.loads(printed.out)
        assert answer["schema"] == "repro.bisect/1"
        return answer


@pytest.fixture
def place(repro: Repro, tmp_path: Path):
    with IndexServer() as server:
        yield Place(server, repro, tmp_path)


def before(day: date, first: Behaviour, then: Behaviour) -> Callable[[date], Behaviour]:
    return lambda at: first if at < day else then


def sides(answer: dict[str, Any], case: int = 0) -> list[tuple[str, str, str]]:
    """Older day, newer day and kind of each boundary."""
    return [
        (b["older"]["version"][10:18], b["newer"]["version"][10:18], b["change"])
        for b in answer["cases"][case]["boundaries"]
    ]


@pytest.mark.parametrize(
    ("first", "then", "change"),
    [(PASSES, POST, "breaks"), (POST, PASSES, "fixes"), (POST, LOWERING, "changes")],
)
def test_the_exact_build_of_a_change_whichever_end_is_good(first, then, change, place):
    place.put_up(before(CHANGE, first, then))
    answer = place.json()
    assert sides(answer) == [("20260509", "20260510", change)]
    [boundary] = answer["cases"][0]["boundaries"]
    assert boundary["untested"] == []
    assert boundary["confirmed"]
    assert all(len(boundary[side]["git_version"]) == 40 for side in ("older", "newer"))
    assert answer["probes"] <= 2 + 6 + 2  # the ends, log2 of 60 builds, and both sides again
    assert answer["good"].startswith("2.13.0.dev20260401")


def test_what_it_prints_reads_well(place):
    place.put_up(before(CHANGE, PASSES, POST))
    printed = place()
    assert printed.code == 0, printed.err
    lines = printed.out.splitlines()
    assert lines[0].startswith("small  P")
    assert lines[0].endswith("F")
    [sentence] = [line for line in lines if line.startswith("small breaks")]
    assert "breaks in torch 2.13.0.dev20260510+cpu (" in sentence
    assert "fail at post_grad_passes (AssertionError)" in sentence
    assert (
        "  test it again: repro run --case small --build 2.13.0.dev20260509+cpu "
        "--build 2.13.0.dev20260510+cpu"
    ) in lines


def test_several_changes_and_another_failure_between(place):
    def behaviour(day: date) -> Behaviour:
        if day < date(2026, 4, 20):
            return PASSES
        if day < date(2026, 5, 1):
            return LOWERING
        return POST

    place.put_up(behaviour)
    assert sides(place.json()) == [
        ("20260419", "20260420", "breaks"), ("20260430", "20260501", "changes"),
    ]  # fmt: skip
    assert sides(place.json("--match", "any", "--fresh")) == [("20260419", "20260420", "breaks")]


def test_a_failure_that_came_and_went(place):
    place.put_up(lambda day: POST if date(2026, 4, 15) <= day < date(2026, 5, 16) else PASSES)
    answer = place.json()
    assert sides(answer) == [
        ("20260414", "20260415", "breaks"), ("20260515", "20260516", "fixes"),
    ]  # fmt: skip


def test_untestable_builds_widen_the_answer_and_are_named(place):
    broken = days(date(2026, 5, 1), date(2026, 5, 20))

    def behaviour(day: date) -> Behaviour:
        if day in broken:
            return CANNOT_BE_IMPORTED
        return PASSES if day < CHANGE else POST

    place.put_up(behaviour)
    printed = place("--json")
    answer = json.loads(printed.out)
    assert sides(answer) == [("20260430", "20260521", "breaks")]
    [boundary] = answer["cases"][0]["boundaries"]
    assert boundary["untested"] == [nightly_version(day) for day in broken]
    assert answer["probes"] <= 14 + 2
    printed = place()
    tried = printed.out.splitlines()[0].count("?")
    assert (
        f"the 20 builds between, {nightly_version(broken[0])} to {nightly_version(broken[-1])}, "
        f"are untested ({tried} of them tried in vain)."
    ) in printed.out
    hint = f"  try the other {20 - tried} too: the same command with --max-skips 20"
    assert hint in printed.out.splitlines()
    all_tried = place("--max-skips", "20")
    assert "(20 of them tried in vain)" in all_tried.out
    assert "--max-skips" not in all_tried.out


def test_nothing_changes(place):
    place.put_up(lambda day: PASSES)
    printed = place()
    assert printed.code == 1
    assert "nothing changes among the" in printed.out
    assert "small: both ends pass." in printed.out
    assert "note: small: both ends pass; looking for what changes between\n" in printed.err


def test_nothing_can_be_tested(place):
    place.put_up(lambda day: CANNOT_BE_IMPORTED)
    printed = place()
    assert printed.code == 125


def test_the_end_that_cannot_run_the_case_is_said_and_the_first_that_can_is_found(place, tmp_path):
    case = tmp_path / "newer.py"
    text = CASE.read_text().replace("torch>=2.6.0.dev0", "torch>=2.14.0.dev0")
    assert text != CASE.read_text()
    case.write_text(text)
    release = "2.13.0"
    place.nightlies.add(
        *fake_nightlies(
            DAYS,
            before(date(2026, 5, 20), POST, PASSES),
            release=lambda day: release if day < CHANGE else "2.14.0",
        )
    )
    answer = place.json(cases=(case,))
    boundaries = answer["cases"][0]["boundaries"]
    assert [(b["older"]["version"], b["newer"]["version"], b["change"]) for b in boundaries] == [
        (nightly_version(date(2026, 5, 9)), nightly_version(CHANGE, "2.14.0"), "changes"),
        (
            nightly_version(date(2026, 5, 19), "2.14.0"),
            nightly_version(date(2026, 5, 20), "2.14.0"),
            "fixes",
        ),
    ]
    assert "cannot run newer (the case asks for torch>=2.14.0.dev0)" in answer["cases"][0]["note"]
    first = nightly_version(CHANGE, "2.14.0")
    assert f"the first tested build that can is torch {first}" in answer["cases"][0]["note"]


def dated(folder: Path, name: str, since: date) -> Path:
    path = folder / f"{name}.py"
    path.write_text(DATED.format(since=f"{since:%Y%m%d}", until="20991231"))
    return path


def test_cases_share_their_builds(place, tmp_path):
    place.put_up(lambda day: PASSES)
    changes = [date(2026, 5, 1), date(2026, 5, 5), date(2026, 5, 9)]
    cases = tuple(dated(tmp_path, f"case{n}", day) for n, day in enumerate(changes))
    apart = 0
    for case in cases:
        place.variables["REPRO_CACHE_DIR"] = str(place.folder / case.stem)
        apart += place.json(cases=(case,))["installs"]
    place.variables["REPRO_CACHE_DIR"] = str(place.folder / "together")
    answer = place.json(cases=cases)
    for number, day in enumerate(changes):
        [(_, newer, _)] = sides(answer, number)
        assert newer == f"{day:%Y%m%d}"
    assert answer["installs"] <= 0.6 * apart


def test_running_it_again_runs_nothing(place):
    place.put_up(before(CHANGE, PASSES, POST))
    first = place.json()
    again = place.json()
    assert (again["probes"], again["installs"]) == (0, 0)
    assert again["cases"] == first["cases"]
    assert place.json("--fresh")["probes"] == first["probes"]


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_it_goes_on(seed, place):
    """Five kills each: whenever they come, what was finished is not run again."""
    place.put_up(before(CHANGE, PASSES, POST))
    choose = random.Random(seed)
    command = [sys.executable, "-m", "repro", "bisect", "--case", str(CASE), "--json"]
    command += ["--good", FIRST.isoformat(), "--bad", "nightly"]
    kept = place.folder / "cache" / "results"
    for _ in range(5):
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | place.variables,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(choose.uniform(0.2, 3.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished = len(list(kept.rglob("*.json"))) if kept.exists() else 0
    answer = place.json()
    assert sides(answer) == [("20260509", "20260510", "breaks")]
    assert answer["probes"] + finished <= 2 + 6 + 2
    assert not list((place.folder / "cache" / "environments").glob(".*"))


def test_two_at_once_on_one_store_both_end_right(place):
    place.put_up(before(CHANGE, PASSES, POST))
    command = [sys.executable, "-m", "repro", "bisect", "--case", str(CASE), "--json"]
    command += ["--good", FIRST.isoformat(), "--bad", "nightly"]
    both = [
        subprocess.Popen(
            command, cwd=ROOT, env=os.environ | place.variables,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in both:
        out, _ = process.communicate(timeout=120)
        assert sides(json.loads(out)) == [("20260509", "20260510", "breaks")]


def test_ctrl_c_says_what_is_known_and_how_to_go_on(place):
    place.put_up(before(CHANGE, PASSES, POST))
    command = [sys.executable, "-m", "repro", "bisect", "--case", str(CASE)]
    command += ["--good", FIRST.isoformat(), "--bad", "nightly"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | place.variables,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    kept = place.folder / "cache" / "results"
    while not (kept.exists() and len(list(kept.rglob("*.json"))) >= 2):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"small  P" in out
    assert b"to go on: repro bisect --case" in err
    assert sides(place.json()) == [("20260509", "20260510", "breaks")]


def test_probes_in_parallel_give_the_same(place):
    place.put_up(before(CHANGE, PASSES, POST))
    assert sides(place.json("--jobs", "3")) == [("20260509", "20260510", "breaks")]


def test_the_plan(place):
    place.put_up(before(CHANGE, PASSES, POST))
    printed = place("--dry-run")
    assert printed.code == 0
    first, steps, download = printed.out.splitlines()
    assert first == (
        "60 builds from 2.13.0.dev20260401+cpu to 2.13.0.dev20260530+cpu: 60 nightlies, 0 releases"
    )
    assert steps.startswith("1 case, 8 builds to look at")
    assert re.fullmatch(
        r"about [\d.]+ kB to download: up to 8 wheels of torch of [\d.]+ kB, .*", download
    )
    assert not (place.folder / "cache" / "environments").exists()
    place()
    assert place("--dry-run").out.splitlines()[1:] == [
        "everything is known: running it again tests nothing"
    ]


def test_what_the_ends_are_is_said_before_the_search(place):
    place.put_up(before(CHANGE, POST, PASSES))
    printed = place()
    last = nightly_version(LAST)
    said = printed.err.splitlines()
    [at] = [n for n, line in enumerate(said) if line.startswith("note: small: ")]
    assert said[at].endswith(
        f"named good, has a fail at post_grad_passes (AssertionError); torch {last} passes: "
        "already fixed; looking for what changes between"
    )
    assert sum(line.startswith("running small") for line in said[:at]) == 2


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("current", "nightly", "has no place among the builds of an index"),
        ("nightly", "nightly", "both ends are torch"),
        ("yesterday", "nightly", "names no build"),
        ("2.99.0", "nightly", "there is no torch 2.99.0"),
    ],
)
def test_wrong_ends(good, bad, words, place):
    place.put_up(lambda day: PASSES)
    place.default.add(fake_torch("2.12.1"))
    printed = place._repro(
        "bisect", "--case", str(CASE), "--good", good, "--bad", bad, **place.variables
    )
    assert printed.code == 2
    assert words in printed.err


def test_releases_where_no_nightly_is_listed(place):
    place.default.add(
        *(fake_torch(v, PASSES) for v in ("2.10.0", "2.11.0")), fake_torch("2.12.0", POST)
    )
    place.put_up(lambda day: POST)
    printed = place._repro(
        "bisect", "--case", str(CASE), "--good", "2.10", "--bad", "nightly", "--json",
        **place.variables,
    )  # fmt: skip
    answer = json.loads(printed.out)
    [boundary] = answer["cases"][0]["boundaries"]
    assert (boundary["older"]["version"], boundary["newer"]["version"]) == ("2.11.0", "2.12.0")


# Fails at every other run in builds of a day on, the first of them; counts beside itself.
FLAKY = DATED.replace(
    '    if "{since}" <= day <= "{until}":',
    """    from pathlib import Path

    count = Path(r"{folder}", day)
    with count.open("a") as file:
        file.write("x")
    if day >= "{since}" and len(count.read_text()) % 2:""",
)


def test_a_case_that_disagrees_with_itself_gets_probabilities(place, tmp_path):
    place.put_up(lambda day: PASSES)
    counts = tmp_path / "counts"
    counts.mkdir()
    case = tmp_path / "flaky.py"
    case.write_text(FLAKY.format(since=f"{CHANGE:%Y%m%d}", until="", folder=counts))
    answer = place.json(cases=(case,))
    boundaries = answer["cases"][0]["boundaries"]
    assert sum(b["probability"] for b in boundaries) >= 0.95
    assert ("20260509", "20260510", "breaks") in sides(answer)
    assert not any(b["confirmed"] for b in boundaries)
    assert "does not always give the same" in answer["cases"][0]["note"]
    again = place.json(cases=(case,))
    assert again["probes"] == 0
    assert again["cases"] == answer["cases"]


HANGS = DATED.replace('raise ValueError("planted")', "import time; time.sleep(600)")


def test_a_case_that_hangs_at_an_end_is_a_failure_to_look_for(place, tmp_path):
    place.put_up(lambda day: PASSES, days(FIRST, date(2026, 4, 8)))
    case = tmp_path / "hangs.py"
    case.write_text(HANGS.format(since="20260406", until="20991231"))
    answer = place.json("--timeout", "4", cases=(case,))
    assert sides(answer) == [("20260405", "20260406", "breaks")]
    assert answer["cases"][0]["boundaries"][0]["confirmed"]


def test_a_time_out_between_ends_that_do_not_hang_is_skipped(place, tmp_path):
    place.put_up(lambda day: PASSES, days(FIRST, date(2026, 4, 5)))
    case = tmp_path / "hangs.py"
    text = HANGS.replace(
        "    return lambda", '    if day == "20260405": raise ValueError\n    return lambda'
    )
    case.write_text(text.format(since="20260403", until="20260403"))
    answer = place.json("--timeout", "4", cases=(case,))
    assert sides(answer) == [("20260404", "20260405", "breaks")]


# --- real builds --------------------------------------------------------------------------------


def test_the_exact_nightly_of_the_real_fix(repro, tmp_path):
    """Nightlies made of torch 2.13.0; the old comparison is put back until a date."""
    mended = date(2026, 5, 20)
    base = base_of_installed("torch")
    old = {FX_UTILS: fx_utils_before_fix(base.read(FX_UTILS).decode()).encode()}
    dates = days(date(2026, 5, 13), date(2026, 5, 28))
    with IndexServer() as server:
        server.shelf("nightly/cpu").add(
            *nightlies(base, dates, replaced=lambda day: old if day < mended else {})
        )
        printed = repro(
            "bisect", "--case", "hybridep_dispatch", "--good", "2026-05-13", "--bad", "nightly",
            "--json", REPRO_NIGHTLY_INDEX_URL=f"{server.url}/nightly",
            REPRO_CACHE_DIR=str(tmp_path), REPRO_MAX_SIZE="4GB", UV_CACHE_DIR=str(tmp_path / "uv"),
        )  # fmt: skip
    answer = json.loads(printed.out)
    assert sides(answer) == [("20260519", "20260520", "fixes")], printed.err
    [boundary] = answer["cases"][0]["boundaries"]
    assert boundary["from"]["stage"] == "post_grad_passes"
    assert boundary["from"]["function"] == "is_fake_tensor_same"
    assert boundary["confirmed"]


def test_the_real_releases(repro):
    printed = repro(
        "bisect", "--case", "hybridep_dispatch", "--good", "2.6", "--bad", "latest", "--json"
    )
    answer = json.loads(printed.out)
    [case] = answer["cases"]
    fix = case["boundaries"][-1]
    assert (fix["older"]["version"], fix["newer"]["version"]) == ("2.12.1", "2.13.0"), printed.err
    assert fix["change"] == "fixes"
    assert fix["from"]["stage"] == "post_grad_passes"
    runs_from = case["boundaries"][0]
    assert runs_from["from"]["kind"] == "unsupported"
    # 2.10 has opaque objects, but not for a class that holds tensors: the case says so itself.
    assert runs_from["newer"]["version"] == "2.11.0"
    assert "torch 2.6.0 cannot run hybridep_dispatch" in case["note"]
