"""Turns SQLite's failures into the errors of the domain: what is wrong with which file, and what to do."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from retain.domain.errors import StoreCorruptError, StoreError, StoreUnavailableError

BUSY_TIMEOUT_MS = 10_000
"""How long a write waits for other processes before it gives up."""


@contextmanager
def failures_explained(path: Path, /) -> Generator[None]:
    """Raise an error of the domain in place of one of SQLite's."""
    try:
        yield
    except apsw.Error as error:
        raise explained(error, path) from error


def explained(error: apsw.Error, path: Path, /) -> StoreError:
    """Return what to tell the user about `error`."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailableError(
                f"the database {path} is busy: another process has been writing to it for more than "
                f"{BUSY_TIMEOUT_MS // 1000} s; try again, or stop that process"
            )
        case apsw.FullError():
            return StoreUnavailableError(
                f"the disk that holds {path} is full; nothing was written. Free some space and try again"
            )
        case apsw.ReadOnlyError():
            return StoreUnavailableError(
                f"read-only: the database {path} can be read but not written, as the file, its folder or its disk "
                "does not allow it. Make it writable, or choose another place with RETAIN_DATABASE_URL"
            )
        case apsw.NotADBError():
            return not_a_database(path)
        case apsw.CorruptError():
            return StoreCorruptError(
                f"the database {path} is damaged ({error}). Save what can be read with: retain doctor --repair; or "
                "restore a backup"
            )
        case apsw.CantOpenError():
            return StoreUnavailableError(
                f"the database {path} can't be opened. Check that its folder exists and that you may read and "
                "write there, or choose another place with RETAIN_DATABASE_URL"
            )
        case apsw.IOError():
            return StoreUnavailableError(f"reading or writing {path} failed ({error}). Check the disk, then try again")
        case apsw.NoMemError():
            return StoreUnavailableError(f"not enough memory to work on {path}; free some and try again")
        case apsw.ConnectionClosedError():
            return closed(path)
        case _:
            return StoreError(f"the database {path} failed: {error}. The command retain doctor checks the file")


def not_a_database(path: Path, /) -> StoreCorruptError:
    """Return the error for a file that is no SQLite database."""
    return StoreCorruptError(
        f"{path} is not a Retain database (not even a SQLite file). Choose another path with RETAIN_DATABASE_URL"
    )


def closed(path: Path, /) -> StoreUnavailableError:
    """Return the error for a call that comes after closing."""
    return StoreUnavailableError(f"the database {path} has been closed; open it again")
