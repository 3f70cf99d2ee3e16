"""One-dimensional tensors of floats."""


class Tensor:
    """Some numbers, added and multiplied by element."""

    requires_grad = False

    def __init__(self, values):
        self.values = tuple(map(float, values))

    def _with(self, other, function):
        others = other.values if isinstance(other, Tensor) else [float(other)] * len(self.values)
        return Tensor(map(function, self.values, others))

    def __add__(self, other):
        return self._with(other, float.__add__)

    def __mul__(self, other):
        return self._with(other, float.__mul__)

    def __repr__(self):
        return f"tensor({list(self.values)})"


def tensor(values, device=None):
    """A tensor of a list."""
    return Tensor(values)
