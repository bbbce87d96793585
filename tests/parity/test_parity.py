"""The same behaviours through every way in: in-process Python, REST, MCP and the command line."""

import asyncio

import pytest

from retain import ConflictError, InvalidInputError, NotFoundError, RetainError, TooLargeError
from tests.parity.doors import Door

LIMIT = "API rate limit is 100 requests a minute"
FREEZE = "The deploy freeze ends on Friday"


async def contents(door: Door, **where: object) -> set[str]:
    return {memory["content"] for memory in (await door.list(**where))["memories"]}


async def test_what_is_stored_is_found_in_other_words(door: Door) -> None:
    await door.store(FREEZE)
    await door.store(LIMIT)
    found = await door.search("when can we ship again?")
    assert found["memories"][0]["content"] == FREEZE
    assert 0 < found["memories"][0]["score"] <= 1
    assert found["memories"][0]["snippet"] in FREEZE
    assert set(found["memories"][0]["signals"]) == {"semantic", "keyword", "related"}


async def test_every_field_reads_back(door: Door) -> None:
    fields: dict[str, object] = {
        "type": "decision",
        "tags": ["c++", "two words", "msg:cluster"],
        "metadata": {"a": {"b": [1, "x", None]}},
        "namespace": "/team/a",
        "agent_id": "r1",
        "conversation_id": "c1",
        "occurred_at": "2019-05-04T12:00:00Z",
    }
    stored = await door.store("Zürich 数据库 🔥", **fields)
    memory = await door.get(stored["memory"]["id"])
    assert memory == stored["memory"]
    assert memory["content"] == "Zürich 数据库 🔥"
    assert memory["tags"] == ["c++", "two words", "msg:cluster", "agent:r1"]
    assert memory["occurred_at"] == "2019-05-04T12:00:00.000Z"
    for name in ("type", "metadata", "namespace", "agent_id", "conversation_id"):
        assert memory[name] == fields[name]


async def test_an_exact_duplicate_returns_the_first_and_merges_tags(door: Door) -> None:
    first = await door.store("Use uv, not pip.", tags=["a"])
    second = await door.store("Use uv, not pip.", tags=["b"])
    assert (first["created"], second["created"]) == (True, False)
    assert second["memory"]["id"] == first["memory"]["id"]
    assert second["memory"]["tags"] == ["a", "b"]


async def test_a_key_names_a_memory_that_storing_again_replaces(door: Door) -> None:
    first = await door.store("The flag is off", key="flags/dark", namespace="/a", tags=["x"])
    second = await door.store("The flag is on", key="flags/dark", namespace="/a")
    assert (first["created"], second["created"]) == (True, False)
    assert second["memory"]["id"] == first["memory"]["id"]
    assert (second["memory"]["key"], second["memory"]["tags"]) == ("flags/dark", [])
    assert await contents(door) == {"The flag is on"}


async def test_metadata_is_asked_by_path_and_operator(door: Door) -> None:
    await door.store("a low score", metadata={"run": {"score": 0.2}})
    await door.store("a high score", metadata={"run": {"score": 0.8}})
    assert await contents(door, metadata={"run.score": {"$gte": 0.5}}) == {"a high score"}
    with pytest.raises(InvalidInputError, match=r"\$near"):
        await door.list(metadata={"run.score": {"$near": 1}})


async def test_a_correction_is_kept_and_reported(door: Door) -> None:
    first = await door.store("Limit is 100/min")
    second = await door.store("Limit is 250/min")
    assert second["created"]
    assert [similar["id"] for similar in second["similar_to"]] == [first["memory"]["id"]]


async def test_tags_given_as_one_string_are_separate_tags(door: Door) -> None:  # C007
    stored = await door.store("text", tags="alpha,beta")
    assert stored["memory"]["tags"] == ["alpha", "beta"]
    assert {count["tag"] for count in await door.tags()} == {"alpha", "beta"}


async def test_superseding_hides_the_old_memory(door: Door) -> None:
    old = (await door.store(LIMIT))["memory"]["id"]
    await door.store("API rate limit is 250 requests a minute", supersedes=old)
    assert await contents(door) == {"API rate limit is 250 requests a minute"}
    assert await contents(door, states=["superseded"]) == {LIMIT}


@pytest.mark.parametrize(
    ("mode", "query", "expected"),
    [
        ("semantic", "how many calls may I make", LIMIT),
        ("keyword", "limit", LIMIT),
        ("exact", "100 requests", LIMIT),
    ],
)
async def test_each_mode_finds(door: Door, mode: str, query: str, expected: str) -> None:
    await door.store(LIMIT)
    await door.store(FREEZE)
    found = await door.search(query, mode=mode, k=1)
    assert [memory["content"] for memory in found["memories"]] == [expected]


async def test_tag_filters_mean_any_all_and_none(door: Door) -> None:
    await door.store("one", tags=["a"])
    await door.store("two", tags=["b"])
    await door.store("three", tags=["a", "b"])
    assert await contents(door, tags=["a", "b"]) == {"one", "two", "three"}
    assert await contents(door, tags=["a", "b"], tag_match="all") == {"three"}
    assert await contents(door, exclude_tags=["a"]) == {"two"}


async def test_a_namespace_holds_what_lies_below_and_nothing_beside(door: Door) -> None:
    for namespace in ("/a", "/a/b", "/ab"):
        await door.store(f"in {namespace}", namespace=namespace)
    assert await contents(door, namespace="/a") == {"in /a", "in /a/b"}


async def test_types_agents_conversations_and_metadata_filter(door: Door) -> None:
    await door.store("plain")
    await door.store("full", type="bug", agent_id="r1", conversation_id="c", metadata={"env": "prod"})
    for where in (
        {"types": ["error"]},
        {"agent_id": "r1"},
        {"conversation_id": "c"},
        {"metadata": {"env": "prod"}},
        {"tags": ["agent:r1"]},
    ):
        assert await contents(door, **where) == {"full"}, where


async def test_time_words_and_instants_filter(door: Door) -> None:
    await door.store("old", occurred_at="2019-05-04")
    await door.store("new")
    assert await contents(door, time="in 2019") == {"old"}
    assert await contents(door, since="2019-01-01", until="2020-01-01") == {"old"}
    found = await door.search("old in 2019", time_from_query=True)
    assert [memory["content"] for memory in found["memories"]] == ["old"]
    assert found["time_range"] == {"since": "2019-01-01T00:00:00.000Z", "until": "2020-01-01T00:00:00.000Z"}


async def test_a_least_score_cuts_the_unrelated(door: Door) -> None:
    await door.store(FREEZE)
    assert (await door.search("recipe for banana bread", min_score=0.3))["memories"] == []


async def test_a_session_is_stored_by_turn_and_grouped(door: Door) -> None:
    turns = [{"role": "user", "content": f"Redis question {i}"} for i in range(3)]
    stored = await door.store_session(turns, conversation_id="c1")
    assert [item["memory"]["sequence"] for item in stored["stored"]] == [0, 1, 2]
    await door.store("Redis note")
    found = await door.search("redis question", group_by="conversation")
    assert len(found["memories"]) == 2


async def test_a_session_can_be_one_memory(door: Door) -> None:
    turns = [{"role": "user", "content": "Where is staging?"}, {"role": "assistant", "content": "Port 6543."}]
    stored = await door.store_session(turns, mode="session", conversation_id="c1")
    assert [item["memory"]["content"] for item in stored["stored"]] == [
        "user: Where is staging?\n\nassistant: Port 6543."
    ]


async def test_a_listing_pages_through_everything_once(door: Door) -> None:
    for number in range(5):
        await door.store(f"memory {number}")
    seen: list[str] = []
    cursor = ""
    while True:
        page = await door.list(limit=2, cursor=cursor)
        assert page["total"] == 5
        seen += [memory["content"] for memory in page["memories"]]
        if not (cursor := page["next_cursor"] or ""):
            break
    assert seen == [f"memory {number}" for number in reversed(range(5))]


async def test_an_update_changes_only_what_it_names(door: Door) -> None:
    stored = (await door.store("Payroll runs on Fridays", tags=["a"], type="decision"))["memory"]
    updated = await door.update(stored["id"], content="The greenhouse needs new pumps")
    assert {**updated, "content": 0, "content_hash": 0, "updated_at": 0} == {
        **stored,
        "content": 0,
        "content_hash": 0,
        "updated_at": 0,
    }
    assert (await door.search("payroll", mode="keyword"))["memories"] == []
    assert (await door.search("pumps in the greenhouse"))["memories"][0]["id"] == stored["id"]


async def test_archiving_hides_and_brings_back(door: Door) -> None:
    memory_id = (await door.store("text"))["memory"]["id"]
    await door.update(memory_id, archived=True)
    assert await contents(door) == set()
    assert await contents(door, states=["archived"]) == {"text"}
    await door.update(memory_id, archived=False)
    assert await contents(door) == {"text"}


async def test_deleted_means_gone_and_can_be_stored_again(door: Door) -> None:  # C001, C016
    memory_id = (await door.store(LIMIT, tags=["gone"]))["memory"]["id"]
    await door.delete(memory_id)
    with pytest.raises(NotFoundError):
        await door.get(memory_id)
    with pytest.raises(NotFoundError):
        await door.update(memory_id, tags=["x"])
    assert (await door.search("rate limit"))["memories"] == []
    assert (await door.list(states=["active", "superseded", "archived"]))["total"] == 0
    assert await door.tags() == []
    assert (await door.stats())["total"] == 0
    assert (await door.store(LIMIT))["created"]


async def test_deleting_by_filter_can_be_tried_and_counted(door: Door) -> None:
    for number in range(3):
        await door.store(f"bulk {number}", tags=["bulk"])
    await door.store("kept")
    tried = await door.delete_many(tags=["bulk"], dry_run=True)
    assert (tried["count"], tried["dry_run"]) == (3, True)
    with pytest.raises(ConflictError):
        await door.delete_many(tags=["bulk"], expected_count=2)
    assert (await door.delete_many(tags=["bulk"], expected_count=3))["count"] == 3
    assert await contents(door) == {"kept"}


async def test_one_definition_of_total_everywhere(door: Door) -> None:  # C154
    ids = [(await door.store(f"memory {number}"))["memory"]["id"] for number in range(5)]
    for memory_id in ids[:2]:
        await door.delete(memory_id)
    assert (await door.list())["total"] == 3
    assert (await door.stats())["total"] == 3
    assert len((await door.search("memory", k=100))["memories"]) == 3


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        ({"content": " "}, InvalidInputError, "content"),
        ({"content": "text", "type": "nonsense-type"}, InvalidInputError, "nonsense-type"),
        ({"content": "text", "tags": ["a" * 101]}, TooLargeError, "tag"),
        ({"content": "text", "namespace": "/a//b"}, InvalidInputError, "namespace"),
        ({"content": "text", "occurred_at": "2026-02-29"}, InvalidInputError, "occurred_at"),
        ({"content": "text", "supersedes": "0197f3a0-0000-7000-8000-000000000000"}, NotFoundError, "no memory"),
    ],
)
async def test_an_impossible_memory_is_refused_by_name(
    door: Door, call: dict[str, object], error: type[RetainError], word: str
) -> None:
    with pytest.raises(error, match=word):
        await door.store(**call)  # type: ignore[arg-type]
    assert (await door.list())["total"] == 0


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ({"k": 0}, "k"),
        ({"k": 10_000}, "k"),
        ({"min_score": 7}, "min_score"),
        ({"time": "whenever"}, "whenever"),
        ({"types": ["nonsense-type"]}, "nonsense-type"),
        ({"metadata": {"a": 1}, "namespace": "/a//b"}, "namespace"),
    ],
)
async def test_an_impossible_question_is_refused_by_name(door: Door, call: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        await door.search("text", **call)


async def test_any_text_is_a_legal_question(door: Door) -> None:  # C020, C021
    await door.store("use C++ for the parser")
    for query in ("C++", '"unclosed', "a OR", "NEAR(", "()*"):
        await door.search(query)
    assert (await door.search("C++"))["memories"][0]["content"] == "use C++ for the parser"


async def test_storing_the_same_text_at_once_makes_one_memory(door: Door) -> None:  # C187
    outcomes = await asyncio.gather(*(door.store("All at once") for _ in range(4)))
    assert len({outcome["memory"]["id"] for outcome in outcomes}) == 1
    assert (await door.list())["total"] == 1


async def test_an_unknown_id_is_not_found(door: Door) -> None:
    unknown = "0197f3a0-0000-7000-8000-000000000000"
    for attempt in (door.get(unknown), door.delete(unknown), door.update(unknown, tags=["x"])):
        with pytest.raises(NotFoundError):
            await attempt


async def test_a_malformed_id_is_refused(door: Door) -> None:
    with pytest.raises(InvalidInputError, match="id"):
        await door.get("not-an-id")
