"""Each thing that the doctor looks for, there and missing."""

import importlib.metadata
import io
import json
import os
import platform
import shutil
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from repro import compilers, doctor, gpu, hardware, uv
from repro.compilers import find_c_compiler, find_compiler, find_headers
from repro.doctor import Cache, Checks, collect
from repro.errors import ReproError, Unavailable
from repro.findings import REPORTED, Finding, State, anything_missing
from repro.interpreters import find_interpreter
from repro.report.diagnosis import findings_json, findings_view
from repro.report.screen import console, show
from repro.report.words import mapped
from repro.variants import Driver
from tests.test_screen import VARIABLES

H200 = Driver("580.65.06", (13, 0), ("H200", "H200", "L4"))
GPP = """\
case "$*" in
*--version*) echo "g++ (Fake) 12.2.0"; echo "Copyright"; exit 0;;
esac
"""


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch):
    """No terminal, no GPU, and compilers of their usual names."""
    for name in (*VARIABLES, "CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "look_for_driver", lambda: gpu.Absent("no driver", "get one"))


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Puts a shell script on PATH, which has nothing else but a shell's own tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def debian(monkeypatch):
    monkeypatch.setattr(
        platform, "freedesktop_os_release", lambda: {"ID": "mint", "ID_LIKE": "ubuntu debian"}
    )
    monkeypatch.setattr(sys, "platform", "linux")


def looked(name: str, **more) -> Finding:
    """The one finding of that name."""
    checks = Checks(**({"interpreter": lambda: find_interpreter(None)} | more))
    [found] = [finding for finding in collect(checks) if finding.name == name]
    return found


def raising(error: Exception):
    def ask():
        raise error

    return ask


def is_fault(finding: Finding, state: State = State.MISSING) -> bool:
    return finding.state is state and bool(finding.prevents) and bool(finding.mend)


# --- this process and machine -------------------------------------------------------------------


def test_what_a_machine_is_stands_in_a_line_each():
    for name, words in {
        "platform": platform.release(),
        "memory": " GB",
        "cpu": " cores",
        "python": platform.python_version(),
    }.items():
        found = looked(name)
        assert words in found.value
        assert "\n" not in found.value
        assert found.state is State.OK


def test_a_system_without_a_name_is_named_by_its_kernel(monkeypatch):
    monkeypatch.setattr(platform, "freedesktop_os_release", raising(OSError("no file")))
    assert hardware.find_platform().value == platform.platform()


def test_the_cpu_is_told_with_what_inductor_looks_for(monkeypatch, tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text(
        "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu avx2x avx2 amx_tile\n\n"
        "processor\t: 1\nmodel name\t: A CPU\nflags\t\t: fpu avx2\n"
    )
    monkeypatch.setattr(hardware, "CPU_FILE", file)
    value = hardware.find_cpu().value
    assert value.startswith("A CPU, ")
    assert value.endswith(" cores, avx2 amx_tile")


def test_a_cpu_without_a_file_is_asked_of_macos(monkeypatch, tmp_path, program):
    monkeypatch.setattr(hardware, "CPU_FILE", tmp_path / "none")
    program("sysctl", 'test "$*" = "-n machdep.cpu.brand_string" && echo "Apple M9"')
    assert hardware.find_cpu().value.startswith("Apple M9, ")


def test_a_cpu_that_nobody_names_is_its_architecture(monkeypatch, tmp_path, program):
    monkeypatch.setattr(hardware, "CPU_FILE", tmp_path / "none")
    assert hardware.find_cpu().value.startswith(f"{platform.machine()}, ")


@pytest.mark.skipif(sys.platform != "linux", reason="macOS binds no process to cores")
def test_cores_that_may_not_be_used_are_not_counted(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 4})
    assert "2 of 64 cores" in hardware.find_cpu().value


def test_the_interpreter_of_environments_is_told():
    found = looked("interpreter", interpreter=lambda: find_interpreter(None))
    assert found.state is State.OK
    assert found.value == f"{platform.python_version()}, {sys.executable}"


def test_a_free_threaded_interpreter_says_so():
    mine = replace(find_interpreter(None), free_threaded=True)
    assert "free-threaded" in looked("interpreter", interpreter=lambda: mine).value


@pytest.mark.parametrize(
    ("error", "value", "mend"),
    [
        (
            ReproError("--python 3.99: none", "name the path"),
            "--python 3.99: none",
            "name the path",
        ),
        (ReproError("broken"), "broken", "name another with --python"),
        (FileNotFoundError("no uv\nlooked in x"), "no uv", "name another with --python"),
        (ModuleNotFoundError("No module named 'uv'"), "No module named 'uv'", None),
    ],
)
def test_an_interpreter_that_is_not_there_stops_nothing(error, value, mend):
    found = looked("interpreter", interpreter=raising(error))
    assert is_fault(found)
    assert found.value == value
    assert mend in (None, found.mend)
    assert looked("uv", interpreter=raising(error)).state is State.OK


def test_uv_is_told_with_its_version():
    found = looked("uv")
    assert found.state is State.OK
    assert found.value.startswith("uv ")


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("no uv"), ImportError("no uv"), Unavailable("no uv", "see the log")],
)
def test_without_uv_nothing_is_installed(monkeypatch, error):
    monkeypatch.setattr(uv, "call", lambda *_: raising(error)())
    found = looked("uv")
    assert is_fault(found)
    assert found.value == "no uv"
    assert found.mend.endswith("pip install uv")


def test_the_current_torch_is_told_by_its_metadata(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"torch": "2.99.0"}[name])
    found = looked("torch")
    assert (found.state, found.value) == (State.OK, "2.99.0")


def test_without_a_current_torch_others_run(monkeypatch):
    gone = importlib.metadata.PackageNotFoundError("torch")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: raising(gone)())
    assert is_fault(looked("torch"), State.WARNING)


# --- compilers ----------------------------------------------------------------------------------


def test_a_compiler_that_compiles_is_told_with_its_version(program, debian):
    program(
        "g++",
        f'{GPP}test "$LC_ALL" = C && test -s check.cpp && echo "$*" | grep -q fopenmp || exit 1',
    )
    assert find_compiler() == Finding("compiler", State.OK, "g++ (Fake) 12.2.0")


def test_without_a_compiler_cases_on_the_cpu_are_untestable(program, debian):
    found = find_compiler()
    assert is_fault(found)
    assert found.value == "g++: No such file or directory"
    assert "CPU" in found.prevents
    assert found.mend == "apt install g++"


def test_a_compiler_without_openmp_is_none(program, debian):
    error = "check.cpp:1:10: fatal error: omp.h: No such file or directory"
    program("g++", f'{GPP}echo "In file included from x" >&2; echo "{error}" >&2; exit 1')
    found = find_compiler()
    assert is_fault(found)
    assert found.value == f"g++ (Fake) 12.2.0: {error}"
    assert found.mend == "apt install g++"


def test_a_linker_that_finds_no_openmp_is_quoted_where_it_says_so(program, debian):
    program("g++", f'{GPP}echo "/usr/bin/ld: cannot find -lgomp"; echo "error: ld 1"; exit 1')
    assert find_compiler().value.endswith(": /usr/bin/ld: cannot find -lgomp")


def test_clang_gets_its_openmp_from_a_package_of_its_own(program, debian, monkeypatch):
    monkeypatch.setenv("CXX", "clang++")
    program(
        "clang++",
        'case "$*" in *--version*) echo "Debian clang version 14"; exit 0;; esac\n'
        "echo \"check.cpp:1:10: fatal error: 'omp.h' file not found\" >&2; exit 1",
    )
    found = find_compiler()
    assert is_fault(found)
    assert found.mend == "apt install libomp-dev"


def test_a_compiler_of_old_builds_alone_is_a_warning(program, debian):
    program(
        "g++",
        f'{GPP}case "$*" in *c++20*) echo "g++: error: unrecognized option" >&2; exit 1;; esac',
    )
    found = find_compiler()
    assert is_fault(found, State.WARNING)
    assert "2.12 and newer" in found.prevents
    assert "unrecognized option" in found.value


def test_the_compiler_that_cxx_names_is_the_one(program, monkeypatch, debian):
    program("g++", GPP)
    path = program("other", GPP.replace("Fake", "Other"))
    monkeypatch.setenv("CXX", str(path))
    assert find_compiler().value == "g++ (Other) 12.2.0"


def test_cxx_with_arguments_is_what_torch_cannot_start(program, monkeypatch):
    program("g++", GPP)
    program("ccache", GPP)
    monkeypatch.setenv("CXX", "ccache g++")
    found = find_compiler()
    assert is_fault(found)
    assert "without arguments" in found.mend


def test_a_compiler_that_hangs_is_ended(program, monkeypatch):
    monkeypatch.setattr(compilers, "LIMIT", 0.5)
    monkeypatch.setenv("CXX", str(program("g++", "sleep 600")))
    found = find_compiler()
    assert is_fault(found)
    assert "not finished after 0.5 s" in found.value


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.skipif(sys.platform != "linux", reason="torch takes clang++ on macOS")
def test_a_real_compiler_is_really_tried(monkeypatch, tmp_path):
    assert find_compiler().state is State.OK
    (tmp_path / "omp.h").write_text("#error spoilt\n")
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(tmp_path))
    found = find_compiler()
    assert is_fault(found)
    assert "spoilt" in found.value


@pytest.mark.parametrize(
    ("release", "mend"),
    [
        ({"ID": "debian"}, "apt install g++"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install gcc-c++"),
        ({"ID": "arch"}, "pacman -S gcc"),
        ({"ID": "slackware"}, "install g++, or name a C++ compiler in CXX"),
        (None, "install g++, or name a C++ compiler in CXX"),
    ],
)
def test_the_command_that_mends_is_the_systems(program, monkeypatch, release, mend):
    monkeypatch.setattr(sys, "platform", "linux")
    told = raising(OSError("no file")) if release is None else lambda: release
    monkeypatch.setattr(platform, "freedesktop_os_release", told)
    assert find_compiler().mend == mend


def test_macos_takes_clang_and_apples_tools(program, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    found = find_compiler()
    assert is_fault(found)
    assert found.value.startswith("clang++: ")
    assert found.mend == "xcode-select --install"


APPLE = """\
case "$*" in
*--version*) echo "Apple clang version 15"; exit 0;;
*-Iomp/include*-Lomp/lib*-lomp*) exit 0;;
esac
echo "check.cpp:1:10: fatal error: 'omp.h' file not found" >&2; exit 1
"""


@pytest.mark.parametrize("place", ["OMP_PREFIX", "CONDA_PREFIX", "brew"])
def test_apples_clang_gets_openmp_where_torch_looks_for_it(program, monkeypatch, tmp_path, place):
    monkeypatch.setattr(sys, "platform", "darwin")
    for name in ("OMP_PREFIX", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    prefix = tmp_path / "omp"
    program("clang++", APPLE.replace("omp/", f"{prefix}/"))
    if place == "brew":
        program("brew", f'test "$*" = "--prefix libomp" && echo {prefix}')
    else:
        monkeypatch.setenv(place, str(prefix))
    missing = find_compiler()
    assert is_fault(missing)
    assert missing.mend == "brew install libomp"
    (prefix / "include").mkdir(parents=True)
    (prefix / "include" / "omp.h").touch()
    assert find_compiler().state is State.OK


def test_the_c_compiler_is_looked_for_where_there_is_a_gpu(program, monkeypatch, debian):
    assert not [f for f in collect(Checks(lambda: find_interpreter(None))) if f.name[0] == "C"]
    monkeypatch.setattr(doctor, "look_for_driver", lambda: H200)
    missing = looked("C compiler")
    assert is_fault(missing)
    assert missing.mend == "apt install gcc"
    program("clang", 'echo "clang 14"')
    assert find_c_compiler().value == "clang 14"
    program("gcc", 'echo "gcc 12"')
    assert looked("C compiler") == Finding("C compiler", State.OK, "gcc 12")
    monkeypatch.setenv("CC", "none-such")
    assert is_fault(find_c_compiler())


def test_the_headers_are_those_of_the_interpreter(program, debian, tmp_path):
    places = [tmp_path / "include", tmp_path / "Headers"]
    python = program("python", f"echo {places[0]}; echo {places[1]}")
    interpreter = replace(find_interpreter(None), executable=python, version=(3, 12))
    missing = find_headers(interpreter)
    assert is_fault(missing)
    assert missing.value == f"no Python.h in {places[0]}"
    assert missing.mend == "apt install python3.12-dev"
    for place in reversed(places):
        place.mkdir()
        (place / "Python.h").touch()
        assert find_headers(interpreter) == Finding("headers", State.OK, str(place))


def test_an_interpreter_that_does_not_start_has_no_headers(tmp_path):
    interpreter = replace(find_interpreter(None), executable=tmp_path / "gone")
    found = find_headers(interpreter)
    assert is_fault(found)
    assert "No such file" in found.value


# --- GPU ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("broken", "state"), [(False, State.WARNING), (True, State.MISSING)])
def test_no_gpu_is_a_fault_only_where_its_driver_is_broken(monkeypatch, broken, state):
    absent = gpu.Absent("the reason", "the mend", broken)
    monkeypatch.setattr(doctor, "look_for_driver", lambda: absent)
    found = looked("gpu")
    assert is_fault(found, state)
    assert (found.value, found.mend) == ("the reason", "the mend")
    assert is_fault(looked("driver"), state)


def test_gpus_and_driver_are_told(monkeypatch):
    monkeypatch.setattr(doctor, "look_for_driver", lambda: H200)
    assert looked("gpu") == Finding("gpu", State.OK, "2 x H200, 1 x L4")
    driver = looked("driver")
    assert driver == Finding("driver", State.OK, "580.65.06, CUDA 13.0, runs up to cu130")


def test_a_driver_older_than_every_build_is_a_warning(monkeypatch):
    monkeypatch.setattr(doctor, "look_for_driver", lambda: replace(H200, cuda=(11, 4)))
    assert is_fault(looked("driver"), State.WARNING)


# --- indexes, disk and cache --------------------------------------------------------------------


@pytest.mark.parametrize(("name", "key"), [("index", "index"), ("pytorch index", "pytorch_index")])
def test_an_index_says_what_it_has_or_why_not(name, key):
    assert looked(name, **{key: lambda: "987 files"}) == Finding(name, State.OK, "987 files")
    missing = looked(name, **{key: raising(Unavailable("refused", "log in"))})
    assert is_fault(missing)
    assert (missing.value, missing.mend) == ("refused", "log in")
    assert is_fault(looked(name, **{key: raising(Unavailable("refused"))}))
    assert is_fault(looked(name, **{key: raising(FileNotFoundError("no uv"))}))


def test_a_report_wants_neither_network_nor_disks():
    names = {finding.name for finding in collect(Checks(lambda: find_interpreter(None)))}
    assert names.isdisjoint({"index", "pytorch index", "disk", "cache", "links"})
    assert names >= set(REPORTED) - {"C compiler"}


def cache(folder: Path, limit: int | None = 40 * 10**9) -> dict[str, Cache]:
    return {"cache": Cache(folder, 12_340_000_000, limit)}


@pytest.mark.parametrize(
    ("free", "state"),
    [(41, State.OK), (8, State.OK), (7.9, State.WARNING), (1, State.WARNING), (0.9, State.MISSING)],
)
def test_a_disk_is_full_before_a_build_does_not_fit(monkeypatch, tmp_path, free, state):
    asked = []

    def usage(folder):
        asked.append(Path(folder))
        return namedtuple("Usage", "free")(int(free * 10**9))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    found = looked("disk", **cache(tmp_path / "not" / "yet"))
    assert asked == [tmp_path]
    assert found.value == f"{free:.1f} GB free"
    assert found.state is state
    assert state is State.OK or is_fault(found, state)


def test_the_cache_is_told_with_its_size(tmp_path):
    value = f"{tmp_path / 'new'}, 12.3 GB, "
    found = looked("cache", **cache(tmp_path / "new"))
    assert found == Finding("cache", State.OK, f"{value}at most 40.0 GB")
    assert looked("cache", **cache(tmp_path / "new", None)).value == f"{value}no limit"
    assert not (tmp_path / "new").exists()


def test_a_cache_that_cannot_be_written_is_a_fault(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch(mode=0o777)
    assert is_fault(looked("cache", **cache(file)))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    found = looked("cache", **cache(tmp_path / "new"))
    assert is_fault(found)
    assert "cannot be written" in found.value


@pytest.fixture
def uv_cache(monkeypatch, tmp_path):
    folder = tmp_path / "uv-cache"
    folder.mkdir()
    monkeypatch.setenv("UV_CACHE_DIR", str(folder))
    return folder


def test_files_are_shared_where_they_can_be_linked(uv_cache, tmp_path):
    ours = tmp_path / "ours"
    ours.mkdir()
    found = looked("links", **cache(ours))
    assert found == Finding("links", State.OK, f"files are shared with uv's cache, {uv_cache}")
    assert [*ours.iterdir()] == []
    assert not [*uv_cache.glob(".repro-*")]


def test_files_that_cannot_be_linked_cost_disk(uv_cache, tmp_path, monkeypatch):
    def link(source, target):
        raise OSError(18, "Invalid cross-device link", source)

    monkeypatch.setattr(os, "link", link)
    found = looked("links", **cache(tmp_path))
    assert is_fault(found, State.WARNING)
    assert found.value.endswith(": Invalid cross-device link")


def test_links_need_uv(monkeypatch, tmp_path):
    monkeypatch.setattr(uv, "call", lambda *_: raising(FileNotFoundError("no uv"))())
    assert is_fault(looked("links", **cache(tmp_path)), State.WARNING)


def test_a_folder_that_may_not_be_entered_stops_nothing(monkeypatch, tmp_path):
    """`Path.exists` raises there; a tester who is root cannot make such a folder."""

    def stat(self, **_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", stat)
    assert doctor._existing(tmp_path / "a" / "b") == tmp_path


# --- what is made of it -------------------------------------------------------------------------

FINDINGS = (
    Finding("python", State.OK, "3.12"),
    Finding("gpu", State.WARNING, "none [cu130]", "No GPU\nruns.", "get\none"),
    Finding("pytorch index", State.MISSING, "long " * 60 + "end", "No nightlies.", "dial :smile:"),
)


def shown(monkeypatch, findings) -> str:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    show(console(), findings_view(findings))
    return out.getvalue()


def test_each_thing_has_a_line_and_each_fault_two_more(monkeypatch):
    assert shown(monkeypatch, FINDINGS).splitlines() == [
        "ok       python         3.12",
        "warning  gpu            none [cu130]",
        "           prevents: No GPU runs.",
        "           mend: get one",
        "missing  pytorch index  " + "long " * 60 + "end",
        "           prevents: No nightlies.",
        "           mend: dial :smile:",
    ]


def test_nothing_found_prints_nothing_wrong(monkeypatch):
    assert shown(monkeypatch, ()).strip() == ""


def test_the_json_has_every_field():
    envelope = json.loads(findings_json(FINDINGS))
    assert envelope["schema"] == "repro.doctor/1"
    assert [list(found) for found in envelope["findings"]] == [
        ["name", "state", "value", "prevents", "mend"]
    ] * len(FINDINGS)
    assert envelope["findings"][0] == {
        "name": "python",
        "state": "ok",
        "value": "3.12",
        "prevents": None,
        "mend": None,
    }
    assert [found["state"] for found in envelope["findings"]] == ["ok", "warning", "missing"]


def test_redaction_reaches_everything_and_leaves_the_state():
    changed = mapped(FINDINGS, lambda text: "x")
    assert changed[1] == Finding("x", State.WARNING, "x", "x", "x")
    assert changed[0].mend is None


def test_something_is_missing_only_where_it_is():
    assert anything_missing(FINDINGS)
    assert not anything_missing(FINDINGS[:2])
