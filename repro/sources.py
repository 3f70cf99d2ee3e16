"""Where builds come from: the addresses of indexes, which are uv's and the user's, never ours."""

from __future__ import annotations

import functools
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from repro import uv
from repro.builds import VARIANT
from repro.errors import ReproError, Unavailable

ASK_LIMIT = 60.0
_NEEDED = "give --nightly-index-url (REPRO_NIGHTLY_INDEX_URL)"


@dataclass(frozen=True)
class Sources:
    """The indexes that a user named.

    Args:
        index_url: where releases, and all that torch needs, come from; None is the PyTorch index
            for torch and its triton, and uv's default index for the rest and as a substitute.
        nightly_index_url: where nightlies come from: the folder that holds a folder a variant.
    """

    index_url: str | None = None
    nightly_index_url: str | None = None

    def __post_init__(self) -> None:
        for option, url in (
            ("--index-url", self.index_url),
            ("--nightly-index-url", self.nightly_index_url),
        ):
            if url is not None and not _is_http(url):
                shown = re.sub(r"//[^/]*@", "//", url)  # it may be no URL that can be taken apart
                raise ReproError(
                    f"{option}: {shown!r} is no http or https URL",
                    f"write it as https://…, or leave {option} away",
                )

    @property
    def default(self) -> str:
        """The default index, without a slash at the end."""
        return (self.index_url or _default_of_uv()).rstrip("/")

    def nightly(self, variant: str) -> str:
        """The index of a variant's nightlies.

        Raises:
            Unavailable: uv does not tell where the PyTorch index is.
        """
        if self.nightly_index_url is None:
            return f"{_pytorch_of_uv()}/nightly/{variant}"
        return f"{_without_variant(self.nightly_index_url)}/{variant}"

    @property
    def has_pytorch_releases(self) -> bool:
        """Whether releases come from a PyTorch index, and not from a place that the user named."""
        if self.index_url is not None:
            return False
        named = self.nightly_index_url
        return named is None or _without_variant(named).endswith("/nightly")

    def release(self, variant: str) -> str:
        """The PyTorch index of a variant's releases; see `has_pytorch_releases`.

        Raises:
            Unavailable: uv does not tell where the PyTorch index is.
        """
        if self.nightly_index_url is None:
            return f"{_pytorch_of_uv()}/{variant}"
        return f"{_without_variant(self.nightly_index_url).removesuffix('/nightly')}/{variant}"


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _without_variant(url: str) -> str:
    """PyTorch's own instructions name the folder of a variant; what is wanted is the one above."""
    return re.sub(rf"/(?:{VARIANT})$", "", url.rstrip("/"))


@functools.cache
def _default_of_uv() -> str:
    """uv's default index, the user's settings included: it prints it in front of requirements."""
    printed = _ask("", "--emit-index-url")
    found = re.search(r"^--(?:default-)?index-url (\S+)", printed, re.MULTILINE)
    if found is None:
        raise Unavailable("uv does not tell its default index", "give --index-url", printed)
    return found[1]


@functools.cache
def _pytorch_of_uv() -> str:
    """The PyTorch index that uv knows for `--torch-backend`, out of what it says it would fetch.

    It names no option that prints it; offline and without its cache it says the page and stops.
    """
    printed = _ask("torch", "--no-cache", "--verbose", "--torch-backend", "cpu")
    found = re.search(r"(https?://\S+)/cpu/torch/", printed)
    if found is None:
        raise Unavailable("uv does not tell where the PyTorch index is", _NEEDED, printed)
    return found[1]


def _ask(requirement: str, *options: str) -> str:
    with tempfile.TemporaryDirectory(prefix="repro-") as made:
        request = Path(made) / "request.in"
        request.write_text(requirement)
        fixed = ("pip", "compile", "--offline", "--no-header", "--no-deps")
        try:
            ended = uv.call([*fixed, *options, request], Path(made), ASK_LIMIT)
        except Unavailable as error:
            return error.log
        return ended.stdout.text + ended.stderr.text
