"""Building the vectors of another model beside the current ones. It survives a kill at any point and goes on."""

from collections.abc import Sequence

from retain.core.ports import Entry
from retain.domain.errors import ConflictError
from retain.domain.memory import Memory, Model
from retain.storage.sqlite import meta, passages
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.rows import id_blob, memories_by_key
from retain.storage.sqlite.vectors import embeddings


def begin(connection: Connection, model: Model, /) -> int:
    """Start with `model`, or go on with it; return how many memories lack its vectors."""
    if meta.model(connection, "next_") != model:
        connection.run("DELETE FROM next_memory")
        meta.set_model(connection, model, "next_")
    return connection.count("SELECT count(*) FROM memory WHERE key NOT IN (SELECT memory FROM next_memory)")


def unembedded(connection: Connection, limit: int, /) -> list[Memory]:
    """Return some memories that lack vectors of the new model, oldest first."""
    rows = connection.rows(
        "SELECT key FROM memory WHERE key NOT IN (SELECT memory FROM next_memory) ORDER BY key LIMIT ?", (limit,)
    )
    return list(memories_by_key(connection, [row[0] for row in rows]).values())


def put(connection: Connection, entries: Sequence[Entry], model: Model, /) -> None:
    """Keep new passages and vectors; those of content that changed meanwhile are passed over."""
    _require_under_way(connection, model)
    for entry in entries:
        passages.require_vectors([passages.Cut.of(entry)], model)
        key = connection.value(
            "SELECT key FROM memory WHERE id = ? AND content = ?", (id_blob(entry.memory.id), entry.memory.content)
        )
        if key is not None:
            _put_one(connection, key, entry)


def _require_under_way(connection: Connection, model: Model) -> None:
    wanted = meta.model(connection, "next_")
    if wanted is None:
        raise ConflictError("no re-embedding is under way; another process finished it, or it was never begun")
    if wanted != model:
        raise ConflictError(
            f"another process began to re-embed with {wanted.id} ({wanted.dimensions}); this one, with {model.id} "
            f"({model.dimensions}), stops. Run one at a time"
        )


def _put_one(connection: Connection, key: int, entry: Entry) -> None:
    connection.run("DELETE FROM next_memory WHERE memory = ?", (key,))
    connection.run("INSERT INTO next_memory VALUES (?)", (key,))
    if not entry.passages:
        return
    for passage, embedding in zip(entry.passages, embeddings(entry.vectors), strict=True):
        connection.run(
            "INSERT INTO next_passage(memory, start_char, length, embedding) VALUES (?, ?, ?, ?)",
            (key, passage.start, passage.end - passage.start, embedding.tobytes()),
        )


def finish(connection: Connection, model: Model, /) -> bool:
    """Put the new passages and vectors in the place of the old ones; False while some are still missing."""
    _require_under_way(connection, model)
    if connection.value("SELECT 1 FROM memory WHERE key NOT IN (SELECT memory FROM next_memory) LIMIT 1"):
        return False
    connection.run("DELETE FROM passage")
    connection.run(
        """INSERT INTO passage(key, memory, start_char, length, embedding)
           SELECT ? + key, memory, start_char, length, embedding FROM next_passage ORDER BY key""",
        (connection.highest_key("passage"),),
    )
    passages.rebuild_words(connection)
    connection.run("DELETE FROM next_memory")
    meta.set_model(connection, model)
    meta.set_model(connection, None, "next_")
    meta.new_generation(connection)
    return True
