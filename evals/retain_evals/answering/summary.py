"""How many answers are correct: over all, by type, and of the questions that have no answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retain_evals.answering.answer_files import Answer


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A share of judged answers."""

    correct: int
    judged: int

    @property
    def value(self) -> float:
        """In [0, 1], higher is better; NaN when nothing is judged."""
        return self.correct / self.judged if self.judged else float("nan")


@dataclass(frozen=True, slots=True)
class Summary:
    """What the judged answers come to, as LongMemEval reports it.

    Attributes:
        questions: How many the run asked.
        answered: How many have an answer.
        judged: How many have a verdict; only these count in the figures below.
        overall: Of all questions, abstention included.
        by_type: By type of question, sorted; an abstention counts in its type, too.
        task_averaged: Mean of the types' accuracies, each type with the same weight; NaN when nothing is judged.
        abstention: Of the questions without an answer alone; None when none is judged.
    """

    questions: int
    answered: int
    judged: int
    overall: Accuracy
    by_type: Mapping[str, Accuracy]
    task_averaged: float
    abstention: Accuracy | None

    @property
    def failed(self) -> int:
        """Questions without a verdict: the reader or the judge failed, or was not asked yet."""
        return self.questions - self.judged


def summary(answers: Iterable[Answer], questions: int, /) -> Summary:
    """Count answers, such as the values of `AnswerFolder.read`, out of the `questions` of a run."""
    answered = list(answers)
    judged = [answer for answer in answered if answer.judged is not None]
    by_type = {
        kind: _accuracy(answer for answer in judged if answer.question_type == kind)
        for kind in sorted({answer.question_type for answer in judged})
    }
    abstention = _accuracy(answer for answer in judged if answer.is_abstention)
    return Summary(
        questions=questions,
        answered=len(answered),
        judged=len(judged),
        overall=_accuracy(judged),
        by_type=by_type,
        task_averaged=sum(each.value for each in by_type.values()) / len(by_type) if by_type else float("nan"),
        abstention=abstention if abstention.judged else None,
    )


def _accuracy(judged: Iterable[Answer]) -> Accuracy:
    verdicts = [answer.judged is True for answer in judged]
    return Accuracy(sum(verdicts), len(verdicts))
