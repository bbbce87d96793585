"""What others do to the same memories meanwhile is not lost: other processes, and other ways into Retain."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI has an environment of its own: it can't be installed beside mcp 2")

from crewai.memory.types import MemoryRecord

import retain
from retain_integrations.crewai import RetainStorage
from retain_integrations.crewai._database import Database


@pytest.fixture
def memory(where: dict[str, Any]) -> Iterator[retain.SyncMemory]:
    """Retain itself: what another process does."""
    opened = retain.connect(where["base_url"]) if "base_url" in where else retain.open(str(where["url"]))
    with opened as memory:
        yield memory


@pytest.fixture
def root(where: dict[str, Any]) -> str:
    return where.get("namespace", "/crewai")


def first_read_then(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Let `meanwhile` happen once, between the next reading of a storage and its writing."""
    read, waiting = Database.memories, [meanwhile]

    def reading(self: Database, record_ids: Any) -> list[retain.Memory]:
        found = read(self, record_ids)
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(Database, "memories", reading)


def test_noting_a_use_never_undoes_what_others_write_and_passes_over_what_they_delete(
    storage: RetainStorage, memory: retain.SyncMemory, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [MemoryRecord(id=name, content=name) for name in ("changed", "deleted", "left alone")]
    storage.save(records)

    def meanwhile() -> None:
        memory.update(retain.id_of(root, "changed"), retain.MemoryPatch(metadata={"theirs": 1}))
        memory.delete(retain.id_of(root, "deleted"))

    first_read_then(monkeypatch, meanwhile)
    storage.touch_records([record.id for record in records])
    assert memory.get(retain.id_of(root, "changed")).metadata == {"theirs": 1}
    assert storage.get_record("deleted") is None
    assert storage.get_record("left alone").last_accessed > records[2].last_accessed


@pytest.mark.parametrize("change", [{"importance": 0.9}, {"content": "new"}])
@pytest.mark.parametrize("write", [RetainStorage.update, lambda storage, record: storage.save([record])])
def test_a_write_keeps_what_others_put_beside_it_meanwhile(
    storage: RetainStorage,
    memory: retain.SyncMemory,
    root: str,
    monkeypatch: pytest.MonkeyPatch,
    write: Any,
    change: dict[str, Any],
) -> None:
    record = MemoryRecord(id="r", content="old", metadata={"k": 1})
    storage.save([record])
    place = retain.id_of(root, "r")
    first_read_then(
        monkeypatch,
        lambda: memory.update(place, retain.MemoryPatch(metadata={**memory.get(place).metadata, "theirs": 1})),
    )
    changed = record.model_copy(update=change)
    write(storage, changed)
    assert memory.get(place).metadata["theirs"] == 1
    assert storage.get_record("r").model_dump() == changed.model_dump()


def test_an_update_of_what_is_deleted_meanwhile_stores_it(
    storage: RetainStorage, memory: retain.SyncMemory, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = MemoryRecord(id="r", content="text")
    storage.save([record])
    first_read_then(monkeypatch, lambda: memory.delete(retain.id_of(root, "r")))
    storage.update(record.model_copy(update={"importance": 0.9}))
    assert storage.get_record("r").importance == 0.9


def test_an_update_that_others_always_forestall_says_so(
    storage: RetainStorage, memory: retain.SyncMemory, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.save([MemoryRecord(id="r", content="text")])
    place, read = retain.id_of(root, "r"), Database.memories

    def reading(self: Database, record_ids: Any) -> list[retain.Memory]:
        found = read(self, record_ids)
        memory.update(place, retain.MemoryPatch(tags=["busy"]))
        return found

    monkeypatch.setattr(Database, "memories", reading)
    with pytest.raises(retain.ConflictError, match="updated"):
        storage.update(MemoryRecord(id="r", content="text", importance=0.9))


def test_tags_of_others_outlive_a_save_and_end_with_an_update_that_leaves_them_out(
    storage: RetainStorage, memory: retain.SyncMemory, root: str
) -> None:
    record = MemoryRecord(id="r", content="text", scope="/crew/a/agent/writer", categories=["Plan", "old"])
    storage.save([record])
    place = retain.id_of(f"{root}/crew/a/agent/writer", "r")
    memory.update(place, retain.MemoryPatch(tags=["Plan", "old", "msg:cluster"]))
    storage.save([record.model_copy(update={"categories": ["Plan"]})])
    assert set(memory.get(place).tags) == {"Plan", "msg:cluster", "agent:writer"}
    read = storage.get_record("r")
    assert read.categories == ["Plan", "msg:cluster"]
    storage.save([read.model_copy(update={"scope": "/moved"})])
    assert set(memory.get(retain.id_of(f"{root}/moved", "r")).tags) == {"Plan", "msg:cluster"}
    storage.update(read.model_copy(update={"scope": "/moved", "categories": ["Plan"]}))
    assert memory.get(retain.id_of(f"{root}/moved", "r")).tags == ("Plan",)


def test_a_save_moves_what_another_process_stored_in_another_scope(make_storage: Any) -> None:
    record = MemoryRecord(id="r", content="text", scope="/a")
    one, other = make_storage(), make_storage()
    one.save([record])
    other.save([record.model_copy(update={"scope": "/b"})])
    one.save([record.model_copy(update={"scope": "/c"})])
    assert [each.scope for each in other.list_records()] == ["/c"]


def test_where_two_have_stored_one_id_at_once_the_last_is_read_and_a_delete_or_a_save_takes_both(
    storage: RetainStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def store_twice() -> None:
        for scope in ("/a", "/b"):
            with monkeypatch.context() as blind:
                blind.setattr(Database, "memories", lambda self, record_ids: [])
                storage.save([MemoryRecord(id="r", content=f"in {scope}", scope=scope)])
        assert (storage.count(), storage.get_record("r").content) == (2, "in /b")

    store_twice()
    assert storage.delete(record_ids=["r"]) == 2
    store_twice()
    storage.save([MemoryRecord(id="r", content="here", scope="/c")])
    assert [each.content for each in storage.list_records()] == ["here"]


def test_a_copy_of_a_record_by_another_way_in_is_a_record_of_its_own(
    storage: RetainStorage, memory: retain.SyncMemory, root: str
) -> None:
    storage.save([MemoryRecord(id="r", content="original")])
    original = memory.get(retain.id_of(root, "r"))
    copied = memory.store("copy", namespace=root, metadata=original.metadata).memory
    assert (storage.get_record("r").content, storage.get_record(copied.id).content) == ("original", "copy")
    memory.update(original.id, retain.MemoryPatch(metadata={"crewai": {"id": "r", "categories": None}}))
    storage.save([MemoryRecord(id="r", content="again")])
    assert storage.get_record("r").content == "again"


def test_many_scopes_and_many_ids_are_looked_up_whole(storage: RetainStorage) -> None:
    records = [MemoryRecord(id=f"r{n}", content=f"record {n}", scope=f"/s/{n % 7}") for n in range(200)]
    storage.save(records)
    assert storage.delete(record_ids=[record.id for record in records]) == 200
