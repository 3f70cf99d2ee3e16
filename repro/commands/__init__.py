"""Commands that are not about running a case; `cli.py` gathers them."""
