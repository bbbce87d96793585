"""`RetainStorage` as CrewAI's `StorageBackend`, in process and over HTTP."""

import asyncio
import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI has an environment of its own: it can't be installed beside mcp 2")

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord

import retain
from retain_integrations.crewai import RetainEmbedder, RetainStorage

START = datetime(2026, 1, 5, 12)


def saved(storage: RetainStorage, *contents: str, **fields: Any) -> list[MemoryRecord]:
    vectors = storage.embedder(list(contents))
    records = [
        MemoryRecord(content=text, embedding=vector, **fields) for text, vector in zip(contents, vectors, strict=True)
    ]
    storage.save(records)
    return records


def found(storage: RetainStorage, query: str, **conditions: Any) -> list[str]:
    return [record.content for record, _ in storage.search(storage.embedder([query])[0], **conditions)]


def test_the_protocol_is_met(storage: RetainStorage) -> None:
    assert isinstance(storage, StorageBackend)


def test_a_record_comes_back_as_it_was(storage: RetainStorage) -> None:
    record = MemoryRecord(
        content="Ships on Friday",
        scope="/Team A/ops",
        categories=["Release", " spaced ", "x" * 150],
        metadata={"run": {"n": 1}, "who": "Ana"},
        importance=0.9,
        source="ana",
        private=True,
        created_at=START + timedelta(microseconds=123_456),
        last_accessed=START + timedelta(microseconds=7),
        embedding=storage.embedder(["Ships on Friday"])[0],
    )
    storage.save([record])
    assert storage.get_record(record.id).model_dump() == record.model_dump()


def test_times_are_utc_without_saying_so_and_aware_ones_are_converted(storage: RetainStorage) -> None:
    aware = datetime(2026, 1, 5, 14, tzinfo=UTC) - timedelta(hours=2)
    (record,) = saved(storage, "noon", created_at=aware)
    assert storage.get_record(record.id).created_at == START


def test_search_finds_by_meaning_and_by_rare_words_with_scores_in_range(storage: RetainStorage) -> None:
    saved(storage, "The vault code is zx-4417", "The office plant is watered on Mondays")
    hits = storage.search(storage.embedder(["zx-4417"])[0])
    assert hits[0][0].content == "The vault code is zx-4417"
    assert all(0 <= score <= 1 for _, score in hits)
    assert found(storage, "flowers", limit=1) == ["The office plant is watered on Mondays"]


def test_only_repetitions_score_above_the_threshold_of_consolidation(storage: RetainStorage) -> None:
    saved(storage, "The user likes green tea")
    (_, same), *_ = storage.search(storage.embedder(["The user likes green tea"])[0])
    (_, other), *_ = storage.search(storage.embedder(["The user likes black coffee"])[0])
    assert same > 0.95
    assert other < 0.85


def test_scopes_are_bounded_by_segments(storage: RetainStorage) -> None:
    saved(storage, "one", scope="/u/1")
    saved(storage, "ten", scope="/u/10")
    saved(storage, "below one", scope="/u/1/notes")
    saved(storage, "root", scope="/")
    assert set(found(storage, "one", scope_prefix="/u/1")) == {"one", "below one"}
    assert storage.count("/u/1") == storage.get_scope_info("/u/1").record_count == 2
    assert {record.content for record in storage.list_records("/u/1")} == {"one", "below one"}
    assert storage.list_scopes("/u") == ["/u/1", "/u/10"]
    assert storage.list_scopes() == ["/u"]
    assert storage.delete(scope_prefix="/u/1") == 2
    assert {record.content for record in storage.list_records()} == {"ten", "root"}


@pytest.mark.parametrize("scope", ["/a_b", "/a%", "/A", "/é", "/a.b", "/a b", "/'x"])
def test_odd_characters_in_a_scope_mean_themselves(storage: RetainStorage, scope: str) -> None:
    saved(storage, "here", scope=scope)
    saved(storage, "elsewhere", scope="/axb")
    assert [record.content for record in storage.list_records(scope)] == ["here"]
    assert storage.list_records(scope)[0].scope == scope


def test_categories_are_compared_exactly_and_any_is_enough(storage: RetainStorage) -> None:
    saved(storage, "upper", categories=["Decision"])
    saved(storage, "lower", categories=["decision", "x,y"])
    saved(storage, "spaced", categories=[" decision"])
    assert found(storage, "upper", categories=["Decision", "other"]) == ["upper"]
    assert found(storage, "lower", categories=["decision"]) == ["lower"]
    assert storage.delete(categories=["x,y"]) == 1
    assert storage.list_categories() == {"Decision": 1, "decision": 1}


def test_metadata_is_compared_exactly_and_all_must_agree(storage: RetainStorage) -> None:
    saved(storage, "first", metadata={"n": 1, "a.b": "x"})
    saved(storage, "second", metadata={"n": 2, "a": {"b": "x"}})
    assert found(storage, "any", metadata_filter={"a.b": "x"}) == ["first"]
    assert set(found(storage, "any", metadata_filter={"missing": None})) == {"first", "second"}
    assert storage.delete(metadata_filter={"n": 2, "a": {"b": "x"}}) == 1


def test_older_than_is_strict_to_the_microsecond(storage: RetainStorage) -> None:
    saved(storage, "just older", created_at=START + timedelta(microseconds=1))
    saved(storage, "equal", created_at=START + timedelta(microseconds=2))
    assert storage.delete(older_than=START + timedelta(microseconds=2)) == 1
    assert [record.content for record in storage.list_records()] == ["equal"]


def test_conditions_of_a_delete_add_up_and_no_ids_mean_none(storage: RetainStorage) -> None:
    one, two = saved(storage, "one", "two", scope="/a")
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete(scope_prefix="/b", record_ids=[one.id]) == 0
    assert storage.delete(record_ids=[one.id, "unknown"]) == 1
    assert storage.get_record(two.id) is not None


def test_records_are_listed_newest_first_by_their_own_time(storage: RetainStorage) -> None:
    for day in (2, 0, 1):
        saved(storage, f"day {day}", created_at=START + timedelta(days=day))
    assert [record.content for record in storage.list_records()] == ["day 2", "day 1", "day 0"]
    assert [record.content for record in storage.list_records(limit=1, offset=1)] == ["day 1"]
    assert storage.list_records(limit=0) == storage.list_records(offset=9) == []
    info = storage.get_scope_info("/")
    assert (info.oldest_record, info.newest_record) == (START, START + timedelta(days=2))


def test_an_update_replaces_and_may_move(storage: RetainStorage) -> None:
    (record,) = saved(storage, "old text", scope="/a", categories=["x"], created_at=START)
    moved = record.model_copy(update={"content": "new text", "scope": "/b", "categories": [], "embedding": None})
    storage.update(moved)
    assert storage.count() == 1
    assert storage.get_record(record.id).model_dump() == moved.model_dump()
    assert found(storage, "new text", scope_prefix="/b") == ["new text"]
    assert storage.list_scopes() == ["/b"]


def test_an_update_by_another_storage_finds_the_record(make_storage: Any) -> None:
    (record,) = saved(make_storage(), "text", scope="/a")
    make_storage().update(record.model_copy(update={"scope": "/b"}))
    assert [each.scope for each in make_storage().list_records()] == ["/b"]


def test_updating_an_unknown_record_stores_it(storage: RetainStorage) -> None:
    storage.update(MemoryRecord(id="mine", content="text"))
    assert storage.get_record("mine").content == "text"
    assert storage.get_record("another") is None


def test_a_use_is_noted(storage: RetainStorage) -> None:
    (record,) = saved(storage, "text", last_accessed=START, metadata={"k": 1})
    storage.touch_records([record.id, "unknown"])
    touched = storage.get_record(record.id)
    assert touched.last_accessed > START
    assert touched.model_copy(update={"last_accessed": START}).model_dump() == record.model_dump()


def test_two_storages_on_one_database_share_records_and_a_closed_one_opens_again(make_storage: Any) -> None:
    first, second = make_storage(), make_storage()
    saved(first, "shared")
    assert found(second, "shared") == ["shared"]
    first.close()
    first.close()
    assert first.count() == 1


def test_other_namespaces_are_apart(make_storage: Any, where: dict[str, Any]) -> None:
    first = where.get("namespace", "/crewai")
    saved(make_storage(), "text")
    assert make_storage(namespace=f"{first}x").count() == 0
    assert make_storage(namespace=f"{first}/below").count() == 0


def test_the_root_namespace_can_hold_scopes(tmp_path: Any) -> None:
    storage = RetainStorage(tmp_path / "agents.db", namespace="/")
    saved(storage, "text", scope="/a/b")
    assert storage.list_scopes() == ["/a"]
    assert storage.list_records()[0].scope == "/a/b"
    storage.reset()
    assert storage.count() == 0
    storage.close()


def test_a_batch_with_one_bad_record_stores_nothing(storage: RetainStorage) -> None:
    good = MemoryRecord(content="good")
    with pytest.raises(retain.InvalidInputError, match="content"):
        storage.save([good, MemoryRecord(content=" ")])
    with pytest.raises(retain.InvalidInputError, match="MemoryRecord"):
        storage.save([good, "text"])  # type: ignore[list-item]
    with pytest.raises(retain.InvalidInputError, match="JSON"):
        storage.save([good, MemoryRecord(content="x", metadata={"when": START})])
    assert storage.count() == 0


def test_of_a_long_batch_each_thousand_is_stored_whole_or_not_at_all(storage: RetainStorage) -> None:
    (last,) = saved(storage, "as it was")
    records = [MemoryRecord(content=f"record {n}") for n in range(1_000)]
    changed = last.model_copy(update={"content": "changed"})
    with pytest.raises(retain.InvalidInputError):
        storage.save([*records, changed, MemoryRecord(content="\0")])
    assert (storage.count(), storage.get_record(last.id).content) == (1_001, "as it was")
    storage.save([*records, changed])
    assert (storage.count(), storage.get_record(last.id).content) == (1_001, "changed")


def test_threads_may_write_and_search_at_once(storage: RetainStorage) -> None:
    barrier = threading.Barrier(8)

    def work(n: int) -> None:
        barrier.wait()
        saved(storage, f"fact {n} of thread", scope=f"/t/{n}")
        assert f"fact {n} of thread" in found(storage, f"fact {n}", scope_prefix=f"/t/{n}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert storage.count("/t") == 8


async def test_the_async_twins_do_the_same(storage: RetainStorage) -> None:
    vector = (await asyncio.to_thread(storage.embedder, ["text"]))[0]
    await storage.asave([MemoryRecord(content="text", embedding=vector)])
    assert [record.content for record, _ in await storage.asearch(vector)] == ["text"]
    assert await storage.adelete(scope_prefix="/") == 1


def test_a_copy_goes_on_with_the_same_database(storage: RetainStorage) -> None:
    assert copy.deepcopy(storage) is storage


def test_records_are_ordinary_memories_and_others_memories_are_records(
    storage: RetainStorage, where: dict[str, Any]
) -> None:
    (record,) = saved(storage, "from the crew", scope="/crew/a/agent/writer", categories=["Plan"])
    root = where.get("namespace", "/crewai")
    opened = retain.connect(where["base_url"]) if "base_url" in where else retain.open(str(where["url"]))
    with opened as memory:
        (hit,) = memory.recall("crew", where=retain.Filter(tags=["Plan"], namespace=root)).hits
        assert hit.memory.namespace == f"{root}/crew/a/agent/writer"
        assert (hit.memory.agent_id, hit.memory.key) == ("writer", record.id)
        memory.update(hit.memory.id, retain.MemoryPatch(tags=["Plan", "urgent"]))
        other = memory.store("from elsewhere", namespace=f"{root}/crew/a", tags=["note"], metadata={"k": 1}).memory
    assert storage.get_record(record.id).categories == ["Plan", "urgent"]
    theirs = storage.get_record(other.id)
    assert (theirs.content, theirs.scope, theirs.categories) == ("from elsewhere", "/crew/a", ["note"])
    assert theirs.metadata == {"k": 1}
    storage.touch_records([other.id])
    storage.reset()
    assert [left.id for left in storage.list_records()] == [other.id]
    assert storage.delete(record_ids=[other.id]) == 1


def test_a_service_refuses_vectors_that_it_could_not_search(service: str) -> None:
    storage = RetainStorage(base_url=service, namespace="/refused")
    with pytest.raises(retain.InvalidInputError, match="RetainEmbedder"):
        storage.save([MemoryRecord(content="x", embedding=[1.0, 0.0])])
    with pytest.raises(retain.InvalidInputError, match="RetainEmbedder"):
        storage.search([1.0, 0.0])
    assert storage.count() == 0
    storage.close()


def test_a_service_that_is_down_says_how_to_start_it() -> None:
    storage = RetainStorage(base_url="http://127.0.0.1:9")
    with pytest.raises(retain.StoreUnavailableError, match="retain serve"):
        storage.count()
    storage.close()


@pytest.mark.parametrize(
    "arguments",
    [{"url": 7}, {"url": "a.db", "base_url": "http://x"}, {"api_key": "k"}, {"namespace": " "}, {"embedding": 5}],
)
def test_impossible_arguments_are_refused_at_once(arguments: dict[str, Any]) -> None:
    with pytest.raises(retain.InvalidInputError):
        RetainStorage(**arguments)


def test_the_embedder_takes_texts_only() -> None:
    for wrong in ("text", [1]):
        with pytest.raises(retain.InvalidInputError):
            RetainEmbedder()(wrong)  # type: ignore[arg-type]
    assert RetainEmbedder()([]) == []


def test_a_dimension_mismatch_is_crewais_own_error(tmp_path: Any) -> None:
    storage = RetainStorage(tmp_path / "agents.db")
    saved(storage, "by Retain's model")
    for use in (storage.search, lambda vector: storage.save([MemoryRecord(content="x", embedding=vector)])):
        with pytest.raises(EmbeddingDimensionMismatchError) as raised:
            use([1.0, 0.0])
        assert (raised.value.stored_dim, raised.value.new_dim) == (384, 2)
    with pytest.raises(retain.InvalidInputError, match="RetainEmbedder"):
        storage.search([1.0] * 384)
    assert storage.count() == 1
    storage.close()


def test_ids_are_a_list(storage: RetainStorage) -> None:
    saved(storage, "one", id="1")
    with pytest.raises(retain.InvalidInputError, match="record_ids must be a list"):
        storage.delete(record_ids="1")  # type: ignore[arg-type]
    assert storage.count() == 1
