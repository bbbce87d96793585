"""What the reader and the judge are told: the protocol of LongMemEval, in wording of our own.

After Wu et al. 2025, "LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory"
(github.com/xiaowu0162/LongMemEval, MIT): the layout of the reader's prompt, the two ways of reading, the limits and the
temperature are those of its `run_generation`; what counts as correct for each type of question is what its
`evaluate_qa` asks of the judge. The sentences are not theirs, so a judge may decide a borderline case otherwise. LoCoMo
has no such protocol; its types are judged by the general instructions.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from retain_evals.answering.history import Excerpt
from retain_evals.haystack import Question

Reading = Literal["con", "direct"]
"""Chain of note: collect what matters, then reason, in one answer (the published default). Or answer at once."""

ANSWER_TOKENS: Final[Mapping[Reading, int]] = {"con": 800, "direct": 500}
"""Most tokens of an answer, as published."""
JUDGE_TOKENS: Final = 10
"""Most tokens of a verdict, as published. A model that thinks aloud needs more."""
TEMPERATURE: Final = 0

NOTHING_FOUND: Final = "(no chat was found)"
_NO_DATE: Final = "unknown"
# By hand, because the names that the standard library writes depend on the locale.
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CHAT_ROLES: Final = frozenset({"user", "assistant", "system"})

_READ: Final[Mapping[Reading, str]] = {
    "con": (
        "Work step by step: first write down everything in the chats that bears on the question, then reason over it "
        "until you have the answer."
    ),
    "direct": "",
}
_ANSWER: Final[Mapping[Reading, str]] = {"con": "Answer (step by step):", "direct": "Answer:"}

_GIVEN: Final = "Below are a question, its correct answer, and the response of a model."
_CONTAINS: Final = "Say yes if the response contains the correct answer, otherwise say no."
_GENERAL: Final = (
    f"{_GIVEN} {_CONTAINS} A response that is equivalent to the correct answer, or that contains every intermediate "
    "step that leads to it, is a yes too. A response that contains only a part of what the answer requires is a no."
)
_OFF_BY_ONE: Final = (
    "Do not count it against the response if a number of days is off by one: where the question asks for a number of "
    "days, weeks, months or the like, a response that is off by one (say, 19 days where the answer is 18) is correct."
)
_UPDATED: Final = (
    "A response that gives earlier values beside the updated one is correct, as long as its updated answer is the "
    "required one."
)
_INSTRUCTIONS: Final[Mapping[str, str]] = {
    "temporal-reasoning": f"{_GENERAL} {_OFF_BY_ONE}",
    "knowledge-update": f"{_GIVEN} {_CONTAINS} {_UPDATED}",
}
"""For types of questions that are not judged by `_GENERAL`."""
_PREFERENCE_TYPE: Final = "single-session-preference"
_PREFERENCE: Final = (
    "Below are a question, a rubric that describes the personal response that is wanted, and the response of a model. "
    "Say yes if the response is what is wanted, otherwise say no. It need not cover every point of the rubric: it is "
    "correct as long as it remembers the user's personal information and uses it correctly."
)
_ABSTENTION: Final = (
    "Below are a question that can't be answered, an explanation why, and the response of a model. Say yes if the "
    "response recognises that the question can't be answered: it may say that the information is incomplete, or that "
    "something else is known but not what is asked. Otherwise say no."
)
_IS_CORRECT: Final = "Is the model response correct? Answer yes or no only."
_IS_RECOGNISED: Final = "Does the response recognise that the question can't be answered? Answer yes or no only."


def reader_prompt(question: Question, excerpts: Sequence[Excerpt], reading: Reading, /) -> str:
    """Return what the reader is asked: the chats by time, each with its date, then the question and its date.

    It holds nothing but what was said, when and by whom: no ids, no marks of evidence, not the answer. A question
    without a date, as in LoCoMo, has no line for it.
    """
    today = [] if question.asked_at is None else [f"Current Date: {stamp(question.asked_at)}"]
    asked = "\n".join([*today, f"Question: {question.text}", _ANSWER[reading]])
    return f"{_told(excerpts, reading)}\n\n\nHistory Chats:\n\n{_history(excerpts)}\n\n{asked}"


def judge_prompt(question: Question, response: str, /) -> str:
    """Return what the judge is asked about a response: abstention goes before the type of the question."""
    if question.is_abstention:
        return _judged(_ABSTENTION, question, "Explanation", response, _IS_RECOGNISED)
    if question.type == _PREFERENCE_TYPE:
        return _judged(_PREFERENCE, question, "Rubric", response, _IS_CORRECT)
    return _judged(_INSTRUCTIONS.get(question.type, _GENERAL), question, "Correct Answer", response, _IS_CORRECT)


def says_yes(verdict: str, /) -> bool:
    """Return whether a verdict counts as correct: it has "yes" in it, in any case of letters."""
    return "yes" in verdict.lower()


def stamp(moment: datetime, /) -> str:
    """Return a date as LongMemEval writes it: "2023/05/30 (Tue) 20:36"."""
    return f"{moment:%Y/%m/%d} ({_WEEKDAYS[moment.weekday()]}) {moment:%H:%M}"


def _told(excerpts: Iterable[Excerpt], reading: Reading) -> str:
    roles = {turn.role for excerpt in excerpts for turn in excerpt.turns}
    whose = "you and a user" if roles <= _CHAT_ROLES else "several people"
    task = f"Below are past chats between {whose}. Answer the question from what is relevant in them."
    return f"{task} {_READ[reading]}".rstrip()


def _history(excerpts: Sequence[Excerpt]) -> str:
    return "".join(_chat(number, excerpt) for number, excerpt in enumerate(excerpts, 1)) or f"\n{NOTHING_FOUND}\n"


def _chat(number: int, excerpt: Excerpt) -> str:
    date = _NO_DATE if excerpt.started_at is None else stamp(excerpt.started_at)
    turns = json.dumps([{"role": turn.role, "content": turn.content} for turn in excerpt.turns])
    return f"\n### Session {number}:\nSession Date: {date}\nSession Content:\n\n{turns}\n"


def _judged(instructions: str, question: Question, gold: str, response: str, asked: str) -> str:
    return (
        f"{instructions}\n\nQuestion: {question.text}\n\n{gold}: {question.answer}\n\nModel Response: {response}\n\n"
        f"{asked}"
    )
