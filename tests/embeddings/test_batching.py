"""How requests share batches. The model is a stand-in whose batches are held back by the test."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retain.domain.errors import EmbeddingError
from retain.embeddings import batching
from retain.embeddings.batching import BATCH_TOKENS, Batcher, Request, choose

WAIT_S = 10


class Held:
    """Runs batches one at a time, each when `release` is set; the vector of token n points along axis n."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.started, self.release = Event(), Event()
        self.batcher = Batcher(self.run, lanes=1)

    def run(self, rows: Sequence[list[int]]) -> NDArray[np.float32]:
        self.batches.append([row[0] for row in rows])
        self.started.set()
        assert self.release.wait(WAIT_S)
        if rows[0][0] == 98:
            raise RuntimeError("out of luck")
        return np.eye(100, dtype=np.float32)[[row[0] for row in rows]] * (np.nan if rows[0][0] == 99 else 1)

    def ask(self, *tokens: int, length: int = 5, urgent: bool = False) -> Future[NDArray[np.float32]]:
        request = Request([str(token) for token in tokens], lambda text: [[int(text)] * length])
        return self.batcher.submit(request, urgent=urgent)


@pytest.fixture
def held() -> Iterator[Held]:
    fake = Held()
    fake.ask(0)
    assert fake.started.wait(WAIT_S)
    yield fake
    fake.release.set()
    fake.batcher.close()


def test_requests_that_wait_share_one_batch(held: Held) -> None:
    futures = [held.ask(i) for i in range(1, 17)]
    held.release.set()
    assert [int(future.result(WAIT_S)[0].argmax()) for future in futures] == list(range(1, 17))
    assert sorted(held.batches[1]) == list(range(1, 17))
    assert len(held.batches) == 2


def test_a_query_goes_before_an_import_that_came_first(held: Held) -> None:
    bulk = held.ask(*range(1, 20), length=200)
    query = held.ask(50, urgent=True)
    held.release.set()
    query.result(WAIT_S)
    bulk.result(WAIT_S)
    assert held.batches[1] == [50]


def test_a_small_store_does_not_wait_for_the_whole_of_an_import(held: Held) -> None:
    bulk = held.ask(*range(1, 21), length=BATCH_TOKENS)
    small = held.ask(50, length=3)
    held.release.set()
    small.result(WAIT_S)
    bulk.result(WAIT_S)
    assert held.batches.index([50]) <= 3


def test_a_cancelled_caller_takes_nobody_along(held: Held) -> None:
    gone, stays = held.ask(1), held.ask(2)
    assert gone.cancel()
    held.release.set()
    assert stays.result(WAIT_S)[0].argmax() == 2
    assert [1] not in held.batches


def test_a_caller_that_gives_up_during_its_batch_takes_nobody_along() -> None:
    fake = Held()
    gone = fake.ask(1)
    assert fake.started.wait(WAIT_S)
    stays = fake.ask(2)
    assert gone.cancel()
    fake.release.set()
    assert stays.result(WAIT_S)[0].argmax() == 2
    fake.batcher.close()


def test_rows_come_back_in_the_order_of_the_texts_though_batches_are_sorted_by_length(held: Held) -> None:
    request = Request([str(n) for n in (3, 90, 7, 41)], lambda text: [[int(text)] * int(text)])
    future = held.batcher.submit(request, urgent=False)
    held.release.set()
    assert future.result(WAIT_S).argmax(axis=1).tolist() == [3, 90, 7, 41]


def test_a_vector_that_is_not_a_number_is_an_error(held: Held) -> None:
    future = held.ask(99)
    held.release.set()
    with pytest.raises(EmbeddingError, match="not a number"):
        future.result(WAIT_S)


def test_a_failing_batch_is_told_to_its_callers_and_work_goes_on(held: Held) -> None:
    future = held.ask(98)
    held.release.set()
    with pytest.raises(EmbeddingError, match="out of luck"):
        future.result(WAIT_S)
    assert held.ask(5).result(WAIT_S).argmax() == 5


def test_closing_fails_what_waits_and_lets_the_running_batch_end() -> None:
    fake = Held()
    runs = fake.ask(0)
    assert fake.started.wait(WAIT_S)
    waits = fake.ask(1)
    closing = Thread(target=fake.batcher.close)
    closing.start()
    with pytest.raises(EmbeddingError, match="closed before"):
        waits.result(WAIT_S)
    fake.release.set()
    closing.join()
    assert runs.result(0).argmax() == 0
    with pytest.raises(EmbeddingError, match="is closed"):
        fake.ask(2)


def test_all_lanes_work_on_one_large_request() -> None:
    both = Event()
    running: list[int] = []

    def run(rows: Sequence[list[int]]) -> NDArray[np.float32]:
        running.append(len(rows))
        if len(running) == 2:
            both.set()
        assert both.wait(WAIT_S)
        return np.eye(4, dtype=np.float32)[[0] * len(rows)]

    batcher = Batcher(run, lanes=2)
    request = Request(["x"] * 8, lambda _: [[0] * (BATCH_TOKENS // 4)])
    assert batcher.submit(request, urgent=False).result(WAIT_S).shape == (8, 4)
    batcher.close()


@given(st.lists(st.integers(0, 254), min_size=1, max_size=200))
def test_a_batch_keeps_to_its_budget_and_always_takes_the_first(lengths: list[int]) -> None:
    chosen = choose(lengths)
    picked = [lengths[i] for i in chosen]
    padded = max(picked) * len(picked)
    assert chosen[0] == 0
    assert len(set(chosen)) == len(chosen)
    assert len(chosen) == 1 or padded <= BATCH_TOKENS
    assert padded - sum(picked) <= batching.PADDING_SHARE * padded


def test_slices_cover_everything_once() -> None:
    texts = list("abcdefg")
    assert ["".join(part) for part in batching.slices(texts, 3)] == ["abc", "def", "g"]
    assert list(batching.slices([], 3)) == []
