"""`retain.open` and `retain.connect`: the two doors for Python, each for async and for plain code."""

from collections.abc import Mapping
from types import TracebackType

from retain.core.api import MemoryAPI
from retain.core.ports import Embedder
from retain.settings import SettingsWithSources
from retain.sync import SyncMemory


class Opening:
    """Opens a memory when entered: `async with` gives a `MemoryAPI`, plain `with` its synchronous twin."""

    def __init__(
        self, settings: Mapping[str, object], /, *, base_url: str | None = None, embedder: Embedder | None = None
    ) -> None:
        self._settings = SettingsWithSources.read(settings).settings
        self._base_url = base_url
        self._embedder = embedder
        self._memory: MemoryAPI | None = None
        self._twin: SyncMemory | None = None

    async def _open(self) -> MemoryAPI:
        if self._base_url is not None:
            from retain.client import RemoteMemory

            key = self._settings.api_key
            return RemoteMemory(self._base_url, api_key=None if key is None else key.get_secret_value())
        from retain.bootstrap import open_service

        return await open_service(self._settings, self._embedder)

    async def __aenter__(self) -> MemoryAPI:
        self._memory = await self._open()
        return self._memory

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._memory is not None:
            await self._memory.aclose()

    def __enter__(self) -> SyncMemory:
        self._twin = SyncMemory(self._open)
        return self._twin

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._twin is not None:
            self._twin.close()


def open(url: str | None = None, *, embedder: Embedder | None = None, **settings: object) -> Opening:
    """Open a database in this process, with the built-in model unless the settings say otherwise.

        async with retain.open("sqlite:///agents.db") as memory:
            await memory.store("The API allows 100 requests a minute", tags=["api"])
        with retain.open("sqlite:///agents.db") as memory:
            memory.recall("rate limit")

    Args:
        url: `sqlite:///PATH` or a plain path; None takes the setting `database_url`.
        embedder: Your own way from text to vectors, instead of the setting `embedding`; closed with the memory.
        **settings: Any setting by name, see docs/settings.md.

    Raises:
        InvalidInputError: a setting is impossible (at once), or the URL is not understood (on entering).
        StoreError: the file can't be opened (on entering).
    """
    return Opening({"database_url": url, **settings}, embedder=embedder)


def connect(base_url: str = "http://127.0.0.1:8000", api_key: str | None = None, **settings: object) -> Opening:
    """Use a running service with the same methods as `retain.open`.

    Args:
        base_url: Where `retain serve` listens, with the path prefix of a proxy if there is one.
        api_key: A key made by `retain keys create`; None takes the setting `api_key`.
        **settings: Any setting by name.

    Raises:
        StoreUnavailableError: the service does not answer (on the first call); says how to start it.
    """
    return Opening({"api_key": api_key, **settings}, base_url=base_url)


def load_embedder(**settings: object) -> Embedder:
    """Return the embedder that `open` would use, for code that wraps it or embeds texts itself.

    The model is loaded on first use.

    Args:
        **settings: Any setting by name; `embedding` names the model.

    Raises:
        InvalidInputError: a setting is impossible.
    """
    from retain.bootstrap import choose_embedder

    return choose_embedder(SettingsWithSources.read(settings).settings)
