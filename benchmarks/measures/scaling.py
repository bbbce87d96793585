"""A hundred thousand and a million passages: what a recall costs, how exact it is, what the index takes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import Baselines, K
from benchmarks.bench import SEARCHES, Bench
from benchmarks.corpus import Vectors, opened
from benchmarks.readings import Reading, Readings, Stopwatch, Timed, percentile
from benchmarks.scale import ONE_PERCENT, TEN_PERCENT, Scaled
from retain.core.service import MemoryService
from retain.domain.memory import Filter, Page
from retain.domain.scoring import Candidates
from retain.storage.sqlite import SqliteStore
from retain.storage.sqlite.vectors import embeddings

Search = tuple[Scaled, Callable[[str, Vectors], Awaitable[object]]]
"""What is asked, and how a question and its vector are."""
_PAGE = Page(limit=50)
_CODE_BYTES = 48
_SCANS = 40
_PLAIN_QUESTIONS = 10
_TURNS = 5
_UNKNOWN_WORD = "quokkaflux"
_STILL_S = 0.5
"""After large matrix products numpy's threads wait busily for a moment: CPU time that belongs to no search."""


def measure(bench: Bench) -> Readings:
    """Measure the database with real vectors beside both baselines, then, if the plan has it, the synthetic one."""
    readings = asyncio.run(_searches(bench.scaled, "scale", bench.plan.warm_up, bench.known.used))
    readings |= _baselines(bench, bench.scaled, "scale", scans=_SCANS) | _floor(bench.plan.scale)
    if bench.plan.huge:
        readings |= asyncio.run(_searches(bench.huge, "huge", bench.plan.warm_up))
        readings |= _baselines(bench, bench.huge, "huge", scans=0)
    return readings


async def _searches(
    scaled: Scaled, size: str, warm_up: int, originals: Mapping[str, Vectors] | None = None
) -> Readings:
    """Measure one database; `originals` are the model's vectors by text, before they were stored in int8."""
    store, service = await opened(scaled.path, scaled.ready())
    of_words, of_vectors, *of_recalls = scaled.split(SEARCHES)
    await asyncio.sleep(_STILL_S)
    began = time.process_time()
    await service.recall(_UNKNOWN_WORD)
    load = time.process_time() - began
    # First and without warm-up: no list of a word is remembered yet.
    keywords = (await _timed({"keywords": (of_words, lambda text, _: _search(store, text=text))}, 0))["keywords"]
    searches: dict[str, Search] = {"dense": (of_vectors, lambda _, vector: _search(store, vector=vector))}
    wheres = {"hybrid": Filter(), "tag1": Filter(tags=(ONE_PERCENT,)), "tag10": Filter(tags=(TEN_PERCENT,))}
    for (name, where), asked in zip(wheres.items(), of_recalls, strict=True):
        searches[name] = asked, lambda question, _, where=where: service.recall(question, where=where)
    readings = {f"{size}_{name}": timed.reading() for name, timed in (await _timed(searches, warm_up)).items()}
    found = [await _nearest(store, vector) for vector in of_vectors.vectors]
    readings |= {
        f"{size}_load": Reading(load, "the first recall of a process"),
        f"{size}_keywords": Reading(keywords.cpu_ms, f"wall p50 {keywords.p50_ms:.1f}, p95 {keywords.p95_ms:.1f} ms"),
        f"{size}_keywords_p95": Reading(keywords.p95_ms, "wall; words are asked for the first time in this process"),
        f"{size}_bytes": _index_bytes(store),
    }
    readings |= await _listing(service, size)
    await store.aclose()
    texts, stored = scaled.stored()
    # The question in int8 too, as the store compares it.
    readings[f"{size}_recall"] = _agreement(found, texts, stored, embeddings(of_vectors.vectors))
    if originals is not None:
        exact = np.stack([originals[text] for text in texts])
        readings[f"{size}_recall_float"] = _agreement(found, texts, exact, of_vectors.vectors)
    return readings


async def _timed(searches: Mapping[str, Search], warm_up: int) -> dict[str, Timed]:
    """Time searches in turns of some questions: each finds the caches as it left them, and noise meets them all."""
    stopwatches = {name: Stopwatch(time.process_time, group=1) for name in searches}
    for turn in range(_TURNS):
        for name, (asked, ask) in searches.items():
            questions = list(zip(asked.questions, asked.vectors, strict=True))[turn::_TURNS]
            for question in questions[: warm_up // _TURNS]:
                await ask(*question)
            stopwatches[name].reset()
            for question in questions[warm_up // _TURNS :]:
                await stopwatches[name].run_async(ask(*question))
    return {name: stopwatch.timed() for name, stopwatch in stopwatches.items()}


async def _nearest(store: SqliteStore, vector: NDArray[np.float32]) -> list[str]:
    """Return the contents of the ten nearest, as the dense search alone gives them."""

    def best(candidates: Candidates) -> NDArray[np.intp]:
        assert candidates.semantic is not None
        return np.argsort(-candidates.semantic)[:K]

    return [chosen.memory.content for chosen in await store.candidates(Filter(), K, best, vector=vector)]


async def _search(store: SqliteStore, vector: NDArray[np.float32] | None = None, text: str | None = None) -> None:
    """Search and read nothing: the baselines give row numbers too."""
    await store.candidates(Filter(), K, lambda _: np.empty(0, np.intp), vector=vector, text=text)


def _agreement(
    found: Sequence[Sequence[str]], texts: Sequence[str], vectors: NDArray[Any], asked: NDArray[Any]
) -> Reading:
    """Compare the nearest texts that were found for each of `asked` with an exact scan of all `vectors`."""
    cosines = np.empty((len(found), len(texts)), dtype=np.float32)
    for start in range(0, len(texts), 20_000):
        rows = vectors[start : start + 20_000].astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        cosines[:, start : start + len(rows)] = asked.astype(np.float32) @ rows.T
    shares: list[float] = []
    for row, contents in zip(cosines, found, strict=True):
        exact = np.argpartition(-row, min(K, len(row)) - 1)[:K]
        shares.append(len({texts[place] for place in exact} & set(contents)) / len(exact))
    return Reading(mean(shares), f"{len(found)} questions, {len(texts):,} passages")


def _index_bytes(store: SqliteStore) -> Reading:
    sizes = store.index_sizes
    words = sizes.pop("postings")
    passages = sizes["states"]  # one byte each
    return Reading(sum(sizes.values()) / passages, f"and {words / passages:.1f} of remembered words")


async def _listing(service: MemoryService, size: str) -> Readings:
    """Time a page at the front, in the middle and at the end."""
    total = (await service.list(Filter(), Page(limit=1))).total
    pages = {"front": _PAGE}
    seen, cursor = 0, None
    step = min(1_000, max(1, total // 4))
    while seen < total - step:
        cursor = (await service.list(Filter(), Page(limit=step, cursor=cursor))).next_cursor
        seen += step
        if seen >= total // 2:
            pages.setdefault("middle", Page(limit=_PAGE.limit, cursor=cursor))
    pages["end"] = Page(limit=_PAGE.limit, cursor=cursor)
    stopwatches = {name: Stopwatch(time.process_time, group=1) for name in pages}
    for _ in range(_SCANS):
        for name, page in pages.items():
            stopwatches[name].reset()
            await stopwatches[name].run_async(service.list(Filter(), page))
    return {f"{size}_list_{name}": stopwatch.timed().reading() for name, stopwatch in stopwatches.items()}


def _baselines(bench: Bench, scaled: Scaled, size: str, *, scans: int) -> Readings:
    """Ask a vec0 table `scans` times and an FTS5 table a few times, on the same passages."""
    texts, stored = scaled.stored()
    vectors = stored.astype(np.float32) if scans else np.empty((0, stored.shape[1]), np.float32)
    path = bench.folder / f"baselines-{size}.db"
    baselines = Baselines(path, texts, vectors)
    readings = {f"{size}_fts5": baselines.fts5(scaled.questions[: _PLAIN_QUESTIONS + 1], 1).reading()}
    if scans:
        readings[f"{size}_vec0"] = baselines.vec0(scaled.vectors[: scans + 1], 1).reading()
    baselines.close()
    _remove(path)
    return readings


def _remove(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def _floor(passages: int) -> Readings:
    """Time reading the codes of all passages once: no search of them can take less."""
    codes = np.arange(passages * _CODE_BYTES // 8, dtype=np.uint64)
    walls: list[float] = []
    for _ in range(_SCANS):
        began = time.perf_counter()
        codes.sum()
        walls.append((time.perf_counter() - began) * 1000)
    return {"scale_floor": Reading(percentile(walls, 50), f"{_CODE_BYTES} bytes a passage, wall")}
