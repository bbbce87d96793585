"""What every `MemoryStore` must do. An adapter's test subclasses `StoreContract` and gives it a store:

class TestMyStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[MyStore]:
        yield MyStore()
"""

import asyncio
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from retain.core.ports import Candidate, Capability, Entry, EventLog, MemoryStore, RequestKey
from retain.domain.errors import (
    ConflictError,
    EmbeddingError,
    InvalidInputError,
    ModelMismatchError,
    NotFoundError,
    StoreUnavailableError,
)
from retain.domain.memory import EVERYTHING, Filter, Model, Page, Passage, Tombstone, TurnSpan
from tests.conformance.making import MODEL, START, edit, entry, towards, unit

LATER = START + timedelta(hours=1)
ANYWHERE = Filter()


async def contents(store: MemoryStore, where: Filter = ANYWHERE) -> list[str]:
    """Return the contents that match, newest first."""
    return [memory.content for memory in (await store.list(where, Page(1000))).memories]


async def put(store: MemoryStore, *entries: Entry) -> list[str]:
    """Store entries and return the ids they got."""
    return [written.memory.id for written in await store.put(entries, model=MODEL)]


async def found_by_words(store: MemoryStore, text: str, where: Filter = ANYWHERE) -> list[str]:
    """Return ids, best keyword match first."""
    return _ranked(await store.candidates(where, 50, text=text))


def _ranked(candidates: list[Candidate]) -> list[str]:
    best = sorted(candidates, key=lambda found: -((found.semantic or 0) + (found.keyword or 0)))
    return list(dict.fromkeys(found.memory_id for found in best))


class StoreContract:
    """Facts about a store; `store` must be empty."""

    # Storing

    async def test_a_memory_comes_back_as_it_was_stored(self, store: MemoryStore) -> None:
        given = entry(
            "Grüße, 世界 🔥\n\ttabs\u0301",
            ["c++", "🔥", "two words", "a/b"],
            metadata={"a": {"b": [1, 2.5, None, True]}, 'quo"te': "ü", "$.x": 0},
            namespace="/team/ü",
            agent_id="researcher",
            conversation_id="c1",
            sequence=3,
            type="decision",
            occurred_at=START - timedelta(days=400),
            turns=(TurnSpan("user", 0, 5, START), TurnSpan("assistant", 5, 9)),
        )
        (written,) = await store.put([given], model=MODEL)
        assert written.created
        assert written.memory == given.memory
        assert await store.get([given.memory.id]) == [given.memory]

    async def test_storing_the_same_text_again_returns_the_first_and_adds_its_tags(self, store: MemoryStore) -> None:
        # C053, C058
        (first,) = await put(store, entry("Use uv, not pip.", ["a"]))
        (again,) = await store.put([entry("Use uv, not pip.", ["b", "a"], after=60)], model=MODEL)
        assert (again.memory.id, again.created, again.memory.tags) == (first, False, ("a", "b"))
        assert again.memory.updated_at == START + timedelta(seconds=60)
        assert (await store.list(Filter(), Page())).total == 1

    async def test_a_repeat_without_new_tags_changes_nothing(self, store: MemoryStore) -> None:
        await put(store, entry("Use uv, not pip.", ["a", "b"]))
        (again,) = await store.put([entry("Use uv, not pip.", ["b"], after=60)], model=MODEL)
        assert not again.created
        assert again.memory.updated_at == START

    async def test_the_same_text_elsewhere_is_another_memory(self, store: MemoryStore) -> None:
        # C055
        places = [
            {},
            {"namespace": "/a"},
            {"conversation_id": "c1"},
            {"conversation_id": "c1", "sequence": 0},
            {"conversation_id": "c1", "sequence": 1},
        ]
        written = await store.put([entry("ok", **place) for place in places], model=MODEL)
        assert [one.created for one in written] == [True] * 5
        written = await store.put([entry("ok", **place) for place in places], model=MODEL)
        assert [one.created for one in written] == [False] * 5

    async def test_a_repeat_within_one_batch_is_stored_once(self, store: MemoryStore) -> None:
        one, two = await store.put([entry("twice", ["a"]), entry("twice", ["b"])], model=MODEL)
        assert (one.created, two.created) == (True, False)
        assert one.memory == two.memory
        assert one.memory.tags == ("a", "b")

    async def test_texts_that_differ_in_one_number_are_both_kept(self, store: MemoryStore) -> None:
        await put(store, entry("Limit is 100/min", after=0), entry("Limit is 250/min", after=1))
        assert await contents(store) == ["Limit is 250/min", "Limit is 100/min"]

    async def test_a_batch_with_a_bad_entry_stores_nothing(self, store: MemoryStore) -> None:
        # C003
        batch = [entry(f"text {number}") for number in range(5)]
        batch[3] = replace(batch[3], vectors=batch[3].vectors[:, :8])
        with pytest.raises(EmbeddingError):
            await store.put(batch, model=MODEL)
        assert await contents(store, EVERYTHING) == []
        assert await found_by_words(store, "text") == []
        assert await store.model() is None

    async def test_vectors_that_are_no_numbers_are_refused(self, store: MemoryStore) -> None:
        bad = entry("broken", vector=np.full(MODEL.dimensions, np.nan, dtype=np.float32))
        with pytest.raises(EmbeddingError):
            await store.put([bad], model=MODEL)
        assert await contents(store, EVERYTHING) == []

    async def test_a_taken_id_is_a_conflict(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("one"))
        with pytest.raises(ConflictError, match=id_):
            await store.put([entry("another", id=id_)], model=MODEL)
        assert await contents(store) == ["one"]

    async def test_a_superseded_memory_is_hidden_and_names_its_successor(self, store: MemoryStore) -> None:
        (old,) = await put(store, entry("Limit is 100/min"))
        (new,) = await put(store, entry("Limit is 250/min", supersedes=old, after=60))
        assert await contents(store) == ["Limit is 250/min"]
        (memory,) = await store.get([old])
        assert (memory.superseded_by, memory.state) == (new, "superseded")
        assert await contents(store, Filter(states=frozenset(("superseded",)))) == ["Limit is 100/min"]

    async def test_superseding_by_an_exact_duplicate_names_the_memory_that_is_there(self, store: MemoryStore) -> None:
        old, there = await put(store, entry("old"), entry("new"))
        (written,) = await store.put([entry("new", supersedes=old)], model=MODEL)
        assert (written.created, written.memory.id) == (False, there)
        assert (await store.get([old]))[0].superseded_by == there

    async def test_superseding_a_memory_by_its_own_text_stores_it_anew(self, store: MemoryStore) -> None:
        (old,) = await put(store, entry("same"))
        (written,) = await store.put([entry("same", supersedes=old)], model=MODEL)
        assert written.created
        assert (await store.get([old]))[0].superseded_by == written.memory.id

    async def test_superseding_what_is_not_there_stores_nothing(self, store: MemoryStore) -> None:
        missing = entry("x").memory.id
        with pytest.raises(NotFoundError, match=missing):
            await store.put([entry("new", supersedes=missing)], model=MODEL)
        assert await contents(store, EVERYTHING) == []

    async def test_a_hidden_memory_does_not_stand_in_the_way_of_the_same_text(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("again"))
        await store.update(id_, edit(archived_at=START))
        (written,) = await store.put([entry("again")], model=MODEL)
        assert written.created

    async def test_an_archived_memory_can_be_stored_beside_an_active_twin(self, store: MemoryStore) -> None:
        await put(store, entry("twin"))
        (written,) = await store.put([entry("twin", archived_at=START)], model=MODEL)
        assert written.created
        assert len(await contents(store, EVERYTHING)) == 2

    async def test_twenty_tasks_storing_one_text_get_one_memory(self, store: MemoryStore) -> None:
        # C187
        outcomes = await asyncio.gather(*(store.put([entry("same")], model=MODEL) for _ in range(20)))
        assert len({written.memory.id for (written,) in outcomes}) == 1
        assert sum(written.created for (written,) in outcomes) == 1

    # Idempotency

    async def test_a_repeated_request_returns_the_first_outcome(self, store: MemoryStore) -> None:
        key = RequestKey("local", "k1", "digest")
        first = await store.put([entry("one"), entry("two")], model=MODEL, request=key)
        second = await store.put([entry("three")], model=MODEL, request=key)
        assert second == first
        assert sorted(await contents(store)) == ["one", "two"]

    async def test_a_request_key_stands_for_one_request_of_one_caller(self, store: MemoryStore) -> None:
        await store.put([entry("one")], model=MODEL, request=RequestKey("local", "k1", "digest"))
        with pytest.raises(ConflictError, match="k1"):
            await store.put([entry("two")], model=MODEL, request=RequestKey("local", "k1", "other"))
        (written,) = await store.put([entry("two")], model=MODEL, request=RequestKey("bob", "k1", "other"))
        assert written.created

    async def test_a_repeated_request_whose_memory_is_deleted_is_not_found(self, store: MemoryStore) -> None:
        key = RequestKey("local", "k1", "digest")
        await store.put([entry("one")], model=MODEL, request=key)
        await store.delete(Filter(), at=LATER)
        with pytest.raises(NotFoundError):
            await store.put([entry("one")], model=MODEL, request=key)

    async def test_a_failed_request_may_be_tried_again(self, store: MemoryStore) -> None:
        key = RequestKey("local", "k1", "digest")
        with pytest.raises(NotFoundError):
            await store.put([entry("one", supersedes=entry("x").memory.id)], model=MODEL, request=key)
        (written,) = await store.put([entry("one")], model=MODEL, request=key)
        assert written.created

    # Reading and listing

    async def test_get_keeps_the_order_and_leaves_out_what_is_not_there(self, store: MemoryStore) -> None:
        one, two = await put(store, entry("one"), entry("two"))
        assert [m.content for m in await store.get([two, entry("x").memory.id, one, two])] == ["two", "one", "two"]
        assert await store.get([]) == []

    async def test_pages_hold_every_memory_exactly_once_even_with_equal_times(self, store: MemoryStore) -> None:
        # C026
        await store.put([entry(f"row {number}") for number in range(905)], model=MODEL)
        seen: list[str] = []
        pages, cursor = 0, None
        while pages == 0 or cursor:
            listing = await store.list(Filter(), Page(50, cursor))
            assert listing.total == 905
            seen += [memory.id for memory in listing.memories]
            pages, cursor = pages + 1, listing.next_cursor
        assert (pages, len(seen), len(set(seen))) == (19, 905, 905)
        assert seen == await store.ids(Filter())
        assert seen == sorted(seen, reverse=True)

    async def test_a_page_is_stable_while_newer_memories_come_in(self, store: MemoryStore) -> None:
        await store.put([entry(f"row {number}", after=number) for number in range(4)], model=MODEL)
        first = await store.list(Filter(), Page(2))
        await put(store, entry("newer", after=100))
        second = await store.list(Filter(), Page(2, first.next_cursor))
        assert [m.content for m in (*first.memories, *second.memories)] == ["row 3", "row 2", "row 1", "row 0"]
        assert second.next_cursor is None

    @pytest.mark.parametrize("cursor", ["", "x", "💥", "AAAA", "W10", "bnVsbA", "WzEsMl0", "eyJhIjoxfQ", "[1]" * 300])
    async def test_a_made_up_cursor_is_refused(self, store: MemoryStore, cursor: str) -> None:
        with pytest.raises(InvalidInputError):
            await store.list(Filter(), Page(10, cursor))

    async def test_one_definition_of_a_total(self, store: MemoryStore) -> None:
        # C154
        ids = await store.put([entry(f"row {number}", ["t"]) for number in range(10)], model=MODEL)
        await store.delete(Filter(ids=tuple(written.memory.id for written in ids[:3])), at=LATER)
        await store.update(ids[3].memory.id, edit(archived_at=START))
        listing, stats, tags = (
            await store.list(Filter(), Page(2)),
            await store.stats(Filter()),
            await store.tags(Filter()),
        )
        assert listing.total == stats.total == tags[0].count == len(await store.ids(Filter())) == 6
        assert (stats.archived, stats.superseded) == (1, 0)
        assert sum(count.count for count in await store.types(Filter())) == 6
        assert [(count.type, count.count) for count in stats.by_type] == [("observation", 6)]

    # Filters

    async def test_tags_are_compared_whole_and_exactly(self, store: MemoryStore) -> None:
        # C061, C062, C069
        tags = ["smart", "art", "art-deco", "start", "Art", "a_b", "axb", "50%", "5000", "back\\slash", "a*b", "[x]",
                "c++", "🔥", "C#", "a/b", "two words", "msg:cluster", "'", '"', "a,b", "--", "%"]  # fmt: skip
        await store.put([entry(f"tagged {number}", [tag]) for number, tag in enumerate(tags)], model=MODEL)
        for number, tag in enumerate(tags):
            assert await contents(store, Filter(tags=(tag,))) == [f"tagged {number}"]
        for number, tag in enumerate(tags):
            assert len(await store.delete(Filter(tags=(tag,)), at=LATER)) == 1, tag
            assert len(await contents(store)) == len(tags) - number - 1

    async def test_any_of_some_tags_or_all_of_them_or_none(self, store: MemoryStore) -> None:
        # C064
        await put(store, entry("a", ["a"]), entry("b", ["b"]), entry("ab", ["a", "b"]), entry("none"))

        async def matching(**tags: object) -> list[str]:
            return sorted(await contents(store, Filter(**tags)))  # pyright: ignore[reportArgumentType]

        assert await matching(tags=("a", "b"), tag_match="all") == ["ab"]
        assert await matching(tags=("a", "b"), tag_match="any") == ["a", "ab", "b"]
        assert await matching(tags=("a", "missing"), tag_match="all") == []
        assert await matching(tags=("a", "missing")) == ["a", "ab"]
        assert await matching(tags=("missing",)) == []
        assert await matching(exclude_tags=("b", "missing")) == ["a", "none"]
        assert await matching(tags=("a",), exclude_tags=("b",)) == ["a"]

    async def test_a_namespace_holds_what_lies_below_it_and_nothing_beside_it(self, store: MemoryStore) -> None:
        places = ["/", "/a", "/a/b", "/ab", "/a-b", "/a0", "/b/a"]
        await store.put([entry(place, namespace=place) for place in places], model=MODEL)
        assert sorted(await contents(store, Filter(namespace="/a"))) == ["/a", "/a/b"]
        assert sorted(await contents(store, Filter(namespace="/"))) == sorted(places)
        assert await contents(store, Filter(namespace="/a/b/c")) == []
        assert [m.memory_id for m in await store.candidates(Filter(namespace="/x"), 5, text="a")] == []

    async def test_a_type_holds_its_subtypes(self, store: MemoryStore) -> None:
        # C019
        await store.register_type("post-mortem", "error")
        await put(store, entry("1", type="error"), entry("2", type="bug"), entry("3", type="post-mortem"), entry("4"))
        assert sorted(await contents(store, Filter(types=("error",)))) == ["1", "2", "3"]
        assert await contents(store, Filter(types=("post-mortem",))) == ["3"]
        counts = {count.type: (count.parent, count.count) for count in await store.types(Filter())}
        assert counts["post-mortem"] == ("error", 1)
        assert counts["bug"] == ("error", 1)
        assert counts["decision"] == (None, 0)
        await store.register_type("post-mortem", None)
        assert await contents(store, Filter(types=("bug", "observation"))) == ["4", "2"]

    async def test_times_include_the_start_and_exclude_the_end(self, store: MemoryStore) -> None:
        await store.put([entry(str(n), occurred_at=START + timedelta(milliseconds=n)) for n in range(5)], model=MODEL)
        span = Filter(since=START + timedelta(milliseconds=1), until=START + timedelta(milliseconds=3))
        assert sorted(await contents(store, span)) == ["1", "2"]
        within = Filter(since=START + timedelta(microseconds=500), until=START + timedelta(microseconds=2500))
        assert sorted(await contents(store, within)) == ["1", "2"]

    async def test_agent_conversation_ids_and_states_restrict(self, store: MemoryStore) -> None:
        ids = await put(
            store, entry("1", agent_id="x"), entry("2", conversation_id="c"), entry("3", archived_at=START), entry("4")
        )
        assert await contents(store, Filter(agent_id="x")) == ["1"]
        assert await contents(store, Filter(conversation_id="c")) == ["2"]
        assert await contents(store, Filter(states=frozenset(("archived",)))) == ["3"]
        assert await contents(store, Filter(ids=(ids[3], ids[0]))) == ["4", "1"]
        assert await contents(store, Filter(ids=())) == []
        assert await contents(store, Filter(ids=(ids[0],), agent_id="y")) == []

    @pytest.mark.parametrize(
        ("stored", "wanted", "matches"),
        [
            ({"a": 1}, {"a": 1.0}, True),
            ({"a": 1}, {"a": True}, False),
            ({"a": True}, {"a": 1}, False),
            ({"a": True}, {"a": True}, True),
            ({"a": None}, {"a": None}, True),
            ({}, {"a": None}, False),
            ({"a": "x"}, {"a": "X"}, False),
            ({"a": 12}, {"a": 1}, False),
            ({"a": 1.5}, {"a": 1.5}, True),
            ({"a": 0}, {"a": 0.0}, True),
            ({"a": 1e300}, {"a": 1e300}, True),
            ({"a": 10**30}, {"a": 10**30}, True),
            ({"a": {"c": 1, "b": [1, {"d": None}]}}, {"a": {"b": [1, {"d": None}], "c": 1}}, True),
            ({"a": [1, 2]}, {"a": [2, 1]}, False),
            ({"x": {"a": 1}}, {"a": 1}, False),
            ({"x": '"a":1'}, {"a": 1}, False),
            ({'"; DROP TABLE memory; --': "%_'"}, {'"; DROP TABLE memory; --': "%_'"}, True),
            ({"$.a[0]": "\\", "ключ": "значение"}, {"ключ": "значение", "$.a[0]": "\\"}, True),
            ({"a": "1"}, {"a": 1}, False),
        ],
    )
    async def test_metadata_is_compared_by_its_json_value(
        self, store: MemoryStore, stored: dict[str, object], wanted: dict[str, object], matches: bool
    ) -> None:
        await put(store, entry("it", metadata=stored), entry("plain"))
        assert await contents(store, Filter(metadata=wanted)) == (["it"] if matches else [])

    # Searching

    async def test_both_searches_give_both_values(self, store: MemoryStore) -> None:
        near, worded = await put(
            store, entry("about nothing", vector=unit(1)), entry("quokkaflux is here", vector=unit(2))
        )
        query = unit(1)
        found = {
            c.memory_id: c for c in await store.candidates(Filter(), 1, vector=query, text="quokkaflux", model=MODEL)
        }
        assert found.keys() == {near, worded}
        assert found[near].semantic == pytest.approx(1, abs=1e-5)
        assert found[near].keyword == 0
        assert found[worded].semantic == pytest.approx(float(unit(2) @ query), abs=0.01)
        assert 0.3 < (found[worded].keyword or 0) < 0.6
        only_vector = await store.candidates(Filter(), 5, vector=query, model=MODEL)
        assert [c.keyword for c in only_vector] == [None, None]
        only_text = await store.candidates(Filter(), 5, text="quokkaflux")
        assert [(c.memory_id, c.semantic) for c in only_text] == [(worded, None)]

    async def test_cosines_run_from_minus_one_to_one(self, store: MemoryStore) -> None:
        # C027
        axis = unit(7)
        aside = towards(axis, 0.0, 8)
        same, against, across = await put(
            store, entry("A", vector=axis), entry("B", vector=-axis), entry("C", vector=aside)
        )
        found = {c.memory_id: c.semantic for c in await store.candidates(Filter(), 3, vector=axis, model=MODEL)}
        assert found[same] == pytest.approx(1, abs=1e-5)
        assert found[against] == pytest.approx(-1, abs=1e-5)
        assert found[across] == pytest.approx(0, abs=0.01)

    async def test_the_filter_restricts_before_k(self, store: MemoryStore) -> None:
        # C022, C024
        query = unit(1)
        noise = [entry(f"kubernetes rollout {n}", ["noise"], vector=towards(query, 0.9, n)) for n in range(300)]
        rare = [entry(f"kubernetes rollout note {n}", ["keep"], vector=towards(query, 0.1, n)) for n in range(5)]
        await store.put(noise + rare, model=MODEL)
        kept = {one.memory.id for one in rare}
        where = Filter(tags=("keep",))
        assert {c.memory_id for c in await store.candidates(where, 5, vector=query, model=MODEL)} == kept
        assert {c.memory_id for c in await store.candidates(where, 5, text="kubernetes rollout")} == kept
        assert {s.id for s in await store.similar(query, where, 5, model=MODEL)} == kept

    async def test_hidden_memories_are_not_candidates(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("quokkaflux", vector=unit(1)))
        await store.candidates(Filter(), 5, vector=unit(1), text="quokkaflux", model=MODEL)
        await store.update(id_, edit(archived_at=START))
        assert await store.candidates(Filter(), 5, vector=unit(1), text="quokkaflux", model=MODEL) == []
        assert await store.similar(unit(1), Filter(), 5, model=MODEL) == []
        assert await store.containing("quokka", Filter(), 5) == []
        assert len(await store.candidates(EVERYTHING, 5, vector=unit(1), text="quokkaflux", model=MODEL)) == 1
        await store.update(id_, edit(archived_at=None))
        assert len(await store.candidates(Filter(), 5, vector=unit(1), text="quokkaflux", model=MODEL)) == 1

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("C++", "use C++ for the parser"),
            ("don't", "don't use agents here"),
            ("@nasa", "email @nasa from jpl"),
            ("src/main.py", "path src/main.py failed"),
            ("#682", "issue #682 stage two"),
            ("B=128", "B=128 traffic"),
            ("100%", "limit 100% reached"),
            ("to-do", "to-do list"),
            ("AND", "the AND gate failed"),
            ("NEAR(", "NEAR the river"),
        ],
    )
    async def test_any_text_is_a_legal_query(self, store: MemoryStore, query: str, text: str) -> None:
        # C020
        others = ["use C++ for the parser", "don't use agents here", "email @nasa from jpl", "path src/main.py failed",
                  "issue #682 stage two", "B=128 traffic", "limit 100% reached", "to-do list", "the AND gate failed",
                  "NEAR the river"]  # fmt: skip
        ids = dict(zip(others, await put(store, *map(entry, others)), strict=True))
        assert (await found_by_words(store, query))[0] == ids[text]

    @pytest.mark.parametrize(
        "query",
        [
            "*",
            '"',
            "(",
            ")",
            "-",
            "^",
            "()*",
            "***",
            '"\\" \\""',
            "\\",
            '"unclosed',
            "NOT",
            "a OR",
            "col:val",
            "",
            " ",
            "🔥",
            "،",
        ],
    )
    async def test_a_query_of_punctuation_is_no_error_and_finds_nothing_unrelated(
        self, store: MemoryStore, query: str
    ) -> None:
        # C021
        await put(store, entry("the payroll runs on Fridays", vector=unit(1)))
        assert await store.candidates(Filter(), 5, text=query) == []
        (found,) = await store.candidates(Filter(), 5, text=query, vector=unit(1), model=MODEL)
        assert found.keyword == 0

    async def test_a_query_of_stop_words_finds_them(self, store: MemoryStore) -> None:
        (id_, _) = await put(store, entry("to be or not to be"), entry("payroll Fridays"))
        assert await found_by_words(store, "to be or not to be") == [id_]

    async def test_words_are_found_in_other_forms(self, store: MemoryStore) -> None:
        (id_, _) = await put(store, entry("Deployments are frozen; naïve café"), entry("nothing here"))
        for query in ("deployment", "DEPLOYED", "freeze frozen", "naive", "CAFÉ", "cafe\u0301"):
            assert await found_by_words(store, query) == [id_], query

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("数据库连接池上限改为五十", "连接池"),
            ("数据库连接池上限改为五十", "池"),
            ("明日の会議は十時から", "会議"),
            ("明日の会議は十時から", "から"),
            ("カタカナのメモ", "ﾒﾓ"),
            ("ประชุมทีมวันศุกร์", "ประชุม"),
            ("회의는 열 시에", "회의"),
            ("调用API接口超时", "API"),
            ("调用API接口超时", "超时 接口"),
        ],
    )
    async def test_part_of_a_run_without_spaces_is_found(self, store: MemoryStore, text: str, query: str) -> None:
        # C029
        others = ["会话已经结束", "東京の天気", "วันจันทร์หน้า", "plain English", "점심 식사"]
        ids = await put(store, entry(text), *map(entry, others))
        assert (await found_by_words(store, query))[0] == ids[0]
        await store.delete(Filter(ids=(ids[0],)), at=LATER)
        assert ids[0] not in await found_by_words(store, query)

    async def test_a_query_in_another_script_matches_nothing_unrelated(self, store: MemoryStore) -> None:
        await put(store, entry("plain English"), entry("数据库连接池"))
        assert await found_by_words(store, "天気予報") == []
        assert await found_by_words(store, "погода") == []

    async def test_keyword_values_are_comparable_between_queries(self, store: MemoryStore) -> None:
        filler = [entry(f"worker {n} deployed the service in region {n}") for n in range(200)]
        (id_, *_) = await put(store, entry("ERR_7Q2X at worker 12"), *filler)

        async def value(query: str) -> float:
            return max((c.keyword or 0 for c in await store.candidates(Filter(), 50, text=query)), default=0)

        assert (await found_by_words(store, "ERR_7Q2X"))[0] == id_
        assert await value("ERR_7Q2X") > 0.4
        assert await value("worker") > 0.3
        assert await value("unheard zebra quagga worker") < 0.1
        assert await value("unheard zebra") == 0

    async def test_a_memory_of_many_passages_is_found_by_each_and_similar_once(self, store: MemoryStore) -> None:
        content = "alpha beta. gamma delta. epsilon zeta."
        passages = [Passage(0, 11), Passage(12, 24), Passage(25, 38)]
        vectors = np.stack([unit(1), unit(2), unit(3)])
        long = replace(entry(content), passages=passages, vectors=vectors)
        ids = await put(store, long, entry("other", vector=unit(9)))
        (best,) = await store.candidates(Filter(), 1, vector=unit(3), model=MODEL)
        assert (best.memory_id, best.start, best.end) == (ids[0], 25, 38)
        (worded,) = await store.candidates(Filter(), 5, text="gamma")
        assert (worded.start, worded.end) == (12, 24)
        similar = await store.similar(unit(2), Filter(), 5, model=MODEL)
        assert [one.id for one in similar] == ids
        assert (similar[0].snippet, similar[0].score) == ("gamma delta.", pytest.approx(1, abs=1e-5))

    async def test_literal_text_is_found_newest_first_and_case_counts(self, store: MemoryStore) -> None:
        ids = await put(
            store, entry("100% of_it", after=0), entry("see 100% of_it", after=1), entry("see 100% OF_IT", after=2)
        )
        found = await store.containing("% of_", Filter(), 10)
        assert [(c.memory_id, c.start, c.end) for c in found] == [(ids[1], 7, 12), (ids[0], 3, 8)]
        assert [c.memory_id for c in await store.containing("% of_", Filter(), 1)] == [ids[1]]
        assert await store.containing("", Filter(), 10) == []

    async def test_offsets_count_characters_not_bytes(self, store: MemoryStore) -> None:
        await put(store, entry("🔥é世界 needle"))
        (found,) = await store.containing("needle", Filter(), 1)
        assert (found.start, found.end) == (5, 11)

    async def test_searching_an_empty_store_finds_nothing(self, store: MemoryStore) -> None:
        assert await store.candidates(Filter(), 5, vector=unit(1), text="x", model=MODEL) == []
        assert await store.similar(unit(1), Filter(), 5, model=MODEL) == []
        assert await store.model() is None

    # Changing

    async def test_an_edit_is_found_by_the_new_meaning_only(self, store: MemoryStore) -> None:
        # C005
        (id_,) = await put(store, entry("Payroll runs on Fridays", vector=unit(1)))
        memory = await store.update(id_, edit("The greenhouse needs new pumps", vector=unit(2)), model=MODEL)
        assert memory is not None
        assert (memory.content, memory.created_at, memory.updated_at) == (
            "The greenhouse needs new pumps", START, START + timedelta(seconds=60))  # fmt: skip
        assert await found_by_words(store, "Payroll") == []
        assert await found_by_words(store, "greenhouse pumps") == [id_]
        (found,) = await store.candidates(Filter(), 5, vector=unit(1), model=MODEL)
        assert (found.semantic or 0) < 0.7

    async def test_an_edit_changes_the_given_fields_only(self, store: MemoryStore) -> None:
        # C017
        given = entry("text", ["a"], metadata={"x": 1}, conversation_id="c", agent_id="z")
        (id_,) = await put(store, given)
        memory = await store.update(id_, edit(tags=("b", "c"), type="decision"))
        assert memory == replace(
            given.memory, tags=("b", "c"), type="decision", updated_at=START + timedelta(seconds=60)
        )
        memory = await store.update(id_, edit(metadata={}, occurred_at=LATER))
        assert memory is not None
        assert (memory.metadata, memory.occurred_at, memory.tags) == ({}, LATER, ("b", "c"))
        assert await store.get([id_]) == [memory]

    async def test_an_edit_of_what_is_not_there_is_none(self, store: MemoryStore) -> None:
        # C016
        (id_,) = await put(store, entry("gone"))
        await store.delete(Filter(ids=(id_,)), at=LATER)
        assert await store.update(id_, edit(tags=("x",))) is None
        assert await store.tags(EVERYTHING) == []

    async def test_an_edit_into_a_duplicate_is_a_conflict_and_changes_nothing(self, store: MemoryStore) -> None:
        one, two = await put(store, entry("one", ["t"]), entry("two"))
        with pytest.raises(ConflictError):
            await store.update(one, edit("two", tags=("changed",)), model=MODEL)
        assert sorted(await contents(store)) == ["one", "two"]
        assert (await store.get([one]))[0].tags == ("t",)
        assert await found_by_words(store, "one") == [one]
        await store.update(two, edit(archived_at=START))
        await store.update(one, edit("two"), model=MODEL)
        with pytest.raises(ConflictError):
            await store.update(two, edit(archived_at=None))

    async def test_no_memory_is_superseded_by_itself_over_any_number_of_steps(self, store: MemoryStore) -> None:
        one, two, three = await put(store, entry("1"), entry("2"), entry("3"))
        await store.update(one, edit(superseded_by=two))
        await store.update(two, edit(superseded_by=three))
        for id_, by in ((one, one), (two, one), (three, one), (three, three)):
            with pytest.raises(ConflictError):
                await store.update(id_, edit(superseded_by=by))
        with pytest.raises(NotFoundError):
            await store.update(three, edit(superseded_by=entry("x").memory.id))
        await store.update(two, edit(superseded_by=None))
        assert sorted(await contents(store)) == ["2", "3"]

    # Deleting

    async def test_a_deleted_text_can_be_stored_again_any_number_of_times(self, store: MemoryStore) -> None:
        # C001
        for cycle in range(3):
            (id_,) = await put(store, entry("The staging DB moved to port 6543.", vector=unit(1), after=cycle))
            assert (await store.list(Filter(), Page())).total == 1
            assert await found_by_words(store, "which port is staging on") == [id_]
            (found,) = await store.candidates(Filter(), 5, vector=unit(1), model=MODEL)
            assert found.memory_id == id_
            assert (await store.get([id_]))[0].created_at == START + timedelta(seconds=cycle)
            assert id_ not in {stone.id for stone in await store.tombstones(Filter())}
            assert await store.delete(Filter(ids=(id_,)), at=LATER) == [id_]
            assert await store.candidates(EVERYTHING, 5, vector=unit(1), text="staging", model=MODEL) == []
        assert len(await store.tombstones(Filter())) == 3

    async def test_a_deleted_memory_is_shown_nowhere(self, store: MemoryStore) -> None:
        # C016
        (id_,) = await put(store, entry("secret", ["hush"], conversation_id="c", namespace="/x", vector=unit(1)))
        await store.delete(Filter(tags=("hush",)), at=LATER)
        assert await store.get([id_]) == []
        assert await store.ids(EVERYTHING) == []
        assert (await store.list(EVERYTHING, Page())).total == 0
        assert await store.tags(EVERYTHING) == []
        stats = await store.stats(Filter())
        assert (stats.total, stats.tags, stats.conversations, stats.model) == (0, 0, 0, None)
        assert all(count.count == 0 for count in await store.types(EVERYTHING))
        (stone,) = await store.tombstones(Filter(namespace="/x"))
        assert stone == Tombstone(id_, entry("secret").memory.content_hash, "/x", LATER)
        assert await store.tombstones(Filter(namespace="/y")) == []

    async def test_a_delete_with_another_count_than_expected_deletes_nothing(self, store: MemoryStore) -> None:
        await put(store, entry("1", ["t"]), entry("2", ["t"]), entry("3"))
        with pytest.raises(ConflictError, match="2"):
            await store.delete(Filter(tags=("t",)), at=LATER, expected=3)
        assert len(await contents(store)) == 3
        assert len(await store.delete(Filter(tags=("t",)), at=LATER, expected=2)) == 2
        assert await contents(store) == ["3"]

    async def test_tombstones_of_an_import_are_added_once_and_never_over_a_living_memory(
        self, store: MemoryStore
    ) -> None:
        (living,) = await put(store, entry("alive"))
        stones = [Tombstone(id_, entry("x").memory.content_hash, "/a", START) for id_ in (living, entry("x").memory.id)]
        assert await store.restore(stones) == 1
        assert await store.restore(stones) == 0
        assert await store.tombstones(Filter()) == stones[1:]
        await put(store, entry("back", id=stones[1].id))
        assert await store.tombstones(Filter()) == []

    # Tags

    async def test_tags_are_counted_most_used_first(self, store: MemoryStore) -> None:
        await put(store, entry("1", ["b", "a"]), entry("2", ["a", "c"]), entry("3", ["d"], namespace="/n"))
        counts = [(count.tag, count.count) for count in await store.tags(Filter())]
        assert counts == [("a", 2), ("b", 1), ("c", 1), ("d", 1)]
        assert [count.tag for count in await store.tags(Filter(), minimum_use=2)] == ["a"]
        assert [count.tag for count in await store.tags(Filter(namespace="/n"))] == ["d"]

    async def test_tags_are_renamed_and_merged(self, store: MemoryStore) -> None:
        ids = await put(store, entry("1", ["x", "old", "y"]), entry("2", ["old", "new"]), entry("3", ["other"]))
        assert await store.retag(["old", "older"], "new", Filter(), at=LATER) == 2
        memories = await store.get(ids)
        assert [memory.tags for memory in memories] == [("x", "new", "y"), ("new",), ("other",)]
        assert [memory.updated_at for memory in memories] == [LATER, LATER, START]
        assert await store.retag(["old"], "new", Filter(), at=LATER) == 0
        assert await store.retag(["new"], "new", Filter(), at=LATER) == 0
        assert "old" not in {count.tag for count in await store.tags(EVERYTHING)}

    # The model

    async def test_vectors_of_another_model_are_refused_and_all_else_works(self, store: MemoryStore) -> None:
        # C013
        (id_,) = await put(store, entry("quokkaflux"))
        other = Model("other-model", 48)
        vector = unit(1, dimensions=48)
        attempts = [
            store.put([entry("new", vector=vector)], model=other),
            store.candidates(Filter(), 5, vector=vector, model=other),
            store.similar(vector, Filter(), 5, model=other),
            store.update(id_, edit("new", vector=vector), model=other),
        ]
        for attempt in attempts:
            with pytest.raises(ModelMismatchError, match=r"reembed"):
                await attempt
        assert await store.model() == MODEL
        assert await contents(store) == ["quokkaflux"]
        assert await found_by_words(store, "quokkaflux") == [id_]
        assert len(await store.get([id_])) == 1

    async def test_an_emptied_store_takes_another_model(self, store: MemoryStore) -> None:
        await put(store, entry("one"))
        await store.candidates(Filter(), 5, vector=unit(1), model=MODEL)
        await store.delete(Filter(), at=LATER)
        assert await store.model() is None
        other = Model("other-model", 48)
        vector = unit(1, dimensions=48)
        await store.put([entry("two", vector=vector)], model=other)
        assert await store.model() == other
        (found,) = await store.candidates(Filter(), 5, vector=vector, model=other)
        assert found.semantic == pytest.approx(1, abs=1e-5)

    # Events and closing

    async def test_events_tell_what_changed_in_order(self, store: MemoryStore) -> None:
        if Capability.EVENTS not in store.capabilities:
            pytest.skip("this store has no events")
        log: EventLog = store  # pyright: ignore[reportAssignmentType]
        assert await log.last_event() == 0
        one, two = await put(store, entry("1", ["t"], namespace="/a"), entry("2", namespace="/b"))
        await store.update(one, edit(tags=("u",)))
        await store.delete(Filter(ids=(two,)), at=LATER)
        events = await log.events(0, 10, namespace="/")
        assert [(event.kind, event.memory_id, event.namespace) for event in events] == [
            ("stored", one, "/a"), ("stored", two, "/b"), ("updated", one, "/a"), ("deleted", two, "/b")]  # fmt: skip
        assert [(event.type, event.tags) for event in events[2:]] == [("observation", ("u",)), (None, ())]
        assert [event.seq for event in events] == sorted(event.seq for event in events)
        assert await log.last_event() == events[-1].seq
        assert [e.memory_id for e in await log.events(events[0].seq, 10, namespace="/b")] == [two, two]
        assert await log.events(0, 1, namespace="/") == events[:1]

    async def test_a_closed_store_says_so(self, store: MemoryStore) -> None:
        await store.aclose()
        await store.aclose()
        for late in (store.get([]), store.put([entry("late")], model=MODEL), store.candidates(Filter(), 1, text="x")):
            with pytest.raises(StoreUnavailableError):
                await late
