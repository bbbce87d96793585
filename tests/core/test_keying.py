"""Keys, searchable parts and removal as a caller sees them. Real SQLite, real model."""

from datetime import timedelta

import pytest

from retain import ConflictError, Filter, InvalidInputError, MemoryPatch, NewMemory, TooLargeError, id_of
from retain.core.service import MemoryService


async def test_a_key_gives_the_id_and_keeps_it(service: MemoryService) -> None:
    first = await service.store("The freeze ends on Friday", key="freeze", namespace="/ops")
    second = await service.store("The freeze ends on Monday", key="freeze", namespace="/ops")
    assert first.memory.id == second.memory.id == id_of("/ops", "freeze")
    assert (await service.recall("freeze")).hits[0].memory.content == "The freeze ends on Monday"
    assert (await service.list()).total == 1


async def test_search_sees_only_the_searchable_parts(service: MemoryService) -> None:
    text = "The cat sleeps. The invoice is due in May."
    start = text.index("The invoice")
    await service.store(text, searchable=[(start, len(text))])
    await service.store("Nobody finds this zebra", searchable=[])
    found = await service.recall("when is the invoice due?")
    assert [hit.memory.content for hit in found.hits] == [text]
    assert found.hits[0].snippet == text[start:]
    assert (await service.recall("cat", mode="keyword")).hits == ()
    assert (await service.recall("zebra", mode="keyword")).hits == ()
    assert (await service.list()).total == 2


@pytest.mark.parametrize("spans", [[(3, 2)], [(0, 99)], [(0, 3), (2, 4)], [(0,)], "ab", [("0", 1)], [(True, 2)], 7])
async def test_impossible_parts_are_refused(service: MemoryService, spans: object) -> None:
    with pytest.raises(InvalidInputError) as told:
        await service.store("some text", searchable=spans)  # type: ignore[arg-type]
    assert told.value.field == "searchable"
    assert (await service.list()).total == 0


async def test_a_batch_removes_first_and_all_or_nothing(service: MemoryService) -> None:
    old = (await service.store("the old note")).memory
    new = await service.store_many(["the new note"], delete=[old.id])
    assert [memory.content for memory in (await service.list()).memories] == ["the new note"]
    with pytest.raises(InvalidInputError):
        await service.store_many(["ok", ""], delete=[new[0].memory.id])
    assert (await service.list()).total == 1
    assert await service.store_many([], delete=[new[0].memory.id, old.id]) == []
    assert (await service.list()).total == 0


async def test_impossible_keys_and_removals_are_refused(service: MemoryService) -> None:
    for call in (
        service.store("x", key="k" * 501),
        service.store_many(["x"], delete=["no id"]),
        service.store_many([NewMemory(content="x", key=7)]),  # type: ignore[arg-type]
        service.list(Filter(metadata={"a": {"$in": 3}})),
        service.list(Filter(metadata={"a": {"$gt": 1, "plain": 2}})),
    ):
        with pytest.raises((InvalidInputError, TooLargeError)):
            await call
    assert (await service.list()).total == 0


async def test_an_update_can_ask_that_nobody_was_faster(service: MemoryService) -> None:
    memory = (await service.store("text")).memory
    patched = await service.update(memory.id, MemoryPatch(tags=["a"], if_updated_at=memory.updated_at))
    assert patched.tags == ("a",)
    with pytest.raises(InvalidInputError, match="nothing to change"):
        await service.update(memory.id, MemoryPatch(if_updated_at=memory.updated_at))
    with pytest.raises(ConflictError):
        await service.update(memory.id, MemoryPatch(tags=["b"], if_updated_at=memory.updated_at - timedelta(hours=1)))


async def test_a_store_can_ask_that_nobody_was_faster(service: MemoryService) -> None:
    first = (await service.store("one", key="k", if_absent=True)).memory
    second = (await service.store("two", key="k", if_updated_at=first.updated_at)).memory
    assert second.updated_at > first.updated_at
    for asked in ({"if_absent": True}, {"if_updated_at": first.updated_at}):
        with pytest.raises(ConflictError):
            await service.store_many([NewMemory(content="beside"), NewMemory(content="three", key="k", **asked)])
    assert [memory.content for memory in (await service.list()).memories] == ["two"]
    with pytest.raises(InvalidInputError, match="needs a key"):
        await service.store("x", if_absent=True)
    with pytest.raises(InvalidInputError, match="exclude each other"):
        await service.store("x", key="k", if_absent=True, if_updated_at=first.updated_at)


async def test_tags_that_others_gave_stay_when_asked(service: MemoryService) -> None:
    await service.store("one", key="k", tags=["given"])
    assert (await service.store("two", key="k", tags=["new"], keep_tags=True)).memory.tags == ("new", "given")
    with pytest.raises(InvalidInputError, match="keep_tags needs a key"):
        await service.store("x", keep_tags=True)
