"""There is no GPU."""


def is_available():
    """Never."""
    return False
