"""The NVIDIA driver and its GPUs, asked through NVML. Neither torch nor CUDA is needed for that."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

from repro.variants import Driver

_HARDWARE = (
    "install NVIDIA's driver, if there is an NVIDIA GPU; a container must be started with its GPUs"
)


@dataclass(frozen=True)
class Absent:
    """Why there is no GPU to use.

    Args:
        reason: what was found instead.
        mend: what to do where there should be one.
        broken: whether a driver is there that does not work, as opposed to none.
    """

    reason: str
    mend: str
    broken: bool = False


def _hidden(chosen: str | None, count: int) -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides every GPU: CUDA reads it up to the first wrong entry.

    NVML knows nothing of that variable. What is no number is a GPU's UUID, unless it is what Slurm
    writes where a job has none.
    """
    if chosen is None:
        return False
    first = chosen.split(",")[0].strip()
    if first.isdecimal():
        return int(first) >= count
    return first.startswith("-") or first in ("", "NoDevFiles")


def _reason(nvml: Any, error: Exception) -> Absent:
    """What an error of NVML means. It has dozens; with any of them the GPU is of no use here."""
    known = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: Absent("no NVIDIA driver is installed", _HARDWARE),
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: Absent(
            "an NVIDIA driver is installed but not loaded",
            "sudo modprobe nvidia, if there is a GPU",
        ),
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Absent(
            "the loaded NVIDIA driver is of another version than its library",
            "restart the machine: the driver was updated while it ran",
            broken=True,
        ),
        nvml.NVML_ERROR_NO_PERMISSION: Absent(
            "the NVIDIA driver may not be used",
            "have yourself allowed to read and write /dev/nvidia*",
            broken=True,
        ),
    }
    unknown = Absent(
        f"the NVIDIA driver does not answer: {error}", "see what nvidia-smi says", broken=True
    )
    return known.get(getattr(error, "value", None), unknown)


def look_for_driver() -> Driver | Absent:
    """The NVIDIA driver and its GPUs, or why processes started from here may use none of them."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _reason(nvml, error)
    try:
        count = nvml.nvmlDeviceGetCount()
        if count == 0:
            return Absent("the NVIDIA driver finds no GPU", _HARDWARE)
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        if _hidden(chosen, count):
            return Absent(
                f"CUDA_VISIBLE_DEVICES={chosen!r} hides the GPU", "unset CUDA_VISIBLE_DEVICES"
            )
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()  # 12080 is 12.8
        return Driver(
            version=nvml.nvmlSystemGetDriverVersion(),
            cuda=(cuda // 1000, cuda % 1000 // 10),
            devices=tuple(nvml.nvmlDeviceGetName(handle) for handle in handles),
        )
    except nvml.NVMLError as error:
        return _reason(nvml, error)
    finally:
        # A GPU that is lost fails here once more; what was found out stands.
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def find_driver() -> Driver | None:
    """The NVIDIA driver, None where it has no GPU that processes started from here may use."""
    found = look_for_driver()
    return found if isinstance(found, Driver) else None
