import json
import multiprocessing
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

import repro.uv
from repro.errors import ReproError
from repro.store import RECORD, Store, cache_folder, interpreter, read_version
from repro.uv import InstallError

COMMIT = "2236df1770800ffea5697b11b0bb0d910b2e59e1"
OLD_STYLE = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '{version}'
debug = False
cuda: Optional[str] = '12.4'
git_version = '{commit}'
hip: Optional[str] = None
"""
NEW_STYLE = """\
from typing import Optional

__all__ = ["__version__", "debug", "cuda", "git_version"]
__version__: str = "{version}"
debug: bool = False
cuda: Optional[str] = None
git_version: Optional[str] = "{commit}"
"""


class FakeUv:
    """Makes the tree that uv would make. What is asked of it is written down in a file."""

    def __init__(self, folder: Path, version: str | None = None, pause: float = 0.0) -> None:
        self.asked = folder / "asked"
        self.version = version
        self.pause = pause
        self.fails: Exception | None = None
        self.text = OLD_STYLE

    def __call__(self, arguments, folder, timeout=0.0):
        words = [str(argument) for argument in arguments]
        assert Path(folder).is_dir()
        with self.asked.open("a") as file:
            file.write(" ".join(words) + "\n")
        if words[0] == "venv":
            python = Path(words[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text("#!/bin/sh\n")
            python.chmod(0o755)
            return
        time.sleep(self.pause)
        environment = Path(words[words.index("--python") + 1]).parent.parent
        [wanted] = [word for word in words if word.startswith("torch==")]
        torch = environment / "lib" / "python3.11" / "site-packages" / "torch"
        torch.mkdir(parents=True)
        version = self.version or wanted.removeprefix("torch==") + "+cpu"
        (torch / "version.py").write_text(self.text.format(version=version, commit=COMMIT))
        if self.fails is not None:
            raise self.fails

    @property
    def installs(self) -> list[str]:
        return [line for line in self.asked.read_text().splitlines() if "pip install" in line]


@pytest.fixture
def uv(tmp_path, monkeypatch) -> FakeUv:
    fake = FakeUv(tmp_path)
    monkeypatch.setattr(repro.uv, "call", fake)
    return fake


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "cache")


def environments(store: Store) -> list[str]:
    folder = store.root / "environments"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# --- whole or absent ----------------------------------------------------------------------------


def test_an_environment_is_made_and_says_what_is_in_it(store, uv):
    said = []
    made = store.provide("2.12.1", said.append)
    assert (made.version, made.git_version) == ("2.12.1+cpu", COMMIT)
    assert made.python == store.folder("2.12.1") / "bin" / "python"
    assert made.python.exists()
    assert environments(store) == [store.folder("2.12.1").name]
    assert said == ["installing torch 2.12.1"]
    [install] = uv.installs
    assert "torch==2.12.1" in install
    assert "setuptools" in install
    assert "numpy" in install


def test_an_environment_that_is_there_is_used_again(store, uv):
    made = store.provide("2.12.1")
    said = []
    assert store.provide("2.12.1", said.append) == made == store.find("2.12.1")
    assert len(uv.installs) == 1
    assert said == []


def test_versions_do_not_share_an_environment(store, uv):
    assert store.provide("2.12.1").python != store.provide("2.12.0").python
    assert len(uv.installs) == 2


def test_what_is_not_there_is_not_found(store):
    assert store.find("2.12.1") is None
    assert not store.root.exists()


@pytest.mark.parametrize(
    "error",
    [InstallError("no network", "hint", "log"), KeyboardInterrupt(), OSError(28, "No space")],
)
def test_a_failure_leaves_nothing_behind(store, uv, error):
    uv.fails = error
    with pytest.raises((InstallError, KeyboardInterrupt)):
        store.provide("2.12.1")
    assert environments(store) == []
    assert store.find("2.12.1") is None
    uv.fails = None
    assert store.provide("2.12.1").version == "2.12.1+cpu"


def test_what_the_disk_says_is_a_sentence(store, uv):
    uv.fails = OSError(28, "No space left on device", "/cache/x")
    with pytest.raises(InstallError, match=r"^/cache/x: No space left on device$") as caught:
        store.provide("2.12.1")
    assert "REPRO_CACHE_DIR" in caught.value.hint


def test_a_cache_folder_that_cannot_be_made_is_a_sentence(tmp_path, uv):
    (tmp_path / "file").write_text("")
    with pytest.raises(InstallError, match=r"Not a directory|File exists"):
        Store(tmp_path / "file").provide("2.12.1")


def test_what_a_killed_install_left_is_swept(store, uv):
    folder = store.folder("2.12.1")
    leftover = folder.parent / f".{folder.name}.0123abcd"
    other = folder.parent / f".{store.folder('2.6.0').name}.0123abcd"
    for path in (leftover, other):
        (path / "lib").mkdir(parents=True)
    store.provide("2.12.1")
    assert not leftover.exists()
    assert other.exists()  # another process may be at it


def test_a_half_made_environment_is_not_taken_for_one(store, uv):
    (store.folder("2.12.1") / "bin").mkdir(parents=True)
    assert store.find("2.12.1") is None
    assert store.provide("2.12.1").version == "2.12.1+cpu"


# --- checked before use -------------------------------------------------------------------------


def other_version(folder: Path) -> None:
    [file] = folder.glob("lib/python*/site-packages/torch/version.py")
    file.write_text(OLD_STYLE.format(version="2.11.0+cpu", commit=COMMIT))


def other_commit(folder: Path) -> None:
    [file] = folder.glob("lib/python*/site-packages/torch/version.py")
    file.write_text(OLD_STYLE.format(version="2.12.1+cpu", commit="f" * 40))


def no_torch(folder: Path) -> None:
    shutil.rmtree(folder / "lib")


def no_python(folder: Path) -> None:
    (folder / "bin" / "python").unlink()


def python_that_points_nowhere(folder: Path) -> None:
    no_python(folder)
    os.symlink("/nowhere/python", folder / "bin" / "python")


def no_record(folder: Path) -> None:
    (folder / RECORD).unlink()


def cut_record(folder: Path) -> None:
    (folder / RECORD).write_text((folder / RECORD).read_text()[:20])


def record_of_another_kind(folder: Path) -> None:
    (folder / RECORD).write_text("[]")


def record_without_a_key(folder: Path) -> None:
    (folder / RECORD).write_text(json.dumps({"version": "2.12.1+cpu"}))


def record_that_is_no_text(folder: Path) -> None:
    (folder / RECORD).write_bytes(b"\xff\xfe\x00")


BREAKAGES = [other_version, other_commit, no_torch, no_python, python_that_points_nowhere]
BREAKAGES += [no_record, cut_record, record_of_another_kind, record_without_a_key]
BREAKAGES += [record_that_is_no_text]


@pytest.mark.parametrize("break_it", BREAKAGES, ids=lambda function: function.__name__)
def test_a_broken_environment_is_made_anew(store, uv, break_it):
    store.provide("2.12.1")
    break_it(store.folder("2.12.1"))
    assert store.find("2.12.1") is None
    made = store.provide("2.12.1")
    assert (made.version, made.git_version) == ("2.12.1+cpu", COMMIT)
    assert made.python.exists()
    assert len(uv.installs) == 2
    assert environments(store) == [store.folder("2.12.1").name]


@pytest.mark.parametrize(
    ("wanted", "inside"),
    [
        ("2.12.1", "2.12.0+cpu"),
        ("2.12.1", "2.12.10+cpu"),
        ("2.13.0.dev20260528", "2.13.0.dev20260527+cpu"),
        ("2.12.1+cu130", "2.12.1+cpu"),
    ],
)
def test_another_version_than_was_asked_for_is_an_error(store, uv, wanted, inside):
    uv.version = inside
    with pytest.raises(InstallError) as caught:
        store.provide(wanted)
    assert wanted in str(caught.value)
    assert inside in str(caught.value)
    assert environments(store) == []


@pytest.mark.parametrize(
    ("wanted", "inside"),
    [("2.12.1", "2.12.1"), ("2.12.1", "2.12.1+cu130"), ("2.12.1+cpu", "2.12.1+cpu")],
)
def test_a_variant_that_was_not_asked_for_is_free(store, uv, wanted, inside):
    uv.version = inside
    assert store.provide(wanted).version == inside


def test_an_install_that_brings_no_torch_is_an_error(store, monkeypatch, uv):
    def without(arguments, folder, timeout=0.0):
        if str(arguments[0]) == "venv":
            uv(arguments, folder)

    monkeypatch.setattr(repro.uv, "call", without)
    with pytest.raises(InstallError, match="brought no torch"):
        store.provide("2.12.1")
    assert environments(store) == []


def test_a_torch_that_states_no_version_is_an_error_of_ours(store, uv):
    uv.text = "# {version} {commit}\n"
    with pytest.raises(InstallError):
        store.provide("2.12.1")
    assert environments(store) == []


# --- several at once ----------------------------------------------------------------------------


def test_threads_that_ask_at_once_make_one_install(store, uv):
    uv.pause = 0.2
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(store.provide("2.12.1"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(made)) == 1
    assert len(uv.installs) == 1


def _provide(root: Path, answers) -> None:
    answers.put(str(Store(root).provide("2.12.1").python))


def test_processes_that_ask_at_once_make_one_install(store, uv):
    uv.pause = 0.2
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    children = [context.Process(target=_provide, args=(store.root, answers)) for _ in range(4)]
    for child in children:
        child.start()
    given = {answers.get(timeout=20) for _ in children}
    for child in children:
        child.join()
    assert given == {str(store.folder("2.12.1") / "bin" / "python")}
    assert len(uv.installs) == 1


# --- reading a version --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version", "commit"),
    [
        (OLD_STYLE.format(version="2.6.0+cu124", commit=COMMIT), "2.6.0+cu124", COMMIT),
        (NEW_STYLE.format(version="2.15.0", commit=COMMIT), "2.15.0", COMMIT),
        ("__version__ = '2.6.0'\n", "2.6.0", None),
        ("__version__ = '2.6.0'\ngit_version: Optional[str] = None\n", "2.6.0", None),
        ("__version__='2.6.0'\ngit_version: str | None = 'abc'\n", "2.6.0", "abc"),
        ("__all__ = ['__version__']\n__version__ : Final = '2.6.0'\r\n", "2.6.0", None),
    ],
)
def test_forms_of_a_version_file(tmp_path, text, version, commit):
    (tmp_path / "version.py").write_bytes(text.encode())
    assert read_version(tmp_path / "version.py") == (version, commit)


def test_a_version_file_is_not_run(tmp_path):
    path = tmp_path / "version.py"
    path.write_text("raise SystemExit\n__version__ = '2.6.0'\n")
    assert read_version(path) == ("2.6.0", None)


def test_a_version_file_without_a_version_is_an_error(tmp_path):
    path = tmp_path / "version.py"
    path.write_text("version = '1'\n")
    with pytest.raises(ValueError, match="no __version__"):
        read_version(path)
    with pytest.raises(OSError, match="none"):
        read_version(tmp_path / "none.py")


# --- interpreters and folders -------------------------------------------------------------------


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_is_itself_or_that_of_its_environment(tmp_path, monkeypatch):
    python = program(tmp_path / "venv" / "bin" / "python")
    assert interpreter(python) == python
    assert interpreter(tmp_path / "venv") == python
    monkeypatch.chdir(tmp_path)
    assert interpreter(Path("venv")) == python


def test_the_link_to_an_interpreter_is_kept(tmp_path):
    """Python finds its environment by the path it was started with."""
    real = program(tmp_path / "real")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    os.symlink(real, tmp_path / "venv" / "bin" / "python")
    assert interpreter(tmp_path / "venv") == tmp_path / "venv" / "bin" / "python"


def test_what_is_no_interpreter_is_named(tmp_path):
    (tmp_path / "text").write_text("")
    for path, says in (
        (tmp_path / "none", "none: no such file"),
        (tmp_path, "without bin/python"),
        (tmp_path / "text", "not executable"),
    ):
        with pytest.raises(ReproError, match=says):
            interpreter(path)


def test_the_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("REPRO_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder().name == "torch-compile-repro"
