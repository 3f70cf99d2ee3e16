import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.case import (
    DEFAULT_TIMEOUT,
    Case,
    CaseError,
    case_files,
    case_folders,
    find_cases,
    parse_case,
    read_case,
)
from tests.builders import HEADER, header

X = Path("/cases/x.py")


def failing(source: str, path: Path = X) -> CaseError:
    with pytest.raises(CaseError) as caught:
        parse_case(path, source)
    return caught.value


# --- a header that is right ---------------------------------------------------------------------


def test_every_key_is_read():
    source = header(
        'title = " HybridEP dispatch "',
        'issue = "https://github.com/pytorch/torchtitan/issues/3439"',
        'devices = ["cuda", "cpu"]',
        "ranks = 2",
        "timeout = 12.5",
        "backward = true",
        before='requires-python = ">=3.10"\ndependencies = ["torch>=2.6,<3"]',
        compile_='backend = "aot_eager"\nfullgraph = true\ndynamic = false\nmode = "default"\n'
        "options = { max_autotune = true }",
    )
    read = parse_case(X, source)
    assert read.name == "x"
    assert read.path == X
    assert read.source == source
    assert read.title == "HybridEP dispatch"
    assert read.issue == "https://github.com/pytorch/torchtitan/issues/3439"
    assert read.devices == ("cuda", "cpu")
    assert read.ranks == 2
    assert read.timeout == 12.5
    assert read.backward is True
    assert read.compile == {
        "backend": "aot_eager",
        "fullgraph": True,
        "dynamic": False,
        "mode": "default",
        "options": {"max_autotune": True},
    }
    assert read.backend == "aot_eager"
    assert read.admits("2.6.0")
    assert not read.admits("3.0.0")


def test_what_is_left_out_has_a_default():
    read = parse_case(X, header('title = "t"'))
    assert read == Case("x", X, header('title = "t"'), "t")
    assert (read.issue, read.devices, read.ranks, read.timeout) == (None, ("cpu",), 1, 300.0)
    assert (read.backward, read.compile, read.backend) == (False, {}, "inductor")
    assert DEFAULT_TIMEOUT == 300.0
    assert read.admits("1.0")


def test_a_header_may_stand_below_other_comments():
    assert parse_case(X, "#!/usr/bin/env python\n# a note\n\n" + HEADER).title == "A title"


def test_blocks_of_another_type_are_not_the_header():
    other = "# /// other\n# anything [\n# ///\n\n"
    assert parse_case(X, other + HEADER).title == "A title"


def test_windows_line_ends_are_read():
    assert parse_case(X, HEADER.replace("\n", "\r\n")).title == "A title"


@pytest.mark.parametrize("odd", ["\u2028", "\x85"])
def test_only_line_feeds_end_a_line_of_the_header(odd):
    source = header(f'title = "t" # a{odd}b', "ranks = 0")
    assert str(failing(source)).startswith("/cases/x.py:4: tool.repro.ranks: ")


@pytest.mark.parametrize("name", ["torch", "Torch", "TORCH", "torch[opt-einsum]"])
def test_a_requirement_on_torch_may_be_spelt_as_packaging_allows(name):
    source = header('title = "t"', before=f'dependencies = ["{name}>=2.9"]')
    assert parse_case(X, source).admits("2.9.1")
    assert not parse_case(X, source).admits("2.8.0")


@pytest.mark.parametrize(
    ("wanted", "version", "admitted"),
    [
        (">=2.10.0.dev0", "2.10.0.dev20251201", True),
        (">=2.10.0.dev0", "2.10.0.dev20251201+cpu", True),
        (">=2.10.0.dev0", "2.10.0", True),
        (">=2.10.0.dev0", "2.9.1", False),
        (">=2.10", "2.9.1", False),
        (">=2.9", "2.10.0", True),
        (">=2.10", "2.10.0.dev20251201", False),
        (">=2.10", "2.11.0.dev20260301", True),
        ("<2.10", "2.9.1+cu130", True),
        ("<2.10", "2.10.0", False),
        ("", "2.11.0.dev20260301", True),
    ],
)
def test_versions_are_admitted_by_their_order_nightlies_included(wanted, version, admitted):
    source = header('title = "t"', before=f'dependencies = ["torch{wanted}"]')
    assert parse_case(X, source).admits(version) is admitted


# --- a header that is wrong ---------------------------------------------------------------------

# (lines of [tool.repro], lines before it, lines of compile, line of the error, what it says)
WRONG = {
    "unknown key": (['title = "t"', "rank = 2"], "", "", 4, "tool.repro.rank: unknown key"),
    "title of another type": (["title = 3"], "", "", 3, "tool.repro.title: must be text, not 3"),
    "empty title": (['title = "  "'], "", "", 3, "tool.repro.title: is missing"),
    "no title": (["ranks = 1"], "", "", 2, "tool.repro.title: is missing"),
    "issue of another type": (['title = "t"', "issue = 3"], "", "", 4, "tool.repro.issue: must be"),
    "devices as text": (['title = "t"', 'devices = "cpu"'], "", "", 4, "tool.repro.devices: must"),
    "no devices": (['title = "t"', "devices = []"], "", "", 4, "tool.repro.devices: must name"),
    "unknown device": (
        ['title = "t"', 'devices = ["cpu", "tpu"]'],
        "",
        "",
        4,
        "tool.repro.devices: must name one or more of cpu, cuda, xpu, mps",
    ),
    "device of another type": (
        ['title = "t"', "devices = [[1]]"],
        "",
        "",
        4,
        "tool.repro.devices: must name",
    ),
    "no ranks": (['title = "t"', "ranks = 0"], "", "", 4, "tool.repro.ranks: must be from 1 to 64"),
    "many ranks": (['title = "t"', "ranks = 65"], "", "", 4, "tool.repro.ranks: must be from 1"),
    "ranks as bool": (
        ['title = "t"', "ranks = true"],
        "",
        "",
        4,
        "tool.repro.ranks: must be a whole number, not True",
    ),
    "ranks as fraction": (['title = "t"', "ranks = 1.5"], "", "", 4, "tool.repro.ranks: must be"),
    "timeout nought": (['title = "t"', "timeout = 0"], "", "", 4, "tool.repro.timeout: must be"),
    "timeout below": (['title = "t"', "timeout = -1"], "", "", 4, "tool.repro.timeout: must be"),
    "timeout endless": (['title = "t"', "timeout = inf"], "", "", 4, "tool.repro.timeout: must be"),
    "timeout nan": (['title = "t"', "timeout = nan"], "", "", 4, "tool.repro.timeout: must be"),
    "timeout as bool": (['title = "t"', "timeout = true"], "", "", 4, "tool.repro.timeout: must"),
    "timeout as text": (['title = "t"', 'timeout = "9"'], "", "", 4, "tool.repro.timeout: must be"),
    "timeout that no float holds": (
        ['title = "t"', "timeout = 1" + "0" * 400],
        "",
        "",
        4,
        "tool.repro.timeout: must be",
    ),
    "backward as number": (
        ['title = "t"', "backward = 1"],
        "",
        "",
        4,
        "tool.repro.backward: must be true or false, not 1",
    ),
    "compile of another type": (
        ['title = "t"', "compile = 1"],
        "",
        "",
        4,
        "tool.repro.compile: must be a table",
    ),
    "unknown compile key": (
        ['title = "t"'],
        "",
        'backend = "eager"\nfull_graph = true',
        6,
        "tool.repro.compile.full_graph: is no argument of torch.compile",
    ),
    "foreign dependency": (
        ['title = "t"'],
        'dependencies = ["torch", "deep_ep"]',
        "",
        2,
        "dependencies: 'deep_ep': a case may need torch and the standard library alone",
    ),
    "bad requirement": (
        ['title = "t"'],
        'dependencies = ["torch >> 2"]',
        "",
        2,
        "dependencies: 'torch >> 2' is no requirement",
    ),
    "bad version": (
        ['title = "t"'],
        'dependencies = ["torch>=two"]',
        "",
        2,
        "dependencies: 'torch>=two' is no requirement",
    ),
    "dependencies as text": (
        ['title = "t"'],
        'dependencies = "torch"',
        "",
        2,
        "dependencies: must be a list of text",
    ),
    "bad TOML": (['title = "t"', "ranks ="], "", "", 4, "the header is no valid TOML"),
    "bad TOML at its end": (
        ['title = "t"', "devices = ["],
        "",
        "",
        4,
        "the header is no valid TOML",
    ),
    "a key twice": (['title = "t"', 'title = "u"'], "", "", 4, "the header is no valid TOML"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_names_file_line_and_key(what):
    tool, before, options, line, says = WRONG[what]
    error = str(failing(header(*tool, before=before, compile_=options)))
    assert error.startswith(f"/cases/x.py:{line}: ")
    assert says in error
    assert "\n" not in error


def test_the_line_counts_from_the_top_of_the_file():
    source = "#!/usr/bin/env python\n\n\n" + header('title = "t"', "", "# a note", "ranks = 0")
    assert str(failing(source)).startswith("/cases/x.py:9: tool.repro.ranks: ")


def test_the_line_is_right_with_windows_line_ends():
    source = header('title = "t"', "ranks = 0").replace("\n", "\r\n")
    assert str(failing(source)).startswith("/cases/x.py:4: tool.repro.ranks: ")


def test_a_key_in_quotes_is_found():
    assert str(failing(header('title = "t"', '"ranks" = 0'))).startswith("/cases/x.py:4: ")


def test_a_key_of_the_same_name_in_another_table_is_not_taken_for_it():
    source = header('title = "t"', before="[tool.other]\nranks = 5", compile_='nope = ""')
    assert str(failing(source)).startswith("/cases/x.py:7: tool.repro.compile.nope: ")


@pytest.mark.parametrize("source", ["", "print(1)\n", "# /// script\n# title = 1\n", "/// script"])
def test_a_missing_header_says_how_to_get_one(source):
    error = failing(source)
    assert str(error).startswith("/cases/x.py: no header")
    assert error.hint == "repro new NAME writes a case with a header"


def test_a_second_header_is_an_error_at_its_line():
    assert str(failing(HEADER + "\n" + HEADER)).startswith("/cases/x.py:9: a second ")


def test_a_header_without_our_table_names_the_table():
    source = "# /// script\n# dependencies = []\n# ///\n"
    assert str(failing(source)).startswith("/cases/x.py:2: tool.repro: the table is missing")


@pytest.mark.parametrize("name", ["X.py", "1x.py", "x-y.py", "x y.py", ".py"])
def test_a_file_name_that_is_no_name_is_an_error(name):
    assert "is no name of a case" in str(failing(HEADER, Path("/cases") / name))


def test_a_number_with_thousands_of_digits_is_an_error_of_ours():
    assert "/cases/x.py:" in str(failing(header('title = "t"', "ranks = " + "1" * 5000)))


def test_lists_nested_beyond_reason_are_an_error_of_ours():
    assert "/cases/x.py:" in str(failing(header('title = "t"', "devices = " + "[" * 5000)))


# --- arbitrary files ----------------------------------------------------------------------------

_PIECES = st.sampled_from(
    [
        "# /// script\n",
        "# ///\n",
        "# [tool.repro]\n",
        '# title = "t"\n',
        "# [tool.repro.compile]\n",
        "# [tool]\n",
        "# repro = 3\n",
        "# tool = 3\n",
        "# backend = 3\n",
        '# dependencies = ["torch"]\n',
        '# dependencies = [1, "torch @ http://x"]\n',
        '# "a.b" = 1\n',
        '# "a\\nb" = 1\n',
        "# devices = [{}]\n",
        "# timeout = 1e400\n",
        "# ranks = 0x1\n",
        "#\r\n",
        "\n",
    ]
)


def assert_read_or_refused(source: str) -> None:
    try:
        told = str(parse_case(X, source).path)
    except CaseError as error:
        told = str(error)
    assert told.startswith("/cases/x.py")


@given(st.lists(_PIECES | st.text(max_size=8), max_size=15).map("".join))
@settings(deadline=None)
def test_any_text_is_a_case_or_an_error_of_ours(source):
    assert_read_or_refused(source)


@given(st.text())
@settings(deadline=None)
def test_any_text_in_the_table_is_a_case_or_an_error_of_ours(text):
    lines = "".join(f"# {line}\n" for line in text.split("\n"))
    assert_read_or_refused(f'# /// script\n# [tool.repro]\n# title = "t"\n{lines}# ///\n')


# --- files and folders --------------------------------------------------------------------------


def write(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(HEADER)
    return folder


def test_a_file_that_is_not_utf8_names_the_byte(tmp_path):
    path = tmp_path / "x.py"
    path.write_bytes(HEADER.encode() + b"# \xff\n")
    with pytest.raises(CaseError, match=rf"x\.py: byte {len(HEADER) + 2} is no UTF-8"):
        read_case(path)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(CaseError, match=r"y\.py: No such file"):
        read_case(tmp_path / "y.py")


def test_a_folder_is_no_case(tmp_path):
    with pytest.raises(CaseError, match="Is a directory"):
        read_case(tmp_path)


def test_a_file_with_windows_line_ends_is_read(tmp_path):
    path = tmp_path / "x.py"
    path.write_bytes(HEADER.replace("\n", "\r\n").encode())
    assert read_case(path).title == "A title"


def test_folders_come_in_their_order_each_once(tmp_path):
    here, given_, installed = (write(tmp_path / n, "a") for n in ("here/cases", "given", "inst"))
    found = case_folders([given_, here, given_], tmp_path / "here", installed)
    assert found == [here, given_, installed]


def test_a_linked_folder_is_searched_once(tmp_path):
    cases = write(tmp_path / "cases", "a")
    os.symlink(cases, tmp_path / "installed")
    assert case_folders([], tmp_path, tmp_path / "installed") == [cases]


def test_a_given_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(CaseError, match="nowhere: no such folder"):
        case_folders([tmp_path / "nowhere"], tmp_path, tmp_path)


def test_missing_default_folders_are_no_error(tmp_path):
    assert case_folders([], tmp_path, tmp_path / "installed") == []


def test_the_first_folder_that_has_a_name_wins(tmp_path):
    one, two = write(tmp_path / "1", "b", "a"), write(tmp_path / "2", "b", "c")
    assert case_files([one, two]) == {"a": one / "a.py", "b": one / "b.py", "c": two / "c.py"}


def test_files_with_an_underscore_first_are_no_cases(tmp_path):
    assert list(case_files([write(tmp_path, "_helper", "__init__", "a")])) == ["a"]


def test_every_case_is_found_where_none_is_named(tmp_path):
    assert [case.name for case in find_cases([], [write(tmp_path, "b", "a")])] == ["a", "b"]


def test_named_cases_come_in_the_order_given_and_once(tmp_path):
    folders = [write(tmp_path, "a", "b", "c")]
    names = ["c", "a", str(tmp_path / "c.py"), "c"]
    assert [case.name for case in find_cases(names, folders)] == ["c", "a"]


def test_a_name_that_ends_in_py_is_a_path(tmp_path):
    write(tmp_path / "elsewhere", "d")
    [found] = find_cases([str(tmp_path / "elsewhere" / "d.py")], [write(tmp_path / "1", "a")])
    assert found.path == tmp_path / "elsewhere" / "d.py"


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(CaseError, match="no case 'z'") as caught:
        find_cases(["z"], [write(tmp_path, "a", "b")])
    assert caught.value.hint == "known: a, b"


def test_no_case_at_all_says_where_it_looked(tmp_path):
    with pytest.raises(CaseError, match=f"no cases in {tmp_path}"):
        find_cases([], [tmp_path])


def test_the_cases_of_this_repository_are_read():
    folder = Path(__file__).resolve().parent.parent / "cases"
    found = find_cases([], [folder])
    assert {"hybridep_dispatch", "hybridep_multigpu"} <= {case.name for case in found}
    assert all(case.admits("2.10.0.dev20251201") for case in found)
    assert not any(case.admits("2.9.1") for case in found)
