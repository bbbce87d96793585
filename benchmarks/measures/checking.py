"""Looking into a database after many processes wrote to it."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.acknowledged import Acknowledged
from benchmarks.corpus import opened
from benchmarks.workers import hashing

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Findings:
    """What `retain doctor` would say, in words and rows, and what was lost."""

    disagreements: list[str]
    rows: int
    lost: list[str]
    memories: int


async def examine(database: Path, acknowledged: Acknowledged, /, *, check: bool = True) -> Findings:
    """Run the store's own check, and read every acknowledged write back."""
    store, service = await opened(database, hashing())
    problems = await store.check() if check else []
    ids = [*acknowledged.present, *acknowledged.gone]
    found: dict[str, str] = {}
    for start in range(0, len(ids), _AT_ONCE):
        found |= {memory.id: memory.content_hash for memory in await store.get(ids[start : start + _AT_ONCE])}
    total = (await service.stats()).total
    await service.aclose()
    return Findings(
        [f"{problem.name}: {problem.detail}" for problem in problems],
        sum(max(1, problem.count) for problem in problems),
        acknowledged.lost(found),
        total,
    )
