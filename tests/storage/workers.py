"""What the processes of the multi-process tests do: `python -m tests.storage.workers VERB PATH [ARGUMENT]`."""

import asyncio
import sys
from datetime import UTC, datetime

from retain.domain.memory import EVERYTHING, Filter, Page
from retain.storage.sqlite import SqliteStore, open_sqlite
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, entry, unit


async def opening(store: SqliteStore, _: str) -> None:
    """Only open and say so."""
    print("opened", (await store.stats(Filter())).total)


async def storing_the_same(store: SqliteStore, text: str) -> None:
    """Store one text and print the id that it got."""
    (written,) = await store.put([entry(text)], model=MODEL)
    print(written.memory.id)


async def storing_for_ever(store: SqliteStore, name: str) -> None:
    """Store, edit and delete until killed; print each id whose storing was confirmed."""
    number = 0
    while True:
        batch = [entry(f"{name} {number} {part} the words of a memory", ["t", f"t{number % 5}"]) for part in range(3)]
        written = await store.put(batch, model=MODEL)
        if number % 3 == 2:
            await store.delete(Filter(ids=(written[0].memory.id,)), at=datetime.now(UTC))
            written = written[1:]
        print(*(one.memory.id for one in written), flush=True)
        number += 1


async def mixing(store: SqliteStore, name: str) -> None:
    """Store, search, list, tag and delete; print how many memories this process left behind."""
    kept = 0
    for number in range(40):
        (written,) = await store.put([entry(f"{name} note {number} quokka", [name], vector=unit(number))], model=MODEL)
        found = await candidates(store, EVERYTHING, 500, vector=unit(number), text="quokka", model=MODEL)
        if written.memory.id not in {one.memory_id for one in found}:
            raise AssertionError("the own write was not found")
        await store.list(Filter(tags=(name,)), Page(10))
        if number % 4 == 3:
            await store.delete(Filter(ids=(written.memory.id,)), at=datetime.now(UTC))
        else:
            kept += 1
    print(kept)


VERBS = {"open": opening, "same": storing_the_same, "for-ever": storing_for_ever, "mix": mixing}


async def main() -> None:
    """Do what the arguments say."""
    verb, path, *rest = sys.argv[1:]
    store = await open_sqlite(path, clock=lambda: datetime.now(UTC))
    await VERBS[verb](store, rest[0] if rest else "")
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
