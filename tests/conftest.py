"""Fixtures shared by all tests: the real model once, real SQLite files, a clock that is told what time it is."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retain.core.service import MemoryService, Policy
from retain.embeddings import open_embedder
from retain.embeddings.onnx import OnnxEmbedder
from retain.storage.sqlite import SqliteStore, open_sqlite

SHARED = Path(__file__).parent.parent.parent / "shared"
"""Benchmark data, present on the developers' machines only."""


class SetClock:
    """A clock that stands still until told otherwise."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


@pytest.fixture
def clock() -> SetClock:
    """Stands at Monday 2026-11-30 10:30 UTC, the moment that the time cases are written for."""
    return SetClock(datetime(2026, 11, 30, 10, 30, tzinfo=UTC))


@pytest.fixture(scope="session")
def model() -> Iterator[OnnxEmbedder]:
    """The bundled model, loaded once."""
    embedder = open_embedder("default")
    assert isinstance(embedder, OnnxEmbedder)
    yield embedder


@pytest.fixture
async def store(tmp_path: Path, clock: SetClock) -> AsyncIterator[SqliteStore]:
    """An empty database in a file of its own."""
    opened = await open_sqlite(tmp_path / "memories.db", clock=clock)
    yield opened
    await opened.aclose()


@pytest.fixture
async def service(store: SqliteStore, model: OnnxEmbedder, clock: SetClock) -> MemoryService:
    """The core on a real file and the real model, for the local user."""
    return MemoryService(store, model, clock=clock, policy=Policy())
