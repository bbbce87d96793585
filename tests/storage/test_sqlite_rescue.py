# ruff: noqa: ASYNC240 - nothing else runs on the loop of these tests
"""A damaged file: what can still be read goes into a new one, and nothing else is touched."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from retain.core.ports import StoredKey
from retain.domain.errors import StoreCorruptError, StoreUnavailableError
from retain.domain.memory import EVERYTHING, Filter, Memory, Model
from retain.storage.sqlite import open_sqlite, rescue_sqlite
from tests.conformance.asking import candidates
from tests.conformance.making import START, entry, unit
from tests.storage.conftest import Open

WIDE = Model("wide-model", 384)
COUNT = 300


@pytest.fixture
async def before(open_store: Open) -> Sequence[Memory]:
    """300 memories in a file of some 600 kB, closed again; returns them."""
    store = await open_store()
    words = random.Random(1)
    texts = [" ".join(f"word{words.randrange(900)}" for _ in range(40)) for _ in range(COUNT)]
    await store.put(
        [
            entry(text, ["all", f"t{n % 7}"], vector=unit(n, dimensions=384), namespace=f"/n{n % 2}", metadata={"n": n})
            for n, text in enumerate(texts)
        ],
        model=WIDE,
    )
    await store.add_key(StoredKey("ci", "d" * 64, "/n1", True, None, START))
    gone = await store.put([entry("gone", vector=unit(1, dimensions=384))], model=WIDE)
    await store.delete(Filter(ids=(gone[0].memory.id,)), at=START)
    memories = await store.get(await store.ids(EVERYTHING))
    await store.aclose()
    return memories


def damage(path: Path, page: int, pages: int = 1) -> None:
    """Overwrite whole pages with noise."""
    raw = bytearray(path.read_bytes())
    raw[page * 4096 : (page + pages) * 4096] = random.Random(page).randbytes(pages * 4096)
    path.write_bytes(raw)


async def page_of(path: Path, name: str, kind: str, number: int = 0) -> int:
    """Return the number, from 0, of a page of a table or index."""
    store = await open_sqlite(path, clock=lambda: START)
    sql = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ? ORDER BY path"
    found = await store._database.read(lambda db: db.rows(sql, (name, kind)))
    await store.aclose()
    return found[number][0] - 1


@pytest.mark.parametrize(
    "name", ["passage", "passage_memory", "memory_newest", "memory_tag_by_tag", "sqlite_autoindex_memory_1"]
)
async def test_every_memory_is_rescued_when_only_what_is_derived_is_damaged(
    path: Path, before: Sequence[Memory], name: str
) -> None:
    damage(path, await page_of(path, name, "leaf"))
    outcome = await rescue_sqlite(path, clock=lambda: START)
    assert (outcome.rescued, outcome.lost, outcome.incomplete) == (COUNT, 0, ())
    store = await open_sqlite(path, clock=lambda: START)
    after = await store.get(await store.ids(EVERYTHING))
    assert {memory.id: memory for memory in after} == {memory.id: memory for memory in before}
    assert len(await store.unsearchable(COUNT)) == outcome.without_vectors < COUNT / 3
    assert [key.name for key in await store.list_keys()] == ["ci"]
    assert len(await store.tombstones(Filter())) == 1
    found = await candidates(store, Filter(), 5, vector=unit(COUNT - 1, dimensions=384), text="word1", model=WIDE)
    assert found
    await store.aclose()


async def test_only_the_memories_on_a_damaged_page_are_lost_and_they_are_counted(
    path: Path, before: Sequence[Memory]
) -> None:
    damage(path, await page_of(path, "memory", "leaf", 3))
    outcome = await rescue_sqlite(path, clock=lambda: START)
    assert outcome.rescued + outcome.lost == COUNT
    assert 0 < outcome.lost < 20
    store = await open_sqlite(path, clock=lambda: START)
    after = await store.get(await store.ids(EVERYTHING))
    assert all(memory in before for memory in after)
    assert await store.check() == []
    await store.aclose()


async def test_the_damaged_file_is_kept_as_it_was_and_nothing_else_is_left(
    path: Path, before: Sequence[Memory]
) -> None:
    damage(path, await page_of(path, "passage", "leaf"))
    damaged = path.read_bytes()
    outcome = await rescue_sqlite(path, clock=lambda: START)
    kept = Path(outcome.kept).read_bytes()
    assert kept[4096:] == damaged[4096:]  # the first page says that its log has been moved in
    assert {each.name for each in path.parent.iterdir()} == {path.name, Path(outcome.kept).name}


async def test_memories_without_vectors_are_completed_by_an_embedder(path: Path, before: Sequence[Memory]) -> None:
    damage(path, await page_of(path, "passage", "leaf"))
    outcome = await rescue_sqlite(path, clock=lambda: START)
    store = await open_sqlite(path, clock=lambda: START)
    wanting = await store.unsearchable(COUNT)
    assert len(wanting) == outcome.without_vectors > 0
    made = [entry(memory.content, vector=unit(1, dimensions=384)) for memory in wanting]
    ready = [type(each)(memory, each.passages, each.vectors) for memory, each in zip(wanting, made, strict=True)]
    await store.complete(ready, model=WIDE)
    assert await store.unsearchable(COUNT) == []
    assert await store.check() == []
    await store.aclose()


async def test_a_file_that_is_in_use_is_not_rescued(path: Path, before: Sequence[Memory], open_store: Open) -> None:
    store = await open_store()
    await store.ids(Filter())
    with pytest.raises(StoreUnavailableError, match=r"in use; stop the other processes"):
        await rescue_sqlite(path, clock=lambda: START)
    assert len(await store.ids(Filter())) == len(before)
    assert list(path.parent.glob("*damaged*")) + list(path.parent.glob("*rescued*")) == []


async def test_a_file_without_its_list_of_tables_or_of_another_kind_is_left_unchanged(
    path: Path, before: Sequence[Memory]
) -> None:
    raw = path.read_bytes()
    for made in (raw[:100] + b"\xaa" * 3996 + raw[4096:], b"no database\n" * 400):
        path.write_bytes(made)
        with pytest.raises(StoreCorruptError):
            await rescue_sqlite(path, clock=lambda: START)
        assert path.read_bytes() == made
        assert [each.name for each in path.parent.iterdir()] == [path.name]
