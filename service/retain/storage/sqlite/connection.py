"""Connections to the file, and the threads that use them: one writer, a few readers."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import quote

import apsw
import numpy as np
import sqlite_vec
from numpy.typing import NDArray

from retain.domain.errors import InvalidInputError, StoreError
from retain.domain.metadata_filter import metadata_matches
from retain.storage.sqlite.failures import BUSY_TIMEOUT_MS, closed, failures_explained
from retain.storage.words import STOP_WORDS, pairs, spaced

T = TypeVar("T")
Value: TypeAlias = int | float | bytes | str | None
"""What a column holds."""
Row: TypeAlias = tuple[Any, ...]
Bindings: TypeAlias = Sequence[Any]
"""Values for the `?` of a statement."""

READERS = 3
_SCRUB_TIMEOUT_MS = 250
_WAIT_EVERY_S = 1.0
"""How often the writer may stand still for readers that keep the log busy."""
_PRAGMAS: tuple[tuple[str, str, object], ...] = (
    ("synchronous", "NORMAL", 1),  # in WAL mode a power cut may lose the last commits, never consistency
    ("foreign_keys", "ON", 1),
    ("secure_delete", "ON", 1),  # what is deleted is overwritten
    ("temp_store", "MEMORY", 2),
    ("journal_size_limit", "16777216", 16_777_216),
    ("mmap_size", "2147418112", 2_147_418_112),  # SQLite's most; pages come from the file cache that all share
)
_CACHE_KIB = {True: 16_384, False: 8_192}


class Access(Enum):
    """What the disk allows."""

    WRITE = ""
    READ = "?mode=ro"
    UNCHANGING = "?mode=ro&immutable=1"
    """Nor can SQLite put its shared memory beside the file, which therefore nobody can write."""


class Connection:
    """A connection with Retain's pragmas, SQL functions and tokenizer."""

    def __init__(self, path: Path, /, *, writer: bool, create: bool = False, access: Access = Access.WRITE) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        name = str(path)
        if access is not Access.WRITE:
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            name = f"file:{quote(str(path))}{access.value}"
        # Typed as Any: on Python 3.11 apsw's stubs lack the type of buffers, and with it most signatures.
        self._raw: Any = apsw.Connection(name, flags=flags, statementcachesize=200)
        self.access = access
        self._writer = writer
        self.set_timeout(BUSY_TIMEOUT_MS)

    def prepare(self) -> None:
        """Set pragmas and load what the queries use; only after the file is known to be ours."""
        for name, value, expected in _PRAGMAS:
            self.run(f"PRAGMA {name} = {value}")
            actual = self.value(f"PRAGMA {name}")
            if actual != expected and name != "mmap_size":  # a platform may cap or lack mmap
                raise StoreError(f"SQLite refused PRAGMA {name} = {value} and kept {actual}")
        self.run(f"PRAGMA cache_size = -{_CACHE_KIB[self._writer]}")
        self._raw.enable_load_extension(True)
        self._raw.load_extension(sqlite_vec.loadable_path())
        self._raw.enable_load_extension(False)
        self._raw.create_scalar_function("retain_spaced", _spaced, 1, deterministic=True)
        self._raw.create_scalar_function("retain_pairs", _joined_pairs, 1, deterministic=True)
        self._raw.create_scalar_function("retain_matches", _matches, 2, deterministic=True)
        self._tokenizer = self._raw.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
        self.stop_stems = frozenset(self.stems(" ".join(STOP_WORDS)))
        if not self._writer:
            self.run("PRAGMA query_only = ON")

    def set_timeout(self, milliseconds: int, /) -> None:
        """Set how long to wait for other connections."""
        self._raw.set_busy_timeout(milliseconds)

    def rows(self, sql: str, bindings: Bindings = (), /) -> list[Row]:
        """Return all rows."""
        try:
            return cast("list[Row]", self._raw.execute(sql, bindings).fetchall())
        except (OverflowError, UnicodeEncodeError) as error:
            raise _unbindable(error) from None

    def each(self, sql: str, bindings: Bindings = (), /) -> Iterator[Row]:
        """Yield row by row, each as soon as it is read."""
        yield from self._raw.execute(sql, bindings)

    def run(self, sql: str, bindings: Bindings = (), /) -> None:
        """Execute a statement whose rows, if it has any, don't matter."""
        self.rows(sql, bindings)

    def run_each(self, sql: str, bindings: Iterable[Bindings], /) -> None:
        """Execute a statement once with each of `bindings`."""
        try:
            self._raw.executemany(sql, bindings)
        except (OverflowError, UnicodeEncodeError) as error:
            raise _unbindable(error) from None

    def value(self, sql: str, bindings: Bindings = (), /) -> Any:
        """Return the first column of the first row; None when there is no row."""
        rows = self.rows(sql, bindings)
        return rows[0][0] if rows else None

    def count(self, sql: str, bindings: Bindings = (), /) -> int:
        """Return the one whole number that `sql` yields; 0 for NULL or no row."""
        number = self.value(sql, bindings)
        return number if isinstance(number, int) else 0

    def stems(self, text: str, /) -> list[str]:
        """Return the tokens of `text` exactly as the keyword index makes them."""
        tokens = self._tokenizer(
            text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
        )
        return cast("list[str]", tokens)

    def highest_key(self, table: str, /) -> int:
        """Return the highest key that `table`, which never uses one again, has given so far; 0 for none."""
        return self.count("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))

    @property
    def changed(self) -> int:
        """How many rows the last statement wrote."""
        return self._raw.changes()

    @property
    def last_key(self) -> int:
        """The key of the row inserted last."""
        return self._raw.last_insert_rowid()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; SQLite itself rolls back after some failures."""
        return self._raw.in_transaction

    def copy_to(self, target: "Connection", /) -> None:
        """Copy the whole database as it is now; in one step, so that writers neither disturb it nor wait for it."""
        with target._raw.backup("main", self._raw, "main") as backup:
            backup.step(-1)

    def close(self) -> None:
        """Close. Idempotent."""
        self._raw.close()


def _unbindable(error: OverflowError | UnicodeEncodeError) -> InvalidInputError:
    if isinstance(error, OverflowError):
        return InvalidInputError("a whole number is larger than a store can keep or look for (64 bits)")
    return InvalidInputError("a text holds half of a character (a lone surrogate)")


def integers(values: Sequence[int] | NDArray[np.integer], /) -> Any:
    """Return whole numbers as a table for `IN carray(?)`; there must be at least one."""
    return cast("Any", apsw).carray(np.ascontiguousarray(values, dtype=np.int64))


def blobs(values: Iterable[bytes], /) -> Any:
    """Return byte strings as a table for `IN carray(?)`; there must be at least one."""
    return cast("Any", apsw).carray(tuple(values))


def _spaced(text: Value) -> str:
    return spaced(str(text))


def _joined_pairs(text: Value) -> str:
    return " ".join(pairs(str(text)))


def _matches(metadata: Value, wanted: Value) -> bool:
    return metadata_matches(json.loads(str(metadata)), _parsed(str(wanted)))


@lru_cache(maxsize=32)
def _parsed(wanted: str) -> Any:
    """Return the conditions of a filter, which every row is asked."""
    return json.loads(wanted)


class Database:
    """Runs work on the file in threads: writes one after another, reads beside them, each in one transaction."""

    def __init__(self, path: Path, writer: Connection) -> None:
        self.path = path
        self._writer = writer
        self._connections = [writer]
        self._write_pool = ThreadPoolExecutor(1, thread_name_prefix="retain-write")
        self._read_pool = ThreadPoolExecutor(READERS, thread_name_prefix="retain-read")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._closed = False
        self._unscrubbed = False
        self._last_wait = -_WAIT_EVERY_S
        self.on_write: Callable[[], None] = _nothing
        """Called on the event loop after each write."""

    @property
    def access(self) -> Access:
        """What the disk allows."""
        return self._writer.access

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run `work` in a read transaction of its own: it sees one state of the database."""
        return await self._submit(self._read_pool, lambda: self._read(work))

    async def write(self, work: Callable[[Connection], T], /, *, scrub: bool = False) -> T:
        """Run `work` in a write transaction, all or nothing.

        With `scrub`, the log file is emptied afterwards, so that deleted content is on no page of any file.
        """
        result = await self._submit(self._write_pool, lambda: self._write(work, scrub))
        self.on_write()
        return result

    async def outside(self, work: Callable[[Connection], T], /) -> T:
        """Run `work` on the writing connection outside a transaction, for what SQLite refuses within one."""
        return await self._submit(self._write_pool, lambda: self._explained(work, self._writer))

    async def apart(self, work: Callable[[], T], /) -> T:
        """Run `work`, which opens what it needs itself, beside everything else."""
        return await self._submit(self._read_pool, work)

    async def _submit(self, pool: Executor, work: Callable[[], T]) -> T:
        if self._closed:
            raise closed(self.path)
        try:
            future = asyncio.get_running_loop().run_in_executor(pool, work)
        except RuntimeError as error:  # shut down between the check and here
            raise closed(self.path) from error
        return await future

    def _read(self, work: Callable[[Connection], T]) -> T:
        with failures_explained(self.path):
            connection = self._reader()
            connection.run("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.run("ROLLBACK")

    def _reader(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = Connection(self.path, writer=False, access=self.access)
            connection.prepare()
            self._local.connection = connection
            with self._lock:
                self._connections.append(connection)
        return connection

    def _write(self, work: Callable[[Connection], T], scrub: bool) -> T:
        with failures_explained(self.path):
            result = in_transaction(self._writer, work)
            self._unscrubbed = self._unscrubbed or scrub
            if self._unscrubbed:
                self._scrub(0)
            if self._unscrubbed and time.monotonic() >= self._last_wait + _WAIT_EVERY_S:
                self._last_wait = time.monotonic()
                with suppress(RuntimeError):  # closing, which empties the log as well
                    self._write_pool.submit(self._scrub, _SCRUB_TIMEOUT_MS)  # behind the writes that wait already
            return result

    def _scrub(self, timeout_ms: int) -> None:
        if self._unscrubbed:
            self._unscrubbed = not emptied_log(self._writer, timeout_ms)

    def _explained(self, work: Callable[[Connection], T], connection: Connection) -> T:
        with failures_explained(self.path):
            return work(connection)

    async def aclose(self) -> None:
        """Wait for running work, then close all connections. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._read_pool.shutdown(wait=True)
        self._write_pool.shutdown(wait=True)
        if self._unscrubbed:
            emptied_log(self._writer)
        for connection in reversed(self._connections):
            connection.close()


def _nothing() -> None:
    return


def in_transaction(connection: Connection, work: Callable[[Connection], T], /) -> T:
    """Run `work` between BEGIN IMMEDIATE and COMMIT; any failure rolls everything back."""
    connection.run("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.run("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.run("ROLLBACK")
        raise
    return result


def emptied_log(connection: Connection, timeout_ms: int = _SCRUB_TIMEOUT_MS, /) -> bool:
    """Move the log into the database file and cut it to nothing; False when that has to wait for a better moment."""
    connection.set_timeout(timeout_ms)
    try:
        return connection.value("PRAGMA wal_checkpoint(TRUNCATE)") == 0
    except apsw.Error:  # readers keep it busy, or the disk is full: what was committed stays committed
        return False
    finally:
        connection.set_timeout(BUSY_TIMEOUT_MS)
