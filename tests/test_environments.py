"""The environments on disk: what is there, what is in use, and what may go.

They are made by hand, as the store would leave them: a folder with a record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from repro.environments import RECORD, SCHEMA, Environments, cache_folder, record_of
from repro.errors import ReproError
from repro.inventory import Removed
from repro.locks import exclusive, shared
from tests.test_locks import held_elsewhere

COMMIT = "2236df1770800ffea5697b11b0bb0d910b2e59e1"
RECORDED = {
    "schema": SCHEMA,
    "version": "2.12.1+cpu",
    "git_version": COMMIT,
    "variant": "cpu",
    "triton": "triton 3.6.0",
    "python": "3.12.1",
}
SIZE = 200_000
# Who uses one shares its lock; who makes one has the lock for that, and at the end both.
HELD = [("lock", "shared"), ("lock", "exclusive"), ("making", "exclusive")]


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    return Environments(tmp_path / "cache")


def write(path: Path, size: int = SIZE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def put(environments: Environments, name: str, used: int = 1000, **record: object) -> Path:
    """An environment that was last used at a time."""
    folder = environments.folder / name
    write(folder / "lib" / "data")
    (folder / RECORD).write_text(json.dumps(RECORDED | record))
    lock = environments.lock(name)
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (used, used))
    return folder


PYTHON = "py3.12-0123abcd"


def keep(environments: Environments, module: str, *users: str) -> Path:
    """Bytecode that is kept, and that environments have."""
    compiled = environments.bytecode(PYTHON, "").folder / f"{module}.pyc"
    if not compiled.exists():
        write(compiled)
    for user in users:
        os.link(compiled, environments.folder / user / "lib" / compiled.name)
    return compiled


def there(environments: Environments) -> list[str]:
    """Everything in the folder of environments, leftovers too."""
    return sorted(path.name for path in environments.folder.iterdir())


def kept(environments: Environments) -> list[str]:
    return sorted(
        path.stem for path in (environments.root / "bytecode").rglob("*") if path.is_file()
    )


# --- looked at ----------------------------------------------------------------------------------


def test_nothing_is_made_by_looking(environments):
    assert environments.all() == []
    assert environments.size() == 0
    environments.sweep()
    assert environments.prune(0) == []
    assert list(environments.evict(0)) == []
    assert not environments.root.exists()


def test_what_is_there_is_told(environments):
    put(environments, "a", used=1_700_000_000)
    [stored] = environments.all()
    assert (stored.name, stored.version, stored.git_version) == ("a", "2.12.1+cpu", COMMIT)
    assert (stored.variant, stored.triton, stored.python) == ("cpu", "triton 3.6.0", "3.12.1")
    assert stored.used == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert stored.in_use is False
    assert SIZE <= stored.size == stored.frees < 2 * SIZE


def test_the_last_used_comes_first(environments):
    for name, used in (("b", 3000), ("a", 1000), ("c", 2000)):
        put(environments, name, used)
    assert [stored.name for stored in environments.all()] == ["b", "c", "a"]
    os.utime(environments.lock("a"), (4000, 4000))
    assert [stored.name for stored in environments.all()] == ["a", "b", "c"]


def test_looking_is_no_use(environments):
    put(environments, "a", used=1000)
    environments.all()
    environments.size()
    assert environments.all()[0].used.timestamp() == 1000


def test_what_was_never_locked_was_used_longest_ago(environments):
    put(environments, "a", used=1000)
    put(environments, "b", used=1000)
    environments.lock("b").unlink()
    assert [stored.name for stored in environments.all()] == ["a", "b"]


@pytest.mark.parametrize(("lock", "kind"), HELD)
def test_what_another_process_holds_is_in_use(lock, kind, environments):
    put(environments, "a")
    put(environments, "b")
    with held_elsewhere(kind, getattr(environments, lock)("a")):
        assert {stored.name: stored.in_use for stored in environments.all()} == {
            "a": True, "b": False,
        }  # fmt: skip
    assert [stored.in_use for stored in environments.all()] == [False, False]


def test_what_others_link_is_not_freed_and_counts_once(environments, tmp_path):
    first = put(environments, "a")
    second = put(environments, "b")
    os.unlink(second / "lib" / "data")
    os.link(first / "lib" / "data", second / "lib" / "data")
    os.link(write(first / "lib" / "more"), tmp_path / "uv")
    by_name = {stored.name: stored for stored in environments.all()}
    assert by_name["a"].size > 2 * SIZE
    assert by_name["a"].frees < SIZE
    assert by_name["b"].frees < SIZE < by_name["b"].size
    assert 2 * SIZE < environments.size() < 3 * SIZE


def test_one_that_is_made_anew_is_looked_at_anew(environments):
    put(environments, "a")
    before = environments.size()
    environments.remove("a")
    write(put(environments, "a") / "lib" / "more", 2 * SIZE)
    assert 2 * SIZE <= environments.size() - before < 3 * SIZE


def test_kept_bytecode_belongs_to_who_has_it_and_to_the_size(environments):
    put(environments, "a")
    put(environments, "b")
    keep(environments, "only a", "a")
    keep(environments, "both", "a", "b")
    keep(environments, "none")
    by_name = {stored.name: stored for stored in environments.all()}
    assert 3 * SIZE < by_name["a"].size < 4 * SIZE
    assert 2 * SIZE < by_name["a"].frees < 3 * SIZE  # what only it has goes with it
    assert SIZE < by_name["b"].frees < 2 * SIZE < by_name["b"].size
    assert 5 * SIZE < environments.size() < 6 * SIZE


def test_leftovers_and_files_are_no_environments(environments):
    put(environments, "a")
    write(environments.folder / ".b.12345678" / "half")
    write(environments.folder / "file")
    assert [stored.name for stored in environments.all()] == ["a"]


DAMAGED = {
    "none": None,
    "empty": "",
    "cut": json.dumps(RECORDED)[:30],
    "list": "[]",
    "number": "5",
    "other schema": json.dumps(RECORDED | {"schema": SCHEMA + 1}),
    "no schema": json.dumps({"version": "2.12.1"}),
    "no version": json.dumps(RECORDED | {"version": None}),
    "no commit": json.dumps({"schema": SCHEMA, "version": "2.12.1"}),
}


def spoil(folder: Path, how: str) -> None:
    text = DAMAGED[how]
    if text is None:
        (folder / RECORD).unlink()
    else:
        (folder / RECORD).write_text(text)


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_one_is_told_without_what_is_not_known(how, environments):
    folder = put(environments, "a")
    spoil(folder, how)
    assert record_of(folder) is None
    [stored] = environments.all()
    assert (stored.name, stored.version, stored.git_version) == ("a", None, None)
    assert stored.size >= SIZE


def test_a_record_that_is_no_text(environments):
    folder = put(environments, "a")
    (folder / RECORD).write_bytes(b"\xff\xfe\x00")
    assert record_of(folder) is None


def test_a_build_without_a_commit_is_whole(environments):
    put(environments, "a", git_version=None)
    [stored] = environments.all()
    assert (stored.version, stored.git_version) == ("2.12.1+cpu", None)


def test_the_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("REPRO_CACHE_DIR")
        else:
            monkeypatch.setenv("REPRO_CACHE_DIR", unset)
        assert cache_folder().name == "torch-compile-repro"


# --- removed ------------------------------------------------------------------------------------


def test_one_is_removed_with_the_bytecode_that_only_it_has(environments):
    put(environments, "a")
    put(environments, "b")
    keep(environments, "only a", "a")
    keep(environments, "both", "a", "b")
    frees = {stored.name: stored.frees for stored in environments.all()}
    before = environments.size()
    assert environments.remove("a") == Removed("a", frees["a"])
    assert environments.size() == before - frees["a"]
    assert there(environments) == ["b"]
    assert kept(environments) == ["both"]
    assert (environments.folder / "b" / "lib" / "both.pyc").stat().st_size == SIZE
    assert environments.lock("a").exists()  # who waits for it holds the same file
    environments.remove("b")
    assert not (environments.root / "bytecode").exists()


def test_what_is_removed_frees_what_was_said(environments, tmp_path):
    folder = put(environments, "a")
    os.link(folder / "lib" / "data", tmp_path / "uv")
    assert environments.remove("a").frees < SIZE
    assert (tmp_path / "uv").stat().st_size == SIZE


def test_a_damaged_one_can_be_removed(environments):
    spoil(put(environments, "a"), "empty")
    environments.remove("a")
    assert there(environments) == []


@pytest.mark.parametrize(
    "name", ["none", "", ".", "..", "../environments/a", "a/lib", ".b.12345678"]
)
def test_what_is_no_environment_cannot_be_removed(name, environments):
    put(environments, "a")
    write(environments.folder / ".b.12345678" / "half")
    before = there(environments)
    with pytest.raises(ReproError, match="no such environment") as caught:
        environments.remove(name)
    assert "repro env list" in caught.value.hint
    assert there(environments) == before


@pytest.mark.parametrize(("lock", "kind"), HELD)
def test_what_is_in_use_cannot_be_removed(lock, kind, environments):
    folder = put(environments, "a")
    keep(environments, "x", "a")
    with held_elsewhere(kind, getattr(environments, lock)("a")):
        with pytest.raises(ReproError, match=r"^a: another repro is using it$") as caught:
            environments.remove("a")
        assert caught.value.hint
        assert (folder / "lib" / "data").exists()
        assert kept(environments) == ["x"]
    environments.remove("a")
    assert not folder.exists()


def test_it_is_gone_for_everybody_before_it_is_deleted(environments, monkeypatch):
    folder = put(environments, "a")
    seen: list[tuple[bool, str]] = []
    monkeypatch.setattr(
        "repro.environments.shutil.rmtree",
        lambda path, **_: seen.append((folder.exists(), Path(path).name)),
    )
    environments.discard(folder)
    [(exists, name)] = seen
    assert not exists
    assert name.startswith(".a.")


# --- leftovers ----------------------------------------------------------------------------------


def test_what_dead_processes_left_is_swept_and_what_living_ones_make_is_not(environments):
    put(environments, "whole")
    for name in ("dead", "living", "whole"):
        write(environments.aside(name) / "half")
        write(environments.aside(name) / "half")
    with held_elsewhere("exclusive", environments.making("living")):
        environments.sweep()
        left = there(environments)
        assert [name.rpartition(".")[0] for name in left] == [".living", ".living", ""]
        assert "whole" in left
    environments.sweep()
    assert there(environments) == ["whole"]


def test_what_a_killed_process_left_is_swept(environments):
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from repro.environments import Environments\n"
        "from repro.locks import exclusive\n"
        "made = Environments(Path(sys.argv[1]))\n"
        "with exclusive(made.making('a')):\n"
        "    made.aside('a').mkdir(parents=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, environments.root], check=False)
    assert len(there(environments)) == 1
    environments.sweep()
    assert there(environments) == []


def test_what_is_being_made_here_is_left_to_who_makes_it(environments):
    for name in ("mine", "other"):
        write(environments.aside(name) / "half")
    with exclusive(environments.making("mine")):
        environments.sweep()
        [left] = there(environments)
        assert left.startswith(".mine.")
        environments.clear("mine")
        assert there(environments) == []


def test_who_uses_an_environment_is_no_reason_to_keep_what_a_dead_process_left_beside_it(
    environments,
):
    put(environments, "a")
    write(environments.aside("a") / "half")
    with held_elsewhere("shared", environments.lock("a")):
        environments.sweep()
    assert there(environments) == ["a"]


def test_only_leftovers_of_that_environment_are_cleared(environments):
    names = ["torch-2.1", "torch-2.1.5", "torch-2.1[a]"]
    for name in names:
        put(environments, name)
        write(environments.aside(name) / "half")
    environments.clear("torch-2.1")
    left = [name for name in there(environments) if name.startswith(".")]
    assert sorted(name.rpartition(".")[0] for name in left) == [".torch-2.1.5", ".torch-2.1[a]"]
    assert set(names) <= set(there(environments))
    environments.clear("torch-2.1[a]")
    assert len([name for name in there(environments) if name.startswith(".")]) == 1


def test_files_that_a_desktop_leaves_are_no_leftovers(environments):
    put(environments, "a")
    write(environments.folder / "._.DS_Store", 1)
    write(environments.root / "bytecode" / ".DS_Store", 1)
    environments.sweep()
    environments.prune(0)
    assert there(environments) == ["._.DS_Store"]


# --- pruned -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_ones_are_pruned(how, environments):
    spoil(put(environments, "broken"), how)
    put(environments, "fine")
    [removed] = environments.prune(None)
    assert removed.name == "broken"
    assert SIZE <= removed.frees < 2 * SIZE
    assert there(environments) == ["fine"]


def test_a_damaged_one_that_is_in_use_stays(environments):
    spoil(put(environments, "broken"), "empty")
    with held_elsewhere("exclusive", environments.making("broken")):
        assert environments.prune(0) == []
        assert there(environments) == ["broken"]
    assert [removed.name for removed in environments.prune(0)] == ["broken"]


def test_leftovers_are_pruned(environments):
    put(environments, "a")
    write(environments.aside("b") / "half")
    assert environments.prune(None) == []
    assert there(environments) == ["a"]


def test_bytecode_that_no_environment_has_is_pruned(environments):
    put(environments, "a")
    spoil(put(environments, "broken"), "empty")
    keep(environments, "x", "a")
    keep(environments, "y", "a", "broken")
    keep(environments, "z", "broken")
    keep(environments, "gone")
    assert [removed.name for removed in environments.prune(None)] == ["broken"]
    assert kept(environments) == ["x", "y"]


def test_bytecode_of_an_environment_that_is_being_made_stays(environments):
    unfinished = environments.aside("making")
    os.link(keep(environments, "x"), write(unfinished / "half").with_name("x.pyc"))
    with held_elsewhere("exclusive", environments.making("making")):
        environments.prune(None)
        assert kept(environments) == ["x"]
    environments.prune(None)
    assert kept(environments) == []


def test_bytecode_is_pruned_where_there_are_no_environments_at_all(environments):
    keep(environments, "gone")
    assert environments.prune(None) == []
    assert kept(environments) == []


def test_what_is_whole_stays_without_a_limit(environments):
    for name in ("a", "b"):
        put(environments, name)
    assert environments.prune(None) == []
    assert there(environments) == ["a", "b"]


# --- limited ------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first(environments):
    for name, used in (("b", 3000), ("a", 1000), ("c", 2000), ("d", 4000)):
        put(environments, name, used)
    assert [removed.name for removed in environments.prune(int(2.9 * SIZE))] == ["a", "c"]
    assert there(environments) == ["b", "d"]


def test_no_more_go_than_must(environments):
    for number in range(4):
        put(environments, str(number), used=1000 + number)
    assert environments.prune(environments.size()) == []
    assert [removed.name for removed in environments.prune(environments.size() - 1)] == ["0"]
    assert there(environments) == ["1", "2", "3"]


def test_a_limit_of_nothing_takes_all_that_nobody_uses(environments):
    for number in range(3):
        put(environments, str(number), used=1000 + number)
    with held_elsewhere("shared", environments.lock("0")):
        assert [removed.name for removed in environments.prune(0)] == ["1", "2"]
        assert there(environments) == ["0"]
        with shared(environments.lock("0")):
            assert environments.prune(0) == []
    assert [removed.name for removed in environments.prune(0)] == ["0"]


def test_the_one_that_was_just_made_stays(environments):
    for name in ("a", "b", "c"):
        put(environments, name)
    assert [removed.name for removed in environments.evict(0, but="b")] == ["a", "c"]
    assert there(environments) == ["b"]


def test_eviction_keeps_bytecode_for_the_next_time_where_there_is_room(environments):
    for number, name in enumerate(("a", "b")):
        put(environments, name, used=1000 + number)
        keep(environments, f"of {name}", name)
    assert [removed.name for removed in environments.evict(int(3.5 * SIZE))] == ["a"]
    assert there(environments) == ["b"]
    assert kept(environments) == ["of a", "of b"]


def test_bytecode_that_no_environment_has_goes_before_any_environment(environments):
    put(environments, "a")
    keep(environments, "x", "a")
    keep(environments, "y")
    keep(environments, "z")
    assert list(environments.evict(int(2.5 * SIZE))) == []
    assert kept(environments) == ["x"]
    assert [removed.name for removed in environments.evict(0)] == ["a"]
    assert (kept(environments), there(environments)) == ([], [])


def test_bytecode_that_comes_while_others_are_removed_is_no_error(environments, monkeypatch):
    put(environments, "a")
    look = environments._contents

    def then_one_more():
        found = look()
        keep(environments, "late")
        return found

    monkeypatch.setattr(environments, "_contents", then_one_more)
    assert [removed.name for removed in environments.evict(0)] == ["a"]


def test_bytecode_that_somebody_removes_at_the_same_time_is_no_error(environments, monkeypatch):
    put(environments, "a")
    first, second = keep(environments, "x"), keep(environments, "y")
    look = os.lstat

    def gone_first(path):
        first.unlink(missing_ok=True)
        return look(path)

    monkeypatch.setattr("repro.environments.os.lstat", gone_first)
    assert environments.prune(None) == []
    assert not second.exists()
    assert there(environments) == ["a"]


def test_shared_files_count_once_against_the_limit(environments):
    first = put(environments, "a", used=1000)
    for number, name in enumerate(("b", "c")):
        second = put(environments, name, used=2000 + number)
        os.unlink(second / "lib" / "data")
        os.link(first / "lib" / "data", second / "lib" / "data")
    assert environments.prune(2 * SIZE) == []
    # Only the last to go takes the file with it.
    frees = [removed.frees for removed in environments.prune(0)]
    assert [freed > SIZE for freed in frees] == [False, False, True]
