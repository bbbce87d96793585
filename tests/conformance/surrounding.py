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
from retain.domain.scoring import NO_CANDIDATES, REACH, Candidates
from tests.conformance.asking import ANYWHERE, LATER, put
from tests.conformance.making import MODEL, START, edit, entry, towards, unit

QUESTION = unit(0)


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


async def places(store: MemoryStore, text: str = "quokka", where: Filter = ANYWHERE) -> Mapping[str, Place]:
    """Return the surroundings of all candidates by the text of the passage."""
    offered = NO_CANDIDATES

    def every(candidates: Candidates) -> NDArray[np.intp]:
        nonlocal offered
        offered = candidates
        return np.arange(len(candidates))

    chosen = await store.candidates(where, 100, every, vector=QUESTION, text=text, model=MODEL)
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

    async def test_what_is_stored_later_surrounds_at_once(self, store: MemoryStore) -> None:
        await put(store, said("one"))
        assert (await places(store))["one"].around == 0
        await put(store, said("quokka", cosine=0.8))
        found = await places(store)
        assert found["one"].around == pytest.approx(REACH[0], abs=1e-6)
        assert found["one"].after == pytest.approx(0.8, abs=0.01)
