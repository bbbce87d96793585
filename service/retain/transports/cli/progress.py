"""Progress of long work: a bar on stderr when that is a terminal, nothing otherwise."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

Advance = Callable[[int], None]
_SHOWN_EVERY_S = 0.1


@contextmanager
def progress_bar(
    what: str, total: int | None, /, *, unit: Literal["memories", "bytes"] = "memories", shown: bool = True
) -> Generator[Advance]:
    """Show how far work has come; the block gets a function that takes how much was done since the last call.

    Args:
        what: The work, such as "exporting".
        total: How much there is; None when nobody knows, and then no time left is shown.
        unit: What is counted. Of "bytes" each call stands for one record, and records are shown with their speed.
        shown: False shows nothing.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    count = (MofNCompleteColumn(),)
    if unit == "bytes":
        count = (TaskProgressColumn(), TextColumn("{task.fields[calls]:,} records, {task.fields[speed]:,.0f}/s"))
    columns = (TextColumn("{task.description}"), BarColumn(), *count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total, calls=0, speed=0.0)
        began = updated = time.monotonic()
        done = calls = 0

        def advance(more: int) -> None:
            nonlocal done, calls, updated
            done, calls, now = done + more, calls + 1, time.monotonic()
            if now >= updated + _SHOWN_EVERY_S or done == total:
                updated = now
                progress.update(task, completed=done, calls=calls, speed=calls / max(now - began, _SHOWN_EVERY_S))

        yield advance
