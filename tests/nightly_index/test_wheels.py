"""The wheels that the index serves: whole, installable by uv, and as scripted."""

from __future__ import annotations

import ast
import shutil
import subprocess
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.builds import parse_spec
from repro.case import read_case
from repro.contents import version_and_commit
from repro.outcome import How, Kind, Outcome
from repro.runner import Request, run_case
from repro.stages import STAGES
from repro.store import Environment
from tests.nightly_index import behaviour as scripted
from tests.nightly_index.before_fix import FX_UTILS, fx_utils_before_fix
from tests.nightly_index.checks import Uv, archive, check_record, fetch
from tests.nightly_index.content import Piece
from tests.nightly_index.faults import Status
from tests.nightly_index.nightlies import Base, base_of_installed, base_of_wheel, nightlies
from tests.nightly_index.server import IndexServer
from tests.nightly_index.shelf import Options, Shelf
from tests.nightly_index.wheels import (
    STAND_IN,
    Wheel,
    commit_of,
    days,
    fake_nightlies,
    fake_torch,
    fake_triton,
    make_wheel,
    nightly_version,
)
from tests.nightly_index.zips import Member, compose, members

MAY = date(2026, 5, 1)
VERSION = "2.13.0.dev20260528+cpu"
SMALL_CASE = Path(__file__).parent / "cases" / "small.py"


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer() as made:
        yield made


@pytest.fixture
def shelf(server: IndexServer) -> Shelf:
    return server.shelf("nightly/cpu")


# --- wheels -------------------------------------------------------------------------------------


def test_a_fake_torch_is_a_whole_wheel_of_a_few_kilobytes():
    wheel = fake_torch(VERSION, requires=["triton==3.7.0; platform_system == 'Linux'"])
    assert wheel.content.size < 20_000
    assert archive(wheel).testzip() is None
    check_record(wheel)
    assert b"Requires-Dist: triton==3.7.0; platform_system" in wheel.metadata


def test_the_bytes_of_a_wheel_do_not_change():
    one, other = (b"".join(fake_torch(VERSION).content.read()) for _ in range(2))
    assert one == other
    failing = fake_torch(VERSION, scripted.fails_in("post_grad_passes"))
    assert one != b"".join(failing.content.read())


def test_version_commit_and_metadata_can_disagree(tmp_path):
    wheel = fake_torch(VERSION, inside="2.12.0+cpu", metadata_version="2.11.0")
    assert str(wheel.version) == VERSION
    assert b"\nVersion: 2.11.0\n" in wheel.metadata
    file = Path(archive(wheel).extract("torch/version.py", tmp_path))
    assert version_and_commit(file.read_text()) == ("2.12.0+cpu", commit_of(VERSION))


def test_the_release_of_a_nightly_can_change_on_a_day():
    cut = date(2026, 5, 3)
    wheels = fake_nightlies(
        days(MAY, date(2026, 5, 4)), release=lambda day: "2.14.0" if day >= cut else "2.13.0"
    )
    assert [str(wheel.version)[:18] for wheel in wheels] == [
        "2.13.0.dev20260501", "2.13.0.dev20260502", "2.14.0.dev20260503", "2.14.0.dev20260504",
    ]  # fmt: skip
    assert nightly_version(MAY, variant="") == "2.13.0.dev20260501"


# --- uv -----------------------------------------------------------------------------------------


@pytest.fixture
def installer(tmp_path: Path) -> Uv:
    return Uv(tmp_path)


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode != 0
    assert words in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(ranges=False),
        Options(metadata_files=True, hashes=True),
        Options(json=False),
    ],
    ids=["plain", "no ranges", "metadata files", "html"],
)
def test_uv_installs_a_nightly(server, installer, options):
    shelf = server.shelf("nightly/cpu", options)
    shelf.add(*fake_nightlies(days(date(2026, 5, 26), date(2026, 5, 29))))
    done = installer.install("--index-url", shelf.url, f"torch=={VERSION}")
    assert done.returncode == 0, done.stderr
    assert version_and_commit(installer.site("torch/version.py").read_text()) == (
        VERSION,
        commit_of(VERSION),
    )
    assert any(r.path.endswith(".metadata") for r in server.requests) is options.metadata_files


def test_the_indexes_of_torch_and_of_the_rest_can_both_have_triton(server, shelf, installer):
    default = server.shelf("simple")
    shelf.add(fake_torch(VERSION, requires=["triton==3.7.0"]), fake_triton("3.7.0", "pytorch"))
    default.add(fake_triton("3.7.0", "default"), fake_triton("9.9.9", "default"))
    done = installer.install("--index", shelf.url, "--default-index", default.url, "--pre", "torch")
    assert done.returncode == 0, done.stderr
    assert "ORIGIN = 'pytorch'" in installer.site("triton/__init__.py").read_text()


def test_uv_sees_each_fault(shelf, installer):
    wheel = fake_torch(VERSION)
    shelf.add(wheel, sha256="0" * 64)
    refused(installer.install("--index-url", shelf.url, f"torch=={VERSION}"), "Hash mismatch")
    shelf.add(wheel, yanked="withdrawn")
    refused(installer.install("--index-url", shelf.url, "--pre", "torch"), "yanked")
    shelf.add(fake_torch(VERSION, metadata_version="2.12.0"))
    refused(installer.install("--index-url", shelf.url, f"torch=={VERSION}"), "2.12.0")
    shelf.add(wheel)
    shelf.fail(wheel, Status(404))
    refused(installer.install("--index-url", shelf.url, f"torch=={VERSION}"), "404")
    shelf.fail("torch", Status(403))
    refused(installer.install("--index-url", shelf.url, f"torch=={VERSION}"), "403")


# --- behaviours ---------------------------------------------------------------------------------


def outcome(wheel: Wheel, folder: Path, timeout: float = 30) -> Outcome:
    """What the small case comes to in a stand-in, which lies where an install would put it."""
    site = next((folder / "env").glob("lib/python*/site-packages"))
    shutil.rmtree(site / "torch", ignore_errors=True)
    archive(wheel).extractall(site)
    request = Request(read_case(SMALL_CASE), parse_spec("current"), timeout=timeout)
    return run_case(request, Environment(folder / "env" / "bin" / "python")).outcome


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Uv(tmp_path_factory.mktemp("stand-in")).folder


@pytest.mark.parametrize("stage", [*scripted.PHASES, "runtime"])
def test_a_stand_in_fails_in_the_named_stage(folder, stage):
    found = outcome(fake_torch(VERSION, scripted.fails_in(stage, "no luck")), folder)
    assert (found.kind, found.stage, found.how) == (Kind.FAIL, stage, How.EXCEPTION)
    assert (found.exceptions, found.message) == (("AssertionError",), "no luck")


@pytest.mark.parametrize(
    ("behaviour", "kind", "stage", "how"),
    [
        (scripted.PASSES, Kind.PASS, None, None),
        (scripted.WRONG_RESULT, Kind.FAIL, "accuracy", How.WRONG_RESULT),
        (scripted.REFUSES, Kind.UNSUPPORTED, "unsupported_case", How.EXCEPTION),
        (scripted.Behaviour(lacks=("tensor",)), Kind.UNSUPPORTED, "unsupported_case", None),
        (scripted.CANNOT_BE_IMPORTED, Kind.UNTESTABLE, "import", How.EXCEPTION),
        (
            scripted.ends_in("inductor_lowering", scripted.Ends.ABORT),
            Kind.FAIL, "inductor_lowering", How.SIGNAL,
        ),
        (
            scripted.ends_in("kernel_compile", scripted.Ends.LEAVE),
            Kind.FAIL, "kernel_compile", How.KILLED,
        ),
        (
            scripted.ends_in("post_grad_passes", scripted.Ends.HANG),
            Kind.FAIL, "post_grad_passes", How.TIMEOUT,
        ),
    ],
)  # fmt: skip
def test_a_stand_in_behaves_as_scripted(folder, behaviour, kind, stage, how):
    hangs = behaviour.ends is scripted.Ends.HANG
    found = outcome(fake_torch(VERSION, behaviour), folder, timeout=1 if hangs else 30)
    assert (found.kind, found.stage, found.how) == (kind, stage, how)


def test_the_scripted_stages_are_stages():
    assert set(scripted.PHASES) < {stage.id for stage in STAGES}


def test_the_stand_in_is_python_3_10():
    for file in STAND_IN.rglob("*.py"):
        ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 10))


# --- wheels made of others ----------------------------------------------------------------------


def test_a_zip_is_put_together_from_the_bytes_of_another(tmp_path):
    path = tmp_path / "a.zip"
    # Written to a pipe, a zip has its sizes behind the data, not in front of it.
    with path.open("wb") as file, zipfile.ZipFile(Unseekable(file), "w") as written:
        written.mkdir("empty")
        written.writestr("plain", "a" * 1000, zipfile.ZIP_DEFLATED)
        written.writestr("ünïcode", "b" * 1000, zipfile.ZIP_STORED)
    assert zipfile.ZipFile(path).getinfo("plain").flag_bits & 0x8
    content = compose(members(path))
    with zipfile.ZipFile(content.open()) as made:
        assert made.testzip() is None
        assert made.namelist() == ["plain", "ünïcode"]
        assert made.read("plain") + made.read("ünïcode") == b"a" * 1000 + b"b" * 1000
    assert sum(isinstance(part, Piece) for part in content.parts) == 2
    assert zipfile.ZipFile(content.write(tmp_path / "b.zip")).testzip() is None


class Unseekable:
    def __init__(self, file) -> None:
        self.write, self.flush = file.write, file.flush


def test_what_would_need_zip64_is_refused(tmp_path):
    huge = Piece(tmp_path / "x", 0, 1 << 32)
    with pytest.raises(ValueError, match="zip64"):
        Member("x", huge, 0, 0, huge.size)
    half = [Member(f"{n}", Piece(tmp_path / "x", 0, 3 << 30), 0, 0, 3 << 30) for n in range(2)]
    with pytest.raises(ValueError, match="zip64"):
        compose(half)


def sources(tmp_path: Path) -> list[Base]:
    """One package as a base of either kind."""
    installed = base_of_installed("click")
    wheel = installed.wheel()
    return [installed, base_of_wheel(wheel.content.write(tmp_path / wheel.filename))]


def test_an_installed_package_becomes_a_wheel_of_another_version(tmp_path, server, installer):
    shelf = server.shelf("simple")
    for base, new in zip(sources(tmp_path), ("90.0.dev20260501", "91.0+cpu"), strict=True):
        wheel = base.renamed(new, {"click/core.py": b"CHANGED = True\n"})
        assert wheel.filename == f"click-{new}-py3-none-any.whl"
        assert archive(wheel).testzip() is None
        check_record(wheel)
        shelf.add(wheel)
        done = installer.install("--index-url", shelf.url, f"click=={new}")
        assert done.returncode == 0, done.stderr
        assert installer.site("click/core.py").read_text() == "CHANGED = True\n"
        assert installer.site(f"click-{new}.dist-info").is_dir()
        with pytest.raises(ValueError, match=r"no click/nothing\.py"):
            base.renamed(new, {"click/nothing.py": b""})


def test_both_kinds_of_base_give_the_same_files(tmp_path):
    one, other = (base.renamed("90.0") for base in sources(tmp_path))
    names = archive(one).namelist()
    assert names == archive(other).namelist()
    assert all(archive(one).read(name) == archive(other).read(name) for name in names)


def test_a_version_file_is_rewritten(tmp_path):
    made = fake_torch("2.13.0+cpu")
    base = base_of_wheel(made.content.write(tmp_path / made.filename))
    [first, *rest] = nightlies(base, days(MAY, date(2026, 5, 3)))
    assert len(rest) == 2
    file = Path(archive(first).extract("torch/version.py", tmp_path))
    assert version_and_commit(file.read_text()) == (
        "2.13.0.dev20260501+cpu",
        commit_of("2.13.0.dev20260501+cpu"),
    )
    check_record(first)
    odd = base.renamed(VERSION, commit="Unknown", inside="2.12.0", metadata_version="2.11.0")
    file = Path(archive(odd).extract("torch/version.py", tmp_path))
    assert version_and_commit(file.read_text()) == ("2.12.0", None)
    assert b"\nVersion: 2.11.0\n" in odd.metadata


# --- the real torch -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch_base() -> Base:
    """The torch of this interpreter."""
    try:
        there = version("torch")
    except PackageNotFoundError:
        pytest.skip("no torch is installed in this interpreter")
    if not there.startswith("2.13.0"):
        pytest.skip(f"torch {there} is installed, and what is replaced here is a file of 2.13.0")
    if there.partition("+")[2] != "cpu":
        pytest.skip(f"torch {there} is too large to be installed in passing")
    return base_of_installed("torch")


def test_a_real_nightly_is_whole_and_costs_no_copy(torch_base):
    old = fx_utils_before_fix(torch_base.read(FX_UTILS).decode()).encode()
    fixed = date(2026, 5, 20)
    made = nightlies(
        torch_base,
        days(date(2026, 5, 19), fixed),
        lambda day: {} if day >= fixed else {FX_UTILS: old},
    )
    before, after = made
    with archive(before) as one, archive(after) as other:
        assert one.testzip() is None
        assert one.read(FX_UTILS) == old
        assert other.read(FX_UTILS) == torch_base.read(FX_UTILS)
    for wheel in made:
        ours = sum(len(part) for part in wheel.content.parts if isinstance(part, bytes))
        assert ours < 4_000_000 < wheel.content.size // 100


def test_uv_installs_a_real_nightly(torch_base, shelf, installer):
    # Without headers and libraries, which make no difference here and take most of the time.
    small = {
        name: member
        for name, member in torch_base.members.items()
        if name.endswith(".py") or name.startswith(torch_base.folder)
    }
    assert len(small) > 2_000
    [wheel] = nightlies(replace(torch_base, members=small), [date(2026, 5, 28)])
    shelf.add(wheel)
    done = installer.install("--no-deps", "--index-url", shelf.url, "--pre", "torch")
    assert done.returncode == 0, done.stderr
    assert version_and_commit(installer.site("torch/version.py").read_text()) == (
        VERSION,
        commit_of(VERSION),
    )
    # pytest keeps folders of past runs, and this one has thousands of files.
    shutil.rmtree(installer.folder)


def test_the_commit_of_a_real_nightly_is_two_ranges_away(torch_base, server, shelf):
    [wheel] = nightlies(torch_base, [date(2026, 5, 28)])
    shelf.add(wheel)
    url = shelf.file_url(wheel)
    end = fetch(url, Range="bytes=-1300000")[2]
    found = zipfile.ZipFile(BytesIO(end)).getinfo("torch/version.py")
    # Offsets are counted from the start of what zipfile was given.
    at = found.header_offset + wheel.content.size - len(end) + 30 + len(found.filename)
    packed = fetch(url, Range=f"bytes={at}-{at + found.compress_size - 1}")[2]
    text = zlib.decompress(packed, -zlib.MAX_WBITS).decode()
    assert f"git_version = '{commit_of(VERSION)}'" in text
    assert server.moved(shelf.path(wheel)) < 2_000_000


def test_the_old_comparison_refuses_opaque_values(torch_base):
    changed = fx_utils_before_fix(torch_base.read(FX_UTILS).decode())
    [function] = [
        node
        for node in ast.parse(changed).body
        if isinstance(node, ast.FunctionDef) and node.name == "is_fake_tensor_same"
    ]
    torch = SimpleNamespace(Tensor=bytearray, types=SimpleNamespace(py_sym_types=(complex,)))
    names = {"torch": torch, "Collection": Collection, "OrderedSet": set}
    source = "from __future__ import annotations\n" + ast.unparse(function)
    exec(source, names)
    same = names["is_fake_tensor_same"]
    assert same(None, None, {})
    assert same([None, (None,)], [None, (None,)], {})
    assert not same(None, [], {})
    handle = SimpleNamespace()
    with pytest.raises(AssertionError, match=r"Unknown type <class .*> in graph\(\)"):
        same([None, handle], [None, handle], {})
    with pytest.raises(AssertionError, match="in the graph"):
        same(handle, handle, {}, node=SimpleNamespace(graph="the graph"))


def test_another_text_is_not_taken_for_that_of_2_13_0():
    with pytest.raises(ValueError, match=r"not that of torch 2\.13\.0"):
        fx_utils_before_fix("def f(new, old):\n    return new == old\n")


def test_any_package_can_be_made():
    wheel = make_wheel("some-package", "1.0", {"some_package.py": b""})
    assert (wheel.filename, wheel.project) == ("some_package-1.0-py3-none-any.whl", "some-package")
