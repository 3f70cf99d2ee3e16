"""The command as a user sees it: exit codes, errors, what goes to stdout and what to stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import PLANTED, ROOT, Repro, alive


def planted(name: str, *more: str) -> list[str | Path]:
    return ["run", "--cases-dir", PLANTED, "--case", name, "--build", "current", *more]


@pytest.mark.parametrize(
    ("name", "code"), [("eager_raises", 1), ("skips", 125), ("missing_module", 125)]
)
def test_exit_codes(name: str, code: int, repro: Repro) -> None:
    assert repro(*planted(name)).code == code


def test_json_is_the_only_thing_on_stdout_and_has_every_promised_key(repro: Repro) -> None:
    printed = repro(*planted("eager_raises", "--json"))
    (run,) = printed.runs
    assert set(run) >= {"case", "build", "device", "outcome", "seconds", "log"}
    assert set(run["build"]) >= {"spec", "version", "variant", "git_version", "python"}
    assert set(run["outcome"]) >= {
        "kind", "stage", "pass", "side", "how", "exceptions", "message", "function",
        "signature", "evidence", "reason",
    }  # fmt: skip
    assert set(run["seconds"]) >= {"install", "import", "eager", "compile", "total"}
    assert run["build"]["spec"] == "current"
    assert len(run["build"]["git_version"]) == 40


def test_repeat_gives_one_run_each(repro: Repro) -> None:
    runs = repro(*planted("skips", "--json", "--repeat", "2")).runs
    assert [run["repeat"] for run in runs] == [1, 2]


def test_each_backend_is_a_run(repro: Repro) -> None:
    runs = repro(*planted("lowering_raises", "--json"), "--backend", "eager").runs
    assert [(run["backend"], run["outcome"]["kind"]) for run in runs] == [("eager", "pass")]


def test_the_table_off_a_terminal_is_plain(repro: Repro) -> None:
    printed = repro(*planted("eager_raises"), COLUMNS="40", FORCE_COLOR="")
    lines = printed.out.splitlines()
    assert lines[0] == "fail at eager_reference: the case itself, without torch.compile"
    assert lines[1].split()[0] == "eager_raises"
    assert lines[2] == "      RuntimeError in op: planted: the op raises in eager"
    assert "\x1b" not in printed.out
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--case", "nothing_like_it"], "no case 'nothing_like_it'"),
        (["run", "--build", "nightlyish"], "'nightlyish' names no build"),
        (["run", "--build", "/no/such/python"], "/no/such/python: no such file"),
        (["run", "--cases-dir", "no_such_folder"], "no_such_folder: no such folder"),
        (["new", "Not-A-Name"], "'Not-A-Name' is no name of a case"),
    ],
)
def test_an_error_is_a_sentence_with_a_next_step(
    arguments: list[str], message: str, repro: Repro
) -> None:
    printed = repro(*arguments)
    assert printed.code == 2
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_broken_header_names_file_line_and_key(repro: Repro, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    text = (PLANTED / "passes.py").read_text().replace("title =", "titel =")
    (tmp_path / "cases" / "broken.py").write_text(text)
    line = 1 + next(i for i, part in enumerate(text.splitlines()) if "titel" in part)
    printed = repro("run", "--case", "broken", folder=tmp_path)
    assert printed.code == 2
    assert f"broken.py:{line}: tool.repro.titel: unknown key" in printed.err


def test_list_names_the_cases(repro: Repro, tmp_path: Path) -> None:
    printed = repro("list", "--json", folder=tmp_path)
    names = [case["case"] for case in json.loads(printed.out)["cases"]]
    assert names[:2] == ["hybridep_dispatch", "hybridep_multigpu"]


def test_the_report_is_written(repro: Repro, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    assert repro(*planted("eager_raises"), "--report", report).code == 1
    text = report.read_text()
    assert "eager_reference" in text
    assert (PLANTED / "eager_raises.py").read_text().rstrip() in text
    assert str(ROOT) not in text.replace((PLANTED / "eager_raises.py").read_text(), "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to an ancestor")
def test_a_daemon_with_an_empty_environment_does_not_outlive_its_run(repro: Repro) -> None:
    (run,) = repro(*planted("daemon", "--json")).runs
    assert run["outcome"]["kind"] == "pass", run["log"]
    assert not alive(int(run["log"].partition("daemon pid=")[2].split()[0]))


def test_ctrl_c_ends_the_case_and_says_so(cache: Path) -> None:
    """130, the finished runs are shown, and nothing of the case is left."""
    command = [sys.executable, "-m", "repro", *map(str, planted("hang", "--timeout", "120"))]
    started = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"REPRO_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    family: list[psutil.Process] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(family) < 2:
        family = psutil.Process(started.pid).children(recursive=True)
        time.sleep(0.2)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert "interrupted after 0 of 1 runs" in err
    assert out == ""
    assert not [process.pid for process in family if alive(process.pid)]


@pytest.mark.parametrize("arguments", [("list",), ("run", "--help"), ("env", "list")])
def test_a_reader_that_has_left_is_141(arguments) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "repro", *arguments],
        cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_a_sentence() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "repro", "list"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: output: No space left on device\nhint: ")
