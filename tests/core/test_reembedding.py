"""When a store needs new vectors: the rule behind `retain reembed`."""

import pytest

from retain import EmbeddingError
from retain.core.reembed import is_due, reembed
from retain.core.service import MemoryService
from retain.embeddings.hashed import HashedEmbedder
from retain.embeddings.onnx import OnnxEmbedder
from retain.storage.sqlite import SqliteStore


async def test_an_empty_store_needs_no_vectors(store: SqliteStore) -> None:
    assert not await is_due(store, HashedEmbedder(), force=True)


async def test_the_same_model_is_due_only_by_force(
    store: SqliteStore, service: MemoryService, model: OnnxEmbedder
) -> None:
    await service.store("text")
    assert not await is_due(store, model)
    assert await is_due(store, model, force=True)


async def test_a_model_of_the_same_name_and_another_size_is_due(store: SqliteStore) -> None:
    small, large = HashedEmbedder(dimensions=64), HashedEmbedder(dimensions=128)
    await MemoryService(store, small).store("text")
    assert not await is_due(store, small)
    large.model_id = small.model_id
    assert await is_due(store, large)
    assert await reembed(store, large) == 1
    assert not await is_due(store, large)


async def test_a_model_that_can_not_be_had_is_told(store: SqliteStore, service: MemoryService) -> None:
    from retain.embeddings import open_embedder

    await service.store("text")
    with pytest.raises(EmbeddingError):
        await is_due(store, open_embedder("/nowhere/at/all"))
