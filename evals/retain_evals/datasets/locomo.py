"""LoCoMo (Maharana et al. 2024, CC BY-NC 4.0: for evaluation only): long conversations of two people, with questions.

One row is one conversation, and so may be a row of a file of your own:

    sample_id, qa: [{question, answer, evidence: ["D1:3"], category}],
    conversation: {session_1_date_time "1:56 pm on 8 May, 2023", session_1: [{speaker, dia_id, text, blip_caption?}]}
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from retain_evals.datasets.counts import DatasetCounts
from retain_evals.datasets.value import Row, Value, is_blank
from retain_evals.haystack import Haystack, Question, Session, Turn

QUESTION_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""Types by the number in the data, which is not the order in which the paper lists them."""

NOT_TOLD = "The conversation does not tell."
"""The answer to an adversarial question, for which the data gives only the wrong one."""

_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"D\d+:\d+")
_REFERENCE = re.compile(r"D:?(\d+):(\d+)")
_DATE = re.compile(r"(\d{1,2}):(\d\d) ([ap])m on (\d{1,2}) ([A-Z][a-z]+), (\d{4})")
_DATE_EXAMPLE = "1:56 pm on 8 May, 2023"
# By hand, because the names that the standard library parses depend on the locale.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def locomo(rows: Iterable[Row], /, counts: DatasetCounts | None = None) -> Iterator[Haystack]:
    """Yield a haystack for each conversation, with all its questions, in the order of the rows and one at a time.

    Sessions (`session_1`, …) come by date, read as UTC. The id of a turn is its `dia_id`, its role the speaker, its
    content the text and, where a picture is shared, ` [shares <caption>]`. The id of a question is
    `<sample_id>:<place>`, counted from 0.

    Evidence is written untidily. The rule: in each string every `D<session>:<turn>` is a reference, also as
    `D:<session>:<turn>` and with leading zeros; a reference to no turn with content, and a string without any
    reference, is dropped and counted. Questions that are left without evidence stay.

    Args:
        counts: Totals to which everything that is read is added.

    Raises:
        InvalidInputError: a field is missing or malformed, or an id stands twice. The message names row, conversation
            and field.
    """
    counts = DatasetCounts() if counts is None else counts
    seen: set[str] = set()
    for number, content in enumerate(rows, 1):
        row = Value(content, f"row {number}")
        sample_id = row["sample_id"].name()
        row.row += f" (conversation {sample_id!r})"
        if sample_id in seen:
            raise row["sample_id"].wrong("an id that no earlier row has")
        seen.add(sample_id)
        sessions = _sessions(row["conversation"], counts)
        session_of = {turn.id: session.id for session in sessions for turn in session.turns}
        questions = [
            _question(question, f"{sample_id}:{place}", session_of, counts)
            for place, question in enumerate(row["qa"].items())
        ]
        haystack = Haystack(sample_id, sessions, tuple(questions))
        counts.add(haystack)
        yield haystack


def _sessions(conversation: Value, counts: DatasetCounts) -> tuple[Session, ...]:
    fields = conversation.fields()
    # A table format gives every conversation the sessions of the longest one, as null.
    numbers = sorted(int(m[1]) for key in fields if (m := _SESSION.fullmatch(key)) and fields[key] is not None)
    dated: list[tuple[datetime, Session]] = []
    seen: set[str] = set()
    for number in numbers:
        key = f"session_{number}"
        turns = _turns(conversation[key], seen, counts)
        if turns:
            started_at = _utc(conversation[f"{key}_date_time"])
            dated.append((started_at, Session(key, key, started_at, turns)))
        else:
            counts.empty_sessions += 1
    return tuple(session for _, session in sorted(dated, key=lambda pair: pair[0]))


def _turns(turns: Value, seen: set[str], counts: DatasetCounts) -> tuple[Turn, ...]:
    kept: list[Turn] = []
    for turn in turns.items():
        turn_id = turn["dia_id"].matching(_TURN_ID, "D1:3")[0]
        if turn_id in seen:
            raise turn["dia_id"].wrong("an id that no earlier turn of the conversation has")
        seen.add(turn_id)
        content = _content(turn)
        if not is_blank(content):
            kept.append(Turn(turn_id, turn["speaker"].name(), content))
        else:
            counts.blank_turns += 1
    return tuple(kept)


def _content(turn: Value) -> str:
    text, caption = turn["text"].text().strip(), turn["blip_caption"]
    # The caption tells that a picture was shared: its address is missing from many such turns.
    if caption.content is None:
        return text
    return f"{text} [shares {caption.name().strip()}]".strip()


def _question(question: Value, question_id: str, session_of: Mapping[str, str], counts: DatasetCounts) -> Question:
    evidence = _evidence(question["evidence"], session_of, counts)
    # An adversarial question ascribes to one speaker what the other said, so its evidence is in the haystack and can
    # be found like any other: for retrieval it is no abstention.
    return Question(
        id=question_id,
        type=QUESTION_TYPES[question["category"].one_of(QUESTION_TYPES)],
        text=question["question"].name(),
        answer=_answer(question),
        asked_at=None,
        evidence_sessions=frozenset(session_of[turn] for turn in evidence),
        evidence_turns=frozenset(evidence),
    )


def _answer(question: Value) -> str:
    if question["answer"].content is None and question["adversarial_answer"].content is not None:
        return NOT_TOLD
    return question["answer"].answer()


def _evidence(evidence: Value, session_of: Mapping[str, str], counts: DatasetCounts) -> set[str]:
    """Return the ids of the turns that are named and there; nested lists are read like one list."""
    found: set[str] = set()
    for member in evidence.items():
        if isinstance(member.content, list):
            found |= _evidence(member, session_of, counts)
            continue
        named = {f"D{int(session)}:{int(turn)}" for session, turn in _REFERENCE.findall(member.text())}
        found |= named & session_of.keys()
        counts.dropped_evidence += len(named - session_of.keys()) if named else 1
    return found


def _utc(date: Value) -> datetime:
    hour, minute, half, day, month, year = date.matching(_DATE, _DATE_EXAMPLE).groups()
    try:
        if not 1 <= int(hour) <= 12:
            raise ValueError(hour)
        hour_of_day = int(hour) % 12 + (12 if half == "p" else 0)
        return datetime(int(year), _MONTHS.index(month) + 1, int(day), hour_of_day, int(minute), tzinfo=UTC)
    except ValueError as error:
        raise date.wrong(f"a date of the calendar such as {_DATE_EXAMPLE!r}") from error
