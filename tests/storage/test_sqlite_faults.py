# ruff: noqa: ASYNC221, ASYNC240 - nothing else runs on the loop of these tests
"""Failures in the middle: nothing half written, and words that say what to do."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from retain.core.ports import RequestKey
from retain.domain.errors import StoreCorruptError, StoreError, StoreUnavailableError
from retain.domain.memory import EVERYTHING, Filter, Page
from retain.storage.sqlite import SqliteStore, open_sqlite
from retain.storage.sqlite.connection import Connection
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, START, edit, entry, unit
from tests.storage.conftest import Open

Work = Callable[[SqliteStore, list[str]], Awaitable[Any]]

WRITES: dict[str, Work] = {
    "put": lambda store, ids: store.put(
        [entry("new 数据库 text", ["x", "t"], supersedes=ids[0]), entry("two", ["b"])],
        model=MODEL, request=RequestKey("local", "k", "d"),
    ),
    "update": lambda store, ids: store.update(ids[0], edit("other text", tags=("z",)), model=MODEL),
    "delete": lambda store, _: store.delete(Filter(tags=("t",)), at=START),
    "retag": lambda store, _: store.retag(["t"], "renamed", Filter(), at=START),
}  # fmt: skip


class BrokenHalfwayError(Exception):
    """Stands for any failure between two statements."""


async def everything(store: SqliteStore) -> list[object]:
    """Return all that a store shows, to compare before and after."""
    found = await candidates(store, EVERYTHING, 99, vector=unit(1), text="one two text 数据库 other", model=MODEL)
    return [
        (await store.list(EVERYTHING, Page())).memories, await store.tags(EVERYTHING), await store.stats(Filter()),
        await store.tombstones(Filter()), await store.events(0, 99, namespace="/"), found,
    ]  # fmt: skip


@pytest.mark.parametrize("work", WRITES.values(), ids=WRITES.keys())
async def test_a_failure_between_any_two_statements_leaves_nothing(
    store: SqliteStore, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = await store.put([entry("one 数据库", ["t"]), entry("three", ["t", "b"])], model=MODEL)
    ids = [each.memory.id for each in written]
    before = await everything(store)
    original = Connection.rows
    left = 0

    def failing(self: Connection, sql: str, bindings: Any = (), /) -> Any:
        nonlocal left
        if getattr(self, "_writer") and not sql.startswith(("ROLLBACK", "PRAGMA wal_checkpoint")):  # noqa: B009
            left -= 1
            if left < 0:
                raise BrokenHalfwayError
        return original(self, sql, bindings)

    monkeypatch.setattr(Connection, "rows", failing)
    failures = 0
    while True:
        left = failures
        try:
            await work(store, ids)
        except BrokenHalfwayError:
            failures += 1
            left = 10**9
            assert await everything(store) == before
        else:
            break
    monkeypatch.undo()
    assert failures > 5
    assert await everything(store) != before
    assert await store.check() == []


async def test_a_full_disk_is_named_and_nothing_is_written(store: SqliteStore, path: Path) -> None:
    await store.put([entry("one")], model=MODEL)
    database = store._database
    pages = await database.write(lambda db: db.count("PRAGMA page_count"))
    await database.outside(lambda db: db.run(f"PRAGMA max_page_count = {pages + 2}"))
    with pytest.raises(StoreUnavailableError, match=f"disk that holds {path} is full"):
        await store.put([entry(f"long {'word ' * 5000} {number}") for number in range(20)], model=MODEL)
    await database.outside(lambda db: db.run("PRAGMA max_page_count = 1000000"))
    assert (await store.list(EVERYTHING, Page())).total == 1
    assert await store.check() == []
    await store.put([entry("two")], model=MODEL)


async def test_a_writer_that_holds_the_lock_too_long_is_reported_as_busy(store: SqliteStore, path: Path) -> None:
    await store._database.outside(lambda db: db.set_timeout(50))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match=r"busy.*another process.*try again") as caught:
        await store.put([entry("one")], model=MODEL)
    assert caught.value.retryable
    assert (await store.list(Filter(), Page())).total == 0
    other.execute("ROLLBACK")
    other.close()
    await store.put([entry("one")], model=MODEL)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda path: path.mkdir(), StoreError, r"is a folder.*retain\.db"),
        (
            lambda path: path.write_text("hello " * 1000),
            StoreCorruptError,
            r"not a Retain database.*RETAIN_DATABASE_URL",
        ),
        (lambda path: foreign(path, "CREATE TABLE notes(x)"), StoreCorruptError, r"another application.*unchanged"),
        (lambda path: foreign(path, "PRAGMA user_version = 7"), StoreCorruptError, r"another application"),
        (lambda path: foreign(path, "PRAGMA application_id = 77"), StoreCorruptError, r"another application"),
    ],
)
async def test_what_is_not_ours_is_refused_and_left_alone(
    path: Path, make: Callable[[Path], Any], error: type[StoreError], says: str
) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(error, match=says) as caught:
        await open_sqlite(path, clock=lambda: START)
    assert str(path) in str(caught.value)
    assert before is None or path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name]


def foreign(path: Path, sql: str) -> None:
    database = apsw.Connection(str(path))
    database.execute(sql).fetchall()
    database.close()


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"folder .*nowhere does not exist; create it"):
        await open_sqlite(tmp_path / "nowhere" / "retain.db", clock=lambda: START)


async def test_a_newer_schema_is_refused_naming_both_versions(store: SqliteStore, path: Path) -> None:
    # Adding a version is what a newer Retain would do.
    await store.aclose()
    foreign(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"version 99.*up to 3; upgrade retain"):
        await open_sqlite(path, clock=lambda: START)


async def test_damage_is_reported_with_the_way_out(store: SqliteStore, path: Path) -> None:
    await store.put([entry(f"text {number} {'word ' * 50}") for number in range(300)], model=MODEL)
    await store.aclose()
    raw = bytearray(path.read_bytes())
    for start in range(4096 * 5, len(raw), 4096):
        raw[start : start + 64] = b"\xaa" * 64
    path.write_bytes(raw)
    with pytest.raises(StoreCorruptError, match=r"damaged.*retain doctor.*backup"):
        broken = await open_sqlite(path, clock=lambda: START)
        try:
            await broken.list(Filter(), Page())
        finally:
            await broken.aclose()


AS_NOBODY = """
import asyncio, os, sys
from datetime import UTC, datetime
from retain.domain.errors import StoreError
from retain.storage.sqlite import open_sqlite
from tests.conformance.making import MODEL, entry

async def main():
    if os.getuid() == 0:
        os.setuid(65534)
    try:
        store = await open_sqlite(sys.argv[1], clock=lambda: datetime.now(UTC))
    except StoreError as error:
        print(type(error).__name__, error)

asyncio.run(main())
"""


async def test_a_new_database_in_a_folder_without_permission_is_named() -> None:
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "retain.db"
        folder.chmod(0o555)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "service"), str(root)])}
        said = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(path)], cwd=root, env=environment, capture_output=True, text=True
        )
        folder.chmod(0o755)
    assert said.stderr == ""
    assert said.stdout.startswith("StoreError")
    assert "can't be written; change its permissions" in said.stdout


async def test_readers_that_keep_the_log_busy_hold_up_no_write_and_deleted_words_go_with_a_later_one(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = await store.put([entry(f"xylophonequartz {number}") for number in range(20)], model=MODEL)
    waits: list[int] = []
    original = Connection.set_timeout

    def noting(self: Connection, milliseconds: int, /) -> None:
        waits.append(milliseconds)
        original(self, milliseconds)

    monkeypatch.setattr(Connection, "set_timeout", noting)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memory").fetchall()
    database = store._database
    monkeypatch.setattr("retain.storage.sqlite.connection._WAIT_EVERY_S", 3_600.0)
    for each in written:
        await store.delete(Filter(ids=(each.memory.id,)), at=START)
    assert len([wait for wait in waits if 0 < wait < 10_000]) <= 1
    reader.execute("ROLLBACK")
    reader.close()
    await store.put([entry("later")], model=MODEL)
    await database.write(lambda db: None)
    assert b"xylophonequartz" not in b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


async def test_calls_while_closing_finish_or_fail_cleanly(open_store: Open) -> None:
    # C183
    import asyncio
    import threading

    store = await open_store()
    await store.put([entry(f"seed {number}", vector=unit(number)) for number in range(50)], model=MODEL)
    outcomes: list[str] = []
    barrier = threading.Barrier(17)

    async def busy(name: int) -> None:
        for number in range(10_000):
            try:
                (written,) = await store.put([entry(f"{name} {number}", vector=unit(number))], model=MODEL)
                await candidates(store, Filter(), 10, vector=unit(name), text="seed", model=MODEL)
                await store.delete(Filter(ids=(written.memory.id,)), at=START)
                if number == 1:
                    barrier.wait(60)
            except StoreUnavailableError:
                outcomes.append("closed")
                return

    threads = [threading.Thread(target=lambda name=name: asyncio.run(busy(name))) for name in range(16)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(barrier.wait, 60)
    await store.aclose()
    for thread in threads:
        await asyncio.to_thread(thread.join, 60)
    assert outcomes == ["closed"] * 16
    assert await (await open_store()).check() == []
