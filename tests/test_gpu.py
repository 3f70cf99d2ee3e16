"""What NVML tells of driver and GPUs, with a stand-in for it: most machines of CI have none."""

import sys
from types import SimpleNamespace

import pynvml
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repro.gpu import Absent, find_driver, look_for_driver
from repro.variants import CUDA_VARIANTS, Driver, variants_for


class Nvml(SimpleNamespace):
    """NVML of a machine with some GPUs; `errors` names the functions that fail, and how."""

    def __init__(self, devices=("H200",), cuda=13000, version="580.65.06", **errors):
        codes = {name: getattr(pynvml, name) for name in dir(pynvml) if name[:11] == "NVML_ERROR_"}
        super().__init__(NVMLError=pynvml.NVMLError, **codes)
        answers = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": self._ended,
            "nvmlDeviceGetCount": lambda: len(devices),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda handle: devices[handle],
            "nvmlSystemGetCudaDriverVersion_v2": lambda: cuda,
            "nvmlSystemGetDriverVersion": lambda: version,
        }
        for name, answer in answers.items():
            setattr(self, name, self._failing(errors[name]) if name in errors else answer)
        self.ended = 0

    def _ended(self):
        self.ended += 1

    @staticmethod
    def _failing(code):
        def fail(*_):
            raise pynvml.NVMLError(code)

        return fail


@pytest.fixture(autouse=True)
def _every_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def machine(monkeypatch):
    def has(*devices, **more):
        nvml = Nvml(devices, **more)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return nvml

    return has


# --- what is there ------------------------------------------------------------------------------


def test_driver_and_gpus_are_what_nvml_says(machine):
    nvml = machine("H200", "L4", cuda=12080, version="570.10")
    assert find_driver() == Driver("570.10", (12, 8), ("H200", "L4"))
    assert nvml.ended == 1


def test_the_real_library_is_asked_as_it_wants_to_be():
    """Whatever this machine has, it is told without an error."""
    found = look_for_driver()
    assert found.devices if isinstance(found, Driver) else found.reason


@pytest.mark.parametrize(
    ("number", "cuda"), [(13000, (13, 0)), (12080, (12, 8)), (11080, (11, 8)), (12100, (12, 10))]
)
def test_the_version_of_cuda_is_read_out_of_its_number(machine, number, cuda):
    machine("H200", cuda=number)
    assert find_driver().cuda == cuda


@pytest.mark.parametrize(
    ("code", "word", "broken"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVIDIA driver is installed", False),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "not loaded", False),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "another version", True),
        (pynvml.NVML_ERROR_NO_PERMISSION, "may not be used", True),
        (pynvml.NVML_ERROR_UNKNOWN, "does not answer: Unknown Error", True),
    ],
)
def test_without_a_working_driver_there_is_none_and_it_says_why(machine, code, word, broken):
    nvml = machine("H200", nvmlInit=code)
    found = look_for_driver()
    assert isinstance(found, Absent)
    assert word in found.reason
    assert found.mend
    assert found.broken == broken
    assert find_driver() is None
    assert nvml.ended == 0


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlSystemGetCudaDriverVersion_v2"],
)
def test_a_driver_that_fails_later_is_none_and_is_left(machine, function):
    nvml = machine("H200", **{function: pynvml.NVML_ERROR_GPU_IS_LOST})
    found = look_for_driver()
    assert isinstance(found, Absent)
    assert "GPU is lost" in found.reason
    assert found.broken
    assert nvml.ended == 1


def test_a_driver_that_cannot_be_left_is_what_it_said(machine):
    machine("H200", nvmlShutdown=pynvml.NVML_ERROR_GPU_IS_LOST)
    assert find_driver().devices == ("H200",)


def test_a_fault_that_is_not_nvmls_is_not_hidden(machine):
    machine("H200").nvmlInit = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        find_driver()


def test_a_driver_without_a_gpu_is_none(machine):
    nvml = machine()
    assert find_driver() is None
    assert "finds no GPU" in look_for_driver().reason
    assert nvml.ended == 2


@pytest.mark.parametrize("chosen", ["", " ", "-1", "-1,0", "NoDevFiles", "2", "2,0"])
def test_gpus_that_the_shell_hides_are_none(machine, monkeypatch, chosen):
    machine("H200", "L4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert find_driver() is None
    found = look_for_driver()
    assert "CUDA_VISIBLE_DEVICES" in found.reason
    assert not found.broken


@pytest.mark.parametrize("chosen", ["0", "1,0", "0,-1", " 1", "GPU-8932f937-d72c", "MIG-4b0a"])
def test_gpus_that_the_shell_chooses_are_there(machine, monkeypatch, chosen):
    machine("H200", "L4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert find_driver() is not None


# --- which variants it runs ---------------------------------------------------------------------


def driver(*cuda: int) -> Driver:
    return Driver("1", cuda, ("a GPU",))


def test_without_a_driver_there_is_cpu_alone():
    assert variants_for(None) == ("cpu",)


@pytest.mark.parametrize(
    ("cuda", "newest"),
    [
        ((11, 4), "cpu"),
        ((11, 8), "cu118"),
        ((12, 0), "cu118"),
        ((12, 8), "cu128"),
        ((12, 10), "cu129"),
        ((13, 0), "cu130"),
        ((13, 1), "cu130"),
        ((14, 0), "cu134"),
    ],
)
def test_the_newest_variant_is_the_drivers_own_or_the_next_older(cuda, newest):
    assert variants_for(driver(*cuda))[0] == newest


@given(st.integers(9, 15), st.integers(0, 12))
@example(13, 0)
def test_variants_are_never_newer_than_the_driver_and_the_newest_is_first(major, minor):
    found = variants_for(driver(major, minor))
    if found == ("cpu",):
        assert min(CUDA_VARIANTS.values()) > (major, minor)
        return
    versions = [(int(name[2:-1]), int(name[-1])) for name in found]
    assert versions == sorted(versions, reverse=True)
    assert versions[0] <= (major, minor)
    assert found
    left_out = [cuda for name, cuda in CUDA_VARIANTS.items() if name not in found]
    assert all(cuda > (major, minor) for cuda in left_out)


def test_a_variant_is_named_after_its_toolkit():
    for name, (major, minor) in CUDA_VARIANTS.items():
        assert name == f"cu{major}{minor}"
