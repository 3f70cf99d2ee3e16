"""torch's bytecode: compiled once for a source and Python, linked after that, and really used.

A tiny torch of a few modules, compiled by the interpreter that runs the tests.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from repro import bytecode
from repro.bytecode import Kept, compile_all
from repro.locks import exclusive

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
    "networkx/__init__.py": "Z = 3\n",
    "alone.py": "A = 1\n",
}
# torch ships templates that end like modules.
TEMPLATE = "torch/templates/kernel.py"
OTHERS = {"networkx/tests/test_it.py": "T = 1\n", "torch/data.txt": "no module"}


class Place:
    """Environments of one wheel, and where bytecode is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheel = folder / "wheel"
        self.kept = Kept(folder / "bytecode" / "py3", folder / "locks" / "py3.lock", TAG)
        for name, text in (MODULES | OTHERS | {TEMPLATE: "{{ not python }}\ndef\n"}).items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.wheel / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def record(self) -> str:
        """What the wheel states about its files."""
        paths = sorted(path for path in self.wheel.rglob("*") if path.is_file())
        rows = [f"{path.relative_to(self.wheel)},{stated(path.read_bytes())},1" for path in paths]
        return "\n".join([*rows, "torch.dist-info/RECORD,,"])

    def site(self, name: str) -> Path:
        """A new environment's site-packages, with no bytecode in it. Each has times of its own."""
        site = self.folder / name / "lib" / "python3" / "site-packages"
        shutil.copytree(self.wheel, site, copy_function=shutil.copyfile)
        (site / "torch.dist-info").mkdir()
        (site / "torch.dist-info" / "RECORD").write_text(self.record())
        return site

    def compiled(self, name: str, python: Path = PYTHON) -> Path:
        site = self.site(name)
        compile_all(python, site, self.kept)
        return site

    def kept_of(self, name: str) -> Path:
        """Where the bytecode of a module of the wheel is kept."""
        digest = hashlib.sha256((self.wheel / name).read_bytes()).hexdigest()
        return self.kept.folder / f"{digest}.pyc"


def stated(content: bytes) -> str:
    """A hash as RECORD has it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"sha256={digest}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def cached(name: str) -> str:
    """`torch/x.py` is compiled to `torch/__pycache__/x.cpython-311.pyc`."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/__pycache__/{file.removesuffix('.py')}.{TAG}.pyc".lstrip("/")


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


def test_every_module_but_tests_is_compiled_and_kept_and_nothing_else(place):
    site = place.compiled("one")
    found = bytecode_in(site)
    assert set(found) == ALL
    # The same files, not copies, and one for all modules of the same content.
    assert set(bytecode_in(place.kept.folder).values()) <= set(found.values())
    assert set(bytecode_in(place.kept.folder)) == {place.kept_of(name).name for name in MODULES}
    assert sorted(path.name for path in site.parent.iterdir()) == ["site-packages"]


def test_a_python_that_cannot_be_started_is_an_error_where_it_is_needed(place, nobody):
    with pytest.raises(FileNotFoundError):
        place.compiled("one", nobody)


def test_the_second_time_it_is_linked_and_nothing_is_compiled(place, nobody):
    place.compiled("one")
    second = bytecode_in(place.compiled("two", nobody))
    assert set(second) == ALL
    assert set(second.values()) == set(bytecode_in(place.kept.folder).values())


def test_it_is_linked_also_when_the_first_environment_is_gone(place, nobody):
    place.compiled("one")
    shutil.rmtree(place.folder / "one")
    assert set(bytecode_in(place.compiled("two", nobody))) == ALL


def test_what_does_not_compile_is_no_error_and_the_rest_is_there(place):
    assert cached(TEMPLATE) not in bytecode_in(place.compiled("one"))


def test_what_does_not_compile_is_not_tried_again_until_it_changes(place, nobody):
    place.compiled("one")
    place.compiled("two", nobody)
    place.write(TEMPLATE, "Y = 22\n")
    assert cached(TEMPLATE) in bytecode_in(place.compiled("three"))


def test_the_next_wheel_has_only_what_differs_compiled(place):
    first = place.compiled("one")
    place.write("torch/deep/inner.py", MODULES["torch/deep/inner.py"].replace("source", "sourcf"))
    place.write("torch/added.py", "added = 1\n")
    second = place.compiled("two")
    before, now = bytecode_in(first), bytecode_in(second)
    changed = {cached("torch/deep/inner.py"), cached("torch/added.py")}
    assert set(now) == ALL | changed
    assert {path for path in now if now[path] not in before.values()} == changed
    assert imported(second, "torch.VALUE") == "from sourcf"
    assert imported(first, "torch.VALUE") == "from source"


def test_a_module_that_moved_is_linked_in_its_new_place(place, nobody):
    place.compiled("one")
    os.rename(place.wheel / "torchgen/gen.py", place.wheel / "torch/moved.py")
    second = place.compiled("two", nobody)
    assert set(bytecode_in(second)) == ALL - {cached("torchgen/gen.py")} | {
        cached("torch/moved.py")
    }
    expected = str(second / "torch/moved.py")
    assert imported(second, "__import__('torch.moved').moved.__spec__.origin") == expected


def test_a_source_that_is_gone_brings_no_bytecode(place):
    place.compiled("one")
    site = place.site("two")
    (site / "torchgen/gen.py").unlink()  # RECORD still has it
    compile_all(PYTHON, site, place.kept)
    assert set(bytecode_in(site)) == ALL - {cached("torchgen/gen.py")}


def test_a_source_that_is_not_what_its_wheel_states_is_not_run_as_that(place):
    site = place.site("one")
    (site / "torch/deep/inner.py").write_text("VALUE = 'edited'\nwhere = None\n")
    compile_all(PYTHON, site, place.kept)
    assert imported(site, "torch.VALUE") == "edited"
    second = place.compiled("two")  # has what was compiled of the edited one
    assert imported(second, "torch.VALUE") == "from source"
    (second / "torch/deep/inner.py").write_text("VALUE = 'again'\nwhere = None\n")
    assert imported(second, "torch.VALUE") == "again"


# --- RECORD -------------------------------------------------------------------------------------

HASH = stated(b"")


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"',
        "torch/__init__.py",
        "torch/__init__.py,,",
        f"torch/../../../outside.py,{HASH},1",
        f"/torch/__init__.py,{HASH},1",
        f"torch/tests/x.py,{HASH},1",
        f"torch/nowhere.py,{HASH},1",
        f"other/x.py,{HASH},1",
        "torch/__init__.py,md5=abc,1",
        "torch/__init__.py,sha256=../../../../etc,1",
        f"torch/__init__.py,{HASH}=,1",
        f"torch/\0.py,{HASH},1",
    ],
)
def test_a_record_of_whatever_kind_is_no_error_and_leads_nowhere_else(text, place, nobody):
    site = place.site("one")
    (site.parents[2] / "outside.py").write_text("")
    (site / "torch" / "tests").mkdir()
    (site / "torch" / "tests" / "x.py").write_text("")
    (site / "torch.dist-info" / "RECORD").write_text(text)
    compile_all(nobody, site, place.kept)
    assert bytecode_in(place.folder) == {}


def test_a_record_that_is_no_text_or_not_there_is_no_error(place, nobody):
    site = place.site("one")
    (site / "torch.dist-info" / "RECORD").write_bytes(b"\xff\xfe\x00")
    compile_all(nobody, site, place.kept)
    (site / "torch.dist-info" / "RECORD").unlink()
    compile_all(nobody, site, place.kept)
    assert bytecode_in(site) == {}


def test_each_package_has_a_record_of_its_own(place):
    site = place.site("one")
    rows = (site / "torch.dist-info" / "RECORD").read_text().splitlines()
    (site / "numpy.dist-info").mkdir()
    for name, mine in (("numpy", True), ("torch", False)):
        chosen = [row for row in rows if row.startswith("numpy/") == mine]
        (site / f"{name}.dist-info" / "RECORD").write_text("\n".join(chosen))
    compile_all(PYTHON, site, place.kept)
    assert set(bytecode_in(site)) == ALL


@pytest.mark.parametrize("name", ["torch/a b.py", "torch/é.py", "torch/line\nbreak.py"])
def test_any_name_is_compiled(name, place):
    place.write("torch/x.py", "X = 1\n")
    site = place.site("one")
    os.rename(site / "torch/x.py", site / name)
    record = site / "torch.dist-info" / "RECORD"
    record.write_text(record.read_text().replace("torch/x.py", f'"{name}"'), encoding="utf-8")
    compile_all(PYTHON, site, place.kept)
    assert set(bytecode_in(site)) == ALL | {cached(name)}


# --- damage -------------------------------------------------------------------------------------


def cut_within_its_head(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])


def cut_after_its_head(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:16])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def not_bytecode(path: Path) -> None:
    path.write_text("this is a text of more than sixteen bytes")


def gone(path: Path) -> None:
    path.unlink()


def unchecked(path: Path) -> None:
    """Python would take it whatever the source is."""
    data = path.read_bytes()
    path.write_bytes(data[:4] + (1).to_bytes(4, "little") + data[8:])


DAMAGES = [
    cut_within_its_head, cut_after_its_head, empty, zeros, not_bytecode, gone, unchecked,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda function: function.__name__)
def test_what_was_kept_and_is_damaged_is_replaced(damage, place, nobody):
    first = place.compiled("one")
    shutil.rmtree(place.folder / "one")
    damage(place.kept_of("torch/deep/inner.py"))
    second = place.compiled("two")
    assert set(bytecode_in(second)) == ALL
    assert imported(second, "torch.VALUE") == "from source"
    third = place.compiled("three", nobody)
    assert (
        bytecode_in(third)[cached("torch/deep/inner.py")]
        == (bytecode_in(second)[cached("torch/deep/inner.py")])
    )
    assert not first.exists()


def test_what_a_killed_copy_left_is_not_taken_for_bytecode(place, nobody):
    place.compiled("one")
    kept = place.kept_of("torch/deep/inner.py")
    shutil.copy2(kept, f"{kept}.4711")
    second = place.compiled("two", nobody)
    assert set(bytecode_in(second)) == ALL
    assert not list(second.rglob("*.4711"))


def test_what_is_removed_while_it_is_linked_is_compiled(place, monkeypatch):
    place.compiled("one")
    link = os.link
    victim = str(place.kept_of("torch/deep/inner.py"))

    def removed_first(source: str, target: str) -> None:
        if source == victim:
            Path(source).unlink(missing_ok=True)
        link(source, target)

    monkeypatch.setattr(bytecode.os, "link", removed_first)
    assert set(bytecode_in(place.compiled("two"))) == ALL


def test_where_it_is_kept_may_vanish_while_it_is_compiled(place, nobody, tmp_path):
    place.kept.folder.mkdir(parents=True)
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\nrm -r {place.kept.folder} && exec {PYTHON} "$@"\n')
    fake.chmod(0o755)
    assert set(bytecode_in(place.compiled("one", fake))) == ALL
    assert set(bytecode_in(place.compiled("two", nobody))) == ALL


def test_where_it_is_kept_may_vanish_while_it_is_filled(place, monkeypatch):
    link = os.link

    def removed_first(source: str, target: str) -> None:
        shutil.rmtree(place.kept.folder)
        link(source, target)

    monkeypatch.setattr(bytecode.os, "link", removed_first)
    assert set(bytecode_in(place.compiled("one"))) == ALL
    assert not place.kept.folder.exists()


def test_of_several_installs_at_once_one_compiles_and_the_others_link(place, tmp_path):
    log = tmp_path / "compiled"
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\necho once >> {log}; sleep 0.5; exec {PYTHON} "$@"\n')
    fake.chmod(0o755)
    sites = [place.site(name) for name in ("one", "two", "three")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda site: compile_all(fake, site, place.kept), sites))
    assert log.read_text() == "once\n"
    kept = set(bytecode_in(place.kept.folder).values())
    for site in sites:
        assert set(bytecode_in(site)) == ALL
        assert set(bytecode_in(site).values()) >= kept


def test_an_install_that_has_all_of_it_waits_for_nobody(place, nobody):
    place.compiled("one")
    with exclusive(place.kept.lock):
        assert set(bytecode_in(place.compiled("two", nobody))) == ALL


def test_a_setting_for_reproducible_builds_makes_no_difference(place, nobody, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "315532800")
    place.compiled("one")
    assert set(bytecode_in(place.compiled("two", nobody))) == ALL


def test_variables_of_python_make_no_difference(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    assert set(bytecode_in(place.compiled("one"))) == ALL


def test_a_disk_without_hard_links_has_copies(place, nobody, monkeypatch):
    sites = [place.site("one"), place.site("two")]

    def refuse(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(bytecode.os, "link", refuse)
    compile_all(PYTHON, sites[0], place.kept)
    compile_all(nobody, sites[1], place.kept)
    monkeypatch.undo()
    inodes = [set(bytecode_in(folder).values()) for folder in (*sites, place.kept.folder)]
    assert len(set.union(*inodes)) == sum(map(len, inodes))
    assert set(bytecode_in(sites[1])) == ALL
    assert not list(place.folder.rglob(f"*.{os.getpid()}"))
    other_value(sites[1] / cached("torch/deep/inner.py"))
    assert imported(sites[1], "torch.VALUE") == "from cache!"


# --- used ---------------------------------------------------------------------------------------


def test_python_takes_it_instead_of_the_source(place, nobody):
    place.compiled("one")
    other_value(place.kept_of("torch/deep/inner.py"))
    site = place.compiled("two", nobody)
    before = bytecode_in(site)
    assert imported(site, "torch.VALUE") == "from cache!"
    assert bytecode_in(site) == before  # Python has written none of its own
    expected = str(site / cached("torch/deep/inner.py"))
    assert imported(site, "torch.deep.inner.__cached__") == expected


def test_functions_name_the_place_to_which_the_environment_was_renamed(place, nobody):
    for name, python in (("one", PYTHON), ("two", nobody)):
        site = place.site(f".{name}.aside")
        compile_all(python, site, place.kept)
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
    fake.write_text(f"#!/bin/sh\n[ -e /dev/fd/{descriptor} ] && echo open > {log}; echo []\n")
    fake.chmod(0o755)
    try:
        compile_all(fake, place.site("one"), place.kept, [descriptor])
        assert log.read_text() == "open\n"
        log.unlink()
        compile_all(fake, place.site("two"), place.kept)
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
        assert bytecode_in(site) == bytecode_in(place.kept.folder) == {}
