"""Storing many at once, and what a memory takes on disk."""

import asyncio
import time

from benchmarks.bench import Bench
from benchmarks.corpus import fill, opened, real_embedder
from benchmarks.readings import Reading, Readings

_MOST = 1_000


def measure(bench: Bench) -> Readings:
    """Fill an empty database with the real model, beside the model alone; weigh the large database."""
    readings = asyncio.run(_speed(bench))
    size = sum(file.stat().st_size for file in bench.folder.glob(f"{bench.large.name}*"))
    per_memory = size / bench.plan.large
    remark = f"{size / 1e6:.1f} MB in the file after closing"
    return readings | {"disk": Reading(per_memory, remark)}


async def _speed(bench: Bench) -> Readings:
    texts = bench.fresh(min(_MOST, bench.plan.large))
    contents = [text.content for text in texts]
    _, service = await opened(bench.folder / "filling.db", bench.embedder)
    await fill(service, bench.fresh(min(32, bench.plan.large)))
    began, cpu = time.perf_counter(), time.process_time()
    await fill(service, texts)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    other = real_embedder()  # ours remembers what it has just embedded
    await other.embed_passages(contents[:1])
    cpu = time.process_time()
    await other.embed_passages(contents)
    alone = time.process_time() - cpu
    await other.aclose()
    tokens = sum(len(bench.embedder.token_offsets(content)) for content in contents)
    remark = f"wall, real model; {tokens / took:,.0f} tokens/s"
    return {"fill": Reading(len(texts) / took, remark), "fill_ratio": Reading(alone / used, "by CPU time")}
