"""Every filtered search compared with brute force, while a second process writes: same ids, same order.

One run is a store of some thousand memories, a second process that changes them, and hundreds of questions with random
filters in between. What the answers must be comes from `brute_force`. Runs are the same each time but for the random
bits of ids; a failure names its seed and its step.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retain.core import recall
from retain.core.api import GroupBy
from retain.core.service import MemoryService
from retain.domain.memory import RECALL_MODES, STATES, Filter, Hit, Page
from retain.storage.sqlite import SqliteStore, cells, open_sqlite, search
from tests.conftest import SetClock
from tests.storage.brute_force import (
    OWN_TYPES,
    RELATED,
    ROUNDING,
    Answer,
    BruteForce,
    DenseEmbedder,
    Kept,
    Ranking,
    moment,
    score_of,
    thread_of,
)

ROOT = Path(__file__).parents[2]
MEMORIES = 1_000
STEPS = 50
"""Of one run: each is some changes by the other process, then twelve searches and three lists."""
SEARCHES = 12
DAY = 86_400_000
START = 1_790_000_000_000

NAMESPACES = ["/", "/team", "/team/a", "/team/a/deep", "/team/b", "/teamwork", "/solo"]
NAMESPACE_WEIGHTS = [3, 2, 4, 2, 1, 1, 2]
TYPES = ["observation", "fact", "event", "decision", "design", "error", "bug", "pattern", "outage"]
AGENTS = [None, None, None, "ada", "bob"]
TAGS = ["common", "often", *(f"topic {number}" for number in range(25)), "weekly, really", "Ünïcode", "rare"]
METADATA: list[dict[str, object]] = [
    {},
    {},
    {},
    {"n": 1},
    {"n": True},
    {"n": "1"},
    {"n": 2.5, "who": None},
    {"who": "x"},
]
WORDS = [
    *(
        "deploy",
        "deploys",
        "deployment",
        "friday",
        "freeze",
        "rate",
        "limit",
        "limits",
        "API",
        "client",
        "café",
        "coffee",
    ),
    *("naïve", "database", "databases", "index", "query", "queries", "JIRA-4821", "timeout", "retry", "retries", "100"),
    *("billing", "invoice", "invoices", "customer", "latency", "budget", "review", "reviewed", "kubernetes", "rollout"),
    *(
        "rollback",
        "cluster",
        "password",
        "rotates",
        "monthly",
        "Postgres",
        "cache",
        "caching",
        "250",
        "requests",
        "per",
    ),
    *("minute", "the", "of", "and", "is", "not", "we", "about"),
]
WORD_WEIGHTS = [1 / (place + 3) for place in range(len(WORDS))]
UNSPACED = ["数据库的备份", "会议在星期五", "備份", "データベース", "ประชุมวันศุกร์", "库"]


class World:
    """Random texts, memories, filters and questions; all from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.usual_texts = [self.text() for _ in range(25)]
        self._number = 0

    def sentence(self) -> str:
        words = self.random.choices(WORDS, WORD_WEIGHTS, k=self.random.randint(2, 14))
        if self.random.random() < 0.1:
            words.insert(self.random.randrange(len(words)), self.random.choice(UNSPACED))
        return " ".join(words).capitalize() + "."

    def text(self) -> str:
        return " ".join(self.sentence() for _ in range(self.random.choice((1, 1, 2, 3, 5, 8))))

    def some_tags(self, most: int) -> list[str]:
        weights = [1 / (place + 1) for place in range(len(TAGS))]
        return list(dict.fromkeys(self.random.choices(TAGS, weights, k=self.random.randint(0, most))))

    def memory(self) -> dict[str, Any]:
        choice, chance = self.random.choice, self.random.random
        self._number += 1
        usual = chance() < 0.2
        made: dict[str, Any] = {
            "content": choice(self.usual_texts) if usual else f"{self.text()} No {self._number}",
            "tags": self.some_tags(4),
            "type": choice(TYPES),
            "namespace": self.random.choices(NAMESPACES, NAMESPACE_WEIGHTS)[0],
            "agent_id": choice(AGENTS),
            "conversation_id": f"talk {self.random.randrange(30)}" if chance() < 0.5 else None,
            "metadata": choice(METADATA),
        }
        if made["conversation_id"] and chance() < 0.7:
            made["sequence"] = self.random.randrange(50)
        if chance() < 0.7:
            made["occurred_at"] = self.time()
        return made

    def time(self) -> int:
        """Return one of few milliseconds of few days, so that bounds are met exactly."""
        return START - self.random.randrange(20) * DAY + self.random.randrange(4)

    def where(self, memories: Sequence[Kept]) -> Filter:
        """Return a filter; each of its conditions is there now and then."""
        choice, chance = self.random.choice, self.random.random
        fields: dict[str, Any] = {}
        if chance() < 0.45:
            fields["namespace"] = choice([*NAMESPACES, "/team", "/team/a", "/nowhere", "/tea", "/team/a/deep/er"])
        if chance() < 0.35:
            fields["tags"] = tuple(self.some_tags(3)) or (choice([*TAGS, "agent:ada", "unknown"]),)
            fields["tag_match"] = choice(("any", "all"))
        if chance() < 0.2:
            fields["exclude_tags"] = tuple(self.some_tags(2))
        if chance() < 0.2:
            fields["types"] = tuple(self.random.sample(TYPES, self.random.randint(1, 3)))
        if chance() < 0.2:
            fields["since"] = moment(self.time())
        if chance() < 0.2:
            until = moment(self.time())
            if until > fields.get("since", moment(0)):
                fields["until"] = until
        if chance() < 0.3:
            fields["states"] = frozenset(self.random.sample(sorted(STATES), self.random.randint(1, 3)))
        if chance() < 0.1:
            fields["agent_id"] = choice(("ada", "bob", "nobody"))
        if chance() < 0.1:
            fields["conversation_id"] = f"talk {self.random.randrange(32)}"
        if chance() < 0.15:
            fields["metadata"] = choice(METADATA)
        if chance() < 0.1 and memories:
            fields["ids"] = tuple(one.id for one in self.random.choices(memories, k=self.random.randint(0, 60)))
        return Filter(**fields)

    def question(self) -> str:
        chance = self.random.random()
        if chance < 0.2:
            return self.random.choice(self.usual_texts)[:300]
        if chance < 0.3:
            return self.random.choice(UNSPACED)
        if chance < 0.35:
            return self.random.choice(("the of and", "zebra", "zebra deploy", "!?", "数", "数据 freeze"))
        return " ".join(self.random.choices(WORDS, WORD_WEIGHTS, k=self.random.randint(1, 6)))

    def changes(self, memories: Sequence[Kept]) -> list[dict[str, Any]]:
        """Return what the other process does next."""
        return [self._change(memories) for _ in range(self.random.choice((0, 1, 1, 2, 3, 10)))]

    def _change(self, memories: Sequence[Kept]) -> dict[str, Any]:
        chance = self.random.random()
        if chance < 0.4 or len(memories) < 0.9 * MEMORIES:
            many = [self.memory() for _ in range(self.random.choice((1, 1, 2, 30)))]
            return {"do": "store", "memories": many}
        one = self.random.choice(memories)
        if chance < 0.43:
            new = self.memory() | {"content": f"{self.text()} {self.random.random()}"}
            return {"do": "store", "memories": [new | {"supersedes": one.id, "namespace": one.namespace}]}
        if chance < 0.5:
            return {"do": "update", "id": one.id, "patch": {"content": f"{self.text()} {self.random.random()}"}}
        if chance < 0.55:
            return {"do": "update", "id": one.id, "patch": {"content": self.random.choice(self.usual_texts)}}
        if chance < 0.6:
            return {
                "do": "update",
                "id": one.id,
                "patch": {"tags": self.some_tags(3), "type": self.random.choice(TYPES)},
            }
        if chance < 0.7:
            return {"do": "update", "id": one.id, "patch": {"archived": not one.archived}}
        if chance < 0.75:
            return {"do": "update", "id": one.id, "patch": {"occurred_at": self.time(), "metadata": {"n": 1}}}
        if chance < 0.8:
            later = [other for other in memories if other.id > one.id and other.namespace == one.namespace]
            by = self.random.choice(later).id if later and not one.superseded else None
            return {"do": "update", "id": one.id, "patch": {"superseded_by": by}}
        if chance < 0.83:
            old, new = self.random.sample(TAGS[2:], 2)
            return {"do": "merge_tags", "sources": [old], "target": new}
        if chance < 0.84:
            return {"do": "repair"}
        going = self.random.sample(memories, self.random.choice((1, 1, 1, 1, 1, 1, 5, 50, 300)))
        return {"do": "delete", "ids": [one.id for one in going]}


class OtherProcess:
    """Writes to the file, and tells the twin what it wrote."""

    def __init__(self, process: asyncio.subprocess.Process, twin: BruteForce) -> None:
        self._process = process
        self._twin = twin
        self._now = START

    async def do(self, changes: list[dict[str, Any]], world: World) -> None:
        """Make changes, one after the other, and the same in the twin; both must come to the same outcomes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        for change in changes:
            self._now += world.random.choice((0, 0, 1, 1_000))
            change["at"] = self._now
        self._process.stdin.write(json.dumps(changes).encode() + b"\n")
        answer = await self._process.stdout.readline()
        assert answer, "the other process died"
        for change, outcome in zip(changes, json.loads(answer), strict=True):
            await self._follow(change, outcome)

    async def _follow(self, change: dict[str, Any], outcome: Any) -> None:
        twin = self._twin
        match change["do"]:
            case "store" if outcome:
                for new, (id_, created) in zip(change["memories"], outcome, strict=True):
                    assert await twin.store(new, change["at"], id_) == created
            case "update":
                assert await twin.update(change["id"], change["patch"]) == outcome, change
            case "delete":
                assert sorted(outcome) == sorted(id_ for id_ in change["ids"] if id_ in twin.memories)
                twin.delete(outcome)
            case "merge_tags":
                assert twin.merge_tags(change["sources"], change["target"]) == (outcome or 0)
            case "repair":
                assert outcome == []
            case _:
                pass


@asynccontextmanager
async def other_process(path: Path, twin: BruteForce) -> AsyncGenerator[OtherProcess]:
    """Start it, and end it in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.storage.brute_force_writer", str(path),
        cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "service"), str(ROOT)])},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
    )  # fmt: skip
    try:
        yield OtherProcess(process, twin)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


class Run:
    """A store, its twin, and the questions that both are asked."""

    def __init__(self, seed: int, service: MemoryService, twin: BruteForce) -> None:
        self.seed = seed
        self.world = World(seed)
        self.service = service
        self.twin = twin
        self.step = 0

    async def search(self) -> "Asked":
        """Ask both one question."""
        random = self.world.random
        text, mode = self.world.question(), random.choice(RECALL_MODES)
        where = self.world.where(list(self.twin.memories.values()))
        group_by = random.choice((None, None, None, "conversation"))
        min_score = random.choice((0.0, 0.0, 0.0, round(random.random(), 3)))
        k = random.choice((1, 3, 5, 10, 10, 50))
        told = f"seed {self.seed}, step {self.step}: {text!r}, {k=}, {mode=}, {group_by=}, {min_score=}, {where}"
        found = await self.service.recall(text, k=k, mode=mode, where=where, group_by=group_by, min_score=min_score)
        ranking = Ranking(self.twin.containing(text, where))
        if mode != "exact":
            ranking = await self.twin.ranked(text, mode, where)
        answers = ranking.answers
        if min_score:
            answers = [answer for answer in answers if score_of(answer.evidence) >= min_score]
        compared = 0 if mode == "exact" else sum(len(kept.parts) for kept in self.twin.matching(where))
        return Asked(told, k, found.hits, answers, group_by, min_score, compared, ranking.told)

    async def compare_lists(self) -> None:
        """Compare what is not ranked: pages, tags, and what a delete would take."""
        where = self.world.where(list(self.twin.memories.values()))
        told = f"seed {self.seed}, step {self.step}: {where}"
        expected = [kept.id for kept in self.twin.matching(where)]
        assert list((await self.service.delete_many(where, dry_run=True)).ids) == expected, told
        assert [(tag.tag, tag.count) for tag in await self.service.tags(where)] == self.twin.tags(where), told
        listed: list[str] = []
        page = Page(self.world.random.choice((1_000, 100, 37)))
        while True:
            listing = await self.service.list(where, page)
            assert listing.total == len(expected), told
            listed += [memory.id for memory in listing.memories]
            if listing.next_cursor is None:
                break
            page = Page(page.limit, listing.next_cursor)
        assert listed == expected, told


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its answers.

    Attributes:
        told: What was asked.
        hits: What the service found.
        answers: All that the twin finds, best first, before grouping.
        compared: How many passages the filter left to compare; 0 when all that hold a text are found.
        is_certain: Whether the twin knows the scores; not so when rounding decides which passages lead.
    """

    told: str
    k: int
    hits: Sequence[Hit]
    answers: Sequence[Answer]
    group_by: GroupBy | None
    min_score: float
    compared: int
    is_certain: bool

    def grouped(self) -> list[Answer]:
        """Return the best answer of each conversation, if that was asked for."""
        firsts: dict[object, Answer] = {}
        for answer in self.answers:
            firsts.setdefault(thread_of(answer.memory) if self.group_by else answer.memory.id, answer)
        return list(firsts.values())

    def require_the_same(self) -> None:
        """Require the best `k` answers in their order.

        Places may be exchanged only where evidence differs by no more than rounding. Memories that are exactly alike
        come newest first, and the newest of them.
        """
        answers = self.grouped()
        best = answers[: self.k]
        by_id = {answer.memory.id: answer for answer in answers}
        assert {hit.memory.id for hit in self.hits} <= by_id.keys(), self.told
        assert len(self.hits) == len(best), self.told
        for hit, there in zip(self.hits, best, strict=True):
            here = by_id[hit.memory.id]
            assert here is there or abs(here.evidence - there.evidence) <= ROUNDING, self.told
            assert hit.score == pytest.approx(score_of(here.evidence), abs=2 * ROUNDING), self.told
            assert here.snippet in (None, hit.snippet), self.told
        found = groups(by_id[hit.memory.id] for hit in self.hits)
        for key, ids in groups(answers).items():
            assert found.get(key, []) == sorted(ids, reverse=True)[: len(found.get(key, []))], self.told

    def share_found(self) -> float:
        """Require answers that are allowed, as many as there are, best first; return how many of the ten best they are.

        This is what vectors that are compared by their codes promise.
        """
        evidence = {answer.memory.id: answer.evidence for answer in self.answers}
        assert {hit.memory.id for hit in self.hits} <= evidence.keys(), self.told
        conversations = [
            (hit.memory.namespace, hit.memory.conversation_id)
            for hit in self.hits
            if hit.memory.conversation_id and self.group_by
        ]
        assert len(self.hits) <= self.k and len(set(conversations)) == len(conversations), self.told
        # By the score; where the cosine is all that there is, by that, which goes on below 0.
        ranks = [
            (next(iter(hit.signals.values())) if hit.signals.keys() == {"semantic"} else hit.score, hit.memory.id)
            for hit in self.hits
        ]
        assert ranks == sorted(set(ranks), reverse=True), self.told
        # A leader that was missed leaves another one to be related to.
        assert all(hit.score <= score_of(evidence[hit.memory.id] + RELATED) for hit in self.hits), self.told
        answers = self.grouped()
        assert self.min_score or len(self.hits) == min(self.k, len(answers)), self.told
        best = answers[: min(self.k, 10)]
        if not best:
            return 1.0
        right = [hit for hit in self.hits[: len(best)] if evidence[hit.memory.id] >= best[-1].evidence - ROUNDING]
        return len(right) / len(best)


def groups(answers: Iterable[Answer]) -> dict[object, list[str]]:
    """Return the ids of those that are exactly alike, by what they have in common."""
    found: dict[object, list[str]] = {}
    for answer in answers:
        if answer.alike is not None:
            found.setdefault(answer.alike, []).append(answer.memory.id)
    return found


@asynccontextmanager
async def run(seed: int, path: Path) -> "AsyncGenerator[tuple[Run, OtherProcess, SqliteStore]]":
    """Start a run with a filled store."""
    store = await open_sqlite(path, clock=SetClock(moment(START)))
    embedder = DenseEmbedder()
    made = Run(seed, MemoryService(store, embedder, clock=SetClock(moment(START))), BruteForce(embedder))
    async with other_process(path, made.twin) as other:
        await other.do(
            [{"do": "register_type", "name": name, "parent": of} for name, of in OWN_TYPES.items()], made.world
        )
        for _ in range(4):
            many = [made.world.memory() for _ in range(MEMORIES // 4)]
            await other.do([{"do": "store", "memories": many}], made.world)
        yield made, other, store
    assert await store.check() == []
    await store.aclose()


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_search_gives_what_brute_force_gives_while_another_process_writes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every passage that the filter leaves is a candidate, so that nothing but the order is in question."""
    monkeypatch.setattr(recall, "MIN_POOL", 100_000)
    monkeypatch.setattr(search, "EXACT_LIMIT", 100_000)
    uncertain = 0
    async with run(seed, tmp_path / "retain.db") as (made, other, _):
        for made.step in range(STEPS):
            await other.do(made.world.changes(list(made.twin.memories.values())), made.world)
            for _ in range(SEARCHES):
                asked = await made.search()
                if asked.is_certain:
                    asked.require_the_same()
                uncertain += not asked.is_certain
            await made.compare_lists()
    assert uncertain < 0.02 * STEPS * SEARCHES


async def test_the_usual_pool_of_candidates_misses_next_to_nothing(tmp_path: Path) -> None:
    shares: list[float] = []
    async with run(3, tmp_path / "retain.db") as (made, other, _):
        for made.step in range(STEPS):
            await other.do(made.world.changes(list(made.twin.memories.values())), made.world)
            for _ in range(SEARCHES):
                asked = await made.search()
                if asked.is_certain and asked.compared <= recall.MIN_POOL:
                    asked.require_the_same()
                elif asked.is_certain:
                    shares.append(asked.share_found())
    assert np.mean(shares) > 0.98


async def test_a_search_by_codes_and_cells_obeys_every_filter_and_is_never_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in (
        (search, "EXACT_LIMIT", 20),
        (search, "SCANNED_LIMIT", 300),
        (search, "_SHORTLIST", 100),
        (search, "_RESCORED", 50),
        (search, "_SHORTLIST_PER_RESCORED", 2),
        (search, "_SPARE_SHARE", 1_000),
        (cells, "CELLS_FROM", 1_000),
        (cells, "_FEWEST_CELLS", 32),
    ):
        monkeypatch.setattr(module, name, value)
    shares: list[float] = []
    async with run(4, tmp_path / "retain.db") as (made, other, store):
        for made.step in range(STEPS):
            if made.step % 25 == 0:
                await store._upkeep.group()
            await other.do(made.world.changes(list(made.twin.memories.values())), made.world)
            for _ in range(SEARCHES):
                asked = await made.search()
                if not asked.compared:
                    asked.require_the_same()
                elif asked.is_certain:
                    shares.append(asked.share_found())
        assert store._index.sizes["cells"] > 0
    assert np.mean(shares) > 0.98
