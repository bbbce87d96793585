"""How fast `RetainStore` is beside langgraph's own `SqliteStore`; run by hand, from the root of the repository.

python -m benchmarks.langgraph_speed

1,000 items are put in batches of 100, then 200 questions are asked. Both stores keep a file and embed with the same
function, Retain's bundled model. `SqliteStore` needs sqlite-vec, and so a sqlite3 that loads extensions; where Python's
own does not, the package pysqlite3-binary stands in for both.
"""

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if not hasattr(sqlite3.Connection, "enable_load_extension"):
    import pysqlite3  # type: ignore[import-not-found]

    sys.modules["sqlite3"] = pysqlite3

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.sqlite import SqliteStore

import retain
from retain_integrations.langgraph import RetainStore

ITEMS, BATCH, QUESTIONS, ROUNDS = 1_000, 100, 200, 3
WHO = ["Mara", "Jonas", "Aylin", "Pavel", "Chidi", "Sofia", "Tomas", "Wei", "Nadia", "Olu"]
WHAT = ["prefers", "is allergic to", "asked about", "ordered", "sent back", "wrote about", "dreams of", "repaired"]
WHICH = ["green tea", "nuts", "the rate limit", "a bicycle", "the invoice", "red paint", "a flight to Oslo", "the API"]
WHEN = ["in spring", "on Monday", "at the meeting", "last year", "before lunch", "by letter", "twice", "in the office"]


def sentences(count: int, seed: int) -> list[str]:
    """Return texts that differ."""
    chosen = random.Random(seed)
    return [f"{' '.join(map(chosen.choice, (WHO, WHAT, WHICH, WHEN)))}, number {place}" for place in range(count)]


def fresh_index() -> Any:
    """Return an index configuration with Retain's model; a new one, since a model keeps what it has embedded."""
    model = retain.load_embedder()

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return asyncio.run(model.embed_passages(texts)).tolist()

    return {"dims": model.dimensions, "embed": embed, "fields": ["text"]}


def timed(store: BaseStore) -> tuple[float, float]:
    """Return the seconds that all puts and all searches take."""
    store.put(("warm",), "k", {"text": "something to load what is loaded at first use"})
    store.search(("warm",), query="something")
    puts = [PutOp(("users", f"u{place % 10}"), f"k{place}", {"text": t}) for place, t in enumerate(sentences(ITEMS, 1))]
    start = time.perf_counter()
    for first in range(0, ITEMS, BATCH):
        store.batch(puts[first : first + BATCH])
    put_s = time.perf_counter() - start
    start = time.perf_counter()
    for place, question in enumerate(sentences(QUESTIONS, 2)):
        assert len(store.search(("users", f"u{place % 10}"), query=question, limit=10)) == 10
    return put_s, time.perf_counter() - start


def upstream(path: Path, index: Any) -> tuple[float, float]:
    with SqliteStore.from_conn_string(str(path), index=index) as store:
        store.setup()
        return timed(store)


def ours(path: Path, index: Any) -> tuple[float, float]:
    with RetainStore(str(path), index=index) as store:
        return timed(store)


def main() -> None:
    """Measure each store `ROUNDS` times in turn, and print the least times and their ratios."""
    ways: dict[str, Callable[[Path], tuple[float, float]]] = {
        "SqliteStore": lambda path: upstream(path, fresh_index()),
        "RetainStore, same embed (semantic)": lambda path: ours(path, fresh_index()),
        "RetainStore, its default (hybrid)": lambda path: ours(path, {"fields": ["text"]}),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(ROUNDS):
            for place, (name, measure) in enumerate(ways.items()):
                times[name].append(measure(Path(folder) / f"{turn}-{place}.db"))
    base = tuple(map(min, zip(*times["SqliteStore"], strict=True)))
    for name, measured in times.items():
        put_s, search_s = map(min, zip(*measured, strict=True))
        print(
            f"{name:36} {ITEMS} puts {put_s:6.3f} s ({put_s / base[0]:.2f} x)   "
            f"{QUESTIONS} searches {search_s:6.3f} s ({search_s / base[1]:.2f} x)"
        )


if __name__ == "__main__":
    main()
