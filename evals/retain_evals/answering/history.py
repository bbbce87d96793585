"""What the reader gets to see: the sessions, or the rounds of turns, that a run found."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from retain import InvalidInputError
from retain_evals.haystack import Haystack, Session, Turn
from retain_evals.run import Asked, Ranked

Granularity = Literal["session", "turn"]
"""Whole sessions, or for each turn that was found its round."""

_REPLY: Final = "assistant"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A session or a part of one.

    Attributes:
        started_at: Of the session; None when the dataset gives no date.
    """

    started_at: datetime | None
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    """Turns `start` to `end`, exclusive, of the session at a place of the haystack, which orders sessions by time."""

    session: int
    start: int
    end: int


def excerpts(haystack: Haystack, asked: Asked, k: int, granularity: Granularity, /) -> tuple[Excerpt, ...]:
    """Return what was said in the first `k` places, by time, those without a date last; nothing is there twice.

    Whole sessions are those of the grouped list, rounds those of the raw one. A round is a turn and the one after it,
    as in LongMemEval, which only looks for turns of the user; a reply that was found comes with the turn before it.

    Raises:
        InvalidInputError: a place is not in the haystack, or names no turn where rounds are wanted.
    """
    places = asked.grouped if granularity == "session" else asked.raw
    found = _Places(haystack, asked.question_id)
    span_of = found.session if granularity == "session" else found.round
    return tuple(found.excerpt(span) for span in sorted({span_of(place) for place in places[:k]}))


class _Places:
    """Finds what a run names in a haystack."""

    def __init__(self, haystack: Haystack, question_id: str, /) -> None:
        self._sessions = haystack.sessions
        self._question_id = question_id
        # Of a session that stands several times the last one is taken, as LongMemEval does.
        self._session_at = {session.id: place for place, session in enumerate(haystack.sessions)}
        self._turn_at = dict(_turn_places(haystack.sessions))

    def session(self, place: Ranked, /) -> _Span:
        if place.turn is not None:
            at, _ = self._turn(place.turn)
        elif place.session in self._session_at:
            at = self._session_at[place.session]
        else:
            raise self._unknown(place.session)
        return _Span(at, 0, len(self._sessions[at].turns))

    def round(self, place: Ranked, /) -> _Span:
        if place.turn is None:
            raise InvalidInputError(
                "the run found whole sessions, so there are no turns to read; give --granularity session",
                field="granularity",
            )
        at, turn = self._turn(place.turn)
        turns = self._sessions[at].turns
        is_reply = turn > 0 and turns[turn].role == _REPLY != turns[turn - 1].role
        start = turn - is_reply
        return _Span(at, start, min(start + 2, len(turns)))

    def excerpt(self, span: _Span, /) -> Excerpt:
        session = self._sessions[span.session]
        return Excerpt(session.started_at, session.turns[span.start : span.end])

    def _turn(self, turn_id: str) -> tuple[int, int]:
        if turn_id not in self._turn_at:
            raise self._unknown(turn_id)
        return self._turn_at[turn_id]

    def _unknown(self, name: str) -> InvalidInputError:
        return InvalidInputError(
            f"the run found {name} for question {self._question_id}, which the data does not hold; give the data of "
            "the run",
            field="data",
        )


def _turn_places(sessions: Iterable[Session]) -> Iterable[tuple[str, tuple[int, int]]]:
    return ((turn.id, (at, n)) for at, session in enumerate(sessions) for n, turn in enumerate(session.turns))
