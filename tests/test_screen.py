import io
import re
import sys

import pytest

from repro.outcome import Kind, Outcome
from repro.report.live import Live
from repro.report.screen import cases_view, console, runs_view, show
from tests.builders import case, failure, run, untestable

LONG = "expected " + "a very long line " * 20 + "end"
VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "TERM")


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def shown(monkeypatch, content) -> str:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    show(console(), content)
    return out.getvalue()


def test_failures_are_grouped_by_stage_in_pipeline_order(monkeypatch):
    runs = [
        run(name="fine"),
        run(failure("runtime"), "late"),
        run(failure("dynamo_tracing"), "early"),
        run(failure("runtime"), "later"),
        run(untestable(), "gone"),
    ]
    text = shown(monkeypatch, runs_view(runs))
    outline = [line.split("  ") for line in text.split("\n\n")[0].splitlines()]
    assert [line[0] or line[1] for line in outline if line[:2] != ["", ""]] == [
        "fail at dynamo_tracing: Dynamo reads the Python bytecode",
        "early",
        "fail at runtime: the compiled code runs",
        "late",
        "later",
        "untestable at environment: something on this machine is missing",
        "gone",
        "pass",
        "fine",
    ]


def test_a_run_is_shown_with_build_device_time_and_what_happened(monkeypatch):
    lines = shown(monkeypatch, runs_view([run(failure("runtime"), "a")])).splitlines()
    assert lines[1].split() == ["a", "2.12.1", "cu130", "cpu", "12.3", "s"]
    assert lines[2:4] == ["      ValueError in f: it broke", "      <case>/x.py:3"]


def test_columns_stand_below_each_other(monkeypatch):
    runs = [run(failure(), "a"), run(name="a_longer_name", version="2.9.1+cpu", variant="cpu")]
    lines = shown(monkeypatch, runs_view(runs)).splitlines()
    [one] = [line for line in lines if line.startswith("  a ")]
    [other] = [line for line in lines if line.startswith("  a_longer_name ")]
    assert one.index("2.12.1") == other.index("2.9.1")
    assert one.rindex("cpu") == other.rindex("cpu")


def test_a_sentence_for_each_case_follows_the_table(monkeypatch):
    text = shown(monkeypatch, runs_view([run(failure("runtime"), "a"), run(name="b")]))
    assert text.endswith("a fails in 2.12.1 cu130 at runtime.\nb passes in 2.12.1 cu130.\n")


def test_a_hint_is_said_once(monkeypatch):
    runs = [run(untestable(hint="install g++"), name) for name in "ab"]
    assert shown(monkeypatch, runs_view(runs)).count("hint: install g++") == 1


def test_the_backend_is_shown_where_there_are_several(monkeypatch):
    one = [run(name="a")]
    two = [run(name="a"), run(name="a", backend="aot_eager")]
    assert "inductor" not in shown(monkeypatch, runs_view(one))
    assert "cpu aot_eager" in shown(monkeypatch, runs_view(two))


def test_off_a_terminal_nothing_wraps(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(monkeypatch, runs_view([run(failure(message=LONG), "a" * 60)]))
    assert sum(LONG in line for line in text.splitlines()) == 1
    assert text.splitlines()[1].split()[0] == "a" * 60


def test_off_a_terminal_there_are_no_trailing_blanks_and_no_colours(monkeypatch):
    runs = [run(failure(message=LONG)), run(name="b"), run(untestable())]
    text = shown(monkeypatch, runs_view(runs))
    assert not re.search(r"[ \t]+$", text, re.MULTILINE)
    assert "\x1b" not in text
    assert text.endswith(".\n")


@pytest.mark.parametrize("words", ["[cu130]", "[bold]x[/bold]", "[/]", ":smile:", "[link=x]"])
def test_words_in_brackets_are_no_markup(monkeypatch, words):
    runs = [run(failure(message=words), "a", variant=words), run(untestable(words, hint=words))]
    text = shown(monkeypatch, runs_view(runs))
    assert f"2.12.1 {words}" in text
    assert f"ValueError in f: {words}" in text
    assert f"hint: {words}" in text
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    console(stderr=True).print(f"installing {words}")
    assert out.getvalue() == f"installing {words}\n"


def test_cases_are_listed(monkeypatch):
    cases = [
        case("a", title="A [b] " + LONG, devices=("cuda", "cpu"), ranks=2),
        case("longer_name", title="c"),
    ]
    lines = shown(monkeypatch, cases_view(cases)).splitlines()
    assert lines[0].split() == ["case", "devices", "ranks", "title"]
    assert re.fullmatch(rf"a +cuda, cpu +2 +A \[b\] {re.escape(LONG)}", lines[1])
    assert len(lines) == 3


def test_in_a_terminal_there_are_colours(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[32m" in shown(monkeypatch, runs_view([run()]))


def test_no_color_holds_in_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(monkeypatch, runs_view([run(), run(failure())]))
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|9[0-9])m", text)


def test_a_run_without_an_answer_is_shown(monkeypatch):
    bare = run(Outcome(Kind.FAIL, "unknown"), version=None, spec="2.9", device=None)
    assert "unknown" in shown(monkeypatch, runs_view([bare]))


# --- what is being done -------------------------------------------------------------------------


def said(monkeypatch, steps: int, *words: str) -> str:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with Live(console(stderr=True), steps) as live:
        for word in words:
            live.say(word)
            live.step()
    return out.getvalue()


def test_narration_says_how_many_steps_are_left(monkeypatch):
    assert said(monkeypatch, 2, "running a", "running b") == (
        "running a (2 of 2 left)\nrunning b (1 of 2 left)\n"
    )


def test_a_single_step_needs_no_count(monkeypatch):
    assert said(monkeypatch, 1, "running [a]") == "running [a]\n"
