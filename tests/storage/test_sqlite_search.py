"""Searching compared with brute force: same memories, same order, whatever the filter and whoever writes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from retain.core.ports import Entry
from retain.domain.memory import ACTIVE, EVERYTHING, Filter, Model
from retain.domain.scoring import Candidates
from retain.storage.in_memory import InMemoryStore
from retain.storage.sqlite import SqliteStore, index, search
from tests.conformance.asking import Found, candidates
from tests.conformance.making import MODEL, START, edit, entry, towards, unit
from tests.storage.conftest import Open

INT8_ERROR = 0.01
"""Largest error of a cosine of 32 int8 components."""


def by_cosine(found: Sequence[Found], k: int) -> list[str]:
    """Return the ids of the `k` best."""
    return [one.memory_id for one in sorted(found, key=lambda one: -(one.semantic or 0))[:k]]


async def test_a_few_among_thousands_are_all_found_by_their_tag(store: SqliteStore) -> None:
    # C022, C024
    query = unit(77_777)
    noise = [entry(f"kubernetes rollout {n}", ["noise"], vector=towards(query, 0.8, n)) for n in range(4_691)]
    rare = [entry(f"kubernetes rollout rare {n}", ["rare"], vector=towards(query, -0.5, n)) for n in range(10)]
    for start in range(0, len(noise), 1_000):
        await store.put(noise[start : start + 1_000], model=MODEL)
    await store.put(rare, model=MODEL)
    found = await candidates(store, Filter(tags=("rare",)), 10, vector=query, text="kubernetes rollout", model=MODEL)
    assert {one.memory_id for one in found} == {one.memory.id for one in rare}
    assert len(await candidates(store, Filter(tags=("noise",)), 1_000, vector=query, model=MODEL)) == 1_000
    assert len(await candidates(store, Filter(exclude_tags=("rare",)), 5, text="rare")) == 0


@pytest.mark.parametrize("dimensions", [8, 32, 100, 384, 1024])
async def test_the_nearest_are_found_among_many_whatever_the_size_of_a_vector(
    store: SqliteStore, dimensions: int
) -> None:
    rng = np.random.default_rng(dimensions)
    centres = rng.standard_normal((50, dimensions))
    vectors = (centres[rng.integers(0, 50, 3_000)] + 0.7 * rng.standard_normal((3_000, dimensions))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    model = Model("m", dimensions)
    entries = [entry(f"n{number}", vector=vector) for number, vector in enumerate(vectors)]
    for start in range(0, 3_000, 1_000):
        await store.put(entries[start : start + 1_000], model=model)
    ids = np.array([one.memory.id for one in entries])
    hits = 0
    for number in range(20):
        query = vectors[number * 7] + 0.1 * rng.standard_normal(dimensions).astype(np.float32)
        query /= np.linalg.norm(query)
        exact = set(ids[np.argsort(-(vectors @ query))[:10]])
        found = await candidates(store, Filter(), 10, vector=query, model=model)
        hits += len(exact & set(by_cosine(found, 10)))
    assert hits >= 0.96 * 200


async def test_a_scan_of_codes_obeys_the_filter_too(store: SqliteStore) -> None:
    entries = [
        entry(f"n{n}", [f"t{n % 2}"], vector=unit(n), type="decision" if n % 3 else "error") for n in range(2_500)
    ]
    for start in range(0, 2_500, 1_000):
        await store.put(entries[start : start + 1_000], model=MODEL)
    vectors = np.concatenate([one.vectors for one in entries])
    cosines = vectors @ unit(99_999)
    for where, keep in (
        (Filter(tags=("t1",)), [n % 2 == 1 for n in range(2_500)]),
        (Filter(types=("decision",)), [n % 3 > 0 for n in range(2_500)]),
        (Filter(types=("error",), tags=("t0",)), [n % 3 == 0 and n % 2 == 0 for n in range(2_500)]),
    ):
        best = np.flatnonzero(keep)[np.argsort(-cosines[keep])[:5]]
        found = by_cosine(await candidates(store, where, 5, vector=unit(99_999), model=MODEL), 5)
        assert len(set(found) & {entries[n].memory.id for n in best}) >= 4
        allowed = {one.memory.id for one, kept in zip(entries, keep, strict=True) if kept}
        assert set(found) <= allowed


def every(candidates: Candidates) -> NDArray[np.intp]:
    """Choose all."""
    return np.arange(len(candidates))


WORDS = ["alpha", "beta", "gamma", "delta", "数据库", "会议", "the"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
memories = st.fixed_dictionaries(
    {
        "tags": st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(tuple),
        "namespace": st.sampled_from(["/", "/x", "/x/y", "/xy"]),
        "type": st.sampled_from(["observation", "fact", "error", "bug"]),
        "agent_id": st.sampled_from([None, "r"]),
        "conversation_id": st.sampled_from([None, "c"]),
        "metadata": st.sampled_from([{}, {"k": 1}, {"k": True}, {"k": "1", "j": None}]),
        "occurred_at": st.integers(0, 3).map(lambda day: START + timedelta(days=day)),
        "archived_at": st.sampled_from([None, None, START]),
    }
)
filters = st.builds(
    Filter,
    namespace=st.sampled_from([None, "/", "/x", "/nowhere"]),
    tags=st.lists(st.sampled_from("abcd"), unique=True, max_size=2).map(tuple),
    tag_match=st.sampled_from(["any", "all"]),
    exclude_tags=st.lists(st.sampled_from("abcd"), unique=True, max_size=1).map(tuple),
    types=st.lists(st.sampled_from(["observation", "error", "bug"]), max_size=1).map(tuple),
    since=st.sampled_from([None, None, START + timedelta(days=1)]),
    until=st.sampled_from([None, None, START + timedelta(days=2)]),
    agent_id=st.sampled_from([None, None, "r"]),
    conversation_id=st.sampled_from([None, None, "c"]),
    metadata=st.sampled_from([{}, {}, {"k": 1}, {"k": True}, {"j": None}]),
    states=st.sampled_from([ACTIVE, ACTIVE, EVERYTHING.states, frozenset(("archived",))]),
)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("put"), texts, memories),
        st.tuples(st.just("archive"), st.integers(0, 50), st.booleans()),
        st.tuples(st.just("edit"), st.integers(0, 50), texts),
        st.tuples(st.just("delete"), filters),
        st.tuples(st.just("search"), texts, filters),
    ),
    max_size=25,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(first=st.lists(st.tuples(texts, memories), min_size=5, max_size=30), steps=actions)
async def test_every_search_equals_a_full_scan_while_another_process_writes(
    open_store: Open, first: list[tuple[str, dict[str, Any]]], steps: list[tuple[Any, ...]]
) -> None:
    reader, writer, twin = await open_store(), await open_store(), InMemoryStore(clock=lambda: START)
    await writer.delete(EVERYTHING, at=START)
    await put(writer, twin, [made(text, fields) for text, fields in first])
    for step in (*steps, ("search", "alpha beta 会议", Filter())):
        ids = await twin.ids(EVERYTHING)
        match step:
            case ("put", text, fields):
                await put(writer, twin, [made(text, fields)])
            case ("archive", number, archived) if ids:
                await same(writer, twin, ids[number % len(ids)], edit(archived_at=START if archived else None))
            case ("edit", number, text) if ids:
                await same(writer, twin, ids[number % len(ids)], edit(text))
            case ("delete", where):
                assert await writer.delete(where, at=START) == await twin.delete(where, at=START)
            case ("search", text, where):
                await agree(reader, twin, text, where)
            case _:
                pass
    assert await reader.check() == []
    for store in (reader, writer):
        await store.aclose()


def made(text: str, fields: dict[str, Any]) -> Entry:
    return entry(text, **fields)


async def put(store: SqliteStore, twin: InMemoryStore, entries: list[Entry]) -> None:
    """Store the same in both."""
    assert await store.put(entries, model=MODEL) == await twin.put(entries, model=MODEL)


async def same(store: SqliteStore, twin: InMemoryStore, id_: str, change: Any) -> None:
    """Change the same in both; what one refuses the other refuses."""
    outcomes: list[object] = []
    for each in (store, twin):
        try:
            outcomes.append(await each.update(id_, change, model=MODEL))
        except Exception as error:  # noqa: BLE001
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]


async def agree(store: SqliteStore, twin: InMemoryStore, text: str, where: Filter) -> None:
    """Search both and compare."""
    assert await store.ids(where) == await twin.ids(where)
    vector = unit(5)
    here = await candidates(store, where, 200, vector=vector, text=text, model=MODEL)
    there = await candidates(twin, where, 200, vector=vector, text=text, model=MODEL)
    values = {(one.memory_id, one.start): one for one in there}
    assert {(one.memory_id, one.start) for one in here} == values.keys()
    for one in here:
        other = values[one.memory_id, one.start]
        assert one.semantic == pytest.approx(other.semantic, abs=INT8_ERROR)
        assert one.keyword == pytest.approx(other.keyword, abs=1e-4)
    assert await store.tags(where) == await twin.tags(where)
    assert await store.types(where) == await twin.types(where)
    assert (await store.stats(where)).total == (await twin.stats(where)).total


def test_a_reader_from_before_many_deletes_is_answered_by_a_reloaded_index(tmp_path: Any) -> None:
    from retain.storage.sqlite.connection import in_transaction
    from retain.storage.sqlite.memories import delete, put
    from retain.storage.sqlite.migrations import opened

    writer, old, new = (opened(tmp_path / "retain.db", now_ms=0) for _ in range(3))
    entries = [entry(f"text {n}", vector=unit(n)) for n in range(905)]
    in_transaction(writer, lambda db: put(db, entries, MODEL, None, None, START))
    old.run("BEGIN")
    assert old.count("SELECT count(*) FROM memory") == 905
    ids = tuple(one.memory.id for one in entries[:900])
    in_transaction(writer, lambda db: delete(db, Filter(ids=ids), START, None))
    shared = index.PassageIndex()
    new.run("BEGIN")
    for connection in (new, old):
        found = search.candidates(connection, shared, EVERYTHING, 1_000, every, unit(1), "text", MODEL)
        assert {one.memory.id for one in found} == {one.memory.id for one in entries[900:]}
    for connection in (writer, old, new):
        connection.close()


async def test_an_index_that_outgrows_its_room_keeps_what_it_had(store: SqliteStore) -> None:
    for size in (1, 3, 70, 200, 900):
        await store.put([entry(f"size{size} n{n}", vector=unit(size * 1000 + n)) for n in range(size)], model=MODEL)
        for probe in (1, 3, 70, 200, 900):
            if probe > size:
                continue
            found = await candidates(store, Filter(), 3, vector=unit(probe * 1000), text=f"size{probe}", model=MODEL)
            assert max(one.semantic or 0 for one in found) == pytest.approx(1, abs=1e-4)


async def test_the_index_takes_less_than_eighty_bytes_a_passage(store: SqliteStore) -> None:
    model = Model("m", 384)
    vectors = np.random.default_rng(1).standard_normal((3_000, 384)).astype(np.float32)
    entries = [entry(f"n{number}", vector=vector / np.linalg.norm(vector)) for number, vector in enumerate(vectors)]
    for start in range(0, 3_000, 1_000):
        await store.put(entries[start : start + 1_000], model=model)
    await candidates(store, Filter(), 1, vector=entries[0].vectors[0], model=model)
    sizes = store._index.sizes
    assert sizes.keys() > {"codes", "keys", "occurred"}
    assert sum(sizes.values()) - sizes["postings"] <= 80 * 3_000


def test_a_reader_with_an_older_snapshot_than_the_index_misses_but_never_invents(tmp_path: Any) -> None:
    from retain.storage.sqlite.connection import in_transaction
    from retain.storage.sqlite.memories import delete, put
    from retain.storage.sqlite.migrations import opened

    writer = opened(tmp_path / "retain.db", now_ms=0)
    old, new = (opened(tmp_path / "retain.db", now_ms=0) for _ in range(2))
    shared = index.PassageIndex()

    def look(connection: Any) -> set[str]:
        found = search.candidates(connection, shared, EVERYTHING, 9, every, unit(1), "text", MODEL)
        return {one.memory.id for one in found}

    one, two, three = (entry(f"text {n}", vector=unit(n)) for n in range(3))
    in_transaction(writer, lambda db: put(db, [one, two], MODEL, None, None, START))
    old.run("BEGIN")
    assert look(old) == {one.memory.id, two.memory.id}
    in_transaction(writer, lambda db: delete(db, Filter(ids=(one.memory.id,)), START, None))
    in_transaction(writer, lambda db: put(db, [three], MODEL, None, None, START))
    new.run("BEGIN")
    assert look(new) == {two.memory.id, three.memory.id}
    assert look(old) == {two.memory.id}
    for connection in (writer, old, new):
        connection.close()
