"""Several searches over one row of builds: which build is worth most to all of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from repro.bisect.search import History, ask, changes


def wanted(histories: Sequence[History], count: int) -> list[int]:
    """Positions to look at, the most worth first.

    What is first for one search is needed for certain and comes before what only may be. Among
    equals the build comes first that is expected to tell most, in bits over all searches.
    """
    searched = [history for history in histories if ask(history)]
    if len(searched) == 1:
        return list(ask(searched[0], count))
    rows = [ask(history, count) for history in searched]
    ranked = [position for row in zip(*rows, strict=False) for position in row]
    firsts = {row[0] for row in rows}
    worth = {
        position: sum(_bits(history, position) for history in searched)
        for position in dict.fromkeys((*firsts, *ranked))
    }
    return sorted(worth, key=lambda p: (p not in firsts, -worth[p], p))[:count]


def _bits(history: History, position: int) -> float:
    """What a build is expected to tell one search."""
    if position not in ask(history, history.size):
        return 0.0
    for change in changes(history, final=False):
        if change.older < position < change.newer:
            share = (position - change.older) / (change.newer - change.older)
            return -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    return 1.0
