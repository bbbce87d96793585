"""What a principal may not see does not exist for it, by every method."""

import pytest

from retain import Filter, MemoryPatch, NotFoundError, PermissionDeniedError
from retain.core.policy import Principal
from retain.core.service import MemoryService

TEAM = Principal("team", "/team")
READER = Principal("reader", "/team", can_write=False)
AGENT = Principal("r1-key", agent_id="r1")


@pytest.fixture
async def secret(service: MemoryService) -> str:
    await service.store("The team lunch is on Friday", namespace="/team", tags=["lunch"])
    stored = await service.store("The merger with Globex closes in May", namespace="/teamwork", tags=["merger"])
    return stored.memory.id


async def test_other_namespaces_do_not_exist_by_any_read(service: MemoryService, secret: str) -> None:
    team = service.acting_as(TEAM)
    assert [hit.memory.namespace for hit in (await team.recall("merger with Globex")).hits] == ["/team"]
    assert (await team.recall("Globex", mode="keyword")).hits == ()
    assert (await team.recall("Globex", mode="exact")).hits == ()
    assert (await team.list()).total == 1
    assert [count.tag for count in await team.tags()] == ["lunch"]
    assert (await team.stats()).total == 1
    assert sum(count.count for count in await team.types()) == 1
    exported = [record async for record in team.export()]
    assert "Globex" not in repr(exported)
    with pytest.raises(NotFoundError):
        await team.get(secret)


async def test_other_namespaces_can_not_be_changed(service: MemoryService, secret: str) -> None:
    team = service.acting_as(TEAM)
    with pytest.raises(NotFoundError):
        await team.update(secret, MemoryPatch(tags=["mine"]))
    with pytest.raises(NotFoundError):
        await team.delete(secret)
    with pytest.raises(NotFoundError):
        await team.merge_tags(["merger"], "mine")
    with pytest.raises(NotFoundError):
        await team.store("Never mind", supersedes=secret)
    assert (await team.delete_many(Filter(ids=(secret,)))).count == 0
    with pytest.raises(PermissionDeniedError, match="/team"):
        await team.store("text", namespace="/teamwork")
    assert (await service.get(secret)).tags == ("merger",)


async def test_the_own_namespace_is_the_default(service: MemoryService) -> None:
    assert (await service.acting_as(TEAM).store("text")).memory.namespace == "/team"


async def test_a_reader_can_change_nothing(service: MemoryService, secret: str) -> None:
    reader = service.acting_as(READER)
    (memory,) = (await reader.list()).memories
    for attempt in (
        reader.store("text"),
        reader.store_many(["text"]),
        reader.store_session([]),
        reader.update(memory.id, MemoryPatch(tags=[])),
        reader.delete(memory.id),
        reader.delete_many(Filter(tags=("lunch",))),
        reader.merge_tags(["lunch"], "dinner"),
        reader.register_type("own"),
        reader.import_records(reader.export()),
    ):
        with pytest.raises(PermissionDeniedError):
            await attempt
    assert (await service.get(memory.id)) == memory


async def test_a_key_of_one_agent_does_not_speak_for_another(service: MemoryService) -> None:  # C129
    agent = service.acting_as(AGENT)
    stored = await agent.store("text")
    assert (stored.memory.agent_id, stored.memory.tags) == ("r1", ("agent:r1",))
    with pytest.raises(PermissionDeniedError):
        await agent.store("other", agent_id="r2")
    with pytest.raises(PermissionDeniedError):
        await agent.store("other", tags=["agent:r2"])
    with pytest.raises(PermissionDeniedError):
        await agent.merge_tags(["agent:r1"], "agent:r2")
    assert (await service.list(Filter(tags=("agent:r2",)))).total == 0


async def test_events_of_other_namespaces_are_not_seen(service: MemoryService, secret: str) -> None:
    stream = service.acting_as(TEAM).events(after=0)
    event = await anext(stream)
    await service.store("Another merger", namespace="/teamwork")
    await service.store("Another lunch", namespace="/team")
    other = await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert (event.namespace, other.namespace) == ("/team", "/team")


async def test_an_empty_namespace_does_not_tell_that_others_have_stored(service: MemoryService) -> None:
    await service.store("theirs", namespace="/other")
    assert (await service.acting_as(TEAM).stats()).model is None
    assert (await service.stats()).model is not None
