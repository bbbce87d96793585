"""Memory for AI agents: store what they learn, find it again by meaning, on your own machine.

import retain

async with retain.open("sqlite:///agents.db") as memory:
    await memory.store("The deploy freeze ends on Friday", tags=["release"])
    for hit in (await memory.recall("when can we ship again?")).hits:
        print(hit.score, hit.memory.content)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from retain.version import __version__

if TYPE_CHECKING:
    from retain.core.api import MemoryAPI
    from retain.core.ports import Embedder
    from retain.domain.errors import (
        CapabilityError,
        ConflictError,
        EmbeddingError,
        InvalidInputError,
        ModelMismatchError,
        NotAuthenticatedError,
        NotFoundError,
        PermissionDeniedError,
        RetainError,
        StoreCorruptError,
        StoreError,
        StoreUnavailableError,
        TooLargeError,
    )
    from retain.domain.ids import id_of
    from retain.domain.memory import (
        EVERYTHING,
        UNSET,
        Deleted,
        Event,
        Filter,
        Hit,
        Imported,
        Listing,
        Memory,
        MemoryPatch,
        NamespaceCount,
        NewMemory,
        Page,
        Recall,
        Similar,
        Stats,
        Stored,
        StoredSession,
        TagCount,
        Turn,
        TypeCount,
    )
    from retain.opening import connect, load_embedder, open
    from retain.sync import SyncMemory

__all__ = [
    "EVERYTHING",
    "UNSET",
    "CapabilityError",
    "ConflictError",
    "Deleted",
    "Embedder",
    "EmbeddingError",
    "Event",
    "Filter",
    "Hit",
    "Imported",
    "InvalidInputError",
    "Listing",
    "Memory",
    "MemoryAPI",
    "MemoryPatch",
    "ModelMismatchError",
    "NamespaceCount",
    "NewMemory",
    "NotAuthenticatedError",
    "NotFoundError",
    "Page",
    "PermissionDeniedError",
    "Recall",
    "RetainError",
    "Similar",
    "Stats",
    "StoreCorruptError",
    "StoreError",
    "StoreUnavailableError",
    "Stored",
    "StoredSession",
    "SyncMemory",
    "TagCount",
    "TooLargeError",
    "Turn",
    "TypeCount",
    "__version__",
    "connect",
    "id_of",
    "load_embedder",
    "open",
]

_HOMES = {
    "retain.core.api": ("MemoryAPI",),
    "retain.core.ports": ("Embedder",),
    "retain.domain.errors": (
        "CapabilityError",
        "ConflictError",
        "EmbeddingError",
        "InvalidInputError",
        "ModelMismatchError",
        "NotAuthenticatedError",
        "NotFoundError",
        "PermissionDeniedError",
        "RetainError",
        "StoreCorruptError",
        "StoreError",
        "StoreUnavailableError",
        "TooLargeError",
    ),
    "retain.domain.ids": ("id_of",),
    "retain.domain.memory": (
        "EVERYTHING",
        "UNSET",
        "Deleted",
        "Event",
        "Filter",
        "Hit",
        "Imported",
        "Listing",
        "Memory",
        "MemoryPatch",
        "NamespaceCount",
        "NewMemory",
        "Page",
        "Recall",
        "Similar",
        "Stats",
        "Stored",
        "StoredSession",
        "TagCount",
        "Turn",
        "TypeCount",
    ),
    "retain.opening": (
        "connect",
        "load_embedder",
        "open",
    ),
    "retain.sync": ("SyncMemory",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for (PEP 562): `import retain` alone takes no time."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'retain' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
