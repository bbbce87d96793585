"""What a recall finds, in which order, with what score. Real SQLite, real model."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retain import Filter, InvalidInputError, NewMemory, TooLargeError, Turn
from retain.core.api import Record
from retain.core.service import MemoryService
from retain.domain.memory import RecallMode
from retain.storage.sqlite import SqliteStore
from retain.storage.sqlite.connection import Connection
from tests.conftest import SetClock

FACT = "The recovery key is kept in the blue safe on the third floor."
FILLER = (
    "The platform team met on Thursday to go through the open points of the quarter. Most of the time went into the "
    "migration of the billing service, which is two weeks behind because the vendor changed its interface. Maria will "
    "write to them and ask for a sandbox. The new dashboards are in use and people like them, although the one for "
    "latency still shows yesterday's numbers until noon. We also agreed to move the weekly release from Wednesday to "
    "Tuesday, so that there is a full day left for surprises before the support rota changes. Jonas offered to write "
    "the runbook for that. Hiring goes on as planned and two candidates come next week. "
)


async def test_a_fact_in_other_words_is_found_first(service: MemoryService) -> None:  # Shows 4
    for text in ("Lunch is at noon on weekdays", "The deploy freeze ends on Friday", "Redis runs on host A"):
        await service.store(text)
    hits = (await service.recall("when can we ship again?")).hits
    assert hits[0].memory.content == "The deploy freeze ends on Friday"


async def test_the_last_sentence_of_a_long_memory_counts_nearly_as_much_as_alone(
    service: MemoryService,
) -> None:  # Shows 5
    await service.store(FACT, namespace="/alone")
    await service.store(FILLER + FACT, namespace="/long")
    assert len((FILLER + FACT).split()) >= 125
    for question in (FACT, "where is the recovery key?", "which floor is the blue safe on"):
        (alone,) = (await service.recall(question, where=Filter(namespace="/alone"))).hits
        (long,) = (await service.recall(question, where=Filter(namespace="/long"))).hits
        assert "recovery key" in long.snippet
        assert long.score >= 0.75 * alone.score, (question, alone.score, long.score)


async def test_a_word_at_the_end_of_a_very_long_text_is_found(service: MemoryService) -> None:
    text = "".join(f"Line {i} says nothing of interest about topic {i % 7}. " for i in range(800))
    stored = await service.store(text + "The spare badge is under the printer.")
    for mode in ("hybrid", "semantic"):
        (hit,) = (await service.recall("where is the spare badge", mode=mode)).hits
        assert hit.memory.id == stored.memory.id and "spare badge" in hit.snippet


async def test_scores_mean_something(service: MemoryService) -> None:
    text = "The invoice service retries failed payments three times"
    await service.store(text)
    await service.store("Bananas ripen faster in a paper bag")
    hits = (await service.recall(text)).hits
    assert hits[0].score > 0.95
    assert hits[1].score < 0.2
    nonsense = (await service.recall("qwzx vbnrt plokij")).hits
    assert all(hit.score < 0.25 for hit in nonsense)
    assert all(0 <= hit.score <= 1 for hit in (*hits, *nonsense))


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
async def test_an_exact_rare_word_wins(service: MemoryService, mode: str) -> None:  # C028
    await service.store_many([f"Deployment {i} of the worker fleet went well in region {i}" for i in range(50)])
    stored = await service.store("ERR_7Q2X at worker 12")
    hits = (await service.recall("ERR_7Q2X", mode=mode)).hits  # type: ignore[arg-type]
    assert hits[0].memory.id == stored.memory.id


EVERYDAY = {
    "use C++ for the parser": "C++",
    "don't use agents here": "don't",
    "email @nasa from jpl": "@nasa",
    "path src/main.py failed": "src/main.py",
    "issue #682 stage two": "#682",
    "B=128 traffic": "B=128",
    "limit 100% reached": "100%",
    "to-do list": "to-do",
    "the AND gate failed": "AND",
    "NEAR the river": "NEAR(",
}


async def test_everyday_text_is_a_legal_query_and_finds_its_memory(service: MemoryService) -> None:  # C020
    await service.store_many(list(EVERYDAY))
    for content, query in EVERYDAY.items():
        hits = (await service.recall(query)).hits
        assert hits[0].memory.content == content, query


@pytest.mark.parametrize(
    "query", ["*", '"', "(", ")", "-", "^", "()*", "***", '"\\" \\""', "NOT", "a OR", "col:val", '"unclosed']
)
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "exact"])
async def test_punctuation_is_a_legal_query(service: MemoryService, query: str, mode: str) -> None:  # C021
    await service.store("plain words")
    await service.recall(query, mode=mode)  # type: ignore[arg-type]


async def test_a_query_without_any_known_word_finds_nothing_by_keyword(service: MemoryService) -> None:  # C029
    await service.store("plain words")
    assert (await service.recall("数据库", mode="keyword")).hits == ()
    assert (await service.recall("???", mode="keyword")).hits == ()


@pytest.mark.parametrize(
    ("content", "query"),
    [("数据库连接池上限改为五十", "连接池"), ("明日の会議は十時から", "会議"), ("ประชุมทีมวันศุกร์", "ประชุม")],
)
async def test_part_of_a_run_without_spaces_is_found(service: MemoryService, content: str, query: str) -> None:  # C029
    await service.store_many(["plain words", "其他的内容没有关系", "天気がいいですね"])
    stored = await service.store(content)
    assert (await service.recall(query, mode="keyword")).hits[0].memory.id == stored.memory.id


async def test_the_exact_mode_finds_the_text_literally(service: MemoryService) -> None:
    await service.store_many(["call foo(bar) now", "call FOO(BAR) now", "foo and bar"])
    hits = (await service.recall("foo(bar)", mode="exact")).hits
    assert [hit.memory.content for hit in hits] == ["call foo(bar) now"]
    assert hits[0].score == 1


async def test_a_tag_filter_restricts_before_k(service: MemoryService) -> None:  # C022, small; the store tests do 4,100
    await service.store_many([noise(i) for i in range(300)])
    kept = [(await service.store(f"Rollout checklist {i} for clusters", tags=["keep"])).memory.id for i in range(5)]
    hits = (await service.recall("kubernetes rollout", k=5, where=Filter(tags=("keep",)))).hits
    assert {hit.memory.id for hit in hits} == set(kept)


def noise(number: int) -> NewMemory:
    return NewMemory(content=f"kubernetes rollout number {number}", tags=["noise"])


async def test_all_and_any_and_none_of_tags(service: MemoryService) -> None:  # C064
    for name, tags in (("one", ["a"]), ("two", ["b"]), ("three", ["a", "b"])):
        await service.store(name, tags=tags)

    async def found(**conditions: object) -> int:
        return (await service.list(Filter(**conditions))).total  # type: ignore[arg-type]

    assert await found(tags=("a", "b"), tag_match="all") == 1
    assert await found(tags=("a", "b"), tag_match="any") == 3
    assert await found(tags=("a", "missing"), tag_match="all") == 0
    assert await found(exclude_tags=("a",)) == 1
    with pytest.raises(InvalidInputError, match="tag_match"):
        await found(tags=("a",), tag_match="everything")


async def test_tags_match_whole_and_literally(service: MemoryService) -> None:  # C061, C062, C069
    tags = ["smart", "art", "art-deco", "start", "Art", "a_b", "axb", "50%", "5000", "back\\slash", "a*b", "[x]"]
    tags += ["msg:cluster", "c++", "🔥", "C#", "a/b", "two words", "c,d"]
    await service.store_many([tagged(tag) for tag in tags])
    for tag in tags:
        listing = await service.list(Filter(tags=(tag,)))
        assert [memory.content for memory in listing.memories] == [f"carries {tag}"]


def tagged(tag: str) -> NewMemory:
    return NewMemory(content=f"carries {tag}", tags=[tag])


async def test_conversations_can_be_found_once_each(service: MemoryService) -> None:
    for number in range(4):
        turns = [Turn(role="user", content=f"Redis question {i} of talk {number}") for i in range(5)]
        await service.store_session(turns, conversation_id=f"c{number}")
    hits = (await service.recall("redis question", k=4, group_by="conversation")).hits
    assert {hit.memory.conversation_id for hit in hits} == {"c0", "c1", "c2", "c3"}


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword", "exact"])
async def test_conversations_of_two_namespaces_with_one_id_are_two(service: MemoryService, mode: RecallMode) -> None:
    for namespace in ("/one", "/two"):
        turns = [Turn(role="user", content=f"Redis question {number}") for number in range(3)]
        await service.store_session(turns, conversation_id="c", namespace=namespace)
    hits = (await service.recall("Redis question", k=5, mode=mode, group_by="conversation")).hits
    assert sorted(hit.memory.namespace for hit in hits) == ["/one", "/two"]


async def test_a_conversation_below_hundreds_of_better_candidates_is_found(service: MemoryService) -> None:
    talk = [NewMemory(content=f"Redis question {n} of the talk", conversation_id="long") for n in range(450)]
    await service.store_many([*talk, NewMemory(content="Bananas ripen in a bag", conversation_id="other")])
    for mode in ("hybrid", "semantic"):
        hits = (await service.recall("redis question", k=2, mode=mode, group_by="conversation")).hits
        assert [hit.memory.conversation_id for hit in hits] == ["long", "other"]
    hits = (await service.recall("redis question", k=2, group_by="conversation", min_score=0.3)).hits
    assert [hit.memory.conversation_id for hit in hits] == ["long"]


async def test_ties_go_to_the_higher_id_whatever_was_stored_first(service: MemoryService) -> None:
    for number in range(20):
        await service.store("the same text", conversation_id=f"c{number}")
    header, *memories = [record async for record in service.export()]
    await service.delete_many(Filter(), expected_count=20)

    async def newest_first() -> AsyncIterator[Record]:
        for record in (header, *memories[::-1]):
            yield record

    await service.import_records(newest_first())
    ids = sorted((record["id"] for record in memories), reverse=True)
    for mode in ("hybrid", "semantic", "keyword", "exact"):
        hits = (await service.recall("the same text", k=5, mode=mode)).hits
        assert [hit.memory.id for hit in hits] == ids[:5], mode


async def test_a_recall_asks_the_store_once(service: MemoryService, store: SqliteStore) -> None:
    await service.store_many([f"Redis question {n}" for n in range(150)])
    asked: list[str] = []
    read = store._database.read

    async def counted(work: Callable[[Connection], Any]) -> Any:
        asked.append("once")
        return await read(work)

    store._database.read = counted
    assert len((await service.recall("redis question", k=5)).hits) == 5
    assert asked == ["once"]


async def test_a_time_filter_uses_when_it_happened(service: MemoryService) -> None:  # C078
    await service.store("The office moved to Zurich", occurred_at=datetime(2019, 5, 4, tzinfo=UTC))
    await service.store("The office got a new kitchen")
    found = await service.recall("office in 2019", time_from_query=True)
    assert [hit.memory.content for hit in found.hits] == ["The office moved to Zurich"]
    assert found.query == "office" and found.time_range is not None
    by_filter = await service.recall("office", where=Filter(time="in 2019"))
    assert [hit.memory.content for hit in by_filter.hits] == ["The office moved to Zurich"]


@pytest.mark.parametrize("time", ["whenever", "2026-02-29", "last thursdayish", "2026-13-01"])
async def test_a_time_that_is_not_understood_is_an_error(service: MemoryService, time: str) -> None:  # C046, C050
    with pytest.raises(InvalidInputError, match="time"):
        await service.recall("anything", where=Filter(time=time))


async def test_an_empty_query_lists_the_newest(service: MemoryService, clock: SetClock) -> None:  # C032
    for text in ("first", "second", "third"):
        await service.store(text, tags=["ops"])
        clock.advance(timedelta(seconds=1))
    hits = (await service.recall("", k=2, where=Filter(tags=("ops",), agent_id="", conversation_id=""))).hits
    assert [hit.memory.content for hit in hits] == ["third", "second"]


async def test_metadata_must_equal(service: MemoryService) -> None:
    await service.store("one", metadata={"env": "prod", "n": 1, "odd.key \"'": True})
    await service.store("two", metadata={"env": "production", "n": "1"})
    for metadata in ({"env": "prod"}, {"n": 1}, {"odd.key \"'": True}, {"env": "prod", "n": 1}):
        assert [m.content for m in (await service.list(Filter(metadata=metadata))).memories] == ["one"], metadata


@pytest.mark.parametrize("k", [0, -1, True, 1.5, "3"])
async def test_an_impossible_k_is_refused(service: MemoryService, k: object) -> None:
    with pytest.raises(InvalidInputError, match="k must be"):
        await service.recall("text", k=k)  # type: ignore[arg-type]


async def test_a_huge_k_names_the_cap(service: MemoryService) -> None:  # C024
    with pytest.raises(TooLargeError, match="1,000"):
        await service.recall("text", k=10_000)


async def test_recalling_changes_nothing(service: MemoryService) -> None:  # C017
    stored = await service.store("text")
    await service.recall("text")
    assert await service.get(stored.memory.id) == stored.memory


async def test_an_empty_query_can_list_one_memory_of_each_conversation(service: MemoryService) -> None:
    for talk in ("a", "b"):
        await service.store_many([NewMemory(content=f"{talk} {n}", conversation_id=talk) for n in range(4)])
    hits = (await service.recall("", k=2, group_by="conversation")).hits
    assert [hit.memory.content for hit in hits] == ["b 3", "a 3"]


async def test_a_very_long_question_or_time_is_refused_at_once(service: MemoryService) -> None:
    with pytest.raises(TooLargeError, match="query"):
        await service.recall("last week " * 20_000, time_from_query=True)
    with pytest.raises(TooLargeError, match="time"):
        await service.recall("text", where=Filter(time="last week " * 1_000))
