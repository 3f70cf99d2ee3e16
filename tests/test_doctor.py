"""Each thing that the doctor looks for, there and missing."""

import importlib.metadata
import io
import json
import os
import platform
import shutil
import sys
import tempfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from repro import doctor, gpu, hardware, uv
from repro.doctor import Cache, Checks, collect
from repro.errors import ReproError, Unavailable
from repro.findings import REPORTED, Finding, State, Thing, anything_missing
from repro.interpreters import find_interpreter
from repro.report.diagnosis import findings_json, findings_view
from repro.report.redact import Machine, redact
from repro.report.screen import console, show
from repro.report.words import mapped
from repro.variants import Driver
from tests.test_gpu import Nvml
from tests.test_screen import VARIABLES

H200 = Driver("580.65.06", (13, 0), ("H200", "H200", "L4"))


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch):
    """No terminal, no GPU, and compilers of their usual names."""
    for name in (*VARIABLES, "CXX", "CC", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "look_for_driver", lambda: gpu.Absent("no driver", "get one"))


def script(path: Path, text: str) -> Path:
    """An executable file; it finds a shell's own tools, whatever PATH is."""
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")
    path.chmod(0o755)
    return path


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


def test_a_cpu_without_a_model_is_its_architecture(monkeypatch, tmp_path):
    """No other line is taken for it."""
    file = tmp_path / "cpuinfo"
    file.write_text("model name\t: \nstepping\t: 7\nflags\t:\nbugs\t: avx2\n")
    monkeypatch.setattr(hardware, "CPU_FILE", file)
    value = hardware.find_cpu().value
    assert value.startswith(f"{platform.machine()}, ")
    assert "avx2" not in value


def test_a_cpu_without_a_file_is_asked_of_macos(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "CPU_FILE", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path / "sysctl", 'test "$*" = "-n machdep.cpu.brand_string" && echo "Apple M9"')
    assert hardware.find_cpu().value.startswith("Apple M9, ")


def test_a_cpu_that_nobody_names_is_its_architecture(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
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


# --- compilers, as part of it ------------------------------------------------------------------


def test_without_compilers_and_headers_the_rest_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    python = script(tmp_path / "python", f"echo {tmp_path / 'include'}")
    mine = replace(find_interpreter(None), executable=python)
    found = {finding.name: finding for finding in collect(Checks(lambda: mine))}
    assert is_fault(found["compiler"])
    assert is_fault(found["headers"])
    assert found["uv"].state is State.OK
    assert list(found)[-1] == "driver"
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").touch()
    assert looked("headers", interpreter=lambda: mine).state is State.OK


def test_the_c_compiler_is_looked_for_where_there_is_a_gpu(monkeypatch, tmp_path):
    assert "C compiler" not in {f.name for f in collect(Checks(lambda: find_interpreter(None)))}
    monkeypatch.setattr(doctor, "look_for_driver", lambda: H200)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert is_fault(looked("C compiler"))
    script(tmp_path / "gcc", 'echo "gcc 12"')
    assert looked("C compiler") == Finding(Thing.C_COMPILER, State.OK, "gcc 12")


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
    assert looked("gpu") == Finding(Thing.GPU, State.OK, "2 x H200, 1 x L4")
    driver = looked("driver")
    assert driver == Finding(Thing.DRIVER, State.OK, "580.65.06, CUDA 13.0, runs up to cu130")


def test_the_gpus_that_the_shell_chooses_are_told(monkeypatch):
    """NVML lists all of them, CUDA takes those alone."""
    monkeypatch.setattr(doctor, "look_for_driver", lambda: H200)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert looked("gpu").value == "2 x H200, 1 x L4, CUDA_VISIBLE_DEVICES=0,1"


@pytest.mark.parametrize(
    ("nvml", "state", "word"),
    [
        (Nvml(("L4",), nvmlInit=pynvml.NVML_ERROR_DRIVER_NOT_LOADED), State.WARNING, "not loaded"),
        (
            Nvml(("L4",), nvmlInit=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH),
            State.MISSING,
            "another version",
        ),
        (Nvml(()), State.WARNING, "finds no GPU"),
        (Nvml(("L4",)), State.OK, "1 x L4"),
    ],
)
def test_what_nvml_says_is_what_is_told(monkeypatch, nvml, state, word):
    monkeypatch.setattr(doctor, "look_for_driver", gpu.look_for_driver)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    found = looked("gpu")
    assert found.state is state
    assert word in found.value
    assert looked("driver").state is state


def test_a_gpu_that_the_shell_hides_is_a_warning(monkeypatch):
    monkeypatch.setattr(doctor, "look_for_driver", gpu.look_for_driver)
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(("L4",)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    found = looked("gpu")
    assert is_fault(found, State.WARNING)
    assert found.mend == "unset CUDA_VISIBLE_DEVICES"


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


def test_a_disk_that_does_not_answer_stops_nothing(monkeypatch, tmp_path):
    gone = OSError(107, "Transport endpoint is not connected")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: raising(gone)())
    found = looked("disk", **cache(tmp_path))
    assert is_fault(found)
    assert found.value == "Transport endpoint is not connected"


def test_without_a_place_for_temporary_files_the_rest_is_told(monkeypatch, tmp_path, uv_cache):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    mine = find_interpreter(None)
    found = {f.name: f for f in collect(Checks(lambda: mine, **cache(tmp_path)))}
    assert is_fault(found["compiler"])
    assert found["uv"].state is found["links"].state is State.OK


def test_the_cache_is_told_with_its_size(tmp_path):
    value = f"{tmp_path / 'new'}, 12.3 GB, "
    found = looked("cache", **cache(tmp_path / "new"))
    assert found == Finding(Thing.CACHE, State.OK, f"{value}at most 40.0 GB")
    assert looked("cache", **cache(tmp_path / "new", None)).value == f"{value}no limit"
    assert not (tmp_path / "new").exists()


def test_a_cache_that_cannot_be_written_is_a_fault(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch(mode=0o777)
    assert is_fault(looked("cache", **cache(file)))
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
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
    assert found == Finding(Thing.LINKS, State.OK, f"files are shared with uv's cache, {uv_cache}")
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
    Finding(Thing.PYTHON, State.OK, "3.12"),
    Finding(Thing.GPU, State.WARNING, "none [cu130]", "No GPU\nruns.", "get\none"),
    Finding(
        Thing.PYTORCH_INDEX, State.MISSING, "long " * 60 + "end", "No nightlies.", "dial :smile:"
    ),
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


def test_redaction_reaches_what_is_said_and_leaves_name_and_state():
    changed = mapped(FINDINGS, lambda text: "x")
    assert changed[1] == Finding(Thing.GPU, State.WARNING, "x", "x", "x")
    assert changed[0].mend is None


def test_a_machine_that_is_called_like_a_thing_leaves_the_thing():
    machine = Machine("/home/ada", "ada", "gpu")
    found = Finding(Thing.GPU, State.OK, "in /home/ada of gpu")
    [changed] = mapped((found,), lambda text: redact(text, machine))
    assert changed == Finding(Thing.GPU, State.OK, "in ~ of <host>")
    assert json.loads(findings_json([changed]))["findings"][0]["name"] == "gpu"


def test_a_path_that_is_no_text_can_be_printed_in_one_line(monkeypatch, tmp_path):
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/a  \xff\nb"))
    found = looked("cache", **cache(folder))
    assert f"{tmp_path}/a  \\udcff b, " in found.value
    assert found.value in shown(monkeypatch, [found]).replace("a \\udcff", "a  \\udcff")
    findings_json([found]).encode()


@pytest.mark.parametrize("error", [Unavailable(""), OSError()])
def test_an_error_that_says_nothing_is_named(error):
    found = looked("index", index=raising(error))
    assert found.value == type(error).__name__


def test_something_is_missing_only_where_it_is():
    assert anything_missing(FINDINGS)
    assert not anything_missing(FINDINGS[:2])
