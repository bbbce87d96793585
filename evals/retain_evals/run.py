"""A run: what a system returned for each question. The values; `run_files` keeps them on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["turn", "session"]
"""How a session is stored: a memory for each turn, or one for the whole session."""
Grouping = Literal["raw", "grouped"]
"""The first k memories as they come, or one memory for each conversation."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One memory that was returned.

    Attributes:
        session: Id of its session, as the evidence names it.
        turn: Id of its turn; None when the memory is a whole session.
        signals: What the score is made of, by name.
    """

    session: str
    turn: str | None
    score: float
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and what came back, best first. The evidence comes along, so that a run can be judged alone.

    Attributes:
        raw, grouped: Up to 20 memories each; `grouped` has one for each conversation.
        wall_ms, cpu_ms: What the raw recall took; `cpu_ms` counts the whole process, None for a remote system.
    """

    question_id: str
    question_type: str
    is_abstention: bool
    evidence_sessions: frozenset[str]
    evidence_turns: frozenset[str]
    sessions: int
    raw: tuple[Ranked, ...]
    grouped: tuple[Ranked, ...]
    wall_ms: float
    cpu_ms: float | None = None
