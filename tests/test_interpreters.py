"""The Python of a build: found by path or version, and asked what it is."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.tags import sys_tags

import repro.interpreters
from repro import uv
from repro.errors import ReproError, Unavailable
from repro.interpreters import Interpreter, executable_in, find_interpreter

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def fake(path: Path, *answer: object) -> Path:
    """A program that answers as a Python would, whatever it is asked."""
    return program(path, f"cat <<'EOF'\n{json.dumps(answer)}\nEOF")


def made(version: tuple[int, int] = (3, 13), free: bool = False, base: str = "/opt") -> Interpreter:
    return Interpreter(Path("/opt/bin/python"), version, f"{version[0]}.{version[1]}.1", free, base)


# --- executables --------------------------------------------------------------------------------


def environment(folder: Path) -> Path:
    """A virtual environment's executable, which is a link as venv makes them."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return python


def test_an_executable_is_itself_or_that_of_its_environment(tmp_path, monkeypatch):
    python = environment(tmp_path / "venv")
    assert executable_in(python) == python
    assert executable_in(tmp_path / "venv") == python
    monkeypatch.chdir(tmp_path)
    assert executable_in(Path("venv")) == python
    assert executable_in(Path("venv/bin/python")) == python


def test_the_link_to_an_interpreter_is_kept(tmp_path):
    """Resolving it would leave the environment: Python finds that by the path it is started by."""
    python = environment(tmp_path / "venv")
    assert executable_in(python) != python.resolve()


def test_what_is_no_executable_is_named(tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").mkdir()
    for name, words in (
        ("none", "no such file"),
        ("text", "not executable"),
        ("empty", "no virtual environment"),
    ):
        with pytest.raises(ReproError, match=words) as caught:
            executable_in(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: ")


# --- found --------------------------------------------------------------------------------------


def test_the_running_one():
    found = find_interpreter(None)
    assert found.executable == Path(sys.executable)
    assert found.version == sys.version_info[:2]
    assert found.full == sys.version.split()[0]
    assert found.free_threaded == bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert found.base == sys.base_prefix


def test_by_the_path_of_an_executable_or_environment(tmp_path, monkeypatch):
    running = find_interpreter(None)
    python = environment(tmp_path / "home" / "venv")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for request in (python, python.parent.parent, "home/venv", "./home/venv/bin/python", "~/venv"):
        found = find_interpreter(str(request))
        assert found.executable == python
        assert (found.version, found.full) == (running.version, running.full)


def test_variables_of_python_do_not_reach_it(tmp_path, monkeypatch):
    broken = tmp_path / "json.py"
    broken.write_text("raise SystemExit('imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    repro.interpreters._asked.cache_clear()
    assert find_interpreter(None).version == sys.version_info[:2]


@pytest.mark.parametrize(
    "script",
    [
        *("exit 0", "exit 1", "echo hello", "echo 5", "echo null", "echo '[]'", "echo '[1, 2, 3]'"),
        *("kill -9 $$", "printf '\\377\\376'"),
    ],
)
def test_a_program_that_is_no_python(script, tmp_path):
    path = program(tmp_path / "python", script)
    with pytest.raises(ReproError) as caught:
        find_interpreter(str(path))
    assert str(caught.value) == f"{path}: this is no working Python"
    assert caught.value.hint


def test_a_file_that_cannot_be_started(tmp_path):
    path = tmp_path / "python"
    path.write_bytes(b"\x00\x01\x02")
    path.chmod(0o755)
    with pytest.raises(ReproError, match="no working Python"):
        find_interpreter(str(path))


def test_a_program_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(repro.interpreters, "ASK_LIMIT", 0.3)
    path = program(tmp_path / "python", "exec sleep 600")
    with pytest.raises(ReproError, match="no working Python"):
        find_interpreter(str(path))


def test_another_kind_of_python(tmp_path):
    path = fake(tmp_path / "pypy", "pypy", [3, 11], "3.11.9", False, "/opt/pypy")
    with pytest.raises(ReproError) as caught:
        find_interpreter(str(path))
    assert str(caught.value) == f"{path}: torch has wheels for CPython, not for pypy"


def test_a_free_threaded_one_says_so(tmp_path):
    path = fake(tmp_path / "python", "cpython", [3, 14], "3.14.2", True, "/opt/free")
    found = find_interpreter(str(path))
    assert found == Interpreter(path, (3, 14), "3.14.2", True, "/opt/free")
    assert found.name.startswith("py3.14t-")


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(ReproError, match="no such file"):
        find_interpreter(str(tmp_path / "none"))
    with pytest.raises(ReproError, match="no such home folder") as caught:
        find_interpreter("~nobody-of-that-name/python")
    assert caught.value.hint


def test_a_version_is_looked_for_by_uv(tmp_path, monkeypatch):
    base = Path(getattr(sys, "_base_executable", sys.executable))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / f"python{RUNNING}").symlink_to(base)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    found = find_interpreter(RUNNING)
    assert found.executable.parent == tmp_path / "bin"
    assert (found.version, found.base) == (sys.version_info[:2], sys.base_prefix)


def test_a_version_that_is_not_there_names_what_was_asked_for(monkeypatch):
    def missing(*arguments, **more):
        raise Unavailable("No interpreter found for Python 3.99")

    monkeypatch.setattr(uv, "call", missing)
    with pytest.raises(ReproError) as caught:
        find_interpreter("3.99")
    assert str(caught.value) == "--python 3.99: No interpreter found for Python 3.99"
    assert "uv python install 3.99" in caught.value.hint


# --- names and tags -----------------------------------------------------------------------------


def test_names_tell_interpreters_apart():
    plain = made()
    others = [
        replace(plain, base="/opt/other"),
        replace(plain, version=(3, 12)),
        replace(plain, free_threaded=True),
    ]
    assert len({plain.name, *(other.name for other in others)}) == 4
    assert plain.name.startswith("py3.13-")


def test_another_patch_or_environment_of_the_same_python_has_its_name():
    plain = made()
    assert replace(plain, full="3.13.2").name == plain.name
    assert replace(plain, executable=Path("/elsewhere/bin/python")).name == plain.name


def test_a_link_to_the_same_place_is_the_same_place(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    names = {made(base=str(tmp_path / name)).name for name in ("real", "link", "link/../real")}
    assert len(names) == 1


def test_a_name_can_be_part_of_a_folders_name():
    assert set(made(free=True).name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")


def test_it_names_bytecode_as_it_says_itself():
    assert find_interpreter(None).cache_tag == sys.implementation.cache_tag


def test_the_tags_of_the_running_one_are_those_that_installers_take():
    tags = find_interpreter(None).tags()
    assert list(tags) == list(sys_tags())
    assert list(tags.values()) == list(range(len(tags)))


def test_a_free_threaded_one_takes_its_own_wheels_alone():
    abis = {tag.abi for tag in made(free=True).tags()}
    assert {"cp313t", "none"} <= abis
    assert not abis & {"cp313", "abi3"}
    plain = {tag.abi for tag in made().tags()}
    assert {"cp313", "abi3", "none"} <= plain
    assert "cp313t" not in plain


def test_tags_are_of_its_version_not_of_the_running_one():
    tags = [str(tag) for tag in made(version=(3, 99)).tags()]
    assert tags[0].startswith("cp399-cp399-")
    assert "py3-none-any" in tags
    assert "cp399-none-any" in tags
    running = f"cp{RUNNING.replace('.', '')}"
    assert not [tag for tag in tags if tag.startswith(f"{running}-{running}-")]


def test_an_interpreter_is_asked_once(tmp_path):
    answer = json.dumps(["cpython", [3, 12], "3.12.1", False, "/opt"])
    path = program(tmp_path / "python", f"echo asked >> {tmp_path}/log; echo '{answer}'")
    first = find_interpreter(str(path))
    assert find_interpreter(str(path)) is first
    assert (tmp_path / "log").read_text() == "asked\n"
    assert os.access(first.executable, os.X_OK)
