"""What a dataset holds and what was left out of it, for the report."""

from collections import Counter
from dataclasses import dataclass, field

from retain_evals.haystack import Haystack


@dataclass(slots=True)
class DatasetCounts:
    """Totals over the haystacks that were read so far.

    Attributes:
        haystacks: Instances of LongMemEval, conversations of LoCoMo.
        sessions: Occurrences of sessions; a session that stands twice in a haystack counts twice.
        unique_sessions: Pairs of haystack and session id.
        doubled_haystacks: Haystacks in which a session stands more than once.
        turns: Turns with content.
        blank_turns: Turns without content, which are left out.
        empty_sessions: Sessions without any turn that has content, which are left out and not in `sessions`.
        abstentions: Questions whose answer the haystack does not hold.
        without_evidence: Questions of which no evidence is left; no recall can be told for them.
        dropped_evidence: References to sessions or turns that the haystack does not hold.
        questions_by_type: Number of questions of each type.
    """

    haystacks: int = 0
    sessions: int = 0
    unique_sessions: int = 0
    doubled_haystacks: int = 0
    turns: int = 0
    blank_turns: int = 0
    empty_sessions: int = 0
    questions: int = 0
    abstentions: int = 0
    without_evidence: int = 0
    dropped_evidence: int = 0
    questions_by_type: Counter[str] = field(default_factory=Counter[str])

    def add(self, haystack: Haystack, /) -> None:
        """Count a haystack. What a reader leaves out it counts itself, since a haystack does not show it."""
        unique = len({session.id for session in haystack.sessions})
        self.haystacks += 1
        self.sessions += len(haystack.sessions)
        self.unique_sessions += unique
        self.doubled_haystacks += unique < len(haystack.sessions)
        self.turns += sum(len(session.turns) for session in haystack.sessions)
        for question in haystack.questions:
            self.questions += 1
            self.abstentions += question.is_abstention
            self.without_evidence += not question.evidence_sessions
            self.questions_by_type[question.type] += 1
