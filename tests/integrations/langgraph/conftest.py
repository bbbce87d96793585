"""Both ways to Retain for each test: a database in this process, and a running service."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

import retain
from retain_integrations.langgraph import RetainStore
from tests.servers import RunningServer

MakeStore = Callable[..., RetainStore]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One real service for all tests; each has a namespace of its own there."""
    with RunningServer(tmp_path_factory.mktemp("langgraph") / "service.db") as running:
        yield running


@pytest.fixture(params=["in process", "over HTTP"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where a store keeps its items: arguments of `RetainStore`, the same ones for each call in a test."""
    root = f"/test/{uuid.uuid4()}"
    if request.param == "in process":
        return {"url": f"sqlite:///{tmp_path / 'agents.db'}", "namespace": root}
    return {"base_url": request.getfixturevalue("server").url, "namespace": root}


@pytest.fixture
def place(where: dict[str, Any]) -> str:
    """Where Retain keeps the items of ("users", "u1")."""
    return f"{where['namespace']}/users/u1"


@pytest.fixture
def make_store(where: dict[str, Any]) -> Iterator[MakeStore]:
    """Makes stores that share a database, and closes them at the end."""
    made: list[RetainStore] = []

    def make(**changes: Any) -> RetainStore:
        arguments = {**where, **changes}
        url = arguments.pop("url", None)
        made.append(RetainStore(url, **arguments))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> RetainStore:
    return make_store()


@pytest.fixture
def memory(where: dict[str, Any]) -> Iterator[retain.SyncMemory]:
    """The same memories without LangGraph."""
    opened = retain.connect(where["base_url"]) if "base_url" in where else retain.open(where["url"])
    with opened as direct:
        yield direct


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Callable[..., RetainStore]]:
    """Makes stores in this process only, for what a service does not do."""
    made: list[RetainStore] = []

    def make(**arguments: Any) -> RetainStore:
        made.append(RetainStore(f"sqlite:///{tmp_path / 'local.db'}", **arguments))
        return made[-1]

    yield make
    for store in made:
        store.close()
