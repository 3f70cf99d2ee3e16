"""Options that several commands share, and what they come to."""

from __future__ import annotations

import functools
import getpass
import os
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repro.builds import VARIANT
from repro.case import LONGEST_TIMEOUT
from repro.errors import ReproError

if TYPE_CHECKING:
    from rich.console import Console

    from repro.supply import Settings

DEFAULT_MAX_SIZE = "40 GB"
_INDEXES = (
    click.option(
        "--index-url",
        envvar="REPRO_INDEX_URL",
        show_envvar=True,
        metavar="URL",
        help="Package index for releases, their triton and all that a torch needs; by default the "
        "PyTorch index for torch and triton, and uv's default index for the rest.",
    ),
    click.option(
        "--nightly-index-url",
        envvar="REPRO_NIGHTLY_INDEX_URL",
        show_envvar=True,
        metavar="URL",
        help="Index of nightlies, such as https://HOST/whl/nightly, below which is a folder for "
        "each variant; by default that of the PyTorch index.",
    ),
    click.option(
        "--variant",
        envvar="REPRO_VARIANT",
        show_envvar=True,
        default="auto",
        show_default=True,
        metavar="NAME",
        help="cpu, cu130, rocm6.4, xpu; auto is cpu without an NVIDIA GPU, else the newest CUDA "
        "that its driver can run.",
    ),
    click.option(
        "--python",
        envvar="REPRO_PYTHON",
        show_envvar=True,
        metavar="X.Y|PATH",
        help="Python of the environments: a version, an executable or a virtual environment; by "
        "default the one that runs repro.",
    ),
)
max_size_option = click.option(
    "--max-size",
    envvar="REPRO_MAX_SIZE",
    show_envvar=True,
    default=DEFAULT_MAX_SIZE,
    show_default=True,
    metavar="SIZE",
    help="Disk that environments may take; the least recently used go first.",
)


INSTALLED_CASES = Path(__file__).parent.parent / "cases"
INTERRUPTED = 130
case_option = click.option(
    "--case",
    "names",
    multiple=True,
    metavar="NAME",
    help="A case by name, or the path of its file; every case where none is named.",
)
device_option = click.option(
    "--device",
    type=click.Choice(["cpu", "cuda", "xpu", "mps"]),
    help="The only device to use; by default the case's first that is there.",
)
repeat_option = click.option(
    "--repeat", type=click.IntRange(1), default=1, metavar="N", help="Run each N times."
)
cases_dir_option = click.option(
    "--cases-dir",
    "cases_dirs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Look for cases here too, after ./cases.",
)


def _a_number(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Refuse NaN, which lies within every range."""
    if value is not None and value != value:
        raise click.BadParameter("nan is not a number of seconds")
    return value


timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, LONGEST_TIMEOUT, min_open=True),
    callback=_a_number,
    metavar="S",
    help="Seconds for one run; by default the case's.",
)


def settings_options(max_size: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds the options about builds; the command gets their sum as `settings`.

    Args:
        max_size: whether the command may install, so that old environments may have to go.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_settings(
            *arguments: Any,
            index_url: str | None,
            nightly_index_url: str | None,
            variant: str,
            python: str | None,
            max_size: str = DEFAULT_MAX_SIZE,
            **others: Any,
        ) -> Any:
            settings = _settings(index_url, nightly_index_url, variant, python, max_size)
            return command(*arguments, settings=settings, **others)

        options = (*_INDEXES, max_size_option) if max_size else _INDEXES
        for option in reversed(options):
            with_settings = option(with_settings)
        return with_settings

    return decorate


def _settings(
    index_url: str | None,
    nightly_index_url: str | None,
    variant: str,
    python: str | None,
    max_size: str,
) -> Settings:
    from repro.disk import parse_size
    from repro.environments import cache_folder
    from repro.sources import Sources
    from repro.supply import Settings

    if variant != "auto" and not re.fullmatch(VARIANT, variant):
        raise ReproError(
            f"--variant: {variant!r} is none", "auto, cpu, cu130, rocm6.4 and xpu are understood"
        )
    return Settings(
        folder=cache_folder(),
        sources=Sources(index_url or None, nightly_index_url or None),
        variant=variant,
        python=python or None,
        max_size=parse_size(max_size),
    )


def narrator(to: Console) -> Callable[[str], None]:
    """Says what the user must know, as a line that stays."""
    redact = redaction()
    return lambda line: to.print(f"note: {redact(line)}")


def redaction() -> Callable[[str], str]:
    """Takes out of a text what names this machine and its user, and what is secret."""
    from repro.report.redact import Machine, redact

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        user = str(os.getuid())
    machine = Machine(os.path.expanduser("~"), user, socket.gethostname())
    return lambda text: redact(text, machine)


def folders(cases_dirs: Sequence[Path]) -> list[Path]:
    """Where cases are looked for, the first that has a name wins."""
    from repro.case import case_folders

    return case_folders(cases_dirs, Path.cwd(), INSTALLED_CASES)
