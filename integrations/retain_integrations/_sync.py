"""The one bridge between frameworks, which call from any thread and any event loop, and a memory that lives on one."""

import os
import threading
from collections.abc import Callable
from typing import Any

import retain

_of_other_processes: list[retain.SyncMemory | None] = []
"""Kept, since a database must not be closed in a process that did not open it."""


class LazyMemory:
    """A memory that opens when it is first used, so that building a framework's object costs nothing.

    Safe to use from several threads. Its methods block; async code calls them through `asyncio.to_thread`.
    """

    def __init__(
        self,
        url: str | None = None,
        /,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        embedder: Callable[[], retain.Embedder] | None = None,
        **settings: Any,
    ) -> None:
        """Nothing is opened yet.

        Args:
            url: `sqlite:///PATH` or a plain path, for a database in this process; None takes the setting.
            base_url: Where a service listens, instead of `url`.
            api_key: A key of that service.
            embedder: Makes the embedder of a database in this process; None takes the setting `embedding`.
            **settings: Any setting of Retain by name.

        Raises:
            InvalidInputError: both `url` and `base_url` are given, or something that a service decides itself.
        """
        if base_url is None:
            if api_key is not None:
                raise retain.InvalidInputError("api_key is for a service; give its base_url too", field="api_key")
        elif url is not None:
            raise retain.InvalidInputError("give url or base_url, not both", field="url")
        elif embedder is not None:
            raise retain.InvalidInputError(
                "a service embeds with its own model; leave the embedder out, or open a database by url",
                field="embedder",
            )
        self._url = url
        self._base_url = base_url
        self._api_key = api_key
        self._embedder = embedder
        self._settings = settings
        self._lock = threading.Lock()
        self._memory: retain.SyncMemory | None = None
        self._process = os.getpid()

    @property
    def is_remote(self) -> bool:
        """Whether this talks to a service."""
        return self._base_url is not None

    @property
    def memory(self) -> retain.SyncMemory:
        """The memory, opened now if it is not yet.

        Raises:
            StoreError: the database can't be opened.
        """
        self._begin_anew_after_fork()
        with self._lock:
            if self._memory is None:
                memory = self._memory = self._opening().__enter__()
            else:
                memory = self._memory
            return memory

    def _begin_anew_after_fork(self) -> None:
        """Leave the memory of the process that this one was forked from: its thread and its locks are not here."""
        if self._process != os.getpid():
            _of_other_processes.append(self._memory)
            self._memory, self._lock, self._process = None, threading.Lock(), os.getpid()

    def _opening(self) -> Any:
        if self._base_url is not None:
            return retain.connect(self._base_url, self._api_key, **self._settings)
        embedder = None if self._embedder is None else self._embedder()
        return retain.open(self._url, embedder=embedder, **self._settings)

    def close(self) -> None:
        """Close the memory if it is open. It opens again when it is used again."""
        self._begin_anew_after_fork()
        with self._lock:
            memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()
