"""Comparison."""


def assert_close(actual, expected, *, rtol=1.3e-6, atol=1e-5, equal_nan=False):
    """Raise unless all numbers are close."""
    if len(actual.values) != len(expected.values):
        raise AssertionError("The values for attribute 'shape' do not match")
    for one, other in zip(actual.values, expected.values, strict=True):
        both_nan = equal_nan and one != one and other != other
        if not (both_nan or abs(one - other) <= atol + rtol * abs(other)):
            raise AssertionError(f"Tensor-likes are not close: {actual} and {expected}")
