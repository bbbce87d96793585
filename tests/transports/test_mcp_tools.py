"""The tools, prompts and resources through the SDK's own client, in both protocol eras."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from retain import __version__
from retain.core.policy import Principal
from retain.core.service import MemoryService
from retain.transports.mcp.features import Context
from retain.transports.mcp.server import make_server, memory_features
from tests.mcp_clients import connected

TOOLS = [
    "memory_store",
    "memory_store_session",
    "memory_search",
    "memory_get",
    "memory_list",
    "memory_update",
    "memory_delete",
    "memory_stats",
]
READING = {"memory_search", "memory_get", "memory_list", "memory_stats"}
DELIMITED = re.compile(r"<(memory-[0-9a-f]{6}) id=.*?>\n(.*?)\n</\1>", re.DOTALL)


def client_of(service: MemoryService, mode: str = "auto") -> Client:
    async def memory_of(context: Context) -> MemoryService:
        return service

    return Client(make_server(memory_features(memory_of)), mode=mode)


@pytest.fixture(params=["legacy", "auto"])
async def client(request: pytest.FixtureRequest, service: MemoryService) -> AsyncIterator[Client]:
    """Speaks 2025-11-25 after a handshake, or 2026-07-28."""
    async with connected(client_of(service, request.param)) as ready:
        yield ready


@pytest.fixture
async def modern(service: MemoryService) -> AsyncIterator[Client]:
    async with connected(client_of(service)) as ready:
        yield ready


async def answer(client: Client, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return text_of(result), result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


def text_of(result: Any) -> str:
    (content,) = result.content
    return content.text


async def test_a_stored_memory_is_found_by_other_words(client: Client) -> None:
    _, stored = await answer(client, "memory_store", content="The deploy freeze ends on Friday", tags=["release"])
    text, found = await answer(client, "memory_search", query="when can we ship again?")
    assert [hit["id"] for hit in found["memories"]] == [stored["memory"]["id"]]
    assert DELIMITED.findall(text)[0][1] == "The deploy freeze ends on Friday"


async def test_the_server_names_itself_and_says_how_to_use_it(client: Client) -> None:
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("retain", __version__)
    assert client.instructions is not None and "memory_search" in client.instructions


async def test_tools_list_is_small_and_complete(client: Client) -> None:
    listed = await client.list_tools()
    form = listed.model_dump_json(by_alias=True, exclude_none=True)
    assert [tool.name for tool in listed.tools] == TOOLS
    assert len(form.encode()) <= 12_000
    schemas = json.dumps([(tool.input_schema, tool.output_schema) for tool in listed.tools])
    assert not any(noise in schemas for noise in ('"title"', "$ref", "anyOf", "$defs"))


async def test_annotations_are_true(client: Client) -> None:
    notes = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    assert {name for name, note in notes.items() if note and note.read_only_hint} == READING
    destructive = {name for name, note in notes.items() if note and note.destructive_hint}
    assert destructive == {"memory_update", "memory_delete"}
    assert not any(note is None or note.open_world_hint for note in notes.values())


async def test_schemas_are_valid_and_closed(modern: Client) -> None:
    for tool in (await modern.list_tools()).tools:
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.description


async def test_an_unknown_argument_is_an_error_that_names_the_right_ones(modern: Client) -> None:
    said = await refusal(modern, "memory_search", content="redis")
    assert said.startswith("invalid_input: content is not known here") and "query" in said


@pytest.mark.parametrize("tool", TOOLS)
async def test_every_tool_refuses_an_argument_it_does_not_know(modern: Client, tool: str) -> None:
    assert (await refusal(modern, tool, bogus=1)).startswith("invalid_input: bogus")


async def test_arguments_that_are_empty_were_not_given(modern: Client) -> None:
    await answer(modern, "memory_store", content="Disk alarms go to ops", tags=["ops"], type="", agent_id=None)
    await answer(modern, "memory_store", content="The canteen closes at two")
    empty: dict[str, Any] = {"types": "", "until": "", "since": None, "namespace": "", "group_by": ""}
    _, found = await answer(modern, "memory_search", query="", tags=["ops"], **empty)
    assert [hit["content"] for hit in found["memories"]] == ["Disk alarms go to ops"]


async def test_an_error_of_the_core_reaches_the_model_with_its_code(modern: Client) -> None:
    unknown = "0190a1b2-0000-7000-8000-000000000000"
    assert (await refusal(modern, "memory_get", id=unknown)).startswith("not_found: ")
    assert (await refusal(modern, "memory_store", content="  ")).startswith("invalid_input: content")
    assert (await refusal(modern, "memory_search", query="x", k=5000)).startswith("too_large: k")


async def test_a_tool_that_does_not_exist_is_a_protocol_error(client: Client) -> None:
    with pytest.raises(MCPError, match="there is no tool 'memory_forget'"):
        await client.call_tool("memory_forget", {})


async def test_a_near_duplicate_is_stored_and_reported(modern: Client) -> None:
    _, first = await answer(modern, "memory_store", content="The API limit is 100 requests per minute")
    text, second = await answer(modern, "memory_store", content="The API limit is 250 requests per minute")
    assert second["created"] and second["similar_to"][0]["id"] == first["memory"]["id"]
    assert first["memory"]["id"] in text


async def test_update_changes_only_what_is_given(modern: Client) -> None:
    _, stored = await answer(modern, "memory_store", content="Use uv", tags=["python"], metadata={"a": 1})
    memory_id = stored["memory"]["id"]
    _, changed = await answer(modern, "memory_update", id=memory_id, tags=["tools"], content="", metadata=None)
    assert (changed["content"], changed["tags"], changed["metadata"]) == ("Use uv", ["tools"], {"a": 1})


async def test_delete_by_filter_says_first_and_does_then(modern: Client) -> None:
    for number in range(3):
        await answer(modern, "memory_store", content=f"Old note number {number}", tags=["old"])
    text, would = await answer(modern, "memory_delete", tags=["old"], dry_run=True)
    assert would["count"] == 3 and "expected_count=3" in text
    assert (await refusal(modern, "memory_delete", tags=["old"], expected_count=2)).startswith("conflict: ")
    _, done = await answer(modern, "memory_delete", tags=["old"], expected_count=3)
    assert (done["count"], done["dry_run"]) == (3, False)


async def test_delete_takes_an_id_or_a_filter_and_not_both_or_none(modern: Client) -> None:
    _, stored = await answer(modern, "memory_store", content="Short-lived")
    memory_id = stored["memory"]["id"]
    assert "either id or a filter" in await refusal(modern, "memory_delete", id=memory_id, tags=["x"])
    assert (await refusal(modern, "memory_delete")).startswith("invalid_input: ")
    _, deleted = await answer(modern, "memory_delete", id=memory_id)
    assert deleted == {"count": 1, "ids": [memory_id], "dry_run": False}


async def test_a_listing_within_a_small_budget_leaves_no_gap(modern: Client) -> None:
    for number in range(7):
        await answer(modern, "memory_store", content=f"Fact {number} " + "x" * 200)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        text, page = await answer(modern, "memory_list", cursor=cursor, max_chars=800)
        assert len(text) <= 800 and page["total"] == 7
        seen += [memory["content"][:6] for memory in page["memories"]]
        cursor = page["next_cursor"]
    assert seen == [f"Fact {number}" for number in reversed(range(7))]


async def test_a_search_goes_on_where_its_budget_ended(modern: Client) -> None:
    for number in range(6):
        await answer(modern, "memory_store", content=f"Server {number} runs Linux. " + "x " * 150)
    _, whole = await answer(modern, "memory_search", query="which servers run Linux?", max_chars=20_000)
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        text, found = await answer(
            modern, "memory_search", query="which servers run Linux?", offset=offset, max_chars=900
        )
        assert len(text) <= 900
        seen += [hit["id"] for hit in found["memories"]]
        offset = found.get("next_offset")
    assert seen == [hit["id"] for hit in whole["memories"]]
    assert len(seen) == 6


async def test_a_session_is_stored_turn_by_turn(modern: Client) -> None:
    turns = [{"role": "user", "content": "Which port?"}, {"role": "assistant", "content": "Port 8000."}]
    _, session = await answer(modern, "memory_store_session", turns=turns, conversation_id="c1")
    assert [one["memory"]["sequence"] for one in session["stored"]] == [0, 1]
    text, _ = await answer(modern, "memory_store_session", turns=turns, conversation_id="c1")
    assert "0 new memories, 2 known" in text


async def test_stats_count_what_a_listing_counts(modern: Client) -> None:
    for number in range(4):
        await answer(modern, "memory_store", content=f"Fact {number}", tags=["fact"])
    _, stats = await answer(modern, "memory_stats")
    _, listing = await answer(modern, "memory_list")
    assert stats["total"] == listing["total"] == 4
    assert stats["top_tags"] == [{"tag": "fact", "count": 4}]


async def test_structured_answers_fit_their_schemas(modern: Client) -> None:
    schemas = {tool.name: tool.output_schema for tool in (await modern.list_tools()).tools}
    _, stored = await answer(modern, "memory_store", content="Schemas are promises")
    calls: dict[str, dict[str, Any]] = {
        "memory_store": {"content": "Schemas are promises"},
        "memory_store_session": {"turns": [{"role": "user", "content": "Hello"}]},
        "memory_search": {"query": "promises"},
        "memory_get": {"id": stored["memory"]["id"]},
        "memory_list": {},
        "memory_update": {"id": stored["memory"]["id"], "tags": ["x"]},
        "memory_stats": {},
        "memory_delete": {"id": stored["memory"]["id"]},
    }
    assert calls.keys() == schemas.keys()
    for name, arguments in calls.items():
        _, structured = await answer(modern, name, **arguments)
        Draft202012Validator(schemas[name]).validate(structured)


async def test_resources_show_what_is_stored(client: Client) -> None:
    _, stored = await answer(client, "memory_store", content="Resources are read by URI", tags=["mcp"])
    uris = [resource.uri for resource in (await client.list_resources()).resources]
    assert uris == ["memory://recent", "memory://tags", "memory://types", "memory://stats"]
    for uri in uris:
        (contents,) = (await client.read_resource(uri)).contents
        assert contents.uri == uri and contents.text
    (whole,) = (await client.read_resource(f"memory://memories/{stored['memory']['id']}")).contents
    assert json.loads(whole.text) == stored["memory"]


async def test_a_resource_that_does_not_exist_is_a_protocol_error(client: Client) -> None:
    for uri in ("memory://nothing", "memory://memories/0190a1b2-0000-7000-8000-000000000000"):
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource(uri)


async def test_the_recall_prompt_brings_memories_into_the_conversation(client: Client) -> None:
    await answer(client, "memory_store", content="We chose SQLite because it needs no server")
    prompt = await client.get_prompt("recall_context", {"topic": "why SQLite?"})
    assert "We chose SQLite because it needs no server" in prompt.messages[0].content.text
    saving = await client.get_prompt("save_learnings", {})
    assert "memory_store" in saving.messages[0].content.text
    with pytest.raises(MCPError, match="topic"):
        await client.get_prompt("recall_context", {"topic": " "})


async def test_a_key_that_may_only_read_changes_nothing(service: MemoryService) -> None:
    stored = await service.store("Read me", tags=["kept"])
    before = [record async for record in service.export()][1:]
    memory_id = stored.memory.id
    writing: dict[str, dict[str, Any]] = {
        "memory_store": {"content": "No"},
        "memory_store_session": {"turns": [{"role": "user", "content": "No"}]},
        "memory_update": {"id": memory_id, "tags": []},
        "memory_delete": {"id": memory_id},
    }
    assert writing.keys() | READING == set(TOOLS)
    async with client_of(service.acting_as(Principal("reader", can_write=False))) as client:
        for tool, arguments in writing.items():
            assert (await refusal(client, tool, **arguments)).startswith("permission_denied: ")
        assert (await refusal(client, "memory_delete", tags=["kept"])).startswith("permission_denied: ")
        for tool in READING:
            await answer(client, tool, **({"id": memory_id} if tool == "memory_get" else {}))
    assert [record async for record in service.export()][1:] == before


async def test_what_lies_outside_the_namespace_does_not_exist(service: MemoryService) -> None:
    hidden = await service.store("The vault code is 4711", namespace="/secret", tags=["vault"])
    async with client_of(service.acting_as(Principal("a", namespace="/team"))) as client:
        seen = [
            (await answer(client, "memory_search", query="vault code"))[0],
            (await answer(client, "memory_list"))[0],
            (await answer(client, "memory_stats"))[0],
            *[(await client.read_resource(uri)).contents[0].text for uri in ("memory://recent", "memory://tags")],
            (await client.get_prompt("recall_context", {"topic": "vault code"})).messages[0].content.text,
        ]
        assert not any(word in text for text in seen for word in ("4711", hidden.memory.id, "vault (1)", '"vault"'))
        assert (await refusal(client, "memory_get", id=hidden.memory.id)).startswith("not_found: ")
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource(f"memory://memories/{hidden.memory.id}")
