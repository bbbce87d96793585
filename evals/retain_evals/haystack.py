"""What an evaluation asks: haystacks of sessions, questions about them, and where the evidence lies."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """One message.

    Attributes:
        id: Unique in its haystack. It never reaches a system: ids can give the evidence away.
        role: Who speaks: "user", "assistant", or a name.
    """

    id: str
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation.

    Attributes:
        key: Unique in its haystack: the id, and from the second occurrence on `id#2`, `id#3`, …
        id: As the dataset gives it; the evidence names sessions by it.
        started_at: Aware, in UTC.
    """

    key: str
    id: str
    started_at: datetime | None
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """One question and its relevance judgements.

    Attributes:
        type: The dataset's own category, such as "multi-session".
        asked_at: Aware, in UTC.
        evidence_sessions: Ids of the sessions that hold the answer.
        evidence_turns: Ids of the turns that hold the answer; empty when the dataset marks none.
        is_abstention: The haystack does not hold the answer; its evidence is what comes nearest.
    """

    id: str
    type: str
    text: str
    answer: str
    asked_at: datetime | None
    evidence_sessions: frozenset[str]
    evidence_turns: frozenset[str]
    is_abstention: bool = False


@dataclass(frozen=True, slots=True)
class Haystack:
    """What is stored before its questions are asked: sessions by time, those without a date last, in their order."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
