"""From settings to a working service: the only module that names concrete adapters."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from retain.core.ports import Embedder, MemoryStore, Rescue
from retain.core.service import MemoryService, Policy, utc_now
from retain.domain.errors import InvalidInputError, StoreError
from retain.domain.ids import shortened
from retain.domain.scoring import Weighing
from retain.settings import Settings, default_database_url

if TYPE_CHECKING:
    from retain.storage.sqlite import SqliteStore

SQLITE_SCHEME = "sqlite:///"


def database_path(url: str, /) -> Path:
    """Return the file that a database URL or plain path names; a leading ~ is the home folder.

    Raises:
        InvalidInputError: the URL has another scheme.
    """
    if url.startswith(SQLITE_SCHEME):
        return Path(url.removeprefix(SQLITE_SCHEME)).expanduser()
    if "://" in url or not url or url == ":memory:":
        raise InvalidInputError(
            f"database_url {shortened(url)} is not understood; use sqlite:///PATH or a plain path",
            field="database_url",
        )
    return Path(url).expanduser()


async def open_store(settings: Settings, /) -> "SqliteStore":
    """Open the database that the settings name, and create it when it is not there.

    The folder of the default database is made too; any other must be there, since a missing one is mostly a typo.

    Raises:
        InvalidInputError: the URL is not understood.
        StoreError: the file can't be opened; the message names it and says what to do.
    """
    from retain.storage.sqlite import open_sqlite

    path = database_path(settings.database_url)
    if settings.database_url == default_database_url():
        try:
            await asyncio.to_thread(path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {path.parent} can't be made: {error.strerror}") from None
    return await open_sqlite(path, clock=utc_now)


async def rescue_store(settings: Settings, /) -> Rescue:
    """Put what can be read of a damaged database into a new one in its place, and keep the damaged one beside it.

    Raises:
        StoreUnavailableError: another process has it open.
        StoreError: nothing can be read; nothing was changed.
    """
    from retain.storage.sqlite import rescue_sqlite

    return await rescue_sqlite(database_path(settings.database_url), clock=utc_now)


def choose_embedder(settings: Settings, /) -> Embedder:
    """Return the embedder that the settings name, at once; the model is fetched and loaded at first use.

    A setting that is not understood, or a model that is missing, is an EmbeddingError of each use.
    """
    from retain.embeddings import open_embedder

    key = settings.embedding_api_key
    return open_embedder(
        settings.embedding,
        cache_dir=Path(settings.cache_dir).expanduser(),
        hub_url=settings.hub_url,
        offline=settings.offline,
        api_key=None if key is None else key.get_secret_value(),
    )


def make_service(store: MemoryStore, embedder: Embedder, settings: Settings, /) -> MemoryService:
    """Join a store and an embedder to a service that acts for the local user."""
    policy = Policy(
        timezone=settings.timezone,
        max_content_chars=settings.max_content_chars,
        weighing=Weighing(settings.recall_keyword_weight, settings.recall_related_weight, settings.recall_surroundings),
    )
    return MemoryService(store, embedder, policy=policy)


async def open_service(settings: Settings, embedder: Embedder | None = None, /) -> MemoryService:
    """Return a ready service, with `embedder` or the one that the settings name; closing it closes both its parts."""
    return make_service(await open_store(settings), embedder or choose_embedder(settings), settings)
