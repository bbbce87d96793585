"""The commands that only read: recall, list, stats."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.memories import counted
from retain.transports.cli.options import FilterOptions, checked

if TYPE_CHECKING:
    from retain.domain.memory import Listing, Recall, Stats

ALL_AT_ONCE = 500
"""Memories a page holds when all are asked for."""


def register(app: typer.Typer, /) -> None:
    """Add the commands to `app`."""
    command(app, "recall", panel="Store and find")(recall)
    command(app, "list", panel="Store and find")(list_memories)
    command(app, "stats", panel="Look after it")(stats)


async def recall(
    call: Call,
    query: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to find; - reads it from standard input.", show_default=False)
    ],
    *,
    k: Annotated[int, typer.Option("-k", "--limit", metavar="N", help="Most memories to show, 1 to 1,000.")] = 10,
    mode: Annotated[
        Literal["hybrid", "semantic", "keyword", "exact"],
        typer.Option("--mode", help="Meaning and words, one of the two, or literal text."),
    ] = "hybrid",
    group_by: Annotated[
        Literal["conversation"] | None,
        typer.Option("--group-by", help="Only the best of each conversation.", show_default=False),
    ] = None,
    min_score: Annotated[float, typer.Option("--min-score", metavar="S", help="Least score, 0 to 1.")] = 0.0,
    time_from_query: Annotated[
        bool, typer.Option("--time-from-query", help='Read words such as "last week" in TEXT as a time.')
    ] = False,
    where: FilterOptions,
) -> None:
    """Find memories by meaning, best first. The score is in 0 to 1 and comparable between questions."""
    from retain.domain.json_form import recall_to_json
    from retain.transports.cli.memories import text_or_stdin
    from retain.transports.schemas import SearchFields

    values: dict[str, Any] = {
        **where.given(),
        "query": text_or_stdin(query),
        "k": k,
        "mode": mode,
        "min_score": min_score,
        "time_from_query": time_from_query,
    }
    fields = checked(SearchFields, values)
    async with call.memory() as memory:
        found = await memory.recall(
            fields.query,
            k=fields.k,
            mode=fields.mode,
            where=fields.to_filter(),
            group_by=group_by,
            min_score=fields.min_score,
            time_from_query=fields.time_from_query,
        )
    if call.out.as_json:
        call.out.json(recall_to_json(found))
    else:
        _show_recall(found, call)


async def list_memories(
    call: Call,
    *,
    limit: Annotated[int, typer.Option("--limit", "-k", metavar="N", help="Memories a page, 1 to 1,000.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Where the page before ended.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that match, however many.")] = False,
    where: FilterOptions,
) -> None:
    """List memories, newest first."""
    from retain.domain.json_form import listing_to_json
    from retain.domain.memory import Page

    condition = where.to_filter()
    async with call.memory() as memory:
        page = await memory.list(condition, Page(ALL_AT_ONCE if everything else limit, cursor))
        pages = [page]
        while everything and page.next_cursor:
            if not call.out.as_json:
                _show_page(page, call)
            page = await memory.list(condition, Page(ALL_AT_ONCE, page.next_cursor))
            pages.append(page)
    if call.out.as_json:
        forms = [listing_to_json(each) for each in pages]
        joined = [form for each in forms for form in each["memories"]]
        call.out.json({**forms[-1], "memories": joined})
    else:
        _show_page(page, call)
        _show_rest(page, sum(len(each.memories) for each in pages), call)


async def stats(call: Call) -> None:
    """Count what is stored."""
    from retain.domain.json_form import stats_to_json

    async with call.memory() as memory:
        counts = await memory.stats()
    if call.out.as_json:
        call.out.json(stats_to_json(counts))
    else:
        _show_stats(counts, call)


def _show_recall(found: "Recall", call: Call) -> None:
    from retain.transports.cli.cards import hits_table, time_text

    if found.time_range is not None:
        since, until = found.time_range.since, found.time_range.until
        parts = [f"from {time_text(since)}" if since else "", f"before {time_text(until)}" if until else ""]
        call.out.line("read as a time: " + " ".join(filter(None, parts)), style="dim")
    if found.hits:
        call.out.show(hits_table(found.hits, call.out))
    else:
        call.out.line("nothing found")


def _show_page(page: "Listing", call: Call) -> None:
    from retain.transports.cli.cards import memories_table

    if page.memories:
        call.out.show(memories_table(page.memories, call.out))


def _show_rest(page: "Listing", shown: int, call: Call) -> None:
    if page.next_cursor:
        call.out.line(f"{shown:,} of {page.total:,}; go on with --cursor {page.next_cursor}, or --all", style="dim")
    else:
        call.out.line(counted(page.total, "memory", "memories"), style="dim")


def _show_stats(counts: "Stats", call: Call) -> None:
    from retain.transports.cli.cards import plain_table

    rows = [
        ("memories", f"{counts.total:,}"),
        ("superseded", f"{counts.superseded:,}"),
        ("archived", f"{counts.archived:,}"),
        ("tags", f"{counts.tags:,}"),
        ("conversations", f"{counts.conversations:,}"),
        *((f"type {used.type}", f"{used.count:,}") for used in counts.by_type if used.count),
        ("model", "none yet" if counts.model is None else f"{counts.model.id}, {counts.model.dimensions} dimensions"),
    ]
    if counts.bytes is not None:
        rows.append(("size", size_text(counts.bytes)))
    call.out.show(plain_table({"what": "left", "count": "left"}, rows))


def size_text(count: int) -> str:
    """Return a number of bytes as people read it: "12.3 MB"."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
