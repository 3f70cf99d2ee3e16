"""When two outcomes are the same: what the search is told about a run. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum

from repro.bisect.search import SKIP
from repro.outcome import How, Kind, Outcome
from repro.timeline import Change

UNSUPPORTED = Kind.UNSUPPORTED


class Match(StrEnum):
    """How much two failures must share to be the same bug.

    `STAGE`: stage and innermost exception type. `SIGNATURE`: the raising function and the first
    line of the message too. `ANY`: that they are failures.
    """

    STAGE = "stage"
    SIGNATURE = "signature"
    ANY = "any"


def label_of(outcome: Outcome, match: Match, hangs: bool = False) -> Hashable:
    """The class of an outcome. What says nothing about the build is `SKIP`.

    Args:
        hangs: whether time-outs are what is looked for. Else they are skipped: a busy machine can
            cause them. Their stage is where the time was over, so it tells none from another.
    """
    if outcome.kind is Kind.UNTESTABLE:
        return SKIP
    if outcome.kind is not Kind.FAIL:
        return outcome.kind
    if outcome.how is How.TIMEOUT and not hangs:
        return SKIP
    if match is Match.ANY:
        return (Kind.FAIL,)
    if outcome.how is How.TIMEOUT:
        return Kind.FAIL, How.TIMEOUT
    if match is Match.SIGNATURE:
        return Kind.FAIL, outcome.signature
    innermost = outcome.exceptions[-1] if outcome.exceptions else outcome.signal or outcome.how
    return Kind.FAIL, outcome.stage, innermost


def change_between(older: Outcome, newer: Outcome) -> Change:
    """What happens to a case from one build to the next."""
    kinds = older.kind, newer.kind
    if kinds == (Kind.PASS, Kind.FAIL):
        return Change.BREAKS
    return Change.FIXES if kinds == (Kind.FAIL, Kind.PASS) else Change.CHANGES
