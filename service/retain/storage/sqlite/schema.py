"""The tables. `DERIVED` and `cell` can be rebuilt from the others at any time; everything else is the truth."""

from typing import Final

TABLES: Final = """
CREATE TABLE meta(
    name TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE namespace(
    key INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    active INTEGER NOT NULL DEFAULT 0,      -- memories by state, kept by triggers
    superseded INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE memory(
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,                -- the 16 bytes of the UUID
    namespace INTEGER NOT NULL REFERENCES namespace,
    conversation_id TEXT,
    sequence INTEGER,
    agent_id TEXT,
    type TEXT NOT NULL,
    created_at INTEGER NOT NULL,            -- all times: milliseconds since 1970, UTC
    updated_at INTEGER NOT NULL,
    occurred_at INTEGER NOT NULL,
    superseded_by BLOB,
    archived_at INTEGER,
    content_hash BLOB NOT NULL,
    metadata TEXT,                          -- JSON object; NULL when empty
    turns TEXT,                             -- JSON list of [role, start, end, occurred_at]; NULL when none
    own_key TEXT,                           -- the key its owner gave it; the id follows from it and the namespace
    searchable TEXT,                        -- JSON list of [start, end]; NULL when all of the content is
    content TEXT NOT NULL,
    state INTEGER NOT NULL AS (iif(superseded_by IS NOT NULL, 1, iif(archived_at IS NOT NULL, 2, 0))) VIRTUAL
) STRICT;

-- Half of the hash is enough to tell contents apart, and half the bytes.
CREATE UNIQUE INDEX memory_once
    ON memory(substr(content_hash, 1, 16), namespace, coalesce(conversation_id, ''), coalesce(sequence, -1))
    WHERE superseded_by IS NULL AND archived_at IS NULL AND own_key IS NULL;
CREATE INDEX memory_newest ON memory(created_at, id);
CREATE INDEX memory_place ON memory(namespace, created_at, id);
CREATE INDEX memory_hidden ON memory(namespace) WHERE superseded_by IS NOT NULL OR archived_at IS NOT NULL;
CREATE INDEX memory_occurred ON memory(occurred_at, state, namespace);
CREATE INDEX memory_type ON memory(type, state, namespace);
CREATE INDEX memory_conversation ON memory(conversation_id, sequence, state, namespace)
    WHERE conversation_id IS NOT NULL;
CREATE INDEX memory_agent ON memory(agent_id, state, namespace) WHERE agent_id IS NOT NULL;

CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
    UPDATE namespace SET
        active = active + (NEW.state = 0), superseded = superseded + (NEW.state = 1),
        archived = archived + (NEW.state = 2)
    WHERE key = NEW.namespace;
END;
CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
    UPDATE namespace SET
        active = active - (OLD.state = 0), superseded = superseded - (OLD.state = 1),
        archived = archived - (OLD.state = 2)
    WHERE key = OLD.namespace;
END;
CREATE TRIGGER memory_moved AFTER UPDATE OF superseded_by, archived_at ON memory WHEN OLD.state <> NEW.state BEGIN
    UPDATE namespace SET
        active = active + (NEW.state = 0) - (OLD.state = 0),
        superseded = superseded + (NEW.state = 1) - (OLD.state = 1),
        archived = archived + (NEW.state = 2) - (OLD.state = 2)
    WHERE key = NEW.namespace;
END;

CREATE TABLE passage(
    key INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: indexes in other processes' memory rely on it
    memory INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    start_char INTEGER NOT NULL,
    length INTEGER NOT NULL,                -- in characters
    embedding BLOB NOT NULL                 -- int8, scaled so that the largest component is 127
) STRICT;                                   -- 384 dimensions: ten rows fill a page, which one more column would spoil

CREATE INDEX passage_memory ON passage(memory);

-- What the search groups vectors by once there are very many, made when idle; see docs/decisions.
CREATE TABLE cell(
    key INTEGER PRIMARY KEY,
    centroid BLOB NOT NULL,                 -- float32
    passages BLOB NOT NULL                  -- int32 keys of the passages nearest to it, ascending
) STRICT;

CREATE TABLE tag(
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    uses INTEGER NOT NULL DEFAULT 0         -- memories in any state, kept by triggers; an unused tag is removed
) STRICT;

CREATE TABLE memory_tag(
    memory INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    tag INTEGER NOT NULL REFERENCES tag,
    position INTEGER NOT NULL,
    PRIMARY KEY (memory, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX memory_tag_by_tag ON memory_tag(tag, memory);

CREATE TRIGGER tag_given AFTER INSERT ON memory_tag BEGIN
    UPDATE tag SET uses = uses + 1 WHERE key = NEW.tag;
END;
CREATE TRIGGER tag_taken AFTER DELETE ON memory_tag BEGIN
    UPDATE tag SET uses = uses - 1 WHERE key = OLD.tag;
    DELETE FROM tag WHERE key = OLD.tag AND uses = 0;
END;

CREATE TABLE change(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- commit order, since one process writes at a time
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 2), -- stored, updated, deleted
    memory INTEGER NOT NULL,
    memory_id BLOB NOT NULL,
    namespace INTEGER NOT NULL REFERENCES namespace,
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE tombstone(
    id BLOB PRIMARY KEY,
    content_hash BLOB NOT NULL,
    namespace INTEGER NOT NULL REFERENCES namespace,
    deleted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE request(
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    outcome TEXT NOT NULL,                  -- JSON list of [memory id, created]
    at INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_at ON request(at);

CREATE TABLE registered_type(
    name TEXT NOT NULL,
    namespace TEXT NOT NULL,                -- known there, below and above; hidden from the rest
    parent TEXT,
    PRIMARY KEY (name, namespace)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_key(
    name TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    can_write INTEGER NOT NULL,
    agent_id TEXT,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Passages and vectors of another model, built beside the current ones by `retain reembed`.
CREATE TABLE next_memory(
    memory INTEGER PRIMARY KEY REFERENCES memory ON DELETE CASCADE
) STRICT;

CREATE TABLE next_passage(
    key INTEGER PRIMARY KEY,
    memory INTEGER NOT NULL REFERENCES next_memory ON DELETE CASCADE,
    start_char INTEGER NOT NULL,
    length INTEGER NOT NULL,
    embedding BLOB NOT NULL
) STRICT;

CREATE INDEX next_passage_memory ON next_passage(memory);

CREATE TRIGGER next_outdated AFTER UPDATE OF content ON memory BEGIN
    DELETE FROM next_memory WHERE memory = NEW.key;
END;
"""

DERIVED: Final = {
    "passage_words": """
CREATE VIEW passage_words(key, words) AS
    SELECT passage.key, retain_spaced(substr(content, start_char + 1, length))
    FROM passage JOIN memory ON memory.key = passage.memory
""",
    "keyword": """
CREATE VIRTUAL TABLE keyword USING fts5(
    words, content='passage_words', content_rowid='key', detail=none, columnsize=0,
    tokenize='porter unicode61 remove_diacritics 2'
)
""",
    "keyword_place": "CREATE VIRTUAL TABLE keyword_place USING fts5vocab(keyword, instance)",
    "passage_pairs": """
CREATE VIEW passage_pairs(key, pairs) AS
    SELECT passage.key, retain_pairs(substr(content, start_char + 1, length))
    FROM passage JOIN memory ON memory.key = passage.memory
""",
    "pair": """
CREATE VIRTUAL TABLE pair USING fts5(
    pairs, content='passage_pairs', content_rowid='key', detail=none, columnsize=0,
    tokenize="unicode61 remove_diacritics 0 categories 'L* N* M*'"
)
""",
    "pair_place": "CREATE VIRTUAL TABLE pair_place USING fts5vocab(pair, instance)",
}
"""By name, in the order in which they must be made."""

FULL_TEXT: Final = ("keyword", "pair")
