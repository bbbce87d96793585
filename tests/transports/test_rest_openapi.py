"""The OpenAPI description is true: every operation it names answers, on empty and on filled databases."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retain.core.service import MemoryService
from retain.domain import json_form
from retain.domain.memory import NewMemory, Turn
from retain.embeddings.hashed import HashedEmbedder
from retain.storage.sqlite import SqliteStore
from retain.transports.rest import answers
from tests.conftest import SetClock
from tests.transports.test_access import ID

VALID: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/api/memories"): {"json": {"content": "stored by the sweep", "tags": ["a"]}},
    ("get", "/api/memories"): {"params": {"limit": 5, "tags": "a"}},
    ("post", "/api/memories/batch"): {"json": {"memories": [{"content": "batch 1"}, {"content": "batch 2"}]}},
    ("post", "/api/memories/search"): {"json": {"query": "memory 7", "k": 5}},
    ("post", "/api/memories/delete"): {"json": {"tags": ["a"], "dry_run": True}},
    ("get", "/api/memories/{memory_id}"): {},
    ("patch", "/api/memories/{memory_id}"): {"json": {"tags": ["a", "b"]}},
    ("delete", "/api/memories/{memory_id}"): {},
    ("post", "/api/sessions"): {"json": {"turns": [{"role": "user", "content": "hello"}]}},
    ("get", "/api/tags"): {"params": {"minimum_use": 1}},
    ("post", "/api/tags/rename"): {"json": {"old": "a", "new": "c"}},
    ("post", "/api/tags/merge"): {"json": {"sources": ["b"], "target": "c"}},
    ("get", "/api/namespaces"): {"params": {"namespace": "/"}},
    ("get", "/api/types"): {},
    ("post", "/api/types"): {"json": {"type": "recipe"}},
    ("get", "/api/stats"): {},
    ("get", "/api/export"): {},
    ("post", "/api/import"): {"content": b'{"kind": "header", "format": "retain", "version": 1}\n'},
    ("get", "/api/health"): {},
    ("get", "/api/health/live"): {},
    ("get", "/api/health/ready"): {},
}
STREAMS = {("get", "/api/events")}


@pytest.fixture
def service(store: SqliteStore, clock: SetClock) -> MemoryService:
    """The core with the quick embedder: what is found does not matter here."""
    return MemoryService(store, HashedEmbedder(), clock=clock)


def operations(description: dict[str, Any]) -> set[tuple[str, str]]:
    return {(method, path) for path, item in description["paths"].items() for method in item}


async def test_every_operation_has_a_valid_request_here(rest: httpx.AsyncClient) -> None:
    description = (await rest.get("/openapi.json")).json()
    assert operations(description) == VALID.keys() | STREAMS


@pytest.mark.parametrize("rows", [0, 1, 200])
@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword", "exact"])
async def test_no_operation_fails_on_a_valid_request(
    rows: int, mode: str, rest: httpx.AsyncClient, service: MemoryService
) -> None:
    memory_id = ID
    if rows:
        news = [NewMemory(content=f"memory {number}", tags=["a", "b"]) for number in range(rows)]
        memory_id = (await service.store_many(news))[0].memory.id
    removes = [("delete", "/api/memories/{memory_id}")]
    stores = [("post", "/api/memories"), ("post", "/api/memories/batch"), ("post", "/api/sessions")]
    others = sorted(VALID.keys() - set(removes) - set(stores))
    for method, path in others + removes + stores:
        request = dict(VALID[method, path])
        if path.endswith("/search"):
            request["json"] = {**request["json"], "mode": mode}
        answer = await rest.request(method, path.format(memory_id=memory_id), **request)
        absent = not rows and ("{" in path or "/tags/" in path)
        assert answer.status_code == 404 if absent else answer.is_success, (method, path, answer.text)


async def test_the_described_answers_have_just_the_fields_that_are_sent(
    rest: httpx.AsyncClient, service: MemoryService
) -> None:
    session = await service.store_session([Turn(role="user", content="a needle")], mode="session")
    stored = await service.store("another needle")
    pairs: list[tuple[type, dict[str, Any]]] = [
        (answers.MemoryAnswer, json_form.memory_to_json(session.stored[0].memory)),
        (answers.StoredAnswer, json_form.stored_to_json(stored)),
        (answers.SessionAnswer, json_form.stored_session_to_json(session)),
        (answers.StatsAnswer, (await rest.get("/api/stats")).json()),
        (answers.RecallAnswer, (await rest.post("/api/memories/search", json={"query": "needle"})).json()),
        (answers.ListingAnswer, (await rest.get("/api/memories")).json()),
        (answers.NamespacesAnswer, (await rest.get("/api/namespaces")).json()),
        (answers.TypesAnswer, (await rest.get("/api/types")).json()),
    ]
    for model, form in pairs:
        strict = type(model.__name__, (model,), {"model_config": {"extra": "forbid"}})
        assert strict.model_validate(form).model_dump(exclude_unset=True) == form  # type: ignore[attr-defined]
        assert {name for name, field in model.model_fields.items() if field.is_required()} <= form.keys()  # type: ignore[attr-defined]


async def test_the_page_describes_every_operation_without_fetching_anything(rest: httpx.AsyncClient) -> None:
    description = (await rest.get("/openapi.json")).json()
    page = await rest.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in description["paths"]:
        assert f"<code>{path}</code>" in page.text
    assert "<script" not in page.text
    assert "src=" not in page.text
    assert "http" not in page.text.replace('"openapi.json"', "")
    assert (await rest.get("/")).headers["location"] == "docs"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "content",
    "query",
    "tags",
    "types",
    "k",
    "since",
    "time",
    "metadata",
    "turns",
    "memories",
    "mode",
    "ids",
    "states",
    "namespace",
    "occurred_at",
    "sources",
    "target",
    "old",
    "new",
    "type",
    "sequence",
    "archived",
]
POSTS = sorted(path for method, path in VALID if method == "post" and path != "/api/import")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(POSTS), body=st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4))
async def test_no_body_makes_the_service_fail(path: str, body: dict[str, Any], rest: httpx.AsyncClient) -> None:
    answer = await rest.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code < 500, answer.text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/api/memories", "/api/tags", "/api/export"]),
    query=st.dictionaries(
        st.sampled_from([*FIELDS, "limit", "cursor", "minimum_use"]), st.text(max_size=12), max_size=3
    ),
)
async def test_no_query_makes_the_service_fail(path: str, query: dict[str, str], rest: httpx.AsyncClient) -> None:
    answer = await rest.get(path, params=query)
    assert answer.status_code < 500, answer.text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from([*POSTS, "/api/import"]), body=st.binary(max_size=60))
async def test_no_bytes_make_the_service_fail(path: str, body: bytes, rest: httpx.AsyncClient) -> None:
    answer = await rest.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code < 500, answer.text
