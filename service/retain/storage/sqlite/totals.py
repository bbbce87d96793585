"""How many memories match: one definition of a total everywhere. Active memories only, unless the filter says else."""

from collections.abc import Sequence

from retain.domain.memory import Filter, State
from retain.storage.sqlite import changes, meta
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import Condition, condition, namespaces_within, narrowing, tag_keys
from retain.storage.words import canonical_json

_MOST_KEPT = 256


class Totals:
    """Totals as of the last change: the next page of a listing needs no counting."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[int, int], dict[str, int]] = ((0, 0), {})

    def of(self, connection: Connection, where: Filter, /) -> int:
        """Return `count`, from memory where nothing has changed since."""
        if where.ids is not None:
            return count(connection, where)
        state = (meta.generation(connection), changes.last_change(connection))
        kept = self._kept
        if kept[0] != state or len(kept[1]) >= _MOST_KEPT:
            kept = self._kept = (state, {})
        key = repr(where)
        if key not in kept[1]:
            kept[1][key] = count(connection, where)
        return kept[1][key]


def count(connection: Connection, where: Filter, /) -> int:
    """Return how many memories match; from counters where namespace and states, or a tag alone, say it all."""
    rest = narrowing(connection, where)
    counted = by_state(connection, where.namespace)
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


def by_state(connection: Connection, namespace: str | None, /) -> dict[State, int]:
    """Return how many memories of each state there are in a namespace and below."""
    within = Condition()
    keys = namespaces_within(connection, namespace)
    if keys is not None:
        within.add("key IN (SELECT value FROM json_each(?))", canonical_json(keys))
    active, superseded, archived = connection.rows(
        f"SELECT total(active), total(superseded), total(archived) FROM namespace WHERE {within.sql}", within.values
    )[0]
    return {"active": int(active), "superseded": int(superseded), "archived": int(archived)}
