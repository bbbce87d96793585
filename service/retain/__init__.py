"""Memory for AI agents: store what they learn, find it again by meaning, on your own machine.

import retain

async with retain.open("sqlite:///agents.db") as memory:
    await memory.store("The deploy freeze ends on Friday", tags=["release"])
    for hit in (await memory.recall("when can we ship again?")).hits:
        print(hit.score, hit.memory.content)
"""

from retain.core.api import MemoryAPI
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
from retain.opening import connect, open
from retain.sync import SyncMemory
from retain.version import __version__

__all__ = [
    "EVERYTHING",
    "UNSET",
    "CapabilityError",
    "ConflictError",
    "Deleted",
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
    "open",
]
