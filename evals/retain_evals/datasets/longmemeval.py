"""LongMemEval (Wu et al. 2025, MIT): each instance is a question with a haystack of chats of its own.

The files S, M and oracle have the same format, and so may a file of your own:

    question_id, question_type, question, question_date "2023/05/30 (Tue) 20:36", answer (text or number),
    answer_session_ids, haystack_session_ids, haystack_dates, haystack_sessions: [[{role, content, has_answer?}]]
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from retain_evals.datasets.counts import DatasetCounts
from retain_evals.datasets.value import Row, Value, is_blank
from retain_evals.haystack import Haystack, Question, Session, Turn

ABSTENTION_SUFFIX = "_abs"
"""Ends the id of a question whose answer the haystack does not hold."""

_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d) \([A-Za-z]{3}\) (\d\d):(\d\d)")
_DATE_EXAMPLE = "2023/05/30 (Tue) 20:36"


def longmemeval(rows: Iterable[Row], /, counts: DatasetCounts | None = None) -> Iterator[Haystack]:
    """Yield a haystack with one question for each row, in the order of the rows and one at a time.

    Sessions come by date (the files don't keep that order), those of the same minute as the file has them; dates are
    read as UTC. A session that stands twice in a haystack keeps its id and gets a key of its own (`id#2`). The id of a
    turn is `<session key>:<place>`, the place counted from 0 over all turns of the session; turns without content and
    sessions without turns are left out and counted. Evidence turns are those with `has_answer`. Evidence that is not
    in the haystack is dropped and counted, as in the benchmark's own scores, which judge what is there.

    Args:
        counts: Totals to which everything that is read is added.

    Raises:
        InvalidInputError: a field is missing or malformed, the lists of sessions differ in length, or two rows have the
            same question id. The message names row, question and field.
    """
    counts = DatasetCounts() if counts is None else counts
    seen: set[str] = set()
    for number, content in enumerate(rows, 1):
        row = Value(content, f"row {number}")
        question_id = row["question_id"].name()
        row.row += f" (question {question_id!r})"
        if question_id in seen:
            raise row["question_id"].wrong("an id that no earlier row has")
        seen.add(question_id)
        haystack = _haystack(row, question_id, counts)
        counts.add(haystack)
        yield haystack


def _haystack(row: Value, question_id: str, counts: DatasetCounts) -> Haystack:
    dated: list[tuple[datetime, Session]] = []
    evidence_turns: set[str] = set()
    keys: set[str] = set()
    for session_id, date, turns in _occurrences(row):
        key = _unused_key(session_id.name(), keys)
        keys.add(key)
        started_at = _utc(date)
        kept = _turns(turns, key, evidence_turns, counts)
        if kept:
            dated.append((started_at, Session(key, session_id.name(), started_at, kept)))
        else:
            counts.empty_sessions += 1
    sessions = tuple(session for _, session in sorted(dated, key=lambda pair: pair[0]))
    present = {session.id for session in sessions}
    evidence = {session.name() for session in row["answer_session_ids"].items()}
    counts.dropped_evidence += len(evidence - present)
    question = Question(
        id=question_id,
        type=row["question_type"].name(),
        text=row["question"].name(),
        answer=row["answer"].answer(),
        asked_at=_utc(row["question_date"]),
        evidence_sessions=frozenset(evidence & present),
        evidence_turns=frozenset(evidence_turns),
        is_abstention=question_id.endswith(ABSTENTION_SUFFIX),
    )
    return Haystack(question_id, sessions, (question,))


def _occurrences(row: Value) -> Iterator[tuple[Value, Value, Value]]:
    """Yield id, date and turns of each session."""
    ids, dates, sessions = (
        row[field].items() for field in ("haystack_session_ids", "haystack_dates", "haystack_sessions")
    )
    for field, others in (("haystack_dates", dates), ("haystack_sessions", sessions)):
        if len(others) != len(ids):
            expected = f"{len(ids)} members, one for each of haystack_session_ids, not {len(others)}"
            raise row[field].wrong(expected)
    return zip(ids, dates, sessions, strict=True)


def _unused_key(session_id: str, keys: set[str]) -> str:
    key, occurrence = session_id, 1
    while key in keys:
        occurrence += 1
        key = f"{session_id}#{occurrence}"
    return key


def _turns(turns: Value, key: str, evidence: set[str], counts: DatasetCounts) -> tuple[Turn, ...]:
    """Return the turns that have content; the ids of those with the answer are added to `evidence`."""
    kept: list[Turn] = []
    for place, turn in enumerate(turns.items()):
        content, has_answer = turn["content"].text(), turn["has_answer"].flag()
        if is_blank(content):
            counts.blank_turns += 1
            counts.dropped_evidence += has_answer
            continue
        kept.append(Turn(f"{key}:{place}", turn["role"].name(), content))
        if has_answer:
            evidence.add(kept[-1].id)
    return tuple(kept)


def _utc(date: Value) -> datetime:
    year, month, day, hour, minute = map(int, date.matching(_DATE, _DATE_EXAMPLE).groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError as error:
        raise date.wrong(f"a date of the calendar such as {_DATE_EXAMPLE!r}") from error
