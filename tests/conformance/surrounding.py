"""The contract: what stands around a passage in its conversation counts with it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from retain.core.ports import Entry, MemoryStore
from retain.domain.memory import EVERYTHING, Filter, Passage
from retain.domain.scoring import NO_CANDIDATES, Candidates
from tests.conformance.asking import ANYWHERE, LATER, put
from tests.conformance.making import MODEL, START, edit, entry, towards, unit

QUESTION = unit(0)
REACH = (0.6, 0.5, 0.4)
"""What docs/recall.md says that a word counts one, two or three passages away."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a candidate's surroundings are: `around` is the keyword value with them."""

    own: float
    around: float
    before: float
    after: float
    thread: int


def said(content: str, conversation: str | None = "talk", *, cosine: float = 0.5, **fields: object) -> Entry:
    """Return a memory whose vector has a cosine to the question."""
    vector = towards(QUESTION, cosine, seed=1 + sum(content.encode()))
    return entry(content, vector=vector, conversation_id=conversation, **fields)  # pyright: ignore[reportArgumentType]


async def places(
    store: MemoryStore, text: str = "quokka", where: Filter = ANYWHERE, k: int = 100
) -> Mapping[str, Place]:
    """Return the surroundings of all candidates by the text of the passage."""
    offered = NO_CANDIDATES

    def every(candidates: Candidates) -> NDArray[np.intp]:
        nonlocal offered
        offered = candidates
        return np.arange(len(candidates))

    chosen = await store.candidates(where, k, every, vector=QUESTION, text=text, model=MODEL)
    columns = (offered.keyword, offered.keyword_around, offered.before, offered.after)
    rows = np.stack([column for column in columns if column is not None], axis=1)
    assert rows.shape == (len(chosen), 4)
    return {
        one.memory.content[one.start : one.end]: Place(*rows[one.place].tolist(), int(offered.threads[one.place]))
        for one in chosen
    }


class Surrounding:
    """Facts about surroundings."""

    async def test_a_word_counts_less_the_farther_away_it_is_said(self, store: MemoryStore) -> None:
        turns = ["zero", "one", "two", "three", "quokka", "five", "six", "seven", "eight"]
        await put(store, *(said(turn, sequence=number) for number, turn in enumerate(turns)))
        found = await places(store)
        shares = [found[turn].around for turn in turns]
        assert shares == pytest.approx([0, *reversed(REACH), 1, *REACH, 0], abs=1e-6)
        assert [found[turn].own for turn in turns] == [0, 0, 0, 0, 1, 0, 0, 0, 0]

    async def test_of_a_word_said_twice_the_nearer_one_counts(self, store: MemoryStore) -> None:
        await put(store, *(said(turn) for turn in ("quokka here", "one", "two", "quokka there")))
        found = await places(store)
        assert (found["one"].around, found["two"].around) == (pytest.approx(REACH[0]), pytest.approx(REACH[0]))

    async def test_words_of_several_turns_add_up(self, store: MemoryStore) -> None:
        await put(store, *(said(turn) for turn in ("quokka", "middle", "wombat")))
        found = await places(store, "quokka wombat")
        assert found["middle"].around == pytest.approx(REACH[0], abs=1e-6)
        assert found["quokka"].around == pytest.approx((1 + REACH[1]) / 2, abs=1e-6)

    async def test_cosines_beside_are_those_of_the_turns_before_and_after(self, store: MemoryStore) -> None:
        cosines = {"first": 0.9, "second": 0.1, "third": -0.4}
        await put(store, *(said(turn, cosine=cosine) for turn, cosine in cosines.items()))
        found = await places(store)
        assert (found["second"].before, found["second"].after) == pytest.approx((0.9, -0.4), abs=0.01)
        assert math.isnan(found["first"].before) and math.isnan(found["third"].after)
        assert (found["first"].after, found["third"].before) == pytest.approx((0.1, 0.1), abs=0.01)

    async def test_another_conversation_is_no_surrounding_even_when_stored_in_between(self, store: MemoryStore) -> None:
        await put(store, said("one"), said("quokka", "other"), said("two"), said("aside", "other", cosine=0.9))
        found = await places(store)
        assert (found["one"].around, found["two"].around) == (0, 0)
        assert found["one"].after == pytest.approx(0.5, abs=0.01)
        assert found["aside"].around == pytest.approx(REACH[0], abs=1e-6)
        assert found["one"].thread == found["two"].thread != found["quokka"].thread == found["aside"].thread

    async def test_a_conversation_ends_at_its_namespace(self, store: MemoryStore) -> None:
        await put(store, said("quokka", namespace="/a"), said("one", namespace="/b"), said("two", namespace="/b"))
        found = await places(store)
        assert (found["one"].around, found["two"].around) == (0, 0)
        assert math.isnan(found["one"].before)
        assert len({found["quokka"].thread, found["one"].thread}) == 2

    async def test_memories_without_a_conversation_stand_for_themselves(self, store: MemoryStore) -> None:
        await put(store, said("quokka", None), said("one", None))
        found = await places(store)
        assert found["one"].around == 0
        assert all(math.isnan(side) for place in found.values() for side in (place.before, place.after))
        assert found["one"].thread != found["quokka"].thread

    async def test_in_a_memory_without_a_conversation_words_count_across_passages_and_cosines_do_not(
        self, store: MemoryStore
    ) -> None:
        long = replace(
            said("quokka. two. three.", None),
            passages=[Passage(0, 7), Passage(8, 12), Passage(13, 19)],
            vectors=np.stack([unit(1), unit(2), unit(3)]),
        )
        await put(store, long)
        found = await places(store)
        assert [found[text].around for text in ("two.", "three.")] == pytest.approx(REACH[:2], abs=1e-6)
        assert all(math.isnan(place.before) and math.isnan(place.after) for place in found.values())

    async def test_in_a_memory_without_a_conversation_a_word_four_passages_away_does_not_count(
        self, store: MemoryStore
    ) -> None:
        texts = ["quokka", "alpha", "beta", "gamma", "omega"]
        starts = [sum(len(text) + 1 for text in texts[:n]) for n in range(len(texts))]
        long = replace(
            said(" ".join(texts), None),
            passages=[Passage(start, start + len(text)) for start, text in zip(starts, texts, strict=True)],
            vectors=np.stack([unit(n + 1) for n in range(len(texts))]),
        )
        await put(store, long)
        found = await places(store)
        assert [found[text].around for text in texts] == pytest.approx([1, *REACH, 0], abs=1e-6)
        assert len({place.thread for place in found.values()}) == 1

    async def test_passages_of_a_turn_stand_between_those_of_the_turns_beside_it(self, store: MemoryStore) -> None:
        long = replace(
            said("alpha. omega."), passages=[Passage(0, 6), Passage(7, 13)], vectors=np.stack([unit(1), unit(2)])
        )
        await put(store, said("quokka"), long, said("wombat"))
        found = await places(store)
        assert (found["alpha."].around, found["omega."].around) == pytest.approx(REACH[:2], abs=1e-6)
        assert found["wombat"].around == pytest.approx(REACH[2], abs=1e-6)
        assert found["omega."].after == pytest.approx(0.5, abs=0.01)

    @pytest.mark.parametrize("gone", ["deleted", "archived", "superseded"])
    async def test_what_is_gone_is_no_surrounding_and_closes_the_gap(self, store: MemoryStore, gone: str) -> None:
        _, middle, _ = await put(store, said("quokka"), said("middle"), said("last", cosine=0.7))
        if gone == "deleted":
            await store.delete(Filter(ids=(middle,)), at=LATER)
        elif gone == "archived":
            await store.update(middle, edit(archived_at=START))
        else:
            await put(store, said("instead", "elsewhere", supersedes=middle, after=1))
        found = await places(store)
        assert found["last"].around == pytest.approx(REACH[0], abs=1e-6)
        assert found["quokka"].after == pytest.approx(0.7, abs=0.01)
        assert "middle" not in found

    async def test_in_all_states_what_is_archived_surrounds_as_well(self, store: MemoryStore) -> None:
        first, _ = await put(store, said("quokka"), said("last"))
        await store.update(first, edit(archived_at=START))
        assert (await places(store))["last"].around == 0
        assert (await places(store, where=EVERYTHING))["last"].around == pytest.approx(REACH[0], abs=1e-6)

    async def test_an_edited_turn_surrounds_with_its_new_text_and_meaning(self, store: MemoryStore) -> None:
        first, _ = await put(store, said("quokka", cosine=0.9), said("last"))
        await store.update(first, edit("numbat", vector=towards(QUESTION, 0.2, seed=5)), model=MODEL)
        found = await places(store)
        assert found["last"].around == 0
        assert found["last"].before == pytest.approx(0.2, abs=0.01)
        assert (await places(store, "numbat"))["last"].around == pytest.approx(REACH[0], abs=1e-6)

    async def test_a_filter_leaves_surroundings_as_they_are(self, store: MemoryStore) -> None:
        await put(store, said("quokka", cosine=0.9), said("last", tags=("wanted",), occurred_at=LATER))
        for where in (Filter(tags=("wanted",)), Filter(since=START + timedelta(minutes=1))):
            found = await places(store, where=where)
            assert set(found) == {"last"}
            assert found["last"].around == pytest.approx(REACH[0], abs=1e-6)
            assert found["last"].before == pytest.approx(0.9, abs=0.01)

    async def test_filters_on_agent_type_and_id_leave_surroundings_as_they_are(self, store: MemoryStore) -> None:
        wanted = said("last", agent_id="ada", type="error", metadata={"n": 1})
        _, last = await put(store, said("quokka", cosine=0.9), wanted)
        for where in (
            Filter(agent_id="ada"),
            Filter(types=("error",)),
            Filter(metadata={"n": 1}),
            Filter(ids=(last,)),
            Filter(exclude_tags=("none",), agent_id="ada"),
        ):
            found = await places(store, where=where)
            assert set(found) == {"last"}, where
            assert found["last"].around == pytest.approx(REACH[0], abs=1e-6), where
            assert found["last"].before == pytest.approx(0.9, abs=0.01), where

    async def test_what_is_no_candidate_surrounds_as_well(self, store: MemoryStore) -> None:
        turns = {"before": -0.2, "quokka": 0.1, "after": 0.3, "nearest": 0.9, "end": -0.5}
        await put(store, *(said(turn, cosine=cosine) for turn, cosine in turns.items()))
        found = await places(store, k=1)
        assert set(found) == {"quokka", "nearest"}
        assert (found["quokka"].before, found["quokka"].after) == pytest.approx((-0.2, 0.3), abs=0.01)
        assert (found["nearest"].before, found["nearest"].after) == pytest.approx((0.3, -0.5), abs=0.01)
        assert found["nearest"].around == pytest.approx(REACH[1], abs=1e-6)

    async def test_an_edited_turn_keeps_its_place(self, store: MemoryStore) -> None:
        _, middle, _ = await put(store, said("first"), said("middle"), said("last"))
        await store.update(middle, edit("quokka", vector=towards(QUESTION, 0.8, seed=5)), model=MODEL)
        found = await places(store)
        assert (found["first"].around, found["last"].around) == pytest.approx((REACH[0], REACH[0]), abs=1e-6)
        assert (found["first"].after, found["last"].before) == pytest.approx((0.8, 0.8), abs=0.01)
        assert math.isnan(found["first"].before) and math.isnan(found["last"].after)

    async def test_what_is_restored_from_the_archive_has_its_place_again(self, store: MemoryStore) -> None:
        _, middle, _ = await put(store, said("quokka"), said("middle", cosine=0.8), said("last", cosine=0.3))
        await store.update(middle, edit(archived_at=START))
        assert (await places(store))["last"].around == pytest.approx(REACH[0], abs=1e-6)
        await store.update(middle, edit(archived_at=None))
        found = await places(store)
        assert found["last"].around == pytest.approx(REACH[1], abs=1e-6)
        assert (found["quokka"].after, found["last"].before) == pytest.approx((0.8, 0.8), abs=0.01)

    async def test_what_supersedes_a_turn_stands_where_it_was_stored(self, store: MemoryStore) -> None:
        first, *_ = await put(store, said("quokka"), said("middle"), said("last"))
        await put(store, said("quokka instead", supersedes=first, after=1))
        found = await places(store)
        assert "quokka" not in found
        assert (found["last"].around, found["middle"].around) == pytest.approx(REACH[:2], abs=1e-6)

    async def test_threads_are_numbered_by_conversation_and_namespace(self, store: MemoryStore) -> None:
        groups = [
            [said("a one"), said("a two", tags=("other",))],
            [said("b one", "second"), said("b two", "second")],
            [said("c one", namespace="/below"), said("c two", namespace="/below")],
            [said("d", None)],
            [said("e", None)],
        ]
        await put(store, *(group[0] for group in groups), *(one for group in groups for one in group[1:]))
        found = await places(store, "one two")
        threads = [[found[one.memory.content].thread for one in group] for group in groups]
        assert all(len(set(group)) == 1 for group in threads)
        assert len({group[0] for group in threads}) == len(groups)

    async def test_surroundings_come_with_words_and_cosines_beside_with_both(self, store: MemoryStore) -> None:
        await put(store, said("quokka"), said("wombat quokka"), said("wombat"))
        offered: list[Candidates] = []

        def every(candidates: Candidates) -> NDArray[np.intp]:
            offered.append(candidates)
            return np.arange(len(candidates))

        await store.candidates(ANYWHERE, 100, every, text="quokka wombat")
        await store.candidates(ANYWHERE, 100, every, vector=QUESTION, model=MODEL)
        worded, meant = offered
        assert worded.semantic is worded.before is worded.after is worded.vectors is None
        assert worded.keyword_around is not None and len(worded) == 3
        assert worded.keyword_around.tolist() == pytest.approx([0.8, 1, 0.8], abs=1e-6)
        assert meant.keyword is meant.keyword_around is meant.before is meant.after is meant.vectors is None

    async def test_vectors_have_the_cosines_that_are_told(self, store: MemoryStore) -> None:
        await put(store, *(said(f"turn {n}", cosine=n / 10) for n in range(8)))
        offered = NO_CANDIDATES

        def every(candidates: Candidates) -> NDArray[np.intp]:
            nonlocal offered
            offered = candidates
            return np.arange(len(candidates))

        await store.candidates(ANYWHERE, 100, every, vector=QUESTION, text="turn", model=MODEL)
        assert offered.vectors is not None and offered.semantic is not None
        lengths = np.linalg.norm(offered.vectors, axis=1)
        assert offered.vectors @ QUESTION / lengths == pytest.approx(offered.semantic, abs=0.01)
        assert sorted(offered.semantic) == pytest.approx([n / 10 for n in range(8)], abs=0.01)

    async def test_what_is_stored_later_surrounds_at_once(self, store: MemoryStore) -> None:
        await put(store, said("one"))
        assert (await places(store))["one"].around == 0
        await put(store, said("quokka", cosine=0.8))
        found = await places(store)
        assert found["one"].around == pytest.approx(REACH[0], abs=1e-6)
        assert found["one"].after == pytest.approx(0.8, abs=0.01)
