"""What the same questions cost without Retain: a sqlite-vec scan, and plain FTS5."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import sqlite_vec
from numpy.typing import NDArray

from benchmarks.readings import Stopwatch, Timed

K = 10
_PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -65536", "mmap_size = 268435456")


class Baselines:
    """A database with a vec0 table of float32 vectors and an FTS5 table of the texts, both of SQLite's default make."""

    def __init__(self, path: Path, contents: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self._db = apsw.Connection(str(path))
        for pragma in _PRAGMAS:
            self._db.execute(f"PRAGMA {pragma}").fetchall()  # one at a time: apsw stops at the first that has a row
        self._db.enable_load_extension(True)
        self._db.load_extension(sqlite_vec.loadable_path())
        self._db.execute(
            f"CREATE VIRTUAL TABLE vec USING vec0(embedding float[{vectors.shape[1]}] distance_metric=cosine)"
        )
        self._db.execute("CREATE VIRTUAL TABLE words USING fts5(content, tokenize='porter unicode61')")
        with self._db:
            self._db.executemany(
                "INSERT INTO vec(rowid, embedding) VALUES (?, ?)",
                ((row, vector.tobytes()) for row, vector in enumerate(vectors, 1)),
            )
            self._db.executemany("INSERT INTO words(rowid, content) VALUES (?, ?)", enumerate(contents, 1))

    def vec0(self, vectors: NDArray[np.float32], warm_up: int) -> Timed:
        """Time the ten nearest of each vector."""
        return self._timed(
            f"SELECT rowid, distance FROM vec WHERE embedding MATCH ? AND k = {K}",
            [vector.tobytes() for vector in vectors],
            warm_up,
        )

    def fts5(self, questions: Sequence[str], warm_up: int) -> Timed:
        """Time the ten best of each question, any word matching."""
        terms = [" OR ".join(f'"{word}"' for word in re.findall(r"\w+", question)) for question in questions]
        return self._timed(f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT {K}", terms, warm_up)

    def _timed(self, sql: str, values: Sequence[bytes | str], warm_up: int) -> Timed:
        for value in values[:warm_up]:
            self._db.execute(sql, (value,)).fetchall()
        stopwatch = Stopwatch(time.process_time, group=1)
        for value in values[warm_up:]:
            stopwatch.run(lambda value=value: self._db.execute(sql, (value,)).fetchall())
        return stopwatch.timed()

    def close(self) -> None:
        """Close the database."""
        self._db.close()
