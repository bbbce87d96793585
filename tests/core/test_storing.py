"""What a store keeps, refuses, merges and reports. Real SQLite, real model."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from retain import (
    ConflictError,
    Filter,
    InvalidInputError,
    MemoryPatch,
    NotFoundError,
    TooLargeError,
    Turn,
)
from retain.core.policy import Principal
from retain.core.service import MemoryService
from tests.conftest import SetClock


async def test_storing_twice_returns_the_first_memory_with_the_tags_of_both(service: MemoryService) -> None:  # C053
    first = await service.store("Use uv, not pip.", tags=["a"])
    second = await service.store("Use uv, not pip.", tags=["b"])
    assert (first.created, second.created) == (True, False)
    assert second.memory.id == first.memory.id
    assert second.memory.tags == ("a", "b")
    assert (await service.list()).total == 1


async def test_the_same_text_in_another_namespace_is_another_memory(service: MemoryService) -> None:
    first = await service.store("Deploys happen on Tuesday", namespace="/a")
    second = await service.store("Deploys happen on Tuesday", namespace="/b")
    assert second.created and first.memory.id != second.memory.id


async def test_a_correction_is_stored_and_says_what_it_resembles(service: MemoryService) -> None:  # Shows 6
    first = await service.store("Limit is 100/min")
    second = await service.store("Limit is 250/min")
    assert second.created
    assert [similar.id for similar in second.similar_to] == [first.memory.id]
    assert 0 < second.similar_to[0].score <= 1


async def test_a_longer_note_is_compared_as_a_whole(service: MemoryService) -> None:
    text = (
        "The importer reads the nightly file from the partner at two. It skips rows without an order number and "
        "writes them to a report. Retries happen {} times with a pause of a minute, then Jonas is paged by the system."
    )
    first = await service.store(text.format(3))
    second = await service.store(text.format(5))
    assert [similar.id for similar in second.similar_to] == [first.memory.id]
    other = await service.store("The importer reads the nightly file from the partner at two. Cats sleep a lot. " * 2)
    assert other.similar_to == ()


async def test_an_unrelated_memory_resembles_nothing(service: MemoryService) -> None:
    await service.store("Limit is 100/min")
    assert (await service.store("The office plants are watered on Mondays")).similar_to == ()


async def test_notes_of_one_conversation_are_not_compared(service: MemoryService) -> None:  # C055
    one = await service.store("Excalidraw log rotation broken", conversation_id="c1")
    two = await service.store("Excalidraw log rotation fixed by daily cron", conversation_id="c1")
    again = await service.store("Excalidraw log rotation broken", conversation_id="c1")
    assert one.created and two.created and not again.created
    assert two.similar_to == ()


async def test_a_session_about_a_known_fact_is_stored(service: MemoryService) -> None:  # C057
    await service.store("We use Redis for queues")
    turns = [Turn(role="user", content="Redis queues?"), Turn(role="assistant", content="We use Redis for queues")]
    assert all(stored.created for stored in (await service.store_session(turns)).stored)


async def test_parallel_retries_of_a_store_make_one_memory(service: MemoryService) -> None:  # C058
    outcomes = await asyncio.gather(*(service.store("Retry me", idempotency_key="k1") for _ in range(6)))
    assert len({outcome.memory.id for outcome in outcomes}) == 1
    assert (await service.list()).total == 1


async def test_an_idempotency_key_refuses_another_request(service: MemoryService) -> None:
    await service.store("first", idempotency_key="k")
    with pytest.raises(ConflictError, match="k"):
        await service.store("second", idempotency_key="k")
    assert (await service.list()).total == 1


async def test_a_retry_after_a_delete_does_not_bring_the_memory_back(service: MemoryService) -> None:
    stored = await service.store("gone for good", idempotency_key="k")
    await service.delete(stored.memory.id)
    with pytest.raises(NotFoundError):
        await service.store("gone for good", idempotency_key="k")
    assert (await service.list()).total == 0


async def test_deleted_text_can_be_stored_again(service: MemoryService) -> None:  # C001
    for _ in range(3):
        stored = await service.store("The staging DB moved to port 6543.")
        found = await service.recall("which port is staging on")
        assert [hit.memory.id for hit in found.hits] == [stored.memory.id]
        await service.delete(stored.memory.id)
    assert (await service.list()).total == 0


@pytest.mark.parametrize("tags", [["x", "y"], "x,y", '["x", "y"]'])
@pytest.mark.parametrize("wanted", [["x", "y"], "x,y", '["x", "y"]'])
async def test_tags_mean_the_same_in_each_form(service: MemoryService, tags: object, wanted: object) -> None:  # C065
    await service.store("tagged", tags=tags)  # type: ignore[arg-type]
    listing = await service.list(Filter(tags=wanted, tag_match="all"))  # type: ignore[arg-type]
    assert [memory.tags for memory in listing.memories] == [("x", "y")]


async def test_a_tag_that_is_too_long_is_named_and_nothing_is_stored(service: MemoryService) -> None:  # C068
    with pytest.raises(TooLargeError, match="aaaa"):
        await service.store("text", tags=["file:///C:/Users/x/My%20Doc.pdf", "a" * 101])
    assert (await service.list()).total == 0


async def test_five_thousand_tags_are_refused(service: MemoryService) -> None:
    with pytest.raises(TooLargeError, match="5,000 tags"):
        await service.store("text", tags=[f"t{i}" for i in range(5_000)])


async def test_an_unknown_type_is_refused_and_the_known_ones_listed(service: MemoryService) -> None:  # C019
    with pytest.raises(InvalidInputError, match=r"post-mortem.*observation.*register"):
        await service.store("text", type="post-mortem")
    await service.register_type("Post-Mortem", parent="error")
    stored = await service.store("text", type="POST-mortem")
    assert stored.memory.type == "post-mortem"
    assert (await service.list(Filter(types=("post-mortem",)))).total == 1
    assert (await service.list(Filter(types=("error",)))).total == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("\u200b\u2060", "empty"),
        ("a\0b", "NUL"),
        ("ok \ud83d end", "surrogate"),
        ("x" * 200_001, "200,000"),
    ],
)
async def test_impossible_content_is_refused(service: MemoryService, content: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        await service.store(content)
    assert (await service.list()).total == 0


DEEP: dict[str, object] = {}
for _ in range(32):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize("metadata", [{"a": float("nan")}, {"a": "\0"}, {"\ud83d": 1}, [1], {"a": "x" * 2**20}, DEEP])
async def test_impossible_metadata_is_refused(service: MemoryService, metadata: object) -> None:
    with pytest.raises(InvalidInputError, match="metadata"):
        await service.store("text", metadata=metadata)  # type: ignore[arg-type]


async def test_an_unknown_field_is_refused(service: MemoryService) -> None:
    with pytest.raises(InvalidInputError, match="tagz"):
        await service.store("text", tagz=["x"])  # type: ignore[call-arg]


async def test_a_bad_item_in_a_batch_is_named_and_nothing_is_stored(service: MemoryService) -> None:
    with pytest.raises(InvalidInputError, match=r"memories\[1\].*empty"):
        await service.store_many(["good", " ", "also good"])
    assert (await service.list()).total == 0


async def test_text_reads_back_code_point_for_code_point(service: MemoryService) -> None:  # C202
    text = "👩‍👩‍👧‍👦 family 🇨🇭 שלום עולם مرحبا e\u0301 \u202eabc"
    stored = await service.store(text, tags=["🔥"])
    assert (await service.get(stored.memory.id)).content == text
    assert (await service.list(Filter(tags=("🔥",)))).total == 1


async def test_superseding_hides_the_old_memory_and_keeps_it(service: MemoryService) -> None:
    old = await service.store("The limit is 100 a minute")
    new = await service.store("The limit is 250 a minute", supersedes=old.memory.id)
    assert [hit.memory.id for hit in (await service.recall("what is the limit")).hits] == [new.memory.id]
    assert (await service.get(old.memory.id)).superseded_by == new.memory.id
    hidden = await service.list(Filter(states=frozenset({"superseded"})))
    assert [memory.id for memory in hidden.memories] == [old.memory.id]


async def test_a_superseded_text_can_become_true_again(service: MemoryService) -> None:
    old = await service.store("The limit is 100 a minute")
    await service.store("The limit is 250 a minute", supersedes=old.memory.id)
    back = await service.store("The limit is 100 a minute")
    assert back.created and back.memory.state == "active"


async def test_an_update_touches_only_what_it_names(service: MemoryService, clock: SetClock) -> None:  # C150
    stored = await service.store(
        "text", tags=["a"], metadata={"k": 1}, agent_id="r1", conversation_id="c", namespace="/n", type="decision"
    )
    clock.advance(timedelta(hours=1))
    updated = await service.update(stored.memory.id, MemoryPatch(tags=["z"]))
    assert updated.tags == ("z", "agent:r1")
    before, after = stored.memory, updated
    assert (after.content, after.type, after.metadata, after.agent_id) == ("text", "decision", {"k": 1}, "r1")
    assert (after.namespace, after.conversation_id, after.created_at) == ("/n", "c", before.created_at)
    assert after.updated_at == before.updated_at + timedelta(hours=1)


async def test_an_empty_update_is_refused(service: MemoryService) -> None:
    stored = await service.store("text")
    with pytest.raises(InvalidInputError, match="nothing to change"):
        await service.update(stored.memory.id, MemoryPatch())


async def test_after_an_edit_only_the_new_meaning_is_found(service: MemoryService) -> None:  # C005
    stored = await service.store("Payroll runs on Fridays")
    await service.update(stored.memory.id, MemoryPatch(content="The greenhouse needs new pumps"))
    assert (await service.recall("payroll", mode="keyword")).hits == ()
    assert (await service.recall("payroll day", min_score=0.3)).hits == ()
    (hit,) = (await service.recall("greenhouse pumps")).hits
    assert hit.memory.id == stored.memory.id and hit.score > 0.5


async def test_a_deleted_memory_can_not_be_updated(service: MemoryService) -> None:  # C016
    stored = await service.store("text")
    await service.delete(stored.memory.id)
    with pytest.raises(NotFoundError):
        await service.update(stored.memory.id, MemoryPatch(tags=["x"]))
    assert await service.tags() == []


async def test_turns_are_stored_in_order_with_their_role(service: MemoryService) -> None:
    turns = [
        Turn(role="user", content="yes", occurred_at=datetime(2026, 1, 1, tzinfo=UTC)),
        Turn(role="assistant", content="Which port?"),
        Turn(role="user", content="yes"),
    ]
    session = await service.store_session(turns, conversation_id="c")
    assert [stored.memory.sequence for stored in session.stored] == [0, 1, 2]
    assert [stored.memory.metadata["role"] for stored in session.stored] == ["user", "assistant", "user"]
    assert session.stored[0].memory.occurred_at == datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_longer_copy_of_a_conversation_adds_only_its_new_turns(service: MemoryService) -> None:
    turns = [Turn(role="user", content="one"), Turn(role="user", content="two")]
    await service.store_session(turns, conversation_id="c")
    again = await service.store_session([*turns, Turn(role="user", content="three")], conversation_id="c")
    assert [stored.created for stored in again.stored] == [False, False, True]


async def test_a_whole_session_is_one_memory_with_its_turns(service: MemoryService) -> None:
    turns = [Turn(role="user", content="Where is staging?"), Turn(role="assistant", content="On port 6543.")]
    (stored,) = (await service.store_session(turns, mode="session", conversation_id="c")).stored
    assert stored.memory.content == "user: Where is staging?\n\nassistant: On port 6543."
    parts = [stored.memory.content[turn.start : turn.end] for turn in stored.memory.turns]
    assert parts == ["user: Where is staging?", "assistant: On port 6543."]
    (hit,) = (await service.recall("port 6543")).hits
    assert "6543" in hit.snippet


async def test_two_mistakes_in_other_words_are_both_kept(service: MemoryService) -> None:  # C060
    await service.store("Posted to GitHub without approval")
    assert (await service.store("Commented on GitHub without showing the draft")).created


async def test_a_memory_is_superseded_only_within_its_namespace(service: MemoryService) -> None:
    old = await service.store("The limit is 100", namespace="/a")
    with pytest.raises(InvalidInputError, match="same namespace"):
        await service.store("The limit is 250", namespace="/b", supersedes=old.memory.id)
    other = await service.store("The limit is 250", namespace="/b")
    with pytest.raises(InvalidInputError, match="same namespace"):
        await service.update(old.memory.id, MemoryPatch(superseded_by=other.memory.id))


async def test_agents_who_share_a_key_do_not_share_idempotency_keys(service: MemoryService) -> None:
    alice, bob = (service.acting_as(Principal("shared", agent_id=name)) for name in ("alice", "bob"))
    first = await alice.store("mine", idempotency_key="k", conversation_id="a")
    second = await bob.store("mine", idempotency_key="k", conversation_id="b")
    assert (first.memory.agent_id, second.memory.agent_id) == ("alice", "bob")


async def test_a_session_takes_times_without_offset_as_utc(service: MemoryService) -> None:
    turns = [Turn(role="user", content="hello", occurred_at=datetime(2026, 1, 1))]
    for mode in ("turn", "session"):
        (stored,) = (await service.store_session(turns, mode=mode, conversation_id=mode)).stored
        assert stored.memory.occurred_at == datetime(2026, 1, 1, tzinfo=UTC)


async def test_the_order_of_metadata_keys_does_not_make_another_request(service: MemoryService) -> None:
    first = await service.store("text", metadata={"a": 1, "b": 2}, idempotency_key="k")
    again = await service.store("text", metadata={"b": 2, "a": 1}, idempotency_key="k")
    assert again.memory.id == first.memory.id
