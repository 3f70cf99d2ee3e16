import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from repro.findings import REPORTED, Finding, State, Thing
from repro.outcome import Evidence, Frame, Outcome
from repro.report.markdown import LIMIT, fenced, runs_markdown, span
from tests.builders import case, failure, run, untestable

PARSER = MarkdownIt("commonmark").enable("table")
_NASTY = st.lists(
    st.text(max_size=6)
    | st.sampled_from(
        ["`", "```", "````", "|", "\\", "\\|", "\n", "\n\n", "\r", "~~~", "# ", "- ", "> ", " "]
    )
    | st.sampled_from(
        ["</details>", "<img src=x>", "@someone", "<!--", "&lt;", "*", "_", "[a](b)", "    "]
    ),
    max_size=12,
).map("".join)


def parsed(text: str) -> list:
    """Every token of a document, those inside paragraphs and cells too."""
    tokens = []
    for token in PARSER.parse(text):
        tokens += [token, *(token.children or [])]
    return tokens


def shape(text: str) -> list[str]:
    """What a document is made of, without the words in it."""
    return [token.type for token in parsed(text) if token.type != "text" or token.content]


def frame_of(text: str) -> list[str]:
    """What stands around the words of a document: blocks, cells, links, emphasis, HTML."""
    words = ("text", "text_special", "code_inline", "inline", "softbreak")
    return [token.type for token in parsed(text) if token.type not in words]


def contents(text: str, kind: str) -> list[str]:
    return [token.content for token in parsed(text) if token.type == kind]


# --- pieces -------------------------------------------------------------------------------------


@given(_NASTY, st.sampled_from(["", "python", "sh"]))
@example("```\n# out\n```", "")
@example("    ````", "")
def test_a_fence_holds_any_text(text, language):
    document = f"before\n\n{fenced(text, language)}\n\nafter\n"
    assert shape(document) == [
        "paragraph_open",
        "inline",
        "text",
        "paragraph_close",
        "fence",
        "paragraph_open",
        "inline",
        "text",
        "paragraph_close",
    ]
    [inside] = contents(document, "fence")
    same = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd").rstrip()
    assert inside.rstrip() == same


@given(_NASTY)
@example("`")
@example("` `")
@example("a`b``c")
def test_a_span_holds_any_text_in_one_line(text):
    made = span(text)
    assert "\n" not in made
    assert "\r" not in made
    words = [token for token in parsed(f"x {made} y") if token.type not in ("text", "inline")]
    inside = [token for token in words if not token.type.startswith("paragraph")]
    if re.sub(r"\s", "", text):
        [only] = inside
        assert only.type == "code_inline"
    else:
        assert inside == []


@given(_NASTY)
@example("a|b")
@example("a\\|b")
@example("`|`")
def test_a_span_never_leaves_its_cell(text):
    table = f"| a | b |\n|---|---|\n| {span(text)} | end |\n"
    types = [token.type for token in parsed(table)]
    assert types.count("td_open") == 2
    assert contents(table, "inline")[-1] == "end"


@pytest.mark.parametrize("text", ["a|b", "a\\|b", "a\\\\|b", "|", "\\|", "||"])
def test_a_pipe_in_a_span_is_escaped_for_every_reader(text):
    """GitHub takes a pipe after two backslashes for the end of the cell."""
    for found in re.finditer(r"(\\*)\|", span(text)):
        assert len(found[1]) % 2 == 1


def test_plain_text_stays_readable():
    assert span("torch/_ops.py:12 in f") == "`torch/_ops.py:12 in f`"
    assert span("") == span(" \n ") == ""
    assert span("two\nlines") == "`two lines`"
    assert fenced("a\n", "python") == "```python\na\n```"


# --- the report ---------------------------------------------------------------------------------


def nasty_run(text: str, **more):
    outcome = failure(
        message=text,
        function=text,
        exceptions=(text,),
        signature=text,
        phases=(text,),
        frames=(Frame(text, 1, text),),
        notes=(text,),
        evidence=Evidence.PHASE,
    )
    return run(outcome, log=text, **more)


PLAIN = "word"


@given(_NASTY.filter(lambda text: text.strip()))
@settings(deadline=None, max_examples=60)
@example("```\n</details>\n# out\n| a | b |")
@example("@someone <img src=x>")
def test_foreign_text_never_leaves_its_place(text):
    """The document is made of the same parts whatever the messages, logs and paths say."""
    text = text if re.sub(r"\s", "", text) else "x"
    assert frame_of(runs_markdown([case()], [nasty_run(text)])) == frame_of(
        runs_markdown([case()], [nasty_run(PLAIN)])
    )


@given(_NASTY.filter(lambda text: re.sub(r"\s", "", text)))
@settings(deadline=None, max_examples=60)
@example("/tmp/<img src=x>/@someone/*a*/`b`")
@example("a | b")
def test_what_was_asked_for_never_leaves_its_place(text):
    """A build that never told its version is named by its spec, which can be any path."""

    def document(spec):
        runs = [run(untestable(), version=None, spec=spec, log="x")]
        return runs_markdown([case()], [*runs, run(failure(), version=None, spec=spec)])

    assert frame_of(document(text)) == frame_of(document(PLAIN))


@given(_NASTY.filter(lambda text: re.sub(r"\s", "", text)))
@settings(deadline=None, max_examples=40)
def test_title_and_source_never_leave_their_place(text):
    def document(words):
        return runs_markdown([case(title=words, source=words)], [run(failure(), log="x")])

    assert frame_of(document(text)) == frame_of(document(PLAIN))


def test_html_is_that_of_the_folds_alone():
    text = "<script>alert(1)</script>"
    runs = [nasty_run(text), run(untestable(text), version=None, spec=f"/x/{text}", log=text)]
    document = runs_markdown([case(title=text)], runs)
    html = contents(document, "html_block") + contents(document, "html_inline")
    assert "details" in "".join(html)
    assert not [piece for piece in html if "<script" in piece]


def test_mentions_are_not_live():
    text = "@someone"
    runs = [nasty_run(text), run(untestable(text), version=None, spec="./@someone", log=text)]
    document = runs_markdown([case(title=text)], runs)
    assert not [words for words in contents(document, "text") if "@someone" in words]
    assert not [piece for piece in contents(document, "html_block") if "@someone" in piece]


def test_the_report_has_everything_a_maintainer_asks_for():
    source = "import torch\nprint('the case')\n"
    document = runs_markdown(
        [case("hybridep", source, title="Dispatch breaks")],
        [
            run(failure(), "hybridep", log="the whole log"),
            run(name="hybridep", version="2.13.0+cpu", variant="cpu", spec="latest"),
        ],
    )
    assert document.startswith("# `Dispatch breaks`\n")
    said = "hybridep fails in 2.12.1 cu130 at inductor_lowering; passes in 2.13.0 cpu."
    assert said in document.replace("`", "")
    assert "`ValueError in f: it broke`" in document
    assert "`0123456789ab`" in document
    assert "- the stage rests on: phase" in document
    fences = contents(document, "fence")
    assert any("torch/_inductor/graph.py:7 in run\n<case>/x.py:3 in f" in text for text in fences)
    assert "the whole log\n" in fences
    assert source in fences
    reproduce = document[document.index("## How to reproduce") :]
    assert "torch==2.12.1" in reproduce
    assert "python hybridep.py" in reproduce
    assert "repro run --case hybridep --build 2.12.1 --build latest" in reproduce


def test_the_table_has_failures_first_in_pipeline_order():
    runs = [run(name="a"), run(failure("runtime"), "b"), run(failure("dynamo_guards"), "c")]
    rows = [line for line in runs_markdown([case()], runs).splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[1] for row in rows] == ["stage", "dynamo_guards", "runtime", ""]


def test_the_ladder_is_shown_where_it_was_climbed():
    outcome = failure("accuracy", ladder=(("eager", "pass"), ("inductor", "wrong_result")))
    document = runs_markdown([case()], [run(outcome)])
    assert "- by backend: `eager pass, inductor wrong_result`" in document


@pytest.mark.parametrize("spec", ["current", "./venv"])
def test_a_build_of_unknown_version_is_not_asked_of_pip(spec):
    document = runs_markdown([case()], [run(failure(), version=None, spec=spec)])
    assert f"torch=={spec}" not in document


def test_a_path_is_given_as_the_version_that_was_found_there():
    document = runs_markdown([case()], [run(failure(), spec="/a/venv")])
    assert "--build 2.12.1" in document


def test_a_path_with_a_blank_is_quoted_in_the_command():
    document = runs_markdown([case()], [run(failure(), version=None, spec="/a b/venv")])
    assert "--build '/a b/venv'" in document


# --- the environment ----------------------------------------------------------------------------


def test_versions_are_what_a_maintainer_asks_for():
    environment = [
        Finding(Thing.PLATFORM, State.OK, "Debian 12"),
        Finding(Thing.GPU, State.WARNING, "no\ndriver", "a", "b"),
        Finding(Thing.DISK, State.OK, "41 GB free"),
        Finding(Thing.CACHE, State.OK, "/home/x/.cache"),
        Finding(Thing.INDEX, State.OK, "987 files"),
        Finding(Thing.PYTORCH_INDEX, State.OK, "654 files"),
        Finding(Thing.LINKS, State.OK, "files are shared"),
    ]
    document = runs_markdown([case()], [run(failure())], environment)
    section = document[document.index("## Versions") :]
    assert section == "## Versions\n\n```\nplatform: Debian 12\ngpu: no driver\n```\n"


def test_each_thing_that_is_reported_has_a_line():
    environment = [Finding(name, State.OK, f"<{name}>") for name in Thing]
    [*_, versions] = contents(runs_markdown([case()], [run(failure())], environment), "fence")
    assert sorted(versions.splitlines()) == sorted(f"{name}: <{name}>" for name in REPORTED)


def test_a_value_of_backticks_stays_within_its_fence():
    environment = [
        Finding(Thing.CPU, State.OK, "a ```` b"),
        Finding(Thing.GPU, State.OK, "```"),
    ]
    document = runs_markdown([case()], [run(failure())], environment)
    assert contents(document, "fence")[-1] == "cpu: a ```` b\ngpu: ```\n"
    assert document.endswith("\n`````\n")


def test_without_an_environment_there_are_no_versions():
    assert "## Versions" not in runs_markdown([case()], [run(failure())])


@given(_NASTY)
@settings(deadline=None, max_examples=40)
@example("```\n# out")
def test_versions_never_leave_their_place(text):
    def document(words):
        return runs_markdown([case()], [run(failure())], [Finding(Thing.CPU, State.OK, words)])

    assert frame_of(document(text)) == frame_of(document(PLAIN))


def test_versions_count_where_logs_are_shortened():
    runs = [run(failure(), log="x" * 19_000) for _ in range(3)]
    environment = [Finding(Thing.CPU, State.OK, "y" * 20_000) for _ in range(20)]
    assert "left out" not in runs_markdown([case()], runs)
    document = runs_markdown([case()], runs, environment)
    assert len(document) <= LIMIT
    assert "left out" in document
    assert document.count("cpu: yyy") == 20


# --- the limit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 40])
def test_huge_logs_are_shortened_to_fit(count):
    logs = "first\n" + "x" * 300_000 + "\nlast"
    document = runs_markdown([case()], [run(failure(), log=logs) for _ in range(count)])
    assert len(document) <= LIMIT == 65_536
    assert "characters left out" in document
    assert "## How to reproduce" in document
    if count == 1:
        assert "first" in document
        assert "last" in document


def test_logs_of_untestable_runs_are_shortened_too():
    runs = [run(untestable(), log="x" * 300_000) for _ in range(10)]
    assert len(runs_markdown([case()], runs)) <= LIMIT


def test_logs_that_fit_are_whole():
    document = runs_markdown([case()], [run(failure(), log="y" * 19_000)])
    assert "y" * 19_000 in document
    assert "left out" not in document


def test_logs_of_backticks_fit_too():
    document = runs_markdown([case()], [run(failure(), log="`" * 300_000)])
    assert len(document) <= LIMIT


def test_huge_messages_fit():
    outcome = failure(message="m" * 20_000, signature="s" * 300)
    runs = [run(replace(outcome, rank=number)) for number in range(3)]
    assert len(runs_markdown([case()], runs)) <= LIMIT


def test_many_failures_fit():
    runs = [run(failure(), f"case_{number}", log="x" * 5_000) for number in range(100)]
    assert len(runs_markdown([case()], runs)) <= LIMIT


def test_a_pass_needs_no_logs():
    document = runs_markdown([case()], [run(Outcome(failure().kind.PASS), log="noise")])
    assert "noise" not in document
    assert "## Error logs" not in document
