"""How items are read: one by its key, many by a filter or a question, and the namespaces that hold some."""

import heapq
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from langgraph.store.base import GetOp, ListNamespacesOp, SearchOp

import retain
from retain_integrations import _langgraph_form as form
from retain_integrations._langgraph_embedder import GivenEmbedder
from retain_integrations._langgraph_filter import asks_for_mappings, conditions, has_mappings
from retain_integrations._langgraph_mark import MARK, expires_at, value_of
from retain_integrations._question import question_of
from retain_integrations._sync import LazyMemory

Mode: TypeAlias = Literal["hybrid", "semantic", "keyword"]
Scored: TypeAlias = tuple[retain.Memory, float | None]
_MOST: Final = 1_000
"""Most memories that Retain gives at once."""


class Reader:
    """Answers operations with memories below `root`; those that have expired are left out if `omits_expired`."""

    def __init__(
        self, lazy: LazyMemory, root: str, *, mode: Mode, given: GivenEmbedder | None, omits_expired: bool
    ) -> None:
        self._lazy = lazy
        self._root = root
        self._mode: Mode = mode
        self._given = given
        self._omits_expired = omits_expired

    def get(self, op: GetOp, /) -> retain.Memory | None:
        """Return the memory of a key: its own, or its id where it came in by another way."""
        path = form.path_of(self._root, op.namespace)
        ids = (retain.id_of(path, op.key), *([op.key] if is_id(op.key) else []))
        found = self._lazy.memory.list(retain.Filter(ids=ids), retain.Page(limit=2)).memories
        memory = next((one for one in found if one.namespace == path and (one.key or one.id) == op.key), None)
        if memory is None or (self._omits_expired and expires_at(memory) <= time.time()):
            return None
        return memory

    def search(self, op: SearchOp, /) -> Sequence[Scored]:
        """Return what a question hits, best first, and after it, without a score, what no question finds."""
        if op.limit == 0:
            return []
        place = form.path_of(self._root, op.namespace_prefix)
        where = self._living(retain.Filter(namespace=place, metadata=conditions(op.filter)))
        count = op.offset + op.limit
        found = self._found(question_of(op.query or ""), where, _MOST if asks_for_mappings(op.filter) else count)
        fitting = (one for one in found if has_mappings(value_of(one[0]), op.filter))
        return list(islice(fitting, op.offset, count))

    def _living(self, where: retain.Filter) -> Sequence[retain.Filter]:
        """Return filters that share out what is not omitted: without an end, or with one to come."""
        if not self._omits_expired:
            return [where]
        ends = ({"$eq": None}, {"$gt": time.time()})
        return [replace(where, metadata={**where.metadata, f"{MARK}.expires_at": end}) for end in ends]

    def _found(self, question: str, where: Sequence[retain.Filter], count: int) -> Iterator[Scored]:
        at_once = min(count, _MOST)
        hits = [self._hits(question, one, at_once) for one in where] if question else []
        known: set[str] = set()
        for memory, score in heapq.merge(*hits, key=itemgetter(1), reverse=True):
            known.add(memory.id)
            yield memory, score
        pages = (self._listed(one, at_once) for one in where)
        for memory in heapq.merge(*pages, key=lambda one: (one.created_at, one.id), reverse=True):
            if memory.id not in known:
                yield memory, None

    def _hits(self, query: str, where: retain.Filter, k: int) -> Sequence[tuple[retain.Memory, float]]:
        """Return hits with the score that LangGraph's users expect of the mode: in "semantic", the cosine."""
        hits = self._lazy.memory.recall(query, k=k, mode=self._mode, where=where).hits
        if self._mode != "semantic":
            return [(hit.memory, hit.score) for hit in hits]
        scored = [(hit.memory, hit.signals["semantic"]) for hit in hits]
        clipped = [memory for memory, score in scored if score <= 0]
        if self._given is None or not clipped:
            return scored
        cosines = self._given.cosines(query, map(form.parts_of, clipped))
        return [
            *((memory, score) for memory, score in scored if score > 0),
            *sorted(zip(clipped, cosines, strict=True), key=itemgetter(1), reverse=True),
        ]

    def _listed(self, where: retain.Filter, at_once: int) -> Iterator[retain.Memory]:
        """Yield memories, newest first; the next page is read when it is asked for."""
        cursor: str | None = None
        while True:
            listing = self._lazy.memory.list(where, retain.Page(limit=at_once, cursor=cursor))
            yield from listing.memories
            cursor = listing.next_cursor
            if cursor is None:
                return

    def namespaces(self, op: ListNamespacesOp, /) -> list[tuple[str, ...]]:
        """Return the namespaces that hold items, by name."""
        counted = (self._lazy.memory.namespaces(one) for one in self._living(retain.Filter(namespace=self._root)))
        paths = {one.namespace for counts in counted for one in counts}
        conditions = op.match_conditions or ()
        found = [
            labels
            for labels in (form.namespace_of(self._root, path) for path in paths)
            if labels and all(form.matches(labels, one.match_type, one.path) for one in conditions)
        ]
        return form.shortened_to(found, op.max_depth)[op.offset : op.offset + op.limit]


def is_id(key: str, /) -> bool:
    """Whether a key may be the id of a memory that has no key of its own."""
    try:
        return str(uuid.UUID(key)) == key
    except ValueError:
        return False
