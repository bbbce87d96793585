"""Let a language model answer the questions of a run from what was found, and another one judge the answers."""

from retain_evals.answering.answer_files import Answer, AnswerFolder
from retain_evals.answering.answering import Outcome, answer_all
from retain_evals.answering.endpoint import Endpoint, EndpointError
from retain_evals.answering.estimate import Estimate, Prices, Usage, estimate
from retain_evals.answering.history import Granularity
from retain_evals.answering.plan import Plan
from retain_evals.answering.protocol import Reading
from retain_evals.answering.summary import Accuracy, Summary, summary

__all__ = [
    "Accuracy",
    "Answer",
    "AnswerFolder",
    "Endpoint",
    "EndpointError",
    "Estimate",
    "Granularity",
    "Outcome",
    "Plan",
    "Prices",
    "Reading",
    "Summary",
    "Usage",
    "answer_all",
    "estimate",
    "summary",
]
