"""The documents say what the code does."""

from __future__ import annotations

import importlib.util
import re

from repro.cli import group
from repro.stages import STAGES
from tests.conftest import ROOT


def test_the_reference_is_what_help_prints() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == generate.reference(), "run python docs/generate.py"
    assert all(f"## repro {name}" in page for name in group.commands)


def test_the_readme_lists_every_stage_in_order() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = text.partition("in pipeline order:")[2].partition("The stage is")[0]
    assert re.findall(r"`(\w+)`", listed) == [stage.id for stage in STAGES]


def test_the_readme_gives_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\npip install -e . && repro run --case hybridep_dispatch\n" in text
    assert "\npip install -e '.[test]' && pytest\n" in text


def test_every_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project.partition("dependencies = [")[2].partition("\n]")[0]
    reasons = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = re.findall(r'"([A-Za-z-]+)', block)
    assert "click" in names
    for name in names:
        assert f"\n| {name} |" in reasons, name
