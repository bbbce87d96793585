"""What the core asks of the world. A backend is one class that has these methods; nothing is inherited.

All methods are safe to call from several tasks at once and never block the event loop. Filters reach a store
resolved: namespace, tags and types normalised, `time` turned into `since` and `until`, principal applied.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retain.domain.memory import (
    Event,
    Filter,
    Listing,
    Memory,
    Model,
    NamespaceCount,
    Page,
    Passage,
    Similar,
    Stats,
    TagCount,
    Tombstone,
    TypeCount,
)
from retain.domain.scoring import Candidates

Vectors = NDArray[np.float32]
Clock = Callable[[], datetime]
"""Returns the current time, aware and in UTC."""
Choose = Callable[[Candidates], NDArray[np.intp]]
"""Returns the positions of the candidates that are wanted, in the order wanted. It runs amid a read: quick and pure."""


class Embedder(Protocol):
    """Turns text into unit vectors. A text has one vector, whatever it is embedded together with."""

    @property
    def model_id(self) -> str:
        """Stable identity of the weights; a database remembers it."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    @property
    def passage_tokens(self) -> int:
        """Most tokens that one passage may have."""
        ...

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return (t, 2): start and end character of each token of `text`. Pure CPU work; thread safe."""
        ...

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return (n, d) float32 unit rows, in the order of `texts`.

        Raises:
            EmbeddingError: the model failed, or a text is longer than `passage_tokens`.
        """
        ...

    async def embed_query(self, text: str, /) -> Vectors:
        """Return the (d,) float32 unit vector of a question of any length."""
        ...

    async def aclose(self) -> None:
        """Release the model. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be stored under the key of an entry: a memory that was updated at this time, or none."""

    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory ready to be written, with its passages and their vectors (n, d) in the same order.

    Attributes:
        supersedes: Id of the memory that this one replaces.
        expected: Raises ConflictError unless this is stored under the memory's key; None does not ask.
        keep_tags: Whether tags of the memory that is replaced under the key stay, apart from that of its agent.
    """

    memory: Memory
    passages: Sequence[Passage]
    vectors: Vectors
    supersedes: str | None = None
    expected: Expected | None = None
    keep_tags: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """A candidate that was picked: its position among the candidates, and characters [start, end) of its memory."""

    place: int
    memory: Memory
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Change:
    """New values for some fields of a memory, applied in one transaction; None leaves a field as it is.

    `content` comes with its hash, passages and vectors; turns and searchable parts, being places in the old one, go.
    `fields` holds the plain columns by the name of the
    `Memory` attribute (type, tags, metadata, occurred_at, superseded_by, archived_at), None being a value there. With
    `if_updated_at`, a memory that was updated at another time raises ConflictError.
    """

    updated_at: datetime
    fields: dict[str, object]
    content: str | None = None
    content_hash: str | None = None
    passages: Sequence[Passage] = ()
    vectors: Vectors | None = None
    if_updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An idempotency key: who sent it, the key, and the digest of the request that it stands for."""

    principal: str
    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one entry: the stored memory, and whether it is new (False: an exact duplicate was there)."""

    memory: Memory
    created: bool


class Capability(Enum):
    """What a store may offer beyond `MemoryStore`; `CapabilityError` says when it is missing."""

    EVENTS = auto()
    REEMBED = auto()
    MAINTENANCE = auto()


class MemoryStore(Protocol):
    """Keeps memories with their passages, vectors, keywords and tags; each write is one transaction."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Which of the optional protocols below the store also has."""
        ...

    async def model(self) -> Model | None:
        """Return the model whose vectors the store holds; None while it holds none."""
        ...

    async def put(
        self,
        entries: Sequence[Entry],
        /,
        *,
        model: Model,
        request: RequestKey | None = None,
        delete: Filter | None = None,
    ) -> Sequence[Written]:
        """Write all entries or none, in one transaction, and return the outcome of each in order.

        What matches `delete` is removed first, as `MemoryStore.delete` does. An entry whose (namespace,
        conversation_id, sequence, content_hash) an active memory already has, both without a key, is not written: its
        new tags are added to that memory, which is returned with `created=False`. An entry with a key whose id is
        there replaces all but `created_at` and makes the memory active; it is returned with `created=False`.
        `supersedes` marks the memory of that id within the same transaction. A `request` seen before writes nothing
        and returns the first outcome.

        Raises:
            ModelMismatchError: the store holds vectors of another model.
            NotFoundError: `supersedes` names no memory, or the first outcome of `request` is deleted.
            ConflictError: `request.key` was used with another digest, or an id is taken.
            StoreError: nothing was written.
        """
        ...

    async def get(self, ids: Sequence[str], /) -> Sequence[Memory]:
        """Return the memories of `ids` in the order asked, in any state; unknown ids are absent."""
        ...

    async def update(self, memory_id: str, change: Change, /, *, model: Model | None = None) -> Memory | None:
        """Apply `change` and return the memory as it is now; None when there is no such memory.

        Raises:
            ConflictError: another active memory has the new content, or `superseded_by` would make a circle.
            ModelMismatchError: `change` has vectors of another model than the store's.
        """
        ...

    async def delete(self, where: Filter, /, *, at: datetime, expected: int | None = None) -> Sequence[str]:
        """Remove every trace of the memories that match, leave tombstones, return their ids.

        Raises:
            ConflictError: `expected` is given and another number matches; nothing was deleted.
        """
        ...

    async def ids(self, where: Filter, /) -> Sequence[str]:
        """Return the ids of all that match, newest first."""
        ...

    async def candidates(
        self,
        where: Filter,
        k: int,
        choose: Choose,
        /,
        *,
        vector: Vectors | None = None,
        text: str | None = None,
        model: Model | None = None,
    ) -> Sequence[Chosen]:
        """Find the `k` passages nearest to `vector` and the `k` that match `text` best, as one set.

        `choose` gets the set and picks from it; the picked ones are returned in its order, as of the same moment.
        The filter restricts before `k`. Every candidate carries both values where both were asked for. How rare a
        word is counts over the namespace of the filter and what lies below; what stands around a passage is looked up
        there, among memories in the filter's states; whatever else the filter says. Any text is legal; one without a
        searchable word matches nothing.

        Raises:
            ModelMismatchError: `model` is not the store's.
        """
        ...

    async def containing(self, text: str, where: Filter, k: int, /) -> Sequence[Memory]:
        """Return the `k` newest memories that hold `text` literally, case included."""
        ...

    async def similar(self, vectors: Vectors, where: Filter, k: int, /, *, model: Model) -> Sequence[Sequence[Similar]]:
        """Return for each row of `vectors` (n, d) the `k` memories nearest to it, best first, each once."""
        ...

    async def tags(self, where: Filter, /, *, minimum_use: int = 1) -> Sequence[TagCount]:
        """Return the tags in use within `where`, most used first, ties by name."""
        ...

    async def retag(self, sources: Sequence[str], target: str, where: Filter, /, *, at: datetime) -> int:
        """Replace the `sources` tags by `target` in what matches `where`; return how many memories changed."""
        ...

    async def namespaces(self, where: Filter, /) -> Sequence[NamespaceCount]:
        """Return the namespaces that hold matching memories themselves, by name."""
        ...

    async def types(self, where: Filter, /) -> Sequence[TypeCount]:
        """Return built-in and registered types with their use within `where`, by name."""
        ...

    async def known_types(self, namespace: str, /) -> Mapping[str, str | None]:
        """Return the built-in types and the own ones known in `namespace`, each with its parent."""
        ...

    async def register_type(self, name: str, parent: str | None, /, *, namespace: str) -> None:
        """Add an own type that is known in `namespace`, below and above.

        A new parent replaces the old one; None leaves it.
        """
        ...

    async def stats(self, where: Filter, /) -> Stats:
        """Count what matches `where` (its states aside)."""
        ...

    async def tombstones(self, where: Filter, /) -> Sequence[Tombstone]:
        """Return what is left of deleted memories in the namespace of `where`, oldest first."""
        ...

    async def restore(self, tombstones: Sequence[Tombstone], /) -> int:
        """Write tombstones of an import for ids that are neither stored nor buried here; return how many."""
        ...

    async def aclose(self) -> None:
        """Finish the running writes and close. Idempotent; later calls raise StoreUnavailableError."""
        ...

    # Last in the class: below it, `list[...]` in an annotation would mean this method.
    async def list(self, where: Filter, page: Page, /) -> Listing:
        """Return one page, newest first by (created_at, id).

        Raises:
            InvalidInputError: the cursor is not one that this store gave.
        """
        ...


class EventLog(Protocol):
    """Capability.EVENTS: what changed, in commit order, by every process on the store."""

    async def last_event(self) -> int:
        """Return the highest sequence number given so far, 0 when nothing ever happened."""
        ...

    async def events(self, after: int, limit: int, /, *, namespace: str) -> list[Event]:
        """Return up to `limit` events with `seq > after` in `namespace` and below, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of a check: what is wrong, how often, and whether `repair` mends it."""

    name: str
    detail: str
    count: int
    repairable: bool


@dataclass(frozen=True, slots=True)
class Rescue:
    """What became of a damaged file.

    Attributes:
        rescued: Memories that are in the new file.
        lost: Memories that were known to exist and could not be read.
        without_vectors: Of those rescued, how many no search finds until they are embedded again.
        incomplete: What else could not be read in full, in words.
        kept: Where the damaged file is now.
    """

    rescued: int
    lost: int
    without_vectors: int
    incomplete: tuple[str, ...]
    kept: str


class Maintenance(Protocol):
    """Capability.MAINTENANCE: checks and upkeep of a store that lives in a file."""

    async def check(self) -> list[Problem]:
        """Compare memories, passages, vectors, keywords, tags and the file itself; empty when all agree."""
        ...

    async def repair(self) -> list[Problem]:
        """Rebuild what can be derived and return what is still wrong. Content is never touched."""
        ...

    async def unsearchable(self, limit: int, /) -> Sequence[Memory]:
        """Return up to `limit` memories that have no passages, so that no search finds them."""
        ...

    async def complete(self, entries: Sequence[Entry], /, *, model: Model) -> None:
        """Write the passages and vectors of memories that have none, in one transaction.

        Raises:
            ModelMismatchError: the store holds vectors of another model.
        """
        ...

    async def compact(self) -> tuple[int, int]:
        """Give unused space back; return the size in bytes before and after."""
        ...

    async def backup(self, path: str, /) -> None:
        """Write a consistent copy of the database to `path`, which must not exist, while work goes on."""
        ...


class Reembedding(Protocol):
    """Capability.REEMBED: build the vectors of another model beside the old ones, then switch at once."""

    async def begin_reembedding(self, model: Model, /) -> int:
        """Start, or go on with, vectors of `model`; return how many memories still lack them."""
        ...

    async def unembedded(self, limit: int, /) -> list[Memory]:
        """Return up to `limit` memories that lack current vectors of the new model."""
        ...

    async def put_reembedded(self, entries: Sequence[Entry], /, *, model: Model) -> None:
        """Keep new passages and vectors beside the old ones, in one transaction.

        Raises:
            ConflictError: another process finished, or began with another model.
        """
        ...

    async def finish_reembedding(self, model: Model, /) -> bool:
        """Switch in one transaction and drop the old vectors; False when memories came in that still lack new ones.

        Raises:
            ConflictError: another process finished, or began with another model.
        """
        ...


class KeyStore(Protocol):
    """Where API keys are kept, hashed. See `retain.auth.api_keys`."""

    async def add_key(self, key: "StoredKey", /) -> None:
        """Keep a key.

        Raises:
            ConflictError: a key of that name exists.
        """
        ...

    async def find_key(self, digest: str, /) -> "StoredKey | None":
        """Return the key whose SHA-256 is `digest`."""
        ...

    async def list_keys(self) -> "list[StoredKey]":
        """Return all keys, oldest first."""
        ...

    async def remove_key(self, name: str, /) -> bool:
        """Revoke a key; False when there is none of that name."""
        ...


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key at rest: its SHA-256, never the key itself."""

    name: str
    digest: str
    namespace: str
    can_write: bool
    agent_id: str | None
    created_at: datetime
