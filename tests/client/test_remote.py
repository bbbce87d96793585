"""`RemoteMemory`: the same values and errors as in process, over a connection that may fail."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

import retain
from retain.auth.api_keys import ApiKeys
from retain.client import RemoteMemory
from retain.client.connection import ERRORS, checked_url
from retain.client.events import Message, parsed_events
from retain.core.api import MemoryAPI
from retain.core.service import MemoryService
from retain.domain.json_form import recall_to_json
from retain.domain.memory import EVERYTHING, STATES, Filter, MemoryPatch, NewMemory, Page, Turn
from retain.settings import Settings
from retain.storage.sqlite import SqliteStore
from retain.transports.errors import RENDERINGS
from retain.transports.server import create_app
from tests.conftest import SetClock

BASE_URL = "http://127.0.0.1:8000"
Handler = Callable[[httpx.Request], Awaitable[httpx.Response]]


@pytest.fixture
async def remote(service: MemoryService, store: SqliteStore, clock: SetClock) -> AsyncIterator[RemoteMemory]:
    app = create_app(service, ApiKeys(store, clock), Settings())
    async with RemoteMemory(BASE_URL, transport=httpx.ASGITransport(app)) as memory:
        yield memory


def never_sleeps(memory: RemoteMemory) -> list[float]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    memory._connection._sleep = sleep  # type: ignore[reportPrivateUsage]
    return pauses


class Flaky(httpx.AsyncBaseTransport):
    """Fails as told, then lets requests through; `after` failures lose the answer, not the request."""

    def __init__(self, inner: httpx.AsyncBaseTransport, failures: list[object]) -> None:
        self._inner = inner
        self.failures = failures
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, httpx.Response):
            return failure
        if isinstance(failure, httpx.ReadError):
            await (await self._inner.handle_async_request(request)).aread()
        if isinstance(failure, Exception):
            raise failure
        return await self._inner.handle_async_request(request)


@pytest.fixture
def flaky(service: MemoryService, store: SqliteStore, clock: SetClock) -> Callable[..., tuple[RemoteMemory, Flaky]]:
    def make(*failures: object) -> tuple[RemoteMemory, Flaky]:
        app = create_app(service, ApiKeys(store, clock), Settings())
        transport = Flaky(httpx.ASGITransport(app), list(failures))
        memory = RemoteMemory(BASE_URL, transport=transport)
        never_sleeps(memory)
        return memory, transport

    return make


def answering(handler: Callable[[httpx.Request], httpx.Response], **given: Any) -> RemoteMemory:
    memory = RemoteMemory(BASE_URL, transport=httpx.MockTransport(handler), **given)
    never_sleeps(memory)
    return memory


# -- the same as in process ---------------------------------------------------------------------------------------


def test_it_has_every_method_of_the_interface() -> None:
    names = {name for name in vars(MemoryAPI) if not name.startswith("_")}
    assert names <= vars(RemoteMemory).keys()


async def test_every_field_goes_over_and_comes_back(remote: RemoteMemory, service: MemoryService) -> None:
    old = await remote.store("old", namespace="/p")
    new = NewMemory(
        content="all 🔥 fields", type="decision", tags=["c,d", "x"], metadata={"n": [1, None]}, namespace="/p",
        agent_id="r1", conversation_id="c1", sequence=0, supersedes=old.memory.id,
        occurred_at=datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
    )  # fmt: skip
    stored = await remote.store(new)
    assert stored.memory == await service.get(stored.memory.id) == await remote.get(stored.memory.id)
    assert stored.memory.tags == ("c,d", "x", "agent:r1")
    assert (await remote.get(old.memory.id)).superseded_by == stored.memory.id


async def test_reads_are_equal_to_those_in_process(remote: RemoteMemory, service: MemoryService) -> None:
    for number in range(5):
        await remote.store(f"memory {number} of many", tags=["even" if number % 2 == 0 else "odd"])
    await remote.store_session([Turn(role="user", content="hello there")], mode="session", conversation_id="c")
    where = Filter(tags=["even"], states=STATES, since=datetime(2020, 1, 1), metadata={})
    assert recall_to_json(await remote.recall("memory 3", k=3)) == recall_to_json(await service.recall("memory 3", k=3))
    assert await remote.recall("", where=where) == await service.recall("", where=where)
    assert await remote.list(where) == await service.list(where)
    page = await remote.list(EVERYTHING, Page(limit=4))
    assert await remote.list(EVERYTHING, Page(4, page.next_cursor)) == await service.list(
        EVERYTHING, Page(4, page.next_cursor)
    )
    assert list(await remote.tags(where)) == list(await service.tags(where))
    assert list(await remote.types()) == list(await service.types())
    assert await remote.stats() == await service.stats()
    assert [record async for record in remote.export()] == [record async for record in service.export()]


@pytest.mark.parametrize(
    "where",
    [
        Filter(tags=["a,b"]), Filter(tags="a,b", tag_match="all"), Filter(ids=()), Filter(types=["pattern"]),
        Filter(exclude_tags=["a,b"]), Filter(metadata={"k": "v"}), Filter(namespace="/p"), Filter(agent_id="r"),
        Filter(conversation_id="c"), Filter(time="yesterday", timezone="Europe/Berlin"),
        Filter(states=frozenset(("archived",))), Filter(until=datetime(2026, 11, 30, tzinfo=UTC)),
    ],
    ids=str,
)  # fmt: skip
async def test_every_condition_means_the_same_as_in_process(
    where: Filter, remote: RemoteMemory, service: MemoryService
) -> None:
    await service.store("one", tags=["a,b"], type="convention", metadata={"k": "v"}, namespace="/p", agent_id="r")
    await service.store("two", tags=["a", "b"], conversation_id="c", occurred_at=datetime(2026, 11, 29, 12, tzinfo=UTC))
    three = await service.store("three")
    await service.update(three.memory.id, MemoryPatch(archived=True))
    assert await remote.list(where) == await service.list(where)
    assert (await remote.recall("", where=where)).hits == (await service.recall("", where=where)).hits
    assert list(await remote.tags(where)) == list(await service.tags(where))
    assert (await remote.delete_many(where, dry_run=True)) == (await service.delete_many(where, dry_run=True))
    remotely = [record async for record in remote.export(where)]
    assert remotely == [record async for record in service.export(where)]


FAULTS: dict[str, Callable[[MemoryAPI], Awaitable[object]]] = {
    "blank content": lambda memory: memory.store(" "),
    "half a character": lambda memory: memory.store("\ud83d"),
    "half a character in a query": lambda memory: memory.list(Filter(namespace="\ud83d")),
    "NUL": lambda memory: memory.store("a\0"),
    "NaN in metadata": lambda memory: memory.store("x", metadata={"a": float("nan")}),
    "unknown field": lambda memory: memory.store("x", colour="red"),  # type: ignore[call-arg]
    "unknown type": lambda memory: memory.store("x", type="unheard-of"),
    "too long": lambda memory: memory.store("x" * 200_001),
    "no id": lambda memory: memory.get("42"),
    "unknown id": lambda memory: memory.get("01a22ee4-9af5-76bb-91da-fb04d6ba91fd"),
    "unknown id to delete": lambda memory: memory.delete("01a22ee4-9af5-76bb-91da-fb04d6ba91fd"),
    "k": lambda memory: memory.recall("x", k=0),
    "large k": lambda memory: memory.recall("x", k=5_000),
    "mode": lambda memory: memory.recall("x", mode="odd"),  # type: ignore[arg-type]
    "min_score": lambda memory: memory.recall("x", min_score=float("nan")),
    "time": lambda memory: memory.recall("x", where=Filter(time="never ever")),
    "cursor": lambda memory: memory.list(Filter(), Page(5, "odd")),
    "no batch": lambda memory: memory.store_many([]),
    "no turns": lambda memory: memory.store_session([]),
    "sequence of a session": lambda memory: memory.store_session([Turn(role="u", content="x")], sequence=1),
    "delete everything": lambda memory: memory.delete_many(Filter()),
    "expected count": lambda memory: memory.delete_many(Filter(tags=["x"]), expected_count=3),
    "unused tag": lambda memory: memory.merge_tags(["unused"], "x"),
    "built-in type": lambda memory: memory.register_type("decision"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_errors_are_the_same_as_in_process(fault: str, remote: RemoteMemory, service: MemoryService) -> None:
    caught: list[retain.RetainError] = []
    for memory in (service, remote):
        with pytest.raises(retain.RetainError) as error:
            await FAULTS[fault](memory)
        caught.append(error.value)
    assert type(caught[0]) is type(caught[1])


def test_every_error_code_has_its_class() -> None:
    assert ERRORS.keys() == RENDERINGS.keys()


async def test_an_empty_text_in_a_patch_is_refused_and_not_taken_for_absent(remote: RemoteMemory) -> None:
    memory = (await remote.store("x", tags=["a"])).memory
    with pytest.raises(retain.InvalidInputError):
        await remote.update(memory.id, MemoryPatch(content=""))
    cleared = await remote.update(memory.id, MemoryPatch(tags="", archived=True, metadata={}))
    assert (cleared.tags, cleared.state) == ((), "archived")


async def test_an_import_over_http_restores_an_export(remote: RemoteMemory) -> None:
    await remote.store("kept", tags=["🔥"])
    records = [record async for record in remote.export()]
    assert (await remote.delete_many(EVERYTHING, expected_count=1)).count == 1

    async def lines() -> AsyncIterator[Any]:
        for record in records:
            yield record

    imported = await remote.import_records(lines())
    assert imported.created == 1
    assert [record async for record in remote.export()][1] == records[1]


# -- failing connections ------------------------------------------------------------------------------------------

LOST = httpx.ReadError("connection reset")
DOWN = httpx.ConnectError("refused")


async def test_a_store_whose_answer_was_lost_is_sent_again_and_stored_once(
    flaky: Callable[..., tuple[RemoteMemory, Flaky]],
) -> None:
    memory, transport = flaky(LOST, LOST)
    stored = await memory.store("once")
    assert stored.created
    assert len({request.headers["idempotency-key"] for request in transport.requests}) == 1
    assert (await memory.list()).total == 1


async def test_a_delete_whose_answer_was_lost_is_done(flaky: Callable[..., tuple[RemoteMemory, Flaky]]) -> None:
    memory, transport = flaky()
    stored = await memory.store("gone soon")
    transport.failures.append(LOST)
    await memory.delete(stored.memory.id)
    with pytest.raises(retain.NotFoundError):
        await memory.delete(stored.memory.id)


async def test_what_can_not_be_repeated_is_not_sent_again(flaky: Callable[..., tuple[RemoteMemory, Flaky]]) -> None:
    memory, transport = flaky(LOST)
    with pytest.raises(retain.StoreUnavailableError):
        await memory.delete_many(Filter(tags=["x"]))
    assert len(transport.requests) == 1


async def test_a_service_that_is_busy_is_asked_again_with_growing_pauses(
    flaky: Callable[..., tuple[RemoteMemory, Flaky]],
) -> None:
    memory, _ = flaky(DOWN, httpx.Response(503), DOWN)
    pauses = never_sleeps(memory)
    assert (await memory.stats()).total == 0
    assert len(pauses) == 3
    assert pauses == sorted(pauses)


async def test_a_failing_model_is_not_asked_again() -> None:
    calls: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        form = {"code": "embedding", "detail": "the model is missing", "field": None}
        return httpx.Response(503, content=json.dumps(form), headers={"content-type": "application/problem+json"})

    with pytest.raises(retain.EmbeddingError, match="the model is missing"):
        await answering(handler).recall("x")
    assert len(calls) == 1


async def test_a_service_that_is_down_says_how_to_start_it() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise DOWN

    with pytest.raises(retain.StoreUnavailableError, match="retain serve"):
        await answering(handler).stats()


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (httpx.Response(200, text="<html>hello"), retain.StoreError, "check the URL"),
        (httpx.Response(200, json=[1]), retain.StoreError, "check the URL"),
        (httpx.Response(302, headers={"location": "https://login.test/"}), retain.StoreError, "login.test"),
        (httpx.Response(404, text="nginx"), retain.StoreError, "404"),
        (httpx.Response(502, text="bad gateway"), retain.StoreUnavailableError, "502"),
    ],
    ids=["html", "list", "redirect", "404", "502"],
)
async def test_what_is_not_retain_is_told_apart(
    answer: httpx.Response, error: type[retain.RetainError], match: str
) -> None:
    with pytest.raises(error, match=match):
        await answering(lambda request: answer).stats()


# -- addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "asked"),
    [
        ("https://mem.example.test", "https://mem.example.test/api/stats"),
        ("http://h", "http://h/api/stats"),
        ("http://h:8000/", "http://h:8000/api/stats"),
        ("https://h/team/memory", "https://h/team/memory/api/stats"),
        ("https://h/team/memory/", "https://h/team/memory/api/stats"),
        ("http://[::1]:8000", "http://[::1]:8000/api/stats"),
    ],
)
async def test_ports_default_and_path_prefixes_stay(base_url: str, asked: str) -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(404)

    memory = RemoteMemory(base_url, transport=httpx.MockTransport(handler))
    with pytest.raises(retain.StoreError):
        await memory.stats()
    assert seen == [asked]


@pytest.mark.parametrize(
    "base_url",
    ["h", "", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://u:p@h", "http://h?x=1", "http://[::1"],
)
def test_an_impossible_address_is_refused_at_once(base_url: str) -> None:
    with pytest.raises(retain.InvalidInputError, match="is no URL of a service"):
        checked_url(base_url)


async def test_key_and_agent_go_with_every_request_and_the_key_into_no_url() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(404)

    memory = answering(handler, api_key="rtn_secret", agent_id="forscher-ü")
    with pytest.raises(retain.StoreError):
        await memory.list(Filter(tags=["x"]))
    assert seen[0].headers["authorization"] == "Bearer rtn_secret"
    assert dict(seen[0].headers.raw)[b"x-agent-id"] == "forscher-ü".encode()
    assert "secret" not in str(seen[0].url)


@pytest.mark.parametrize("key", ["a\nb", "ü", "\ud83d"])
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(retain.InvalidInputError):
        RemoteMemory(BASE_URL, api_key=key)


# -- events -------------------------------------------------------------------------------------------------------


def sse(*events: int) -> bytes:
    form = {
        "kind": "stored",
        "memory_id": "m",
        "namespace": "/",
        "at": "2026-01-01T00:00:00Z",
        "type": None,
        "tags": [],
    }
    return b"".join(
        f"id: {seq}\nevent: stored\ndata: {json.dumps({**form, 'seq': seq})}\n\n".encode() for seq in events
    )


async def test_a_broken_stream_is_resumed_after_the_last_event() -> None:
    asked: list[str | None] = []
    answers: list[bytes | Exception] = [b"id: 4\n\n" + sse(5, 6), DOWN, b": hello\n\nid: 6\n\n" + sse(7)]

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("last-event-id"))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200, content=answer)

    memory = answering(handler)
    seen: list[int] = []
    events = memory.events()
    async for event in events:
        seen.append(event.seq)
        if event.seq == 7:
            break
    await events.aclose()  # type: ignore[attr-defined]
    assert seen == [5, 6, 7]
    assert asked == [None, "6", "6"]


async def test_a_stream_gives_up_when_the_service_stays_away() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise DOWN

    with pytest.raises(retain.StoreUnavailableError, match="retain serve"):
        await anext(aiter(answering(handler).events()))


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_events_are_read_however_the_stream_is_cut(size: int) -> None:
    raw = b": comment\nretry: 1000\nid: 1\n\n" + "id: 2\r\ndata: ü\r\ndata: 2\r\n\r\n".encode() + b"data: cut off"

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(raw), size):
            yield raw[start : start + size]

    assert [message async for message in parsed_events(chunks())] == [Message(1, ""), Message(2, "ü\n2")]


def test_the_synchronous_twin_works_over_http(tmp_path: Any) -> None:
    import threading

    from retain.transports.server import serve

    settings = Settings(database_url=str(tmp_path / "a.db"), port=0, embedding="hashed")
    ready, urls = threading.Event(), []
    stop: list[Callable[[], None]] = []

    async def run() -> None:
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(event.set))  # type: ignore[arg-type,return-value]
        await serve(settings, announce=lambda url: (urls.append(url), ready.set()), stop=event)  # type: ignore[func-returns-value]

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(30)
        with retain.connect(urls[0]) as memory:
            memory.store("hello", tags=["a"])
            assert [hit.memory.content for hit in memory.recall("hello").hits] == ["hello"]
            for event in memory.events(after=0):
                assert event.kind == "stored"
                break
            assert len(list(memory.export())) == 2
    finally:
        stop[0]()
        thread.join(20)
    assert not thread.is_alive()


async def test_an_answer_that_lacks_everything_is_not_taken_for_one_of_retain() -> None:
    async def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={})

    memory = RemoteMemory(BASE_URL, transport=httpx.MockTransport(handler))
    for ask in (lambda: memory.store_many(["x"]), lambda: memory.recall("x"), memory.list, memory.namespaces):
        with pytest.raises(retain.StoreError, match="does not answer like Retain"):
            await ask()


async def test_a_service_that_takes_too_long_is_not_asked_again() -> None:
    asked = []

    async def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise httpx.ReadTimeout("")

    memory = RemoteMemory(BASE_URL, transport=httpx.MockTransport(handler))
    with pytest.raises(retain.StoreUnavailableError, match="did not answer within 120 s"):
        await memory.recall("x")
    assert len(asked) == 1


def test_an_address_is_text() -> None:
    with pytest.raises(retain.InvalidInputError, match="base_url must be text, not int"):
        RemoteMemory(5)  # type: ignore[arg-type]


def test_an_address_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(retain.InvalidInputError) as refused:
        RemoteMemory("http://user:geheim@host")
    assert "geheim" not in str(refused.value)
