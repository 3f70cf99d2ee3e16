"""The two HybridEP cases and the scaffold under the torch of this interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Repro


@pytest.mark.parametrize("name", ["hybridep_dispatch", "hybridep_multigpu"])
def test_a_case_passes_here_and_standalone(name: str, repro: Repro, tmp_path: Path) -> None:
    """torch 2.13 has the fix, in the harness and with plain python."""
    printed = repro("run", "--case", name, "--build", "current", "--json")
    (run,) = printed.runs
    assert run["outcome"]["kind"] == "pass", run["log"]
    assert printed.code == 0
    done = subprocess.run(
        [sys.executable, ROOT / "cases" / f"{name}.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_scaffold_runs_as_it_is(repro: Repro, tmp_path: Path) -> None:
    made = repro("new", "my_case", folder=tmp_path)
    assert made.code == 0
    assert made.out == "cases/my_case.py\n"
    printed = repro("run", "--case", "my_case", "--build", "current", "--json", folder=tmp_path)
    (run,) = printed.runs
    assert run["outcome"]["kind"] == "pass", run["log"]
    done = subprocess.run(
        [sys.executable, tmp_path / "cases" / "my_case.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "compiled and eager agree\n"), done.stderr


def test_new_overwrites_nothing(repro: Repro, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "mine.py").write_text("precious")
    made = repro("new", "mine", folder=tmp_path)
    assert made.code == 2
    assert "there already" in made.err
    assert (tmp_path / "cases" / "mine.py").read_text() == "precious"
