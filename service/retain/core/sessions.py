"""Conversations: turns become one memory each, or one memory of them all."""

from collections.abc import Sequence
from dataclasses import replace

from retain.core.intake import MAX_ROLE_CHARS, aware
from retain.domain.errors import InvalidInputError, TooLargeError
from retain.domain.memory import MAX_BATCH, NewMemory, Turn, TurnSpan
from retain.domain.text import clean_name, clean_text

SEPARATOR = "\n\n"


def turn_memories(turns: Sequence[Turn], template: NewMemory, /, *, max_content_chars: int) -> list[NewMemory]:
    """Return one memory a turn, in order: `sequence` from 0, the role in `metadata["role"]`.

    Raises:
        InvalidInputError: no turns, or a turn without role or content; the message names its place.
    """
    _require_turns(turns)
    return [
        replace(
            template,
            content=_content(turn, place, max_content_chars),
            metadata={**template.metadata, "role": _role(turn, place)},
            sequence=place,
            occurred_at=turn.occurred_at or template.occurred_at,
        )
        for place, turn in enumerate(turns)
    ]


def session_memory(
    turns: Sequence[Turn], template: NewMemory, /, *, max_content_chars: int
) -> tuple[NewMemory, tuple[TurnSpan, ...]]:
    """Return one memory that reads "role: content" turn by turn, and where each turn lies in it.

    Raises:
        InvalidInputError: no turns, or a turn without role or content; the message names its place.
    """
    _require_turns(turns)
    parts: list[str] = []
    spans: list[TurnSpan] = []
    start = 0
    for place, turn in enumerate(turns):
        role = _role(turn, place)
        text = f"{role}: {_content(turn, place, max_content_chars)}"
        at = None if turn.occurred_at is None else aware(turn.occurred_at, f"turns[{place}].occurred_at")
        spans.append(TurnSpan(role, start, start + len(text), at))
        parts.append(text)
        start += len(text) + len(SEPARATOR)
    first_time = next((span.occurred_at for span in spans if span.occurred_at), None)
    return (
        replace(template, content=SEPARATOR.join(parts), occurred_at=template.occurred_at or first_time),
        tuple(spans),
    )


def _require_turns(turns: Sequence[Turn]) -> None:
    if not turns:
        raise InvalidInputError("a session needs at least one turn", field="turns")
    if len(turns) > MAX_BATCH:
        raise TooLargeError(f"a session has {len(turns):,} turns, more than the {MAX_BATCH:,} allowed", field="turns")


def _role(turn: Turn, place: int) -> str:
    return clean_name(turn.role, field=f"turns[{place}].role", limit=MAX_ROLE_CHARS)


def _content(turn: Turn, place: int, limit: int) -> str:
    return clean_text(turn.content, field=f"turns[{place}].content", limit=limit)
