"""Which releases of torch exist, asked through uv, so with the user's own index settings."""

from __future__ import annotations

import re
from pathlib import Path

from repro import uv
from repro.builds import Spec, SpecKind

RESOLVE_LIMIT = 120.0


def newest(spec: Spec, python: Path, folder: Path) -> str:
    """The version that `latest` or a series (`2.12`) means today.

    Args:
        spec: a spec of kind `LATEST` or `SERIES`; a release is returned as it is.
        python: the interpreter that is to run it; a version without a wheel for it is no answer.
        folder: an empty folder of ours to work in.

    Raises:
        repro.uv.InstallError: no such version, or the index cannot be reached.
    """
    if spec.kind is SpecKind.RELEASE:
        return spec.value
    wanted = "torch" if spec.kind is SpecKind.LATEST else f"torch=={spec.value}.*"
    folder.mkdir(parents=True, exist_ok=True)
    request = folder / "request.in"
    request.write_text(wanted + "\n")
    ended = uv.call(
        ["pip", "compile", "--no-deps", "--no-header", "--no-annotate", "--only-binary=torch",
         "--python", python, request],
        folder,
        RESOLVE_LIMIT,
    )  # fmt: skip
    found = re.search(r"^torch==(\S+)", ended.stdout.text, re.MULTILINE)
    if found is None:
        raise uv.InstallError("uv resolved no torch", "see the log", ended.stdout.text)
    return found[1]
