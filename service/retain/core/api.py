"""`MemoryAPI`: the methods that every way in offers, in process and over HTTP alike."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, Self, Unpack

from retain.domain.memory import (
    Deleted,
    Event,
    Filter,
    Imported,
    Listing,
    Memory,
    MemoryFields,
    MemoryPatch,
    NamespaceCount,
    NewMemory,
    Page,
    Recall,
    RecallMode,
    SessionMode,
    Stats,
    Stored,
    StoredSession,
    TagCount,
    Turn,
    TypeCount,
)

GroupBy = Literal["conversation"]
Record = Mapping[str, Any]
"""One line of an export: a JSON object with a `kind`."""


class MemoryAPI(Protocol):
    """Store what agents learn, and find it again by meaning.

    Raises, on every method: `NotAuthenticatedError` or `PermissionDeniedError` when the caller lacks the right,
    `StoreUnavailableError` when the store can't be reached, `InvalidInputError` for impossible values.
    """

    async def store(
        self,
        memory: str | NewMemory,
        /,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Stored:
        """Store one memory: a `NewMemory`, or its content with the other fields as keywords.

        The same text in the same namespace and conversation is stored once: the first memory is returned with
        `created=False`, and new tags are added to it. With a `key`, the memory of that key is replaced instead. A
        merely similar memory is never dropped, only reported in `similar_to`. With `idempotency_key`, a repeated
        request has no second effect (kept for 24 hours).

        Raises:
            EmbeddingError: the model failed; nothing was stored.
            ConflictError: `idempotency_key` was used for another request.
            NotFoundError: `supersedes` names no memory.
        """
        ...

    async def store_many(
        self,
        memories: Iterable[str | NewMemory],
        /,
        *,
        delete: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Sequence[Stored]:
        """Store up to 1,000 memories in one transaction: all or none, outcomes in order (no `similar_to`).

        `delete` names up to 1,000 memories that are removed first, within the same transaction; ids that name nothing
        are passed over. With it, `memories` may be empty.
        """
        ...

    async def store_session(
        self,
        turns: Sequence[Turn],
        /,
        *,
        mode: SessionMode = "turn",
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> StoredSession:
        """Store a conversation: one memory a turn ("turn"), or one for all of it ("session").

        `conversation_id` is made up when not given. In mode "turn" each memory has `metadata["role"]` and its
        place in `sequence`; storing the same conversation again, longer by some turns, adds just those.
        """
        ...

    async def recall(
        self,
        query: str,
        /,
        *,
        k: int = 10,
        mode: RecallMode = "hybrid",
        where: Filter = ...,
        group_by: GroupBy | None = None,
        min_score: float = 0.0,
        time_from_query: bool = False,
    ) -> Recall:
        """Find up to `k` memories (1 to 1,000) that answer `query`, best first.

        Modes: "hybrid" joins meaning and words, "semantic" is meaning alone, "keyword" words alone, "exact" finds
        the text literally, newest first. An empty query lists the newest memories that match `where`.
        `group_by="conversation"` gives each conversation its best hit only. `time_from_query` reads an
        expression such as "last week" out of the query as a filter.

        Raises:
            ModelMismatchError: the store was written with another model; mode "keyword" still works.
        """
        ...

    async def get(self, memory_id: str, /) -> Memory:
        """Return one memory in any state.

        Raises:
            NotFoundError: there is none.
        """
        ...

    async def list(self, where: Filter = ..., page: Page = ..., /) -> Listing:
        """Return one page of the memories that match, newest first."""
        ...

    async def update(self, memory_id: str, patch: MemoryPatch, /) -> Memory:
        """Change the given fields; new content is embedded anew. Returns the memory as it is now.

        Raises:
            NotFoundError: there is no such memory.
            ConflictError: another memory already has the new content, or it was updated since `if_updated_at`.
        """
        ...

    async def delete(self, memory_id: str, /) -> None:
        """Remove a memory from every table and index; only its id, hash and time of deletion stay.

        Raises:
            NotFoundError: there is no such memory.
        """
        ...

    async def delete_many(
        self, where: Filter, /, *, dry_run: bool = False, expected_count: int | None = None
    ) -> Deleted:
        """Remove all that matches `where`, which must restrict something.

        Raises:
            ConflictError: `expected_count` is given and another number matches; nothing was deleted.
        """
        ...

    async def tags(self, where: Filter = ..., /, *, minimum_use: int = 1) -> Sequence[TagCount]:
        """Return the tags in use, most used first."""
        ...

    async def merge_tags(self, sources: Sequence[str], target: str, /) -> int:
        """Replace the tags `sources` by `target` everywhere; return how many memories changed.

        With one source this renames a tag.

        Raises:
            NotFoundError: no memory carries any of the sources.
        """
        ...

    async def namespaces(self, where: Filter = ..., /) -> Sequence[NamespaceCount]:
        """Return the namespaces that hold matching memories themselves, by name."""
        ...

    async def types(self) -> Sequence[TypeCount]:
        """Return the known types with their use, by name."""
        ...

    async def register_type(self, name: str, /, *, parent: str | None = None) -> None:
        """Add an own type, optionally below a built-in one; again with another parent, it moves there."""
        ...

    async def stats(self) -> Stats:
        """Return counts over what the caller may read."""
        ...

    def export(self, where: Filter = ..., /) -> AsyncIterator[Record]:
        """Yield everything as JSON objects: a header, own types, memories in every state, tombstones."""
        ...

    async def import_records(self, records: AsyncIterator[Record], /) -> Imported:
        """Store exported records, keeping ids, times and states. What is there already is left alone.

        Raises:
            InvalidInputError: a record is malformed; the message names its line. Earlier batches stay, and
                importing again goes on where it stopped.
        """
        ...

    def events(self, *, after: int | None = None) -> AsyncIterator[Event]:
        """Yield changes as they are committed, by any process: those after `after`, or only new ones."""
        ...

    async def aclose(self) -> None:
        """Close. Idempotent."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...
