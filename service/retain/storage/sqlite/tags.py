"""Tags in their table: giving, taking, counting, renaming."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from retain.domain.memory import STATES, Filter, TagCount
from retain.domain.text import ROOT
from retain.storage.sqlite import changes
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import condition
from retain.storage.sqlite.rows import LATER
from retain.storage.words import canonical_json


def set_tags(connection: Connection, memory: int, names: Sequence[str], /) -> None:
    """Make `names` the tags of a memory, in that order."""
    connection.run("DELETE FROM memory_tag WHERE memory = ?", (memory,))
    give_tags(connection, [(memory, names)])


def add_tags(connection: Connection, memory: int, names: Iterable[str], /) -> bool:
    """Add those of `names` that a memory lacks, behind its own; return whether there were any."""
    present = connection.rows(
        "SELECT name, position FROM memory_tag JOIN tag ON tag.key = memory_tag.tag WHERE memory = ?", (memory,)
    )
    has = {name for name, _ in present}
    new = [name for name in dict.fromkeys(names) if name not in has]
    give_tags(connection, [(memory, new)], first=max((position for _, position in present), default=-1) + 1)
    return bool(new)


def give_tags(connection: Connection, given: Iterable[tuple[int, Sequence[str]]], /, *, first: int = 0) -> None:
    """Give each memory, by its key, tags that it lacks, in positions from `first` on."""
    rows = [
        (memory, position, name) for memory, names in given for position, name in enumerate(dict.fromkeys(names), first)
    ]
    names = dict.fromkeys(name for _, _, name in rows)
    connection.run_each("INSERT INTO tag(name) VALUES (?) ON CONFLICT DO NOTHING", [(name,) for name in names])
    connection.run_each("INSERT INTO memory_tag(memory, tag, position) SELECT ?, key, ? FROM tag WHERE name = ?", rows)


def tag_counts(connection: Connection, where: Filter, minimum_use: int, /) -> list[TagCount]:
    """Return the tags in use within `where`, most used first, ties by name."""
    whole = replace(where, namespace=None if where.namespace == ROOT else where.namespace)
    if whole == Filter(states=STATES):
        sql, bindings = "SELECT name, uses AS n FROM tag WHERE n >= ? ORDER BY n DESC, name", []
    elif whole == Filter():
        sql, bindings = _USES_BY_ACTIVE, []
    else:
        wanted = condition(connection, where)
        sql, bindings = (
            f"""SELECT name, count(*) AS n
                FROM memory JOIN memory_tag ON memory_tag.memory = memory.key JOIN tag ON tag.key = memory_tag.tag
                WHERE {wanted.sql} GROUP BY tag.key HAVING n >= ? ORDER BY n DESC, name""",
            wanted.values,
        )
    return [TagCount(name, uses) for name, uses in connection.rows(sql, (*bindings, minimum_use))]


# The counters, less the uses by memories that are hidden, which are few.
_USES_BY_ACTIVE = """
    WITH hidden AS (
        SELECT tag, count(*) AS hidden_uses
        FROM memory INDEXED BY memory_hidden CROSS JOIN memory_tag ON memory_tag.memory = memory.key
        WHERE superseded_by IS NOT NULL OR archived_at IS NOT NULL GROUP BY tag)
    SELECT name, uses - coalesce(hidden_uses, 0) AS n FROM tag LEFT JOIN hidden ON hidden.tag = tag.key
    WHERE n >= ? ORDER BY n DESC, name"""


def retag(connection: Connection, sources: Sequence[str], target: str, where: Filter, at_ms: int, /) -> int:
    """Put `target` in the place of the first of `sources` each memory carries; return how many changed."""
    wanted = condition(connection, where)
    old = set(sources) - {target}
    rows = connection.rows(
        f"""SELECT DISTINCT memory.key FROM memory JOIN memory_tag ON memory_tag.memory = memory.key
            WHERE {wanted.sql} AND tag IN (SELECT key FROM tag WHERE name IN (SELECT value FROM json_each(?)))""",
        (*wanted.values, canonical_json(sorted(old))),
    )
    for (memory,) in rows:
        names = connection.rows(
            "SELECT name FROM memory_tag JOIN tag ON tag.key = memory_tag.tag WHERE memory = ? ORDER BY position",
            (memory,),
        )
        set_tags(connection, memory, [target if name in old else name for (name,) in names])
        connection.run(f"UPDATE memory SET {LATER} WHERE key = ?", (at_ms, memory))
        changes.record(connection, "updated", memory, at_ms)
    return len(rows)
