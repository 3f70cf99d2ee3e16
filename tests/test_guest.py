"""The guest's comparisons and its way with exceptions, in this interpreter's torch."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from repro import guest


def differs(expected: object, actual: object) -> bool:
    try:
        guest.compare_tree("output", expected, actual)
    except guest.Mismatch:
        return True
    return False


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (torch.ones(2), torch.ones(2) * 2),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (1 + 2j, 2 + 4j),
        ({1, 3}, {1, 2}),
        (torch.float32, torch.float64),
        (torch.Size([2]), torch.Size([3])),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"b": 1}),
        (1, True),
        (None, 0),
        ("a", "b"),
    ],
)
def test_results_that_differ_are_told_apart(expected: object, actual: object) -> None:
    assert differs(expected, actual)
    assert not differs(expected, expected)


def test_two_nans_are_the_same_result() -> None:
    assert not differs(
        (float("nan"), torch.tensor(torch.nan)), (float("nan"), torch.tensor(torch.nan))
    )


@dataclasses.dataclass
class Opaque:
    value: torch.Tensor


def test_what_can_only_be_compared_by_type_is_named() -> None:
    output = (torch.ones(2), Opaque(torch.ones(2)), 3, None, torch.float32, {1})
    (name,) = guest.opaque_leaves(output)
    assert name.endswith("Opaque")


class Fights(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise SystemExit(3)

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError("no")

    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("no")


def test_an_exception_that_fights_back_is_described_all_the_same() -> None:
    error = Fights()
    guest.remember(error, ["phase"])
    assert "its __str__ raised SystemExit" in guest.text_of(error)
    assert guest.described(error)["type"].endswith("Fights")
    assert guest.chain_of(error) == [error]


def test_a_long_chain_is_bounded() -> None:
    error = ValueError("0")
    for i in range(200):
        outer = ValueError(str(i))
        outer.__cause__ = error
        error = outer
    assert len(guest.chain_of(error)) == guest.CHAIN_LIMIT
