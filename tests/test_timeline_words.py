"""Every sentence of a bisection, with the words that it is to have."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from repro.outcome import How, Kind, Outcome
from repro.report.timeline_words import (
    legend,
    narrow,
    notes,
    of_the_ends,
    plan_words,
    retest,
    row,
    sentence,
    short,
)
from repro.timeline import Boundary, Change, Plan, Point, Timeline
from tests.builders import failure, untestable

PASS = Outcome(Kind.PASS)
UNSUPPORTED = Outcome(Kind.UNSUPPORTED, "unsupported_case", reason="no opaque objects")
BROKEN = untestable("torch cannot be imported", stage="import")
LOWERING = failure("inductor_lowering")
TRACING = failure("dynamo_tracing", exceptions=("torch._dynamo.exc.Unsupported",))
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def version(position: int) -> str:
    return f"2.13.0.dev202605{position + 1:02}+cpu"


def point(position: int, outcome: Outcome, commit: str | None = None) -> Point:
    return Point(position, version(position), date(2026, 5, position + 1), commit, outcome)


def timeline(outcomes: dict[int, Outcome], size: int = 8, **more: object) -> Timeline:
    points = tuple(point(at, outcome) for at, outcome in sorted(outcomes.items()))
    return replace(Timeline("moe", size, points, ()), **more)  # type: ignore[arg-type]


def boundary(
    older: int, before: Outcome, newer: int, after: Outcome, change: Change, **more: object
) -> Boundary:
    between = tuple(version(position) for position in range(older + 1, newer))
    made = Boundary(point(older, before), point(newer, after), change, between, confirmed=True)
    return replace(made, **more)  # type: ignore[arg-type]


BREAKS = boundary(3, PASS, 4, LOWERING, Change.BREAKS)
NOTHING = timeline({})


# --- an outcome, a row --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (PASS, "pass"),
        (UNSUPPORTED, "unsupported"),
        (BROKEN, "untestable"),
        (LOWERING, "fail at inductor_lowering (ValueError)"),
        (TRACING, "fail at dynamo_tracing (Unsupported)"),
        (
            failure("runtime", exceptions=(), how=How.SIGNAL, signal="SIGSEGV"),
            "fail at runtime (SIGSEGV)",
        ),
        (
            failure("accuracy", exceptions=(), how=How.WRONG_RESULT),
            "fail at accuracy (wrong_result)",
        ),
        (failure("unknown", exceptions=(), how=None), "fail at unknown"),
    ],
)
def test_an_outcome_in_a_few_words(outcome, words):
    assert short(outcome) == words


def test_a_row_has_a_character_for_each_build():
    drawn = timeline({0: UNSUPPORTED, 1: BROKEN, 3: LOWERING, 4: TRACING, 5: LOWERING, 7: PASS})
    assert row(drawn) == "-?.FGF.P"


def test_the_row_of_nothing_and_more_kinds_of_failures_than_letters():
    assert row(NOTHING) == "." * 8
    kinds = {n: failure("runtime", exceptions=(f"Error{n}",)) for n in range(25)}
    assert row(timeline(kinds, 25)) == "FGHIJKLMNOQRSTUVWXYZ" + "Z" * 5


def test_the_legend_joins_what_is_alike_and_names_the_builds():
    drawn = timeline({0: PASS, 2: PASS, 3: PASS, 5: LOWERING, 7: PASS})
    assert legend(drawn) == [
        f"P pass: {version(0)} to {version(3)}, 3 tested",
        f"F fail at inductor_lowering (ValueError): {version(5)}",
        f"P pass: {version(7)}",
    ]
    assert legend(NOTHING) == []


# --- a boundary ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "change", "words"),
    [
        (
            PASS, LOWERING, Change.BREAKS,
            "moe breaks in torch {1}: {F}; torch {0} is the one before",
        ),
        (
            LOWERING, PASS, Change.FIXES,
            "moe is fixed in torch {1}: before, {F}; torch {0} is the one before",
        ),
        (
            LOWERING, TRACING, Change.CHANGES,
            "moe changes in torch {1}: {F}, then fail at dynamo_tracing (Unsupported); "
            "torch {0} is the one before",
        ),
        (
            UNSUPPORTED, LOWERING, Change.CHANGES,
            "moe can be run from torch {1} on: {F}; torch {0} is the one before",
        ),
        (
            LOWERING, UNSUPPORTED, Change.CHANGES,
            "moe cannot be run any more in torch {1}: before, {F}; torch {0} is the one before",
        ),
    ],
)  # fmt: skip
def test_a_boundary_between_neighbours_names_the_build(before, after, change, words):
    expected = words.format(version(3), version(4), F="fail at inductor_lowering (ValueError)")
    assert sentence(NOTHING, boundary(3, before, 4, after, change)) == expected


@pytest.mark.parametrize(
    ("before", "after", "change", "words"),
    [
        (PASS, LOWERING, Change.BREAKS, "moe breaks between torch {0} and {1}: {F}; {rest}"),
        (
            LOWERING, PASS, Change.FIXES,
            "moe is fixed between torch {0} and {1}: before, {F}; {rest}",
        ),
        (
            UNSUPPORTED, LOWERING, Change.CHANGES,
            "moe can be run from some build between torch {0} and {1} on: {F} in the newer; {rest}",
        ),
        (
            PASS, UNSUPPORTED, Change.CHANGES,
            "moe cannot be run any more between torch {0} and {1}: before, pass; {rest}",
        ),
    ],
)  # fmt: skip
def test_a_boundary_across_untested_builds_names_none_of_them_as_the_one(
    before, after, change, words
):
    expected = words.format(
        version(1), version(5), F="fail at inductor_lowering (ValueError)",
        rest=f"the 3 builds between, {version(2)} to {version(4)}, are untested",
    )  # fmt: skip
    assert sentence(NOTHING, boundary(1, before, 5, after, change)) == expected


def test_one_untested_build_is_named_as_such():
    said = sentence(NOTHING, boundary(1, PASS, 3, LOWERING, Change.BREAKS))
    assert said.endswith(f"; torch {version(2)} between them is untested")


def test_commits_are_shortened():
    older, newer = point(3, PASS, "f" * 40), point(4, LOWERING, COMMIT)
    said = sentence(NOTHING, replace(BREAKS, older=older, newer=newer))
    assert said == (
        f"moe breaks in torch {version(4)} (0123456789ab): fail at inductor_lowering (ValueError); "
        f"torch {version(3)} (ffffffffffff) is the one before"
    )


def test_how_sure_it_is():
    assert "confirmed" not in sentence(NOTHING, BREAKS)
    unsure = replace(BREAKS, confirmed=False)
    assert sentence(NOTHING, unsure).endswith("; not confirmed by a second run")
    likely = replace(BREAKS, confirmed=False, probability=0.954)
    assert sentence(NOTHING, likely).endswith("is the one before; probability 95%")


def test_builds_that_were_tried_in_vain_are_counted_and_the_others_offered():
    tried = timeline({0: PASS, 1: PASS, 2: BROKEN, 4: BROKEN, 6: LOWERING, 7: LOWERING})
    wide = boundary(1, PASS, 6, LOWERING, Change.BREAKS)
    assert sentence(tried, wide).endswith(
        f"the 4 builds between, {version(2)} to {version(5)}, are untested "
        "(2 of them tried in vain)"
    )
    assert narrow(tried, wide) == "try the other 2 too: the same command with --max-skips 4"


def test_nothing_is_offered_where_nothing_is_left_or_nothing_was_tried():
    wide = boundary(1, PASS, 4, LOWERING, Change.BREAKS)
    all_tried = timeline({1: PASS, 2: BROKEN, 3: BROKEN, 4: LOWERING})
    assert narrow(all_tried, wide) is None
    assert narrow(timeline({1: PASS, 4: LOWERING}), wide) is None
    one_tried = timeline({1: PASS, 2: BROKEN, 4: LOWERING})
    assert narrow(one_tried, wide) is not None
    assert narrow(one_tried, replace(wide, probability=0.5)) is None


def test_the_command_for_both_sides_can_be_pasted():
    assert retest("moe", BREAKS) == (
        f"repro run --case moe --build {version(3)} --build {version(4)}"
    )
    assert retest("my cases/moe.py", BREAKS).startswith("repro run --case 'my cases/moe.py' ")


# --- the ends -----------------------------------------------------------------------------------

GOOD, BAD = version(0), version(7)


@pytest.mark.parametrize(
    ("first", "last", "good", "words"),
    [
        (PASS, LOWERING, GOOD, None),
        (LOWERING, PASS, BAD, None),
        (PASS, PASS, GOOD, "moe: both ends pass"),
        (LOWERING, LOWERING, GOOD, "moe: both ends fail at inductor_lowering (ValueError)"),
        (
            LOWERING, PASS, GOOD,
            "moe: torch {0}, named good, has a fail at inductor_lowering (ValueError); "
            "torch {1} passes: already fixed",
        ),
        (
            PASS, LOWERING, BAD,
            "moe: torch {1}, named good, has a fail at inductor_lowering (ValueError); "
            "torch {0} passes",
        ),
        (
            LOWERING, TRACING, GOOD,
            "moe: torch {0}, named good, has a fail at inductor_lowering (ValueError), "
            "torch {1} a fail at dynamo_tracing (Unsupported)",
        ),
        (UNSUPPORTED, LOWERING, GOOD, "moe: torch {0} cannot run moe (no opaque objects)"),
        (
            UNSUPPORTED, PASS, GOOD,
            "moe: torch {0} cannot run moe (no opaque objects); torch {1} passes: already fixed",
        ),
        (
            BROKEN, UNSUPPORTED, GOOD,
            "moe: torch {0} could not be tested (torch cannot be imported); "
            "torch {1} cannot run moe (no opaque objects)",
        ),
    ],
)  # fmt: skip
def test_what_is_said_of_the_ends(first, last, good, words):
    expected = None if words is None else words.format(GOOD, BAD)
    assert of_the_ends(timeline({0: first, 3: LOWERING, 7: last}), good) == expected


def test_nothing_is_said_of_the_ends_before_both_are_known():
    """It was interrupted: what was tested first is no end."""
    for known in ({}, {0: PASS}, {7: PASS}, {0: PASS, 3: PASS}, {2: PASS, 3: PASS}):
        assert of_the_ends(timeline(known), GOOD) is None


# --- notes --------------------------------------------------------------------------------------


def test_the_notes_of_a_search_with_an_answer_are_those_on_its_ends():
    usual = timeline({0: PASS, 7: LOWERING}, boundaries=(BREAKS,))
    assert notes(usual, GOOD) == []
    fixed = timeline({0: LOWERING, 7: PASS}, boundaries=(BREAKS,), notes=("it is flaky",))
    assert notes(fixed, GOOD) == [of_the_ends(fixed, GOOD), "it is flaky"]


def test_the_first_build_that_can_run_it_is_named():
    able = timeline({0: UNSUPPORTED, 2: BROKEN, 4: LOWERING, 7: PASS}, boundaries=(BREAKS,))
    assert notes(able, GOOD)[1] == f"the first tested build that can is torch {version(4)}"
    none = timeline({0: UNSUPPORTED, 4: BROKEN, 7: UNSUPPORTED})
    assert notes(none, GOOD)[1:] == ["nothing changes among the 3 builds that were tested"]


def test_no_answer_says_how_much_it_rests_on():
    assert notes(timeline({0: PASS, 3: PASS, 7: PASS}), GOOD) == [
        "moe: both ends pass", "nothing changes among the 3 builds that were tested",
    ]  # fmt: skip
    assert notes(NOTHING, GOOD) == ["moe: no build was tested"]


def test_an_interrupted_search_claims_nothing_of_its_ends():
    early = timeline({3: UNSUPPORTED, 4: PASS})
    assert notes(early, GOOD) == ["nothing changes among the 2 builds that were tested"]


# --- the plan -----------------------------------------------------------------------------------

PLAN = Plan(version(0), version(7), 7, 1, 1, (5, 5), 5, 100_000_000)
BUILDS = f"8 builds from {version(0)} to {version(7)}: 7 nightlies, 1 release"
SECOND = "to look at if one thing changes for each, and a second run on both sides of it"


def test_a_plan():
    assert plan_words(PLAN) == [
        BUILDS,
        f"1 case, 5 builds {SECOND}",
        "about 500.0 MB to download: up to 5 wheels of torch of 100.0 MB, and once what they "
        "depend on",
    ]


def test_a_plan_of_several_cases_gives_the_least_and_the_most():
    plan = replace(PLAN, cases=3, steps=(5, 11), missing=8)
    assert plan_words(plan)[1:] == [
        f"3 cases, 5 to 11 builds {SECOND}",
        "about 800.0 MB to download: up to 8 wheels of torch of 100.0 MB, and once what they "
        "depend on",
    ]


def test_one_is_one():
    plan = replace(PLAN, nightlies=1, releases=0, missing=1)
    assert plan_words(plan)[0].endswith(": 1 nightly, 0 releases")
    assert "up to 1 wheel of torch of" in plan_words(plan)[2]


def test_no_more_is_downloaded_than_is_looked_at():
    assert "up to 5 wheels" in plan_words(replace(PLAN, missing=60))[2]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            replace(PLAN, wheel=None),
            "5 wheels of torch to download; the index does not tell the size",
        ),
        (replace(PLAN, missing=0, wheel=None), "nothing to download: the environments are there"),
    ],
)
def test_a_plan_without_a_size_or_without_a_download(plan, words):
    assert plan_words(plan)[2:] == [words]


def test_a_plan_of_what_is_known():
    plan = replace(PLAN, steps=(0, 0), missing=0, wheel=None)
    assert plan_words(plan) == [BUILDS, "everything is known: running it again tests nothing"]
