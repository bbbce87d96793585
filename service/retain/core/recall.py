"""Recall: a question becomes candidates, candidates become ranked hits."""

from collections.abc import Sequence
from dataclasses import dataclass

from retain.core.api import GroupBy
from retain.core.ports import Embedder, MemoryStore, Vectors
from retain.domain.memory import Filter, Hit, Memory, Model, Page, RecallMode
from retain.domain.scoring import Ranked, rank

MIN_POOL = 100
"""Passages each search contributes at least: with 100 the fused list equals full scoring (measured on LoCoMo)."""
SPARE = 5
"""Ranked memories read beyond `k`, in case another process deletes some between ranking and reading."""

_SNIPPET_CHARS = 200


@dataclass(frozen=True, slots=True)
class Question:
    """A checked question: what to search, where, and how to answer."""

    text: str
    k: int
    mode: RecallMode
    where: Filter
    group_by: GroupBy | None
    min_score: float


async def find(store: MemoryStore, embedder: Embedder, question: Question, /) -> tuple[Hit, ...]:
    """Return the hits for a question, best first; ties by id, newest first.

    Raises:
        EmbeddingError: the model failed or is not the store's; only modes that need it.
    """
    ranked = [item for item in await _ranked(store, embedder, question) if item.score >= question.min_score]
    best = ranked[: question.k + SPARE]
    memories = {memory.id: memory for memory in await store.get([item.memory_id for item in best])}
    hits = [_hit(item, memories[item.memory_id]) for item in best if item.memory_id in memories]
    return tuple(hits[: question.k])


async def newest(store: MemoryStore, where: Filter, k: int, group_by: GroupBy | None, /) -> tuple[Hit, ...]:
    """Return the newest memories as hits of score 0: what an empty question finds."""
    seen: set[str] = set()
    hits: list[Hit] = []
    page = Page(limit=k)
    while True:
        listing = await store.list(where, page)
        for memory in listing.memories:
            if group_by is None or memory.conversation_id is None or memory.conversation_id not in seen:
                hits.append(Hit(memory, 0.0, memory.content[:_SNIPPET_CHARS], {}))
            seen.add(memory.conversation_id or "")
        if len(hits) >= k or listing.next_cursor is None:
            return tuple(hits[:k])
        page = Page(limit=k, cursor=listing.next_cursor)


async def _ranked(store: MemoryStore, embedder: Embedder, question: Question) -> Sequence[Ranked]:
    """Return at least `k` ranked memories (or conversations), unless fewer match."""
    vector, model = await _query_vector(embedder, question)
    text = question.text if question.mode in ("hybrid", "keyword") else None
    pool = max(MIN_POOL, 4 * question.k)
    while True:
        if question.mode == "exact":
            candidates = await store.containing(question.text, question.where, pool)
        else:
            candidates = await store.candidates(question.where, pool, vector=vector, text=text, model=model)
        ranked = rank(candidates, question.mode)
        if question.group_by == "conversation":
            ranked = best_of_each_conversation(ranked)
        if len(ranked) >= question.k + SPARE or len(candidates) < pool:
            return ranked
        pool *= 4


async def _query_vector(embedder: Embedder, question: Question) -> tuple[Vectors | None, Model | None]:
    if question.mode not in ("hybrid", "semantic"):
        return None, None
    vector = await embedder.embed_query(question.text)
    return vector, Model(embedder.model_id, embedder.dimensions)


def best_of_each_conversation(ranked: Sequence[Ranked], /) -> list[Ranked]:
    """Keep the first of each conversation; memories without one stand for themselves."""
    seen: set[str] = set()
    kept: list[Ranked] = []
    for item in ranked:
        if item.conversation_id is None or item.conversation_id not in seen:
            kept.append(item)
            if item.conversation_id is not None:
                seen.add(item.conversation_id)
    return kept


def _hit(item: Ranked, memory: Memory) -> Hit:
    return Hit(memory, item.score, memory.content[item.start : item.end], item.signals)
