"""Progress of long work: a bar on stderr when that is a terminal, nothing otherwise."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

Advance = Callable[[int], None]


@contextmanager
def progress_bar(
    what: str, total: int | None, /, *, unit: Literal["memories", "bytes"] = "memories", shown: bool = True
) -> Generator[Advance]:
    """Show how far work has come; the block gets a function that takes how much was done since the last call.

    Args:
        what: The work, such as "exporting".
        total: How much there is; None when nobody knows.
        unit: What is counted.
        shown: False shows nothing.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)
