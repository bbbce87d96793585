"""What is to be answered, by whom, and from how much of what was found."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from retain import InvalidInputError
from retain_evals.answering.answer_files import Answer, Settings
from retain_evals.answering.endpoint import Endpoint
from retain_evals.answering.history import Granularity, excerpts
from retain_evals.answering.protocol import ANSWER_TOKENS, JUDGE_TOKENS, Reading, reader_prompt
from retain_evals.haystack import Haystack, Question
from retain_evals.run import Asked
from retain_evals.runner import K


@dataclass(frozen=True, slots=True)
class Plan:
    """Who answers and judges, and what the reader sees.

    Attributes:
        source: What identifies the data and the run, such as its hash and "retain.turn".
        k: Number of memories that are read, from 1 to the 20 that a run keeps.
        granularity: Whole sessions, or the rounds around the turns that were found.
        reading: How the reader works.
        answer_tokens: Most tokens of an answer; by default 800 for chain of note and 500 for a direct answer.
        judge_tokens: Most tokens of a verdict.
    """

    source: Mapping[str, str | None]
    reader: Endpoint
    judge: Endpoint
    k: int = 5
    granularity: Granularity = "session"
    reading: Reading = "con"
    answer_tokens: int | None = None
    judge_tokens: int = JUDGE_TOKENS

    def __post_init__(self) -> None:
        """Raises InvalidInputError for a number that is out of range."""
        if not 1 <= self.k <= K:
            raise InvalidInputError(f"k is {self.k}; a run keeps {K} memories, so give 1 to {K}", field="k")
        if self.most_answer_tokens < 1 or self.judge_tokens < 1:
            raise InvalidInputError("an answer needs at least one token", field="tokens")

    @property
    def most_answer_tokens(self) -> int:
        """Most tokens of an answer."""
        return ANSWER_TOKENS[self.reading] if self.answer_tokens is None else self.answer_tokens

    def settings(self) -> Settings:
        """Return what all answers of a folder share. Addresses may change, keys are no part of it."""
        return {
            **self.source,
            "reader": self.reader.model,
            "judge": self.judge.model,
            "k": self.k,
            "granularity": self.granularity,
            "reading": self.reading,
            "answer_tokens": self.most_answer_tokens,
            "judge_tokens": self.judge_tokens,
        }


@dataclass(frozen=True, slots=True)
class Task:
    """One question and what the reader is asked about it.

    Attributes:
        known: The answer that is there already and only wants a verdict.
    """

    question: Question
    prompt: str
    known: Answer | None = None


def prompt_digest(prompt: str, /) -> str:
    """Return the start of the SHA-256 of a prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def open_tasks(
    haystacks: Iterable[Haystack], asked: Iterable[Asked], plan: Plan, known: Mapping[str, Answer], /
) -> Iterator[Task]:
    """Yield what is still to be done, in the order of the haystacks and one at a time.

    Questions that the run did not ask are left out, and so are those that are judged.

    Raises:
        InvalidInputError: the run is one of other data, or an answer that is known was given to another prompt.
    """
    left = {one.question_id: one for one in asked}
    if not left:
        raise InvalidInputError("the run holds no questions", field="run")
    for haystack in haystacks:
        for question in haystack.questions:
            one = left.pop(question.id, None)
            if one is not None:
                task = _task(haystack, question, one, plan, known.get(question.id))
                if task.known is None or task.known.judged is None:
                    yield task
    if left:
        raise InvalidInputError(
            f"the data does not hold {len(left)} questions of the run, such as {next(iter(left))}; give the data of "
            "the run",
            field="data",
        )


def _task(haystack: Haystack, question: Question, asked: Asked, plan: Plan, known: Answer | None) -> Task:
    prompt = reader_prompt(question, excerpts(haystack, asked, plan.k, plan.granularity), plan.reading)
    if known is not None and known.prompt != prompt_digest(prompt):
        raise InvalidInputError(
            f"the answer to {question.id} that is there was given to another prompt: data, run or version differ; give "
            "another --out",
            field="out",
        )
    return Task(question, prompt, known)
