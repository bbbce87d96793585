"""Export and import lose nothing."""

import json
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retain import (
    EVERYTHING,
    ConflictError,
    Filter,
    InvalidInputError,
    MemoryPatch,
    PermissionDeniedError,
    Turn,
)
from retain.core.api import Record
from retain.core.policy import Principal
from retain.core.service import MemoryService
from retain.embeddings.onnx import OnnxEmbedder
from retain.storage.sqlite import open_sqlite
from tests.conftest import SetClock


async def stream(records: Iterable[Record]) -> AsyncIterator[Record]:
    for record in records:
        yield json.loads(json.dumps(record))


async def exported(service: MemoryService) -> list[Record]:
    return [record async for record in service.export()]


@pytest.fixture
async def full(service: MemoryService, clock: SetClock) -> MemoryService:
    """One of everything."""
    await service.register_type("runbook", parent="learning")
    old = await service.store("limit 100", tags=["c,d", "🔥"], metadata={"a": {"b": [1, None, "x"]}})
    clock.advance(timedelta(minutes=1))
    await service.store("limit 250", supersedes=old.memory.id, type="runbook")
    await service.store("in a team", namespace="/team/a")
    archived = await service.store("old habit", agent_id="r1", conversation_id="c", sequence=3)
    await service.update(archived.memory.id, MemoryPatch(archived=True))
    await service.store("long ago", occurred_at=datetime(2019, 5, 4, tzinfo=UTC))
    await service.store_session([Turn(role="user", content="hi"), Turn(role="bot", content="ho")], mode="session")
    gone = await service.store("to be deleted")
    await service.delete(gone.memory.id)
    return service


async def test_an_export_reads_back_the_same(
    full: MemoryService, model: OnnxEmbedder, clock: SetClock, tmp_path: Path
) -> None:  # C171
    first = await exported(full)
    copy = MemoryService(await open_sqlite(tmp_path / "copy.db", clock=clock), model, clock=clock)
    imported = await copy.import_records(stream(first))
    assert (imported.created, imported.skipped, imported.tombstones) == (6, 0, 1)
    assert await exported(copy) == first
    again = await copy.import_records(stream(first))
    assert (again.created, again.skipped, again.tombstones) == (0, 6, 0)
    assert (await copy.recall("limit")).hits[0].memory.content == "limit 250"
    await copy._store.aclose()


async def test_an_export_says_what_it_leaves_out(full: MemoryService) -> None:
    header = (await exported(full))[0]
    assert header["kind"] == "header" and "vectors" in header["excludes"]
    assert "to be deleted" not in json.dumps(await exported(full))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"content": "changed"}, "line 2.*content_hash"),
        ({"id": "1"}, "line 2.*id"),
        ({"created_at": "soon"}, "line 2.*created_at"),
        ({"tags": [1]}, "line 2.*tags"),
        ({"kind": "riddle"}, "line 2.*riddle"),
        ({"namespace": "a//b"}, "line 2.*namespace"),
    ],
)
async def test_a_malformed_record_is_refused_by_line(
    service: MemoryService, change: dict[str, object], message: str
) -> None:
    await service.store("text")
    header, record = await exported(service)
    await service.delete_many(EVERYTHING, expected_count=1)
    with pytest.raises(InvalidInputError, match=message):
        await service.import_records(stream([header, {**record, **change}]))
    assert (await service.list()).total == 0


@pytest.mark.parametrize("records", [[], [{"kind": "memory"}], [{"kind": "header", "format": "retain", "version": 99}]])
async def test_what_is_no_export_is_refused(service: MemoryService, records: list[Record]) -> None:
    with pytest.raises(InvalidInputError):
        await service.import_records(stream(records))


async def test_deleting_everything_takes_an_expected_count(full: MemoryService) -> None:
    with pytest.raises(InvalidInputError, match="everything"):
        await full.delete_many(Filter())
    dry = await full.delete_many(Filter(), dry_run=True)
    assert dry.count == (await full.list()).total
    assert (await full.delete_many(Filter(), expected_count=dry.count)).count == dry.count
    assert (await full.list()).total == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"a": float("nan")}}, "metadata"),
        ({"metadata": {"a": "\ud800"}}, "metadata"),
        ({"agent_id": " "}, "agent_id"),
        ({"agent_id": "a" * 5_000}, "agent_id"),
        ({"conversation_id": "x\0"}, "conversation_id"),
        ({"sequence": -5}, "sequence"),
        ({"sequence": 2**63}, "sequence"),
        ({"superseded_by": "nonsense"}, "superseded_by"),
        ({"turns": [{"role": "a", "start": 3, "end": 1}]}, "turns"),
        ({"turns": [{"role": "a", "start": 0, "end": 10**6}]}, "turns"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"kind": "tombstone", "deleted_at": "2026-01-01T00:00:00Z"}, "no field of a tombstone"),
        ({"kind": "type"}, "no field of a type"),
    ],
)
async def test_a_record_that_no_other_way_in_would_take_is_refused(
    service: MemoryService, change: dict[str, object], message: str
) -> None:
    await service.store("text")
    header, record = await exported(service)
    await service.delete_many(EVERYTHING, expected_count=1)
    with pytest.raises(InvalidInputError, match=f"line 2.*{message}"):
        await service.import_records(stream_as_is([header, {**record, **change}]))
    assert (await service.list()).total == 0


async def stream_as_is(records: Iterable[Record]) -> AsyncIterator[Record]:
    for record in records:
        yield record


async def test_an_import_can_not_change_what_a_built_in_type_means(service: MemoryService) -> None:
    header = (await exported(service))[0]
    record = {"kind": "type", "type": "observation", "parent": "decision"}
    with pytest.raises(InvalidInputError, match="built-in"):
        await service.import_records(stream([header, record]))


async def test_an_import_stays_within_the_callers_namespace_and_agent(service: MemoryService) -> None:
    foreign = await service.store("theirs", namespace="/b", agent_id="bob")
    elsewhere, header = (await exported(service))[1], (await exported(service))[0]
    await service.delete(foreign.memory.id)
    bound = service.acting_as(Principal("ka", "/a", agent_id="alice"))
    for record in (
        elsewhere,
        {**elsewhere, "namespace": "/a"},
        {"kind": "type", "type": "own", "parent": None, "namespace": "/b"},
        (await exported(service))[-1],
    ):
        with pytest.raises(PermissionDeniedError):
            await bound.import_records(stream([header, record]))
    taken = {**elsewhere, "namespace": "/a", "agent_id": "alice", "tags": ["agent:alice"]}
    with pytest.raises(ConflictError, match="the id"):
        await bound.import_records(stream([header, taken]))
    assert (await exported(service))[-1]["kind"] == "tombstone"


async def test_everything_that_a_key_may_see_is_not_deleted_by_its_namespace_alone(full: MemoryService) -> None:
    for service, namespace in ((full, "/"), (full.acting_as(Principal("team", "/team")), "/team")):
        with pytest.raises(InvalidInputError, match="everything"):
            await service.delete_many(Filter(namespace=namespace))
    assert (await full.delete_many(Filter(namespace="/team"))).count == 1
