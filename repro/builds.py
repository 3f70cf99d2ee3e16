"""What a person types for a build, and what a torch calls itself. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from repro.errors import ReproError


class SpecKind(StrEnum):
    """The forms of a spec."""

    CURRENT = "current"
    PATH = "path"
    LATEST = "latest"
    SERIES = "series"
    RELEASE = "release"


@dataclass(frozen=True)
class Spec:
    """A build as it was asked for.

    Args:
        text: what was typed.
        value: the version (`2.12.1`, `2.12`) or the path; the text itself for words.
    """

    text: str
    kind: SpecKind
    value: str


UNDERSTOOD = (
    "current, latest, a release (2.12.1), a series (2.12, its newest patch), "
    "or the path of a Python executable or virtual environment"
)
_SERIES = re.compile(r"[0-9]+\.[0-9]+")
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def parse_spec(text: str) -> Spec:
    """Read a spec.

    Raises:
        ReproError: lists what would have been understood.
    """
    word = text.strip()
    if word in ("current", "latest"):
        return Spec(text, SpecKind(word), word)
    if _RELEASE.fullmatch(word):
        return Spec(text, SpecKind.RELEASE, word)
    if _SERIES.fullmatch(word):
        return Spec(text, SpecKind.SERIES, word)
    if "/" in word or word.startswith("~"):
        try:
            return Spec(text, SpecKind.PATH, str(Path(word).expanduser()))
        except RuntimeError:
            raise ReproError(f"{text!r}: no such home folder", "name the whole path") from None
    raise ReproError(f"{text!r} names no build", f"understood: {UNDERSTOOD}")


def variant_of(version: str | None, cuda: str | None, hip: str | None, xpu: str | None) -> str:
    """`cpu`, `cu130`, `rocm6.4`, `xpu`: the local version, else what `torch.version` says."""
    local = (version or "").partition("+")[2].partition(".git")[0]
    if re.fullmatch(r"cpu|cu\d+|rocm[\d.]+|xpu", local):
        return local
    if cuda:
        return "cu" + cuda.replace(".", "")
    if hip:
        return "rocm" + ".".join(hip.split(".")[:2])
    return "xpu" if xpu else "cpu"
