"""From the questions of a run to a summary, over real HTTP; reader and judge are fakes on this machine."""

import asyncio
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
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
from retain_evals.answering import (
    Accuracy,
    Answer,
    AnswerFolder,
    Endpoint,
    EndpointError,
    Outcome,
    Plan,
    Prices,
    answer_all,
    estimate,
    summary,
)
from retain_evals.answering.answering import FAILURES_IN_A_ROW
from retain_evals.answering.estimate import Usage
from retain_evals.datasets import locomo, longmemeval
from retain_evals.haystack import Haystack
from retain_evals.run import Asked
from tests.evals.fake_chat_endpoint import (
    JUDGE,
    READER,
    FakeChatEndpoint,
    Received,
    Reply,
    fake_chat_endpoint,
    refuses,
    says,
    usual,
)
from tests.evals.runs import asked

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples"
HAYSTACKS = list(longmemeval(json.loads((SAMPLES / "longmemeval_sample.json").read_text())))
CONVERSATIONS = list(locomo(json.loads((SAMPLES / "locomo_sample.json").read_text())))
KEY = "sk-secret-0123"


def run_over(haystacks: list[Haystack]) -> list[Asked]:
    """Return a run that found the first turn of every session, the last session first."""
    return [
        asked(
            question.id,
            [session.turns[0].id for session in reversed(haystack.sessions)],
            question.evidence_turns,
            kind=question.type,
            is_abstention=question.is_abstention,
        )
        for haystack in haystacks
        for question in haystack.questions
    ]


RUN = run_over(HAYSTACKS)
QUESTIONS = {question.id: question for haystack in HAYSTACKS for question in haystack.questions}


async def no_pause(_: float) -> None:
    """Is awaited between attempts."""


@pytest.fixture
def fake() -> Iterator[FakeChatEndpoint]:
    with fake_chat_endpoint() as fake:
        yield fake


@pytest.fixture
def folder(tmp_path: Path) -> AnswerFolder:
    return AnswerFolder(tmp_path / "answers")


def plan_for(fake: FakeChatEndpoint, **changes: Any) -> Plan:
    reader, judge = (Endpoint(fake.base_url, model, KEY) for model in (READER, JUDGE))
    return replace(Plan({"data": "ab", "run": "retain.turn"}, reader, judge, k=3), **changes)


async def all_of(
    plan: Plan,
    folder: AnswerFolder,
    haystacks: list[Haystack] = HAYSTACKS,
    run: list[Asked] = RUN,
    concurrency: int = 4,
) -> list[Outcome]:
    answering = answer_all(haystacks, run, plan, folder, concurrency=concurrency, sleep=no_pause)
    return [outcome async for outcome in answering]


def question_of(received: Received) -> str:
    """Return the id of the question that a request is about."""
    return next(one.id for one in QUESTIONS.values() if f"Question: {one.text}\n" in received.prompt)


async def test_every_question_is_answered_and_judged_by_the_protocol(fake: FakeChatEndpoint, folder: AnswerFolder):
    outcomes = await all_of(plan_for(fake), folder)
    assert {one.question_id: one.answer for one in outcomes} == folder.read()
    assert [one.error for one in outcomes] == [None] * len(QUESTIONS)
    assert set(folder.read()) == set(QUESTIONS)
    for name, of_protocol in ((READER, 800), (JUDGE, 10)):
        bodies = [one.body for one in fake.by(name)]
        assert len(bodies) == len(QUESTIONS)
        assert {(body["temperature"], body["max_tokens"]) for body in bodies} == {(0, of_protocol)}
    answer = folder.read()["d52c9be7_abs"]
    assert replace(answer, prompt="") == Answer(
        "d52c9be7_abs", "single-session-user", True, "", "An answer.", READER, JUDGE, True, "Yes."
    )


async def test_the_reader_is_not_told_the_answer_and_the_judge_is(fake: FakeChatEndpoint, folder: AnswerFolder):
    fake.reply = lambda received: says("Yes." if received.model == JUDGE else f"Said about {question_of(received)}.")
    secret = [
        replace(one, questions=tuple(replace(each, answer=f"GOLD-{each.id}") for each in one.questions))
        for one in HAYSTACKS
    ]
    await all_of(plan_for(fake), folder, secret)
    for received in fake.by(READER):
        assert "GOLD" not in received.prompt
        assert "answer_" not in received.prompt
        assert "has_answer" not in received.prompt
    for received in fake.by(JUDGE):
        question = question_of(received)
        assert f": GOLD-{question}\n\nModel Response: Said about {question}.\n" in received.prompt


async def test_verdicts_are_counted_by_type_and_abstention_apart(fake: FakeChatEndpoint, folder: AnswerFolder):
    wrong = {"7c1e90aa": "no", "88d2f61b": "No.", "f19d2c60": "Incorrect", "0b7e38a4": "NO"}
    right = {"d52c9be7_abs": "YES", "e0a7715c": "yes, it does"}

    def judging(received: Received) -> Reply:
        if received.model == READER:
            return usual(received)
        return says((wrong | right).get(question_of(received), "Yes."))

    fake.reply = judging
    await all_of(plan_for(fake), folder)
    found = summary(folder.read().values(), len(RUN))
    assert (found.questions, found.answered, found.judged, found.failed) == (12, 12, 12, 0)
    assert found.overall == Accuracy(8, 12)
    assert found.by_type == {
        "knowledge-update": Accuracy(0, 2),
        "multi-session": Accuracy(1, 2),
        "single-session-assistant": Accuracy(2, 2),
        "single-session-preference": Accuracy(1, 1),
        "single-session-user": Accuracy(2, 3),
        "temporal-reasoning": Accuracy(2, 2),
    }
    assert found.task_averaged == pytest.approx((0 + 1 / 2 + 1 + 1 + 2 / 3 + 1) / 6)
    assert found.abstention == Accuracy(1, 1)


async def test_abstention_and_preference_are_judged_by_their_own_rules(fake: FakeChatEndpoint, folder: AnswerFolder):
    await all_of(plan_for(fake), folder)
    prompts = {question_of(one): one.prompt for one in fake.by(JUDGE)}
    assert "\nExplanation: You did not mention a hamster." in prompts["d52c9be7_abs"]
    assert "can't be answered? Answer yes or no only." in prompts["d52c9be7_abs"]
    assert "\nRubric: The user would like a slow, quiet nature film" in prompts["e0a7715c"]
    assert "off by one" in prompts["c3f5a9d8"]
    assert "updated" in prompts["f19d2c60"]


async def test_locomo_is_answered_too(fake: FakeChatEndpoint, folder: AnswerFolder):
    run = run_over(CONVERSATIONS)
    outcomes = await all_of(plan_for(fake), folder, CONVERSATIONS, run)
    assert len(outcomes) == len(run) == 10
    found = summary(folder.read().values(), len(run))
    assert (found.overall, found.abstention) == (Accuracy(10, 10), None)
    assert set(found.by_type) == {"multi-hop", "temporal", "open-domain", "single-hop", "adversarial"}


def test_a_summary_of_nothing_has_no_figures():
    found = summary([], 3)
    assert (found.failed, found.answered, found.by_type, found.abstention) == (3, 0, {}, None)
    assert math.isnan(found.overall.value)
    assert math.isnan(found.task_averaged)


async def test_what_is_done_is_not_asked_again(fake: FakeChatEndpoint, folder: AnswerFolder):
    await all_of(plan_for(fake), folder, run=RUN[:4])
    assert len(fake.received) == 8
    outcomes = await all_of(plan_for(fake), folder)
    assert {one.question_id for one in outcomes} == {one.question_id for one in RUN[4:]}
    assert len(fake.received) == 2 * len(RUN)
    assert await all_of(plan_for(fake), folder) == []
    assert len(fake.received) == 2 * len(RUN)


async def test_an_answer_without_a_verdict_is_only_judged(fake: FakeChatEndpoint, folder: AnswerFolder):
    fake.reply = lambda received: says(None) if received.model == JUDGE else says("An answer.")
    outcomes = await all_of(plan_for(fake), folder, run=RUN[:2])
    assert all(isinstance(one.error, EndpointError) and one.answer is not None for one in outcomes)
    found = summary(folder.read().values(), 2)
    assert (found.answered, found.judged, found.failed) == (2, 0, 2)
    fake.reply, fake.received = usual, []
    await all_of(plan_for(fake), folder, run=RUN[:2])
    assert [one.model for one in fake.received] == [JUDGE, JUDGE]
    assert summary(folder.read().values(), 2).overall == Accuracy(2, 2)
    assert await all_of(plan_for(fake), folder, run=RUN[:2]) == []
    assert len((folder.path / "answers.jsonl").read_text().splitlines()) == 2


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.evals.test_answering import HAYSTACKS, RUN, AnswerFolder, FakeChatEndpoint, all_of, plan_for

asyncio.run(all_of(plan_for(FakeChatEndpoint(sys.argv[1])), AnswerFolder(Path(sys.argv[2])), concurrency=2))
"""


def start_answering(fake: FakeChatEndpoint, folder: AnswerFolder) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(str(ROOT / part) for part in ("service", "evals", "."))
    command = [sys.executable, "-c", KILLED, fake.base_url, str(folder.path)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


async def test_a_process_that_is_killed_in_the_middle_loses_only_what_was_under_way(
    fake: FakeChatEndpoint, folder: AnswerFolder
):
    stuck, go_on = threading.Event(), threading.Event()
    held: list[str] = []

    def until_the_fourth(received: Received) -> Reply:
        if len(fake.by(READER)) > 3 or (received.model == JUDGE and len(fake.by(JUDGE)) > 2):
            held.append(question_of(received))
            if len(held) == 2:
                stuck.set()
            go_on.wait(60)
        return usual(received)

    fake.reply = until_the_fourth
    process = start_answering(fake, folder)
    try:
        assert await asyncio.to_thread(stuck.wait, 60)
    finally:
        process.kill()
        process.wait()
        go_on.set()
    with (folder.path / "answers.jsonl").open("a") as file:
        file.write('{"question_id": "torn", "answ')
    before = folder.read()
    assert 2 <= len(before) < len(RUN)
    judged = {name for name, answer in before.items() if answer.judged is not None}
    assert judged
    fake.reply, fake.received = usual, []
    await all_of(plan_for(fake), folder)
    assert sorted(map(question_of, fake.by(READER))) == sorted(set(QUESTIONS) - set(before))
    assert sorted(map(question_of, fake.by(JUDGE))) == sorted(set(QUESTIONS) - judged)
    assert summary(folder.read().values(), len(RUN)).overall == Accuracy(12, 12)


async def test_leaving_early_keeps_what_is_done_and_frees_the_folder(fake: FakeChatEndpoint, folder: AnswerFolder):
    async with aclosing(answer_all(HAYSTACKS, RUN, plan_for(fake), folder, concurrency=1)) as outcomes:
        async for _ in outcomes:
            break
    assert len(folder.read()) == 1
    assert len(await all_of(plan_for(fake), folder)) == len(RUN) - 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"k": 2}, "k: 3 there, 2 now"),
        ({"granularity": "turn"}, "granularity: session there, turn now"),
        ({"reading": "direct"}, "answer_tokens: 800 there, 500 now; reading: con there, direct now"),
        ({"reader": Endpoint("http://127.0.0.1:1/v1", "other")}, "reader: reader-1 there, other now"),
        ({"judge": Endpoint("http://127.0.0.1:1/v1", "other")}, "judge: judge-1 there, other now"),
        ({"source": {"data": "cd", "run": "retain.turn"}}, "data: ab there, cd now"),
        ({"source": {"data": "ab", "run": "bm25.turn"}}, "run: retain.turn there, bm25.turn now"),
    ],
)
async def test_a_folder_of_other_answers_is_refused_before_anything_is_sent(
    fake: FakeChatEndpoint, folder: AnswerFolder, change: dict[str, Any], told: str
):
    await all_of(plan_for(fake), folder, run=RUN[:1])
    sent = len(fake.received)
    with pytest.raises(InvalidInputError, match=told):
        await all_of(plan_for(fake, **change), folder)
    assert len(fake.received) == sent


async def test_the_same_models_may_move_to_another_address(fake: FakeChatEndpoint, folder: AnswerFolder):
    await all_of(plan_for(fake), folder, run=RUN[:1])
    with fake_chat_endpoint() as other:
        await all_of(plan_for(other), folder)
        assert len(other.received) == 2 * (len(RUN) - 1)


async def test_answers_to_other_memories_are_refused_even_under_the_same_name(
    fake: FakeChatEndpoint, folder: AnswerFolder
):
    await all_of(plan_for(fake), folder, run=RUN[:1])
    other = replace(RUN[0], grouped=RUN[0].grouped[3:])
    with pytest.raises(InvalidInputError, match="7c1e90aa that is there was given to another prompt"):
        estimate(HAYSTACKS, [other], plan_for(fake), folder.read())
    with pytest.raises(InvalidInputError, match="another prompt"):
        await all_of(plan_for(fake), folder, run=[other])


def test_a_run_of_other_data_is_refused_by_the_estimate(fake: FakeChatEndpoint):
    with pytest.raises(InvalidInputError, match=r"does not hold 1 questions of the run, such as 7c1e90aa"):
        estimate(HAYSTACKS[1:], RUN, plan_for(fake))
    with pytest.raises(InvalidInputError, match="holds no questions"):
        estimate(HAYSTACKS, [], plan_for(fake))


@pytest.mark.parametrize("change", [{"k": 0}, {"k": 21}, {"answer_tokens": 0}, {"judge_tokens": 0}])
def test_a_plan_out_of_range_is_refused(fake: FakeChatEndpoint, change: dict[str, Any]):
    with pytest.raises(InvalidInputError):
        plan_for(fake, **change)


async def test_no_question_at_once_is_refused(fake: FakeChatEndpoint, folder: AnswerFolder):
    with pytest.raises(InvalidInputError, match="answer nothing"):
        await all_of(plan_for(fake), folder, concurrency=0)


async def test_a_busy_endpoint_is_waited_for_as_long_as_it_asks(fake: FakeChatEndpoint, folder: AnswerFolder):
    fake.first(refuses(429, Retry_After="3"), refuses(503, Retry_After="4"))
    waits: list[float] = []

    async def noted(seconds: float) -> None:
        waits.append(seconds)

    outcomes = [one async for one in answer_all(HAYSTACKS, RUN[:1], plan_for(fake), folder, sleep=noted)]
    assert [one.error for one in outcomes] == [None]
    assert waits == [3, 4]


@pytest.mark.parametrize(("status", "error"), [(401, NotAuthenticatedError), (404, NotFoundError)])
@pytest.mark.parametrize("refused", [READER, JUDGE])
async def test_a_wrong_key_or_model_ends_it_at_once(
    fake: FakeChatEndpoint, folder: AnswerFolder, status: int, error: type[RetainError], refused: str
):
    fake.reply = lambda received: refuses(status, "no") if received.model == refused else usual(received)
    with pytest.raises(error, match=refused):
        await all_of(plan_for(fake), folder)
    assert len(fake.by(refused)) <= 4
    assert all(answer.judged is None for answer in folder.read().values())


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (refuses(503), StoreUnavailableError),
        (refuses(403, "not in your plan"), PermissionDeniedError),
        (refuses(400, "no such parameter"), EndpointError),
        (Reply("<html>Welcome</html>"), EndpointError),
    ],
)
async def test_it_ends_when_one_question_after_the_other_fails(
    fake: FakeChatEndpoint, folder: AnswerFolder, reply: Reply, error: type[RetainError]
):
    fake.reply = lambda _: reply
    failed: list[Outcome] = []

    async def collect() -> None:
        async with aclosing(
            answer_all(HAYSTACKS, RUN, plan_for(fake), folder, concurrency=1, sleep=no_pause)
        ) as outcomes:
            async for outcome in outcomes:
                failed.append(outcome)

    with pytest.raises(error):
        await collect()
    assert len(failed) == FAILURES_IN_A_ROW
    assert folder.read() == {}


async def test_a_question_that_fails_alone_is_told_and_tried_again_next_time(
    fake: FakeChatEndpoint, folder: AnswerFolder
):
    hard = RUN[5].question_id
    fake.reply = lambda received: refuses(400, "too long") if question_of(received) == hard else usual(received)
    outcomes = {one.question_id: one for one in await all_of(plan_for(fake), folder)}
    assert outcomes[hard].answer is None
    assert "too long" in str(outcomes[hard].error)
    assert summary(folder.read().values(), len(RUN)).failed == 1
    fake.reply = usual
    assert [one.question_id for one in await all_of(plan_for(fake), folder)] == [hard]
    assert summary(folder.read().values(), len(RUN)).failed == 0


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_questions_are_under_way_than_allowed(fake: FakeChatEndpoint, folder: AnswerFolder, limit: int):
    lock, at_work, most = threading.Lock(), 0, 0
    met = threading.Barrier(limit)

    def counting(received: Received) -> Reply:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        if received.model == READER and len(fake.by(READER)) <= limit:
            met.wait(30)
        with lock:
            at_work -= 1
        return usual(received)

    fake.reply = counting
    await all_of(plan_for(fake), folder, concurrency=limit)
    assert most == limit


@pytest.mark.parametrize("limit", [1, 3])
async def test_haystacks_are_read_as_they_are_needed(fake: FakeChatEndpoint, folder: AnswerFolder, limit: int):
    read = done = 0

    def one_by_one() -> Iterator[Haystack]:
        nonlocal read
        for haystack in HAYSTACKS:
            read += 1
            yield haystack

    async for _ in answer_all(one_by_one(), RUN, plan_for(fake), folder, concurrency=limit):
        assert read <= done + limit
        done += 1
    assert done == read == len(HAYSTACKS)


async def test_failures_with_successes_between_them_do_not_end_it(fake: FakeChatEndpoint, folder: AnswerFolder):
    hard = {one.question_id for one in RUN[::2]}
    assert len(hard) > FAILURES_IN_A_ROW
    fake.reply = lambda received: refuses(400) if question_of(received) in hard else usual(received)
    outcomes = await all_of(plan_for(fake), folder, concurrency=1)
    assert {one.question_id for one in outcomes if one.error is not None} == hard


async def test_the_key_is_in_no_file(fake: FakeChatEndpoint, folder: AnswerFolder):
    await all_of(plan_for(fake), folder, run=RUN[:2])
    assert {one.key for one in fake.received} == {f"Bearer {KEY}"}
    for path in folder.path.iterdir():
        assert KEY.encode() not in path.read_bytes()


@pytest.mark.parametrize("changes", [{}, {"granularity": "turn", "reading": "direct", "k": 1}, {"answer_tokens": 7}])
async def test_the_estimate_is_what_is_sent_when_answers_are_as_long_as_they_may_be(
    fake: FakeChatEndpoint, folder: AnswerFolder, changes: dict[str, Any]
):
    plan = plan_for(fake, **changes)
    expected = estimate(HAYSTACKS, RUN, plan)
    assert fake.received == []
    assert not folder.path.exists()
    longest = {800: "a" * 3200, 500: "a" * 2000, 7: "a" * 28}[plan.most_answer_tokens]
    fake.reply = lambda received: says("Yes." if received.model == JUDGE else longest)
    await all_of(plan, folder)
    for name, usage in ((READER, expected.reader), (JUDGE, expected.judge)):
        received = fake.by(name)
        assert usage == Usage(
            calls=len(received),
            input_tokens=sum(math.ceil(len(one.prompt) / 4) for one in received),
            output_tokens=sum(one.body["max_tokens"] for one in received),
        )
    assert (expected.done, expected.questions) == (0, len(RUN))


async def test_the_estimate_leaves_out_what_is_done(fake: FakeChatEndpoint, folder: AnswerFolder):
    plan = plan_for(fake)
    await all_of(plan, folder, run=RUN[:3])
    fake.reply = lambda received: says(None) if received.model == JUDGE else says("Short.")
    await all_of(plan, folder, run=RUN[:5])
    left = estimate(HAYSTACKS, RUN[:6], plan, folder.read())
    assert (left.done, left.questions, left.reader.calls, left.judge.calls) == (3, 3, 1, 3)
    fake.reply, fake.received = usual, []
    await all_of(plan, folder, run=RUN[:6])
    assert left.reader.input_tokens == math.ceil(len(fake.by(READER)[0].prompt) / 4)
    nothing = estimate(HAYSTACKS, RUN[:6], plan, folder.read())
    assert (nothing.done, nothing.questions, nothing.cost(Prices(1, 1))) == (6, 0, 0)


def test_a_cost_is_by_the_million_tokens_and_the_judge_may_have_prices_of_its_own(fake: FakeChatEndpoint):
    found = replace(
        estimate(HAYSTACKS, RUN, plan_for(fake)), reader=Usage(2, 600_000, 50_000), judge=Usage(2, 4_000, 20)
    )
    assert found.cost(Prices(2.5, 10)) == pytest.approx(0.6 * 2.5 + 0.05 * 10 + 0.004 * 2.5 + 0.00002 * 10)
    assert found.cost(Prices(0, 0), Prices(1, 1)) == pytest.approx(0.00402)


@pytest.mark.parametrize("price", [-1.0, math.nan])
def test_a_price_below_nothing_is_refused(price: float):
    with pytest.raises(InvalidInputError):
        Prices(price, 1)
    with pytest.raises(InvalidInputError):
        Prices(1, price)
