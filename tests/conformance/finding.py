"""The contract: filters and searches."""

import asyncio
import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from retain.core.ports import MemoryStore
from retain.domain.memory import EVERYTHING, Filter, Passage
from retain.domain.scoring import Candidates
from tests.conformance.asking import LATER, candidates, contents, found_by_words, put
from tests.conformance.making import MODEL, START, edit, entry, towards, unit


class Finding:
    """Facts about filters and searches."""

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
        assert [m.memory_id for m in await candidates(store, Filter(namespace="/x"), 5, text="a")] == []

    async def test_types_are_counted_with_their_parents(self, store: MemoryStore) -> None:
        # C019
        await store.register_type("post-mortem", "error", namespace="/")
        await put(store, entry("1", type="error"), entry("2", type="bug"), entry("3", type="post-mortem"), entry("4"))
        assert await contents(store, Filter(types=("post-mortem",))) == ["3"]
        assert await contents(store, Filter(types=("bug", "observation"))) == ["4", "2"]
        counts = {count.type: (count.parent, count.count) for count in await store.types(Filter())}
        assert counts["post-mortem"] == ("error", 1)
        assert counts["bug"] == ("error", 1)
        assert counts["decision"] == (None, 0)
        await store.register_type("post-mortem", None, namespace="/")
        assert (await store.known_types("/"))["post-mortem"] == "error"
        await store.register_type("post-mortem", "learning", namespace="/")
        assert (await store.known_types("/"))["post-mortem"] == "learning"

    async def test_an_own_type_is_known_where_it_was_registered_below_and_above(self, store: MemoryStore) -> None:
        await store.register_type("own", "error", namespace="/a/b")
        for namespace, known in (("/", True), ("/a", True), ("/a/b", True), ("/a/b/c", True), ("/a/c", False)):
            assert ("own" in await store.known_types(namespace)) is known, namespace
            named = {count.type: count.namespace for count in await store.types(Filter(namespace=namespace))}
            assert ("own" in named) is known, namespace
        await store.register_type("own", "decision", namespace="/x")
        assert (await store.known_types("/a"))["own"] == "error"
        assert (await store.known_types("/x"))["own"] == "decision"

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

    async def test_a_filter_of_thousands_of_keys_or_tags_is_answered(self, store: MemoryStore) -> None:
        many = {f"k{number}": number for number in range(3_000)}
        tags = tuple(f"t{number}" for number in range(1_200))
        await put(
            store, entry("quokka", tags, metadata=many), entry("zebra", tags[1:], metadata=many | {"k2999": "other"})
        )
        assert await contents(store, Filter(metadata=many)) == ["quokka"]
        assert await contents(store, Filter(tags=tags, tag_match="all")) == ["quokka"]
        assert len(await candidates(store, Filter(tags=tags, tag_match="all"), 5, text="quokka zebra")) == 1

    async def test_both_searches_give_both_values(self, store: MemoryStore) -> None:
        near, worded = await put(
            store, entry("about nothing", vector=unit(1)), entry("quokkaflux is here", vector=unit(2))
        )
        query = unit(1)
        found = {
            c.memory_id: c for c in await candidates(store, Filter(), 1, vector=query, text="quokkaflux", model=MODEL)
        }
        assert found.keys() == {near, worded}
        assert found[near].semantic == pytest.approx(1, abs=1e-5)
        assert found[near].keyword == 0
        assert found[worded].semantic == pytest.approx(float(unit(2) @ query), abs=0.01)
        assert found[worded].keyword == pytest.approx(1)
        only_vector = await candidates(store, Filter(), 5, vector=query, model=MODEL)
        assert [c.keyword for c in only_vector] == [None, None]
        only_text = await candidates(store, Filter(), 5, text="quokkaflux")
        assert [(c.memory_id, c.semantic) for c in only_text] == [(worded, None)]

    async def test_cosines_run_from_minus_one_to_one(self, store: MemoryStore) -> None:
        # C027
        axis = unit(7)
        aside = towards(axis, 0.0, 8)
        same, against, across = await put(
            store, entry("A", vector=axis), entry("B", vector=-axis), entry("C", vector=aside)
        )
        found = {c.memory_id: c.semantic for c in await candidates(store, Filter(), 3, vector=axis, model=MODEL)}
        assert found[same] == pytest.approx(1, abs=1e-5)
        assert found[against] == pytest.approx(-1, abs=1e-5)
        assert found[across] == pytest.approx(0, abs=0.01)

    async def test_the_filter_restricts_before_k(self, store: MemoryStore) -> None:
        # C022, C024
        query = unit(1)
        noise = [entry(f"kubernetes rollout {n}", ["noise"], vector=towards(query, 0.9, n)) for n in range(2, 302)]
        rare = [entry(f"kubernetes rollout note {n}", ["keep"], vector=towards(query, 0.1, n)) for n in range(2, 7)]
        await store.put(noise + rare, model=MODEL)
        kept = {one.memory.id for one in rare}
        where = Filter(tags=("keep",))
        assert {c.memory_id for c in await candidates(store, where, 5, vector=query, model=MODEL)} == kept
        assert {c.memory_id for c in await candidates(store, where, 5, text="kubernetes rollout")} == kept
        (similar,) = await store.similar(np.stack([query]), where, 5, model=MODEL)
        assert {one.id for one in similar} == kept

    async def test_hidden_memories_are_not_candidates(self, store: MemoryStore) -> None:
        (id_,) = await put(store, entry("quokkaflux", vector=unit(1)))
        await candidates(store, Filter(), 5, vector=unit(1), text="quokkaflux", model=MODEL)
        await store.update(id_, edit(archived_at=START))
        assert await candidates(store, Filter(), 5, vector=unit(1), text="quokkaflux", model=MODEL) == []
        assert await store.similar(np.stack([unit(1)]), Filter(), 5, model=MODEL) == [[]]
        assert await store.containing("quokka", Filter(), 5) == []
        assert len(await candidates(store, EVERYTHING, 5, vector=unit(1), text="quokkaflux", model=MODEL)) == 1
        await store.update(id_, edit(archived_at=None))
        assert len(await candidates(store, Filter(), 5, vector=unit(1), text="quokkaflux", model=MODEL)) == 1

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
        assert await candidates(store, Filter(), 5, text=query) == []
        (found,) = await candidates(store, Filter(), 5, text=query, vector=unit(1), model=MODEL)
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
            return max((c.keyword or 0 for c in await candidates(store, Filter(), 50, text=query)), default=0)

        assert (await found_by_words(store, "ERR_7Q2X"))[0] == id_
        assert await value("ERR_7Q2X") > 0.4
        assert await value("worker") > 0.3
        assert await value("unheard zebra quagga worker") < 0.1
        assert await value("unheard zebra") == 0

    async def test_a_word_that_no_memory_holds_counts_a_quarter(self, store: MemoryStore) -> None:
        await put(store, entry("quokka", namespace="/a"), entry("unheard", namespace="/b"))
        (found,) = await candidates(store, Filter(namespace="/a"), 5, text="quokka unheard")
        held, absent = (math.log1p((100 - n + 0.5) / (n + 0.5)) for n in (1, 0))  # a small corpus counts as 100
        assert found.keyword == pytest.approx(held / (held + 0.25 * absent), abs=1e-6)

    async def test_what_other_namespaces_hold_changes_no_keyword_value(self, store: MemoryStore) -> None:
        here = Filter(namespace="/team/a")
        await put(
            store,
            *(entry(f"the rollout of worker {n} went well", namespace="/team/a") for n in range(120)),
            entry("ERR_7Q2X at worker 12", namespace="/team/a/b"),
        )
        before = await candidates(store, here, 200, text="rollout worker ERR_7Q2X unheard")
        assert len({one.keyword for one in before}) > 1
        others = [
            entry(f"ERR_7Q2X unheard {n} " * 30, namespace=place) for n in range(100) for place in ("/", "/team", "/z")
        ]
        await put(store, *others)
        assert await candidates(store, here, 200, text="rollout worker ERR_7Q2X unheard") == before

    async def test_other_filters_change_no_keyword_value(self, store: MemoryStore) -> None:
        await put(store, *(entry(f"worker {n} of fleet {n % 3}", ["odd"] if n % 2 else []) for n in range(150)))
        await put(store, entry("worker of old", archived_at=START))
        everywhere = {one.memory_id: one for one in await candidates(store, EVERYTHING, 500, text="worker fleet 2")}
        assert len(everywhere) == 151
        for where in (Filter(tags=("odd",)), Filter(states=frozenset(("archived",))), Filter(exclude_tags=("odd",))):
            found = await candidates(store, where, 500, text="worker fleet 2")
            assert found and all(one == everywhere[one.memory_id] for one in found)

    async def test_a_small_namespace_in_a_big_store_gets_all_its_results_for_common_words(
        self, store: MemoryStore
    ) -> None:
        await put(store, *(entry(f"the common rollout {n}", namespace="/big") for n in range(600)))
        ids = await put(store, *(entry(f"a common rollout here {n}", namespace="/small") for n in range(7)))
        found = await candidates(store, Filter(namespace="/small"), 50, text="common rollout")
        assert sorted(one.memory_id for one in found) == sorted(ids)
        assert all((one.keyword or 0) > 0.3 for one in found)

    async def test_a_word_counts_once_however_often_and_in_however_long_a_passage(self, store: MemoryStore) -> None:
        once, often, short = await put(
            store, entry("quokka in the wide garden"), entry("quokka quokka in a garden"), entry("quokka here")
        )
        value = {one.memory_id: one.keyword or 0 for one in await candidates(store, Filter(), 5, text="quokka")}
        assert value[once] == value[often] == value[short] == pytest.approx(1)

    async def test_all_that_is_chosen_is_read_whatever_is_deleted_meanwhile(self, store: MemoryStore) -> None:
        ids = await put(store, *(entry(f"note {n}") for n in range(60)))
        counts: list[tuple[int, int]] = []

        async def look() -> None:
            offered: list[int] = []

            def every(candidates: Candidates) -> NDArray[np.intp]:
                offered.append(len(candidates))
                return np.arange(len(candidates))

            chosen = await store.candidates(Filter(), 100, every, vector=unit(1), text="note", model=MODEL)
            counts.append((offered[0] if offered else 0, len(chosen)))

        for id_ in ids:
            await asyncio.gather(look(), store.delete(Filter(ids=(id_,)), at=LATER), look())
        assert all(offered == read for offered, read in counts)
        assert counts[0][0] >= 59 and counts[-1][0] <= 1

    async def test_candidates_of_one_memory_come_in_reading_order_under_one_number(self, store: MemoryStore) -> None:
        content = "alpha one. alpha two. alpha three."
        three = [Passage(0, 10), Passage(11, 21), Passage(22, 34)]
        vectors = np.stack([unit(1), unit(2), unit(3)])
        offered: list[Candidates] = []

        def last(candidates: Candidates) -> NDArray[np.intp]:
            offered.append(candidates)
            return np.array([5, 0], dtype=np.intp)

        ids = await put(
            store,
            replace(entry(content), passages=three, vectors=vectors),
            replace(entry(content, conversation_id="c"), passages=three, vectors=vectors),
        )
        chosen = await store.candidates(Filter(), 10, last, vector=unit(1), text="alpha", model=MODEL)
        numbers = offered[0].memories.tolist()
        assert sorted(numbers) == [min(numbers)] * 3 + [max(numbers)] * 3
        spans = {one.place: (one.memory.id, one.start, one.end) for one in chosen}
        assert [one.place for one in chosen] == [5, 0]
        assert (spans[5][1:], spans[0][1:]) == ((22, 34), (0, 10))
        assert {spans[5][0], spans[0][0]} == set(ids)
        newer = spans[5 if numbers[5] > numbers[0] else 0]
        assert newer[0] == ids[1]

    async def test_a_memory_of_many_passages_is_found_by_each_and_similar_once(self, store: MemoryStore) -> None:
        content = "alpha beta. gamma delta. epsilon zeta."
        passages = [Passage(0, 11), Passage(12, 24), Passage(25, 38)]
        vectors = np.stack([unit(1), unit(2), unit(3)])
        long = replace(entry(content), passages=passages, vectors=vectors)
        ids = await put(store, long, entry("other", vector=unit(9)))
        (best,) = await candidates(store, Filter(), 1, vector=unit(3), model=MODEL)
        assert (best.memory_id, best.start, best.end) == (ids[0], 25, 38)
        (worded,) = await candidates(store, Filter(), 5, text="gamma")
        assert (worded.start, worded.end) == (12, 24)
        similar, to_another = await store.similar(np.stack([unit(2), unit(9)]), Filter(), 5, model=MODEL)
        assert [one.id for one in similar] == ids
        assert [one.id for one in to_another] == ids[::-1]
        assert (similar[0].snippet, similar[0].score) == ("gamma delta.", pytest.approx(1, abs=1e-5))

    async def test_literal_text_is_found_newest_first_and_case_counts(self, store: MemoryStore) -> None:
        ids = await put(
            store, entry("100% of_it", after=0), entry("see 100% of_it", after=1), entry("see 100% OF_IT", after=2)
        )
        found = await store.containing("% of_", Filter(), 10)
        assert [memory.id for memory in found] == [ids[1], ids[0]]
        assert [memory.id for memory in await store.containing("% of_", Filter(), 1)] == [ids[1]]
        assert await store.containing("", Filter(), 10) == []

    async def test_offsets_count_characters_not_bytes(self, store: MemoryStore) -> None:
        two = [Passage(0, 4), Passage(5, 11)]
        await put(store, replace(entry("🔥é世界 needle"), passages=two, vectors=np.stack([unit(1), unit(2)])))
        (found,) = await candidates(store, Filter(), 1, text="needle")
        assert (found.start, found.end) == (5, 11)

    async def test_searching_an_empty_store_finds_nothing(self, store: MemoryStore) -> None:
        assert await candidates(store, Filter(), 5, vector=unit(1), text="x", model=MODEL) == []
        assert await store.similar(np.stack([unit(1)]), Filter(), 5, model=MODEL) == [[]]
        assert await store.model() is None
