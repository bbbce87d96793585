"""Export and import: a database as JSON Lines, with progress."""

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.files import STANDARD, opened, read_records, replacing
from retain.transports.cli.memories import counted
from retain.transports.cli.options import FilterOptions

if TYPE_CHECKING:
    from typing import TextIO

    from retain.core.api import MemoryAPI

PANEL = "Move"


def register(app: typer.Typer, /) -> None:
    """Add the commands to `app`."""
    command(app, "export", panel=PANEL)(export)
    command(app, "import", panel=PANEL)(import_file)


async def export(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="Where to; - is standard output.")] = STANDARD,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    where: FilterOptions,
) -> None:
    """Write memories with all their fields as JSON Lines. Every state is included unless --state says otherwise."""
    from dataclasses import replace

    from retain.domain.memory import EVERYTHING, Page
    from retain.transports.cli.progress import progress_bar

    condition = where.to_filter()
    if not where.states:
        condition = replace(condition, states=EVERYTHING.states)
    async with call.memory() as memory:
        total = (await memory.list(condition, Page(1))).total
        with progress_bar("exporting", total, shown=file != STANDARD) as advance:
            records = memory.export(condition)
            if file == STANDARD:
                written = await _write(records, sys.stdout, advance)
            else:
                with replacing(file, overwrite=force) as stream:
                    written = await _write(records, stream, advance)
    if file == STANDARD:
        return
    if call.out.as_json:
        call.out.json({"file": file, "memories": written["memory"], "tombstones": written["tombstone"]})
    else:
        call.out.line(f"exported {counted(written['memory'], 'memory', 'memories')} to {file}")


async def _write(records: AsyncIterator[Mapping[str, Any]], stream: "TextIO", advance: Any) -> Counter[str]:
    written: Counter[str] = Counter()
    async for record in records:
        stream.write(json.dumps(record, ensure_ascii=stream is sys.stdout and not _is_utf8(stream)) + "\n")
        written[record["kind"]] += 1
        advance(record["kind"] == "memory")
    stream.flush()
    return written


def _is_utf8(stream: "TextIO") -> bool:
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


async def import_file(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="FILE", help="An export; - is standard input.", show_default=False)],
) -> None:
    """Read an export back, with ids, times and states. What is there is left alone, so a stopped import goes on."""
    import asyncio

    from retain.domain.json_form import imported_to_json
    from retain.transports.cli.progress import progress_bar

    with opened(file) as (stream, size):
        async with call.memory() as memory:
            before = await _count(memory)
            try:
                with progress_bar("importing", size, unit="bytes") as advance:
                    imported = await memory.import_records(read_records(stream, file, advance))
            except (KeyboardInterrupt, asyncio.CancelledError):
                came = counted(await _count(memory) - before, "memory is", "memories are")
                call.out.remark(f"stopped; {came} in, and the same command goes on with the rest")
                raise
    if call.out.as_json:
        call.out.json(imported_to_json(imported))
    else:
        call.out.line(
            f"imported {counted(imported.created, 'memory', 'memories')}; {imported.skipped:,} were there already"
            + (f"; {imported.tombstones:,} deletions noted" if imported.tombstones else "")
        )


async def _count(memory: "MemoryAPI") -> int:
    from retain.domain.memory import EVERYTHING, Page

    return (await memory.list(EVERYTHING, Page(1))).total
