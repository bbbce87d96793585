"""Passages with their vectors and keywords: always written and removed together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retain.core.ports import Entry, Vectors
from retain.domain.errors import EmbeddingError
from retain.domain.memory import Memory, Model, Passage
from retain.storage.sqlite import changes, meta
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.rows import id_blob, memories_by_key, to_ms
from retain.storage.sqlite.schema import FULL_TEXT
from retain.storage.sqlite.vectors import embeddings
from retain.storage.words import pairs, spaced

_REBUILD_RATIO = 100
"""Removing a passage from the keyword index costs some 100 times what indexing one costs (1.2 ms and 10 us
measured, with secure deletion), so beyond a hundredth of the store the index is built anew instead."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Content cut into passages, with their vectors (n, d) in the same order."""

    content: str
    passages: Sequence[Passage]
    vectors: Vectors

    @classmethod
    def of(cls, entry: Entry, /) -> "Cut":
        """Return that of an entry."""
        return cls(entry.memory.content, entry.passages, entry.vectors)


def require_vectors(cuts: Sequence[Cut], model: Model, /) -> None:
    """Refuse vectors that don't belong to the passages, before anything is written.

    Raises:
        EmbeddingError: wrong number, size, or values that are no numbers.
    """
    for cut in cuts:
        if cut.vectors.shape != (len(cut.passages), model.dimensions):
            raise EmbeddingError(
                f"{len(cut.passages)} passages need vectors of shape ({len(cut.passages)}, {model.dimensions}), "
                f"but the model {model.id!r} made {cut.vectors.shape}"
            )
    if not np.isfinite(np.concatenate([cut.vectors for cut in cuts])).all():
        raise EmbeddingError(f"the model {model.id!r} made a vector with infinite or undefined components")


def add_passages(connection: Connection, cuts: Mapping[int, Cut], /) -> None:
    """Write the passages of memories, by key, that have none.

    The words go last: whatever fires a trigger makes the full-text indexes write down what they have collected.
    """
    first = connection.highest_key("passage") + 1
    if not any(cut.passages for cut in cuts.values()):
        return
    parts = [(memory, cut.content, passage) for memory, cut in cuts.items() for passage in cut.passages]
    embedded = embeddings(np.concatenate([cut.vectors for cut in cuts.values()]))
    connection.run_each(
        "INSERT INTO passage(key, memory, start_char, length, embedding) VALUES (?, ?, ?, ?, ?)",
        (
            (key, memory, part.start, part.end - part.start, embedding.tobytes())
            for key, ((memory, _, part), embedding) in enumerate(zip(parts, embedded, strict=True), first)
        ),
    )
    texts = [(key, content[part.start : part.end]) for key, (_, content, part) in enumerate(parts, first)]
    connection.run_each("INSERT INTO keyword(rowid, words) VALUES (?, ?)", ((key, spaced(text)) for key, text in texts))
    connection.run_each(
        "INSERT INTO pair(rowid, pairs) VALUES (?, ?)",
        ((key, " ".join(bigrams)) for key, text in texts if (bigrams := pairs(text))),
    )


def unsearchable(connection: Connection, limit: int, /) -> list[Memory]:
    """Return some memories that have content and no passages, oldest first."""
    rows = connection.rows(
        """SELECT key FROM memory WHERE key NOT IN (SELECT memory FROM passage) AND content <> ''
             AND searchable IS NOT '[]' ORDER BY key LIMIT ?""",
        (limit,),
    )
    return list(memories_by_key(connection, [row[0] for row in rows]).values())


def complete(connection: Connection, entries: Sequence[Entry], model: Model, /) -> None:
    """Write the passages of memories that have none; content that changed meanwhile is passed over."""
    meta.adopt_model(connection, model)
    for entry in entries:
        require_vectors([Cut.of(entry)], model)
        key = connection.value(
            """SELECT key FROM memory WHERE id = ? AND content = ? AND key NOT IN (SELECT memory FROM passage)""",
            (id_blob(entry.memory.id), entry.memory.content),
        )
        if key is not None:
            add_passages(connection, {key: Cut.of(entry)})
            changes.record(connection, "updated", key, to_ms(entry.memory.updated_at))


def remove_passages(connection: Connection, memory: int, /) -> None:
    """Remove the passages of one memory; its content must still be the one that was indexed."""
    forget_words(connection, "SELECT ?", (memory,))
    connection.run("DELETE FROM passage WHERE memory = ?", (memory,))


def forget_words(connection: Connection, memories: str, bindings: Sequence[int] = (), /) -> None:
    """Take the passages of `memories` (SQL that yields keys) out of the keyword indexes, before their rows go."""
    for memory, content in connection.rows(f"SELECT key, content FROM memory WHERE key IN ({memories})", bindings):
        for key, start, length in connection.rows(
            "SELECT key, start_char, length FROM passage WHERE memory = ?", (memory,)
        ):
            text = content[start : start + length]
            connection.run("INSERT INTO keyword(keyword, rowid, words) VALUES ('delete', ?, ?)", (key, spaced(text)))
            if bigrams := pairs(text):
                connection.run("INSERT INTO pair(pair, rowid, pairs) VALUES ('delete', ?, ?)", (key, " ".join(bigrams)))


def rebuild_is_cheaper(connection: Connection, going: int, /) -> bool:
    """Whether removing `going` passages one by one costs more than indexing all that stay."""
    return going * _REBUILD_RATIO > connection.count("SELECT count(*) FROM passage") - going


def rebuild_words(connection: Connection, /) -> None:
    """Build the keyword indexes anew from the passages that are there."""
    for index in FULL_TEXT:
        connection.run(f"INSERT INTO {index}({index}) VALUES ('rebuild')")
