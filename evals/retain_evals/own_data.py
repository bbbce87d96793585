"""Your own memories as a haystack: label a few questions with the memories that answer them, and compare settings."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from retain import InvalidInputError, Memory
from retain_evals.datasets import Benchmark, DatasetCounts
from retain_evals.haystack import Haystack, Question, Session, Turn

LABELLED = "labelled"
"""The type of all questions."""


def labelled(memories: Sequence[Memory], labels: Mapping[str, Collection[str]], /) -> Benchmark:
    """Return a benchmark over memories of one's own: one haystack, with all questions.

    Each conversation is a session and each of its memories a turn; a memory without a conversation is a session.

    Args:
        memories: What is searched, for instance what `MemoryAPI.list` returned.
        labels: Questions, each with the ids of the memories that answer it.

    Raises:
        InvalidInputError: there are no memories or no labels, a question has no memory, or one that is not there.
    """
    if not memories or not labels:
        raise InvalidInputError("label at least one question about at least one memory", field="labels")
    session_of = {memory.id: _session_id(memory) for memory in memories}
    questions = [
        _question(number, text, frozenset(ids), session_of) for number, (text, ids) in enumerate(labels.items())
    ]
    return Benchmark("own data", [Haystack("own", tuple(_sessions(memories)), tuple(questions))], _as_they_are)


def _as_they_are(haystacks: Iterable[Haystack], counts: DatasetCounts | None) -> Iterator[Haystack]:
    for haystack in haystacks:
        if counts is not None:
            counts.add(haystack)
        yield haystack


def _session_id(memory: Memory) -> str:
    return memory.id if memory.conversation_id is None else f"{memory.namespace} {memory.conversation_id}"


def _sessions(memories: Sequence[Memory]) -> list[Session]:
    in_order = sorted(memories, key=lambda memory: (_session_id(memory), memory.sequence or 0, memory.id))
    grouped = [(session_id, list(members)) for session_id, members in groupby(in_order, _session_id)]
    sessions = [
        Session(
            key=session_id,
            id=session_id,
            started_at=min(memory.occurred_at for memory in members),
            turns=tuple(Turn(memory.id, "user", memory.content) for memory in members),
        )
        for session_id, members in grouped
    ]
    return sorted(sessions, key=lambda session: (session.started_at is None, session.started_at, session.id))


def _question(number: int, text: str, ids: frozenset[str], session_of: Mapping[str, str]) -> Question:
    if not ids or not ids <= session_of.keys():
        missing = ", ".join(sorted(ids - session_of.keys())) or "none"
        raise InvalidInputError(f"{text!r} is labelled with memories that are not there: {missing}", field="labels")
    return Question(
        id=f"own-{number}",
        type=LABELLED,
        text=text,
        answer="",
        asked_at=None,
        evidence_sessions=frozenset(session_of[memory_id] for memory_id in ids),
        evidence_turns=ids,
    )
