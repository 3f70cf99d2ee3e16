"""Whether an environment is as it was installed: every kind of change is seen, bytecode is none."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from repro.errors import Unavailable
from repro.integrity import changed, damaged, site_packages, write_down

FILES = {
    "torch/__init__.py": "from torch.version import __version__\n",
    "torch/version.py": "__version__ = '2.12.1+cpu'\n",
    "torch/lib/libtorch.so": "ELF",
    "numpy/__init__.py": "",
    "loose.pth": "\n",
}
WHOLE = frozenset({"."})


def row(name: str, text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(text)}\n"


class Place:
    """An environment, and the list of what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "environment"
        self.listed = self.folder / "files.json"
        self.site = self.folder / "lib" / "python3.12" / "site-packages"
        (self.folder / "bin").mkdir(parents=True)
        (self.folder / "bin" / "python").symlink_to(sys.executable)
        (self.folder / "pyvenv.cfg").write_text("home = /somewhere\n")
        for name, text in FILES.items():
            self.write(name, text)
        for package, stem in (("torch", "torch-2.12.1+cpu"), ("numpy", "numpy-2.0")):
            rows = [row(name, text) for name, text in FILES.items() if name.startswith(package)]
            rows.append(f"{stem}.dist-info/RECORD,,\n")
            self.write(f"{stem}.dist-info/RECORD", "".join(rows))
        write_down(self.folder, self.listed)

    def write(self, name: str, text: str) -> None:
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        # Long ago, as in a wheel: a clock may not tell two writes of one moment apart.
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def changed(self) -> frozenset[str]:
        return changed(self.folder, self.listed)

    def damaged(self, *suspects: str) -> list[str]:
        return damaged(self.folder, suspects)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_as_it_was_has_not_changed(place):
    assert place.changed() == frozenset()


def test_it_has_not_changed_when_it_was_renamed(place, tmp_path):
    os.rename(place.folder, tmp_path / "final")
    assert changed(tmp_path / "final", tmp_path / "final" / "files.json") == frozenset()


def test_every_file_is_written_down_by_its_path_below_site_packages(place):
    records = {"torch-2.12.1+cpu.dist-info/RECORD", "numpy-2.0.dist-info/RECORD"}
    start = {"../pyvenv.cfg", "../python"}
    assert set(json.loads(place.listed.read_text())) == FILES.keys() | records | start


# --- changes ------------------------------------------------------------------------------------


def edited_in_place(place: Place) -> str:
    with (place.site / "torch/version.py").open("r+") as file:
        file.write("__version__ = '2.12.2+cpu'\n")
    return "torch/version.py"


def longer_at_the_same_time(place: Place) -> str:
    path = place.site / "torch/__init__.py"
    stat = path.stat()
    path.write_text(path.read_text() + "#")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return "torch/__init__.py"


def a_nanosecond_later(place: Place) -> str:
    path = place.site / "torch/__init__.py"
    stat = path.stat()
    # A file system may round, but two changes are then as far apart as it can tell.
    later = stat.st_mtime_ns + 1
    os.utime(path, ns=(later, later))
    if path.stat().st_mtime_ns == stat.st_mtime_ns:
        os.utime(path, (stat.st_mtime + 2, stat.st_mtime + 2))
    return "torch/__init__.py"


def deleted(place: Place) -> str:
    (place.site / "torch/lib/libtorch.so").unlink()
    return "torch/lib/libtorch.so"


def new_module(place: Place) -> str:
    place.write("sitecustomize.py", "raise SystemExit\n")
    return "sitecustomize.py"


def new_module_in_a_new_folder(place: Place) -> str:
    place.write("torch/extra/deep/x.py", "")
    return "torch/extra/deep/x.py"


def a_link_instead_of_the_file(place: Place) -> str:
    path = place.site / "torch/__init__.py"
    path.unlink()
    path.symlink_to("version.py")
    return "torch/__init__.py"


def a_new_link_to_a_folder(place: Place) -> str:
    (place.site / "elsewhere").symlink_to("/")
    return "elsewhere"


CHANGES = [edited_in_place, longer_at_the_same_time, a_nanosecond_later, deleted, new_module]
CHANGES += [new_module_in_a_new_folder, a_link_instead_of_the_file, a_new_link_to_a_folder]


@pytest.mark.parametrize("change", CHANGES, ids=lambda function: function.__name__)
def test_each_change_is_seen_and_named(change, place):
    expected = change(place)
    assert place.changed() == {expected}


def test_several_changes_are_all_named(place):
    expected = {deleted(place), new_module(place), edited_in_place(place)}
    assert place.changed() == expected


def test_a_folder_that_is_gone_is_all_its_files(place):
    shutil.rmtree(place.site / "torch")
    assert place.changed() == {name for name in FILES if name.startswith("torch")}


def test_bytecode_is_no_change(place):
    place.write("torch/__pycache__/version.cpython-312.pyc", "bytecode")
    place.write("__pycache__/alone.cpython-312.pyc", "bytecode")
    assert place.changed() == frozenset()
    write_down(place.folder, place.listed)
    shutil.rmtree(place.site / "torch/__pycache__")
    assert place.changed() == frozenset()


def test_a_module_beside_the_bytecode_folder_is_a_change(place):
    place.write("torch/__pycache__.py", "")
    assert place.changed() == {"torch/__pycache__.py"}


def no_python(place: Place) -> None:
    (place.folder / "bin" / "python").unlink()


def python_that_points_nowhere(place: Place) -> None:
    no_python(place)
    (place.folder / "bin" / "python").symlink_to("/nowhere/python")


def no_settings(place: Place) -> None:
    (place.folder / "pyvenv.cfg").unlink()


def no_folder(place: Place) -> None:
    shutil.rmtree(place.folder)


def no_site_packages(place: Place) -> None:
    shutil.rmtree(place.folder / "lib")


def site_packages_is_a_file(place: Place) -> None:
    shutil.rmtree(place.site)
    place.site.write_text("")


def no_list(place: Place) -> None:
    place.listed.unlink()


def list_that_is_cut_off(place: Place) -> None:
    place.listed.write_text(place.listed.read_text()[:30])


def list_that_is_empty(place: Place) -> None:
    place.listed.write_text("")


def list_of_another_kind(place: Place) -> None:
    place.listed.write_text("[1, 2]")


def list_that_is_no_text(place: Place) -> None:
    place.listed.write_bytes(b"\xff\xfe\x00")


def list_that_is_a_folder(place: Place) -> None:
    place.listed.unlink()
    place.listed.mkdir()


LOSSES = [no_python, no_settings, python_that_points_nowhere, no_folder, no_site_packages, no_list]
LOSSES += [site_packages_is_a_file, list_that_is_cut_off, list_that_is_empty, list_of_another_kind]
LOSSES += [list_that_is_no_text, list_that_is_a_folder]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda function: function.__name__)
def test_what_cannot_be_compared_has_changed_as_a_whole(lose, place):
    lose(place)
    assert place.changed() == WHOLE


def test_a_list_of_other_values_is_a_change_of_each(place):
    files = json.loads(place.listed.read_text())
    place.listed.write_text(json.dumps(dict.fromkeys(files, 7)))
    assert place.changed() == files.keys()


def test_names_of_every_kind_are_compared(tmp_path):
    place = Place(tmp_path)
    names = ["with blank.py", "é.py", "new\nline.py", '"quoted".py', os.fsdecode(b"bytes\xff.py")]
    for name in names:
        place.write(name, "")
    assert place.changed() == set(names)
    write_down(place.folder, place.listed)
    assert place.changed() == frozenset()


def test_no_site_packages_is_a_sentence(tmp_path):
    with pytest.raises(Unavailable, match="nowhere: no site-packages"):
        site_packages(tmp_path / "nowhere")


def test_site_packages_of_any_python(place):
    assert site_packages(place.folder) == place.site


# --- damaged ------------------------------------------------------------------------------------


def test_what_is_as_its_wheel_had_it_is_not_damaged(place):
    assert place.damaged(*FILES) == []
    assert place.damaged(".") == []


def test_a_package_with_a_suspect_that_differs_is_damaged(place):
    name = edited_in_place(place)
    assert place.damaged(name) == ["torch"]
    assert place.damaged(name, "numpy/__init__.py") == ["torch"]


def test_only_suspects_are_read(place):
    edited_in_place(place)
    assert place.damaged() == []
    assert place.damaged("torch/__init__.py") == []


def test_every_package_that_is_damaged_is_named_once(place):
    for name in ("torch/version.py", "torch/__init__.py", "numpy/__init__.py"):
        place.write(name, "changed")
    suspects = ("torch/version.py", "torch/__init__.py", "numpy/__init__.py")
    assert place.damaged(*suspects) == ["numpy", "torch"]


def test_a_suspect_that_is_not_there_is_damaged(place):
    assert place.damaged(deleted(place)) == ["torch"]


def test_a_suspect_of_no_wheel_is_nobodys_damage(place):
    assert place.damaged(new_module(place), "nowhere/at/all.py", "loose.pth") == []


def test_a_time_alone_is_no_damage(place):
    assert place.damaged(a_nanosecond_later(place)) == []


def test_as_a_whole_every_python_file_is_read(place):
    place.write("torch/lib/libtorch.so", "ELG")
    assert place.damaged(".") == []  # too large to be read without a suspicion of its own
    assert place.damaged("torch/lib/libtorch.so") == ["torch"]
    edited_in_place(place)
    assert place.damaged(".") == ["torch"]


def test_a_hash_of_another_kind_is_not_judged(place):
    record = place.site / "numpy-2.0.dist-info/RECORD"
    record.write_text("numpy/__init__.py,sha512=abc,0\n")
    assert place.damaged("numpy/__init__.py") == []


def test_a_name_with_a_comma_is_read(place):
    place.write("numpy/a,b.py", "text")
    record = place.site / "numpy-2.0.dist-info/RECORD"
    record.write_text(row('"numpy/a,b.py"', "text"))
    assert place.damaged("numpy/a,b.py") == []
    place.write("numpy/a,b.py", "tex")
    assert place.damaged("numpy/a,b.py") == ["numpy"]


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"x" * 200_000], ids=["no text", "endless"])
def test_a_record_that_cannot_be_read_is_damage(data, place):
    (place.site / "numpy-2.0.dist-info/RECORD").write_bytes(data)
    assert place.damaged("torch/version.py") == ["numpy"]
