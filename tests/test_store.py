"""Environments: whole or absent, one install for all who ask, checked before use."""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from packaging.version import Version

import repro.store
from repro.builds import Build, Origin
from repro.environments import RECORD, Environments, cache_folder
from repro.errors import ReproError, Unavailable
from repro.integrity import site_packages
from repro.interpreters import find_interpreter
from repro.store import Environment, Installed, Store
from tests.conftest import alive

COMMIT = "2236df1770800ffea5697b11b0bb0d910b2e59e1"
FILES = {
    "torch/__init__.py": "from torch.version import __version__\n",
    "torch/version.py": f"__version__ = '2.12.1+cpu'\ngit_version = '{COMMIT}'\n",
    "torch/nested/deep.py": "VALUE = 1\n",
}


def build_of(version: str = "2.12.1+cpu", index: str = "index.example") -> Build:
    name = f"torch-{version}-cp311-cp311-linux_x86_64.whl"
    return Build(Version(version), name, f"https://{index}/{name}", Origin.PYTORCH, "cpu")


class Maker:
    """Makes the tree that an installer would make, and writes down that it was asked to.

    Args:
        pause: seconds that it takes.
        fails: what it raises when it is half done.
        child: a command that it runs half way, holding the lock.
        cache: files that it links, as uv does, instead of writing them.
        files: what is in it, besides or instead of FILES.
    """

    def __init__(self, folder: Path, pause: float = 0.0) -> None:
        self.log = folder / "installs"
        self.pause = pause
        self.fails: BaseException | None = None
        self.child: Sequence[str] = ()
        self.cache: Path | None = None
        self.files: dict[str, str] = {}

    def __call__(
        self,
        build: Build,
        folder: Path,
        holding: Sequence[int],
        narrate: Callable[[str], None],
        fresh: bool = False,
    ) -> Installed:
        with self.log.open("a") as file:
            file.write(f"{build.version}{' fresh' * fresh}\n")
        narrate(f"installing torch {build.version}")
        (folder / "bin").mkdir(parents=True)
        os.symlink(sys.executable, folder / "bin" / "python")
        (folder / "pyvenv.cfg").write_text("home = /somewhere\n")
        site = folder / "lib" / "python3.11" / "site-packages"
        if self.child:
            subprocess.run(self.child, pass_fds=holding, check=True)
        time.sleep(self.pause)
        if self.fails is not None:
            raise self.fails
        rows = []
        for name, text in (FILES | self.files).items():
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.cache is not None and not fresh:
                os.link(self.cache / name, path)
            else:
                path.write_text(text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            rows.append(f"{name},sha256={digest.rstrip(b'=').decode()},{len(text)}\n")
        (site / "torch-2.12.1.dist-info").mkdir()
        (site / "torch-2.12.1.dist-info" / "RECORD").write_text("".join(rows))
        return Installed("2.12.1+cpu", COMMIT, "triton 3.6.0")

    @property
    def installs(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def open_store(folder: Path, maker: Maker, max_size: int | None = None) -> Store:
    return Store(Environments(folder / "cache"), find_interpreter(None), maker, max_size)


@pytest.fixture
def store(tmp_path: Path, maker: Maker) -> Store:
    return open_store(tmp_path, maker)


def made(store: Store, build: Build, said: list[str] | None = None) -> Environment:
    with store.use(build, [].append if said is None else said.append) as environment:
        return environment


def folders(store: Store) -> list[str]:
    folder = store.environments.folder
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def site(store: Store) -> Path:
    return site_packages(store.folder(build_of()))


# --- whole or absent ----------------------------------------------------------------------------


def test_an_environment_is_made_and_says_what_is_in_it(store, maker):
    said: list[str] = []
    environment = made(store, build_of(), said)
    folder = store.folder(build_of())
    assert environment == Environment(folder / "bin" / "python", "2.12.1+cpu", COMMIT)
    assert folders(store) == [folder.name]
    assert said == ["installing torch 2.12.1+cpu"]
    record = json.loads((folder / RECORD).read_text())
    assert record["triton"] == "triton 3.6.0"
    assert record["variant"] == "cpu"
    [stored] = store.environments.all()
    assert (stored.version, stored.git_version, stored.in_use) == ("2.12.1+cpu", COMMIT, False)


def test_an_environment_that_is_there_is_used_again(store, maker):
    first = made(store, build_of())
    said: list[str] = []
    assert made(store, build_of(), said) == first
    assert (maker.installs, said) == (["2.12.1+cpu"], [])


def test_bytecode_is_there_before_the_first_import(store):
    made(store, build_of())
    compiled = {path.name.partition(".")[0] for path in site(store).rglob("*.pyc")}
    assert compiled == {"__init__", "version", "deep"}


@pytest.mark.parametrize(
    "other", [build_of("2.12.0+cpu"), build_of("2.12.1+cu130"), build_of(index="other.example")]
)
def test_another_build_is_another_environment(store, maker, other):
    assert made(store, build_of()).python != made(store, other).python
    assert len(maker.installs) == 2


def test_another_python_is_another_environment(store, tmp_path, maker):
    newer = replace(find_interpreter(None), version=(3, 14), base="/elsewhere")
    other = Store(Environments(tmp_path / "cache"), newer, maker)
    assert store.folder(build_of()) != other.folder(build_of())
    assert "py3.14" in other.folder(build_of()).name


def test_credentials_make_no_difference_and_are_not_written_down(store):
    plain = build_of()
    secret = replace(plain, url=plain.url.replace("://", "://me:hunter2@"))
    assert store.folder(plain) == store.folder(secret)
    made(store, secret)
    assert "hunter2" not in (store.folder(plain) / RECORD).read_text()


def test_a_wheel_that_was_built_again_under_its_name_is_another_environment(store):
    folder = store.folder(build_of())
    assert store.folder(replace(build_of(), stamp="200 17")) != folder
    assert store.folder(replace(build_of(), sha256="ab" * 32)) != folder


def test_nothing_is_made_by_looking(store):
    assert store.environments.all() == []
    assert not store.environments.root.exists()


@pytest.mark.parametrize(
    "error",
    [Unavailable("no network", "hint", "log"), KeyboardInterrupt(), OSError(28, "No space")],
)
def test_a_failure_leaves_nothing_behind(store, maker, error):
    maker.fails = error
    with pytest.raises((Unavailable, KeyboardInterrupt)):
        made(store, build_of())
    assert folders(store) == []
    maker.fails = None
    assert made(store, build_of()).version == "2.12.1+cpu"


def test_what_the_disk_says_is_a_sentence(store, maker):
    maker.fails = OSError(28, "No space left on device", "/cache/x")
    with pytest.raises(Unavailable, match=r"^/cache/x: No space left on device$") as caught:
        made(store, build_of())
    assert "REPRO_CACHE_DIR" in caught.value.hint


def test_what_goes_wrong_with_the_user_is_not_the_stores(store):
    error = OSError(28, "No space left on device", "/scratch")
    with pytest.raises(OSError, match="No space") as caught, store.use(build_of()):
        raise error
    assert caught.value is error


def test_a_cache_folder_that_cannot_be_made_is_a_sentence(tmp_path, maker):
    (tmp_path / "cache").write_text("")
    with pytest.raises(Unavailable, match=r"Not a directory|File exists"):
        made(open_store(tmp_path, maker), build_of())


# --- checked before use -------------------------------------------------------------------------


def edited(folder: Path) -> None:
    path = site_packages(folder) / "torch" / "nested" / "deep.py"
    path.write_text("VALUE = 2\n")


def other_version(folder: Path) -> None:
    path = site_packages(folder) / "torch" / "version.py"
    path.write_text("__version__ = '2.11.0+cpu'\n")


def injected(folder: Path) -> None:
    (site_packages(folder) / "sitecustomize.py").write_text("raise SystemExit\n")


def deleted(folder: Path) -> None:
    (site_packages(folder) / "torch" / "nested" / "deep.py").unlink()


def no_torch(folder: Path) -> None:
    shutil.rmtree(folder / "lib")


def no_python(folder: Path) -> None:
    (folder / "bin" / "python").unlink()


def python_that_points_nowhere(folder: Path) -> None:
    no_python(folder)
    os.symlink("/nowhere/python", folder / "bin" / "python")


def other_settings(folder: Path) -> None:
    path = folder / "pyvenv.cfg"
    path.write_text(path.read_text() + "include-system-site-packages = true\n")


def other_python(folder: Path) -> None:
    no_python(folder)
    os.symlink("/bin/sh", folder / "bin" / "python")


def python_that_cannot_be_run(folder: Path) -> None:
    no_python(folder)
    (folder / "bin" / "python").write_text("")


def record_of_another_version(folder: Path) -> None:
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps(record | {"version": "9.9.9"}))


def record_of_numbers(folder: Path) -> None:
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps(record | {"git_version": 5}))


def no_settings(folder: Path) -> None:
    (folder / "pyvenv.cfg").unlink()


def no_record(folder: Path) -> None:
    (folder / RECORD).unlink()


def cut_record(folder: Path) -> None:
    (folder / RECORD).write_text((folder / RECORD).read_text()[:20])


def record_of_another_kind(folder: Path) -> None:
    (folder / RECORD).write_text("[]")


def record_of_another_schema(folder: Path) -> None:
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps(record | {"schema": 0}))


def record_that_is_no_text(folder: Path) -> None:
    (folder / RECORD).write_bytes(b"\xff\xfe\x00")


def no_list_of_files(folder: Path) -> None:
    (folder / "files.json").unlink()


def half_made(folder: Path) -> None:
    shutil.rmtree(folder)
    (folder / "bin").mkdir(parents=True)


BREAKAGES = [edited, other_version, injected, deleted, no_torch, no_python, no_record, cut_record]
BREAKAGES += [python_that_points_nowhere, record_of_another_kind, record_of_another_schema]
BREAKAGES += [other_settings, other_python, python_that_cannot_be_run]
BREAKAGES += [record_of_another_version, record_of_numbers, no_settings]
BREAKAGES += [record_that_is_no_text, no_list_of_files, half_made]


@pytest.mark.parametrize("break_it", BREAKAGES, ids=lambda function: function.__name__)
def test_a_broken_environment_is_made_anew_and_it_is_said(store, maker, break_it):
    first = made(store, build_of())
    break_it(store.folder(build_of()))
    said: list[str] = []
    assert made(store, build_of(), said) == first
    assert maker.installs == ["2.12.1+cpu"] * 2
    assert said[0] == "the environment of torch 2.12.1+cpu was changed; it is made anew"
    assert folders(store) == [store.folder(build_of()).name]
    assert (site(store) / "torch" / "nested" / "deep.py").read_text() == "VALUE = 1\n"
    assert not (site(store) / "sitecustomize.py").exists()


def test_bytecode_that_a_run_writes_breaks_nothing(store, maker):
    environment = made(store, build_of())
    code = f"import sys; sys.path.insert(0, {str(site(store))!r}); import torch.nested.deep"
    subprocess.run([environment.python, "-c", code], check=True)
    made(store, build_of())
    assert len(maker.installs) == 1


def test_a_file_that_was_changed_in_uvs_cache_too_is_fetched_anew(store, maker, tmp_path):
    maker.cache = tmp_path / "uv"
    for name, text in FILES.items():
        (maker.cache / name).parent.mkdir(parents=True, exist_ok=True)
        (maker.cache / name).write_text(text)
    made(store, build_of())
    edited(store.folder(build_of()))  # a hard link: the cache has it as well
    said: list[str] = []
    made(store, build_of(), said)
    assert (site(store) / "torch" / "nested" / "deep.py").read_text() == "VALUE = 1\n"
    assert maker.installs == ["2.12.1+cpu", "2.12.1+cpu", "2.12.1+cpu fresh"]
    assert any("uv's cache has torch as it was changed" in line for line in said)
    assert any("`uv cache clean torch`" in line for line in said)


def test_what_was_changed_is_not_forgotten_when_the_repair_is_killed(store, maker, tmp_path):
    """The next install would take the changed file out of uv's cache for the right one."""
    maker.cache = tmp_path / "uv"
    for name, text in FILES.items():
        (maker.cache / name).parent.mkdir(parents=True, exist_ok=True)
        (maker.cache / name).write_text(text)
    made(store, build_of())
    edited(store.folder(build_of()))
    code = (
        "import os, signal, sys; from pathlib import Path; from tests.test_store import *\n"
        "maker = Maker(Path(sys.argv[1])); maker.cache = Path(sys.argv[1]) / 'uv'\n"
        "maker.child = ['sh', '-c', 'kill -9 $PPID']\n"
        "made(open_store(Path(sys.argv[1]), maker), build_of())"
    )
    root = Path(__file__).parent.parent
    killed = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=root, check=False)
    assert killed.returncode == -signal.SIGKILL
    made(store, build_of())
    assert (site(store) / "torch" / "nested" / "deep.py").read_text() == "VALUE = 1\n"
    assert maker.installs[-1] == "2.12.1+cpu fresh"


# --- several at once ----------------------------------------------------------------------------


def test_threads_that_ask_at_once_make_one_install(store, maker):
    maker.pause = 0.2
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(made(store, build_of()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len(set(answers)) == 1
    assert len(maker.installs) == 1


def _use(folder: Path, version: str, pause: float, answers) -> None:
    store = open_store(folder, Maker(folder, pause))
    with store.use(build_of(version)) as environment:
        answers.put((version, str(environment.python)))


def test_8_processes_that_ask_at_once_make_one_install(tmp_path, store, maker):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    children = [
        context.Process(target=_use, args=(tmp_path, "2.12.1+cpu", 0.5, answers)) for _ in range(8)
    ]
    for child in children:
        child.start()
    given = {answers.get(timeout=60) for _ in children}
    for child in children:
        child.join()
    assert given == {("2.12.1+cpu", str(store.folder(build_of()) / "bin" / "python"))}
    assert maker.installs == ["2.12.1+cpu"]


def test_who_looked_before_it_was_made_does_not_wait_for_the_end_of_its_use(
    store, maker, monkeypatch
):
    """Three look at the same moment; then each stays until all three are in."""
    looked, inside = threading.Barrier(3), threading.Barrier(3)
    told = threading.local()
    look = repro.store.record_of

    def together(folder: Path):
        found = look(folder)
        if not getattr(told, "looked", False):
            told.looked = True
            looked.wait(20)
        return found

    monkeypatch.setattr(repro.store, "record_of", together)
    answers = []

    def use() -> None:
        with store.use(build_of()) as environment:
            inside.wait(20)
            answers.append(environment)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 3
    assert len(maker.installs) == 1


def test_a_broken_environment_is_replaced_when_nobody_uses_it_any_more(store, maker, monkeypatch):
    monkeypatch.setattr("repro.locks.PATIENCE", 0.1)
    waits = threading.Event()
    said: list[str] = []

    def narrate(line: str) -> None:
        said.append(line)
        if line.startswith("waiting"):
            waits.set()

    def use() -> None:
        with store.use(build_of(), narrate):
            pass

    with store.use(build_of()):
        injected(store.folder(build_of()))
        other = threading.Thread(target=use)
        other.start()
        assert waits.wait(20)
        assert (site(store) / "sitecustomize.py").exists()
    other.join()
    assert said[-1] == "waiting for another repro that uses torch 2.12.1+cpu"
    assert not (site(store) / "sitecustomize.py").exists()


def test_two_builds_at_once_do_not_disturb_each_other(tmp_path, store, maker):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    versions = ["2.12.1+cpu", "2.12.0+cpu"] * 2
    children = [
        context.Process(target=_use, args=(tmp_path, version, 0.5, answers)) for version in versions
    ]
    for child in children:
        child.start()
    given = {answers.get(timeout=60) for _ in children}
    for child in children:
        child.join()
    assert given == {
        (version, str(store.folder(build_of(version)) / "bin" / "python")) for version in versions
    }
    assert sorted(maker.installs) == ["2.12.0+cpu", "2.12.1+cpu"]


def test_who_waits_is_told_why(store, maker, tmp_path, monkeypatch):
    monkeypatch.setattr("repro.locks.PATIENCE", 0.1)
    started = threading.Event()
    maker.pause = 1.0
    other = threading.Thread(target=lambda: (started.set(), made(store, build_of())))
    other.start()
    started.wait()
    while not maker.installs:
        time.sleep(0.01)
    said: list[str] = []
    made(store, build_of(), said)
    other.join()
    assert said == ["waiting for another repro that installs torch 2.12.1+cpu"]


# --- killed -------------------------------------------------------------------------------------

KILLED = """\
import sys
from pathlib import Path
from tests.test_store import Maker, build_of, made, open_store
maker = Maker(Path(sys.argv[1]))
maker.child = sys.argv[2:]
made(open_store(Path(sys.argv[1]), maker), build_of())
"""


def _killed_while_installing(folder: Path, seconds: float) -> psutil.Process:
    """Kill a process in the middle of an install; its own child, which goes on."""
    command = [sys.executable, "-c", KILLED, folder, sys.executable, "-c"]
    sleeper = f"import time; print('up', flush=True); time.sleep({seconds})"
    process = subprocess.Popen(
        [*map(str, command), sleeper],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    [child] = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGKILL)
    process.wait()
    return child


def _end(child: psutil.Process) -> None:
    child.kill()
    child.wait()  # until then it holds the lock


def test_a_killed_install_is_never_taken_for_an_environment_and_is_repaired(tmp_path, store, maker):
    _end(_killed_while_installing(tmp_path, 600))
    [left] = folders(store)
    assert left.startswith(f".{store.folder(build_of()).name}.")
    assert store.environments.all() == []
    made(store, build_of())
    assert folders(store) == [store.folder(build_of()).name]


def test_any_next_run_clears_what_a_killed_install_left(tmp_path, store):
    _end(_killed_while_installing(tmp_path, 600))
    other = build_of("2.6.0+cpu")
    made(store, other)
    assert folders(store) == [store.folder(other).name]


def test_a_run_that_installs_nothing_clears_it_too(tmp_path, store):
    made(store, build_of("2.6.0+cpu"))
    _end(_killed_while_installing(tmp_path, 600))
    made(store, build_of("2.6.0+cpu"))
    assert folders(store) == [store.folder(build_of("2.6.0+cpu")).name]


def test_an_installer_that_outlives_its_killed_parent_is_left_in_peace(tmp_path, store, maker):
    child = _killed_while_installing(tmp_path, 2)
    [left] = folders(store)
    made(store, build_of("2.6.0+cpu"))  # sweeps
    assert left in folders(store)
    assert alive(child.pid)
    made(store, build_of())  # waits for its end
    assert not alive(child.pid)
    assert folders(store) == sorted(
        [store.folder(build_of()).name, store.folder(build_of("2.6.0+cpu")).name]
    )


# --- size ---------------------------------------------------------------------------------------


def test_the_least_recently_used_is_removed_above_the_limit(tmp_path, maker):
    store = open_store(tmp_path, maker, max_size=None)
    versions = ["2.6.0+cpu", "2.7.0+cpu", "2.8.0+cpu"]
    for age, version in enumerate(versions):
        made(store, build_of(version))
        os.utime(store.environments.lock(store.folder(build_of(version)).name), (age, age))
    each = store.environments.size() / len(versions)
    bounded = open_store(tmp_path, maker, max_size=int(each * 2.5))
    said: list[str] = []
    made(bounded, build_of("2.9.0+cpu"), said)
    there = {stored.name for stored in store.environments.all()}
    assert there == {store.folder(build_of(v)).name for v in ("2.8.0+cpu", "2.9.0+cpu")}
    assert [line for line in said if line.startswith("removed torch-2.6.0+cpu")]


def test_what_is_in_use_is_not_removed_however_old_it_is(tmp_path, maker):
    store = open_store(tmp_path, maker, max_size=0)
    with store.use(build_of("2.6.0+cpu")) as environment:
        made(store, build_of("2.7.0+cpu"))
        made(store, build_of("2.8.0+cpu"))
        assert environment.python.exists()
    there = {stored.name for stored in store.environments.all()}
    assert there == {store.folder(build_of(v)).name for v in ("2.6.0+cpu", "2.8.0+cpu")}


def test_bytecode_that_no_environment_has_goes_before_any_environment(tmp_path, maker):
    store = open_store(tmp_path, maker)
    made(store, build_of("2.6.0+cpu"))
    kept = store.environments.bytecode(find_interpreter(None).name, "").folder
    assert len(list(kept.glob("*.pyc"))) == 3
    shutil.rmtree(store.folder(build_of("2.6.0+cpu")))
    maker.files = {"torch/version.py": "__version__ = '2.7.0+cpu'\n"}
    made(store, build_of("2.7.0+cpu"))
    assert len(list(kept.glob("*.pyc"))) == 4
    everything = store.environments.size()
    assert list(store.environments.evict(everything)) == []
    assert len(list(kept.glob("*.pyc"))) == 4
    assert list(store.environments.evict(everything - 1)) == []
    assert len(list(kept.glob("*.pyc"))) == 3
    assert folders(store) == [store.folder(build_of("2.7.0+cpu")).name]


def test_pruning_removes_what_is_of_no_use(store, tmp_path):
    made(store, build_of("2.6.0+cpu"))
    made(store, build_of("2.7.0+cpu"))
    _end(_killed_while_installing(tmp_path, 600))
    no_record(store.folder(build_of("2.6.0+cpu")))
    removed = store.environments.prune(None)
    assert [one.name for one in removed] == [store.folder(build_of("2.6.0+cpu")).name]
    assert folders(store) == [store.folder(build_of("2.7.0+cpu")).name]
    kept = store.environments.bytecode(find_interpreter(None).name, "").folder
    assert len(list(kept.iterdir())) == 3


def test_the_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("REPRO_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder().name == "torch-compile-repro"


def test_an_environment_in_use_cannot_be_removed(store):
    name = store.folder(build_of()).name
    with store.use(build_of()):
        [stored] = store.environments.all()
        assert stored.in_use
        with pytest.raises(ReproError, match="another repro is using it"):
            store.environments.remove(name)
    store.environments.remove(name)
    assert folders(store) == []


def test_an_environment_that_was_moved_and_linked_is_removed_by_its_link(store, tmp_path):
    made(store, build_of())
    folder = store.folder(build_of())
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert made(store, build_of()).python == folder / "bin" / "python"
    store.environments.remove(folder.name)
    assert folders(store) == []
    assert elsewhere.exists()
    folder.symlink_to(tmp_path / "gone")
    assert made(store, build_of()).python.exists()
    assert not folder.is_symlink()


def test_a_store_that_may_only_be_read_gives_what_it_has(store):
    made(store, build_of())
    root = store.environments.root
    paths = [root, *root.rglob("*")]
    modes = {path: path.lstat().st_mode for path in paths if not path.is_symlink()}
    for path in modes:
        path.chmod(0o555 if path.is_dir() else 0o444)
    python = store.folder(build_of()) / "bin"
    try:
        assert made(store, build_of()).python == python / "python"
        assert len(store.environments.all()) == 1
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def test_a_cache_folder_is_what_it_is_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPRO_CACHE_DIR", "cache")
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REPRO_CACHE_DIR", "~/cache")
    assert cache_folder() == tmp_path / "cache"
