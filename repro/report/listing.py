"""Which builds exist and which environments are kept, as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from repro.builds import Listed, without_credentials
from repro.inventory import Removed, Stored
from repro.report.screen import table_of

BUILDS_SCHEMA = "repro.builds/1"
ENVIRONMENTS_SCHEMA = "repro.environments/1"


def builds_view(listed: Sequence[Listed], commits: bool) -> Table:
    """The table of `repro builds`.

    Args:
        commits: whether there is a column for them.
    """
    table = table_of("build", "variant", "date", "from", *(["commit"] if commits else []))
    for one in listed:
        build = one.build
        cells = (
            str(build.version),
            build.variant or "",
            build.day.isoformat() if build.day else "",
            str(build.origin),
            *([one.git_version or ""] if commits else []),
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def builds_json(listed: Sequence[Listed]) -> str:
    """The object that `repro builds --json` prints."""
    builds = [
        {
            "version": str(one.build.version),
            "date": one.build.day.isoformat() if one.build.day else None,
            "variant": one.build.variant,
            "nightly": one.build.is_nightly,
            "git_version": one.git_version,
            "from": one.build.origin,
            "filename": one.build.filename,
            "url": without_credentials(one.build.url),
        }
        for one in listed
    ]
    return json.dumps({"schema": BUILDS_SCHEMA, "builds": builds}, indent=2)


def environments_view(stored: Sequence[Stored], total: int) -> Group:
    """The table of `repro env list`.

    Args:
        total: bytes of all together, what they share counted once.
    """
    table = table_of("environment", "variant", "python", "commit", "last used", "size", "frees", "")
    for one in stored:
        cells = (
            one.name,
            one.variant or "",
            one.python or "",
            (one.git_version or "")[:12],
            one.used.astimezone().strftime("%Y-%m-%d %H:%M"),
            decimal(one.size),
            decimal(one.frees),
            "in use" if one.in_use else "" if one.version else "damaged",
        )
        table.add_row(*(Text(cell) for cell in cells))
    return Group(table, Text(f"{decimal(total)} in all, what they share counted once"))


def environments_json(stored: Sequence[Stored], total: int) -> str:
    """The object that `repro env list --json` prints; sizes are bytes, times are UTC."""
    environments = [
        asdict(one) | {"used": one.used.isoformat(timespec="seconds")} for one in stored
    ]
    envelope = {"schema": ENVIRONMENTS_SCHEMA, "environments": environments, "size": total}
    return json.dumps(envelope, indent=2)


def removed_words(removed: Removed) -> str:
    """What was removed, and what that freed."""
    return f"removed {removed.name}, {decimal(removed.frees)} freed"
