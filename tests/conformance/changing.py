"""The contract: edits, deletes, tags, the model, events."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from retain.core.ports import Capability, EventLog, MemoryStore
from retain.domain.errors import (
    ConflictError,
    InvalidInputError,
    ModelMismatchError,
    NotFoundError,
    StoreUnavailableError,
)
from retain.domain.memory import EVERYTHING, Filter, Model, Page, Tombstone
from tests.conformance.asking import LATER, candidates, contents, found_by_words, put
from tests.conformance.making import MODEL, START, edit, entry, unit


class Changing:
    """Facts about what happens to memories after they are stored."""

    async def test_an_edit_is_found_by_the_new_meaning_only(self, store: MemoryStore) -> None:
        # C005
        (id_,) = await put(store, entry("Payroll runs on Fridays", vector=unit(1)))
        memory = await store.update(id_, edit("The greenhouse needs new pumps", vector=unit(2)), model=MODEL)
        assert memory is not None
        assert (memory.content, memory.created_at, memory.updated_at) == (
            "The greenhouse needs new pumps", START, START + timedelta(seconds=60))  # fmt: skip
        assert await found_by_words(store, "Payroll") == []
        assert await found_by_words(store, "greenhouse pumps") == [id_]
        (found,) = await candidates(store, Filter(), 5, vector=unit(1), model=MODEL)
        assert (found.semantic or 0) < 0.7

    async def test_an_edit_changes_the_given_fields_only(self, store: MemoryStore) -> None:
        # C017
        given = entry("text", ["a"], metadata={"x": 1}, conversation_id="c", agent_id="z")
        (id_,) = await put(store, given)
        memory = await store.update(id_, edit(tags=("b", "c"), type="decision"))
        assert memory == replace(
            given.memory, tags=("b", "c"), type="decision", updated_at=START + timedelta(seconds=60)
        )
        memory = await store.update(id_, edit(metadata={}, occurred_at=LATER))
        assert memory is not None
        assert (memory.metadata, memory.occurred_at, memory.tags) == ({}, LATER, ("b", "c"))
        assert await store.get([id_]) == [memory]

    async def test_an_edit_of_what_is_not_there_is_none(self, store: MemoryStore) -> None:
        # C016
        (id_,) = await put(store, entry("gone"))
        await store.delete(Filter(ids=(id_,)), at=LATER)
        assert await store.update(id_, edit(tags=("x",))) is None
        assert await store.tags(EVERYTHING) == []

    async def test_an_edit_into_a_duplicate_is_a_conflict_and_changes_nothing(self, store: MemoryStore) -> None:
        one, two = await put(store, entry("one", ["t"]), entry("two"))
        with pytest.raises(ConflictError):
            await store.update(one, edit("two", tags=("changed",)), model=MODEL)
        assert sorted(await contents(store)) == ["one", "two"]
        assert (await store.get([one]))[0].tags == ("t",)
        assert await found_by_words(store, "one") == [one]
        await store.update(two, edit(archived_at=START))
        await store.update(one, edit("two"), model=MODEL)
        with pytest.raises(ConflictError):
            await store.update(two, edit(archived_at=None))

    async def test_no_memory_is_superseded_by_itself_over_any_number_of_steps(self, store: MemoryStore) -> None:
        one, two, three = await put(store, entry("1"), entry("2"), entry("3"))
        await store.update(one, edit(superseded_by=two))
        await store.update(two, edit(superseded_by=three))
        for id_, by in ((one, one), (two, one), (three, one), (three, three)):
            with pytest.raises(ConflictError):
                await store.update(id_, edit(superseded_by=by))
        with pytest.raises(NotFoundError):
            await store.update(three, edit(superseded_by=entry("x").memory.id))
        await store.update(two, edit(superseded_by=None))
        assert sorted(await contents(store)) == ["2", "3"]

    async def test_a_deleted_text_can_be_stored_again_any_number_of_times(self, store: MemoryStore) -> None:
        # C001
        for cycle in range(3):
            (id_,) = await put(store, entry("The staging DB moved to port 6543.", vector=unit(1), after=cycle))
            assert (await store.list(Filter(), Page())).total == 1
            assert await found_by_words(store, "which port is staging on") == [id_]
            (found,) = await candidates(store, Filter(), 5, vector=unit(1), model=MODEL)
            assert found.memory_id == id_
            assert (await store.get([id_]))[0].created_at == START + timedelta(seconds=cycle)
            assert id_ not in {stone.id for stone in await store.tombstones(Filter())}
            assert await store.delete(Filter(ids=(id_,)), at=LATER) == [id_]
            assert await candidates(store, EVERYTHING, 5, vector=unit(1), text="staging", model=MODEL) == []
        assert len(await store.tombstones(Filter())) == 3

    async def test_a_deleted_memory_is_shown_nowhere(self, store: MemoryStore) -> None:
        # C016
        (id_,) = await put(store, entry("secret", ["hush"], conversation_id="c", namespace="/x", vector=unit(1)))
        await store.delete(Filter(tags=("hush",)), at=LATER)
        assert await store.get([id_]) == []
        assert await store.ids(EVERYTHING) == []
        assert (await store.list(EVERYTHING, Page())).total == 0
        assert await store.tags(EVERYTHING) == []
        stats = await store.stats(Filter())
        assert (stats.total, stats.tags, stats.conversations, stats.model) == (0, 0, 0, None)
        assert all(count.count == 0 for count in await store.types(EVERYTHING))
        (stone,) = await store.tombstones(Filter(namespace="/x"))
        assert stone == Tombstone(id_, entry("secret").memory.content_hash, "/x", LATER)
        assert await store.tombstones(Filter(namespace="/y")) == []

    async def test_a_delete_with_another_count_than_expected_deletes_nothing(self, store: MemoryStore) -> None:
        await put(store, entry("1", ["t"]), entry("2", ["t"]), entry("3"))
        with pytest.raises(ConflictError, match="2"):
            await store.delete(Filter(tags=("t",)), at=LATER, expected=3)
        assert len(await contents(store)) == 3
        assert len(await store.delete(Filter(tags=("t",)), at=LATER, expected=2)) == 2
        assert await contents(store) == ["3"]

    async def test_tombstones_of_an_import_are_added_once_and_never_over_a_living_memory(
        self, store: MemoryStore
    ) -> None:
        (living,) = await put(store, entry("alive"))
        stones = [Tombstone(id_, entry("x").memory.content_hash, "/a", START) for id_ in (living, entry("x").memory.id)]
        assert await store.restore(stones) == 1
        assert await store.restore(stones) == 0
        assert await store.tombstones(Filter()) == stones[1:]
        with pytest.raises(ConflictError):
            await put(store, entry("elsewhere", id=stones[1].id))
        assert await store.tombstones(Filter()) == stones[1:]
        await put(store, entry("back", id=stones[1].id, namespace="/a"))
        assert await store.tombstones(Filter()) == []

    async def test_a_tombstone_with_a_malformed_hash_is_refused_and_none_is_written(self, store: MemoryStore) -> None:
        fine = entry("x").memory
        stones = [
            Tombstone(fine.id, fine.content_hash, "/a", START), Tombstone(entry("y").memory.id, "nothex", "/a", START)
        ]  # fmt: skip
        with pytest.raises(InvalidInputError) as caught:
            await store.restore(stones)
        assert caught.value.field == "content_hash"
        assert await store.tombstones(Filter()) == []

    async def test_an_id_buried_in_another_namespace_is_taken_and_stays_buried(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("secret", namespace="/a"))
        await store.delete(Filter(namespace="/a"), at=LATER)
        with pytest.raises(ConflictError):
            await put(store, entry("mine", id=id_, namespace="/b"))
        assert [stone.id for stone in await store.tombstones(Filter(namespace="/a"))] == [id_]
        assert await contents(store, EVERYTHING) == []
        await put(store, entry("back", id=id_, namespace="/a"))
        assert await store.tombstones(Filter()) == []

    async def test_tags_are_counted_most_used_first(self, store: MemoryStore) -> None:
        await put(store, entry("1", ["b", "a"]), entry("2", ["a", "c"]), entry("3", ["d"], namespace="/n"))
        counts = [(count.tag, count.count) for count in await store.tags(Filter())]
        assert counts == [("a", 2), ("b", 1), ("c", 1), ("d", 1)]
        assert [count.tag for count in await store.tags(Filter(), minimum_use=2)] == ["a"]
        assert [count.tag for count in await store.tags(Filter(namespace="/n"))] == ["d"]

    async def test_tags_are_renamed_and_merged(self, store: MemoryStore) -> None:
        ids = await put(store, entry("1", ["x", "old", "y"]), entry("2", ["old", "new"]), entry("3", ["other"]))
        assert await store.retag(["old", "older"], "new", Filter(), at=LATER) == 2
        memories = await store.get(ids)
        assert [memory.tags for memory in memories] == [("x", "new", "y"), ("new",), ("other",)]
        assert [memory.updated_at for memory in memories] == [LATER, LATER, START]
        assert await store.retag(["old"], "new", Filter(), at=LATER) == 0
        assert await store.retag(["new"], "new", Filter(), at=LATER) == 0
        assert "old" not in {count.tag for count in await store.tags(EVERYTHING)}

    async def test_vectors_of_another_model_are_refused_and_all_else_works(self, store: MemoryStore) -> None:
        # C013
        (id_,) = await put(store, entry("quokkaflux"))
        other = Model("other-model", 48)
        vector = unit(1, dimensions=48)
        attempts = [
            store.put([entry("new", vector=vector)], model=other),
            candidates(store, Filter(), 5, vector=vector, model=other),
            store.similar(np.stack([vector]), Filter(), 5, model=other),
            store.update(id_, edit("new", vector=vector), model=other),
        ]
        for attempt in attempts:
            with pytest.raises(ModelMismatchError, match=r"reembed"):
                await attempt
        assert await store.model() == MODEL
        assert await contents(store) == ["quokkaflux"]
        assert await found_by_words(store, "quokkaflux") == [id_]
        assert len(await store.get([id_])) == 1

    async def test_an_emptied_store_takes_another_model(self, store: MemoryStore) -> None:
        await put(store, entry("one"))
        await candidates(store, Filter(), 5, vector=unit(1), model=MODEL)
        await store.delete(Filter(), at=LATER)
        assert await store.model() is None
        other = Model("other-model", 48)
        vector = unit(1, dimensions=48)
        await store.put([entry("two", vector=vector)], model=other)
        assert await store.model() == other
        (found,) = await candidates(store, Filter(), 5, vector=vector, model=other)
        assert found.semantic == pytest.approx(1, abs=1e-5)

    async def test_events_tell_what_changed_in_order(self, store: MemoryStore) -> None:
        if Capability.EVENTS not in store.capabilities:
            pytest.skip("this store has no events")
        log: EventLog = store  # pyright: ignore[reportAssignmentType]
        assert await log.last_event() == 0
        one, two = await put(store, entry("1", ["t"], namespace="/a"), entry("2", namespace="/b"))
        await store.update(one, edit(tags=("u",)))
        await store.delete(Filter(ids=(two,)), at=LATER)
        events = await log.events(0, 10, namespace="/")
        assert [(event.kind, event.memory_id, event.namespace) for event in events] == [
            ("stored", one, "/a"), ("stored", two, "/b"), ("updated", one, "/a"), ("deleted", two, "/b")]  # fmt: skip
        assert [(event.type, event.tags) for event in events[2:]] == [("observation", ("u",)), (None, ())]
        assert [event.seq for event in events] == sorted(event.seq for event in events)
        assert await log.last_event() == events[-1].seq
        assert [e.memory_id for e in await log.events(events[0].seq, 10, namespace="/b")] == [two, two]
        assert await log.events(0, 1, namespace="/") == events[:1]

    async def test_a_closed_store_says_so(self, store: MemoryStore) -> None:
        await store.aclose()
        await store.aclose()
        for late in (store.get([]), store.put([entry("late")], model=MODEL), candidates(store, Filter(), 1, text="x")):
            with pytest.raises(StoreUnavailableError):
                await late
