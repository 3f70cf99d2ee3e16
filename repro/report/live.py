"""What is being done right now, on stderr: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Live:
    """A context in which `say` shows what is going on, and how many steps are left.

    Args:
        to: the console of stderr.
        steps: how many there are in all.
    """

    def __init__(self, to: Console, steps: int) -> None:
        self._console = to
        self._steps = steps
        self._done = 0
        self._progress: Progress | None = None
        if to.is_terminal:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=to,
                transient=True,
            )

    def __enter__(self) -> Live:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the line away."""
        if self._progress is not None:
            self._progress.stop()

    def say(self, what: str) -> None:
        """Show what has begun; the time shown counts from here."""
        left = self._steps - self._done
        text = f"{what} ({left} of {self._steps} left)" if self._steps > 1 else what
        if self._progress is None:
            self._console.print(text)
            return
        for task in list(self._progress.task_ids):
            self._progress.remove_task(task)
        self._progress.add_task(text, total=None)

    def step(self) -> None:
        """One step is over."""
        self._done += 1
