"""Fixtures of the ways in over HTTP."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from retain.auth.api_keys import ApiKeys
from retain.core.service import MemoryService
from retain.settings import Settings
from retain.storage.sqlite import SqliteStore
from retain.transports.server import create_app, serve
from tests.conftest import SetClock

BASE_URL = "http://127.0.0.1:8000"


@pytest.fixture
def keys(store: SqliteStore, clock: SetClock) -> ApiKeys:
    return ApiKeys(store, clock)


@pytest.fixture
async def connect(service: MemoryService, keys: ApiKeys) -> AsyncIterator[Callable[..., httpx.AsyncClient]]:
    """Makes clients of the whole application, in process, with the given settings and headers."""
    opened: list[httpx.AsyncClient] = []

    def client(base_url: str = BASE_URL, *, headers: object = None, **settings: object) -> httpx.AsyncClient:
        app = create_app(service, keys, Settings.model_validate(settings))
        made = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url, headers=headers)  # type: ignore[arg-type]
        opened.append(made)
        return made

    yield client
    for made in opened:
        await made.aclose()


@pytest.fixture
def rest(connect: Callable[..., httpx.AsyncClient]) -> httpx.AsyncClient:
    """A client of the application as a program on this machine sees it."""
    return connect()


class Served:
    """The service on a real port, in a thread with a loop of its own."""

    def __init__(self, database: Path, **settings: object) -> None:
        values = {"database_url": str(database), "port": 0, "embedding": "hashed", **settings}
        self._settings = Settings.model_validate(values)
        self._urls: queue.Queue[str | BaseException] = queue.Queue()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = ""

    async def _run(self) -> None:
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            await serve(self._settings, announce=self._urls.put, stop=self._stop)
        except BaseException as error:
            self._urls.put(error)
            raise

    def start(self) -> "Served":
        self._thread.start()
        found = self._urls.get(timeout=30)
        if isinstance(found, BaseException):
            raise found
        self.url = found
        return self

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=20)
        assert not self._thread.is_alive()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts services on `served.db`, which are stopped at the end of the test."""
    running: list[Served] = []

    def begin(**settings: object) -> Served:
        served = Served(tmp_path / "served.db", **settings)
        running.append(served.start())
        return served

    yield begin
    for served in running:
        served.stop()


@pytest.fixture
def served(start: Callable[..., Served]) -> Served:
    return start()
