"""Answering the questions of a run: a reader answers from what was found, a judge compares with the right answer."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from retain import InvalidInputError, PermissionDeniedError, RetainError, StoreUnavailableError
from retain_evals.answering.answer_files import Answer, AnswerFolder, AnswerWriter
from retain_evals.answering.endpoint import ChatClient, EndpointError, Sleep
from retain_evals.answering.plan import Plan, Task, open_tasks, prompt_digest
from retain_evals.answering.protocol import TEMPERATURE, judge_prompt, says_yes
from retain_evals.haystack import Haystack
from retain_evals.run import Asked

CONCURRENCY: Final = 4
FAILURES_IN_A_ROW: Final = 5
"""So many questions failing one after the other are no accident: the rest would fail, too."""

_OF_ONE_QUESTION: Final = (EndpointError, PermissionDeniedError, StoreUnavailableError)
"""What may be the fault of one question: too long, filtered, too slow. No key or no model ends all at once."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question.

    Attributes:
        answer: As it is in the folder; None when the reader failed.
        error: Why there is no answer, or no verdict; the next run tries again.
    """

    question_id: str
    answer: Answer | None
    error: RetainError | None = None


async def answer_all(
    haystacks: Iterable[Haystack],
    asked: Iterable[Asked],
    plan: Plan,
    folder: AnswerFolder,
    /,
    *,
    concurrency: int = CONCURRENCY,
    sleep: Sleep = asyncio.sleep,
) -> AsyncGenerator[Outcome]:
    """Answer and judge what the folder lacks, and yield each question as it is done.

    Every answer and every verdict is in the folder before it is yielded, so that an interrupted run goes on where it
    stopped. Close the generator (`contextlib.aclosing`) when it is left early.

    Args:
        haystacks: Read as they are needed, in their order.
        asked: What a run found; questions that are not in it are not answered.
        concurrency: Number of questions under way, at least 1.
        sleep: Awaited between attempts of a request, with seconds.

    Raises:
        InvalidInputError: the folder holds answers to something else, or the run is one of other data.
        ConflictError: another process answers into the folder.
        NotAuthenticatedError, NotFoundError: there is no such key, address or model.
        RetainError: `FAILURES_IN_A_ROW` questions failed; it is the error of the last one.
    """
    if concurrency < 1:
        raise InvalidInputError(f"{concurrency} questions at once answer nothing; give at least 1", field="concurrency")
    with folder.writer(plan.settings()) as writer:
        async with ChatClient(plan.reader, sleep=sleep) as reader, ChatClient(plan.judge, sleep=sleep) as judge:
            desk = _Desk(plan, reader, judge, writer)
            tasks = open_tasks(haystacks, asked, plan, writer.known)
            failures = 0
            async with aclosing(_all_of(desk, tasks, concurrency)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
                    failures = 0 if outcome.error is None else failures + 1
                    if outcome.error is not None and failures == FAILURES_IN_A_ROW:
                        raise outcome.error


async def _all_of(desk: "_Desk", tasks: Iterator[Task], concurrency: int) -> AsyncGenerator[Outcome]:
    """Yield outcomes as they come, `concurrency` tasks under way."""
    under_way: set[asyncio.Task[Outcome]] = set()
    try:
        while True:
            for task in itertools.islice(tasks, concurrency - len(under_way)):
                under_way.add(asyncio.create_task(desk.settle(task)))
            if not under_way:
                return
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            finished = next(iter(done))
            under_way.remove(finished)
            yield finished.result()
    finally:
        for left in under_way:
            left.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Desk:
    """Where one question after the other is answered and judged."""

    plan: Plan
    reader: ChatClient
    judge: ChatClient
    writer: AnswerWriter

    async def settle(self, task: Task) -> Outcome:
        answer = task.known
        try:
            if answer is None:
                answer = await self._answered(task)
            answer = await self._judged(task, answer)
        except _OF_ONE_QUESTION as error:
            return Outcome(task.question.id, answer, error)
        return Outcome(task.question.id, answer)

    async def _answered(self, task: Task) -> Answer:
        text = await self.reader.complete(task.prompt, max_tokens=self.plan.most_answer_tokens, temperature=TEMPERATURE)
        question = task.question
        answer = Answer(
            question_id=question.id,
            question_type=question.type,
            is_abstention=question.is_abstention,
            prompt=prompt_digest(task.prompt),
            answer=text,
            reader=self.plan.reader.model,
        )
        self.writer.add(answer)
        return answer

    async def _judged(self, task: Task, answer: Answer) -> Answer:
        verdict = await self.judge.complete(
            judge_prompt(task.question, answer.answer), max_tokens=self.plan.judge_tokens, temperature=TEMPERATURE
        )
        judged = replace(answer, judge=self.plan.judge.model, judged=says_yes(verdict), verdict=verdict)
        self.writer.add(judged)
        return judged
