"""The model alone: one question, and many passages at once."""

import asyncio
import time

from benchmarks.bench import Bench
from benchmarks.readings import Reading, Readings, Stopwatch
from retain.core.ports import Embedder

QUERY_TOKENS = 12
PASSAGE_TOKENS = 128
_PASSAGES = 384


def measure(bench: Bench) -> Readings:
    """Embed in this process, with nothing else going on."""
    return asyncio.run(_measure(bench))


async def _measure(bench: Bench) -> Readings:
    embedder = bench.embedder
    texts = bench.fresh(bench.plan.operations + bench.plan.warm_up)
    questions = [_cut(embedder, text.content, QUERY_TOKENS) for text in texts]
    for question in questions[: bench.plan.warm_up]:
        await embedder.embed_query(question)
    stopwatch = Stopwatch(time.process_time, group=1)
    for question in questions[bench.plan.warm_up :]:
        await stopwatch.run_async(embedder.embed_query(question))
    return {"query": stopwatch.timed().reading(), "batch": await _batch(bench)}


async def _batch(bench: Bench) -> Reading:
    embedder = bench.embedder
    count = min(_PASSAGES, bench.plan.operations * 2)
    passages = [
        _cut(embedder, f"{one.content} {other.content}", PASSAGE_TOKENS)
        for one, other in zip(bench.stored[:count], reversed(bench.stored[-count:]), strict=True)
    ]
    tokens = sum(len(embedder.token_offsets(passage)) for passage in passages)
    await embedder.embed_passages([passage[: len(passage) // 2] for passage in passages[:32]])
    cpu, wall = time.process_time(), time.perf_counter()
    await embedder.embed_passages(passages)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Reading(tokens / wall, f"wall, all cores; {tokens / cpu:,.0f} tokens a CPU second")


def _cut(embedder: Embedder, text: str, tokens: int) -> str:
    """Return the beginning of a text that has so many tokens, the special ones not counted."""
    return text[: int(embedder.token_offsets(text)[:tokens][-1][1])]
