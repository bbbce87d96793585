"""Vectors that are remembered. The model is a stand-in that counts what it is asked."""

import asyncio
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retain.embeddings.recent import RecentVectors

ROOM_OF_TWO = 2 * (4 * 4 + 300)


class Model:
    """Gives each text the vector of its number."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        await asyncio.sleep(0)
        return np.array([[float(text)] * 4 for text in texts], np.float32)


async def test_what_is_remembered_is_not_asked_for_again_and_each_text_once() -> None:
    model, recent = Model(), RecentVectors(10_000)
    assert (await recent.or_made(["1", "2", "1"], model.embed))[:, 0].tolist() == [1, 2, 1]
    assert (await recent.or_made(["3", "2", "3", "1"], model.embed))[:, 0].tolist() == [3, 2, 3, 1]
    assert model.asked == ["1", "2", "3"]
    recent.clear()
    await recent.or_made(["1"], model.embed)
    assert model.asked[3:] == ["1"]


async def test_the_one_not_asked_for_the_longest_is_forgotten_first() -> None:
    model, recent = Model(), RecentVectors(ROOM_OF_TWO)
    for text in ("1", "2", "1", "3"):
        await recent.or_made([text], model.embed)
    await recent.or_made(["1", "3"], model.embed)
    assert model.asked == ["1", "2", "3"]
    await recent.or_made(["2"], model.embed)
    assert model.asked == ["1", "2", "3", "2"]


async def test_more_texts_than_there_is_room_for_are_all_answered() -> None:
    model, recent = Model(), RecentVectors(ROOM_OF_TWO)
    assert (await recent.or_made(list("123456"), model.embed))[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    await recent.or_made(["5", "6"], model.embed)
    assert model.asked == list("123456")


async def test_a_changed_answer_does_not_change_what_is_remembered() -> None:
    model, recent = Model(), RecentVectors(10_000)
    for _ in range(2):
        rows = await recent.or_made(["1", "2"], model.embed)
        assert rows[:, 0].tolist() == [1, 2]
        rows[:] = 0


async def test_half_a_character_is_a_text_too() -> None:
    recent = RecentVectors(10_000)

    async def one(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 4), np.float32)

    assert (await recent.or_made(["\ud800"], one)).shape == (1, 4)


@given(st.lists(st.lists(st.integers(0, 9), min_size=1), max_size=8), st.integers(0, 2_000))
def test_any_calls_at_once_get_their_own_vectors(calls: list[list[int]], room: int) -> None:
    recent, model = RecentVectors(room), Model()

    async def ask(numbers: list[int]) -> None:
        rows = await recent.or_made([str(number) for number in numbers], model.embed)
        assert rows[:, 0].tolist() == numbers

    async def all_at_once() -> None:
        await asyncio.gather(*map(ask, calls))

    asyncio.run(all_at_once())
    assert recent._bytes == sum(vector.nbytes + 300 for vector in recent._vectors.values()) <= room
