# ruff: noqa: ASYNC240 - nothing else runs on the loop of these tests
"""The file itself: what is in it, what is no longer in it, and its upkeep."""

from datetime import timedelta
from pathlib import Path

import pytest

from retain.core.ports import StoredKey
from retain.domain.errors import ConflictError, StoreError
from retain.domain.memory import EVERYTHING, Filter, Model, Page
from retain.storage.sqlite import SqliteStore, open_sqlite
from retain.storage.sqlite.connection import Connection
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, START, edit, entry, unit
from tests.storage.conftest import Open


async def run(store: SqliteStore, *statements: str) -> None:
    """Change the database behind the store's back."""

    def statement_by_statement(connection: Connection) -> None:
        for statement in statements:
            connection.run(statement)

    await store._database.write(statement_by_statement)


def files(path: Path) -> bytes:
    """Return the bytes of all files of a database."""
    return b"".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")))


async def test_every_connection_has_the_pragmas_it_asked_for(store: SqliteStore) -> None:
    def pragmas(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "temp_store", "busy_timeout")
        return [connection.value(f"PRAGMA {name}") for name in names]

    expected = ["wal", 1, 1, 1, 2, 10_000]
    assert await store._database.read(pragmas) == expected
    assert await store._database.write(pragmas) == expected
    assert await store._database.read(lambda db: db.value("PRAGMA query_only")) == 1


async def test_migrations_are_recorded_and_a_second_opening_changes_nothing(path: Path) -> None:
    await (await open_sqlite(path, clock=lambda: START)).aclose()
    before = path.read_bytes()
    store = await open_sqlite(path, clock=lambda: START + timedelta(days=1))
    recorded = await store._database.read(lambda db: db.rows("SELECT version, name FROM migration"))
    await store.aclose()
    assert recorded == [(3, "tables")]
    assert path.read_bytes() == before


async def test_a_database_without_its_keyword_tables_gets_them_back_filled(store: SqliteStore, path: Path) -> None:
    # C011
    await store.put(
        [entry(f"row {number} {'quokkaflux 数据' if number == 7 else ''}") for number in range(20)], model=MODEL
    )
    await run(store, "DROP TABLE keyword_place", "DROP TABLE keyword", "DROP TABLE pair", "DROP VIEW passage_pairs")
    assert [(problem.name, problem.repairable) for problem in await store.check()] == [("tables-missing", True)]
    await store.aclose()
    again = await open_sqlite(path, clock=lambda: START)
    assert len(await candidates(again, Filter(), 5, text="quokkaflux")) == 1
    assert len(await candidates(again, Filter(), 5, text="数据")) == 1
    assert len(await candidates(again, Filter(), 50, text="row")) == 20
    assert await again.check() == []
    await again.aclose()


async def test_deleted_words_are_in_no_file(store: SqliteStore, path: Path) -> None:
    secret, kept = "the password is xylophonequartz", "a memory that stays"
    (written, _) = await store.put(
        [entry(f"{secret} 秘密暗号", ["hushtag"], metadata={"k": "hiddenmeta"}), entry(kept)], model=MODEL
    )
    await store.put([entry(f"filler {number} with words") for number in range(200)], model=MODEL)
    assert b"xylophonequartz" in files(path)
    await store.delete(Filter(ids=(written.memory.id,)), at=START)
    left = files(path)
    for word in (b"xylophonequartz", b"ylophon", b"hushtag", b"hiddenmeta", "秘密暗号".encode(), "密暗".encode()):
        assert word not in left, word
    assert kept.encode() in left
    await store.aclose()
    assert b"xylophonequartz" not in files(path)


async def test_replaced_words_are_in_no_file(store: SqliteStore, path: Path) -> None:
    await store.put([entry(f"filler {number}") for number in range(200)], model=MODEL)
    (written,) = await store.put([entry("the password is xylophonequartz")], model=MODEL)
    await store.update(written.memory.id, edit("the password is elsewhere"), model=MODEL)
    assert b"ylophonequart" not in files(path)


async def test_a_memory_of_sixty_words_takes_little_space(store: SqliteStore, path: Path) -> None:
    words = [f"word{number * 7919 % 4001}" for number in range(60 * 1000)]
    texts = [" ".join(words[start : start + 60])[:380] for start in range(0, len(words), 60)]
    model = Model("m", 384)
    await store.put(
        [entry(text, ["a", "b"], vector=unit(n, dimensions=384)) for n, text in enumerate(texts)], model=model
    )
    await store.aclose()
    assert path.stat().st_size <= 2_200 * 1000


async def test_compacting_gives_the_space_of_deleted_memories_back(store: SqliteStore, path: Path) -> None:
    # C006
    text = "lorem ipsum dolor sit amet " * 80
    for start in range(0, 5_000, 1_000):
        await store.put([entry(f"{start + number} {text}"[:2000]) for number in range(1_000)], model=MODEL)
    peak = len(files(path))
    await store.delete(EVERYTHING, at=START)
    before, after = await store.compact()
    assert after < before <= peak
    assert after == len(files(path)) - path.with_name(f"{path.name}-shm").stat().st_size
    assert after < peak * 0.1
    assert await store.check() == []


async def test_compacting_a_file_without_gaps_does_not_make_it_larger(store: SqliteStore) -> None:
    await store.put([entry(f"memory {number} about deployments", ["a"]) for number in range(3)], model=MODEL)
    first, _ = await store.compact()
    before, after = await store.compact()
    assert after <= before <= first


async def test_forty_thousand_memories_are_deleted_by_one_tag(store: SqliteStore) -> None:
    # C008
    for start in range(0, 40_000, 1_000):
        await store.put([entry(f"n{start + number}", ["bulk"], vector=unit(1)) for number in range(1_000)], model=MODEL)
    await store.put([entry("stays")], model=MODEL)
    assert len(await store.get(await store.ids(Filter(tags=("bulk",))))) == 40_000
    assert len(await store.delete(Filter(tags=("bulk",)), at=START, expected=40_000)) == 40_000
    assert [memory.content for memory in (await store.list(EVERYTHING, Page())).memories] == ["stays"]
    assert len(await store.tombstones(Filter())) == 40_000
    assert len(await candidates(store, Filter(), 5, vector=unit(1), text="n7", model=MODEL)) == 1
    assert await store.check() == []


async def test_a_backup_is_a_complete_database_and_writing_goes_on(store: SqliteStore, tmp_path: Path) -> None:
    await store.put([entry(f"text {number}", ["t"]) for number in range(50)], model=MODEL)
    target = tmp_path / "copy.db"
    await store.backup(str(target))
    await store.put([entry("later")], model=MODEL)
    copy = await open_sqlite(target, clock=lambda: START)
    assert await copy.check() == []
    assert (await copy.list(Filter(), Page())).total == 50
    assert len(await candidates(copy, Filter(), 5, vector=unit(1), text="text", model=MODEL)) >= 5
    await copy.aclose()
    with pytest.raises(ConflictError, match="exists already"):
        await store.backup(str(target))
    with pytest.raises(StoreError, match="does not exist"):
        await store.backup(str(tmp_path / "nowhere" / "copy.db"))
    with pytest.raises(ConflictError):
        await store.backup(str(tmp_path))


DAMAGE = {
    "keyword-index-damaged": "UPDATE memory SET content = 'other words' WHERE key = 1",
    "tag-counts-differ": "UPDATE tag SET uses = uses + 1",
    "namespace-counts-differ": "UPDATE namespace SET active = 17",
    "pair-index-damaged": "DELETE FROM pair_data WHERE id > 100",
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_what_can_be_derived_is_found_missing_and_repaired(store: SqliteStore, name: str) -> None:
    await store.put([entry("one 数据库", ["a"]), entry("two 会议", ["a", "b"])], model=MODEL)
    await run(store, DAMAGE[name])
    problems = await store.check()
    assert name in {problem.name for problem in problems}
    assert all(problem.repairable and problem.count >= 1 and problem.detail for problem in problems)
    assert await store.repair() == []
    assert await store.check() == []
    assert len(await candidates(store, Filter(), 5, text="two")) == 1
    assert [(count.tag, count.count) for count in await store.tags(Filter())] == [("a", 2), ("b", 1)]


async def test_orphans_are_found_and_removed(store: SqliteStore) -> None:
    await store.put([entry("one", ["a"]), entry("two", ["b"])], model=MODEL)
    await store._database.outside(lambda db: db.run("PRAGMA foreign_keys = OFF"))
    await run(store, "DELETE FROM memory WHERE key = 1")
    await store._database.outside(lambda db: db.run("PRAGMA foreign_keys = ON"))
    assert "orphans" in {problem.name for problem in await store.check()}
    assert await store.repair() == []
    assert [count.tag for count in await store.tags(Filter())] == ["b"]


async def test_a_vector_of_another_size_is_reported_and_needs_a_re_embedding(store: SqliteStore) -> None:
    await store.put([entry("one"), entry("two")], model=MODEL)
    await run(store, "UPDATE passage SET embedding = x'01' WHERE key = 1")
    (problem,) = await store.repair()
    assert (problem.name, problem.repairable, problem.count) == ("vectors-of-another-size", False, 1)
    assert "retain reembed" in problem.detail


async def test_keys_are_kept_found_and_revoked(store: SqliteStore) -> None:
    key = StoredKey("ci", "d" * 64, "/team", True, "bot", START)
    await store.add_key(key)
    with pytest.raises(ConflictError, match="ci"):
        await store.add_key(StoredKey("ci", "e" * 64, "/", False, None, START))
    assert await store.find_key(key.digest) == key
    assert await store.find_key("e" * 64) is None
    other = StoredKey("laptop", "f" * 64, "/", False, None, START + timedelta(seconds=1))
    await store.add_key(other)
    assert await store.list_keys() == [key, other]
    assert await store.remove_key("ci")
    assert not await store.remove_key("ci")
    assert await store.find_key(key.digest) is None


async def test_an_idempotency_key_is_forgotten_after_a_day(path: Path) -> None:
    from retain.core.ports import RequestKey

    now = [START]
    store = await open_sqlite(path, clock=lambda: now[0])
    key = RequestKey("local", "k", "digest")
    await store.put([entry("one")], model=MODEL, request=key)
    now[0] += timedelta(hours=23, minutes=59)
    (written,) = await store.put([entry("two")], model=MODEL, request=key)
    assert written.memory.content == "one"
    now[0] += timedelta(minutes=2)
    (written,) = await store.put([entry("two")], model=MODEL, request=key)
    assert written.memory.content == "two"
    await store.aclose()


async def test_old_changes_are_pruned_and_events_go_on(store: SqliteStore, open_store: Open) -> None:
    (written,) = await store.put([entry("one")], model=MODEL)
    await run(store, "UPDATE sqlite_sequence SET seq = 200999 WHERE name = 'change'")
    await store.update(written.memory.id, edit(tags=("x",)))
    events = await (await open_store()).events(0, 10, namespace="/")
    assert [(event.seq, event.kind) for event in events] == [(201_000, "updated")]
    assert await store.last_event() == 201_000
