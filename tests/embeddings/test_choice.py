"""A setting that names no usable model hinders nothing that needs none."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from retain.auth.api_keys import ApiKeys
from retain.bootstrap import choose_embedder, open_service, open_store
from retain.core.ports import Embedder
from retain.core.service import utc_now
from retain.domain.errors import EmbeddingError
from retain.embeddings import open_embedder
from retain.embeddings.deferred import DeferredEmbedder
from retain.embeddings.hashed import HashedEmbedder
from retain.embeddings.model_files import bundled_files
from retain.settings import Settings
from retain.transports.server import serve

NONSENSE = [
    "",
    "/no/such/folder",
    "gpt-4",
    "ftp://host/v1#m",
    "hub:nonsense",
    "http://h/v1",
    "nul\0",
    "x" * 5000,
]


def settings(folder: Path, embedding: str, **more: Any) -> Settings:
    return Settings.model_validate(
        {"database_url": str(folder / "memories.db"), "embedding": embedding, "cache_dir": str(folder), **more}
    )


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder with a database of one memory, made with the built-in model."""
    async with await open_service(settings(tmp_path, "default")) as memory:
        await memory.store("The deploy freeze ends on Friday")
    (tmp_path / "empty").mkdir()
    yield tmp_path


@pytest.mark.parametrize("spec", NONSENSE)
async def test_a_setting_that_names_nothing_says_what_would_at_each_use(spec: str, tmp_path: Path) -> None:
    embedder = open_embedder(spec, cache_dir=tmp_path)
    for use in (embedder.warm_up(), embedder.embed_query("hello"), embedder.embed_passages(["hello"])):
        with pytest.raises(EmbeddingError, match=r"RETAIN_EMBEDDING is .*, expected ") as caught:
            await use
        assert len(str(caught.value)) < 300
    for name in ("model_id", "dimensions", "passage_tokens"):
        with pytest.raises(EmbeddingError, match="RETAIN_EMBEDDING is"):
            getattr(embedder, name)
    await embedder.aclose()


async def test_the_values_that_would_be_understood_are_those_of_the_docs(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="'gpt-4', expected default, the path of a folder"):
        await open_embedder("gpt-4").warm_up()
    assert "| `default` or `all-MiniLM-L6-v2` |" in (Path(__file__).parents[2] / "docs/embeddings.md").read_text()


@pytest.mark.parametrize("spec", ["empty", "no such folder", "gpt-4", "", "hub:foo/bar", "http://127.0.0.1:1/v1"])
async def test_listing_keyword_search_and_export_work_without_a_model(filled: Path, spec: str) -> None:
    spec = str(filled / "empty") if spec == "empty" else spec
    async with await open_service(settings(filled, spec, offline=True)) as memory:
        assert [found.content for found in (await memory.list()).memories] == ["The deploy freeze ends on Friday"]
        assert (await memory.recall("freeze", mode="keyword")).hits
        assert (await memory.recall("deploy freeze", mode="exact")).hits
        assert [record async for record in memory.export()]
        for use in (memory.recall("freeze", mode="semantic"), memory.store("more"), memory.require_ready()):
            with pytest.raises(EmbeddingError, match=r"RETAIN_EMBEDDING|RETAIN_OFFLINE"):
                await use


async def test_listing_never_downloads_and_the_first_recall_does(hub: Any, filled: Path) -> None:
    bundled = bundled_files().folder
    files = {name: (bundled / name).read_bytes() for name in ("model.onnx", "tokenizer.json")}
    hub.put("acme/minilm", files)
    async with await open_service(settings(filled, "hub:acme/minilm", hub_url=hub.url)) as memory:
        assert (await memory.list()).memories
        with pytest.raises(EmbeddingError, match="hub:acme/minilm is not downloaded yet"):
            await memory.require_ready()
        assert hub.requests == []
        with pytest.raises(EmbeddingError, match="acme/minilm@"):  # loaded, and not the model of this database
            await memory.recall("freeze", mode="semantic")
        assert hub.requests != []


def test_choosing_a_hub_model_reaches_no_network(hub: Any, tmp_path: Path) -> None:
    choose_embedder(settings(tmp_path, "hub:acme/minilm", hub_url=hub.url))
    assert hub.requests == []


async def test_the_event_loop_goes_on_while_a_model_is_fetched() -> None:
    fetched = Event()

    def fetch(_: object) -> HashedEmbedder:
        assert fetched.wait(30)
        return HashedEmbedder()

    embedder = DeferredEmbedder("hub:acme/slow", fetch, at_hand=lambda: False)
    answer = asyncio.create_task(embedder.embed_query("hello"))
    await asyncio.sleep(0)
    with pytest.raises(EmbeddingError, match="not downloaded yet"):
        _ = embedder.model_id
    fetched.set()
    assert (await answer).shape == (384,)
    assert embedder.model_id == HashedEmbedder().model_id
    await embedder.aclose()


async def test_a_hub_that_failed_is_asked_again_after_a_pause_only() -> None:
    tries: list[int] = []
    now = 0.0

    def fetch(_: object) -> HashedEmbedder:
        tries.append(1)
        if len(tries) == 1:
            raise EmbeddingError("the hub can't be reached")
        return HashedEmbedder()

    embedder = DeferredEmbedder("hub:a/b", fetch, at_hand=lambda: False, pause_s=30, clock=lambda: now)
    for _ in range(3):
        with pytest.raises(EmbeddingError, match="can't be reached"):
            await embedder.warm_up()
        with pytest.raises(EmbeddingError, match="can't be reached"):
            _ = embedder.model_id
    assert len(tries) == 1
    now = 31
    await embedder.warm_up()
    assert len(tries) == 2


async def test_closing_gives_up_a_download() -> None:
    started = Event()

    def fetch(closed: Any) -> Embedder:
        started.set()
        while not closed():
            pass
        raise EmbeddingError("closed while it was downloaded")

    embedder = DeferredEmbedder("hub:a/b", fetch)  # pyright: ignore[reportArgumentType]
    answer = asyncio.create_task(embedder.warm_up())
    await asyncio.to_thread(started.wait)
    await embedder.aclose()
    with pytest.raises(EmbeddingError, match="closed"):
        await answer


async def test_the_server_is_up_and_degraded_and_says_what_is_missing(filled: Path) -> None:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    chosen = settings(filled, str(filled / "empty"), port=0)
    store = await open_store(chosen)
    key = await ApiKeys(store, utc_now).create("admin")
    await store.aclose()
    serving = asyncio.create_task(serve(chosen, announce=address.set_result, stop=stop))
    async with httpx.AsyncClient(base_url=await asyncio.wait_for(address, 30), headers={"X-API-Key": key}) as client:
        ready = await client.get("/api/health/ready")
        while "is being loaded" in ready.text:
            ready = await client.get("/api/health/ready")
        live = await client.get("/api/health/live")
        keyword = await client.post("/api/memories/search", json={"query": "freeze", "mode": "keyword"})
        semantic = await client.post("/api/memories/search", json={"query": "freeze", "mode": "semantic"})
    stop.set()
    await serving
    assert (ready.status_code, ready.json()["status"]) == (503, "degraded")
    assert "has no model.onnx and no tokenizer.json" in ready.json()["problems"][0]["detail"]
    assert live.status_code == 200
    assert keyword.json()["memories"], keyword.text
    assert (semantic.status_code, semantic.json()["code"]) == (503, "embedding")
    assert "has no model.onnx" in semantic.json()["detail"]
