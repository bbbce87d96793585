"""CrewAI kept quiet and offline, and both ways to Retain: a database in this process, and a service."""

import json
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    OTEL_SDK_DISABLED="true",
    CREWAI_DISABLE_VERSION_CHECK="true",
    CREWAI_TRACING_ENABLED="false",
    CREWAI_TESTING="true",
)

SERVER = "RETAIN_SERVER_BIN"

MakeStorage = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running `retain serve`."""
    command = os.environ.get(SERVER)
    if not command:
        pytest.skip(f"{SERVER} names no `retain` command of an environment with mcp 2")
    database = tmp_path_factory.mktemp("service") / "service.db"
    started = [*shlex.split(command), "serve", "--port", "0", "--json", "--database", str(database)]
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=alone) as process:
        assert process.stdout is not None
        document = b""
        while not document.endswith(b"}\n"):
            document += process.stdout.readline()
        yield json.loads(document)["url"]
        process.terminate()


@pytest.fixture(params=["in process", "over HTTP"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where a storage keeps its records: arguments of `RetainStorage`, the same ones for each call in a test."""
    if request.param == "in process":
        return {"url": tmp_path / "agents.db"}
    namespace = "/test/" + request.node.name.replace("/", "-")
    return {"base_url": request.getfixturevalue("service"), "namespace": namespace}


@pytest.fixture
def make_storage(where: dict[str, Any]) -> Iterator[MakeStorage]:
    """Makes storages that share a database, and closes them at the end."""
    from retain_integrations.crewai import RetainStorage

    made: list[RetainStorage] = []

    def make(**changes: Any) -> RetainStorage:
        made.append(RetainStorage(**{**where, **changes}))
        return made[-1]

    yield make
    for storage in made:
        storage.close()


@pytest.fixture
def storage(make_storage: MakeStorage) -> Any:
    return make_storage()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """No socket connects; returns the addresses that somebody tried."""
    tried: list[Any] = []

    def refuse(self: socket.socket, address: Any, *more: Any) -> None:
        tried.append(address)
        raise OSError("the network is blocked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    return tried
