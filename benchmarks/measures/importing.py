"""A bulk import beside the model alone, on the same texts."""

import asyncio
import time
from collections.abc import AsyncIterator

from benchmarks.bench import Bench
from benchmarks.corpus import opened, real_embedder
from benchmarks.readings import Reading, Readings
from benchmarks.scale import short_texts
from benchmarks.texts import Text
from retain.core.api import Record
from retain.core.service import utc_now
from retain.domain.ids import new_id
from retain.domain.json_form import time_to_json
from retain.domain.text import content_hash

_AT_ONCE = 1_000
_SEED = 31


def measure(bench: Bench) -> Readings:
    """Import short memories into an empty database and embed the same texts, in turns: both meet the same machine."""
    texts = list(short_texts(bench.plan.imported, _SEED))
    return asyncio.run(_measure(bench, texts))


async def _measure(bench: Bench, texts: list[Text]) -> Readings:
    embedder, alone = real_embedder(), real_embedder()
    _, service = await opened(bench.folder / "importing.db", embedder)
    await service.import_records(_records(texts[:32]))
    await alone.embed_passages([text.content for text in texts[:32]])
    parts = 4
    imported, embedded = 0.0, 0.0
    size = len(texts) // parts
    for part in range(parts):
        batch = texts[32:][part * size : (part + 1) * size]
        began = time.perf_counter()
        await service.import_records(_records(batch))
        imported += time.perf_counter() - began
        began = time.perf_counter()
        for start in range(0, len(batch), _AT_ONCE):
            await alone.embed_passages([text.content for text in batch[start : start + _AT_ONCE]])
        embedded += time.perf_counter() - began
    count = (await service.stats()).total
    await service.aclose()
    await alone.aclose()
    return {
        "import": Reading(
            count / imported, f"{count:,} memories of one sentence; the model alone {count / embedded:,.0f}"
        ),
        "import_share": Reading(embedded / imported, "by wall time"),
    }


async def _records(texts: list[Text]) -> AsyncIterator[Record]:
    yield {"kind": "header", "format": "retain", "version": 1}
    now = time_to_json(utc_now())
    for text in texts:
        yield {
            "kind": "memory", "id": new_id(), "content": text.content, "content_hash": content_hash(text.content),
            "created_at": now, "updated_at": now, "occurred_at": now, "type": "observation", "namespace": "/",
            "tags": list(dict.fromkeys(text.tags)), "metadata": {},
        }  # fmt: skip
