"""What a store should answer, found the slow way: plain loops over plain values, written from the documentation.

It shares with the code under test only what is defined once for all: how a text is cut, and which words are stop words.
The weights and the curve from evidence to score are written out here as docs/recall.md gives them.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from retain.embeddings.hashed import HashedEmbedder
from retain.storage.words import SMALLEST_CORPUS, STOP_WORDS, spellings

OWN_TYPES: Mapping[str, str] = {"outage": "error"}
"""Types that were registered, with their parents."""
ROUNDING = 5e-6
"""How far evidence may be off because the index adds up in 32 bits."""

KEYWORD, RELATED = 0.7, 0.3
"""What words and relation count beside meaning, which counts 1."""
REACH = {-3: 0.4, -2: 0.5, -1: 0.6, 0: 1.0, 1: 0.6, 2: 0.5, 3: 0.4}
"""What a word of the question counts by where it stands: so many passages before or after."""
LEADERS = 3
ABSENT = 0.25

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


@dataclass(slots=True)
class Found:
    """One passage as an answer to a question.

    Attributes:
        evidence: What the score is made of.
        why: Equal for passages whose evidence is equal to the last bit.
        matches: Whether it holds a word of the question itself.
    """

    memory: Kept
    part: Part
    evidence: float
    why: object
    matches: bool


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


@dataclass(frozen=True, slots=True)
class Ranking:
    """All answers, best first. `told` is false when rounding decides which passages others are related to."""

    answers: list[Answer]
    told: bool = True


Words = Mapping[str, tuple[float, frozenset[int]]]
"""Of each word of a question its share of the whole, and the passages that hold it."""


class Around:
    """The passages that count as surroundings, thread by thread, in the order in which they were stored."""

    def __init__(self, memories: Iterable[Kept]) -> None:
        self.parts: list[Part] = []
        self._threads: dict[object, list[Part]] = {}
        self._places: dict[int, int] = {}
        for kept in memories:
            thread = self._threads.setdefault(thread_of(kept), [])
            for part in kept.parts:
                self._places[id(part)] = len(thread)
                thread.append(part)
                self.parts.append(part)

    def beside(self, kept: Kept, part: Part, step: int) -> Part | None:
        """Return the passage so many steps on in the thread, or back."""
        thread = self._threads[thread_of(kept)]
        place = self._places[id(part)] + step
        return thread[place] if 0 <= place < len(thread) else None


def thread_of(kept: Kept) -> object:
    """Return what the memories of a conversation share; a memory without one stands for itself."""
    return kept.id if kept.conversation_id is None else (kept.namespace, kept.conversation_id)


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

    async def ranked(self, text: str, mode: RecallMode, where: Filter) -> Ranking:
        """Return everything that answers a question, best first, ties newest first."""
        namespace = where.namespace or "/"
        in_reach = [one for one in self.memories.values() if one.state in where.states]
        around = Around(one for one in in_reach if _within(one.namespace, namespace))
        cosines = await self._cosines(text, around.parts) if mode != "keyword" else {}
        if mode == "hybrid":
            cosines = {part: max(0.0, cosine) for part, cosine in cosines.items()}
        words = self._words(text, namespace) if mode != "semantic" else {}
        left = [(kept, part) for kept in self.matching(where) for part in kept.parts]
        found = [_found(kept, part, mode, around, cosines, words) for kept, part in left]
        if mode == "keyword":
            found = [one for one in found if one.matches]
        order = {kept.id: place for place, kept in enumerate(self.memories.values())}
        told = mode != "hybrid" or _relate(found, order)
        of_memory: dict[str, list[Found]] = {}
        for one in found:
            of_memory.setdefault(one.memory.id, []).append(one)
        answers = [_answer(parts) for parts in of_memory.values()]
        return Ranking(sorted(answers, key=lambda answer: (answer.evidence, answer.memory.id), reverse=True), told)

    async def _cosines(self, text: str, parts: Sequence[Part]) -> dict[int, float]:
        """Return the cosine of each part."""
        question = _int8(await self.embedder.embed_query(text))
        return {id(part): cosine for part, cosine in zip(parts, _cosine(parts, question), strict=True)}

    def _words(self, text: str, namespace: str) -> Words:
        """Return the words of a question. How rare they are is counted in the namespace, whatever else is asked."""
        stems, unspaced = _terms(text)
        corpus = [part for kept in self.memories.values() if _within(kept.namespace, namespace) for part in kept.parts]
        holding = {stem: frozenset(id(part) for part in corpus if stem in part.words) for stem in stems}
        holding |= {run: frozenset(id(part) for part in corpus if run in part.text) for run in unspaced}
        weights = {term: _weight(len(corpus), len(parts)) for term, parts in holding.items()}
        most = sum(weight if holding[term] else ABSENT * weight for term, weight in weights.items())
        return {term: (weight / most, holding[term]) for term, weight in weights.items()}


def _cosine(parts: Sequence[Part], vector: NDArray[np.float64]) -> list[float]:
    if not parts:
        return []
    vectors = np.stack([part.vector for part in parts])
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors)) * math.sqrt(vector @ vector)
    return (vectors @ vector / lengths).tolist()


def _found(
    kept: Kept, part: Part, mode: RecallMode, around: Around, cosines: Mapping[int, float], words: Words
) -> Found:
    near = {step: there for step in REACH if (there := around.beside(kept, part, step)) is not None}
    reaches = [
        max((REACH[step] for step, there in near.items() if id(there) in holding), default=0.0)
        for _, holding in words.values()
    ]
    keyword = min(1.0, sum(share * reach for (share, _), reach in zip(words.values(), reaches, strict=True)))
    matches = any(id(part) in holding for _, holding in words.values())
    if mode == "keyword":
        return Found(kept, part, keyword, tuple(reaches), matches)
    own = cosines[id(part)]
    if mode == "semantic":
        return Found(kept, part, own, part.vector.tobytes(), matches)
    sides = [near.get(step) for step in (-1, 1)] if kept.conversation_id is not None else [None, None]
    beside = [0.6 * own if there is None else cosines[id(there)] for there in sides]
    semantic = min(1.0, 0.7 * own + 0.5 * sum(beside) / 2)
    vectors = [None if there is None else there.vector.tobytes() for there in (part, *sides)]
    return Found(kept, part, semantic + KEYWORD * keyword, (*vectors, *reaches), matches)


def _relate(found: Sequence[Found], order: Mapping[str, int]) -> bool:
    """Add how near each passage is to the best of the best threads; return whether those are certain."""
    threads: dict[object, list[Found]] = {}
    for one in sorted(found, key=lambda one: (one.evidence, order[one.memory.id]), reverse=True):
        threads.setdefault(thread_of(one.memory), []).append(one)
    bests = [thread[0] for thread in threads.values()]
    leaders = bests[:LEADERS]
    rivals = [(leaders[-1], other) for other in bests[LEADERS:]] if leaders else []
    rivals += [(thread[0], other) for thread in list(threads.values())[:LEADERS] for other in thread[1:]]
    told = not any(
        best.evidence - other.evidence <= ROUNDING and (best.part.vector != other.part.vector).any()
        for best, other in rivals
    )
    if leaders:
        highest = min(1.0, leaders[0].evidence)
        nearness = np.sum([_cosine([one.part for one in found], leader.part.vector) for leader in leaders], axis=0)
        for one, near in zip(found, (nearness / LEADERS).tolist(), strict=True):
            one.evidence += RELATED * min(1.0, max(0.0, near)) * highest
    return told


def _answer(found: Sequence[Found]) -> Answer:
    """Return a memory by its best passage; of equal ones the first."""
    best = max(found, key=lambda one: one.evidence)
    near = [one for one in found if one.evidence >= best.evidence - ROUNDING]
    told = all(one.why == best.why for one in near)
    return Answer(best.memory, best.evidence, best.why if told else None, near[0].part.text if told else None)


def score_of(evidence: float) -> float:
    """Return the score in [0, 1]."""
    return 1 - math.exp(-((max(0.0, evidence) / 0.6) ** 2.5))


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
