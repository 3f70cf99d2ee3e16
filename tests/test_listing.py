"""`repro builds` and `repro env`: plain columns off a terminal, and JSON that states its schema."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, date, datetime

import pytest
from packaging.version import Version

from repro.builds import Build, Listed, Origin
from repro.inventory import Removed, Stored
from repro.report.listing import (
    builds_json,
    builds_view,
    environments_json,
    environments_view,
    removed_words,
)
from repro.report.screen import console, show

VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "TERM")
COMMIT = "2236df1770800ffea5697b11b0bb0d910b2e59e1"
USED = datetime(2026, 5, 28, 12, 30, 59, 123456, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def shown(monkeypatch: pytest.MonkeyPatch, content) -> list[list[str]]:
    """What is printed off a terminal, a line each, cut into its columns."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    show(console(), content)
    text = out.getvalue()
    assert "\x1b" not in text
    assert text.endswith("\n")
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    return [[cell.strip() for cell in line.split("  ") if cell] for line in text.splitlines()]


def build(version: str, origin: Origin = Origin.PYTORCH, shelf: str = "", **more) -> Build:
    name = f"torch-{version}-cp312-cp312-linux_x86_64.whl"
    url = f"https://index.example/{name.replace('+', '%2B')}"
    return Build(Version(version), name, url, origin, shelf, **more)


NIGHTLY = Listed(build("2.13.0.dev20260528+cu130", shelf="cu130"), COMMIT)
RELEASE = Listed(build("2.12.1", Origin.DEFAULT, uploaded=date(2026, 4, 2)))
BARE = Listed(build("2.9.1", Origin.DEFAULT))


def test_builds_are_a_line_each(monkeypatch):
    assert shown(monkeypatch, builds_view([BARE, RELEASE, NIGHTLY], commits=False)) == [
        ["build", "variant", "date", "from"],
        ["2.9.1", "default index"],
        ["2.12.1", "2026-04-02", "default index"],
        ["2.13.0.dev20260528+cu130", "cu130", "2026-05-28", "PyTorch index"],
    ]


def test_commits_are_whole_and_only_where_they_were_asked_for(monkeypatch):
    assert shown(monkeypatch, builds_view([RELEASE, NIGHTLY], commits=True)) == [
        ["build", "variant", "date", "from", "commit"],
        ["2.12.1", "2026-04-02", "default index"],
        ["2.13.0.dev20260528+cu130", "cu130", "2026-05-28", "PyTorch index", COMMIT],
    ]
    assert COMMIT not in str(shown(monkeypatch, builds_view([NIGHTLY], commits=False)))


def test_no_builds_are_a_heading(monkeypatch):
    assert shown(monkeypatch, builds_view([], False)) == [["build", "variant", "date", "from"]]


def test_many_builds_are_as_many_lines_in_columns(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    listed = [Listed(build(f"2.{minor}.0+cpu", shelf="cpu")) for minor in range(200)]
    show(console(), builds_view(listed, commits=True))
    lines = out.getvalue().splitlines()
    assert len(lines) == 201
    assert len({line.index("PyTorch") for line in lines[1:]} | {lines[0].index("from")}) == 1


def test_the_json_of_builds():
    printed = json.loads(builds_json([RELEASE, NIGHTLY]))
    assert printed == {
        "schema": "repro.builds/1",
        "builds": [
            {
                "version": "2.12.1",
                "date": "2026-04-02",
                "variant": None,
                "nightly": False,
                "git_version": None,
                "from": "default index",
                "filename": "torch-2.12.1-cp312-cp312-linux_x86_64.whl",
                "url": "https://index.example/torch-2.12.1-cp312-cp312-linux_x86_64.whl",
            },
            {
                "version": "2.13.0.dev20260528+cu130",
                "date": "2026-05-28",
                "variant": "cu130",
                "nightly": True,
                "git_version": COMMIT,
                "from": "PyTorch index",
                "filename": "torch-2.13.0.dev20260528+cu130-cp312-cp312-linux_x86_64.whl",
                "url": "https://index.example/"
                "torch-2.13.0.dev20260528%2Bcu130-cp312-cp312-linux_x86_64.whl",
            },
        ],
    }
    assert json.loads(builds_json([])) == {"schema": "repro.builds/1", "builds": []}
    assert json.loads(builds_json([BARE]))["builds"][0]["date"] is None


def test_credentials_of_an_index_are_not_printed(monkeypatch):
    secret = Build(
        Version("2.12.1"), "torch.whl", "https://me:hunter2@index.example/torch.whl", Origin.GIVEN
    )
    assert "hunter2" not in builds_json([Listed(secret)])
    assert json.loads(builds_json([Listed(secret)]))["builds"][0]["url"].startswith("https://index")
    assert "hunter2" not in str(shown(monkeypatch, builds_view([Listed(secret)], True)))


# --- environments -------------------------------------------------------------------------------


def stored(name: str = "torch-2.12.1+cpu-py3.12-aaaa-bbbb", **more) -> Stored:
    values = {
        "version": "2.12.1+cpu", "variant": "cpu", "git_version": COMMIT, "triton": None,
        "python": "3.12.1", "used": USED, "in_use": False, "size": 1_234_567_890, "frees": 5000,
    }  # fmt: skip
    return Stored(name, **(values | more))


def test_environments_are_a_line_each(monkeypatch):
    damaged = stored(
        "broken", version=None, variant=None, git_version=None, python=None, size=0, frees=0
    )
    busy = stored("busy", in_use=True)
    half = stored("half", in_use=True, version=None)
    lines = shown(monkeypatch, environments_view([stored(), busy, damaged, half], 7_000_000))
    time = USED.astimezone().strftime("%Y-%m-%d %H:%M")
    rest = ["cpu", "3.12.1", COMMIT[:12], time, "1.2 GB", "5.0 kB"]
    assert lines == [
        ["environment", "variant", "python", "commit", "last used", "size", "frees"],
        [stored().name, *rest],
        ["busy", *rest, "in use"],
        ["broken", time, "0 bytes", "0 bytes", "damaged"],
        ["half", *rest, "in use"],  # it is being made anew
        ["7.0 MB in all, what they share counted once"],
    ]


def test_no_environments_are_a_heading_and_a_sum(monkeypatch):
    lines = shown(monkeypatch, environments_view([], 0))
    assert lines[0][0] == "environment"
    assert lines[1:] == [["0 bytes in all, what they share counted once"]]


def test_the_json_of_environments():
    printed = json.loads(environments_json([stored(triton="triton 3.6.0", in_use=True)], 42))
    assert printed == {
        "schema": "repro.environments/1",
        "environments": [
            {
                "name": "torch-2.12.1+cpu-py3.12-aaaa-bbbb",
                "version": "2.12.1+cpu",
                "variant": "cpu",
                "git_version": COMMIT,
                "triton": "triton 3.6.0",
                "python": "3.12.1",
                "used": "2026-05-28T12:30:59+00:00",
                "in_use": True,
                "size": 1_234_567_890,
                "frees": 5000,
            }
        ],
        "size": 42,
    }
    empty = {"schema": "repro.environments/1", "environments": [], "size": 0}
    assert json.loads(environments_json([], 0)) == empty


def test_names_are_text_and_no_markup(monkeypatch):
    lines = shown(monkeypatch, environments_view([stored("[bold]a[/bold] :smile:")], 0))
    assert lines[1][0] == "[bold]a[/bold] :smile:"


@pytest.mark.parametrize(
    ("frees", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (3_100_000_000, "3.1 GB")],
)
def test_what_was_removed_is_said(frees, words):
    assert removed_words(Removed("torch-2.6", frees)) == f"removed torch-2.6, {words} freed"
