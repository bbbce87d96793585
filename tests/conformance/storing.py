"""The contract: storing, reading and listing."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from retain.core.ports import MemoryStore, RequestKey
from retain.domain.errors import (
    ConflictError,
    EmbeddingError,
    InvalidInputError,
    NotFoundError,
)
from retain.domain.memory import EVERYTHING, Filter, Page, TurnSpan
from tests.conformance.asking import LATER, contents, found_by_words, put
from tests.conformance.making import MODEL, START, edit, entry

MADE_UP = ("WzEsICJcdWQ4MDAiXQ", "W3RydWUsImEiXQ", "WzEsImEiXQ")
"""Cursors of [1, half a character], [true, "a"] and [1, "a"]."""


class Storing:
    """Facts about storing, idempotency keys, reading and listing."""

    async def test_a_memory_comes_back_as_it_was_stored(self, store: MemoryStore) -> None:
        given = entry(
            "Grüße, 世界 🔥\n\ttabs\u0301",
            ["c++", "🔥", "two words", "a/b"],
            metadata={"a": {"b": [1, 2.5, None, True]}, 'quo"te': "ü", "$.x": 0},
            namespace="/team/ü",
            agent_id="researcher",
            conversation_id="c1",
            sequence=3,
            type="decision",
            occurred_at=START - timedelta(days=400),
            turns=(TurnSpan("user", 0, 5, START), TurnSpan("assistant", 5, 9)),
        )
        (written,) = await store.put([given], model=MODEL)
        assert written.created
        assert written.memory == given.memory
        assert await store.get([given.memory.id]) == [given.memory]

    async def test_storing_the_same_text_again_returns_the_first_and_adds_its_tags(self, store: MemoryStore) -> None:
        # C053, C058
        (first,) = await put(store, entry("Use uv, not pip.", ["a"]))
        (again,) = await store.put([entry("Use uv, not pip.", ["b", "a"], after=60)], model=MODEL)
        assert (again.memory.id, again.created, again.memory.tags) == (first, False, ("a", "b"))
        assert again.memory.updated_at == START + timedelta(seconds=60)
        assert (await store.list(Filter(), Page())).total == 1

    async def test_a_repeat_without_new_tags_changes_nothing(self, store: MemoryStore) -> None:
        await put(store, entry("Use uv, not pip.", ["a", "b"]))
        (again,) = await store.put([entry("Use uv, not pip.", ["b"], after=60)], model=MODEL)
        assert not again.created
        assert again.memory.updated_at == START

    async def test_the_same_text_elsewhere_is_another_memory(self, store: MemoryStore) -> None:
        # C055
        places = [
            {},
            {"namespace": "/a"},
            {"conversation_id": "c1"},
            {"conversation_id": "c1", "sequence": 0},
            {"conversation_id": "c1", "sequence": 1},
        ]
        written = await store.put([entry("ok", **place) for place in places], model=MODEL)
        assert [one.created for one in written] == [True] * 5
        written = await store.put([entry("ok", **place) for place in places], model=MODEL)
        assert [one.created for one in written] == [False] * 5

    async def test_a_repeat_within_one_batch_is_stored_once(self, store: MemoryStore) -> None:
        one, two = await store.put([entry("twice", ["a"]), entry("twice", ["b"])], model=MODEL)
        assert (one.created, two.created) == (True, False)
        assert one.memory == two.memory
        assert one.memory.tags == ("a", "b")

    async def test_texts_that_differ_in_one_number_are_both_kept(self, store: MemoryStore) -> None:
        await put(store, entry("Limit is 100/min", after=0), entry("Limit is 250/min", after=1))
        assert await contents(store) == ["Limit is 250/min", "Limit is 100/min"]

    async def test_a_batch_with_a_bad_entry_stores_nothing(self, store: MemoryStore) -> None:
        # C003
        batch = [entry(f"text {number}") for number in range(5)]
        batch[3] = replace(batch[3], vectors=batch[3].vectors[:, :8])
        with pytest.raises(EmbeddingError):
            await store.put(batch, model=MODEL)
        assert await contents(store, EVERYTHING) == []
        assert await found_by_words(store, "text") == []
        assert await store.model() is None

    async def test_vectors_that_are_no_numbers_are_refused(self, store: MemoryStore) -> None:
        bad = entry("broken", vector=np.full(MODEL.dimensions, np.nan, dtype=np.float32))
        with pytest.raises(EmbeddingError):
            await store.put([bad], model=MODEL)
        assert await contents(store, EVERYTHING) == []

    async def test_a_taken_id_is_a_conflict(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("one"))
        with pytest.raises(ConflictError, match=id_):
            await store.put([entry("another", id=id_)], model=MODEL)
        assert await contents(store) == ["one"]

    async def test_a_superseded_memory_is_hidden_and_names_its_successor(self, store: MemoryStore) -> None:
        (old,) = await put(store, entry("Limit is 100/min"))
        (new,) = await put(store, entry("Limit is 250/min", supersedes=old, after=60))
        assert await contents(store) == ["Limit is 250/min"]
        (memory,) = await store.get([old])
        assert (memory.superseded_by, memory.state) == (new, "superseded")
        assert await contents(store, Filter(states=frozenset(("superseded",)))) == ["Limit is 100/min"]

    async def test_superseding_by_an_exact_duplicate_names_the_memory_that_is_there(self, store: MemoryStore) -> None:
        old, there = await put(store, entry("old"), entry("new"))
        (written,) = await store.put([entry("new", supersedes=old)], model=MODEL)
        assert (written.created, written.memory.id) == (False, there)
        assert (await store.get([old]))[0].superseded_by == there

    async def test_superseding_a_memory_by_its_own_text_stores_it_anew(self, store: MemoryStore) -> None:
        (old,) = await put(store, entry("same"))
        (written,) = await store.put([entry("same", supersedes=old)], model=MODEL)
        assert written.created
        assert (await store.get([old]))[0].superseded_by == written.memory.id

    async def test_superseding_what_is_not_there_stores_nothing(self, store: MemoryStore) -> None:
        missing = entry("x").memory.id
        with pytest.raises(NotFoundError, match=missing):
            await store.put([entry("new", supersedes=missing)], model=MODEL)
        assert await contents(store, EVERYTHING) == []

    async def test_a_hidden_memory_does_not_stand_in_the_way_of_the_same_text(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("again"))
        await store.update(id_, edit(archived_at=START))
        (written,) = await store.put([entry("again")], model=MODEL)
        assert written.created

    async def test_an_archived_memory_can_be_stored_beside_an_active_twin(self, store: MemoryStore) -> None:
        await put(store, entry("twin"))
        (written,) = await store.put([entry("twin", archived_at=START)], model=MODEL)
        assert written.created
        assert len(await contents(store, EVERYTHING)) == 2

    async def test_twenty_tasks_storing_one_text_get_one_memory(self, store: MemoryStore) -> None:
        # C187
        outcomes = await asyncio.gather(*(store.put([entry("same")], model=MODEL) for _ in range(20)))
        assert len({written.memory.id for (written,) in outcomes}) == 1
        assert sum(written.created for (written,) in outcomes) == 1

    async def test_a_repeated_request_returns_the_first_outcome(self, store: MemoryStore) -> None:
        key = RequestKey("local", "k1", "digest")
        first = await store.put([entry("one"), entry("two")], model=MODEL, request=key)
        second = await store.put([entry("three")], model=MODEL, request=key)
        assert second == first
        assert sorted(await contents(store)) == ["one", "two"]

    async def test_a_request_key_stands_for_one_request_of_one_caller(self, store: MemoryStore) -> None:
        await store.put([entry("one")], model=MODEL, request=RequestKey("local", "k1", "digest"))
        with pytest.raises(ConflictError, match="k1"):
            await store.put([entry("two")], model=MODEL, request=RequestKey("local", "k1", "other"))
        (written,) = await store.put([entry("two")], model=MODEL, request=RequestKey("bob", "k1", "other"))
        assert written.created

    async def test_a_repeated_request_whose_memory_is_deleted_is_not_found(self, store: MemoryStore) -> None:
        key = RequestKey("local", "k1", "digest")
        await store.put([entry("one")], model=MODEL, request=key)
        await store.delete(Filter(), at=LATER)
        with pytest.raises(NotFoundError):
            await store.put([entry("one")], model=MODEL, request=key)

    async def test_a_failed_request_may_be_tried_again(self, store: MemoryStore) -> None:
        key = RequestKey("local", "k1", "digest")
        with pytest.raises(NotFoundError):
            await store.put([entry("one", supersedes=entry("x").memory.id)], model=MODEL, request=key)
        (written,) = await store.put([entry("one")], model=MODEL, request=key)
        assert written.created

    async def test_get_keeps_the_order_and_leaves_out_what_is_not_there(self, store: MemoryStore) -> None:
        one, two = await put(store, entry("one"), entry("two"))
        assert [m.content for m in await store.get([two, entry("x").memory.id, one, two])] == ["two", "one", "two"]
        assert await store.get([]) == []

    async def test_pages_hold_every_memory_exactly_once_even_with_equal_times(self, store: MemoryStore) -> None:
        # C026
        await store.put([entry(f"row {number}") for number in range(905)], model=MODEL)
        seen: list[str] = []
        pages, cursor = 0, None
        while pages == 0 or cursor:
            listing = await store.list(Filter(), Page(50, cursor))
            assert listing.total == 905
            seen += [memory.id for memory in listing.memories]
            pages, cursor = pages + 1, listing.next_cursor
        assert (pages, len(seen), len(set(seen))) == (19, 905, 905)
        assert seen == await store.ids(Filter())
        assert seen == sorted(seen, reverse=True)

    async def test_a_page_is_stable_while_newer_memories_come_in(self, store: MemoryStore) -> None:
        await store.put([entry(f"row {number}", after=number) for number in range(4)], model=MODEL)
        first = await store.list(Filter(), Page(2))
        await put(store, entry("newer", after=100))
        second = await store.list(Filter(), Page(2, first.next_cursor))
        assert [m.content for m in (*first.memories, *second.memories)] == ["row 3", "row 2", "row 1", "row 0"]
        assert second.next_cursor is None

    @pytest.mark.parametrize(
        "cursor",
        [
            "",
            "x",
            "💥",
            "AAAA",
            "W10",
            "bnVsbA",
            "WzEsMl0",
            "eyJhIjoxfQ",
            "[1]" * 300,
            *MADE_UP,
        ],
    )
    async def test_a_made_up_cursor_is_refused(self, store: MemoryStore, cursor: str) -> None:
        with pytest.raises(InvalidInputError):
            await store.list(Filter(), Page(10, cursor))

    @pytest.mark.parametrize(
        ("field", "fields"),
        [
            ("sequence", {"sequence": 1 << 63}),
            ("sequence", {"sequence": -1}),
            ("content", {"content": "half \ud800"}),
            ("tags", {"tags": ("fine", "half \ud800")}),
            ("metadata", {"metadata": {"a": [{"half \ud800": 1}]}}),
            ("agent_id", {"agent_id": "half \ud800"}),
            ("conversation_id", {"conversation_id": "half \ud800"}),
            ("turns", {"turns": (TurnSpan("half \ud800", 0, 1),)}),
            ("content_hash", {"content_hash": "zz"}),
        ],
    )
    async def test_what_has_no_form_on_disk_is_refused_and_nothing_of_its_batch_is_written(
        self, store: MemoryStore, field: str, fields: dict[str, Any]
    ) -> None:
        given = entry("bad")
        with pytest.raises(InvalidInputError) as caught:
            await store.put([entry("good"), replace(given, memory=replace(given.memory, **fields))], model=MODEL)
        assert caught.value.field == field
        assert await contents(store, EVERYTHING) == []

    async def test_a_change_to_what_has_no_form_on_disk_changes_nothing(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("text", ["t"]))
        for fields in ({"tags": ("x", "\ud800")}, {"metadata": {"a": "\ud800"}}):
            with pytest.raises(InvalidInputError):
                await store.update(id_, edit(**fields))
        assert (await store.get([id_]))[0].tags == ("t",)

    async def test_one_definition_of_a_total(self, store: MemoryStore) -> None:
        # C154
        ids = await store.put([entry(f"row {number}", ["t"]) for number in range(10)], model=MODEL)
        await store.delete(Filter(ids=tuple(written.memory.id for written in ids[:3])), at=LATER)
        await store.update(ids[3].memory.id, edit(archived_at=START))
        listing, stats, tags = (
            await store.list(Filter(), Page(2)),
            await store.stats(Filter()),
            await store.tags(Filter()),
        )
        assert listing.total == stats.total == tags[0].count == len(await store.ids(Filter())) == 6
        assert (stats.archived, stats.superseded) == (1, 0)
        assert sum(count.count for count in await store.types(Filter())) == 6
        assert [(count.type, count.count) for count in stats.by_type] == [("observation", 6)]
