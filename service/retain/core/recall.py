"""Recall: a question becomes candidates, candidates become ranked hits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retain.core.api import GroupBy
from retain.core.ports import Chosen, Embedder, MemoryStore, Vectors
from retain.domain.memory import Filter, Hit, Memory, Model, Page, RecallMode
from retain.domain.scoring import (
    NO_CANDIDATES,
    Candidates,
    Values,
    Weighing,
    best_of_threads,
    best_passages,
    evidence,
    scores,
)

MIN_POOL = 100
"""Passages each search contributes at least: with 100 the fused list equals full scoring (measured on LoCoMo)."""

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
    weighing: Weighing


async def find(store: MemoryStore, embedder: Embedder, question: Question, /) -> tuple[Hit, ...]:
    """Return the hits for a question, best first; ties by id, newest first.

    Raises:
        EmbeddingError: the model failed or is not the store's; only modes that need it.
    """
    if question.mode == "exact":
        return await _containing(store, question)
    vector, model = await _query_vector(embedder, question)
    text = question.text if question.mode in ("hybrid", "keyword") else None
    pool = max(MIN_POOL, 4 * question.k)
    while True:
        choice = _Choice(question)
        chosen = await store.candidates(question.where, pool, choice, vector=vector, text=text, model=model)
        hits = choice.hits(chosen)
        if len(hits) >= question.k or choice.is_complete(pool):
            return tuple(hits[: question.k])
        pool *= 4


class _Choice:
    """Ranks the candidates of one question, in the middle of the store's read, and makes hits of those it picked."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._candidates = NO_CANDIDATES
        self._parts: dict[str, Values] = {}
        self._scores = np.empty(0)
        self._ranking = np.empty(0)

    def __call__(self, candidates: Candidates, /) -> NDArray[np.intp]:
        """Return the best passages of the best `k` memories or conversations, and of all that tie with the last."""
        self._candidates = candidates
        self._parts = evidence(candidates, self._question.mode, self._question.weighing)
        self._scores = scores(self._parts, self._question.mode, self._question.weighing)
        # A cosine goes on below 0, where every score is 0.
        self._ranking = self._parts.get("semantic", self._scores) if self._question.mode == "semantic" else self._scores
        ranked = best_passages(candidates, self._ranking)
        if self._question.group_by is not None:
            ranked = best_of_threads(candidates, ranked)
        if len(ranked) > self._question.k:
            ranked = ranked[self._ranking[ranked] >= self._ranking[ranked[self._question.k - 1]]]
        scored = self._scores[ranked]
        # In mode "keyword" a passage without a word of the question is no hit.
        return ranked[(scored >= self._question.min_score) & ((scored > 0) | (self._question.mode != "keyword"))]

    def hits(self, chosen: Sequence[Chosen]) -> list[Hit]:
        """Return those that were read as hits, best first; ties by id, newest first."""
        places = [one.place for one in chosen]
        scored = self._scores[places].tolist()
        signals = {name: part[places].tolist() for name, part in self._parts.items()}
        hits = {
            one.place: Hit(
                one.memory, score, one.memory.content[one.start : one.end], {name: signals[name][n] for name in signals}
            )
            for n, (one, score) in enumerate(zip(chosen, scored, strict=True))
        }
        best = sorted(hits, key=lambda place: (self._ranking[place], hits[place].memory.id), reverse=True)
        return [hits[place] for place in best]

    def is_complete(self, pool: int) -> bool:
        """Whether no further hit is to be expected beyond a pool of that size: there is none, or all score too little.

        Beyond it, no passage is nearer, or holds more words itself, than the last one of the pool.
        """
        if len(self._candidates) < pool:
            return True
        best = {name: np.partition(part, -pool)[[-pool]] for name, part in self._parts.items()}
        last = scores(best, self._question.mode, self._question.weighing)[0]
        return bool(last < self._question.min_score)


def _grouped(hits: list[Hit], group_by: GroupBy | None) -> list[Hit]:
    """Keep the first hit of each conversation if asked to; memories without one stand for themselves."""
    if group_by is None:
        return hits
    firsts: dict[object, Hit] = {}
    for hit in hits:
        firsts.setdefault(_thread(hit.memory), hit)
    return list(firsts.values())


def _thread(memory: Memory) -> object:
    """Return what memories of one conversation share: it belongs to its namespace."""
    return memory.id if memory.conversation_id is None else (memory.namespace, memory.conversation_id)


async def _containing(store: MemoryStore, question: Question) -> tuple[Hit, ...]:
    """Return the newest memories that hold the question literally."""
    pool = question.k
    while True:
        found = await store.containing(question.text, question.where, pool)
        hits = _grouped([Hit(memory, 1.0, question.text, {"exact": 1.0}) for memory in found], question.group_by)
        if len(hits) >= question.k or len(found) < pool:
            return tuple(hits[: question.k])
        pool *= 4


async def newest(store: MemoryStore, where: Filter, k: int, group_by: GroupBy | None, /) -> tuple[Hit, ...]:
    """Return the newest memories as hits of score 0: what an empty question finds."""
    hits: list[Hit] = []
    page = Page(limit=k)
    while True:
        listing = await store.list(where, page)
        hits += [Hit(memory, 0.0, memory.content[:_SNIPPET_CHARS], {}) for memory in listing.memories]
        hits = _grouped(hits, group_by)
        if len(hits) >= k or listing.next_cursor is None:
            return tuple(hits[:k])
        page = Page(limit=k, cursor=listing.next_cursor)


async def _query_vector(embedder: Embedder, question: Question) -> tuple[Vectors | None, Model | None]:
    if question.mode not in ("hybrid", "semantic"):
        return None, None
    vector = await embedder.embed_query(question.text)
    return vector, Model(embedder.model_id, embedder.dimensions)
