"""One line that makes every `Crew(memory=True)` of a process remember in Retain."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crewai.memory import unified_memory
from crewai.memory.storage import factory

import retain
from retain_integrations.crewai._storage import DEFAULT_NAMESPACE, RetainStorage

_DEFAULT_STORAGE = "lancedb"
_EMBEDDER = "_default_embedder"
"""The function of CrewAI that makes OpenAI's embedder for a memory that names none. There is no setting for it."""


def use_retain(
    url: str | Path | None = None,
    /,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    **settings: Any,
) -> "RetainInUse":
    """Make each memory that CrewAI builds from now on use Retain and its embedder, unless it is told otherwise.

    That holds for `Crew(memory=True)`, `Agent(memory=True)`, flows and a plain `Memory()`; those that name a storage
    or an embedder keep it. Analysis by the crew's LLM stays as CrewAI does it.

    Args:
        url: `sqlite:///PATH` or a plain path; None takes the setting `database_url`.
        base_url: Where a service listens, instead of `url`.
        api_key: A key of that service.
        namespace: Where in Retain the scope "/" lies.
        **settings: Any setting of Retain by name.

    Returns:
        A handle whose `undo` puts things back; as a context manager it does so at the end.

    Raises:
        InvalidInputError: a value is impossible.
        CapabilityError: this version of CrewAI is not supported.
    """
    storage = RetainStorage(url, base_url=base_url, api_key=api_key, namespace=namespace, **settings)
    return RetainInUse(storage)


class RetainInUse:
    """Retain as CrewAI's memory, until `undo`."""

    def __init__(self, storage: RetainStorage) -> None:
        default: Callable[[], Any] | None = getattr(unified_memory, _EMBEDDER, None)
        if default is None:
            raise retain.CapabilityError(
                "this version of CrewAI chooses its embedder in another way; install retain[crewai], or give "
                "Crew(memory=RetainCrewMemory(...))"
            )
        self.storage = storage
        """The storage that all of them share."""
        self._before = (getattr(factory, "_factory", None), default)
        self._in_use = True
        factory.set_memory_storage_factory(lambda spec: storage if spec == _DEFAULT_STORAGE else None)
        setattr(unified_memory, _EMBEDDER, lambda: storage.embedder)

    def undo(self) -> None:
        """Put CrewAI's own storage and embedder back, and close the database. Idempotent.

        Memories that were built meanwhile keep their storage, which opens again when they use it.
        """
        if self._in_use:
            self._in_use = False
            factory.set_memory_storage_factory(self._before[0])
            setattr(unified_memory, _EMBEDDER, self._before[1])
            self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
