"""Steps from older schemas to the current one. Each runs in one transaction: done as a whole, or not at all."""

from retain.storage.sqlite import meta
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.schema import DERIVED, TABLES

_ID = "unhex(replace({}, '-', ''))"
_FROM_1 = (
    "INSERT INTO meta SELECT * FROM old_meta WHERE name NOT GLOB 'next_*'",
    "INSERT INTO namespace(key, path) SELECT key, path FROM old_namespace",
    f"""INSERT INTO memory(key, id, namespace, conversation_id, sequence, agent_id, type, created_at, updated_at,
                           occurred_at, superseded_by, archived_at, content_hash, metadata, turns, content)
        SELECT key, {_ID.format("id")}, namespace, conversation_id, sequence, agent_id, type, created_at, updated_at,
               occurred_at, {_ID.format("superseded_by")}, archived_at, content_hash, metadata, turns, content
        FROM old_memory ORDER BY key""",
    """INSERT INTO passage(key, memory, start_char, length, embedding)
       SELECT key, memory, start_char, end_char - start_char, embedding
       FROM old_passage JOIN old_vector ON passage = key
       WHERE memory IN (SELECT key FROM memory)
         AND memory NOT IN (SELECT memory FROM old_passage WHERE key NOT IN (SELECT passage FROM old_vector))
       ORDER BY key""",
    "INSERT INTO tag(key, name) SELECT key, name FROM old_tag",
    """INSERT INTO memory_tag SELECT * FROM old_memory_tag WHERE memory IN (SELECT key FROM memory)
       ORDER BY memory, tag""",
    f"""INSERT INTO change(seq, kind, memory, memory_id, namespace, at)
        SELECT seq, CASE kind WHEN 'stored' THEN 0 WHEN 'updated' THEN 1 ELSE 2 END, memory,
               {_ID.format("memory_id")}, namespace, at
        FROM old_change ORDER BY seq""",
    f"INSERT INTO tombstone SELECT {_ID.format('id')}, content_hash, namespace, deleted_at FROM old_tombstone",
    "INSERT INTO request SELECT * FROM old_request",
    "INSERT INTO registered_type SELECT * FROM old_registered_type",
    "INSERT INTO api_key SELECT * FROM old_api_key",
    "DELETE FROM sqlite_sequence WHERE name IN ('memory', 'passage', 'change')",
    """INSERT INTO sqlite_sequence(name, seq)
       SELECT substr(name, 5), seq FROM sqlite_sequence WHERE name IN ('old_memory', 'old_passage', 'old_change')""",
)
"""From schema 1, whose tables are `old_…`: ids become 16 bytes, vectors move into their passages, bit codes go.

A memory that lacks a vector gets no passages: `retain doctor` finds it and embeds it again. Orphans stay behind.
"""
# Children before parents: dropping a parent deletes the rows that refer to it.
_OLD_TABLES = (
    "next_passage", "next_memory", "vector", "passage", "memory_tag", "tag", "change", "tombstone", "request",
    "registered_type", "api_key", "memory", "namespace", "meta",
)  # fmt: skip


def from_1(connection: Connection, /) -> None:
    """Bring schema 1 to the tables of today; a re-embedding that was under way has to be begun anew."""
    for name in reversed(DERIVED):
        kind = "VIEW" if DERIVED[name].lstrip().startswith("CREATE VIEW") else "TABLE"
        connection.run(f"DROP {kind} IF EXISTS {name}")
    for kind, name in connection.rows(
        "SELECT type, name FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    ):
        connection.run(f"DROP {kind} {name}")
    for name in _OLD_TABLES:
        connection.run(f"ALTER TABLE {name} RENAME TO old_{name}")
    connection.run(TABLES)
    for sql in _FROM_1:
        connection.run(sql)
    for name in _OLD_TABLES:
        connection.run(f"DROP TABLE old_{name}")
    meta.new_generation(connection)


_FROM_2 = (
    "ALTER TABLE memory ADD COLUMN own_key TEXT",
    "ALTER TABLE memory ADD COLUMN searchable TEXT",
    "DROP INDEX memory_once",
    """CREATE UNIQUE INDEX memory_once
       ON memory(substr(content_hash, 1, 16), namespace, coalesce(conversation_id, ''), coalesce(sequence, -1))
       WHERE superseded_by IS NULL AND archived_at IS NULL AND own_key IS NULL""",
)


def from_2(connection: Connection, /) -> None:
    """Bring schema 2 to schema 3; a file that was of schema 1 has it already."""
    if connection.value("SELECT 1 FROM pragma_table_info('memory') WHERE name = 'own_key'") is None:
        for sql in _FROM_2:
            connection.run(sql)
