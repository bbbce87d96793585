"""Vectors of an embedder that is not Retain's, in a database of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("crewai", reason="CrewAI has an environment of its own: it can't be installed beside mcp 2")

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord

import retain
from retain_integrations.crewai import RetainStorage


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[RetainStorage]:
    storage = RetainStorage(tmp_path / "agents.db")
    yield storage
    storage.close()


def test_the_vectors_given_are_searched_and_the_score_is_the_cosine(storage: RetainStorage) -> None:
    storage.save(
        [
            MemoryRecord(content="east", embedding=[2.0, 0.0]),
            MemoryRecord(content="north", embedding=[0.0, 3.0]),
            MemoryRecord(content="nowhere", embedding=[0.0, 0.0]),
            MemoryRecord(content="not said"),
        ]
    )
    hits = [(record.content, round(score, 2)) for record, score in storage.search([1.0, 1.0])]
    assert sorted(hits) == [("east", 0.71), ("north", 0.71)]
    assert [record.content for record, _ in storage.search([1.0, 0.1], min_score=0.5)] == ["east"]
    assert storage.search([0.0, 0.0]) == []
    assert storage.count() == 4


def test_each_long_text_keeps_its_own_vector(storage: RetainStorage) -> None:
    start = "The same long beginning. " * 60
    storage.save(
        [
            MemoryRecord(content=start + "one", embedding=[1.0, 0.0, 0.0]),
            MemoryRecord(content=start + "two", embedding=[0.0, 1.0, 0.0]),
            *(MemoryRecord(content=f"filler {n}", embedding=[0.0, 0.0, 1.0]) for n in range(600)),
            MemoryRecord(content=start + "one", embedding=[1.0, 1.0, 0.0]),
        ]
    )
    ((first, same), (second, near), *_) = storage.search([1.0, 0.0, 0.0], limit=3)
    assert (first.content, round(same, 2)) == (start + "one", 1.0)
    assert (second.content, round(near, 2)) == (start + "one", 0.71)


def test_lengths_must_agree_in_a_batch_and_with_what_is_stored(storage: RetainStorage) -> None:
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([MemoryRecord(content="a", embedding=[1.0]), MemoryRecord(content="b", embedding=[1.0, 0.0])])
    assert storage.count() == 0
    storage.save([MemoryRecord(content="a", embedding=[1.0, 0.0])])
    with pytest.raises(EmbeddingDimensionMismatchError) as raised:
        storage.search([1.0, 0.0, 0.0])
    assert (raised.value.stored_dim, raised.value.new_dim) == (2, 3)
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search(storage.embedder(["text"])[0])
    with pytest.raises(retain.InvalidInputError, match="finite"):
        storage.save([MemoryRecord(content="b", embedding=[float("nan"), 0.0])])


def test_a_change_keeps_the_vector_unless_it_needs_a_new_one(storage: RetainStorage) -> None:
    storage.save([MemoryRecord(id="r", content="a", embedding=[1.0, 0.0])])
    record = storage.get_record("r")
    assert record is not None
    storage.update(record.model_copy(update={"importance": 0.9}))
    ((kept, score),) = storage.search([1.0, 0.0])
    assert (kept.importance, round(score, 2)) == (0.9, 1.0)
    with pytest.raises(retain.InvalidInputError, match="embedding"):
        storage.update(record.model_copy(update={"content": "b"}))
    storage.update(record.model_copy(update={"content": "b", "scope": "/moved", "embedding": [0.0, 1.0]}))
    ((moved, score),) = storage.search([0.0, 1.0])
    assert (moved.scope, round(score, 2)) == ("/moved", 1.0)


def test_an_emptied_database_takes_vectors_of_another_length(storage: RetainStorage) -> None:
    storage.save([MemoryRecord(content="a", embedding=[1.0, 0.0])])
    storage.reset()
    storage.save([MemoryRecord(content="b", embedding=[1.0, 0.0, 0.0])])
    assert [record.content for record, _ in storage.search([1.0, 0.0, 0.0])] == ["b"]
