"""Recall: over REST and in process, at two sizes, and what its parts cost beside the baselines."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import Baselines, K
from benchmarks.bench import Bench
from benchmarks.corpus import opened
from benchmarks.processes import Client, Server, resident_mb
from benchmarks.readings import Reading, Readings, Stopwatch, Timed
from benchmarks.scale import ReadyVectors
from benchmarks.texts import Text
from retain.core.ports import MemoryStore, Vectors
from retain.domain.memory import Filter
from retain.domain.scoring import Candidates

TOP = 5


def measure(bench: Bench) -> Readings:
    """Ask fresh questions: over REST of both databases, then in process, then of the baselines."""
    readings: Readings = {}
    for size, database, count in (("small", bench.small, bench.plan.small), ("large", bench.large, bench.plan.large)):
        # A question is asked twice in a run, once over REST and once in process: two processes, no shared cache.
        asked = _spread(bench.stored[:count], bench.plan.operations + bench.plan.warm_up)
        readings |= over_rest(database, asked, bench.plan.warm_up, size)
        readings |= asyncio.run(in_process(bench, database, asked, size))
    return readings | asyncio.run(against_baselines(bench))


def _spread(texts: Sequence[Text], count: int) -> list[Text]:
    """Return `count` of the texts from all over the list, or as many as there are."""
    return list(texts[:: max(1, len(texts) // count)][:count])


def over_rest(database: Path, asked: Sequence[Text], warm_up: int, size: str) -> Readings:
    """Ask a server of its own."""
    with Server(database) as server:
        client = server.client()
        for text in asked[:warm_up]:
            client.recall(text.question)
        server.settle()
        found: list[bool] = []
        stopwatch = Stopwatch(server.cpu_seconds)
        for text in asked[warm_up:]:
            stopwatch.run(lambda text=text: found.append(_found(client, text)))
        readings = {f"recall_rest_{size}": stopwatch.timed().reading()}
        megabytes, of_files = resident_mb(server.pid)
        client.close()
    if size == "large":
        readings["quality"] = Reading(sum(found) / len(found), f"{len(found)} questions")
        readings["resident"] = Reading(megabytes, f"after {len(asked)}; {of_files:.0f} MB of it file pages")
    return readings


def _found(client: Client, text: Text) -> bool:
    return text.content in client.recall(text.question)[:TOP]


async def in_process(bench: Bench, database: Path, asked: Sequence[Text], size: str) -> Readings:
    """Ask the core in this process, with a fresh question each time."""
    store, service = await opened(database, bench.embedder)
    warm_up = bench.plan.warm_up
    for text in asked[:warm_up]:
        await service.recall(text.question)
    stopwatch = Stopwatch(time.process_time)
    for text in asked[warm_up:]:
        await stopwatch.run_async(service.recall(text.question))
    readings = {f"recall_process_{size}": stopwatch.timed().reading()}
    if size == "large":
        readings["recall_core_large"] = (await _without_embedding(bench)).reading()
    await store.aclose()
    return readings


async def _without_embedding(bench: Bench) -> Timed:
    questions = [text.question for text in bench.fresh(bench.plan.operations + bench.plan.warm_up)]
    ready = {question: await bench.embedder.embed_query(question) for question in questions}
    _, service = await opened(bench.large, ReadyVectors(bench.embedder.model_id, ready))
    for question in questions[: bench.plan.warm_up]:
        await service.recall(question)
    stopwatch = Stopwatch(time.process_time, group=1)
    for question in questions[bench.plan.warm_up :]:
        await stopwatch.run_async(service.recall(question))
    await service.aclose()
    return stopwatch.timed()


async def against_baselines(bench: Bench) -> Readings:
    """Compare the two searches of the store, k = 10, with a vec0 scan and plain FTS5 on the same texts."""
    texts = bench.fresh(bench.plan.operations + bench.plan.warm_up)
    questions = [text.question for text in texts]
    vectors = np.stack([await bench.embedder.embed_query(question) for question in questions])
    store, _ = await opened(bench.large, bench.embedder)
    passages = bench.known.used
    baselines = Baselines(bench.folder / "baselines.db", list(passages), np.stack(list(passages.values())))
    vec0 = baselines.vec0(vectors, bench.plan.warm_up)
    fts5 = baselines.fts5(questions, bench.plan.warm_up)
    baselines.close()
    dense, keywords = await candidates(store, vectors, questions, bench.plan.warm_up)
    await store.aclose()
    both = f"{len(passages):,} passages"
    return {
        "dense": dense.reading(),
        "keywords": keywords.reading(),
        "vec0": vec0.reading(both),
        "fts5": fts5.reading(both),
    }


async def candidates(
    store: MemoryStore, vectors: Vectors, questions: Sequence[str], warm_up: int
) -> tuple[Timed, Timed]:
    """Time a store's dense search, and its keyword search."""
    everything = Filter()
    dense, keywords = Stopwatch(time.process_time, group=1), Stopwatch(time.process_time, group=1)
    for vector in vectors[:warm_up]:
        await store.candidates(everything, K, first, vector=vector)
    dense.reset()
    for vector in vectors[warm_up:]:
        await dense.run_async(store.candidates(everything, K, first, vector=vector))
    for question in questions[:warm_up]:
        await store.candidates(everything, K, first, text=question)
    keywords.reset()
    for question in questions[warm_up:]:
        await keywords.run_async(store.candidates(everything, K, first, text=question))
    return dense.timed(), keywords.timed()


def first(candidates: Candidates, /) -> NDArray[np.intp]:
    """Choose K of the candidates, so that as many memories are read as in a recall."""
    return np.arange(min(K, len(candidates)))
