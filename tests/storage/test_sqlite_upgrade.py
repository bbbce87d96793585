"""A file of an older schema is brought up to date without loss, or stays as it was."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from retain.core.ports import StoredKey
from retain.domain.memory import EVERYTHING, Filter, Page
from retain.storage.sqlite import SqliteStore, open_sqlite, upgrades
from retain.storage.sqlite.migrations import APPLICATION_ID
from retain.storage.sqlite.rows import id_text
from retain.storage.words import pairs, spaced
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, START, edit, entry, keyed, unit
from tests.storage import schema_1
from tests.storage.conftest import Open

_BACK = (
    "INSERT INTO meta SELECT * FROM new.meta",
    "INSERT INTO meta VALUES ('next_model', 'half done')",
    "INSERT INTO namespace(key, path) SELECT key, path FROM new.namespace",
    """INSERT INTO memory(key, id, namespace, conversation_id, sequence, agent_id, type, created_at, updated_at,
                           occurred_at, superseded_by, archived_at, content_hash, metadata, turns, content)
        SELECT key, id_text(id), namespace, conversation_id, sequence, agent_id, type, created_at, updated_at,
               occurred_at, id_text(superseded_by), archived_at, content_hash,
               metadata, turns, content
        FROM new.memory""",
    """INSERT INTO passage(key, memory, ordinal, start_char, end_char, words, unspaced, code)
       SELECT passage.key, memory, row_number() OVER (PARTITION BY memory) - 1, start_char, start_char + length, 1,
              unspaced(substr(content, start_char + 1, length)), x'00'
       FROM new.passage AS passage JOIN new.memory AS memory ON memory.key = passage.memory""",
    "INSERT INTO vector SELECT key, embedding FROM new.passage",
    "INSERT INTO tag(key, name) SELECT key, name FROM new.tag",
    "INSERT INTO memory_tag SELECT * FROM new.memory_tag",
    """INSERT INTO change(seq, kind, memory, memory_id, namespace, at)
        SELECT seq, CASE kind WHEN 0 THEN 'stored' WHEN 1 THEN 'updated' ELSE 'deleted' END, memory,
               id_text(memory_id), namespace, at FROM new.change""",
    "INSERT INTO tombstone SELECT id_text(id), content_hash, namespace, deleted_at FROM new.tombstone",
    "INSERT INTO request SELECT * FROM new.request",
    "INSERT INTO registered_type SELECT * FROM new.registered_type",
    "INSERT INTO api_key SELECT * FROM new.api_key",
)


@pytest.fixture
async def current(open_store: Open) -> SqliteStore:
    """A store with a bit of everything."""
    store = await open_store()
    await store.put(
        [
            entry("the deploy freeze ends on Friday", ["a", "b"], vector=unit(1), metadata={"k": 1}),
            entry("數據庫 会议 quokka", ["b"], vector=unit(2), namespace="/x/y", occurred_at=START - timedelta(days=9)),
            entry("turn one", vector=unit(3), conversation_id="c", agent_id="r", sequence=0),
            entry("archived one", vector=unit(4), archived_at=START),
            entry("to be replaced", ["a"], vector=unit(5)),
            entry("to be deleted", ["gone"], vector=unit(6)),
        ],
        model=MODEL,
    )
    ids = {memory.content: memory.id for memory in await store.get(await store.ids(EVERYTHING))}
    replacing = replace(entry("the replacement", ["a"], vector=unit(7)), supersedes=ids["to be replaced"])
    await store.put([replacing], model=MODEL)
    await store.update(ids["turn one"], edit("turn one, edited"), model=MODEL)
    await store.delete(Filter(ids=(ids["to be deleted"],)), at=START)
    await store.register_type("recipe", "fact", namespace="/x")
    await store.add_key(StoredKey("ci", "d" * 64, "/x", True, "bot", START))
    return store


@pytest.fixture
def older(current: SqliteStore, tmp_path: Path) -> Iterator[Path]:
    """The same data as a file of schema 1."""
    path = tmp_path / "older.db"
    with closing(apsw.Connection(str(path))) as db:
        db.create_scalar_function("retain_spaced", lambda text: spaced(str(text)), 1, deterministic=True)
        db.create_scalar_function("retain_pairs", lambda text: " ".join(pairs(str(text))), 1, deterministic=True)
        db.create_scalar_function("unspaced", lambda text: bool(pairs(str(text))), 1, deterministic=True)
        db.create_scalar_function(
            "id_text", lambda blob: None if blob is None else id_text(blob), 1, deterministic=True
        )
        db.execute("PRAGMA journal_mode = WAL").fetchall()
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(
            "CREATE TABLE migration(version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL)"
        )
        db.execute("INSERT INTO migration VALUES (1, 'tables', 0)")
        db.execute(schema_1.TABLES)
        for sql in schema_1.DERIVED.values():
            db.execute(sql)
        db.execute("ATTACH ? AS new", (str(current.path),))
        for sql in _BACK:
            db.execute(sql)
        db.execute("DELETE FROM main.sqlite_sequence")
        db.execute("INSERT INTO main.sqlite_sequence SELECT * FROM new.sqlite_sequence")
        for index in schema_1.FULL_TEXT:
            db.execute(f"INSERT INTO {index}({index}) VALUES ('rebuild')")
        db.execute("DETACH new")
        db.execute("PRAGMA user_version = 1")
    yield path


async def test_nothing_is_lost_when_a_file_of_schema_1_is_opened(current: SqliteStore, older: Path) -> None:
    upgraded = await open_sqlite(older, clock=lambda: START)
    assert await told(upgraded) == await told(current)
    assert await upgraded.check() == []
    assert await upgraded.repair() == []
    (again,) = await upgraded.put([entry("written after", ["a"], vector=unit(9))], model=MODEL)
    last = await upgraded.last_event()
    assert last == await current.last_event() + 1
    assert [event.memory_id for event in await upgraded.events(last - 1, 9, namespace="/")] == [again.memory.id]
    await upgraded.aclose()
    reopened = await open_sqlite(older, clock=lambda: START)
    assert await reopened._database.read(lambda db: db.rows("SELECT version FROM migration")) == [(1,), (2,), (3,)]
    await reopened.aclose()


async def told(store: SqliteStore) -> list[Any]:
    """Return what a store says of itself in every way it has."""
    found = await candidates(store, EVERYTHING, 50, vector=unit(1), text="deploy 会议 turn quokka", model=MODEL)
    return [
        (await store.list(EVERYTHING, Page(limit=100))).memories,
        (await store.list(Filter(namespace="/x"), Page(limit=1))).next_cursor,
        await store.tags(EVERYTHING),
        await store.types(Filter()),
        await store.known_types("/x"),
        await store.events(0, 100, namespace="/"),
        await store.tombstones(Filter()),
        await store.list_keys(),
        sorted((one.memory_id, one.start, one.end, one.semantic, one.keyword) for one in found),
        [len((await store.list(Filter(tags=(tag,)), Page(limit=9))).memories) for tag in ("a", "b", "gone")],
    ]


async def test_what_was_broken_before_is_found_afterwards(older: Path) -> None:
    with closing(apsw.Connection(str(older))) as db:
        db.execute("DELETE FROM vector WHERE passage = 1")
        db.execute("INSERT INTO memory_tag SELECT 999, key, 0 FROM tag LIMIT 1")
        db.execute("INSERT INTO passage SELECT 999, 999, 0, 0, 1, 1, 0, x'00'")
    upgraded = await open_sqlite(older, clock=lambda: START)
    assert len(await upgraded.ids(EVERYTHING)) == 6
    assert [problem.name for problem in await upgraded.check()] == ["memories-without-passages"]
    assert len(await upgraded.unsearchable(9)) == 1
    await upgraded.aclose()


async def test_an_upgrade_that_fails_half_way_leaves_the_file_as_it_was(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*upgrades._FROM_1[:-2], "INSERT INTO nowhere VALUES (1)")
    with monkeypatch.context() as patched, pytest.raises(Exception, match="nowhere"):
        patched.setattr(upgrades, "_FROM_1", broken)
        await open_sqlite(older, clock=lambda: START)
    with closing(apsw.Connection(str(older))) as db:
        assert db.execute("PRAGMA user_version").fetchall() == [(1,)]
        assert db.execute("SELECT count(*) FROM vector").fetchall() == [(6,)]
        assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'old%'").fetchall() == [(0,)]
    upgraded = await open_sqlite(older, clock=lambda: START)
    assert len(await upgraded.ids(EVERYTHING)) == 6
    await upgraded.aclose()


_TO_2 = (
    "DROP INDEX memory_once",
    "ALTER TABLE memory DROP COLUMN own_key",
    "ALTER TABLE memory DROP COLUMN searchable",
    """CREATE UNIQUE INDEX memory_once
       ON memory(substr(content_hash, 1, 16), namespace, coalesce(conversation_id, ''), coalesce(sequence, -1))
       WHERE superseded_by IS NULL AND archived_at IS NULL""",
    "UPDATE migration SET version = 2",
    "PRAGMA user_version = 2",
)


async def test_a_file_of_schema_2_learns_keys(current: SqliteStore, open_store: Open) -> None:
    before = await told(current)
    await current.aclose()
    with closing(apsw.Connection(str(current.path))) as db:
        for sql in _TO_2:
            db.execute(sql)
    upgraded = await open_sqlite(current.path, clock=lambda: START)
    assert await told(upgraded) == before
    assert await upgraded.check() == []
    one, other = [keyed("same text", key) for key in ("a", "b")]
    assert [stored.created for stored in await upgraded.put([one, other], model=MODEL)] == [True, True]
    assert await upgraded._database.read(lambda db: db.rows("SELECT version FROM migration")) == [(2,), (3,)]
    await upgraded.aclose()
