"""Write docs/reference.md from the commands' own help: `python docs/generate.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from repro.cli import group

REFERENCE = Path(__file__).parent / "reference.md"


def reference() -> str:
    """The reference page: the help of every command, as it is printed at 100 columns."""
    parts = ["# Reference", "", "Written by `python docs/generate.py` from `--help`.", ""]
    settings: dict[str, Any] = {**group.context_settings, "terminal_width": 100}
    context = click.Context(group, info_name="repro", **settings)
    for inner in _all(context):
        parts += [f"## {inner.command_path}", "", "```", inner.command.get_help(inner), "```", ""]
    return "\n".join(parts)


def _all(context: click.Context) -> Iterator[click.Context]:
    """A command and all below it."""
    yield context
    if isinstance(context.command, click.Group):
        for name, command in sorted(context.command.commands.items()):
            settings: dict[str, Any] = {**group.context_settings, "terminal_width": 100}
            yield from _all(click.Context(command, context, info_name=name, **settings))


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
