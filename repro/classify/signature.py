"""What makes two failures the same bug."""

from __future__ import annotations

import re

_NORMAL: tuple[tuple[str, str], ...] = (
    (r"0x[0-9a-fA-F]+", "0xN"),
    (r"(?:/+[\w.+@-]+)+/+([\w.+@-]+)", r"\1"),
    (r"\b__main__\.|\bcase_\w+?\.", ""),
    (r"\b(buf|op|arg|primals_|tangents_|s|u)\d+(_\d+)?\b", r"\1N"),
    (r"\b\d+(\.\d+)?\b", "N"),
    (r"\s+", " "),
)


def normalised_line(message: str) -> str:
    """The first line that says something, without what changes from run to run."""
    line = next((part.strip() for part in message.splitlines() if part.strip()), "")
    return _normal(_normal(line)[:200].strip())


def _normal(line: str) -> str:
    """Until nothing changes any more: one replacement can make room for another."""
    before = None
    while line != before:
        before = line
        for pattern, replacement in _NORMAL:
            line = re.sub(pattern, replacement, line)
    return line


def signature(stage: str, exception: str | None, function: str | None, message: str | None) -> str:
    """What makes two failures the same bug: stage, innermost type, raising function, first line."""
    parts = (stage, exception or "-", function or "-", normalised_line(message or "") or "-")
    return " | ".join(parts)
