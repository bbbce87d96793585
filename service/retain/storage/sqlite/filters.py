"""A `Filter` as SQL: a condition on the table `memory` and its bindings, used by every query alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from retain.domain.memory import STATES, Filter, State
from retain.domain.metadata_filter import certain_part
from retain.domain.text import ROOT
from retain.storage.sqlite.connection import Connection, Value, blobs
from retain.storage.sqlite.rows import STATE_NUMBERS, id_blob, to_ms
from retain.storage.words import canonical_json

_MOST_PARTS = 8
"""Most parts of a condition of one kind. SQLite limits the depth of a condition, so the rest goes into one part."""


@dataclass(slots=True)
class Condition:
    """Parts joined by AND; `never` when something asked for does not exist, so that nothing can match."""

    parts: list[str] = field(default_factory=list[str])
    bindings: list[Value] = field(default_factory=list[Value])
    never: bool = False
    driver: str = ""
    """A part that alone yields the keys to look at, when the others need nothing but the key."""

    def add(self, part: str, *bindings: Value) -> None:
        """Add a part with the values of its `?`."""
        self.parts.append(part)
        self.bindings.extend(bindings)
        if part not in _ON_KEYS:
            self.driver = ""

    @property
    def keys_sql(self) -> str:
        """A query for the keys of matching memories, which looks at the table `memory` only where it must."""
        if not self.driver:
            return f"SELECT key FROM memory WHERE {self.sql}"
        return f"SELECT key FROM ({self.driver}) AS memory WHERE {' AND '.join(self.parts[1:]) or '1'}"

    @property
    def sql(self) -> str:
        """What goes after WHERE."""
        return "0" if self.never else " AND ".join(self.parts) or "1"

    @property
    def values(self) -> list[Value]:
        """What is bound to `sql`."""
        return [] if self.never else self.bindings


def condition(connection: Connection, where: Filter, /, *, probed: bool = False) -> Condition:
    """Return the whole filter as SQL.

    With `probed`, tags are looked up for each memory that the query comes upon; else they say which to look at.
    """
    made = narrowing(connection, where, probed=probed)
    _add_states(made, where.states)
    _add_namespace(connection, made, where.namespace)
    return made


def narrowing(connection: Connection, where: Filter, /, *, probed: bool = False) -> Condition:
    """Return the filter without its namespace and states, which the index in memory and the counters know."""
    made = Condition()
    _add_tags(connection, made, where, probed)
    if where.ids is not None:
        made.never |= not where.ids
        made.add("memory.id IN carray(?)", blobs(map(id_blob, where.ids)) if where.ids else None)
    if where.conversation_id is not None:
        made.add("memory.conversation_id = ?", where.conversation_id)
    if where.agent_id is not None:
        made.add("memory.agent_id = ?", where.agent_id)
    if where.types:
        made.add("memory.type IN (SELECT value FROM json_each(?))", canonical_json(list(where.types)))
    if where.since is not None:
        made.add("memory.occurred_at >= ?", first_ms(where.since))
    if where.until is not None:
        made.add("memory.occurred_at < ?", first_ms(where.until))
    _add_metadata(made, where.metadata)
    return made


def first_ms(moment: datetime, /) -> int:
    """Return the first millisecond that is not before `moment`: stored times are rounded down."""
    return to_ms(moment) + (moment.microsecond % 1000 > 0)


def namespaces_within(connection: Connection, namespace: str | None, /) -> list[int] | None:
    """Return the keys of `namespace` and all below it; None when that is everything."""
    if namespace is None or namespace == ROOT:
        return None
    rows = connection.rows(
        "SELECT key FROM namespace WHERE path = ? OR path > ? AND path < ?",
        (namespace, f"{namespace}/", f"{namespace}0"),  # "0" is the character after "/"
    )
    return [row[0] for row in rows]


def tag_keys(connection: Connection, names: Iterable[str], /) -> list[tuple[int, int]]:
    """Return (key, uses) of those tags that exist, rarest first."""
    rows = connection.rows(
        "SELECT key, uses FROM tag WHERE name IN (SELECT value FROM json_each(?)) ORDER BY uses",
        (canonical_json(list(names)),),
    )
    return [(key, uses) for key, uses in rows]


def _add_states(made: Condition, states: frozenset[State]) -> None:
    if states == STATES:
        return
    if "active" not in states:
        made.add("(memory.superseded_by IS NOT NULL OR memory.archived_at IS NOT NULL)")  # for the index memory_hidden
    numbers = ", ".join(str(STATE_NUMBERS[state]) for state in sorted(states))
    made.add(f"memory.state IN ({numbers})")


def _add_namespace(connection: Connection, made: Condition, namespace: str | None) -> None:
    keys = namespaces_within(connection, namespace)
    if keys is None:
        return
    made.never |= not keys
    if len(keys) == 1:
        made.add("memory.namespace = ?", keys[0])
    else:
        made.add("memory.namespace IN (SELECT value FROM json_each(?))", canonical_json(keys))


def _add_tags(connection: Connection, made: Condition, where: Filter, probed: bool) -> None:
    wanted, excluded = _names(where.tags), _names(where.exclude_tags)
    if wanted:
        found = [key for key, _ in tag_keys(connection, wanted)]
        made.never |= not found or (where.tag_match == "all" and len(found) < len(wanted))
        if where.tag_match == "all" or len(found) == 1:
            for place, key in enumerate(found[:_MOST_PARTS]):
                # The rarest tag drives; the others are probed for what it yields.
                made.add(_CARRIES_TAG if probed or place else f"memory.key IN ({_TAGGED})", key)
            if len(found) > _MOST_PARTS:
                made.add(_CARRIES_ALL, canonical_json(found[_MOST_PARTS:]))
            made.driver = "" if probed else _TAGGED
        else:
            made.add(_CARRIES_ANY if probed else f"memory.key IN ({_TAGGED_ANY})", canonical_json(found))
            made.driver = "" if probed else _TAGGED_ANY
    if excluded:
        found = [key for key, _ in tag_keys(connection, excluded)]
        if found:
            made.add(_CARRIES_NONE, canonical_json(found))


_TAGGED = "SELECT memory AS key FROM memory_tag WHERE tag = ?"
_TAGGED_ANY = "SELECT DISTINCT memory AS key FROM memory_tag WHERE tag IN (SELECT value FROM json_each(?))"
_CARRIES_TAG = "EXISTS (SELECT 1 FROM memory_tag WHERE memory_tag.memory = memory.key AND tag = ?)"
_CARRIES_ALL = (
    "NOT EXISTS (SELECT 1 FROM json_each(?) AS asked WHERE NOT EXISTS"
    " (SELECT 1 FROM memory_tag WHERE memory_tag.memory = memory.key AND tag = asked.value))"
)
_CARRIES_ANY = (
    "EXISTS (SELECT 1 FROM memory_tag WHERE memory_tag.memory = memory.key AND tag IN (SELECT value FROM json_each(?)))"
)
_CARRIES_NONE = f"NOT {_CARRIES_ANY}"
_ON_KEYS = (f"memory.key IN ({_TAGGED})", f"memory.key IN ({_TAGGED_ANY})", _CARRIES_TAG, _CARRIES_ALL, _CARRIES_NONE)


def _names(tags: Iterable[str] | str) -> list[str]:
    return [tags] if isinstance(tags, str) and tags else list(dict.fromkeys(tags))


def _add_metadata(made: Condition, wanted: Mapping[str, object]) -> None:
    if not wanted:
        return
    for path, value in islice(wanted.items(), _MOST_PARTS):
        if part := certain_part(path, value):
            made.add("instr(memory.metadata, ?)", f"{canonical_json(part[0])[1:]}:{_certain_start(part[1])}")
    made.add("retain_matches(coalesce(memory.metadata, '{}'), ?)", canonical_json(dict(wanted)))


def _certain_start(value: object) -> str:
    """Return how the JSON of every value equal to `value` begins: a cheap test before the exact one."""
    if value is None or isinstance(value, bool | str):
        return canonical_json(value)
    if isinstance(value, int | float) and 0 < abs(value) < 1e15 and value == int(value):
        return str(int(value))  # 3 and 3.0 are equal
    return ""
