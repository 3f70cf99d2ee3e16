"""Real releases, installed by the store from the index: the bug of torchtitan #3439 and its fix.

They download; where the index cannot be reached they fail with the sentence that says so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import PLANTED, ROOT, Printed, Repro

CASES = ("hybridep_dispatch", "hybridep_multigpu")


@pytest.fixture(scope="module")
def both(repro: Repro) -> Printed:
    cases = [word for name in CASES for word in ("--case", name)]
    return repro("run", *cases, "--build", "2.9.1", "--build", "2.12.1", "--build", "2.13.0",
                 "--json")  # fmt: skip


def _outcome(printed: Printed, case: str, version: str) -> dict[str, object]:
    run = next(r for r in printed.runs if (r["case"], r["build"]["spec"]) == (case, version))
    outcome: dict[str, object] = run["outcome"]
    assert outcome["stage"] != "install", f"{outcome['reason']}\n{run['log']}"
    return outcome


@pytest.mark.parametrize("case", CASES)
def test_2_9_1_has_no_opaque_objects(case: str, both: Printed) -> None:
    outcome = _outcome(both, case, "2.9.1")
    assert outcome["kind"] == "unsupported"
    assert outcome["reason"] == "the case asks for torch>=2.10.0.dev0"


@pytest.mark.parametrize("case", CASES)
def test_2_12_1_fails_in_the_post_grad_pass(case: str, both: Printed) -> None:
    outcome = _outcome(both, case, "2.12.1")
    assert outcome["kind"] == "fail"
    assert outcome["stage"] == "post_grad_passes"
    assert outcome["pass"] == "reinplace_inplaceable_ops"
    assert outcome["evidence"] == "phase"
    assert outcome["exceptions"] == ["torch._inductor.exc.InductorError", "AssertionError"]
    assert outcome["function"] == "is_fake_tensor_same"


@pytest.mark.parametrize("case", CASES)
def test_2_13_0_passes(case: str, both: Printed) -> None:
    assert _outcome(both, case, "2.13.0")["kind"] == "pass"
    assert both.code == 1  # since 2.12.1 failed


def test_the_commit_of_a_release_is_known(both: Printed) -> None:
    commits = {run["build"]["spec"]: run["build"]["git_version"] for run in both.runs}
    assert commits["2.12.1"].startswith("7269437d")
    assert commits["2.13.0"].startswith("cf30153c")


@pytest.mark.parametrize("version", ["2.6", "latest"])
def test_the_guest_works_in_the_oldest_and_the_newest_release(version: str, repro: Repro) -> None:
    names = (
        "passes",
        "lowering_raises",
        "backward_lowering",
        "post_grad_raises",
        "segfault_compile",
    )
    cases = [word for name in names for word in ("--case", name)]
    printed = repro("run", "--cases-dir", PLANTED, *cases, "--build", version, "--json")
    found = {}
    for run in printed.runs:
        outcome = run["outcome"]
        assert outcome["stage"] != "install", f"{outcome['reason']}\n{run['log']}"
        found[run["case"]] = (outcome["kind"], outcome["stage"], outcome["side"])
    assert found == {
        "passes": ("pass", None, None),
        "lowering_raises": ("fail", "inductor_lowering", "forward"),
        "backward_lowering": ("fail", "inductor_lowering", "backward"),
        "post_grad_raises": ("fail", "post_grad_passes", "forward"),
        "segfault_compile": ("fail", "inductor_lowering", "forward"),
    }


def test_a_release_that_does_not_exist_is_untestable(repro: Repro) -> None:
    printed = repro("run", "--case", CASES[0], "--build", "2.99.0", "--json")
    (run,) = printed.runs
    outcome = run["outcome"]
    assert (outcome["kind"], outcome["stage"]) == ("untestable", "install")
    assert outcome["reason"].startswith("there is no torch 2.99.0 for Python 3.")
    assert printed.code == 125


def test_without_a_network_it_is_untestable(repro: Repro, tmp_path: Path) -> None:
    """A proxy that nobody serves stands for a network that is away."""
    away = {"ALL_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9",
            "UV_CACHE_DIR": str(tmp_path / "uv"), "REPRO_CACHE_DIR": str(tmp_path)}  # fmt: skip
    printed = repro("run", "--case", CASES[0], "--build", "2.14", "--json", **away)
    (run,) = printed.runs
    assert run["outcome"]["kind"] == "untestable"
    assert re.fullmatch(
        "index page https?://.*/torch/: the server cannot be reached", run["outcome"]["reason"]
    )


def _readme_transcript() -> tuple[list[str], str]:
    """The command of the README's first screen and what it says is printed."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(
        b for b in re.findall(r"```console\n(.*?)```", text, re.DOTALL) if "$ repro run" in b
    )
    command, _, printed = block.partition("\n")
    return command.removeprefix("$ repro ").split(), printed


def test_the_first_screen_of_the_readme_is_what_is_printed(repro: Repro) -> None:
    arguments, shown = _readme_transcript()
    printed = repro(*arguments)

    def timeless(text: str) -> list[str]:
        """Times change from run to run, and the widths of columns with them."""
        return [
            re.sub(r"\s+", " ", re.sub(r"\d+\.\d s\b", "S", line)) for line in text.splitlines()
        ]

    assert timeless(printed.out) == timeless(shown), printed.err
