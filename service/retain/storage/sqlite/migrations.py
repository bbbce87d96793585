"""Opening a file: is it ours, is it new, is it older or newer than this version, is something missing?"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from retain.domain.errors import StoreCorruptError, StoreError, StoreUnavailableError
from retain.storage.sqlite import upgrades
from retain.storage.sqlite.connection import Access, Connection, in_transaction
from retain.storage.sqlite.failures import BUSY_TIMEOUT_MS, failures_explained
from retain.storage.sqlite.schema import DERIVED, FULL_TEXT, TABLES
from retain.version import __version__

APPLICATION_ID = 0x5245544E
"""ASCII "RETN", in the header of every Retain database."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from the version before; applied in one transaction with the record of itself."""

    version: int
    name: str
    apply: str | Callable[[Connection], None]


SCHEMA_VERSION = 3
NEW = (Migration(SCHEMA_VERSION, "tables", TABLES),)
"""What makes a new file."""
UPGRADES: tuple[Migration, ...] = (
    Migration(2, "16-byte ids, vectors within passages", upgrades.from_1),
    Migration(3, "keys of their own, parts that are searched", upgrades.from_2),
)
"""What brings an older file up to date."""


def opened(path: Path, /, *, now_ms: int) -> Connection:
    """Return a writing connection to `path`, created or brought up to date; a reading one where nothing can be written.

    Any number of processes may do this at the same instant.

    Raises:
        StoreError: the path, or what is there, can't be used; the message says what to do.
    """
    access = _access(path)
    with failures_explained(path):
        connection = Connection(path, writer=True, create=access is Access.WRITE, access=access)
        try:
            _require_ours(connection, path)
            connection.prepare()
            if access is not Access.WRITE:
                _require_current(connection, path)
                return connection
            _use_write_ahead_log(connection, path)
            if _is_pending(connection):
                in_transaction(connection, lambda _: _migrate(connection, path, now_ms))
        except BaseException:
            connection.close()
            raise
    return connection


def _access(path: Path) -> Access:
    """Return what can be done with `path`; a file that is not there must be possible to make."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder; the database must be a file, for example {path / 'retain.db'}")
    if not path.parent.is_dir():
        raise StoreError(f"the folder {path.parent} does not exist; create it, or choose another place for {path.name}")
    folder_writable = os.access(path.parent, os.W_OK)
    if not path.exists():
        if not folder_writable:
            raise StoreError(
                f"{path.parent} can't be written; change its permissions, or choose another place for {path.name}"
            )
        return Access.WRITE
    log, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    beside_writable = folder_writable or (os.access(log, os.W_OK) and os.access(shared, os.W_OK))
    if beside_writable:
        return Access.WRITE if os.access(path, os.W_OK) else Access.READ
    return Access.READ if log.exists() and log.stat().st_size else Access.UNCHANGING


def _require_current(connection: Connection, path: Path) -> None:
    if connection.count("PRAGMA application_id") != APPLICATION_ID or _is_pending(connection):
        raise StoreError(
            f"read-only: {path} is not of this version and can't be brought up to date; make it writable and open it "
            "once"
        )


def _require_ours(connection: Connection, path: Path) -> None:
    """Refuse other people's databases before anything is changed in them."""
    application = connection.count("PRAGMA application_id")
    if application == APPLICATION_ID:
        _require_known_version(connection, path)
    elif (
        application or connection.count("PRAGMA user_version") or connection.rows("SELECT 1 FROM sqlite_schema LIMIT 1")
    ):
        raise StoreCorruptError(
            f"{path} is a SQLite database of another application, not of Retain; it was left unchanged. "
            "Choose another path with RETAIN_DATABASE_URL"
        )


def _require_known_version(connection: Connection, path: Path) -> None:
    version = connection.count("PRAGMA user_version")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, but Retain {__version__} knows versions up to {SCHEMA_VERSION}; "
            "upgrade retain"
        )


def _use_write_ahead_log(connection: Connection, path: Path) -> None:
    # SQLite does not wait for other openers here, whatever the busy timeout says.
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            mode = connection.value("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise StoreUnavailableError(
                f"the file system of {path} has no shared memory for SQLite's log (network drives don't); "
                "choose a place on a local disk"
            )
        return


def _is_pending(connection: Connection) -> bool:
    return connection.count("PRAGMA user_version") < SCHEMA_VERSION or bool(missing(connection))


def _migrate(connection: Connection, path: Path, now_ms: int) -> None:
    _require_known_version(connection, path)  # another process may have been faster
    connection.run(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.run(
        """CREATE TABLE IF NOT EXISTS migration(
               version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"""
    )
    for migration in UPGRADES if connection.count("PRAGMA user_version") else NEW:
        if migration.version > connection.count("PRAGMA user_version"):
            if isinstance(migration.apply, str):
                connection.run(migration.apply)
            else:
                migration.apply(connection)
            connection.run("INSERT INTO migration VALUES (?, ?, ?)", (migration.version, migration.name, now_ms))
            connection.run(f"PRAGMA user_version = {migration.version}")
    restore_missing(connection)


def missing(connection: Connection, /) -> list[str]:
    """Return the names of derived tables and views that the file lacks."""
    present = {row[0] for row in connection.rows("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")}
    return [name for name in DERIVED if name not in present]


def restore_missing(connection: Connection, /) -> None:
    """Make derived tables that the file lacks, and fill them from the others."""
    absent = missing(connection)
    for name in absent:
        connection.run(DERIVED[name])
    for name in FULL_TEXT:
        if name in absent:
            connection.run(f"INSERT INTO {name}({name}, rank) VALUES ('secure-delete', 1)")
            connection.run(f"INSERT INTO {name}({name}) VALUES ('rebuild')")
