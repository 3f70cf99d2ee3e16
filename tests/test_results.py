"""Outcomes on disk: what is kept comes back as it was, and what is damaged is not there."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repro.builds import Spec, SpecKind
from repro.case import Case
from repro.outcome import (
    BuildInfo,
    Evidence,
    Frame,
    How,
    Kind,
    Outcome,
    Run,
    Seconds,
    Side,
)
from repro.results import Key, Results, worth_keeping
from repro.runner import Request
from tests.builders import case, failure, run, untestable
from tests.conftest import ROOT

SPEC = Spec("2.13.0.dev20260528+cpu", SpecKind.RELEASE, "2.13.0.dev20260528+cpu")
FAILED = run(
    failure(
        ladder=(("eager", "pass"), ("aot_eager", "fail")),
        notes=("a note",),
        phases=("compile_fx_inner",),
        side=Side.BACKWARD,
        rank=1,
    ),
    log="a log of several words\nand lines, é\u2028\0",
)


def key(
    made: Case | None = None,
    *,
    environment: str = "torch-2.13.0.dev20260528+cpu-py3.11-0123456789ab",
    gpus: tuple[str, ...] = (),
    **request: Any,
) -> Key:
    return Key(Request(made or case(), SPEC, **request), environment, gpus)


def file_of(folder: Path, one: Key) -> Path:
    """The only file that is there for a key."""
    [found] = [path for path in folder.rglob("*") if path.is_file() and one.digest in path.name]
    return found


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# --- what is kept comes back --------------------------------------------------------------------

# Any character, lone halves of surrogate pairs too.
TEXT = st.text(st.characters(), max_size=12)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
SECONDS = st.none() | st.floats(min_value=0, allow_nan=False)
FRAMES = st.builds(Frame, TEXT, st.none() | st.integers(0, 10**6), TEXT)
VERSIONS = TEXT | st.dates().map(lambda day: f"2.13.0.dev{day:%Y%m%d}+cu130")
OUTCOMES = st.builds(
    Outcome,
    kind=st.sampled_from(Kind),
    stage=st.none() | TEXT,
    pass_name=st.none() | TEXT,
    side=st.none() | st.sampled_from(Side),
    how=st.none() | st.sampled_from(How),
    exceptions=TEXTS,
    message=st.none() | TEXT,
    function=st.none() | TEXT,
    signature=st.none() | TEXT,
    evidence=st.sampled_from(Evidence),
    reason=st.none() | TEXT,
    hint=st.none() | TEXT,
    phases=TEXTS,
    frames=st.lists(FRAMES, max_size=3).map(tuple),
    ladder=st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    signal=st.none() | TEXT,
    rank=st.none() | st.integers(0, 9),
    notes=TEXTS,
)
ANY_RUN = st.builds(
    Run,
    case=TEXT,
    build=st.builds(BuildInfo, VERSIONS, *[st.none() | VERSIONS] * 4),
    device=st.none() | TEXT,
    backend=TEXT,
    repeat=st.integers(1, 2000),
    outcome=OUTCOMES,
    seconds=st.builds(Seconds, *[SECONDS] * 5),
    log=TEXT,
)


@settings(deadline=None)
@given(ANY_RUN)
@example(FAILED)
@example(run(version=None))
@example(run(untestable()))
def test_what_is_kept_comes_back_equal(made: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = Results(Path(folder))
        results.keep(key(), made)
        found = results.find(key())
        again = Results(Path(folder)).find(key())
    assert found == again == (made if worth_keeping(made) else None)


@pytest.mark.parametrize(
    "made",
    [
        run(),
        run(Outcome(Kind.PASS, notes=("a graph break",)), version="2.13.0.dev20260528"),
        FAILED,
        run(failure(exceptions=(), frames=(), how=How.SIGNAL, signal="SIGSEGV")),
        run(failure(frames=(Frame("<case>/x.py", None, "f"),)), device=None, repeat=1001),
        run(Outcome(Kind.UNSUPPORTED, "unsupported_case", reason="needs 2.14")),
        run(seconds=Seconds(), log=""),
        run(seconds=Seconds(1, 2, 3, 4, 5)),
    ],
)
def test_every_field_comes_back_with_its_type(made: Run, tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(key(), made)
    found = results.find(key())
    assert found is not None
    assert found == made
    assert isinstance(found.outcome.kind, Kind)
    assert isinstance(found.outcome.frames, tuple)
    assert all(isinstance(frame, Frame) for frame in found.outcome.frames)
    assert isinstance(found.outcome.ladder, tuple)
    hash(found)


def test_nothing_is_found_where_nothing_was_kept(tmp_path: Path) -> None:
    assert Results(tmp_path / "nowhere").find(key()) is None
    assert not (tmp_path / "nowhere").exists()


def test_a_later_run_of_the_same_key_takes_the_place_of_the_first(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(key(), run())
    results.keep(key(), FAILED)
    assert results.find(key()) == FAILED
    assert len(left(tmp_path)) == 1


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (run(), True),
        (run(failure()), True),
        (run(failure("runtime", how=How.KILLED)), True),
        (run(failure("runtime", how=How.WRONG_RESULT)), True),
        (run(Outcome(Kind.UNSUPPORTED, "unsupported_case")), True),
        (run(untestable()), False),
        (run(untestable(how=How.KILLED)), False),
        (run(failure("runtime", how=How.TIMEOUT)), False),
        (run(untestable(how=How.TIMEOUT)), False),
    ],
)
def test_what_says_nothing_about_the_build_is_not_kept(
    made: Run, kept: bool, tmp_path: Path
) -> None:
    results = Results(tmp_path)
    results.keep(key(), made)
    assert worth_keeping(made) is kept
    assert results.find(key()) == (made if kept else None)
    assert bool(left(tmp_path)) is kept


def test_a_time_out_does_not_take_the_place_of_what_was_kept(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(key(), FAILED)
    results.keep(key(), run(failure("runtime", how=How.TIMEOUT)))
    assert results.find(key()) == FAILED


# --- the key ------------------------------------------------------------------------------------

DIFFERENT = {
    "nothing": key(),
    "source": key(case(source="print(2)\n")),
    "name": key(case("y")),
    "the case's backend": key(case(compile={"backend": "eager"})),
    "the case's timeout": key(case(timeout=299.0)),
    "device": key(device="cuda"),
    "another device": key(device="cpu"),
    "backend": key(backend="aot_eager"),
    "timeout": key(timeout=10.0),
    "a little more time": key(timeout=10.001),
    "second run": key(repeat=2),
    "repeat": key(repeat=1001),
    "environment": key(environment="torch-2.13.0.dev20260529+cpu-py3.11-0123456789ab"),
    "Python": key(environment="torch-2.13.0.dev20260528+cpu-py3.12-0123456789ab"),
    "a GPU": key(gpus=("NVIDIA H200",)),
    "another GPU": key(gpus=("NVIDIA A100",)),
    "two GPUs": key(gpus=("NVIDIA H200", "NVIDIA H200")),
    "GPUs in another order": key(gpus=("NVIDIA H200", "NVIDIA A100")),
    "GPUs in this order": key(gpus=("NVIDIA A100", "NVIDIA H200")),
    "one GPU of both names": key(gpus=("NVIDIA A100, NVIDIA H200",)),
}


@pytest.mark.parametrize(("one", "other"), list(combinations(DIFFERENT, 2)))
def test_every_part_of_the_key_makes_another_name(one: str, other: str) -> None:
    assert DIFFERENT[one].digest != DIFFERENT[other].digest


def test_a_text_that_moves_from_one_part_to_the_next_makes_another_name() -> None:
    one, other = case("ab", "c"), case("a", "bc")
    assert key(one).digest != key(other).digest
    assert key(device="cpu", backend="x").digest != key(device="x", backend="cpu").digest


def test_where_a_case_lies_and_how_the_build_was_asked_for_make_no_other_name() -> None:
    moved = replace(case(), path=Path("/elsewhere/x.py"), title="another title")
    assert key(moved).digest == key().digest
    words = Spec("nightly", SpecKind.NIGHTLY, "nightly")
    assert Key(Request(case(), words), key().environment, ()).digest == key().digest


def test_what_is_asked_for_and_what_the_case_says_anyway_are_one() -> None:
    assert key(backend="inductor", timeout=case().timeout).digest == key().digest


def test_a_source_of_any_characters_has_a_name() -> None:
    digests = {key(case(source=text)).digest for text in ("", "é", "\ud800", "\0", "\u2028")}
    assert len(digests) == 5
    assert all(set(digest) <= set("0123456789abcdef") for digest in digests)


@pytest.mark.parametrize(
    ("changed", "other"),
    [
        ("judge.py", True),
        ("guest.py", True),
        ("classify/phases.py", True),
        ("report/words.py", False),
        ("commands/bisect.py", False),
    ],
)
def test_the_code_that_runs_and_judges_is_part_of_the_key(
    changed: str, other: bool, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "repro", tmp_path / "repro", ignore=shutil.ignore_patterns("cases"))
    before = digest_of_code_in(tmp_path)
    with (tmp_path / "repro" / changed).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert (digest_of_code_in(tmp_path) != before) is other


def digest_of_code_in(folder: Path) -> str:
    code = "import repro.results as results; print(results.__file__, results._own_code())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    file, digest = done.stdout.split()
    assert Path(file).is_relative_to(folder)
    return digest


def test_what_is_kept_under_one_key_is_not_found_under_another(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for name, each in DIFFERENT.items():
        results.keep(each, run(name=name))
    found = [results.find(each) for each in DIFFERENT.values()]
    assert [one.case if one else None for one in found] == list(DIFFERENT)


# --- fresh --------------------------------------------------------------------------------------


def test_fresh_finds_only_what_it_kept_itself(tmp_path: Path) -> None:
    before, mine = key(), key(repeat=2)
    Results(tmp_path).keep(before, FAILED)
    results = Results(tmp_path, fresh=True)
    assert results.find(before) is None
    results.keep(mine, run())
    assert results.find(mine) == run()
    assert results.find(before) is None
    results.keep(before, run())
    assert results.find(before) == run()


def test_fresh_does_not_find_what_it_made_and_did_not_keep(tmp_path: Path) -> None:
    Results(tmp_path).keep(key(), FAILED)
    results = Results(tmp_path, fresh=True)
    results.keep(key(), run(untestable()))
    assert results.find(key()) is None
    assert Results(tmp_path).find(key()) == FAILED


def test_what_fresh_keeps_is_found_by_whoever_comes_next(tmp_path: Path) -> None:
    Results(tmp_path).keep(key(), FAILED)
    Results(tmp_path, fresh=True).keep(key(), run())
    assert Results(tmp_path).find(key()) == run()
    assert Results(tmp_path, fresh=True).find(key()) is None


# --- what is damaged ----------------------------------------------------------------------------


def damaged(folder: Path, content: bytes) -> Run | None:
    """What is found where a file holds this, and whether it can be kept anew."""
    results = Results(folder)
    results.keep(key(), FAILED)
    path = file_of(folder, key())
    path.write_bytes(content)
    found = results.find(key())
    results.keep(key(), FAILED)
    assert results.find(key()) == FAILED
    return found


def stored(folder: Path) -> dict[str, Any]:
    Results(folder).keep(key(), FAILED)
    content: dict[str, Any] = json.loads(file_of(folder, key()).read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\0",
        b"\0" * 4096,
        b"\xff\xfe\x00",
        b"\x89PNG\r\n\x1a\n",
        bytes(range(256)),
        b"{",
        b"}",
        b"{}",
        b"[]",
        b"[[], {}]",
        b'"text"',
        b"text",
        b"{'case': 'x'}",
        b"9" * 5000,
    ],
    ids=repr,
)
def test_a_file_that_holds_something_else_is_as_if_it_were_not_there(
    content: bytes, tmp_path: Path
) -> None:
    assert damaged(tmp_path, content) is None


def test_a_file_that_was_cut_anywhere_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(key(), FAILED)
    path = file_of(tmp_path, key())
    whole = path.read_bytes()
    assert len(whole) > 500
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert results.find(key()) is None, cut
    path.write_bytes(whole)
    assert results.find(key()) == FAILED


def test_a_block_of_zeros_anywhere_makes_it_unreadable(tmp_path: Path) -> None:
    """As a machine leaves it that lost power before the blocks were written."""
    results = Results(tmp_path)
    results.keep(key(), FAILED)
    path = file_of(tmp_path, key())
    whole = path.read_bytes()
    for start in range(0, len(whole), 7):
        path.write_bytes(whole[:start] + bytes(min(64, len(whole) - start)) + whole[start + 64 :])
        assert results.find(key()) is None, start


@pytest.mark.parametrize("missing", ["case", "build", "device", "backend", "repeat", "outcome"])
def test_without_one_of_its_parts_it_is_not_there(missing: str, tmp_path: Path) -> None:
    content = stored(tmp_path)
    del content[missing]
    assert damaged(tmp_path, json.dumps(content).encode()) is None


@pytest.mark.parametrize(
    ("part", "missing"), [("build", "spec"), ("outcome", "kind"), ("frame", "line")]
)
def test_without_something_in_one_of_its_parts_it_is_not_there(
    part: str, missing: str, tmp_path: Path
) -> None:
    content = stored(tmp_path)
    del (content["outcome"]["frames"][0] if part == "frame" else content[part])[missing]
    assert damaged(tmp_path, json.dumps(content).encode()) is None


@pytest.mark.parametrize(
    ("field", "word"),
    [("kind", "skipped"), ("kind", "PASS"), ("how", "oom"), ("side", "both"), ("evidence", "")],
)
def test_a_word_that_is_not_known_makes_it_unreadable(
    field: str, word: str, tmp_path: Path
) -> None:
    content = stored(tmp_path)
    content["outcome"][field] = word
    assert damaged(tmp_path, json.dumps(content).encode()) is None


WRONG: list[tuple[str, Any]] = [
    ("build", None), ("build", "2.12.1"), ("build", []), ("build", {}), ("build", 5),
    ("repeat", None), ("repeat", "first"), ("repeat", []), ("repeat", float("inf")),
    ("outcome", None), ("outcome", "pass"), ("outcome", []), ("outcome", {}), ("outcome", 1.5),
    ("seconds", None), ("seconds", True), ("seconds", {"total": "long"}), ("seconds", 5),
    ("outcome.kind", None), ("outcome.kind", ["pass"]), ("outcome.kind", {}), ("outcome.kind", 1),
    ("outcome.how", 5), ("outcome.side", {}), ("outcome.evidence", None),
    ("outcome.exceptions", None), ("outcome.exceptions", 5),
    ("outcome.frames", None), ("outcome.frames", "text"), ("outcome.frames", [None]),
    ("outcome.frames", [{"file": "a", "line": "many", "function": "f"}]),
    ("outcome.ladder", None), ("outcome.ladder", "text"), ("outcome.ladder", [["eager"]]),
    ("outcome.ladder", [["eager", "pass", "twice"]]), ("outcome.ladder", {"eager": "pass"}),
    ("outcome.rank", "first"), ("outcome.rank", []), ("outcome.notes", None),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value"), WRONG, ids=repr)
def test_another_type_in_one_of_its_parts_makes_it_unreadable(
    place: str, value: Any, tmp_path: Path
) -> None:
    content = stored(tmp_path)
    *parts, last = place.split(".")
    inside = content[parts[0]] if parts else content
    assert last in inside
    inside[last] = value
    assert damaged(tmp_path, json.dumps(content).encode()) is None


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_whatever_bytes_are_changed_nothing_is_raised(data: st.DataObject) -> None:
    """Bytes that are changed inside a text give another text: that is not to be seen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = Results(folder)
        results.keep(key(), FAILED)
        path = file_of(folder, key())
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(1, len(content) - 1))
            content[place] = data.draw(st.integers(0, 255))
        path.write_bytes(bytes(content))
        found = results.find(key())
    assert found is None or isinstance(found, Run)


def test_keys_that_are_not_known_are_passed_over(tmp_path: Path) -> None:
    content = stored(tmp_path) | {"later": 1}
    content["outcome"]["later"] = [2]
    assert damaged(tmp_path, json.dumps(content).encode()) == FAILED


# --- folders that cannot be written -------------------------------------------------------------


def test_a_file_where_the_folder_should_be_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    results = Results(tmp_path / "results")
    results.keep(key(), FAILED)
    assert results.find(key()) is None
    assert (tmp_path / "results").read_text() == ""


def test_a_file_where_the_folder_of_a_key_should_be_is_no_error(tmp_path: Path) -> None:
    (tmp_path / key().digest[:2]).write_text("")
    results = Results(tmp_path)
    results.keep(key(), FAILED)
    assert results.find(key()) is None


def test_a_folder_where_the_file_should_be_is_no_error(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(key(), FAILED)
    path = file_of(tmp_path, key())
    path.unlink()
    path.mkdir()
    assert results.find(key()) is None
    results.keep(key(), FAILED)
    assert results.find(key()) is None


def test_a_folder_that_is_a_broken_link_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "results").symlink_to(tmp_path / "gone")
    results = Results(tmp_path / "results")
    results.keep(key(), FAILED)
    assert results.find(key()) in (None, FAILED)


def test_a_name_that_is_too_long_for_the_disk_is_no_error(tmp_path: Path) -> None:
    results = Results(tmp_path / ("x" * 300))
    results.keep(key(), FAILED)
    assert results.find(key()) is None


# --- half files ---------------------------------------------------------------------------------

KEEP = """\
import sys
from pathlib import Path
from repro.results import Results
from tests.test_results import key, big
results = Results(Path(sys.argv[1]))
"""


def big(number: int) -> Run:
    """A run that is written in many blocks."""
    return run(failure(message=f"run {number}"), log=f"{number} " * 200_000)


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    one, other = big(1), big(2)
    Results(tmp_path).keep(key(), one)
    done = threading.Event()

    def write() -> None:
        results = Results(tmp_path)
        for _ in range(15):
            results.keep(key(), other)
            results.keep(key(), one)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    results, seen = Results(tmp_path), 0
    while not done.is_set() or not seen:
        assert results.find(key()) in (one, other)
        seen += 1
    writer.join()
    assert left(tmp_path) == [file_of(tmp_path, key())]


@pytest.mark.parametrize("seed", range(3))
def test_a_process_that_is_killed_while_it_keeps_leaves_no_half_file(
    seed: int, tmp_path: Path
) -> None:
    code = f"{KEEP}\nfor n in range(10**6):\n    results.keep(key(repeat=n % 50), big(n))"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.rglob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.013 * seed)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = list(tmp_path.rglob("*.json"))
    assert len(finished) >= 3
    for path in finished:
        json.loads(path.read_text(encoding="utf-8"))
    results = Results(tmp_path)
    found = [results.find(key(repeat=n)) for n in range(50)]
    assert sum(one is not None for one in found) == len(finished)


def test_a_disk_that_is_full_is_no_error_and_leaves_no_half_file(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: writing fails half way."""
    code = (
        f"{KEEP}\nimport resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "results.keep(key(), big(1))\nassert results.find(key()) is None\nprint('went on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "went on\n", done.stderr
    assert not list(tmp_path.rglob("*.json"))
    assert Results(tmp_path).find(key()) is None
