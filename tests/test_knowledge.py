import random
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from repro.bisect.candidates import Range
from repro.bisect.knowledge import AGAIN, Knowledge
from repro.bisect.labels import UNSUPPORTED, Match, label_of
from repro.bisect.search import SKIP, ask
from repro.builds import Build, Origin
from repro.outcome import How, Kind, Outcome, Run, Seconds
from repro.timeline import Change, Point, Timeline
from tests.builders import failure, run, untestable

# What a run came to, a letter each: F and G are two failures, T and S time-outs at two stages.
RUNS = {
    "P": run(),
    "F": run(failure()),
    "G": run(failure("autotuning")),
    "T": run(failure("runtime", how=How.TIMEOUT, exceptions=())),
    "S": run(failure("autotuning", how=How.TIMEOUT, exceptions=())),
    "U": run(untestable()),
    "-": run(Outcome(Kind.UNSUPPORTED, "unsupported_case", reason="needs 2.14")),
}
CONFIDENCE = 0.95
FLAKY = "it does not always give the same, so it was run again and again"


def version(position: int) -> str:
    return f"2.13.0.dev202604{position + 1:02d}+cpu"


def builds(size: int, grid: tuple[int, ...] = ()) -> Range:
    made = [
        Build(Version(version(at)), f"{at}.whl", f"https://x/{at}.whl", Origin.PYTORCH)
        for at in range(size)
    ]
    return Range(tuple(made), grid)


def taught(
    *rows: str, repeat: int = 1, match: Match = Match.STAGE, max_skips: int | None = None
) -> Knowledge:
    """What is known after these runs: the first of each build, the second, ...; `.` where none."""
    known = Knowledge("x", builds(len(rows[0])), match, repeat, max_skips)
    for number, row in enumerate(rows, 1):
        for position, letter in enumerate(row):
            if letter != ".":
                known.learn(position, number, RUNS[letter])
    return known


def label(letter: str, hangs: bool = False) -> object:
    return label_of(RUNS[letter].outcome, Match.STAGE, hangs)


def sides(timeline: Timeline) -> list[tuple[int, int, str]]:
    return [(b.older.position, b.newer.position, b.change) for b in timeline.boundaries]


# --- what the search is told --------------------------------------------------------------------


def test_a_build_is_told_to_the_search_once_all_its_runs_are_there() -> None:
    known = taught("P.F", "P.F", repeat=3)
    assert known.history.told == {}
    known.learn(2, 3, RUNS["F"])
    assert known.history.told == {2: label("F")}
    known.learn(0, 3, RUNS["P"])
    assert known.history.told == {0: label("P"), 2: label("F")}


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ("PPP", "P"),
        ("FPP", "F"),
        ("PFP", "F"),
        ("PPF", "F"),
        ("FGG", "G"),
        ("GFG", "G"),
        ("PGF", "G"),
        ("PFG", "F"),
        ("UUF", "F"),
        ("TFU", "F"),
        ("PUP", "U"),
        ("PPT", "U"),
        ("UUU", "U"),
        ("---", "-"),
    ],
)
def test_a_failure_among_several_runs_makes_the_build_that_failure(runs: str, told: str) -> None:
    """The most frequent one, of equals the first; and what was skipped is never a pass."""
    known = taught(*(f"P{letter}F" for letter in runs), repeat=3)
    assert known.history.told[1] == label(told)


@pytest.mark.parametrize(
    ("row", "took", "elapsed", "assumed", "sure"),
    [
        # Neither neighbour is known, or only one.
        ("........", {}, {3: 9.0}, "........", True),
        ("F.......", {0: 4}, {3: 9.0}, "F.......", True),
        # A pass takes much longer: a failure until its time is over, then a pass.
        ("F......P", {0: 4, 7: 20}, {3: 0.0}, "F..F...P", False),
        ("F......P", {0: 4, 7: 20}, {3: 5.9}, "F..F...P", False),
        ("F......P", {0: 4, 7: 20}, {3: 6.1}, "F..P...P", True),
        ("P......F", {0: 20, 7: 4}, {3: 6.1}, "P..P...F", True),
        # One that is assumed to be slow is it for the next one too.
        ("F......P", {0: 4, 7: 20}, {3: 6.1, 1: 5.9}, "FF.P...P", False),
        ("F......P", {0: 4, 7: 20}, {3: 6.1, 1: 6.1}, "FP.P...P", True),
        # They take nearly as long: nothing follows from how long it takes.
        ("F......P", {0: 4, 7: 5.9}, {3: 9.0}, "F......P", True),
        # Its neighbours are those beside it, and what was skipped is none.
        ("FP...U.P", {0: 4, 1: 20, 5: 1, 7: 20}, {3: 9.0}, "FP...U.P", True),
        # It is known already.
        ("F......P", {0: 4, 7: 20}, {0: 9.0}, "F......P", True),
    ],
)
def test_what_is_assumed_of_a_build_that_is_being_probed(
    row: str, took: dict[int, float], elapsed: dict[int, float], assumed: str, sure: bool
) -> None:
    known = taught("." * len(row))
    for position, letter in enumerate(row):
        if letter != ".":
            seconds = Seconds(total=took[position])
            known.learn(position, 1, replace(RUNS[letter], seconds=seconds))
    likely = known.assuming(elapsed)
    told = {at: label(letter) for at, letter in enumerate(assumed) if letter != "."}
    assert likely.history.told == told
    assert likely.sure == sure


def test_runs_beyond_the_usual_ones_change_nothing_of_what_is_told() -> None:
    known = taught("PPFF", ".FP.", "..P.")
    known.learn(3, AGAIN + 1, RUNS["G"])
    assert known.history.told == {
        0: label("P"), 1: label("P"), 2: label("F"), 3: label("F"),
    }  # fmt: skip


def test_a_build_of_which_only_a_later_run_is_there_is_not_told() -> None:
    known = taught("P.F", ".P.")
    assert known.history.told == {0: label("P"), 2: label("F")}
    assert known.to_probe(1) == [1]


def test_the_search_knows_the_builds_and_what_is_no_outcome_of_the_bug() -> None:
    known = Knowledge("x", builds(9, grid=(2, 7)), Match.STAGE, max_skips=3)
    assert (known.history.size, known.history.grid) == (9, (2, 7))
    assert (known.history.blank, known.history.max_skips) == ((UNSUPPORTED,), 3)
    assert taught("...").history.max_skips == 5


@pytest.mark.parametrize(("max_skips", "asked"), [(0, set()), (2, set()), (3, {2}), (None, {2})])
def test_how_many_builds_may_be_untestable_before_a_boundary_is_left_wide(
    max_skips: int | None, asked: set[int]
) -> None:
    assert taught("PU.UF", max_skips=max_skips).asked == asked


@pytest.mark.parametrize(("match", "found"), [("stage", 2), ("signature", 2), ("any", 1)])
def test_what_two_failures_must_share_decides_on_the_boundaries(match: str, found: int) -> None:
    assert len(taught("PFG", match=Match(match)).timeline().boundaries) == found


# --- what to run --------------------------------------------------------------------------------


def test_the_runs_that_the_search_waits_for() -> None:
    known = taught("P...F", "..P.F", "....F", repeat=3)
    assert known.is_open
    assert known.to_probe(0) == [2, 3]
    assert known.to_probe(2) == [1, 3]
    assert known.to_probe(3) == [1, 2, 3]
    assert known.to_probe(4) == []


def test_no_run_is_waited_for_that_would_tell_the_search_nothing() -> None:
    known = taught("PP.FF")
    assert known.asked == {2}
    assert [known.to_probe(at) for at in range(5)] == [[], [], [1], [], []]
    known.learn(2, 1, RUNS["F"])
    assert not known.is_open
    assert known.asked == set()
    assert known.to_probe(2) == []


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        (["PPFF"], {1: [2], 2: [2]}),
        (["PPFF", "PP.F"], {2: [2]}),
        (["PPFF", ".PF."], {}),
        (["PFG"], {0: [2], 1: [2], 2: [2]}),
        (["PFG", ".F."], {0: [2], 2: [2]}),
        (["PUF"], {0: [2], 2: [2]}),
        (["--P"], {1: [2], 2: [2]}),
        (["PPPP"], {}),
    ],
)
def test_both_sides_of_a_finished_boundary_are_run_twice(
    rows: list[str], missing: dict[int, list[int]]
) -> None:
    assert taught(*rows).to_confirm() == missing


def test_nothing_is_confirmed_of_a_boundary_that_is_still_narrowed() -> None:
    assert taught("P...F").to_confirm() == {}
    assert taught("PF...G").to_confirm() == {0: [2], 1: [2]}


@pytest.mark.parametrize("repeat", [2, 3])
def test_what_was_run_twice_or_more_is_not_confirmed_again(repeat: int) -> None:
    assert taught(*["PPFF"] * repeat, repeat=repeat).to_confirm() == {}


@pytest.mark.parametrize("again", ["U", "T", "G", "P", "F"])
def test_whatever_a_second_run_came_to_it_is_not_asked_for_again(again: str) -> None:
    assert taught("PF", f"P{again}").to_confirm() == {}


# --- confirmed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("again", "confirmed"),
    [
        (".PF.", True),
        ("PPFF", True),
        (".P..", False),
        ("..F.", False),
        ("P..F", False),
        (".UF.", False),
        (".PU.", False),
        (".PT.", False),
    ],
)
def test_a_boundary_is_confirmed_where_both_runs_of_both_sides_agree(
    again: str, confirmed: bool
) -> None:
    [boundary] = taught("PPFF", again).timeline().boundaries
    assert boundary.confirmed is confirmed
    assert boundary.probability is None


@pytest.mark.parametrize("again", ["PP", "FF", "PG", "FP"])
def test_a_side_that_gives_something_else_is_no_confirmation(again: str) -> None:
    timeline = taught("PF", again).timeline()
    assert [boundary.confirmed for boundary in timeline.boundaries] == [False]
    assert timeline.boundaries[0].probability is not None


def test_each_boundary_is_confirmed_by_itself() -> None:
    timeline = taught("PPFFG", ".PFFU").timeline()
    assert [boundary.confirmed for boundary in timeline.boundaries] == [True, False]


def test_the_usual_runs_confirm_where_there_are_several() -> None:
    known = taught("PPFF", "PPFF", "PPFF", repeat=3)
    [boundary] = known.timeline().boundaries
    assert boundary.confirmed
    known.learn(2, AGAIN + 1, RUNS["P"])
    assert not any(boundary.confirmed for boundary in known.timeline().boundaries)


# --- a case that disagrees with itself ----------------------------------------------------------


@pytest.mark.parametrize("rows", [["PPFF"], ["PPFF", "PPFF"], ["PPFF", ".PF."], ["P..F", "F..P"]])
def test_nothing_is_repeated_where_no_side_of_a_finished_boundary_disagrees(
    rows: list[str],
) -> None:
    known = taught(*rows)
    assert known.to_repeat(5) == {}
    assert known.timeline().notes == ()


def test_repeats_have_numbers_of_their_own() -> None:
    asked = taught("PPPFFF", "..PP..").to_repeat(3)
    assert asked
    assert set(asked.values()) == {AGAIN + 1} == {1001}


def test_a_repeat_has_the_number_after_the_last_of_its_build() -> None:
    known = taught("PPPFFF", "..PP..")
    for position in range(6):
        known.learn(position, AGAIN + 1 + position, RUNS["PPPFFF"[position]])
    asked = known.to_repeat(4)
    assert asked
    assert all(number == AGAIN + 2 + position for position, number in asked.items())


def test_as_many_repeats_are_named_as_can_be_run_at_once() -> None:
    known = taught("PPPFFF", "..PP..")
    assert known.to_repeat(0) == {}
    assert len(known.to_repeat(1)) == 1
    assert 1 <= len(known.to_repeat(4)) <= 4


def answered(
    known: Knowledge, shows: random.Random, bad: range, rate: float
) -> dict[int, list[int]]:
    """Run what is to be repeated until nothing is; the numbers by position."""
    given_out: dict[int, list[int]] = {}
    while asked := known.to_repeat(1):
        for position, number in asked.items():
            fails = position in bad and shows.random() < rate
            known.learn(position, number, RUNS["F" if fails else "P"])
            given_out.setdefault(position, []).append(number)
    return given_out


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rate", [0.8, 0.5])
def test_repeats_end_in_boundaries_with_probabilities(seed: int, rate: float) -> None:
    """The case fails at times from the build 5 on, so that the search was led to the build 8."""
    known = taught("P....P.PF..F", ".......PP...")
    numbers = answered(known, random.Random(seed), range(5, 12), rate)
    for given_out in numbers.values():
        assert given_out == list(range(AGAIN + 1, AGAIN + 1 + len(given_out)))
    timeline = known.timeline()
    parts = [boundary.probability for boundary in timeline.boundaries]
    assert CONFIDENCE <= sum(part for part in parts if part is not None) <= 1 + 1e-9
    assert None not in parts
    assert {boundary.change for boundary in timeline.boundaries} == {Change.BREAKS}
    assert not any(boundary.confirmed for boundary in timeline.boundaries)
    assert (4, 5, Change.BREAKS) in sides(timeline)
    assert timeline.notes == (FLAKY,)


@pytest.mark.parametrize("seed", range(4))
def test_repeats_of_a_case_that_is_fixed_end_in_boundaries_that_fix_it(seed: int) -> None:
    known = taught("F..FP.P....P", "...PP.......")
    answered(known, random.Random(seed), range(0, 7), 0.8)
    timeline = known.timeline()
    assert {boundary.change for boundary in timeline.boundaries} == {Change.FIXES}
    assert (6, 7, Change.FIXES) in sides(timeline)
    assert sum(boundary.probability or 0 for boundary in timeline.boundaries) >= CONFIDENCE


def test_repeats_are_not_told_to_the_search() -> None:
    known = taught("P....P.PF..F", ".......PP...")
    before = known.history
    answered(known, random.Random(0), range(5, 12), 0.5)
    assert known.history == before


def test_sides_of_a_boundary_in_doubt_are_tested_builds_and_what_lies_between_is_named() -> None:
    """Nothing between 0 and 4 was tested, so that the four changes there are one boundary."""
    known = taught("PUUUF", "P...P", max_skips=0)
    [boundary] = known.timeline().boundaries
    assert (boundary.older.position, boundary.newer.position) == (0, 4)
    assert boundary.untested == (version(1), version(2), version(3))
    assert boundary.probability == pytest.approx(1)


def test_only_the_boundary_that_is_in_doubt_gets_probabilities() -> None:
    timeline = taught("PPFFG", ".PFFG", "....F").timeline()
    [sure, *doubtful] = timeline.boundaries
    assert (sure.confirmed, sure.probability) == (True, None)
    assert sides(timeline)[0] == (1, 2, Change.BREAKS)
    assert doubtful
    assert all(boundary.change is Change.CHANGES for boundary in doubtful)
    assert sum(boundary.probability or 0 for boundary in doubtful) >= CONFIDENCE
    assert timeline.notes == (FLAKY,)


# --- time-outs ----------------------------------------------------------------------------------


def test_a_time_out_between_ends_that_do_not_hang_is_a_skip() -> None:
    known = taught("PTF")
    assert known.history.told == {0: label("P"), 1: SKIP, 2: label("F")}
    [boundary] = known.timeline().boundaries
    assert sides(known.timeline()) == [(0, 2, Change.BREAKS)]
    assert boundary.untested == (version(1),)


@pytest.mark.parametrize(
    ("row", "boundaries"),
    [
        ("PTT", [(0, 1, Change.BREAKS)]),
        ("PPT", [(1, 2, Change.BREAKS)]),
        ("TTP", [(1, 2, Change.FIXES)]),
        ("TPP", [(0, 1, Change.FIXES)]),
        ("PST", [(0, 1, Change.BREAKS)]),
        ("SPPT", [(0, 1, Change.FIXES), (2, 3, Change.BREAKS)]),
        ("PFT", [(0, 1, Change.BREAKS), (1, 2, Change.CHANGES)]),
        ("PUT", [(0, 2, Change.BREAKS)]),
        ("TST", []),
    ],
)
def test_where_an_end_timed_out_time_outs_are_the_failure_that_is_looked_for(
    row: str, boundaries: list[tuple[int, int, str]]
) -> None:
    known = taught(row)
    assert not known.is_open
    assert sides(known.timeline()) == boundaries


@pytest.mark.parametrize("match", Match)
def test_the_stage_of_a_time_out_tells_none_from_another(match: Match) -> None:
    known = taught("PSTST", ".T...", match=match)
    assert sides(known.timeline()) == [(0, 1, Change.BREAKS)]
    assert known.to_repeat(3) == {}


def test_the_search_for_a_hang_goes_on_where_the_other_end_passed() -> None:
    known = taught("P...T")
    assert known.is_open
    assert known.timeline(finished=False).boundaries[0].change is Change.BREAKS


def test_an_end_that_times_out_makes_earlier_time_outs_mean_something() -> None:
    known = taught("PT..")
    assert known.history.told == {0: label("P"), 1: SKIP}
    known.learn(3, 1, RUNS["T"])
    hang = label("T", hangs=True)
    assert known.history.told == {0: label("P"), 1: hang, 3: hang}
    assert sides(known.timeline()) == [(0, 1, Change.BREAKS)]


def test_both_sides_of_a_hang_are_confirmed_as_of_any_failure() -> None:
    assert taught("PT").to_confirm() == {0: [2], 1: [2]}
    [boundary] = taught("PT", "PS").timeline().boundaries
    assert boundary.confirmed


# --- the answer ---------------------------------------------------------------------------------


def test_the_boundary_in_sight_is_shown_while_the_search_is_open_where_that_is_asked() -> None:
    known = taught("P.......F")
    assert known.is_open
    assert known.timeline().boundaries == ()
    [boundary] = known.timeline(finished=False).boundaries
    assert (boundary.older.position, boundary.newer.position) == (0, 8)
    assert boundary.untested == tuple(version(at) for at in range(1, 8))
    assert (boundary.confirmed, boundary.probability) == (False, None)


def test_a_finished_boundary_is_shown_while_another_is_searched() -> None:
    known = taught("PF.....G")
    assert sides(known.timeline()) == [(0, 1, Change.BREAKS)]
    assert sides(known.timeline(finished=False)) == [(0, 1, Change.BREAKS), (1, 7, Change.CHANGES)]


def test_once_the_search_has_ended_both_are_the_same() -> None:
    known = taught("PPFF", ".PF.")
    assert known.timeline(finished=False) == known.timeline()


def test_a_timeline_holds_every_build_of_which_there_is_a_run() -> None:
    timeline = taught("P.UF", "P...").timeline()
    assert (timeline.case, timeline.size) == ("x", 4)
    commit = RUNS["P"].build.git_version
    assert timeline.points == (
        Point(0, version(0), date(2026, 4, 1), commit, RUNS["P"].outcome),
        Point(2, version(2), date(2026, 4, 3), commit, RUNS["U"].outcome),
        Point(3, version(3), date(2026, 4, 4), commit, RUNS["F"].outcome),
    )


def test_a_point_is_what_the_first_run_came_to_whenever_it_was_learned() -> None:
    known = taught("...")
    assert known.point(1) is None
    known.learn(1, 2, RUNS["P"])
    known.learn(1, 1, RUNS["F"])
    point = known.point(1)
    assert point is not None
    assert point.outcome == RUNS["F"].outcome


def test_a_build_that_never_told_its_commit_has_none() -> None:
    known = taught("...")
    known.learn(0, 1, run(untestable(), version=None))
    point = known.point(0)
    assert point is not None
    assert (point.version, point.git_version) == (version(0), None)


def test_what_cannot_run_the_case_has_a_boundary_of_its_own() -> None:
    assert sides(taught("--PF").timeline()) == [(1, 2, Change.CHANGES), (2, 3, Change.BREAKS)]


def test_an_empty_knowledge_has_an_empty_timeline() -> None:
    known = taught("....")
    assert known.timeline() == Timeline("x", 4, (), ())
    assert known.is_open


@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        ("PPPPPPPPPFFF", [(8, 9)]),
        ("FPPPPPPPPPPP", [(0, 1)]),
        ("PPUUUPPPFFFF", [(7, 8)]),
        ("PPPPUUUFFFFF", [(3, 7)]),
        ("--PPPPPFFFFF", [(1, 2), (6, 7)]),
    ],
)
def test_a_search_from_the_first_to_the_last_run(
    truth: str, expected: list[tuple[int, int]], repeat: int
) -> None:
    known = taught("." * len(truth), repeat=repeat)
    while known.is_open:
        [position] = ask(known.history)
        numbers = known.to_probe(position)
        assert numbers == list(range(1, repeat + 1))
        for number in numbers:
            known.learn(position, number, RUNS[truth[position]])
    for position, numbers in known.to_confirm().items():
        for number in numbers:
            known.learn(position, number, RUNS[truth[position]])
    timeline = known.timeline()
    assert [(older, newer) for older, newer, _ in sides(timeline)] == expected
    assert all(boundary.confirmed for boundary in timeline.boundaries)
    assert known.to_repeat(3) == {}
    assert len(timeline.points) < len(truth)


# --- the order of what is learned ---------------------------------------------------------------

Learned = list[tuple[int, int, str]]


@st.composite
def learned(draw: st.DrawFn) -> tuple[int, Learned]:
    """A number of builds and runs of them, of which the ends have one that could be made."""
    size = draw(st.integers(2, 7))
    places = st.tuples(st.integers(0, size - 1), st.sampled_from([1, 2, 3, AGAIN + 1, AGAIN + 2]))
    runs = draw(st.dictionaries(places, st.sampled_from("PPFFGTSU-"), max_size=16))
    runs |= {(end, 1): draw(st.sampled_from("PFGT")) for end in (0, size - 1)}
    return size, [(position, number, letter) for (position, number), letter in runs.items()]


@settings(deadline=None)
@given(
    learned(),
    st.integers(1, 3),
    st.sampled_from(Match),
    st.sampled_from([None, 0, 2]),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_runs_are_learned_makes_no_difference(
    builds_and_runs: tuple[int, Learned],
    repeat: int,
    match: Match,
    max_skips: int | None,
    rng: random.Random,
) -> None:
    size, runs = builds_and_runs
    one, other = (Knowledge("x", builds(size), match, repeat, max_skips) for _ in range(2))
    for position, number, letter in runs:
        one.learn(position, number, RUNS[letter])
    for position, number, letter in rng.sample(runs, len(runs)):
        other.learn(position, number, RUNS[letter])
        # What was derived in between is not kept.
        assert other.is_open is bool(other.asked)
    assert one.history == other.history
    for finished in (True, False):
        assert one.timeline(finished) == other.timeline(finished)
    assert one.to_confirm() == other.to_confirm()
    assert one.to_repeat(2) == other.to_repeat(2)
    assert [one.to_probe(at) for at in range(size)] == [other.to_probe(at) for at in range(size)]


@settings(deadline=None)
@given(learned(), st.integers(1, 3))
def test_whatever_was_seen_only_what_agrees_is_confirmed_and_only_what_does_not_has_odds(
    builds_and_runs: tuple[int, Learned], repeat: int
) -> None:
    size, runs = builds_and_runs
    known = Knowledge("x", builds(size), Match.ANY, repeat)
    seen: dict[int, list[Run]] = {}
    for position, number, letter in sorted(runs):
        known.learn(position, number, RUNS[letter])
        seen.setdefault(position, []).append(RUNS[letter])
    kinds = {at: {each.outcome.kind for each in made} for at, made in seen.items()}
    timeline = known.timeline()
    for boundary in timeline.boundaries:
        both = boundary.older.position, boundary.newer.position
        if boundary.confirmed:
            assert all(len(seen[side]) >= 2 and len(kinds[side]) == 1 for side in both)
            assert boundary.probability is None
        if boundary.probability is not None:
            assert timeline.notes == (FLAKY,)
    doubtful = [boundary.probability for boundary in timeline.boundaries if boundary.probability]
    assert bool(doubtful) is bool(timeline.notes)
    assert not doubtful or sum(doubtful) >= CONFIDENCE
