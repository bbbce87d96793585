"""A model over real HTTP; the endpoint on this machine is a fake."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import pytest

from retain import (
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    PermissionDeniedError,
    RetainError,
    StoreUnavailableError,
)
from retain_evals.answering.endpoint import ATTEMPTS, ATTEMPTS_THAT_TIME_OUT, ChatClient, Endpoint, EndpointError
from tests.evals.fake_chat_endpoint import FakeChatEndpoint, Received, Reply, fake_chat_endpoint, refuses, says

KEY = "sk-secret-0123"


class Waits(list[float]):
    """Notes how long it was to sleep, and doesn't."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def fake() -> Iterator[FakeChatEndpoint]:
    with fake_chat_endpoint() as fake:
        yield fake


async def complete(fake: FakeChatEndpoint, waits: Waits | None = None, **changes: Any) -> str:
    endpoint = Endpoint(**{"base_url": fake.base_url, "model": "m", "api_key": KEY, "key_variable": "MY_KEY"} | changes)
    async with ChatClient(endpoint, sleep=Waits() if waits is None else waits) as client:
        return await client.complete("How many?", max_tokens=10)


async def test_one_user_message_is_sent_with_the_key_and_the_limits(fake: FakeChatEndpoint):
    fake.first(says("  Seven. \n"))
    assert await complete(fake, base_url=f"{fake.base_url}/") == "Seven."
    body = {"model": "m", "messages": [{"role": "user", "content": "How many?"}], "temperature": 0, "max_tokens": 10}
    assert fake.received == [Received("/v1/chat/completions", f"Bearer {KEY}", body)]


async def test_without_a_key_none_is_sent(fake: FakeChatEndpoint):
    await complete(fake, api_key=None)
    assert fake.received[0].key is None


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_endpoint_is_asked_again_with_growing_pauses(fake: FakeChatEndpoint, status: int):
    fake.first(*[refuses(status)] * (ATTEMPTS - 1), says("Seven."))
    waits = Waits()
    assert await complete(fake, waits) == "Seven."
    assert len(waits) == ATTEMPTS - 1
    assert all(later > earlier for earlier, later in pairwise(waits))


async def test_it_is_not_asked_for_ever(fake: FakeChatEndpoint):
    fake.reply = lambda _: refuses(503, "overloaded")
    with pytest.raises(
        StoreUnavailableError, match=r"m at http.*/v1/chat/completions can't be asked .*503.*overloaded"
    ):
        await complete(fake)
    assert len(fake.received) == ATTEMPTS


async def test_retry_after_is_obeyed_and_a_long_one_is_an_error(fake: FakeChatEndpoint):
    fake.first(refuses(429, Retry_After="7"), refuses(429, "out of quota", Retry_After="3600"))
    waits = Waits()
    with pytest.raises(StoreUnavailableError, match=r"429 .*out of quota"):
        await complete(fake, waits)
    assert waits == [7]


async def test_retry_after_may_be_a_date(fake: FakeChatEndpoint):
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    fake.first(refuses(429, Retry_After=soon))
    waits = Waits()
    await complete(fake, waits)
    assert 20 < waits[0] <= 30


async def test_an_endpoint_that_is_down_is_named():
    waits = Waits()
    async with ChatClient(Endpoint("http://127.0.0.1:1/v1", "m"), sleep=waits) as client:
        with pytest.raises(StoreUnavailableError, match=r"http://127\.0\.0\.1:1/v1/chat/completions can't be asked"):
            await client.complete("How many?", max_tokens=10)
    assert len(waits) == ATTEMPTS - 1


async def test_a_slow_answer_is_given_up_and_tells_the_limit(fake: FakeChatEndpoint):
    go_on = threading.Event()

    def slowly(_: Received) -> Reply:
        go_on.wait(30)
        return says("late")

    fake.reply = slowly
    try:
        with pytest.raises(StoreUnavailableError, match=r"no answer within 0\.05 s"):
            await complete(fake, timeout_s=0.05)
    finally:
        go_on.set()
    assert len(fake.received) <= ATTEMPTS_THAT_TIME_OUT


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        (401, NotAuthenticatedError, r"does not accept the key in MY_KEY \(HTTP 401 Unauthorized no such key\)"),
        (403, PermissionDeniedError, r"does not let the key in MY_KEY do this \(HTTP 403 Forbidden no such key\)"),
        (404, NotFoundError, r"m at http.* is not there; check the model and the base URL"),
        (400, EndpointError, r"refused the request \(HTTP 400 Bad Request no such key\)"),
        (302, EndpointError, r"refused the request \(HTTP 302"),
    ],
)
async def test_a_refusal_is_not_repeated_and_says_what_to_look_at(
    fake: FakeChatEndpoint, status: int, error: type[RetainError], told: str
):
    fake.first(refuses(status, "no such key"))
    waits = Waits()
    with pytest.raises(error, match=told):
        await complete(fake, waits)
    assert (len(fake.received), waits) == (1, [])


async def test_a_missing_key_names_the_variable_to_set(fake: FakeChatEndpoint):
    fake.first(refuses(401))
    with pytest.raises(NotAuthenticatedError, match="wants a key: set MY_KEY"):
        await complete(fake, api_key=None)


@pytest.mark.parametrize(
    "content",
    [
        "<html>Welcome</html>",
        "",
        "null",
        [],
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {"choices": ["Seven."]},
        {"choices": [{"text": "Seven."}]},
        {"choices": [{"message": None}]},
    ],
)
async def test_an_answer_of_another_shape_is_told(fake: FakeChatEndpoint, content: Any):
    fake.first(Reply(content))
    with pytest.raises(EndpointError, match=r"not OpenAI's, without choices\[0\]"):
        await complete(fake)


@pytest.mark.parametrize("text", [None, "", " \n"])
async def test_an_answer_without_text_is_no_answer(fake: FakeChatEndpoint, text: str | None):
    fake.first(says(text, finish_reason="length"))
    with pytest.raises(EndpointError, match=r"gave no text \(finish_reason length\).*needs more tokens"):
        await complete(fake)


async def test_a_refusal_in_plain_text_is_told_by_its_status(fake: FakeChatEndpoint):
    fake.first(Reply("go away", 418))
    with pytest.raises(EndpointError, match="HTTP 418"):
        await complete(fake)


async def test_the_key_is_never_shown(fake: FakeChatEndpoint, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    fake.first(refuses(500, f"bad {KEY}"), refuses(401, f"Incorrect key: {KEY}"), Reply(f"<p>{KEY}</p>"))
    told: list[str] = []
    for _ in range(2):
        with pytest.raises(RetainError) as caught:
            await complete(fake)
        told.append(str(caught.value))
    endpoint = Endpoint(fake.base_url, "m", KEY)
    told += [repr(endpoint), repr(ChatClient(endpoint)), caplog.text]
    assert "Incorrect key: …" in told[0]
    assert KEY not in "".join(told)


async def test_broken_text_is_sent_and_not_stumbled_over(fake: FakeChatEndpoint):
    async with ChatClient(Endpoint(fake.base_url, "m")) as client:
        await client.complete("half a pair \ud800, é", max_tokens=1)
    assert fake.received[0].prompt == "half a pair \ud800, é"


async def test_cancelling_gives_up_at_once(fake: FakeChatEndpoint):
    arrived, go_on = threading.Event(), threading.Event()

    def slowly(_: Received) -> Reply:
        arrived.set()
        go_on.wait(30)
        return says("late")

    fake.reply = slowly
    asking = asyncio.create_task(complete(fake))
    await asyncio.to_thread(arrived.wait, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    go_on.set()
    assert len(fake.received) == 1


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://host/v1", "http:///v1", "http://host:port/v1", "http://[::1/v1"])
def test_an_address_that_is_none_is_refused(url: str):
    with pytest.raises(InvalidInputError, match=r"give http\(s\)://host/v1"):
        Endpoint(url, "m")


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@host/v1", "https://host/v1?key=hunter2", "https://host/v1#hunter2"]
)
def test_an_address_that_may_hold_a_secret_is_refused_without_repeating_it(url: str):
    with pytest.raises(InvalidInputError, match="the key through its variable") as caught:
        Endpoint(url, "m")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-hunter2\n", "sk-hunter2é"])
def test_a_key_that_can_not_be_sent_is_refused_without_repeating_it(key: str):
    with pytest.raises(InvalidInputError, match="MY_KEY holds line breaks") as caught:
        Endpoint("http://host/v1", "m", key, "MY_KEY")
    assert "hunter2" not in str(caught.value)


def test_a_model_has_a_name_and_a_limit_is_above_nothing():
    with pytest.raises(InvalidInputError, match="without a name"):
        Endpoint("http://host/v1", " ")
    with pytest.raises(InvalidInputError, match="lets nothing through"):
        Endpoint("http://host/v1", "m", timeout_s=0)


def test_a_judge_has_the_readers_address_model_and_key_unless_told_otherwise():
    reader = Endpoint("http://host/v1", "m", KEY, "READER_KEY", 5)
    same = reader.for_judge(model=None, base_url=None, api_key=None, key_variable="JUDGE_KEY")
    assert same == reader
    assert reader.for_judge(model="n", base_url="http://host/v1/", api_key=None, key_variable="JUDGE_KEY") == Endpoint(
        "http://host/v1/", "n", KEY, "READER_KEY", 5
    )
    own = reader.for_judge(model="n", base_url=None, api_key="other", key_variable="JUDGE_KEY")
    assert own == Endpoint("http://host/v1", "n", "other", "JUDGE_KEY", 5)


def test_the_readers_key_does_not_go_to_another_address():
    reader = Endpoint("http://host/v1", "m", KEY, "READER_KEY")
    judge = reader.for_judge(model="n", base_url="http://elsewhere/v1", api_key=None, key_variable="JUDGE_KEY")
    assert (judge.api_key, judge.key_variable) == (None, "JUDGE_KEY")
