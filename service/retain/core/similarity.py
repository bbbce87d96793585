"""Which earlier memories a new one resembles. This only ever reports: nothing is dropped for being similar."""

import logging
from dataclasses import replace

from retain.core.ports import MemoryStore, Vectors
from retain.domain.errors import RetainError
from retain.domain.memory import Filter, Memory, Model, Similar
from retain.domain.scoring import SIMILAR_FROM

logger = logging.getLogger(__name__)
MAX_SIMILAR = 3
"""Most earlier memories that a store reports as similar."""
MAX_COMPARED = 8
"""Memories of up to so many passages are compared with earlier ones."""


async def similar_to(store: MemoryStore, memory: Memory, vectors: Vectors, model: Model, /) -> tuple[Similar, ...]:
    """Return earlier memories close to a new one; turns of conversations and long texts are not compared.

    Every passage of the new memory counts alike: what resembles it has a like passage for each of them.

    Args:
        store: Holds the new memory already.
        memory: The new memory.
        vectors: (n, d) unit rows of its passages.
        model: Which made them.
    """
    if memory.conversation_id is not None or len(vectors) > MAX_COMPARED:
        return ()
    where = Filter(namespace=memory.namespace)
    try:
        near = await store.similar(vectors, where, MAX_SIMILAR + 1, model=model)
    except RetainError:
        logger.warning("the memory %s is stored, but not compared with earlier ones", memory.id, exc_info=True)
        return ()
    found = [item for one in near for item in one if item.id != memory.id]
    totals: dict[str, float] = {}
    for item in found:
        totals[item.id] = totals.get(item.id, 0.0) + item.score / len(vectors)
    best = {item.id: item for item in sorted(found, key=lambda item: item.score)}
    alike = [replace(best[id_], score=score) for id_, score in totals.items() if score >= SIMILAR_FROM]
    return tuple(sorted(alike, key=lambda item: -item.score)[:MAX_SIMILAR])
