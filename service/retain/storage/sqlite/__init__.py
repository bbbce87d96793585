"""One SQLite file as the store: plain tables, exact vectors in SQL, keywords in FTS5, several processes at once."""

from retain.storage.sqlite.store import SqliteStore, open_sqlite, rescue_sqlite

__all__ = ["SqliteStore", "open_sqlite", "rescue_sqlite"]
