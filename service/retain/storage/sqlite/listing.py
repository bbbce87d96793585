"""Lists and counts. One definition of a total everywhere: what the filter matches, active memories by default."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

from retain.domain.errors import InvalidInputError
from retain.domain.ids import parse_id
from retain.domain.memory import ACTIVE, STATES, Filter, Listing, Page, Stats, TypeCount, counted_types
from retain.domain.ontology import OwnType
from retain.domain.text import ROOT, is_within
from retain.storage.sqlite import meta
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import Condition, condition, namespaces_within, narrowing, tag_keys
from retain.storage.sqlite.rows import id_blob, id_text, memories_by_key
from retain.storage.sqlite.tags import tag_counts
from retain.storage.words import canonical_json


def page(connection: Connection, where: Filter, wanted: Page, /) -> Listing:
    """Return one page, newest first by (created_at, id)."""
    index = _index_to_walk(connection, where, wanted.limit)
    matching = condition(connection, where, probed=bool(index))
    total = count(connection, where)
    if wanted.cursor is not None:
        created_at, id_ = decoded(wanted.cursor)
        matching.add("(memory.created_at, memory.id) < (?, ?)", created_at, id_blob(id_))
    rows = connection.rows(
        f"""SELECT key, created_at, id FROM memory {index} WHERE {matching.sql}
            ORDER BY created_at DESC, id DESC LIMIT ?""",
        (*matching.values, wanted.limit + 1),
    )
    shown = rows[: wanted.limit]
    memories = memories_by_key(connection, [row[0] for row in shown])
    return Listing(
        tuple(memories[row[0]] for row in shown),
        total,
        encoded(shown[-1][1], id_text(shown[-1][2])) if len(rows) > wanted.limit else None,
    )


def _index_to_walk(connection: Connection, where: Filter, limit: int) -> str:
    """Return how to go through memories newest first; empty when all that match are better found first, then sorted.

    Going through them meets `limit` matches after limit * memories / matches; sorting looks at each match.
    """
    namespaces = namespaces_within(connection, where.namespace)
    index = "INDEXED BY memory_place" if namespaces and len(namespaces) == 1 else "INDEXED BY memory_newest"
    within, everywhere = (sum(_states(connection, Filter(namespace=name)).values()) for name in (where.namespace, None))
    if where.ids is not None or where.conversation_id is not None or not within:
        return ""
    matches = _estimated_matches(connection, where, isqrt(limit * everywhere) + 1)
    return index if matches and min(limit * everywhere // matches, within) < matches else ""


def _estimated_matches(connection: Connection, where: Filter, enough: int) -> int:
    """Return how many memories match what can be counted quickly, at most: tags, else agent and type up to `enough`."""
    if where.tags:
        uses = [count for _, count in tag_keys(connection, where.tags)]
        return (min if where.tag_match == "all" else sum)(uses or [0])
    only = Filter(types=where.types, agent_id=where.agent_id, states=STATES)
    matching = condition(connection, only)
    if not matching.parts:
        return 0
    limited = f"SELECT 1 FROM memory WHERE {matching.sql} LIMIT {enough}"
    return connection.count(f"SELECT count(*) FROM ({limited})", matching.values)


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


def count(connection: Connection, where: Filter, /) -> int:
    """Return how many memories match; from counters where namespace and states, or a tag alone, say it all."""
    rest = narrowing(connection, where)
    counted = _states(connection, where)
    if not rest.parts and not rest.never:
        return sum(counted[state] for state in where.states)
    uses = [count for _, count in tag_keys(connection, where.tags)]
    hidden = counted["superseded"] + counted["archived"]
    if where == Filter(tags=where.tags) and len(where.tags) == 1 and sum(uses) > hidden:
        return _tagged(connection, where.tags)
    matching = condition(connection, where, probed=sum(counted.values()) < min(uses, default=0))
    return connection.count(f"SELECT count(*) FROM memory WHERE {matching.sql}", matching.values)


def _tagged(connection: Connection, tags: Sequence[str]) -> int:
    """Return how many active memories carry a tag: its uses but those by memories that are hidden, which are few."""
    ((key, uses),) = tag_keys(connection, tags)
    return uses - connection.count(
        """SELECT count(*) FROM memory INDEXED BY memory_hidden JOIN memory_tag ON memory_tag.memory = memory.key
           WHERE (superseded_by IS NOT NULL OR archived_at IS NOT NULL) AND tag = ?""",
        (key,),
    )


def _states(connection: Connection, where: Filter) -> dict[str, int]:
    within = Condition()
    keys = namespaces_within(connection, where.namespace)
    if keys is not None:
        within.add("key IN (SELECT value FROM json_each(?))", canonical_json(keys))
    active, superseded, archived = connection.rows(
        f"SELECT total(active), total(superseded), total(archived) FROM namespace WHERE {within.sql}", within.values
    )[0]
    return {"active": int(active), "superseded": int(superseded), "archived": int(archived)}


def types(connection: Connection, where: Filter, /) -> list[TypeCount]:
    """Return known types with their use, by name."""
    matching = condition(connection, where)
    used: dict[str, int] = dict(
        connection.rows(f"SELECT type, count(*) FROM memory WHERE {matching.sql} GROUP BY type", matching.values)
    )
    return counted_types(own_types(connection, where.namespace or ROOT), used)


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
    matching = condition(connection, where)
    conversations = connection.count(
        f"SELECT count(DISTINCT conversation_id) FROM memory WHERE {matching.sql}", matching.values
    )
    size = connection.count("PRAGMA page_count") * connection.count("PRAGMA page_size")
    return Stats(
        total=count(connection, where),
        superseded=count(connection, replace(where, states=frozenset(("superseded",)))),
        archived=count(connection, replace(where, states=frozenset(("archived",)))),
        tags=len(tag_counts(connection, where, 1)),
        conversations=conversations,
        by_type=tuple(counted for counted in types(connection, where) if counted.count),
        model=meta.model_in_use(connection),
        bytes=size if where.namespace in (None, ROOT) else None,
    )
