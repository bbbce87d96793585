"""Lists, types and what there is in all."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from math import isqrt

from retain.domain.errors import InvalidInputError
from retain.domain.ids import parse_id
from retain.domain.memory import ACTIVE, Filter, Listing, NamespaceCount, Page, Stats, TypeCount, counted_types
from retain.domain.ontology import OwnType
from retain.domain.text import ROOT, is_within
from retain.storage.sqlite import meta
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import condition, namespaces_within, narrowing, tag_keys
from retain.storage.sqlite.rows import id_blob, id_text, memories_by_key
from retain.storage.sqlite.tags import tag_counts
from retain.storage.sqlite.totals import Totals, by_state, count
from retain.storage.words import canonical_json

_COUNTED_AT_MOST = 50_000
"""Counting so many in an index takes 1.5 ms."""
_LOOKUP_COST = 8
"""Looking at a memory by its key costs some 8 times what reading an entry of an index does."""


def page(connection: Connection, totals: Totals, where: Filter, wanted: Page, /) -> Listing:
    """Return one page, newest first by (created_at, id)."""
    index = _index_to_walk(connection, where, wanted.limit)
    matching = condition(connection, where, probed=bool(index))
    # A plus sign keeps SQLite from taking an index for the order, so that it takes one for the condition.
    created_at, id_ = ("created_at", "id") if index else ("+created_at", "+id")
    if wanted.cursor is not None:
        at, last = decoded(wanted.cursor)
        matching.add(f"({created_at}, {id_}) < (?, ?)", at, id_blob(last))
    rows = connection.rows(
        f"""SELECT key, created_at, id FROM memory {index} WHERE {matching.sql}
            ORDER BY {created_at} DESC, {id_} DESC LIMIT ?""",
        (*matching.values, wanted.limit + 1),
    )
    shown = rows[: wanted.limit]
    memories = memories_by_key(connection, [row[0] for row in shown])
    return Listing(
        tuple(memories[row[0]] for row in shown),
        totals.of(connection, where),
        encoded(shown[-1][1], id_text(shown[-1][2])) if len(rows) > wanted.limit else None,
    )


def _index_to_walk(connection: Connection, where: Filter, limit: int) -> str:
    """Return how to go through memories newest first; empty when all that match are better found first, then sorted.

    Going through them fills a page after limit / share memories, where `share` is the part of them that matches if
    the conditions have nothing to do with each other. Sorting looks at all that the most selective condition leaves.
    """
    counted = by_state(connection, where.namespace)
    wanted, inside = sum(counted[state] for state in where.states), sum(counted.values())
    if where.ids is not None or where.conversation_id is not None or not wanted:
        return ""
    everywhere = sum(by_state(connection, None).values())
    alone = len(namespaces_within(connection, where.namespace) or ()) == 1
    walked = inside if alone else everywhere
    share = wanted / walked
    enough = min(isqrt(int(limit * everywhere / share)) + 1, _COUNTED_AT_MOST)
    found = list(_counted(connection, where, enough))
    share *= min(found, default=everywhere) / everywhere
    least = min(*found, inside, wanted if "active" not in where.states else inside)
    if not least or min(limit / share, walked) > least:
        return ""
    return "INDEXED BY memory_place" if alone else "INDEXED BY memory_newest"


def _counted(connection: Connection, where: Filter, enough: int) -> Iterator[int]:
    """Yield how many memories meet each condition that an index can count; no more than `enough` are counted."""
    if where.tags:
        uses = [count for _, count in tag_keys(connection, where.tags)]
        yield (min if where.tag_match == "all" else sum)(uses or [0])
    for part in (
        Filter(types=where.types),
        Filter(agent_id=where.agent_id),
        Filter(since=where.since, until=where.until),
    ):
        matching = narrowing(connection, part)
        if matching.parts:
            some = f"SELECT 1 FROM memory WHERE {matching.sql} LIMIT {enough}"
            yield connection.count(f"SELECT count(*) FROM ({some})", matching.values)


def encoded(created_at: int, id_: str, /) -> str:
    """Return an opaque cursor for the place behind (created_at, id)."""
    return base64.urlsafe_b64encode(canonical_json([created_at, id_]).encode()).decode().rstrip("=")


def decoded(cursor: str, /) -> tuple[int, str]:
    """Return (created_at, id) of a cursor.

    Raises:
        InvalidInputError: it is not one of ours.
    """
    try:
        parsed = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        parsed = None
    match parsed:
        case [int(created_at), str(id_)] if not isinstance(created_at, bool) and abs(created_at) < 1 << 62:
            return created_at, parse_id(id_, field="cursor")
        case _:
            raise InvalidInputError("cursor is not one that a listing returned; start without it", field="cursor")


def ids(connection: Connection, where: Filter, /) -> list[str]:
    """Return all ids that match, newest first."""
    matching = condition(connection, where)
    rows = connection.rows(
        f"SELECT id FROM memory WHERE {matching.sql} ORDER BY created_at DESC, id DESC", matching.values
    )
    return [id_text(row[0]) for row in rows]


def namespaces(connection: Connection, where: Filter, /) -> list[NamespaceCount]:
    """Return the namespaces that hold matching memories themselves, by name."""
    if narrowing(connection, where).parts:
        matching = condition(connection, where)
        sql, values = (
            f"SELECT namespace, count(*) AS n FROM memory WHERE {matching.sql} GROUP BY namespace",
            matching.values,
        )
    else:  # what the counters know
        states = " + ".join(sorted(where.states))
        sql, values = f"SELECT key AS namespace, {states} AS n FROM namespace WHERE n > 0", []
    rows = connection.rows(
        f"SELECT path, n FROM ({sql}) AS used JOIN namespace ON namespace.key = used.namespace ORDER BY path", values
    )
    return [NamespaceCount(path, n) for path, n in rows if is_within(path, where.namespace or ROOT)]


def types(connection: Connection, where: Filter, /) -> list[TypeCount]:
    """Return known types with their use, by name."""
    index, matching = _covering(connection, where, "memory_type"), condition(connection, where)
    used: dict[str, int] = dict(
        connection.rows(
            f"SELECT type, count(*) FROM memory {index} WHERE {matching.sql} GROUP BY type", matching.values
        )
    )
    return counted_types(own_types(connection, where.namespace or ROOT), used)


def _covering(connection: Connection, where: Filter, index: str) -> str:
    """Name an index that has states and namespaces, when reading all of it is quicker than looking at each match."""
    inside, everywhere = (sum(by_state(connection, namespace).values()) for namespace in (where.namespace, None))
    narrowed = narrowing(connection, where).parts
    return f"INDEXED BY {index}" if not narrowed and inside * _LOOKUP_COST > everywhere else ""


def own_types(connection: Connection, namespace: str, /) -> list[OwnType]:
    """Return the own types that are known in a namespace: registered there, above or below; outer ones first."""
    rows = connection.rows("SELECT name, parent, namespace FROM registered_type ORDER BY namespace, name")
    return [row for row in rows if is_within(row[2], namespace) or is_within(namespace, row[2])]


def register_type(connection: Connection, name: str, parent: str | None, namespace: str, /) -> None:
    """Add an own type, or give it another parent; None leaves the one it has."""
    connection.run(
        """INSERT INTO registered_type(name, parent, namespace) VALUES (?, ?, ?)
           ON CONFLICT (name, namespace) DO UPDATE SET parent = coalesce(excluded.parent, parent)""",
        (name, parent, namespace),
    )


def stats(connection: Connection, where: Filter, /) -> Stats:
    """Return the counts over what matches `where`, its states aside."""
    where = replace(where, states=ACTIVE)
    size = connection.count("PRAGMA page_count") * connection.count("PRAGMA page_size")
    return Stats(
        total=count(connection, where),
        superseded=count(connection, replace(where, states=frozenset(("superseded",)))),
        archived=count(connection, replace(where, states=frozenset(("archived",)))),
        tags=len(tag_counts(connection, where, 1)),
        conversations=_conversations(connection, where),
        by_type=tuple(counted for counted in types(connection, where) if counted.count),
        model=meta.model_in_use(connection),
        bytes=size if where.namespace in (None, ROOT) else None,
    )


def _conversations(connection: Connection, where: Filter) -> int:
    index, matching = _covering(connection, where, "memory_conversation"), condition(connection, where)
    return connection.count(
        f"""SELECT count(*) FROM (SELECT DISTINCT conversation_id FROM memory {index}
                                  WHERE conversation_id IS NOT NULL AND {matching.sql})""",
        matching.values,
    )
