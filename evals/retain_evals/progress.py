"""How far an evaluation has come, on stderr: a bar with the time left; a line a minute where none can be drawn."""

import sys
import time
from types import TracebackType
from typing import Final, Self

from rich import progress
from rich.console import Console

_LINE_EVERY_S: Final = 60.0


class Progress:
    """Questions asked, out of `total`; `done` of them in an earlier stretch."""

    def __init__(self, what: str, total: int, done: int, /, *, shown: bool) -> None:
        self._what = what
        self._total = total
        self._before = self._done = done
        self._shown = shown
        self._bar = _bar() if shown and sys.stderr.isatty() else None
        self._started = self._told = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=self._total, completed=self._done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, questions: int, /) -> None:
        """Tell that more questions were asked."""
        self._done += questions
        if self._bar is not None:
            self._bar.advance(self._task, questions)
        elif self._shown and time.monotonic() - self._told >= _LINE_EVERY_S:
            self._told = time.monotonic()
            sys.stderr.write(f"{self._what}: {self._done} of {self._total} questions, {self._left()} left\n")

    def tell(self, text: str, /) -> None:
        """Write a line beside the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        elif self._shown:
            sys.stderr.write(f"{text}\n")

    def _left(self) -> str:
        pace = (time.monotonic() - self._started) / max(1, self._done - self._before)
        return f"{pace * (self._total - self._done) / 60:.0f} min"


def _bar() -> progress.Progress:
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("questions"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
