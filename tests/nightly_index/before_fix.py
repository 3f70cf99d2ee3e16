"""torch 2.13.0's `fx_utils.py` with the way in which 2.12 compared opaque values."""

from __future__ import annotations

FX_UTILS = "torch/_inductor/fx_utils.py"
_COMPARED = "        return new == old\n"
# Up to 2.12 a value that was no tensor had to be a list, None or a symbolic number.
_ASSERTED = """\
        graph = "graph()" if node is None else node.graph
        raise AssertionError(f"Unknown type {type(new)} in {graph}")
"""


def fx_utils_before_fix(source: str) -> str:
    """The text of 2.13.0's file, changed so that comparing opaque values raises as in 2.12.

    The function gets the name that it had then: it is part of what makes two failures the same.

    Raises:
        ValueError: the text is not that of 2.13.0.
    """
    if source.count(_COMPARED) != 1 or "def _is_fake_tensor_same(" not in source:
        raise ValueError(f"this {FX_UTILS} is not that of torch 2.13.0")
    changed = source.replace(_COMPARED, _ASSERTED)
    return changed.replace("_is_fake_tensor_same(", "is_fake_tensor_same(")
