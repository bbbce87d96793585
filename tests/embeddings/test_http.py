"""An endpoint over real HTTP, played by a fake on this machine."""

import logging
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from retain.domain.errors import EmbeddingError, InvalidInputError, TooLargeError
from retain.embeddings import open_embedder
from retain.embeddings.http import ATTEMPTS, TEXTS_PER_REQUEST, HttpEmbedder


class Waits(list[float]):
    """Notes how long it was to sleep, and doesn't."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def failing(endpoint: Any, *answers: tuple[int, dict[str, str], Any]) -> None:
    """Give these answers first, then good ones."""
    left = list(answers)
    endpoint.reply = lambda body: left.pop(0) if left else (200, {}, endpoint.vectors(len(body["input"])))


async def test_rows_are_units_in_the_order_of_the_texts_over_many_requests(endpoint: Any) -> None:
    embedder = open_embedder(f"{endpoint.url}#tiny")
    found = await embedder.embed_passages([f"text {i}" for i in range(TEXTS_PER_REQUEST + 3)])
    assert found.argmax(axis=1).tolist() == [i % 4 for i in range(TEXTS_PER_REQUEST)] + [0, 1, 2]
    assert np.allclose(np.linalg.norm(found, axis=1), 1)
    assert found.dtype == np.float32
    assert sorted(len(body["input"]) for body in endpoint.bodies) == [3, TEXTS_PER_REQUEST]
    assert {body["model"] for body in endpoint.bodies} == {"tiny"}
    assert (embedder.model_id, embedder.dimensions) == ("tiny@endpoint", 4)
    await embedder.aclose()
    await embedder.aclose()


async def test_dimensions_never_wait_for_the_endpoint_and_tell_why_they_are_unknown(endpoint: Any) -> None:
    failing(endpoint, (401, {}, {"error": {"message": "no such key"}}))
    embedder = open_embedder(f"{endpoint.url}#tiny")
    with pytest.raises(EmbeddingError, match="not asked yet"):
        _ = embedder.dimensions
    assert endpoint.bodies == []
    with pytest.raises(EmbeddingError, match="no such key"):
        await embedder.warm_up()
    with pytest.raises(EmbeddingError, match="no such key"):
        _ = embedder.dimensions
    assert (await embedder.embed_passages([])).shape == (0, 4)
    await embedder.aclose()


async def test_warm_up_learns_the_dimensions(endpoint: Any) -> None:
    embedder = open_embedder(f"{endpoint.url}#tiny")
    await embedder.warm_up()
    asked = len(endpoint.bodies)
    await embedder.warm_up()
    assert embedder.dimensions == 4
    assert (await embedder.embed_passages([])).shape == (0, 4)
    assert len(endpoint.bodies) == asked
    await embedder.aclose()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_endpoint_is_asked_again_with_growing_pauses(endpoint: Any, status: int) -> None:
    failing(endpoint, *[(status, {}, {})] * (ATTEMPTS - 1))
    waits = Waits()
    embedder = HttpEmbedder(endpoint.url, "tiny", sleep=waits)
    assert (await embedder.embed_query("hello")).argmax() == 0
    assert len(waits) == ATTEMPTS - 1
    assert all(b > a for a, b in pairwise(waits))
    await embedder.aclose()


async def test_retry_after_is_obeyed_and_a_long_one_is_an_error(endpoint: Any) -> None:
    failing(endpoint, (429, {"Retry-After": "7"}, {}), (429, {"Retry-After": "3600"}, {"error": {"message": "quota"}}))
    waits = Waits()
    embedder = HttpEmbedder(endpoint.url, "tiny", sleep=waits)
    with pytest.raises(EmbeddingError, match=r"HTTP 429 .*quota"):
        await embedder.embed_query("hello")
    assert waits == [7]
    await embedder.aclose()


async def test_an_endpoint_that_stays_down_is_named_by_one_error_without_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waits = Waits()
    embedder = HttpEmbedder("http://127.0.0.1:1/v1", "tiny", sleep=waits)
    with pytest.raises(EmbeddingError, match=r"http://127\.0\.0\.1:1/v1/embeddings did not give vectors of tiny"):
        await embedder.embed_query("hello")
    assert len(waits) == ATTEMPTS - 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    await embedder.aclose()


async def test_a_refusal_is_not_repeated_and_names_the_setting(endpoint: Any) -> None:
    failing(endpoint, (401, {}, {"error": {"message": "no such key"}}))
    embedder = HttpEmbedder(endpoint.url, "tiny", sleep=Waits())
    with pytest.raises(EmbeddingError, match=r"401 .*no such key.*RETAIN_EMBEDDING_API_KEY"):
        await embedder.embed_query("hello")
    assert len(endpoint.bodies) == 1
    await embedder.aclose()


async def test_a_changed_number_of_dimensions_names_both(endpoint: Any) -> None:
    embedder = HttpEmbedder(endpoint.url, "tiny")
    await embedder.embed_query("hello")
    endpoint.reply = lambda body: (200, {}, endpoint.vectors(len(body["input"]), 7))
    with pytest.raises(EmbeddingError, match=r"vectors of 7 numbers, before they had 4.*retain reembed"):
        await embedder.embed_query("another")
    await embedder.aclose()


@pytest.mark.parametrize(
    "content",
    [
        {"data": [{"index": 0, "embedding": [0, 0]}]},
        {"data": [{"index": 0, "embedding": [float("nan"), 1]}]},
        {"data": [{"index": 0, "embedding": [1, 10**400]}]},
        {"data": [{"index": 0, "embedding": [1, float("inf")]}]},
        {"data": [{"index": 1, "embedding": [1, 1]}]},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [{"index": 0, "embedding": None}]},
        {"data": []},
        {"vectors": []},
        [],
    ],
)
async def test_an_answer_that_is_no_vector_is_an_error(endpoint: Any, content: Any) -> None:
    endpoint.reply = lambda body: (200, {}, content)
    embedder = HttpEmbedder(endpoint.url, "tiny")
    with pytest.raises(EmbeddingError):
        await embedder.embed_query("hello")
    await embedder.aclose()


async def test_the_key_is_sent_and_never_shown(endpoint: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    failing(endpoint, (500, {}, {}))
    embedder = HttpEmbedder(endpoint.url, "tiny", api_key="sk-secret", sleep=Waits())
    await embedder.embed_query("hello")
    assert endpoint.keys == ["Bearer sk-secret"] * 2
    assert "sk-secret" not in repr(embedder)
    assert "sk-secret" not in caplog.text
    await embedder.aclose()


@pytest.mark.parametrize("numbers", [[3e300, 4e300], [3e38, 4e38], [3e-300, 4e-300]])
async def test_huge_and_tiny_numbers_become_unit_rows(endpoint: Any, numbers: list[float]) -> None:
    endpoint.reply = lambda body: (200, {}, {"data": [{"index": 0, "embedding": numbers}]})
    embedder = HttpEmbedder(endpoint.url, "tiny")
    assert np.allclose(await embedder.embed_query("hello"), [0.6, 0.8])
    await embedder.aclose()


@pytest.mark.parametrize("spec", ["https://me:hunter2@host/v1#m", "https://me:hunter2@host/v1"])
async def test_a_password_in_the_address_is_refused_without_repeating_it(spec: str) -> None:
    embedder = open_embedder(spec)
    with pytest.raises(EmbeddingError, match="RETAIN_EMBEDDING_API_KEY") as caught:
        await embedder.embed_query("hello")
    assert "hunter2" not in str(caught.value) + repr(embedder)


@pytest.mark.parametrize("url", ["http://host/v1", "http:///v1", "http://host:port/v1", "http://[::1/v1"])
def test_an_address_that_is_none_is_quoted_as_it_was_typed(url: str) -> None:
    with pytest.raises(InvalidInputError, match=r"expected http\(s\)://host/v1#model-name") as caught:
        HttpEmbedder(url, "")
    assert "/v1#'" not in str(caught.value)


async def test_a_long_query_is_the_mean_of_its_windows(endpoint: Any) -> None:
    embedder = HttpEmbedder(endpoint.url, "tiny")
    vector = await embedder.embed_query("word " * 400)
    assert len(endpoint.bodies[0]["input"]) == 2
    assert "".join(endpoint.bodies[0]["input"]) == "word " * 400
    assert np.allclose(vector, [0.5**0.5, 0.5**0.5, 0, 0])
    await embedder.aclose()


async def test_a_passage_over_the_limit_is_refused_before_anything_is_sent(endpoint: Any) -> None:
    embedder = HttpEmbedder(endpoint.url, "tiny")
    with pytest.raises(TooLargeError):
        await embedder.embed_passages(["word " * (embedder.passage_tokens + 1)])
    assert endpoint.bodies == []
    await embedder.aclose()


async def test_a_repeated_query_is_asked_once_and_broken_text_is_sent_whole(endpoint: Any) -> None:
    embedder = HttpEmbedder(endpoint.url, "tiny")
    for _ in range(3):
        await embedder.embed_query("half a pair \ud800")
    assert [body["input"] for body in endpoint.bodies] == [["half a pair \ufffd"]]
    await embedder.aclose()


async def test_one_failing_request_ends_the_others_with_its_error(endpoint: Any) -> None:
    endpoint.reply = lambda body: (400, {}, {"error": "bad"}) if "text 70" in body["input"] else (
        200, {}, endpoint.vectors(len(body["input"])))  # fmt: skip
    embedder = HttpEmbedder(endpoint.url, "tiny")
    with pytest.raises(EmbeddingError, match=r"HTTP 400 .*bad"):
        await embedder.embed_passages([f"text {i}" for i in range(200)])
    await embedder.aclose()


def test_pieces_over_count_and_cover_every_character() -> None:
    text = "internationalization 数据, it's 🚀"
    offsets = HttpEmbedder("http://host/v1", "m").token_offsets(text)
    assert "".join(text[a:b] for a, b in offsets) == text.replace(" ", "")
    assert max(b - a for a, b in offsets) == 4
