"""How memories, hits and outcomes look to people, at 80 columns and more."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from retain.transports.cli.display import clipped, one_line, quoted_if_needed, visible
from retain.transports.cli.output import Output

if TYPE_CHECKING:
    from retain.domain.memory import Hit, Memory, Similar

_ID_STYLE = "cyan"
_QUIET = "dim"
_MOST_SNIPPET_CELLS = 400
_AGENT_TAG = "agent:"


def time_text(moment: datetime, /) -> str:
    """Return a time to the minute, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M}Z"


def tags_text(tags: Iterable[str], /) -> str:
    """Return tags as `#one #"two words"`."""
    return " ".join(f"#{quoted_if_needed(tag)}" for tag in tags)


def facts(memory: "Memory", out: Output, /) -> str:
    """Return the line under a memory: type, state, tags, agent, namespace, time; what is usual is left out."""
    parts = [memory.type]
    if memory.state != "active":
        parts.append(memory.state)
    if memory.tags:
        parts.append(tags_text(memory.tags))
    if memory.agent_id and f"{_AGENT_TAG}{memory.agent_id}" not in memory.tags:
        parts.append(f"agent {quoted_if_needed(memory.agent_id)}")
    if memory.namespace != "/":
        parts.append(one_line(memory.namespace))
    parts.append(time_text(memory.occurred_at))
    return out.glyphs.dot.join(parts)


def hits_table(hits: Iterable["Hit"], out: Output, /) -> Table:
    """Return hits with rank, score, snippet, and why they were found."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(justify="right", style=_QUIET)
    grid.add_column(justify="right", style="bold")
    grid.add_column(overflow="fold")
    for rank, hit in enumerate(hits, 1):
        snippet = clipped(one_line(hit.snippet), _MOST_SNIPPET_CELLS, ellipsis=out.glyphs.ellipsis)
        body = Text(snippet)
        body.append("\n" + facts(hit.memory, out), style=_QUIET)
        if hit.signals:
            body.append("\n" + why(hit.signals), style=_QUIET)
        body.append("\n" + hit.memory.id + "\n", style=_ID_STYLE)
        grid.add_row(str(rank), f"{hit.score:.2f}", body)
    return grid


def why(signals: Mapping[str, float], /) -> str:
    """Return what a score is made of, the strongest first."""
    strongest_first = sorted(signals.items(), key=lambda item: -item[1])
    return "why: " + ", ".join(f"{name} {value:.2f}" for name, value in strongest_first)


def memories_table(memories: Iterable["Memory"], out: Output, /) -> Table:
    """Return memories of a listing: the beginning of each on one line, what is known of it, its id."""
    grid = Table.grid(pad_edge=False)
    grid.add_column(overflow="fold")
    width = out.console.width
    for memory in memories:
        body = Text.assemble((clipped(one_line(memory.content), width, ellipsis=out.glyphs.ellipsis), "bold"))
        body.append("\n" + facts(memory, out), style=_QUIET)
        body.append("\n" + memory.id + "\n", style=_ID_STYLE)
        grid.add_row(body)
    return grid


def show_memory(memory: "Memory", out: Output, /) -> None:
    """Print all there is of one memory."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(style=_QUIET)
    grid.add_column(overflow="fold")
    rows: dict[str, str | None] = {
        "id": memory.id,
        "type": memory.type,
        "tags": tags_text(memory.tags),
        "namespace": one_line(memory.namespace),
        "agent": memory.agent_id and quoted_if_needed(memory.agent_id),
        "conversation": memory.conversation_id and quoted_if_needed(memory.conversation_id),
        "sequence": None if memory.sequence is None else str(memory.sequence),
        "metadata": _json_line(memory.metadata) if memory.metadata else None,
        "happened": time_text(memory.occurred_at),
        "created": time_text(memory.created_at),
        "updated": time_text(memory.updated_at),
        "superseded by": memory.superseded_by,
        "archived": memory.archived_at and time_text(memory.archived_at),
    }
    for name, value in rows.items():
        if value:
            grid.add_row(name, Text(value))
    out.show(grid)
    out.line("")
    out.line(visible(memory.content))


def show_similar(similar: Iterable["Similar"], out: Output, /) -> None:
    """Print what a stored memory resembles."""
    for each in similar:
        out.console.print(
            Text.assemble(
                ("similar to ", "yellow"),
                (each.id, _ID_STYLE),
                f" ({math.floor(each.score * 100) / 100:.2f}): ",  # 1.00 is for the same text only
                clipped(one_line(each.snippet), _MOST_SNIPPET_CELLS, ellipsis=out.glyphs.ellipsis),
            )
        )


def plain_table(columns: Mapping[str, str], rows: Iterable[Iterable[str]], /) -> Table:
    """Return a table with a header line. `columns` gives each its justification; values must be safe already."""
    from rich import box

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name, justify in columns.items():
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(value) for value in row))
    return table


def _json_line(value: object) -> str:
    import json

    return visible(json.dumps(value, ensure_ascii=False))
