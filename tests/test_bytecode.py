"""torch's bytecode: compiled once for a wheel and Python, linked after that, and really used.

A tiny torch of a few modules, compiled by the interpreter that runs the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repro import bytecode
from repro.bytecode import compile_torch

PYTHON = Path(sys.executable)
TAG = sys.implementation.cache_tag
MODULES = {
    "torch/__init__.py": "from torch.deep.inner import VALUE, where\n",
    "torch/deep/__init__.py": "",
    "torch/deep/inner.py": (
        "VALUE = 'from source'\n"
        "def where():\n"
        "    def within(): pass\n"
        "    return [where.__code__.co_filename, within.__code__.co_filename]\n"
    ),
    "torchgen/gen.py": "X = 1\n",
    "functorch/__init__.py": "Y = 2\n",
    "sympy/core/x.py": "Z = 3\n",
    "mpmath/__init__.py": "",
    "numpy/__init__.py": "",
}
# torch ships templates that end like modules.
TEMPLATE = "torch/templates/kernel.py"
OTHERS = {"filelock/__init__.py": "Z = 3\n", "torch/data.txt": "no module", "alone.py": "A = 1\n"}


class Place:
    """Environments of one wheel, and where its bytecode is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"  # uv links out of its own, so that all times are the same
        self.kept = folder / "bytecode" / "torch-2.13.0"
        for name, text in (MODULES | OTHERS | {TEMPLATE: "{{ not python }}\ndef\n"}).items():
            path = self.cache / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def site(self, name: str) -> Path:
        """A new environment's site-packages, with no bytecode in it."""
        site = self.folder / name / "lib" / "python3" / "site-packages"
        shutil.copytree(self.cache, site, copy_function=os.link)
        return site

    def compiled(self, name: str, python: Path = PYTHON) -> Path:
        site = self.site(name)
        compile_torch(python, site, self.kept, [])
        return site


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def cached(name: str) -> str:
    """`torch/x.py` is compiled to `torch/__pycache__/x.cpython-311.pyc`."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/__pycache__/{file.removesuffix('.py')}.{TAG}.pyc"


def bytecode_in(folder: Path) -> dict[str, int]:
    """Every compiled file below a folder, with its inode."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_ino for path in folder.rglob("*.pyc")
    }


ALL = {cached(name) for name in MODULES}


@pytest.fixture
def nobody(tmp_path: Path) -> Path:
    """A Python that cannot be started, so that what is there was not compiled by it."""
    return tmp_path / "no" / "such" / "python"


def imported(site: Path, expression: str) -> str:
    """What an expression says after `import torch`."""
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import torch; print({expression})"
    command = [PYTHON, "-I", "-S", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def other_value(path: Path) -> None:
    """Change what a compiled file does, so that it can be told from its source. A new file."""
    data = path.read_bytes()
    assert data.count(b"from source") == 1
    path.unlink()
    path.write_bytes(data.replace(b"from source", b"from cache!"))


@pytest.mark.parametrize("few", [bytecode.FEW, 0], ids=["one by one", "by a pool"])
def test_everything_of_torch_is_compiled_and_kept_and_nothing_else(few, place, monkeypatch):
    monkeypatch.setattr(bytecode, "FEW", few)
    site = place.compiled("one")
    assert set(bytecode_in(site)) == ALL
    assert bytecode_in(place.kept) == bytecode_in(site)  # the same files, not copies
    assert sorted(path.name for path in site.parent.iterdir()) == ["site-packages"]
    assert [path.name for path in place.kept.parent.iterdir()] == [place.kept.name]


def test_a_python_that_cannot_be_started_is_an_error_where_it_is_needed(place, nobody):
    with pytest.raises(FileNotFoundError):
        place.compiled("one", nobody)


def test_the_second_time_it_is_linked_and_nothing_is_compiled(place, nobody):
    (place.cache / TEMPLATE).unlink()  # it is tried each time
    first = place.compiled("one")
    second = place.compiled("two", nobody)
    assert bytecode_in(second) == bytecode_in(first)
    assert set(bytecode_in(second)) == ALL


def test_it_is_linked_also_when_the_first_environment_is_gone(place, nobody):
    (place.cache / TEMPLATE).unlink()
    place.compiled("one")
    shutil.rmtree(place.folder / "one")
    assert set(bytecode_in(place.compiled("two", nobody))) == ALL


def test_what_does_not_compile_is_no_error_and_the_rest_is_linked(place):
    first = place.compiled("one")
    second = place.compiled("two")
    assert cached(TEMPLATE) not in bytecode_in(second)
    assert bytecode_in(second) == bytecode_in(first)


def rewritten(path: Path, text: str, seconds: float) -> None:
    time = path.stat().st_mtime
    path.unlink()
    path.write_text(text)
    os.utime(path, (time + seconds, time + seconds))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (MODULES["torch/deep/inner.py"].replace("from source", "from sourcf"), 2),
        (MODULES["torch/deep/inner.py"].replace("from source", "longer than it was"), 0),
    ],
    ids=["time", "size"],
)
def test_a_source_that_changed_is_compiled_anew_and_only_that(text, seconds, place):
    first = place.compiled("one")
    rewritten(place.cache / "torch/deep/inner.py", text, seconds)
    second = place.compiled("two")
    name = cached("torch/deep/inner.py")
    before, now = bytecode_in(first), bytecode_in(second)
    assert set(now) == ALL
    assert {path for path in ALL if before[path] != now[path]} == {name}
    assert bytecode_in(place.kept) == now
    value = imported(second, "torch.VALUE")
    assert value in text
    assert value != "from source"


def test_a_source_that_changed_is_compiled_anew_by_a_pool_too(place, monkeypatch):
    monkeypatch.setattr(bytecode, "FEW", 0)
    first = place.compiled("one")
    rewritten(place.cache / "torchgen/gen.py", "X = 22\n", 0)
    before, now = bytecode_in(first), bytecode_in(place.compiled("two"))
    assert {path for path in ALL if before[path] != now[path]} == {cached("torchgen/gen.py")}
    assert bytecode_in(place.kept) == now


def test_a_source_that_is_gone_brings_no_bytecode(place):
    place.compiled("one")
    (place.cache / "torchgen/gen.py").unlink()
    assert set(bytecode_in(place.compiled("two"))) == ALL - {cached("torchgen/gen.py")}


def cut_within_its_head(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def not_bytecode(path: Path) -> None:
    path.write_text("this is a text of more than sixteen bytes")


def gone(path: Path) -> None:
    path.unlink()


def checked_by_hash(path: Path) -> None:
    """As SOURCE_DATE_EPOCH makes them: Python would read the whole source at each import."""
    data = path.read_bytes()
    path.write_bytes(data[:4] + (3).to_bytes(4, "little") + data[8:])


DAMAGES = [cut_within_its_head, empty, zeros, not_bytecode, gone, checked_by_hash]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda function: function.__name__)
def test_what_was_kept_and_is_damaged_is_replaced(damage, place, nobody):
    (place.cache / TEMPLATE).unlink()
    first = place.compiled("one")
    shutil.rmtree(place.folder / "one")
    damage(place.kept / cached("torch/deep/inner.py"))
    second = place.compiled("two")
    assert set(bytecode_in(second)) == ALL
    assert imported(second, "torch.VALUE") == "from source"
    assert bytecode_in(place.kept) == bytecode_in(second)
    assert set(bytecode_in(place.compiled("three", nobody))) == ALL
    assert not first.exists()


def test_what_a_killed_copy_left_is_not_taken_for_bytecode(place, nobody):
    (place.cache / TEMPLATE).unlink()
    place.compiled("one")
    kept = place.kept / cached("torch/deep/inner.py")
    shutil.copy2(kept, f"{kept}.4711")
    second = place.compiled("two", nobody)
    assert set(bytecode_in(second)) == ALL
    assert not list(second.rglob("*.4711"))


@pytest.mark.parametrize("few", [bytecode.FEW, 0], ids=["one by one", "by a pool"])
def test_a_setting_for_reproducible_builds_makes_no_difference(few, place, nobody, monkeypatch):
    monkeypatch.setattr(bytecode, "FEW", few)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "315532800")
    (place.cache / TEMPLATE).unlink()
    place.compiled("one")
    assert set(bytecode_in(place.compiled("two", nobody))) == ALL


def test_variables_of_python_make_no_difference(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    assert set(bytecode_in(place.compiled("one"))) == ALL


def test_a_disk_without_hard_links_has_copies(place, nobody, monkeypatch):
    (place.cache / TEMPLATE).unlink()
    sites = [place.site("one"), place.site("two")]

    def refuse(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(bytecode.os, "link", refuse)
    compile_torch(PYTHON, sites[0], place.kept, [])
    compile_torch(nobody, sites[1], place.kept, [])
    monkeypatch.undo()
    inodes = [bytecode_in(folder) for folder in (*sites, place.kept)]
    for name in ALL:
        assert len({found[name] for found in inodes}) == 3
    assert not list(place.folder.rglob(f"*.{os.getpid()}"))
    other_value(sites[1] / cached("torch/deep/inner.py"))
    assert imported(sites[1], "torch.VALUE") == "from cache!"


# --- used ---------------------------------------------------------------------------------------


def test_python_takes_it_instead_of_the_source(place, nobody):
    (place.cache / TEMPLATE).unlink()
    place.compiled("one")
    other_value(place.kept / cached("torch/deep/inner.py"))
    site = place.compiled("two", nobody)
    before = bytecode_in(site)
    assert imported(site, "torch.VALUE") == "from cache!"
    assert bytecode_in(site) == before  # Python has written none of its own
    expected = str(site / cached("torch/deep/inner.py"))
    assert imported(site, "torch.deep.inner.__cached__") == expected


def test_functions_name_the_place_to_which_the_environment_was_renamed(place, nobody):
    (place.cache / TEMPLATE).unlink()
    for name, python in (("one", PYTHON), ("two", nobody)):
        site = place.site(f".{name}.aside")
        compile_torch(python, site, place.kept, [])
        os.rename(place.folder / f".{name}.aside", place.folder / name)
        final = place.folder / name / site.relative_to(place.folder / f".{name}.aside")
        before = bytecode_in(final)
        place_of_code = str(final / "torch/deep/inner.py")
        assert imported(final, "torch.where()") == str([place_of_code] * 2)
        assert bytecode_in(final) == before


def test_the_compiler_has_the_descriptors_that_it_is_to_hold(place, tmp_path):
    log = tmp_path / "log"
    fake = tmp_path / "python"
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fake.write_text(f"#!/bin/sh\n[ -e /dev/fd/{descriptor} ] && echo open > {log}\n")
    fake.chmod(0o755)
    try:
        compile_torch(fake, place.site("one"), place.kept, [descriptor])
        assert log.read_text() == "open\n"
        log.unlink()
        compile_torch(fake, place.site("two"), place.kept, [])
        assert not log.exists()
    finally:
        os.close(descriptor)


def test_a_compiler_that_fails_or_is_not_done_in_time_is_no_error(place, tmp_path, monkeypatch):
    monkeypatch.setattr(bytecode, "LIMIT", 0.2)
    fake = tmp_path / "python"
    for number, script in enumerate(("exit 1", "exec sleep 60")):
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        site = place.compiled(str(number), fake)
        assert bytecode_in(site) == bytecode_in(place.kept) == {}


def test_what_does_not_compile_is_not_tried_again_until_it_changes(tmp_path):
    site, kept = tmp_path / "site", tmp_path / "kept"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "good.py").write_text("X = 1\n")
    template = site / "torch" / "template.py"
    template.write_text("def {name}(): ...\n")
    compile_torch(Path(sys.executable), site, kept, ())
    # With a Python that is not there it can only be linked.
    compile_torch(Path("/nowhere/python"), site, kept, ())
    template.write_text("Y = 22\n")
    compile_torch(Path(sys.executable), site, kept, ())
    assert list((site / "torch" / "__pycache__").glob("template.*.pyc"))
