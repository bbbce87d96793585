"""Upkeep of the file: check, repair, compact, backup."""

from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import apsw

from retain.core.ports import Problem
from retain.domain.errors import ConflictError, StoreError
from retain.storage.sqlite import changes, meta
from retain.storage.sqlite.connection import Access, Connection, emptied_log
from retain.storage.sqlite.failures import failures_explained
from retain.storage.sqlite.migrations import missing, restore_missing
from retain.storage.sqlite.schema import DERIVED, FULL_TEXT

# name, what it means, whether `repair` mends it, and the query that counts it
_COUNTED: tuple[tuple[str, str, bool, str], ...] = (
    (
        "memories-without-passages",
        "memories that no search finds; retain doctor --repair embeds them again",
        False,
        "SELECT count(*) FROM memory WHERE key NOT IN (SELECT memory FROM passage) AND searchable IS NOT '[]'",
    ),
    (
        "tag-counts-differ",
        "tags whose number of uses is wrong",
        True,
        "SELECT count(*) FROM tag WHERE uses <> (SELECT count(*) FROM memory_tag WHERE tag = tag.key) OR uses = 0",
    ),
    (
        "namespace-counts-differ",
        "namespaces whose number of memories is wrong",
        True,
        """SELECT count(*) FROM namespace WHERE (active, superseded, archived) IS NOT (
               SELECT total(state = 0), total(state = 1), total(state = 2) FROM memory
               WHERE namespace = namespace.key)""",
    ),
)


def check(connection: Connection, /) -> list[Problem]:
    """Compare everything with everything; empty when all agree."""
    if absent := missing(connection):
        return [Problem("tables-missing", f"the keyword index lacks {', '.join(absent)}", len(absent), True)]
    problems = list(_file_problems(connection))
    if any(problem.name == "file-damaged" and not problem.repairable for problem in problems):
        return problems  # further questions would stumble over the same pages
    for name, detail, repairable, sql in _COUNTED:
        if count := connection.count(sql):
            problems.append(Problem(name, detail, count, repairable))
    problems += _keyword_problems(connection)
    problems += _vector_problems(connection)
    return problems


def _file_problems(connection: Connection) -> Generator[Problem]:
    damage = [row[0] for row in connection.rows("PRAGMA integrity_check") if row[0] != "ok"]
    elsewhere = [line for line in damage if not _is_about_keywords(line)]
    if elsewhere:
        indexes_only = all(" index " in line for line in elsewhere)
        yield Problem("file-damaged", "; ".join(elsewhere[:3]), len(elsewhere), indexes_only)
    orphans = connection.rows("PRAGMA foreign_key_check")
    if orphans:
        tables = sorted({row[0] for row in orphans})
        yield Problem(
            "orphans", f"rows of {', '.join(tables)} that belong to nothing", len(orphans), set(tables) <= _REMOVABLE
        )


def _is_about_keywords(line: str) -> bool:
    return any(f"FTS5 table main.{name}" in line or f'from table "{name}"' in line for name in FULL_TEXT)


_REMOVABLE = {"passage", "memory_tag", "next_memory", "next_passage"}


def _keyword_problems(connection: Connection) -> Generator[Problem]:
    for index in FULL_TEXT:
        try:
            connection.run(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
        except apsw.ReadOnlyError:
            return  # this check is a write to SQLite; PRAGMA integrity_check looks at the index without the content
        except apsw.CorruptError:
            yield Problem(f"{index}-index-damaged", f"the index {index} disagrees with the passages", 1, True)


def _vector_problems(connection: Connection) -> Generator[Problem]:
    model = meta.model(connection)
    wrong = connection.count(
        "SELECT count(*) FROM passage WHERE length(embedding) IS NOT ?", (None if model is None else model.dimensions,)
    )
    if wrong:
        yield Problem(
            "vectors-of-another-size",
            "vectors that don't fit the database's model; run: retain reembed --force",
            wrong,
            False,
        )


def repair(connection: Connection, /) -> None:
    """Rebuild all that can be derived. Content, vectors, tags of memories and times are left alone."""
    connection.run("DELETE FROM memory_tag WHERE memory NOT IN (SELECT key FROM memory)")
    connection.run("DELETE FROM passage WHERE memory NOT IN (SELECT key FROM memory)")
    connection.run("DELETE FROM next_memory WHERE memory NOT IN (SELECT key FROM memory)")
    connection.run("DELETE FROM next_passage WHERE memory NOT IN (SELECT memory FROM next_memory)")
    connection.run("UPDATE tag SET uses = (SELECT count(*) FROM memory_tag WHERE tag = tag.key)")
    connection.run("DELETE FROM tag WHERE uses = 0")
    connection.run(
        """UPDATE namespace SET (active, superseded, archived) = (
               SELECT total(state = 0), total(state = 1), total(state = 2) FROM memory
               WHERE namespace = namespace.key)"""
    )
    connection.run("REINDEX")
    for name in reversed(DERIVED):
        kind = "VIEW" if DERIVED[name].lstrip().startswith("CREATE VIEW") else "TABLE"
        connection.run(f"DROP {kind} IF EXISTS {name}")
    restore_missing(connection)
    meta.new_generation(connection)


def compact(connection: Connection, path: Path, /) -> tuple[int, int]:
    """Give unused space back; return the size of all files before and after."""
    before = size(path)
    changes.prune(connection, changes.last_change(connection))
    for index in FULL_TEXT:
        connection.run(f"INSERT INTO {index}({index}) VALUES ('optimize')")
    connection.run("VACUUM")  # and no PRAGMA optimize: its tables of statistics take 8 kB, the queries need none
    emptied_log(connection)
    return before, size(path)


def size(path: Path, /) -> int:
    """Return the bytes of the database and its log."""
    total = 0
    for name in (path, path.with_name(path.name + "-wal")):
        with suppress(FileNotFoundError):
            total += name.stat().st_size
    return total


def backup(source: Path, target: Path, access: Access, /) -> None:
    """Copy one state of the database to a new file, while others go on reading and writing.

    Raises:
        ConflictError: `target` exists.
        StoreError: it can't be written; nothing is left of it.
    """
    if target.exists():
        raise ConflictError(f"{target} exists already; choose another path for the backup")
    if not target.parent.is_dir():
        raise StoreError(f"the folder {target.parent} does not exist; create it, or choose another path for the backup")
    with failures_explained(source):
        reader = Connection(source, writer=False, access=access)
    try:
        with failures_explained(target):
            copy = Connection(target, writer=True, create=True)
            try:
                reader.copy_to(copy)
            except BaseException:
                copy.close()
                target.unlink(missing_ok=True)
                raise
            copy.close()
    finally:
        reader.close()
