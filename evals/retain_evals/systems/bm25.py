"""The baseline that everybody has: SQLite's own full-text search, all words of the question joined by OR."""

import re
import sqlite3
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from typing import cast

from retain_evals.haystack import Haystack, Session
from retain_evals.run import Grouping, Mode, Ranked
from retain_evals.systems.system import said

_WORD = re.compile(r"\w+")


class Bm25:
    """FTS5 with its Porter stemmer and its own bm25(), over turns or whole sessions. No stop words, no tuning."""

    is_remote = False

    def __init__(self, *, label: str = "bm25") -> None:
        self._label = label

    @property
    def name(self) -> str:
        """The label."""
        return self._label

    async def settings(self) -> Mapping[str, str]:
        """Return SQLite's version and the tokenizer."""
        return {"sqlite": sqlite3.sqlite_version, "tokenize": "porter unicode61"}

    @asynccontextmanager
    async def stored(self, haystack: Haystack, mode: Mode, /) -> AsyncGenerator["_Stored"]:
        """Index the texts in memory."""
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE VIRTUAL TABLE text USING fts5(content, tokenize = 'porter unicode61')")
            documents = [document for session in haystack.sessions for document in _documents(session, mode)]
            database.executemany(
                "INSERT INTO text(rowid, content) VALUES (?, ?)",
                [(place, content) for place, (content, _) in enumerate(documents)],
            )
            yield _Stored(database, [ranked for _, ranked in documents])

    async def aclose(self) -> None:
        """Nothing was loaded."""


def _documents(session: Session, mode: Mode) -> list[tuple[str, Ranked]]:
    texts = [said(turn.role, turn.content) for turn in session.turns]
    if mode == "session":
        return [("\n\n".join(texts), Ranked(session.id, None, 0))]
    return [(text, Ranked(session.id, turn.id, 0)) for text, turn in zip(texts, session.turns, strict=True)]


class _Stored:
    """One full-text table."""

    def __init__(self, database: sqlite3.Connection, places: Sequence[Ranked]) -> None:
        self._database = database
        self._places = places

    async def search(self, question: str, k: int, grouping: Grouping, /) -> Sequence[Ranked]:
        """Return the best texts; the score is -bm25(), which has no upper bound."""
        words = dict.fromkeys(_WORD.findall(question))
        if not words:
            return []
        rows = self._database.execute(
            "SELECT rowid, -bm25(text) FROM text WHERE text MATCH ? ORDER BY bm25(text), rowid",
            (" OR ".join(f'"{word}"' for word in words),),
        )
        found: list[Ranked] = []
        seen: set[str] = set()
        for place, score in cast("Iterable[tuple[int, float]]", rows):
            kept = self._places[place]
            if grouping == "raw" or kept.session not in seen:
                found.append(Ranked(kept.session, kept.turn, score))
                seen.add(kept.session)
            if len(found) == k:
                break
        return found
