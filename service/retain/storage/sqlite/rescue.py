"""Saving what is readable in a damaged file: every memory that still reads, row by row, goes into a new one.

SQLite stops at the first damaged page, so ranges of keys are halved around those pages until only the rows that lie
on them are left out. A row counts as read when its content still has the hash that was stored with it.
"""

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from retain.core.ports import Entry, Rescue
from retain.domain.errors import InvalidInputError, RetainError, StoreCorruptError, StoreError, StoreUnavailableError
from retain.domain.memory import Memory, Model, Passage
from retain.domain.text import content_hash
from retain.storage.accepting import require_storable
from retain.storage.sqlite import maintenance, memories, meta, migrations
from retain.storage.sqlite.connection import Connection, Row, in_transaction
from retain.storage.sqlite.failures import failures_explained, not_a_database
from retain.storage.sqlite.rows import from_ms, id_text, spans_of, turns_of

_LOG = logging.getLogger(__name__)
_STEP = 1_024
_MOST_STEPS = 100_000
_BATCH = 200
LOST_NAMESPACE = "/rescued"
"""Where memories go whose namespace can't be read: nobody's own."""


def rescue(path: Path, stamp: str, now_ms: int, /) -> Rescue:
    """Replace the damaged database at `path` by a new one with all that is readable; the damaged one is kept.

    Nothing is replaced before the new file has passed its check.

    Raises:
        StoreUnavailableError: another process has the database open.
        StoreCorruptError: not even the table of contents can be read.
    """
    kept = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    new = path.with_name(f"{path.stem}.rescued-{stamp}{path.suffix}")
    if kept.exists() or new.exists():
        raise StoreError(f"{kept} or {new} exists already; move it away and try again")
    source = _locked(path)
    try:
        target = migrations.opened(new, now_ms=now_ms)
        try:
            found = _Salvage(source, target, now_ms)
            found.copy()
            _require_sound(target)
        finally:
            target.close()
        _leave_no_log(source)
        _swap(path, kept, new)
    except BaseException:
        for each in (new, new.with_name(f"{new.name}-wal"), new.with_name(f"{new.name}-shm")):
            each.unlink(missing_ok=True)
        raise
    finally:
        source.close()
    _LOG.info("rescued %s memories of %s; the damaged file is %s", found.rescued, path, kept)
    return Rescue(found.rescued, found.lost, found.without_vectors, tuple(found.incomplete), str(kept))


def _locked(path: Path) -> Connection:
    with failures_explained(path):
        source = Connection(path, writer=True)
        try:
            source.set_timeout(0)
            source.run("PRAGMA locking_mode = EXCLUSIVE")
            source.run("PRAGMA mmap_size = 0")
            source.run("BEGIN EXCLUSIVE")
            source.run("ROLLBACK")
            ours = source.count("PRAGMA application_id") == migrations.APPLICATION_ID
            tables = source.rows("SELECT name FROM sqlite_schema WHERE name = 'memory'") if ours else []
            if not ours:
                raise not_a_database(path)
            if not tables:
                raise _unreadable(path)
            if source.count("PRAGMA user_version") != migrations.SCHEMA_VERSION:
                raise StoreError(
                    f"{path} is damaged and was written by another version of Retain, which alone can rescue it; it "
                    "was left unchanged"
                )
        except apsw.CorruptError:
            source.close()
            raise _unreadable(path) from None
        except StoreError:
            source.close()
            raise
        except (apsw.BusyError, apsw.LockedError):
            source.close()
            raise StoreUnavailableError(
                f"the database {path} is in use; stop the other processes that have it open (retain serve, retain mcp) "
                "and try again"
            ) from None
        except apsw.Error:
            source.close()
            raise
    return source


def _unreadable(path: Path) -> StoreCorruptError:
    return StoreCorruptError(
        f"the database {path} is damaged where it lists its own tables, so nothing in it can be read; it was left "
        "unchanged. Restore a backup"
    )


def _require_sound(target: Connection) -> None:
    wrong = [problem for problem in in_transaction(target, maintenance.check) if not _is_wanting_vectors(problem.name)]
    if wrong:
        raise StoreError(f"the new file did not pass its check ({wrong[0].detail}); nothing was changed")


def _is_wanting_vectors(name: str) -> bool:
    return name == "memories-without-passages"


def _leave_no_log(source: Connection) -> None:
    """Move the log into the damaged file, so that none of that name is left for the new one; the lock stays."""
    try:
        source.run("PRAGMA journal_mode = DELETE")
    except apsw.Error:  # damage where the log belongs: closing leaves it, and it is moved with the file
        source.close()


def _swap(path: Path, kept: Path, new: Path) -> None:
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(kept.with_name(kept.name + suffix))
    with suppress(OSError):
        new.chmod(path.stat().st_mode & 0o777)
    try:
        os.link(path, kept)  # so that there is a file at `path` at every moment
    except OSError:  # a file system without hard links
        path.rename(kept)
    new.replace(path)


@dataclass
class _Salvage:
    """Reads one damaged file and fills a new one."""

    source: Connection
    target: Connection
    now_ms: int
    rescued: int = 0
    lost: int = 0
    without_vectors: int = 0
    incomplete: dict[str, None] = field(default_factory=dict[str, None])
    """What else could not be read in full, as words for people."""

    def copy(self) -> None:
        """Copy all that is readable, in transactions of the target."""
        namespaces = self._named("namespace", "path")
        in_transaction(self.target, lambda _: self._copy_small(namespaces))
        model = self._model()
        batch: list[Entry] = []
        for entry in self._entries(namespaces, model):
            batch.append(entry)
            if len(batch) == _BATCH:
                self._put(batch, model)
                batch = []
        self._put(batch, model)

    def _put(self, batch: list[Entry], model: Model) -> None:
        def write(target: Connection) -> None:
            for entry in batch:
                memories.put(target, [entry], model, None, None, from_ms(self.now_ms))

        in_transaction(self.target, write)
        self.rescued += len(batch)

    def _model(self) -> Model:
        try:
            found = meta.model(self.source)
        except apsw.Error:
            found = None
        if found is None:
            self.incomplete["the name of the embedding model"] = None
        return found or Model("unknown", 1)

    # -- memories -----------------------------------------------------------------------------------------------

    def _entries(self, namespaces: dict[int, str], model: Model) -> Iterable[Entry]:
        present = self._present_keys()
        highest = max(present, default=0)
        with suppress(apsw.Error):
            highest = max(highest, self.source.count("SELECT seq FROM sqlite_sequence WHERE name = 'memory'"))
        tags, unread_tags = self._tags(highest)
        passages = self._passages()
        seen: set[str] = set()
        read: set[int] = set()
        for row in self._ranged(f"{_MEMORIES} BETWEEN ? AND ?", 0, highest):
            key = row[0]
            memory = self._memory(row, namespaces, tags.get(key, ()))
            if memory is None or memory.id in seen:
                present.add(key)
                continue
            seen.add(memory.id)
            read.add(key)
            if key in unread_tags:
                self.incomplete["some tags"] = None
            yield self._entry(memory, passages.get(key, []), model)
        self.lost += len(present - read)

    def _present_keys(self) -> set[int]:
        """Return the keys of memories of which two indexes know: one alone may have been damaged to say so."""
        found: Counter[int] = Counter()
        for sql in (
            "SELECT key FROM memory INDEXED BY sqlite_autoindex_memory_1 ORDER BY id",
            "SELECT key FROM memory INDEXED BY memory_newest ORDER BY created_at",
            "SELECT key FROM memory INDEXED BY memory_type ORDER BY type",
        ):
            found.update({row[0] for row in self._from_both_ends(sql) if isinstance(row[0], int)})
        return {key for key, indexes in found.items() if indexes > 1}

    def _memory(self, row: Row, namespaces: dict[int, str], tags: tuple[str, ...]) -> Memory | None:
        (_, id_, content, hash_, created_at, updated_at, occurred_at, type_, metadata, namespace, agent_id,
         conversation_id, sequence, turns, superseded_by, archived_at, key, searchable) = row  # fmt: skip
        if namespace not in namespaces:
            self.incomplete[f"the namespace of some memories, which are now in {LOST_NAMESPACE}"] = None
        try:
            if len(id_) != 16 or content_hash(content) != hash_.hex():
                return None
            memory = Memory(
                id=id_text(id_), content=content, content_hash=hash_.hex(), created_at=from_ms(created_at),
                updated_at=from_ms(updated_at), occurred_at=from_ms(occurred_at), type=type_, tags=tags,
                metadata=self._readable("metadata", json.loads, metadata) or {},
                namespace=namespaces.get(namespace, LOST_NAMESPACE), agent_id=agent_id,
                conversation_id=conversation_id, sequence=sequence,
                turns=self._readable("turns", turns_of, turns) or (),
                superseded_by=None if superseded_by is None else id_text(superseded_by),
                archived_at=None if archived_at is None else from_ms(archived_at),
                key=key if namespace in namespaces else None,  # the key belongs to the namespace
                searchable=self._readable("parts to search", spans_of, searchable),
            )  # fmt: skip
            require_storable(memory)
        except (ValueError, TypeError, AttributeError, OverflowError, InvalidInputError):
            return None
        return memory

    def _readable(self, name: str, parse: Callable[[str], Any], text: str | None) -> Any:
        if not text:
            return None
        try:
            return parse(text)
        except (ValueError, TypeError):
            self.incomplete[f"some {name}"] = None
            return None

    def _entry(self, memory: Memory, parts: list[Row], model: Model) -> Entry:
        cut = [Passage(start, start + length) for start, length, _ in parts]
        blobs = [part[2] for part in parts]
        sized = all(len(blob) == model.dimensions for blob in blobs)
        if memory.searchable == () or not parts or not sized or not _covers(cut, memory):
            self.without_vectors += memory.searchable != ()
            return Entry(memory, [], np.empty((0, model.dimensions), dtype=np.float32))
        rows = np.frombuffer(b"".join(blobs), dtype=np.int8).reshape(len(blobs), -1).astype(np.float32)
        return Entry(memory, cut, rows)

    def _passages(self) -> dict[int, list[Row]]:
        """Return the readable passages of each memory: start, length and vector, in their order."""
        sql = "SELECT memory, start_char, length, embedding FROM passage NOT INDEXED WHERE key BETWEEN ? AND ?"
        found: dict[int, list[Row]] = {}
        for row in self._ranged(sql, 0, self._highest("passage")):
            if all(isinstance(value, int) for value in row[:3]) and isinstance(row[3], bytes):
                found.setdefault(row[0], []).append(row[1:])
        return found

    def _highest(self, table: str) -> int:
        highest = 0
        with suppress(apsw.Error):
            highest = self.source.count("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        with suppress(apsw.Error):
            highest = max(highest, self.source.count(f"SELECT max(key) FROM {table}"))
        return highest

    def _tags(self, highest: int) -> tuple[dict[int, tuple[str, ...]], set[int]]:
        """Return the tags of each memory, and the memories that have more than could be read."""
        names = self._named("tag", "name")
        sql = "SELECT memory, tag, position FROM memory_tag WHERE memory BETWEEN ? AND ? ORDER BY memory, position"
        places: dict[int, dict[int, int]] = {}
        for memory, tag, position in self._ranged(sql, 0, highest):
            places.setdefault(memory, {})[tag] = position
        by_tag = "SELECT memory, tag FROM memory_tag INDEXED BY memory_tag_by_tag WHERE tag BETWEEN ? AND ?"
        for memory, tag in self._ranged(by_tag, 0, max(names, default=0)):
            places.setdefault(memory, {}).setdefault(tag, 1 << 30)
        unread = {memory for memory, held in places.items() if not held.keys() <= names.keys()}
        ordered = {
            memory: tuple(names[tag] for tag in sorted(held, key=lambda tag: (held[tag], tag)) if tag in names)
            for memory, held in places.items()
        }
        return ordered, unread

    # -- the rest -----------------------------------------------------------------------------------------------

    def _copy_small(self, namespaces: dict[int, str]) -> None:
        with suppress(apsw.Error):
            last = self.source.count("SELECT seq FROM sqlite_sequence WHERE name = 'change'")
            self.target.run("INSERT INTO sqlite_sequence(name, seq) VALUES ('change', ?)", (last,))
        self._copy_table("registered_type", "own types", "name, namespace, parent", "name, namespace")
        self._copy_table("api_key", "API keys", "name, digest, namespace, can_write, agent_id, created_at", "name")
        self._copy_table("request", "idempotency keys", "principal, key, digest, outcome, at", "principal, key")
        for id_, hash_, namespace, at in self._from_both_ends(
            "SELECT id, content_hash, namespace, deleted_at FROM tombstone ORDER BY id", "tombstones"
        ):
            if namespace in namespaces:
                self.target.run(
                    "INSERT OR IGNORE INTO tombstone VALUES (?, ?, ?, ?)",
                    (id_, hash_, memories.namespace_key(self.target, namespaces[namespace]), at),
                )

    def _copy_table(self, table: str, words: str, columns: str, order: str) -> None:
        marks = ", ".join("?" for _ in columns.split(","))
        for row in self._from_both_ends(f"SELECT {columns} FROM {table} ORDER BY {order}", words):
            try:
                self.target.run(f"INSERT OR IGNORE INTO {table}({columns}) VALUES ({marks})", row)
            except (apsw.Error, RetainError):
                self.incomplete[words] = None

    def _named(self, table: str, column: str) -> dict[int, str]:
        """Return the names by key of a small table, from its rows and from its index of names."""
        rows = self._from_both_ends(f"SELECT key, {column} FROM {table} NOT INDEXED ORDER BY key")
        rows += self._from_both_ends(
            f"SELECT key, {column} FROM {table} INDEXED BY sqlite_autoindex_{table}_1 ORDER BY {column}"
        )
        return {row[0]: row[1] for row in rows if isinstance(row[0], int) and isinstance(row[1], str)}

    # -- reading around damage ----------------------------------------------------------------------------------

    def _ranged(self, sql: str, low: int, high: int) -> Iterable[Row]:
        """Yield what `sql` finds between two keys, which it takes, leaving out the keys at which it fails."""
        step = max(_STEP, high // _MOST_STEPS)
        for start in range(low, high + 1, step):
            spans = [(start, min(start + step - 1, high))]
            while spans:
                first, last = spans.pop()
                try:
                    rows = self.source.rows(sql, (first, last))
                except apsw.Error:
                    if first < last:
                        middle = (first + last) // 2
                        spans += [(middle + 1, last), (first, middle)]
                    continue
                yield from rows

    def _from_both_ends(self, sql: str, words: str | None = None) -> list[Row]:
        """Return the rows that can be read from the first on, and from the last back, up to a damaged page."""
        rows, complete = self._until_damage(sql)
        if not complete:
            if words is not None:
                self.incomplete[words] = None
            backwards = ", ".join(f"{part} DESC" for part in sql.rpartition(" ORDER BY ")[2].split(", "))
            rest, _ = self._until_damage(f"{sql.rpartition(' ORDER BY ')[0]} ORDER BY {backwards}")
            rows += [row for row in rest if row not in rows]
        return rows

    def _until_damage(self, sql: str) -> tuple[list[Row], bool]:
        rows: list[Row] = []
        try:
            for row in self.source.each(sql):
                rows.append(row)
        except apsw.Error:
            return rows, False
        return rows, True


_MEMORIES = """
    SELECT key, id, content, content_hash, created_at, updated_at, occurred_at, type, metadata, namespace,
           agent_id, conversation_id, sequence, turns, superseded_by, archived_at, own_key, searchable
    FROM memory NOT INDEXED WHERE key"""


def _covers(passages: list[Passage], memory: Memory) -> bool:
    """Whether the passages lie in the content and leave out nothing but white space of what is searched."""
    content = memory.content
    found = sorted(passages, key=lambda each: each.start)
    if not all(0 <= each.start < each.end <= len(content) for each in found):
        return False
    for start, end in ((0, len(content)),) if memory.searchable is None else memory.searchable:
        place = start
        for each in found:
            if each.end > place and each.start < end:
                if content[place : each.start].strip():
                    return False
                place = each.end
        if content[place:end].strip():
            return False
    return True
