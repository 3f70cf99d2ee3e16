"""What the folders promise: nothing hides the standard library, and `--help` is quick."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUEST = ROOT / "repro" / "guest.py"


def python(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("module", ["random", "bisect", "statistics", "heapq"])
def test_the_standard_library_is_not_hidden_at_the_root(module):
    done = python("-c", f"import {module}; print({module}.__file__)")
    assert not Path(done.stdout.strip()).is_relative_to(ROOT)


def test_the_standard_library_is_not_hidden_from_a_script_at_the_root():
    code = "import sys, runpy; sys.path[0] = '.'; import random; runpy.run_path('cli.py')"
    python("-c", code)


def imported(*arguments: str) -> set[str]:
    """The top-level modules that `python -m repro ARGUMENTS` imports."""
    done = python("-X", "importtime", "-m", "repro", *arguments)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert len(lines) > 50
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("--version",), ("list",)])
def test_what_asks_for_little_imports_neither_torch_nor_git(arguments):
    assert imported(*arguments).isdisjoint({"torch", "git", "gitdb", "numpy", "uv"})


def test_help_names_the_commands():
    done = python("-m", "repro", "--help")
    for command in ("run", "list", "new"):
        assert f"\n  {command} " in done.stdout


def test_the_guest_imports_the_standard_library_alone():
    tree = ast.parse(GUEST.read_text(encoding="utf-8"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module.partition(".")[0])
    assert names
    assert names <= sys.stdlib_module_names


def test_the_guest_imports_nothing_but_torch_later_either():
    names = set()
    for node in ast.walk(ast.parse(GUEST.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "repro").partition(".")[0])
    assert names - sys.stdlib_module_names == {"torch"}


def test_the_guest_is_python_3_10():
    ast.parse(GUEST.read_text(encoding="utf-8"), feature_version=(3, 10))


def test_the_host_never_imports_torch():
    for path in (ROOT / "repro").glob("**/*.py"):
        if path.name == "guest.py" or {"cases", "data"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [name for name in names if name.partition(".")[0] == "torch"], path


def test_the_links_lead_to_what_they_name():
    assert (ROOT / "repro" / "cases").resolve() == ROOT / "cases"
    assert (ROOT / "repro" / "bisect").resolve() == ROOT / "bisect"
    assert (ROOT / "repro" / "cli.py").resolve() == ROOT / "cli.py"
    for folder in ("bisect", "cases"):
        assert not (ROOT / folder / "__init__.py").exists()


def imports_of(path: Path) -> set[str]:
    """The modules that a file names in its imports, wherever they stand in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_nothing_below_the_bisector_knows_it():
    """import-linter does not see `repro.bisect`: a folder without `__init__.py` is no package."""
    for path in (ROOT / "repro").glob("**/*.py"):
        above = path.name == "cli.py" or {"commands", "bisect"} & set(path.parts)
        if not above:
            assert not [name for name in imports_of(path) if name.startswith("repro.bisect")], path


PURE = ("candidates", "flaky", "knowledge", "labels", "repeats", "search", "sharing")


@pytest.mark.parametrize("module", PURE)
def test_the_search_is_pure(module):
    allowed = {"repro.builds", "repro.errors", "repro.outcome", "repro.timeline"}
    allowed |= {f"repro.bisect.{pure}" for pure in PURE}
    named = {name for name in imports_of(ROOT / "bisect" / f"{module}.py") if "repro" in name}
    assert named <= allowed
