"""Errors that a user can do something about."""

from __future__ import annotations


class ReproError(Exception):
    """One sentence that names the thing, and a hint that names the next step.

    Args:
        message: what is wrong, with the name of the file, key, build or program.
        hint: what to do now; a command where there is one.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Unavailable(ReproError):
    """A build that cannot be had here: not listed, not served, not installable.

    It says nothing about the build, so what was to be run in it is untestable, never a failure.

    Args:
        log: what the program that failed printed.
    """

    def __init__(self, message: str, hint: str | None = None, log: str = "") -> None:
        super().__init__(message, hint)
        self.log = log
