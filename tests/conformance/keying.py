"""The contract: memories with a key, what search may see, removal within a store, namespaces, conditions."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from retain.core.ports import Expected, MemoryStore, RequestKey
from retain.domain.errors import ConflictError, InvalidInputError, NotFoundError
from retain.domain.ids import id_of
from retain.domain.memory import EVERYTHING, Filter, NamespaceCount, Page
from tests.conformance.asking import candidates, contents, found_by_words, put
from tests.conformance.making import MODEL, START, edit, entry, keyed, unit

CONDITIONS: list[tuple[Mapping[str, Any], set[str]]] = [
    ({"n": 1}, {"one"}),
    ({"n": {"$eq": 1}}, {"one"}),
    ({"n": {"$ne": 1}}, {"two", "text", "none", "true"}),
    ({"n": {"$gt": 1}}, {"two"}),
    ({"n": {"$gte": 1, "$lt": 2}}, {"one"}),
    ({"n": {"$lte": "b"}}, {"text"}),
    ({"n": {"$in": [1, "b"]}}, {"one", "text"}),
    ({"n": {"$nin": [1, "b"]}}, {"two", "none", "true"}),
    ({"n": {"$eq": None}}, {"none"}),
    ({"n": None}, set()),
    ({"n": True}, {"true"}),
    ({"o.p": "x"}, {"one"}),
    ({"o": {"p": "x"}}, {"one"}),
    ({"o.p": {"$gt": "w"}}, {"one", "two"}),
    ({"o.p.q": 1}, set()),
    ({"n": 1, "o.p": "y"}, set()),
    ({"d.e": 5}, {"two"}),
]


class Keying:
    """Facts about keys, searchable parts, removal within a put, namespaces and conditions on metadata."""

    async def test_a_key_names_one_memory_and_storing_again_replaces_it(self, store: MemoryStore) -> None:
        (first,) = await store.put([keyed("the old text", "k", tags=["a"], metadata={"v": 1})], model=MODEL)
        (second,) = await store.put([keyed("a new one", "k", tags=["b"], after=60)], model=MODEL)
        assert (first.created, second.created) == (True, False)
        assert first.memory.key == "k"
        kept = second.memory
        assert (kept.id, kept.content, kept.tags, kept.metadata) == (first.memory.id, "a new one", ("b",), {})
        assert (kept.created_at, kept.updated_at) == (START, START + timedelta(seconds=60))
        assert await store.get([kept.id]) == [kept]
        assert await contents(store) == ["a new one"]
        assert await found_by_words(store, "old") == []
        assert [count.tag for count in await store.tags(Filter())] == ["b"]
        assert [event.kind for event in await store.events(0, 9, namespace="/")] == ["stored", "updated"]

    async def test_a_replaced_memory_has_no_old_vector(self, store: MemoryStore) -> None:
        # C207
        await store.put([keyed("zebra", "k", vector=unit(1))], model=MODEL)
        unseen = keyed("dogs", "k", vector=unit(2), searchable=())
        unseen = replace(unseen, passages=[], vectors=np.empty((0, MODEL.dimensions), np.float32))
        await store.put([unseen], model=MODEL)
        assert await candidates(store, Filter(), 9, vector=unit(1), text="zebra dogs", model=MODEL) == []
        assert await contents(store) == ["dogs"]

    async def test_two_keys_and_no_key_may_hold_one_text(self, store: MemoryStore) -> None:
        entries = [
            keyed("same", "a"),
            keyed("same", "b"),
            entry("same"),
            entry("same"),
            keyed("same", "a", namespace="/x"),
        ]
        written = await store.put(entries, model=MODEL)
        assert [one.created for one in written] == [True, True, True, False, True]
        assert len({one.memory.id for one in written}) == 4

    async def test_the_last_of_one_key_in_a_batch_stays(self, store: MemoryStore) -> None:
        written = await store.put([keyed("first", "k"), keyed("last", "k", after=1)], model=MODEL)
        assert [one.created for one in written] == [True, False]
        assert await contents(store) == ["last"]

    async def test_a_key_replaces_what_was_put_away(self, store: MemoryStore) -> None:
        (id_,) = await put(store, keyed("away", "k"))
        await store.update(id_, edit(archived_at=START))
        await store.put([keyed("back", "k", after=99)], model=MODEL)
        assert await contents(store) == ["back"]

    async def test_a_deleted_key_begins_anew(self, store: MemoryStore) -> None:
        (id_,) = await put(store, keyed("gone", "k"))
        await store.delete(Filter(ids=(id_,)), at=START)
        (again,) = await store.put([keyed("here", "k", after=3600)], model=MODEL)
        assert again.created
        assert again.memory.created_at == START + timedelta(hours=1)
        assert await store.tombstones(Filter()) == []

    async def test_what_goes_goes_first_and_with_the_rest(self, store: MemoryStore) -> None:
        (one, two) = await put(store, entry("one"), entry("two"))
        written = await store.put([entry("one", ["new"])], model=MODEL, delete=Filter(ids=(one,)))
        assert written[0].created
        assert written[0].memory.id != one
        assert await store.put([], model=MODEL, delete=Filter(ids=(two, one))) == []
        assert await contents(store) == ["one"]
        with pytest.raises(NotFoundError):
            bad = replace(entry("three"), supersedes=two)
            await store.put([bad], model=MODEL, delete=Filter(ids=(written[0].memory.id,)))
        assert await contents(store) == ["one"]

    async def test_a_repeated_request_removes_nothing_again(self, store: MemoryStore) -> None:
        request = RequestKey("local", "r", "f" * 64)
        await store.put([keyed("one", "k")], model=MODEL, request=request, delete=Filter(ids=(id_of("/", "k"),)))
        await store.put([keyed("two", "k")], model=MODEL)
        await store.put([keyed("one", "k")], model=MODEL, request=request, delete=Filter(ids=(id_of("/", "k"),)))
        assert await contents(store) == ["two"]

    async def test_searchable_parts_come_back_and_end_with_the_content(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("abcdef", searchable=((0, 2), (4, 6))))
        assert (await store.get([id_]))[0].searchable == ((0, 2), (4, 6))
        await store.update(id_, edit("other words", tags=()), model=MODEL)
        assert (await store.get([id_]))[0].searchable is None

    async def test_namespaces_are_those_that_hold_something_themselves(self, store: MemoryStore) -> None:
        stored = await put(
            store, *(entry(f"text {n}", namespace=path) for n, path in enumerate(["/b/c", "/b", "/b/c", "/bc"]))
        )
        every = [NamespaceCount("/b", 1), NamespaceCount("/b/c", 2), NamespaceCount("/bc", 1)]
        assert await store.namespaces(Filter()) == every
        assert await store.namespaces(Filter(namespace="/b")) == every[:2]
        assert await store.namespaces(Filter(ids=(stored[0],))) == [NamespaceCount("/b/c", 1)]
        await store.delete(Filter(namespace="/b/c"), at=START)
        assert await store.namespaces(Filter()) == [every[0], every[2]]
        assert await store.namespaces(Filter(namespace="/unknown")) == []

    @pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
    async def test_conditions_on_metadata(
        self, store: MemoryStore, condition: Mapping[str, Any], expected: set[str]
    ) -> None:
        await put(
            store,
            entry("one", metadata={"n": 1, "o": {"p": "x"}}),
            entry("two", metadata={"n": 2, "o": {"p": "y"}, "d.e": 5}),
            entry("text", metadata={"n": "b"}),
            entry("none"),
            entry("true", metadata={"n": True}),
        )
        assert set(await contents(store, Filter(metadata=condition))) == expected
        assert (await store.list(Filter(metadata=condition), Page())).total == len(expected)
        every = await candidates(store, replace(EVERYTHING, metadata=condition), 9, vector=unit(1), model=MODEL)
        assert len(every) == len(expected)

    async def test_a_change_for_a_memory_as_it_was_is_refused(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("text"))
        await store.update(id_, replace(edit(tags=("a",)), if_updated_at=START))
        with pytest.raises(ConflictError, match="read it again"):
            await store.update(id_, replace(edit(tags=("b",)), if_updated_at=START))
        assert (await store.get([id_]))[0].tags == ("a",)

    async def test_no_two_updates_of_a_memory_have_the_same_time_even_when_the_clock_stands(
        self, store: MemoryStore
    ) -> None:
        (id_,) = await put(store, keyed("text", "k"))
        times = [(await store.get([id_]))[0].updated_at]
        for _ in range(3):
            await store.update(id_, replace(edit(tags=("a",)), updated_at=START))
            times.append((await store.get([id_]))[0].updated_at)
        await put(store, keyed("other text", "k"))
        times.append((await store.get([id_]))[0].updated_at)
        assert times == sorted(set(times))

    async def test_an_entry_that_expects_something_else_is_refused_with_its_batch(self, store: MemoryStore) -> None:
        (id_,) = await put(store, replace(keyed("one", "k"), expected=Expected(None)))
        (seen,) = await store.get([id_])
        for expected, field in ((Expected(None), "if_absent"), (Expected(START - timedelta(days=1)), "if_updated_at")):
            with pytest.raises(ConflictError) as refused:
                await put(store, entry("beside"), replace(keyed("two", "k"), expected=expected))
            assert refused.value.field == field
        with pytest.raises(ConflictError, match="any more"):
            await put(store, replace(keyed("two", "unknown"), expected=Expected(START)))
        assert await contents(store) == ["one"]

        await put(store, replace(keyed("two", "k"), expected=Expected(seen.updated_at)))
        with pytest.raises(ConflictError, match="read it again"):
            await put(store, replace(keyed("three", "k"), expected=Expected(seen.updated_at)))
        assert await contents(store) == ["two"]

    async def test_tags_of_what_is_replaced_stay_when_asked(self, store: MemoryStore) -> None:
        (id_,) = await put(store, keyed("one", "k", tags=("a", "given", "agent:ada"), agent_id="ada"))
        await put(store, replace(keyed("two", "k", tags=("b", "agent:bob"), agent_id="bob"), keep_tags=True))
        assert (await store.get([id_]))[0].tags == ("b", "agent:bob", "a", "given")
        assert await contents(store, Filter(tags=("given",))) == ["two"]
        await put(store, keyed("three", "k", tags=("c",)))
        assert (await store.get([id_]))[0].tags == ("c",)

    async def test_a_key_that_has_no_form_on_disk_is_refused(self, store: MemoryStore) -> None:
        with pytest.raises(InvalidInputError, match="key"):
            await store.put([entry("text", key="\ud800")], model=MODEL)
