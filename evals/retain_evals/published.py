"""What others published about themselves, each figure with its measure, its questions and its source.

Only figures of measures that can be told apart are listed: what is called "R@5" without saying whether one or all
pieces of evidence must be found is not, nor is the accuracy of answers that a language model gave.
"""

from dataclasses import dataclass
from typing import Final

from retain_evals.metrics import GROUPED, RAW, View
from retain_evals.run import Mode


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One figure.

    Attributes:
        mode: The granularity of what the system stored; None when it does not matter for the measure.
        questions: The set as the report names it: "all questions" or "without abstention".
        value: In [0, 1].
        on: The data and what is particular to the setup.
        source: Where it was published.
    """

    system: str
    benchmark: str
    metric: str
    view: View
    mode: Mode | None
    questions: str
    value: float
    on: str
    source: str

    def is_comparable_to(self, mode: Mode, /) -> bool:
        """Whether a run in `mode` has a figure of the same measure."""
        return self.mode in (None, mode)


_MCP_MEMORY_SERVICE: Final = "github.com/doobidoo/mcp-memory-service, docs/BENCHMARKS.md"
_MEMPALACE: Final = "github.com/MemPalace/mempalace, benchmarks/BENCHMARKS.md"
_AGENTMEMORY: Final = "github.com/rohitg00/agentmemory, benchmark/LONGMEMEVAL.md"
_YOURMEMORY: Final = "github.com/sachitrafa/YourMemory, BENCHMARKS.md"
_S: Final = "LongMemEval-S, 500 questions"

_TURN_AND_SESSION: Final[tuple[tuple[Mode, str, float], ...]] = (
    ("turn", "recall_fraction@5", 0.804),
    ("turn", "recall_fraction@10", 0.904),
    ("session", "recall_fraction@5", 0.860),
    ("session", "recall_fraction@10", 0.930),
)
_FIGURES: Final = (
    *(
        PublishedFigure(
            "mcp-memory-service", "longmemeval", metric, RAW, mode, "all questions", value, f"{_S}, no LLM",
            _MCP_MEMORY_SERVICE,
        )
        for mode, metric, value in _TURN_AND_SESSION
    ),
    PublishedFigure(
        "MemPalace, raw", "longmemeval", "recall_any@5", GROUPED, None, "all questions", 0.966,
        f"{_S}, whole sessions in a plain vector store", _MEMPALACE,
    ),
    PublishedFigure(
        "MemPalace, hybrid v4", "longmemeval", "recall_any@5", GROUPED, None, "all questions", 0.984,
        "LongMemEval-S, 450 questions that it was not tuned on", _MEMPALACE,
    ),
    *(
        PublishedFigure(
            "agentmemory, BM25 + vector", "longmemeval", f"recall_any@{k}", GROUPED, None, "all questions", value,
            f"{_S}, no LLM, the same embedding model", _AGENTMEMORY,
        )
        for k, value in ((5, 0.952), (10, 0.986), (20, 0.994))
    ),
    *(
        PublishedFigure(
            "YourMemory", "longmemeval", metric, GROUPED, None, "all questions", value,
            f"{_S}, no LLM, multi-qa-mpnet", _YOURMEMORY,
        )
        for metric, value in (("recall_any@5", 0.958), ("recall_all@5", 0.848))
    ),
    *(
        PublishedFigure(
            "MemPalace, hybrid v5", "locomo", f"recall_fraction@{k}", GROUPED, None, "all questions", value,
            "LoCoMo, 1,986 questions, no LLM; published as R@k, their code counts the share of the evidence",
            _MEMPALACE,
        )
        for k, value in ((5, 0.837), (10, 0.889))
    ),
)  # fmt: skip


def published(benchmark: str, /) -> list[PublishedFigure]:
    """Return what was published on a benchmark."""
    return [figure for figure in _FIGURES if figure.benchmark == benchmark]
