"""Runs made up for tests: questions with rankings of sessions and turns."""

import random
from collections.abc import Iterable, Sequence

from retain_evals.run import Asked, Ranked


def ranked(places: Iterable[str]) -> tuple[Ranked, ...]:
    """Return turns such as "s1:0", best first; the session stands before the colon."""
    return tuple(
        Ranked(place.partition(":")[0], place, round(1 - n / 100, 2), {"semantic": 0.5})
        for n, place in enumerate(places)
    )


def firsts(places: Sequence[str]) -> list[str]:
    """Return the first turn of each session."""
    found: dict[str, str] = {}
    for place in places:
        found.setdefault(place.partition(":")[0], place)
    return list(found.values())


def asked(
    question_id: str,
    places: Sequence[str],
    evidence: Iterable[str],
    *,
    kind: str = "multi-session",
    sessions: int = 50,
    is_abstention: bool = False,
) -> Asked:
    """Return a question whose evidence are turns such as "s1:0"."""
    turns = frozenset(evidence)
    return Asked(
        question_id=question_id,
        question_type=kind,
        is_abstention=is_abstention,
        evidence_sessions=frozenset(turn.partition(":")[0] for turn in turns),
        evidence_turns=turns,
        sessions=sessions,
        raw=ranked(places)[:20],
        grouped=ranked(firsts(places))[:20],
        wall_ms=12.5,
        cpu_ms=7.25,
    )


def by_chance(seed: int, questions: int, *, sessions: int = 50, evidence: int = 2) -> list[Asked]:
    """Return questions whose rankings know nothing of the evidence."""
    draw = random.Random(seed)
    made: list[Asked] = []
    for number in range(questions):
        turns = [f"s{session}:{turn}" for session in range(sessions) for turn in range(4)]
        draw.shuffle(turns)
        gold = [f"s{session}:{draw.randrange(4)}" for session in draw.sample(range(sessions), evidence)]
        made.append(asked(f"q{number}", turns, gold, sessions=sessions))
    return made
