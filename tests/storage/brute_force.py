"""What a store should answer, found the slow way: plain loops over plain values, written from the documentation.

It shares with the code under test only what is defined once for all: how a text is cut, which words are stop words,
BM25's constants, and the curve from evidence to score.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from retain.domain.memory import Filter, RecallMode
from retain.domain.ontology import SUBTYPES
from retain.domain.passages import split
from retain.domain.scoring import FULL_SHARE, KEYWORD_WEIGHT, scores
from retain.embeddings.hashed import HashedEmbedder
from retain.storage.words import K1, SMALLEST_CORPUS, STOP_WORDS, B, spellings

OWN_TYPES: Mapping[str, str] = {"outage": "error"}
"""Types that were registered, with their parents."""
ROUNDING = 5e-6
"""How far evidence may be off because the index adds up in 32 bits."""

_PARENTS = {name: base for base, names in SUBTYPES.items() for name in names} | OWN_TYPES
_WORD = re.compile(r"\w+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNSPACED = re.compile("[\u0e01-\u0e59\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fcc]+")
"""Thai, kana, Han."""
_FTS5: Any = apsw.Connection(":memory:")
_PORTER = _FTS5.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])


def moment(ms: int) -> datetime:
    """Return the time that is so many milliseconds after 1970."""
    return _EPOCH + timedelta(milliseconds=ms)


class DenseEmbedder(HashedEmbedder):
    """As deterministic, but without zeros: a random direction for each word, as the vectors of real models look."""

    def _vector(self, text: str) -> NDArray[np.float32]:
        total = np.sum([_direction(word, self.dimensions) for word in _WORD.findall(text.lower()) or [""]], axis=0)
        return total / np.linalg.norm(total)


@cache
def _direction(word: str, dimensions: int) -> NDArray[np.float32]:
    seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Part:
    """One passage of a memory."""

    text: str
    vector: NDArray[np.float64]
    words: frozenset[str]


@dataclass(slots=True)
class Kept:
    """One memory."""

    id: str
    created: int
    content: str
    parts: list[Part]
    tags: list[str]
    type: str
    occurred: int
    namespace: str
    agent_id: str | None
    conversation_id: str | None
    sequence: int | None
    metadata: Mapping[str, object]
    superseded: bool = False
    archived: bool = False

    @property
    def state(self) -> str:
        """Superseded wins over archived."""
        return "superseded" if self.superseded else "archived" if self.archived else "active"

    @property
    def place(self) -> tuple[object, ...]:
        """What no two active memories share."""
        return self.namespace, self.conversation_id, self.sequence, self.content


@dataclass(frozen=True, slots=True)
class Answer:
    """One memory as an answer to a question, by its best passage.

    Attributes:
        evidence: What the score is made of.
        alike: The same for answers whose scores are equal to the last bit; None when that can't be told.
        snippet: The best passage; None when another one is as good but for rounding.
    """

    memory: Kept
    evidence: float
    alike: object
    snippet: str | None


@dataclass(slots=True)
class BruteForce:
    """All memories, and what is found among them."""

    embedder: DenseEmbedder
    memories: dict[str, Kept] = field(default_factory=dict[str, Kept])

    # -- writing ------------------------------------------------------------------------------------------------

    async def store(self, new: Mapping[str, Any], at: int, id_: str) -> bool:
        """Store what the other process stored at `at` under `id_`; return whether it is new.

        Raises:
            AssertionError: a text that was there already must get the id it had.
        """
        agent = new.get("agent_id")
        given: list[str] = [*new.get("tags", ()), *([f"agent:{agent}"] if agent else [])]
        tags = list(dict.fromkeys(given))
        kept = Kept(
            id=id_,
            created=at,
            content=new["content"],
            parts=[],
            tags=tags,
            type=new.get("type", "observation"),
            occurred=new.get("occurred_at", at),
            namespace=new.get("namespace", "/"),
            agent_id=agent,
            conversation_id=new.get("conversation_id"),
            sequence=new.get("sequence"),
            metadata=new.get("metadata", {}),
        )
        if supersedes := new.get("supersedes"):
            self.memories[supersedes].superseded = True
        if (twin := self._active_at(kept)) is not None:
            assert twin.id == id_, f"{id_} has the same text and place as {twin.id}"
            twin.tags = list(dict.fromkeys(twin.tags + tags))
            return False
        kept.parts = await self._parts(kept.content)
        self.memories[id_] = kept
        return True

    def _active_at(self, memory: Kept) -> Kept | None:
        same = (one for one in self.memories.values() if one.state == "active" and one.place == memory.place)
        return next((one for one in same if one is not memory), None)

    async def update(self, id_: str, patch: Mapping[str, Any]) -> bool:
        """Change a memory; False when it, or its successor, is gone, or it would be an active duplicate of another."""
        if id_ not in self.memories or patch.get("superseded_by") not in {None, *self.memories}:
            return False
        kept = self.memories[id_]
        before = (kept.content, kept.superseded, kept.archived)
        kept.content = patch.get("content", kept.content)
        kept.superseded = kept.superseded if "superseded_by" not in patch else patch["superseded_by"] is not None
        kept.archived = patch.get("archived", kept.archived)
        if kept.state == "active" and self._active_at(kept) is not None:
            kept.content, kept.superseded, kept.archived = before
            return False
        if kept.content != before[0]:
            kept.parts = await self._parts(kept.content)
        if "tags" in patch:
            kept.tags = [*patch["tags"], *([f"agent:{kept.agent_id}"] if kept.agent_id else [])]
        kept.type = patch.get("type", kept.type)
        kept.occurred = patch.get("occurred_at", kept.occurred)
        kept.metadata = patch.get("metadata", kept.metadata)
        return True

    def delete(self, ids: Collection[str]) -> None:
        """Forget memories."""
        for id_ in ids:
            del self.memories[id_]

    def merge_tags(self, sources: Sequence[str], target: str) -> int:
        """Put `target` in the place of `sources`; return how many memories changed."""
        changed = [kept for kept in self.memories.values() if any(tag in sources for tag in kept.tags)]
        for kept in changed:
            kept.tags = list(dict.fromkeys(target if tag in sources else tag for tag in kept.tags))
        return len(changed)

    async def _parts(self, content: str) -> list[Part]:
        passages = split(content, self.embedder.token_offsets(content), limit=self.embedder.passage_tokens)
        texts = [content[passage.start : passage.end] for passage in passages]
        vectors = await self.embedder.embed_passages(texts)
        return [Part(text, _int8(vector), _stems(text)) for text, vector in zip(texts, vectors, strict=True)]

    # -- reading ------------------------------------------------------------------------------------------------

    def matching(self, where: Filter) -> list[Kept]:
        """Return what a filter leaves, newest first."""
        left = [kept for kept in self.memories.values() if _matches(kept, where)]
        return sorted(left, key=lambda kept: (kept.created, kept.id), reverse=True)

    def tags(self, where: Filter) -> list[tuple[str, int]]:
        """Return the tags in use and how often each is, most used first, then by name."""
        counts: dict[str, int] = {}
        for kept in self.matching(where):
            for tag in kept.tags:
                counts[tag] = counts.get(tag, 0) + 1
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    def containing(self, text: str, where: Filter) -> list[Answer]:
        """Return what holds a literal text, newest first."""
        return [Answer(kept, math.inf, None, text) for kept in self.matching(where) if text in kept.content]

    async def ranked(self, text: str, mode: RecallMode, where: Filter) -> list[Answer]:
        """Return everything that answers a question, best first, ties newest first."""
        left = self.matching(where)
        cosines = await self._cosines(text, left) if mode != "keyword" else {}
        keywords = self._keywords(text, left, where.namespace or "/") if mode != "semantic" else {}
        answers = [_answer(kept, cosines, keywords) for kept in left]
        if mode == "keyword":
            answers = [answer for answer in answers if answer.evidence > 0]
        return sorted(answers, key=lambda answer: (answer.evidence, answer.memory.id), reverse=True)

    async def _cosines(self, text: str, memories: Sequence[Kept]) -> "dict[int, float]":
        """Return the cosine of each part, 0 when negative, rounded as sqlite-vec rounds its distances."""
        question = _int8(await self.embedder.embed_query(text))
        parts = [part for kept in memories for part in kept.parts]
        if not parts:
            return {}
        vectors = np.stack([part.vector for part in parts])
        dots, squares = vectors @ question, np.einsum("nd,nd->n", vectors, vectors)  # whole numbers: exact
        distances = (1 - dots / (np.sqrt(squares) * math.sqrt(question @ question))).astype(np.float32)
        return {id(part): max(0.0, 1 - float(distance)) for part, distance in zip(parts, distances, strict=True)}

    def _keywords(self, text: str, memories: Sequence[Kept], namespace: str) -> "dict[int, tuple[float, object]]":
        """Return how much of the question's words each part holds, 1 at most, and what decides that."""
        stems, unspaced = _terms(text)
        terms = [*stems, *unspaced]
        corpus = [part for kept in self.memories.values() if _within(kept.namespace, namespace) for part in kept.parts]
        if not terms or not corpus:
            return {}
        held = {
            id(part): part.words.intersection(stems).union(u for u in unspaced if u in part.text) for part in corpus
        }
        average = sum(len(part.text) for part in corpus) / len(corpus)
        weights = {term: _weight(len(corpus), sum(term in has for has in held.values())) for term in terms}
        most = sum(weights.values()) * (K1 + 1)

        def value(part: Part) -> tuple[float, object]:
            has = held[id(part)]
            total = sum(weights[term] for term in has) * (K1 + 1)
            share = total / (1 + K1 * (1 - B + B * len(part.text) / average)) / most / FULL_SHARE
            if abs(share - 1) < ROUNDING:
                return min(share, 1.0), None
            return (1.0, "all") if share > 1 else (share, (has, len(part.text)))

        return {id(part): value(part) for kept in memories for part in kept.parts}


def _answer(kept: Kept, cosines: Mapping[int, float], keywords: Mapping[int, tuple[float, object]]) -> Answer:
    nothing: tuple[float, object] = (0.0, "none")
    values = [(cosines.get(id(part), 0.0), *keywords.get(id(part), nothing)) for part in kept.parts]
    evidence = [cosine + KEYWORD_WEIGHT * share for cosine, share, _ in values]
    best = max(range(len(evidence)), key=lambda place: evidence[place])
    near = [place for place, value in enumerate(evidence) if value >= evidence[best] - ROUNDING]
    cosine, share, because = values[best]
    alike = None if because is None else (cosine, because if share else 0)
    told = all(values[place] == values[best] and because is not None for place in near[1:])
    return Answer(kept, evidence[best], alike, kept.parts[min(near)].text if told else None)


def score_of(evidence: float) -> float:
    """Return the score in [0, 1]."""
    return 1.0 if evidence == math.inf else float(scores({"semantic": np.array([evidence])})[0])


def _matches(kept: Kept, where: Filter) -> bool:
    if kept.state not in where.states or not _within(kept.namespace, where.namespace or "/"):
        return False
    asked = set(where.types)
    enough = all if where.tag_match == "all" else any
    return (
        (where.ids is None or kept.id in where.ids)
        and (not where.tags or enough(tag in kept.tags for tag in where.tags))
        and not any(tag in kept.tags for tag in where.exclude_tags)
        and (not asked or kept.type in asked or _PARENTS.get(kept.type) in asked)
        and (where.since is None or where.since <= moment(kept.occurred))
        and (where.until is None or moment(kept.occurred) < where.until)
        and where.agent_id in (None, kept.agent_id)
        and where.conversation_id in (None, kept.conversation_id)
        and all(name in kept.metadata and _same(kept.metadata[name], value) for name, value in where.metadata.items())
    )


def _within(namespace: str, outer: str) -> bool:
    return outer == "/" or namespace == outer or namespace.startswith(outer + "/")


def _same(one: object, other: object) -> bool:
    """Whether two flat JSON values are equal; true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _int8(vector: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.rint(vector * (127 / np.abs(vector).max())).astype(np.float64)


def _stems(text: str) -> frozenset[str]:
    return frozenset(_each_stem(text))


def _each_stem(text: str) -> Iterator[str]:
    spaced = _UNSPACED.sub(" ", text).encode()
    for stem in _PORTER(spaced, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False):
        yield spellings(stem)[0]  # deploy and deployment are one word


_STOP_STEMS = _stems(" ".join(STOP_WORDS))


def _terms(text: str) -> tuple[list[str], list[str]]:
    """Return the different words of a question: stems, and unspaced characters with their neighbours."""
    runs = _UNSPACED.findall(text)
    unspaced = [run[place : place + 2] for run in runs for place in range(max(1, len(run) - 1))]
    stems = list(dict.fromkeys(_each_stem(text)))
    telling = [stem for stem in stems if stem not in _STOP_STEMS]
    return (telling if telling or runs else stems), list(dict.fromkeys(unspaced))


def _weight(passages: int, holding: int) -> float:
    passages = max(passages, SMALLEST_CORPUS)
    return math.log(1 + (passages - holding + 0.5) / (holding + 0.5))
