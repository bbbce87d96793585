"""REST as programs see it: routes, problems, forms."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from retain.core.service import MemoryService
from retain.transports.access import BODY_LIMIT
from retain.transports.logs import OneLine
from tests.transports.test_access import ID, problem_of

SURROGATE = b'"ok \\ud83d end"'
JSON = {"Content-Type": "application/json"}


async def stored(rest: httpx.AsyncClient, content: str, **fields: object) -> dict[str, Any]:
    answer = await rest.post("/api/memories", json={"content": content, **fields})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["memory"]


async def found(rest: httpx.AsyncClient, **fields: object) -> list[str]:
    answer = await rest.post("/api/memories/search", json=fields)
    assert answer.status_code == 200, answer.text
    return [memory["content"] for memory in answer.json()["memories"]]


# -- storing ------------------------------------------------------------------------------------------------------


async def test_a_new_memory_is_201_with_its_address_and_the_same_text_again_200(rest: httpx.AsyncClient) -> None:
    first = await rest.post("/api/memories", json={"content": "Use uv, not pip.", "tags": ["a"]})
    again = await rest.post("/api/memories", json={"content": "Use uv, not pip.", "tags": ["b"]})
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["created"], again.json()["created"]) == (True, False)
    assert again.json()["memory"]["id"] == first.json()["memory"]["id"]
    assert again.json()["memory"]["tags"] == ["a", "b"]
    assert (await rest.get(first.headers["location"])).json()["content"] == "Use uv, not pip."


async def test_a_correction_is_stored_and_says_what_it_resembles(rest: httpx.AsyncClient) -> None:
    old = await stored(rest, "The rate limit is 100/min")
    answer = await rest.post("/api/memories", json={"content": "The rate limit is 250/min"})
    assert answer.status_code == 201
    assert [similar["id"] for similar in answer.json()["similar_to"]] == [old["id"]]


async def test_sending_a_store_again_in_parallel_and_in_sequence_stores_once(rest: httpx.AsyncClient) -> None:
    body = {"content": "retried"}
    answers = await asyncio.gather(*(rest.post("/api/memories", json=body) for _ in range(3)))
    answers += [await rest.post("/api/memories", json=body) for _ in range(3)]
    assert len({answer.json()["memory"]["id"] for answer in answers}) == 1
    assert (await rest.get("/api/memories")).json()["total"] == 1


async def test_an_idempotency_key_repeats_the_answer_and_refuses_another_request(rest: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = await rest.post("/api/memories", json={"content": "one"}, headers=headers)
    again = await rest.post("/api/memories", json={"content": "one"}, headers=headers)
    other = await rest.post("/api/memories", json={"content": "two"}, headers=headers)
    assert (first.status_code, again.status_code, other.status_code) == (201, 201, 409)
    assert first.json()["memory"] == again.json()["memory"]


@pytest.mark.parametrize("path", ["/api/memories", "/api/memories/batch", "/api/sessions"])
@pytest.mark.parametrize("values", [["a", "b"], [""], ["x" * 201]], ids=["two", "empty", "long"])
async def test_an_impossible_idempotency_key_is_refused(path: str, values: list[str], rest: httpx.AsyncClient) -> None:
    body = {
        "/api/memories": {"content": "x"},
        "/api/memories/batch": {"memories": [{"content": "x"}]},
        "/api/sessions": {"turns": [{"role": "user", "content": "x"}]},
    }[path]
    answer = await rest.post(path, json=body, headers=[("Idempotency-Key", value) for value in values])
    assert 400 <= answer.status_code < 500
    problem_of(answer)


async def test_a_batch_is_stored_whole_or_not_at_all(rest: httpx.AsyncClient) -> None:
    bad = await rest.post("/api/memories/batch", json={"memories": [{"content": "good"}, {"content": " "}]})
    assert bad.status_code == 422
    assert "memories[1]" in str(problem_of(bad)["detail"])
    assert (await rest.get("/api/memories")).json()["total"] == 0
    good = await rest.post("/api/memories/batch", json={"memories": [{"content": "a"}, {"content": "b"}]})
    assert [one["memory"]["content"] for one in good.json()["stored"]] == ["a", "b"]


@pytest.mark.parametrize("mode", ["turn", "session"])
async def test_a_session_is_stored_in_both_modes(mode: str, rest: httpx.AsyncClient) -> None:
    turns = [{"role": "user", "content": "When is the freeze?"}, {"role": "assistant", "content": "On Friday."}]
    answer = await rest.post("/api/sessions", json={"turns": turns, "mode": mode, "conversation_id": "c1"})
    assert answer.status_code == 201
    assert answer.json()["conversation_id"] == "c1"
    assert len(answer.json()["stored"]) == {"turn": 2, "session": 1}[mode]
    listed = (await rest.get("/api/memories", params={"conversation_id": "c1"})).json()
    assert listed["total"] == len(answer.json()["stored"])


@pytest.mark.parametrize("sent", [["x", "y"], "x,y", '["x","y"]'], ids=["list", "commas", "json"])
@pytest.mark.parametrize("asked", [["x", "y"], "x,y", '["x","y"]'], ids=["list", "commas", "json"])
async def test_tags_are_the_same_as_list_commas_or_json(sent: object, asked: object, rest: httpx.AsyncClient) -> None:
    await stored(rest, "tagged", tags=sent)
    assert await found(rest, query="", tags=asked, tag_match="all") == ["tagged"]
    query = {"tags": asked, "tag_match": "all"}
    assert (await rest.get("/api/memories", params=query)).json()["total"] == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "tag", ["a_b", "50%", "back\\slash", "a*b", "[x]", "c++", "🔥", "C#", "a/b", "two words", "agent:r", "Art", 'q"q']
)
async def test_a_tag_is_an_opaque_string(tag: str, rest: httpx.AsyncClient) -> None:
    for number, other in enumerate([tag, "axb", "5000", "smart", "a", "ab"]):
        await stored(rest, f"memory {number}", tags=[other])
    assert await found(rest, query="", tags=[tag]) == ["memory 0"]
    await rest.post("/api/tags/rename", json={"old": tag, "new": "renamed"})
    assert await found(rest, query="", tags=["renamed"]) == ["memory 0"]
    deleted = await rest.post("/api/memories/delete", json={"tags": ["renamed"], "expected_count": 1})
    assert deleted.json()["count"] == 1


async def test_a_tag_that_is_too_long_is_named_and_nothing_is_stored(rest: httpx.AsyncClient) -> None:
    answer = await rest.post("/api/memories", json={"content": "x", "tags": ["file:///C:/x", "a" * 101]})
    assert answer.status_code == 413
    assert "aaaa" in str(problem_of(answer)["detail"])
    assert (await rest.get("/api/memories")).json()["total"] == 0


async def test_every_character_comes_back_as_it_was_sent(rest: httpx.AsyncClient) -> None:
    text = "👩‍👩‍👧‍👦 family 🇨🇭 שלום עולם مرحبا é \u202eabc  \u2028 \x1b[2J"
    memory = await stored(rest, text, metadata={"🔥": [text, {"n": 1.5, "z": None}]})
    read = (await rest.get(f"/api/memories/{memory['id']}")).json()
    assert read == memory
    assert (read["content"], read["metadata"]) == (text, {"🔥": [text, {"n": 1.5, "z": None}]})


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/memories", b'{"content": %b}'),
        ("/api/memories", b'{"content": "x", "tags": [%b]}'),
        ("/api/memories", b'{"content": "x", "tags": %b}'),
        ("/api/memories", b'{"content": "x", "metadata": {%b: 1}}'),
        ("/api/memories", b'{"content": "x", "metadata": {"a": [%b]}}'),
        ("/api/memories", b'{"content": "x", "namespace": %b}'),
        ("/api/memories", b'{"content": "x", "type": %b}'),
        ("/api/memories", b'{"content": "x", "occurred_at": %b}'),
        ("/api/memories", b'{"content": "x", "supersedes": %b}'),
        ("/api/memories", b'{"content": "x", %b: 1}'),
        ("/api/memories/search", b'{"query": %b}'),
        ("/api/memories/search", b'{"query": "x", "mode": %b}'),
        ("/api/memories/search", b'{"query": "x", "time": %b}'),
        ("/api/memories/search", b'{"query": "x", "timezone": %b}'),
        ("/api/memories/search", b'{"query": "x", "ids": [%b]}'),
        ("/api/memories/search", b'{"query": "x", "states": %b}'),
        ("/api/sessions", b'{"turns": [{"role": %b, "content": "x"}]}'),
        ("/api/tags/merge", b'{"sources": [%b], "target": "x"}'),
        ("/api/types", b'{"type": %b}'),
        ("/api/memories/batch", b'{"memories": [{"content": %b}]}'),
    ],
)
async def test_half_of_a_character_is_422_wherever_it_stands(
    path: str, body: bytes, rest: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await rest.post(path, content=body % SURROGATE, headers=JSON)
    assert answer.status_code == 422
    problem_of(answer)
    caplog.text.encode()
    assert (await rest.get("/api/memories")).json()["total"] == 0


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/memories", {"content": "x", "tag": ["a"]}, "tag"),
        ("/api/memories", {"content": "x", "id": ID}, "id"),
        ("/api/memories/search", {"query": "x", "limit": 3}, "limit"),
        ("/api/memories/search", {"q": "x"}, "q"),
        ("/api/memories/delete", {"tag": "a"}, "tag"),
        ("/api/memories/batch", {"memories": [{"content": "x", "tag": 1}]}, "memories[0].tag"),
        ("/api/sessions", {"turns": [{"role": "user", "content": "x", "name": 1}]}, "turns[0].name"),
        ("/api/sessions", {"turns": [], "sequence": 1}, "sequence"),
        ("/api/types", {"name": "x"}, "name"),
    ],
)
async def test_an_unknown_field_is_refused_by_name_and_nothing_happens(
    path: str, body: object, field: str, rest: httpx.AsyncClient
) -> None:
    kept = await stored(rest, "kept", tags=["a"])
    answer = await rest.post(path, json=body)
    assert answer.status_code == 422
    assert problem_of(answer)["field"] == field
    listed = (await rest.get("/api/memories")).json()["memories"]
    assert [memory["id"] for memory in listed] == [kept["id"]]


@pytest.mark.parametrize(
    "path",
    [
        "/api/memories",
        f"/api/memories/{ID}",
        "/api/tags",
        "/api/types",
        "/api/stats",
        "/api/export",
        "/api/events",
        "/api/health",
        "/api/health/live",
    ],
)
async def test_an_unknown_query_parameter_is_refused_by_name(path: str, rest: httpx.AsyncClient) -> None:
    answer = await rest.get(path, params={"colour": "red"})
    assert answer.status_code == 422
    assert problem_of(answer)["field"] == "colour"


@pytest.mark.parametrize(
    ("fields", "field", "status"),
    [
        ({"k": 0}, "k", 422),
        ({"k": -1}, "k", 422),
        ({"k": 1001}, "k", 413),
        ({"k": 10**30}, "k", 413),
        ({"k": True}, "k", 422),
        ({"k": 1.5}, "k", 422),
        ({"k": []}, "k", 422),
        ({"min_score": 2}, "min_score", 422),
        ({"min_score": "x"}, "min_score", 422),
        ({"mode": "telepathic"}, "mode", 422),
        ({"tag_match": "everything"}, "tag_match", 422),
        ({"group_by": "day"}, "group_by", 422),
        ({"types": "unheard-of"}, "types", 422),
        ({"since": "2026-02-30"}, "since", 422),
        ({"until": "soon"}, "until", 422),
        ({"since": True}, "since", 422),
        ({"since": 1e300}, "since", 422),
        ({"since": "2026-02-02", "until": "2026-02-01"}, "since", 422),
        ({"time": "the day after never"}, "time", 422),
        ({"timezone": "Mars/Olympus", "time": "yesterday"}, "timezone", 422),
        ({"ids": ["42"]}, "ids", 422),
        ({"states": ["gone"]}, "states", 422),
        ({"metadata": [1]}, "metadata", 422),
        ({"metadata": "{"}, "metadata", 422),
        ({"tags": {"a": 1}}, "tags", 422),
        ({"tags": [1]}, "tags", 422),
        ({"namespace": "/a//b"}, "namespace", 422),
        ({"query": "x" * 10_001}, "query", 413),
        ({"query": 5}, "query", 422),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_an_impossible_search_names_the_field(
    fields: dict[str, object], field: str, status: int, rest: httpx.AsyncClient
) -> None:
    answer = await rest.post("/api/memories/search", json={"query": "x", **fields})
    assert answer.status_code == status
    assert problem_of(answer)["field"] == field


@pytest.mark.parametrize("fields", [{"content": ""}, {"content": " \n"}, {"content": "a\0b"}, {}, {"content": None}])
async def test_content_that_is_none_is_refused(fields: dict[str, object], rest: httpx.AsyncClient) -> None:
    answer = await rest.post("/api/memories", json=fields)
    assert answer.status_code == 422
    assert problem_of(answer)["field"] == "content"


@pytest.mark.parametrize("size", [1_048_576, 2 * 1_048_576])
async def test_a_megabyte_of_text_is_413_and_never_cut(size: int, rest: httpx.AsyncClient) -> None:
    answer = await rest.post("/api/memories", json={"content": "a" * size})
    assert answer.status_code == 413
    assert problem_of(answer)["field"] == "content"
    assert (await rest.get("/api/memories")).json()["total"] == 0


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 422),
        (b"\xff\xfe\x00", "application/json", 400),
        (b"[" * 200_000, "application/json", 400),
        (b'{"content": ' + b"1" * 10_000 + b"}", "application/json", 400),
        (b"[]", "application/json", 422),
        (b"null", "application/json", 422),
        (b"content=x", "application/x-www-form-urlencoded", 415),
        (b'{"content": "x"}', "text/plain", 415),
        (b'{"content": "x"}', "", 415),
    ],
    ids=range(10),
)
async def test_a_body_that_is_no_json_object_is_refused(
    body: bytes, kind: str, status: int, rest: httpx.AsyncClient
) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = await rest.post("/api/memories", content=body, headers=headers)
    assert answer.status_code == status
    problem_of(answer)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "not_found"),
        ("GET", "/api/memories/", 404, "not_found"),
        ("GET", "/%00%0d%0a", 404, "not_found"),
        ("PUT", "/api/memories", 405, "method_not_allowed"),
        ("OPTIONS", "/api/memories", 405, "method_not_allowed"),
        ("GET", f"/api/memories/{ID}", 404, "not_found"),
        ("GET", "/api/memories/not-an-id", 422, "invalid_input"),
        ("GET", "/api/memories/%ED%A0%BD", 422, "invalid_input"),
    ],
)
async def test_what_is_not_there_is_a_problem_document(
    method: str, path: str, status: int, code: str, rest: httpx.AsyncClient
) -> None:
    answer = await rest.request(method, path)
    assert answer.status_code == status
    assert problem_of(answer)["code"] == code
    if status == 405:
        assert "POST" in answer.headers["allow"]


async def test_an_unexpected_failure_is_a_problem_without_traceback_and_is_logged(
    rest: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: MemoryService) -> None:
        raise ZeroDivisionError("internal \n detail")

    monkeypatch.setattr(MemoryService, "stats", fail)
    answer = await rest.get("/api/stats")
    assert answer.status_code == 500
    assert problem_of(answer)["code"] == "error"
    assert "internal" not in answer.text
    assert any("ZeroDivisionError" in (record.exc_text or "") or record.exc_info for record in caplog.records)


async def test_control_characters_forge_no_log_line(rest: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "retain")
    await stored(rest, "x", tags=["x\r\nERROR admin logged in"])
    await found(rest, query="\x1b[2Jboo")
    await rest.get("/api/x%0d%0aERROR%20admin")
    lines = [OneLine("%(levelname)s %(name)s: %(message)s").format(record) for record in caplog.records]
    assert lines
    assert not [line for line in lines if "\n" in line or "\r" in line or "\x1b" in line or line.startswith("ERROR")]


def test_a_logged_traceback_keeps_its_lines_apart_from_others() -> None:
    try:
        raise ValueError("a\r\nERROR forged\x1b[2J")
    except ValueError as error:
        record = logging.LogRecord("n", logging.ERROR, "f", 1, "m\nERROR x", (), (ValueError, error, None))
    first, *rest_of_it = OneLine("%(levelname)s %(message)s").format(record).split("\n")
    assert first == "ERROR m\\nERROR x"
    assert all(line.startswith("    | ") for line in rest_of_it)
    assert "\x1b" not in "".join(rest_of_it)


# -- finding ------------------------------------------------------------------------------------------------------


async def test_the_announced_program_finds_its_memory(rest: httpx.AsyncClient) -> None:
    await rest.post(
        "/api/memories",
        json={"content": "API rate limit is 100 req/min", "tags": ["api", "limits"]},
        headers={"X-Agent-ID": "researcher"},
    )
    results = await rest.post("/api/memories/search", json={"query": "API rate limits", "tags": ["agent:researcher"]})
    (memory,) = results.json()["memories"]
    assert memory["tags"] == ["api", "limits", "agent:researcher"]
    assert 0 < memory["score"] <= 1
    assert memory.keys() > {"id", "content", "snippet", "signals", "metadata", "created_at"}


async def test_empty_strings_and_nulls_are_the_same_as_absent(rest: httpx.AsyncClient) -> None:
    for number in range(3):
        await stored(rest, f"ops {number}", tags=["ops"])
    await stored(rest, "dev", tags=["dev"])
    plain = await rest.post("/api/memories/search", json={"query": "", "tags": ["ops"]})
    filled = await rest.post(
        "/api/memories/search",
        json={
            "query": "",
            "tags": ["ops"],
            "types": "",
            "since": "",
            "until": None,
            "time": "",
            "agent_id": "",
            "k": "",
            "mode": "",
            "group_by": "",
            "min_score": None,
            "metadata": "",
            "states": "",
            "ids": "",
            "namespace": "",
        },
    )
    assert filled.json() == plain.json()
    assert [memory["content"] for memory in plain.json()["memories"]] == ["ops 2", "ops 1", "ops 0"]


async def test_all_tags_means_all_and_any_means_any(rest: httpx.AsyncClient) -> None:
    for tags in (["a"], ["b"], ["a", "b"]):
        await stored(rest, "/".join(tags), tags=tags)
    assert await found(rest, query="", tags="a,b", tag_match="all") == ["a/b"]
    assert len(await found(rest, query="", tags="a,b")) == 3
    assert await found(rest, query="", tags="a,missing", tag_match="all") == []


async def test_time_words_of_a_query_are_shown_as_the_range_they_were_read_as(rest: httpx.AsyncClient) -> None:
    await stored(rest, "redis notes", occurred_at="2026-11-29T12:00:00Z")
    await stored(rest, "redis notes from long ago", occurred_at="2020-01-01")
    body = {"query": "redis notes from yesterday", "time_from_query": True}
    answer = (await rest.post("/api/memories/search", json=body)).json()
    assert [memory["content"] for memory in answer["memories"]] == ["redis notes"]
    assert answer["time_range"] == {"since": "2026-11-29T00:00:00.000Z", "until": "2026-11-30T00:00:00.000Z"}
    assert answer["query"] == "redis notes"


async def test_a_date_is_read_in_the_zone_that_the_request_names(rest: httpx.AsyncClient) -> None:
    await stored(rest, "late in Berlin", occurred_at="2026-03-01T23:30:00+01:00")
    assert await found(rest, query="", since="2026-03-01", until="2026-03-02", timezone="Europe/Berlin")
    assert await found(rest, query="", since="2026-03-02", timezone="Europe/Berlin") == []


async def test_paging_shows_every_memory_once_while_others_come_and_go(rest: httpx.AsyncClient) -> None:
    first = [await stored(rest, f"memory {number}") for number in range(7)]
    page = (await rest.get("/api/memories", params={"limit": 3})).json()
    seen = [memory["id"] for memory in page["memories"]]
    await stored(rest, "came in between")
    await rest.delete(f"/api/memories/{seen[-1]}")
    while page["next_cursor"]:
        page = (await rest.get("/api/memories", params={"limit": 3, "cursor": page["next_cursor"]})).json()
        seen += [memory["id"] for memory in page["memories"]]
    assert sorted(seen) == sorted(memory["id"] for memory in first)


async def test_there_is_one_total_everywhere(rest: httpx.AsyncClient) -> None:
    memories = [await stored(rest, f"memory {number}", tags=["t"]) for number in range(10)]
    for memory in memories[:3]:
        assert (await rest.delete(f"/api/memories/{memory['id']}")).status_code == 204
    export = (await rest.get("/api/export")).text.splitlines()
    totals = [
        (await rest.get("/api/memories")).json()["total"],
        (await rest.get("/api/stats")).json()["total"],
        (await rest.get("/api/tags")).json()["tags"][0]["count"],
        sum(count["count"] for count in (await rest.get("/api/types")).json()["types"]),
        sum(json.loads(line)["kind"] == "memory" for line in export),
        len(await found(rest, query="memory", k=100)),
    ]
    assert totals == [7] * 6


# -- changing -----------------------------------------------------------------------------------------------------


async def test_an_update_touches_the_named_fields_only(rest: httpx.AsyncClient) -> None:
    before = await stored(
        rest, "x", tags=["a"], type="decision", metadata={"n": 1}, conversation_id="c", agent_id="r", namespace="/p"
    )
    after = (await rest.patch(f"/api/memories/{before['id']}", json={"tags": ["z"], "content": ""})).json()
    assert after["tags"] == ["z", "agent:r"]
    unchanged = before.keys() - {"tags", "updated_at"}
    assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}


@pytest.mark.parametrize("body", [{}, {"content": ""}, {"tags": None}, {"type": None}, {"archived": None}, {"id": ID}])
async def test_an_update_that_says_nothing_or_null_is_refused(body: object, rest: httpx.AsyncClient) -> None:
    memory = await stored(rest, "x", tags=["a"])
    answer = await rest.patch(f"/api/memories/{memory['id']}", json=body)
    assert answer.status_code == 422
    assert (await rest.get(f"/api/memories/{memory['id']}")).json() == memory


async def test_null_takes_the_mark_of_a_successor_away(rest: httpx.AsyncClient) -> None:
    old = await stored(rest, "limit is 100")
    await stored(rest, "limit is 250", supersedes=old["id"])
    assert await found(rest, query="limit is 100", mode="exact") == []
    assert (await rest.patch(f"/api/memories/{old['id']}", json={"superseded_by": None})).status_code == 200
    assert await found(rest, query="limit is 100", mode="exact") == ["limit is 100"]


async def test_deleting_by_filter_shows_first_and_refuses_another_count(rest: httpx.AsyncClient) -> None:
    for number in range(3):
        await stored(rest, f"memory {number}", tags=["old"])
    body = {"tags": ["old"]}
    shown = (await rest.post("/api/memories/delete", json={**body, "dry_run": True})).json()
    assert (shown["count"], shown["dry_run"], len(shown["ids"])) == (3, True, 3)
    assert (await rest.post("/api/memories/delete", json={**body, "expected_count": 2})).status_code == 409
    assert (await rest.post("/api/memories/delete", json={})).status_code == 422
    assert (await rest.get("/api/memories")).json()["total"] == 3
    assert (await rest.post("/api/memories/delete", json={**body, "expected_count": 3})).json()["count"] == 3


async def test_an_own_type_can_be_added_and_used(rest: httpx.AsyncClient) -> None:
    added = await rest.post("/api/types", json={"type": "recipe", "parent": "pattern"})
    assert (added.status_code, added.json()) == (201, {"type": "recipe", "parent": "pattern"})
    await stored(rest, "soup", type="recipe")
    assert await found(rest, query="", types="pattern") == ["soup"]


async def test_an_export_imports_without_loss(rest: httpx.AsyncClient) -> None:
    await rest.post("/api/types", json={"type": "recipe"})
    old = await stored(rest, "old", tags=["c,d", "🔥"], metadata={"a": {"b": [1, None]}}, namespace="/p")
    await stored(rest, "new", namespace="/p", supersedes=old["id"], conversation_id="c", sequence=0, type="recipe")
    gone = await stored(rest, "gone")
    put_away = await stored(rest, "put away")
    await rest.patch(f"/api/memories/{put_away['id']}", json={"archived": True})
    await rest.delete(f"/api/memories/{gone['id']}")
    first = await rest.get("/api/export")
    assert first.headers["content-type"] == "application/x-ndjson"
    assert "gone" not in first.text
    everything = {"states": "active,superseded,archived", "expected_count": 3}
    assert (await rest.post("/api/memories/delete", json=everything)).json()["count"] == 3
    lines = [line for line in first.text.splitlines() if json.loads(line)["kind"] != "tombstone"]
    again = await rest.post("/api/import", content="\n".join(lines))
    assert again.json() == {"created": 3, "skipped": 0, "tombstones": 0}
    second = (await rest.get("/api/export")).text.splitlines()
    assert [line for line in second if json.loads(line)["kind"] != "tombstone"][1:] == lines[1:]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"\xff\xfe\x00", b'{"kind": "memory"}', b'{"kind": "header"}\n{', b"\n\n"], ids=range(7)
)
async def test_an_import_that_is_no_export_is_refused_with_its_line(body: bytes, rest: httpx.AsyncClient) -> None:
    answer = await rest.post("/api/import", content=body)
    assert answer.status_code == 422
    problem_of(answer)


async def test_head_answers_like_get_without_a_body(rest: httpx.AsyncClient) -> None:
    answer = await rest.head("/api/stats")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


async def test_the_body_limit_leaves_room_for_the_longest_content(connect: Any) -> None:
    rest = connect(max_content_chars=1_000_000)
    answer = await rest.post(
        "/api/memories", content=b'{"content": "x", "' + b"y" * BODY_LIMIT + b'": 1}', headers=JSON
    )
    assert answer.status_code == 422
