"""Cells narrow the search down; they never hide what a filter allows, whatever happened to the file since."""

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from retain.core.ports import Entry, Vectors
from retain.domain.memory import EVERYTHING, Filter, Model
from retain.storage.sqlite import SqliteStore, cells, search
from retain.storage.sqlite.cells import Cells
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, START, edit, entry, towards, unit
from tests.storage.conftest import Open
from tests.storage.test_sqlite_processes import outputs, started

CENTRES = [unit(1_000 + number) for number in range(16)]
PER_CENTRE = 50


@pytest.fixture(autouse=True)
def _cells_are_worth_it_early(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (cells, "CELLS_FROM", 500),
        (cells, "_FEWEST_CELLS", 16),
        (search, "EXACT_LIMIT", 20),
        (search, "SCANNED_LIMIT", 50),
        (search, "_SHORTLIST", 40),
        (search, "_RESCORED", 20),
        (search, "_SHORTLIST_PER_RESCORED", 1),
    ):
        monkeypatch.setattr(module, name, value)


def vector_of(centre: int, number: int) -> Vectors:
    """Return the vector of a memory around one of the centres."""
    return towards(CENTRES[centre], 0.9, centre * 10_000 + number)


def clustered(centre: int, count: int = PER_CENTRE, first: int = 0) -> list[Entry]:
    """Return memories around one of the centres, tagged with its number."""
    return [
        entry(f"c{centre} n{number}", [f"c{centre}"], vector=vector_of(centre, number))
        for number in range(first, first + count)
    ]


async def fill(store: SqliteStore) -> dict[int, list[str]]:
    """Store all clusters; return the ids of each."""
    made = {centre: clustered(centre) for centre in range(len(CENTRES))}
    for entries in made.values():
        await store.put(entries, model=MODEL)
    return {centre: [one.memory.id for one in entries] for centre, entries in made.items()}


async def nearest(store: SqliteStore, vector: Vectors, k: int = 10, where: Filter = EVERYTHING) -> list[str]:
    """Return the ids of the memories nearest to a vector, nearest first."""
    found = await candidates(store, where, k, vector=vector, model=MODEL)
    return [one.memory_id for one in sorted(found, key=lambda one: -(one.semantic or 0))]


async def cells_of(store: SqliteStore) -> Cells | None:
    """Return the cells that a search would use now."""
    return await store._database.read(lambda db: store._index.view(db).cells)


async def rows(store: SqliteStore) -> list[tuple[int, list[int]]]:
    """Return the keys of the passages in each cell of the file."""
    read = await store._database.read(lambda db: db.rows("SELECT key, passages FROM cell ORDER BY key"))
    return [(key, np.frombuffer(keys, np.int32).tolist()) for key, keys in read]


async def vectors_of(store: SqliteStore) -> dict[int, NDArray[np.floating]]:
    """Return the unit vector of each passage."""
    read = await store._database.read(lambda db: db.rows("SELECT key, embedding FROM passage"))
    plain = {key: np.frombuffer(blob, np.int8).astype(np.float32) for key, blob in read}
    return {key: vector / np.linalg.norm(vector) for key, vector in plain.items()}


async def run(store: SqliteStore, sql: str) -> None:
    await store._database.write(lambda db: db.run(sql))


async def test_fewer_passages_than_are_worth_it_are_not_grouped(store: SqliteStore) -> None:
    await store.put(clustered(0, 499), model=MODEL)
    await store._upkeep.group()
    assert await rows(store) == []
    assert await cells_of(store) is None


async def test_every_passage_lies_in_the_cell_whose_centroid_is_nearest(store: SqliteStore) -> None:
    await fill(store)
    await store._upkeep.group()
    vectors = await vectors_of(store)
    made = await rows(store)
    assert sorted(key for _, keys in made for key in keys) == sorted(vectors)
    assert len(made) == 16
    found = await cells_of(store)
    assert found is not None
    assert np.linalg.norm(found.centroids, axis=1) == pytest.approx(1, abs=1e-5)
    for number, keys in made:
        assert keys == sorted(keys)
        assert all(np.argmax(found.centroids @ vectors[key]) == number for key in keys)


async def test_grouping_again_right_away_changes_nothing(store: SqliteStore) -> None:
    await fill(store)
    await store._upkeep.group()
    before = await rows(store)
    assert await store._database.read(cells.plan) is None
    await store._upkeep.group()
    assert await rows(store) == before


async def test_cells_made_elsewhere_are_used_by_whoever_searches_next(open_store: Open) -> None:
    one, other = await open_store(), await open_store()
    ids = await fill(one)
    assert await cells_of(other) is None
    await one._upkeep.group()
    for store in (one, other, await open_store()):
        assert await cells_of(store) is not None
        assert set(await nearest(store, CENTRES[3])) <= set(ids[3])
    assert other._index.sizes["cells"] > 0


async def test_a_process_that_knows_nothing_of_lowered_limits_reads_a_file_with_cells(
    open_store: Open, path: Any
) -> None:
    store = await open_store()
    await fill(store)
    await store._upkeep.group()
    assert outputs([started("mix", path, "p")]) == ["30"]


async def test_searches_are_narrowed_to_the_nearest_cells(store: SqliteStore) -> None:
    await fill(store)
    await store._upkeep.group()
    found = await cells_of(store)
    assert found is not None
    near = found.near(CENTRES[5], len(CENTRES) * PER_CENTRE, None, 40)
    assert 40 <= len(near) <= 4 * PER_CENTRE
    assert near.tolist() == sorted(set(near.tolist()))


async def test_what_is_stored_after_the_grouping_is_found_at_once(open_store: Open) -> None:
    store, other = await open_store(), await open_store()
    await fill(store)
    await store._upkeep.group()
    await nearest(store, CENTRES[0])
    for number, vector in enumerate((CENTRES[2], -CENTRES[2], unit(7))):
        (written,) = await other.put([entry(f"new {number}", vector=vector)], model=MODEL)
        for each in (store, other, await open_store()):
            assert (await nearest(each, vector))[0] == written.memory.id


async def test_an_edited_memory_is_found_where_it_is_now(store: SqliteStore) -> None:
    ids = await fill(store)
    await store._upkeep.group()
    await nearest(store, CENTRES[0])
    await store.update(ids[1][0], edit("moved", vector=CENTRES[9]), model=MODEL)
    assert (await nearest(store, CENTRES[9]))[0] == ids[1][0]
    assert ids[1][0] not in await nearest(store, CENTRES[1], PER_CENTRE)


async def test_what_is_deleted_is_found_no_more(open_store: Open) -> None:
    store, other = await open_store(), await open_store()
    ids = await fill(store)
    await store._upkeep.group()
    await nearest(store, CENTRES[4])
    await other.delete(Filter(ids=tuple(ids[4][:45])), at=START)
    for each in (store, other, await open_store()):
        found = await nearest(each, CENTRES[4], 10)
        assert set(ids[4][45:]) <= set(found)
        assert not set(ids[4][:45]) & set(found)
        assert len(found) == 10


@pytest.mark.parametrize("k", [1, 10, 45])
async def test_a_filter_that_leaves_only_far_cells_is_never_short(store: SqliteStore, k: int) -> None:
    ids = await fill(store)
    await store.put([entry(f"far {n}", ["far"], vector=towards(-CENTRES[0], 0.95, n)) for n in range(60)], model=MODEL)
    await store._upkeep.group()
    found = await nearest(store, CENTRES[0], k, Filter(tags=("far",)))
    assert len(found) == k
    both = Filter(tags=("far", "c7"))
    found = await nearest(store, CENTRES[7], 100, both)
    assert len(found) == 100
    assert set(found[:10]) <= set(ids[7])


async def test_as_many_are_found_as_are_asked_for_even_if_that_is_everything(store: SqliteStore) -> None:
    ids = await fill(store)
    await store._upkeep.group()
    assert set(await nearest(store, unit(5), 1_000)) == {id_ for each in ids.values() for id_ in each}


async def test_a_sixteenth_more_passages_join_the_cells_that_there_are(store: SqliteStore) -> None:
    await fill(store)
    await store._upkeep.group()
    before = await cells_of(store)
    await store.put(clustered(0, 40, PER_CENTRE), model=MODEL)
    await store._upkeep.group()
    assert sum(len(keys) for _, keys in await rows(store)) == len(CENTRES) * PER_CENTRE  # too few yet
    await store.put(clustered(1, 20, PER_CENTRE), model=MODEL)
    await store._upkeep.group()
    after = await cells_of(store)
    assert before is not None
    assert after is not None
    assert np.array_equal(before.centroids, after.centroids)
    made = await rows(store)
    assert sorted(key for _, keys in made for key in keys) == sorted(await vectors_of(store))
    assert all(keys == sorted(keys) for _, keys in made)
    (newest,) = await store.put([entry("newest", vector=CENTRES[1])], model=MODEL)
    assert (await nearest(store, CENTRES[1]))[0] == newest.memory.id


async def test_a_store_that_doubled_gets_new_cells(store: SqliteStore) -> None:
    await fill(store)
    await store._upkeep.group()
    before = await cells_of(store)
    await store.put(clustered(0, 900, PER_CENTRE), model=MODEL)
    await store._upkeep.group()
    after = await cells_of(store)
    assert before is not None
    assert after is not None
    assert not np.array_equal(before.centroids, after.centroids)
    assert sorted(key for _, keys in await rows(store) for key in keys) == sorted(await vectors_of(store))


async def test_passages_that_are_replaced_while_they_are_grouped_are_not_grouped(store: SqliteStore) -> None:
    await fill(store)
    due = await store._database.read(cells.plan)
    assert due is not None
    sample = await store._database.read(lambda db: cells.sample(db, due))
    centroids = cells.centroids(sample, due.count)
    keys, numbers = await store._upkeep._assigned(due, centroids)
    await store.repair()
    assert not await store._database.write(lambda db: cells.store(db, due, centroids, keys, numbers))
    assert await rows(store) == []


async def repaired(store: SqliteStore) -> Model:
    await store.repair()
    return MODEL


async def reembedded(store: SqliteStore) -> Model:
    model = Model("another", 32)
    await store.begin_reembedding(model)
    while some := await store.unembedded(100):
        made = [entry(memory.content, vector=unit(int(memory.content.split("n")[1]))) for memory in some]
        entries = [Entry(memory, one.passages, one.vectors) for memory, one in zip(some, made, strict=True)]
        await store.put_reembedded(entries, model=model)
    assert await store.finish_reembedding(model)
    return model


@pytest.mark.parametrize("replaced", [repaired, reembedded])
async def test_replacing_all_passages_forgets_the_cells_until_the_next_grouping(
    open_store: Open, replaced: Callable[[SqliteStore], Awaitable[Model]]
) -> None:
    store, other = await open_store(), await open_store()
    await fill(store)
    await store._upkeep.group()
    assert await cells_of(other) is not None
    model = await replaced(store)
    assert await rows(store) == []
    for each in (store, other):
        assert await cells_of(each) is None
        assert len(await candidates(each, EVERYTHING, 10, vector=unit(3), model=model)) == 10
    await other._upkeep.group()
    assert sorted(key for _, keys in await rows(store) for key in keys) == sorted(await vectors_of(store))
    assert await cells_of(store) is not None


async def test_a_backup_and_a_compacted_file_keep_their_cells(open_store: Open, tmp_path: Any) -> None:
    store = await open_store()
    ids = await fill(store)
    await store.compact()  # groups at once
    assert await cells_of(store) is not None
    await store.compact()
    assert set(await nearest(store, CENTRES[6])) <= set(ids[6])
    assert await store.check() == []


async def test_an_emptied_store_with_cells_finds_nothing_and_then_what_is_new(open_store: Open) -> None:
    store = await open_store()
    await fill(store)
    await store._upkeep.group()
    await store.delete(EVERYTHING, at=START)
    for each in (store, await open_store()):
        assert await nearest(each, unit(1)) == []
    (written,) = await store.put([entry("new", vector=unit(1))], model=MODEL)
    for each in (store, await open_store()):
        assert await nearest(each, unit(1)) == [written.memory.id]


async def test_vectors_that_are_all_the_same_can_be_grouped(store: SqliteStore) -> None:
    await store.put([entry(f"n{n}", vector=CENTRES[0]) for n in range(600)], model=MODEL)
    await store._upkeep.group()
    assert sum(len(keys) for _, keys in await rows(store)) == 600
    assert len(await nearest(store, CENTRES[0], 100)) == 100


ODD = {
    "a cell is missing": "DELETE FROM cell WHERE key = 3",
    "the first cell is missing": "DELETE FROM cell WHERE key = 0",
    "a cell is empty": "UPDATE cell SET passages = x'' WHERE key = 3",
    "a cell names passages that don't exist": "UPDATE cell SET passages = x'ffffff7f00000000' WHERE key = 3",
    "two cells hold the same": "UPDATE cell SET passages = (SELECT passages FROM cell WHERE key = 2) WHERE key = 3",
    "it is not known how far they go": "DELETE FROM meta WHERE name = 'cells_last'",
    "they are said to go too far": "UPDATE meta SET value = 100000 WHERE name = 'cells_last'",
}


@pytest.mark.parametrize("damage", ODD.values(), ids=ODD.keys())
async def test_an_odd_table_of_cells_hides_nothing(open_store: Open, damage: str) -> None:
    store = await open_store()
    ids = await fill(store)
    await store._upkeep.group()
    await run(store, damage)
    reader = await open_store()
    for centre, own in ids.items():
        for number in range(0, PER_CENTRE, 4):
            assert (await nearest(reader, vector_of(centre, number)))[0] == own[number]
    (written,) = await store.put([entry("new", vector=CENTRES[3])], model=MODEL)
    assert (await nearest(reader, CENTRES[3]))[0] == written.memory.id


@pytest.mark.parametrize("damage", ODD.values(), ids=ODD.keys())
async def test_an_odd_table_of_cells_does_not_stop_the_next_grouping(open_store: Open, damage: str) -> None:
    store = await open_store()
    await fill(store)
    await store._upkeep.group()
    await run(store, damage)
    await store.put(clustered(0, 60, PER_CENTRE), model=MODEL)
    await store._upkeep.group()
    (written,) = await store.put([entry("new", vector=CENTRES[3])], model=MODEL)
    for each in (store, await open_store()):
        assert (await nearest(each, CENTRES[3]))[0] == written.memory.id
    assert await store.repair() == []
    assert await rows(store) == []
