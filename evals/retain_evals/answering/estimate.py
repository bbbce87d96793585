"""What answering will cost, told before anything is sent."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from retain import InvalidInputError
from retain_evals.answering.answer_files import Answer
from retain_evals.answering.plan import Plan, Task, open_tasks
from retain_evals.answering.protocol import judge_prompt
from retain_evals.haystack import Haystack
from retain_evals.run import Asked

CHARACTERS_PER_TOKEN: Final = 4
"""The usual rule for English; each model counts otherwise, and other scripts take more tokens."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in any currency."""

    input: float
    output: float

    def __post_init__(self) -> None:
        """Raises InvalidInputError for a price below 0."""
        if not (self.input >= 0 and self.output >= 0):
            raise InvalidInputError("a price is a number from 0 up", field="price")


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests to one model.

    Attributes:
        input_tokens: Characters over `CHARACTERS_PER_TOKEN`, rounded up for each request.
        output_tokens: The most that the limits allow; answers are usually shorter.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, input_tokens: int, output_tokens: int, /) -> "Usage":
        """Return this and one request more."""
        return Usage(self.calls + 1, self.input_tokens + input_tokens, self.output_tokens + output_tokens)

    def cost(self, prices: Prices, /) -> float:
        """Return the cost in the currency of the prices."""
        return (self.input_tokens * prices.input + self.output_tokens * prices.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is left to do. Repeated attempts are not in it.

    Attributes:
        done: Questions that are answered and judged already.
        questions: Questions that are left.
    """

    done: int
    questions: int
    reader: Usage
    judge: Usage

    def cost(self, reader: Prices, judge: Prices | None = None, /) -> float:
        """Return the most that it should cost; without prices of its own the judge has the reader's."""
        return self.reader.cost(reader) + self.judge.cost(judge or reader)


def estimate(
    haystacks: Iterable[Haystack], asked: Iterable[Asked], plan: Plan, known: Mapping[str, Answer] | None = None, /
) -> Estimate:
    """Tell how much is to be sent, without sending anything; everything is read once, so bad data shows here.

    Args:
        known: Answers that are there already, from `AnswerFolder.read`.

    Raises:
        InvalidInputError: the run is one of other data, or `known` are answers to something else.
    """
    places, known = list(asked), known or {}
    reader, judge, questions = Usage(), Usage(), 0
    for task in open_tasks(haystacks, places, plan, known):
        questions += 1
        if task.known is None:
            reader = reader.plus(tokens(task.prompt), plan.most_answer_tokens)
        judge = judge.plus(_judge_input(task, plan), plan.judge_tokens)
    return Estimate(len({one.question_id for one in places}) - questions, questions, reader, judge)


def tokens(text: str, /) -> int:
    """Return about how many tokens a text has: characters over `CHARACTERS_PER_TOKEN`, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def _judge_input(task: Task, plan: Plan) -> int:
    if task.known is not None:
        return tokens(judge_prompt(task.question, task.known.answer))
    return tokens(judge_prompt(task.question, "")) + plan.most_answer_tokens
