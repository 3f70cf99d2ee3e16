"""Which variants of torch a machine can run. Pure: what is there is told, not looked for."""

from __future__ import annotations

from dataclasses import dataclass

# The CUDA variants that PyTorch has published, the newest first, with their toolkit's version.
CUDA_VARIANTS: dict[str, tuple[int, int]] = {
    "cu134": (13, 4),
    "cu132": (13, 2),
    "cu130": (13, 0),
    "cu129": (12, 9),
    "cu128": (12, 8),
    "cu126": (12, 6),
    "cu124": (12, 4),
    "cu121": (12, 1),
    "cu118": (11, 8),
}


@dataclass(frozen=True)
class Driver:
    """An NVIDIA driver that has a GPU to drive.

    Args:
        version: its own version, `580.65.06`.
        cuda: the newest CUDA that it runs, `(13, 0)`.
        devices: the names of its GPUs.
    """

    version: str
    cuda: tuple[int, int]
    devices: tuple[str, ...]


def variants_for(driver: Driver | None) -> tuple[str, ...]:
    """The variants that a driver can run, the newest first; `cpu` alone where there are none.

    A driver of CUDA X.Y is given variants up to X.Y. CUDA's minor-version compatibility would let
    it run later ones of X too, but triton hands it PTX of the toolkit's own version, which a driver
    that is older cannot load: the build would import and then fail in every case.
    """
    if driver is None:
        return ("cpu",)
    runs = tuple(name for name, cuda in CUDA_VARIANTS.items() if cuda <= driver.cuda)
    return runs or ("cpu",)
