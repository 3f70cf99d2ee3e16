"""Compilers that work, fail and are not there: shell scripts in a PATH that has nothing else."""

import platform
import shutil
import sys
import tempfile
from dataclasses import replace

import pytest

from repro import compilers
from repro.compilers import find_c_compiler, find_compiler, find_headers
from repro.findings import Finding, State, Thing
from repro.interpreters import find_interpreter
from tests.test_doctor import is_fault, raising, script

GPP = """\
case "$*" in
*--version*) echo "g++ (Fake) 12.2.0"; echo "Copyright"; exit 0;;
esac
"""


@pytest.fixture(autouse=True)
def _usual_names(monkeypatch):
    for name in ("CXX", "CC", "OMP_PREFIX", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Puts a program on a PATH that has nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return lambda name, text: script(folder / name, text)


@pytest.fixture
def debian(monkeypatch):
    monkeypatch.setattr(
        platform, "freedesktop_os_release", lambda: {"ID": "mint", "ID_LIKE": "ubuntu debian"}
    )
    monkeypatch.setattr(sys, "platform", "linux")


def test_a_compiler_that_compiles_is_told_with_its_version(program, debian):
    program(
        "g++",
        f'{GPP}test "$LC_ALL" = C && test -s check.cpp && echo "$*" | grep -q fopenmp || exit 1',
    )
    assert find_compiler() == Finding(Thing.COMPILER, State.OK, "g++ (Fake) 12.2.0")


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


def test_clang_that_fails_otherwise_does_not_want_openmp(program, debian, monkeypatch):
    monkeypatch.setenv("CXX", "clang++")
    program(
        "clang++",
        'case "$*" in *--version*) echo "Debian clang version 14"; exit 0;; esac\n'
        'echo "fatal error: no such sysroot" >&2; exit 1',
    )
    assert find_compiler().mend == "apt install g++"


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


def test_without_a_place_for_temporary_files_nothing_is_tried(program, monkeypatch):
    program("g++", GPP)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    found = find_compiler()
    assert is_fault(found)
    assert found.value.endswith(": No such file or directory")
    assert "TMPDIR" in found.mend


def test_neither_c_compiler_nor_headers_want_temporary_files(program, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    program("gcc", 'echo "gcc 12"')
    assert find_c_compiler().state is State.OK
    (tmp_path / "Python.h").touch()
    python = program("python", f"echo {tmp_path}")
    assert find_headers(replace(find_interpreter(None), executable=python)).state is State.OK


def test_a_full_disk_is_no_fault_of_the_compiler(program, debian):
    said = "check.cpp: fatal error: error writing to x.s: No space left on device"
    program("g++", f'{GPP}echo "{said}" >&2; exit 1')
    found = find_compiler()
    assert is_fault(found)
    assert found.value.endswith(said)
    assert found.mend.startswith("make room")


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


def test_the_c_compiler_is_gcc_else_clang(program, debian):
    missing = find_c_compiler()
    assert is_fault(missing)
    assert missing.value == "gcc: No such file or directory"
    assert "GPU" in missing.prevents
    assert missing.mend == "apt install gcc"
    program("clang", 'echo "clang 14"')
    assert find_c_compiler() == Finding(Thing.C_COMPILER, State.OK, "clang 14")
    program("gcc", 'echo "gcc 12"')
    assert find_c_compiler() == Finding(Thing.C_COMPILER, State.OK, "gcc 12")


def test_a_c_compiler_that_fails_is_none(program, debian):
    program("gcc", 'echo "gcc: error: loading cc1" >&2; exit 1')
    found = find_c_compiler()
    assert is_fault(found)
    assert found.value.endswith("/gcc: gcc: error: loading cc1")


@pytest.mark.parametrize("name", ["none-such", "ccache gcc", ""])
def test_cc_that_triton_cannot_start_is_to_be_mended_itself(program, monkeypatch, debian, name):
    program("gcc", 'echo "gcc 12"')
    program("ccache", "exit 0")
    monkeypatch.setenv("CC", name)
    found = find_c_compiler()
    assert is_fault(found)
    assert found.value.startswith(f"{name}: ")
    assert found.mend == "unset CC, or let it name one program, without arguments"


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
        assert find_headers(interpreter) == Finding(Thing.HEADERS, State.OK, str(place))


def test_an_interpreter_that_does_not_start_has_no_headers(tmp_path):
    interpreter = replace(find_interpreter(None), executable=tmp_path / "gone")
    found = find_headers(interpreter)
    assert is_fault(found)
    assert "No such file" in found.value
