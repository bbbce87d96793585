"""What a `RetainStorage` asks of Retain: memories by the conditions of CrewAI, and vectors of one kind."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord
from numpy.typing import NDArray

import retain
from retain_integrations._sync import LazyMemory
from retain_integrations.crewai._embedders import GIVEN_MODEL, Given, given, parts_of, text_of, unit
from retain_integrations.crewai._records import MARK, Scopes, naive, record_of, tag_of
from retain_integrations.crewai._timeline import matching

BATCH = 1_000
"""Most memories that Retain stores or deletes in one transaction, or takes in one filter."""
_URL_BATCH = 120
"""Most ids in the address of a request: proxies take addresses of up to 8 KB."""
_MILLISECOND = timedelta(milliseconds=1)

Row = NDArray[np.float32]


class Database:
    """The memories of one storage."""

    def __init__(self, lazy: LazyMemory, scopes: Scopes, own_model: retain.Embedder) -> None:
        self.lazy = lazy
        self._own_model = own_model
        self.scopes = scopes

    @property
    def memory(self) -> retain.SyncMemory:
        """Retain itself, opened if it is not yet."""
        return self.lazy.memory

    # -- what is meant ------------------------------------------------------------------------------------------

    def where(
        self,
        scope: str | None,
        categories: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        older_than: datetime | None = None,
    ) -> retain.Filter:
        """Return a filter that lets through all that is meant, and little else: `is_meant` has the last word."""
        return retain.Filter(
            namespace=self.scopes.namespace(scope),
            tags=[tag_of(category) for category in categories or ()],
            metadata={f"{MARK}.metadata.{key}": {"$eq": value} for key, value in (metadata or {}).items()},
            until=None if older_than is None else naive(older_than).replace(tzinfo=UTC) + _MILLISECOND,
        )

    def found(
        self,
        scope: str | None,
        categories: Sequence[str] | None,
        ids: Sequence[str] | None,
        older_than: datetime | None,
        metadata: Mapping[str, Any] | None,
    ) -> list[str]:
        """Return the ids of the memories whose records meet all conditions."""
        where = self.where(scope, categories, metadata, older_than)
        if ids is None:
            candidates: Iterable[retain.Memory] = matching(self.memory, where)
        else:
            within = str(where.namespace)
            candidates = [one for one in self.memories(ids) if _is_within(one.namespace, within)]
        return [
            memory.id
            for memory in candidates
            if is_meant(record_of(memory, self.scopes), categories, metadata, older_than)
        ]

    def memories(self, record_ids: Iterable[str]) -> list[retain.Memory]:
        """Return the memories of records by the ids of those; several where an id was stored in several scopes."""
        asked = set(map(str, record_ids))
        used = self.memory.namespaces(retain.Filter(namespace=self.scopes.root)) if asked else ()
        # A memory's id follows from its namespace and its key, which an index finds; metadata would have to be scanned.
        places = (place for each in asked for place in _places(each, used))
        found: dict[str, retain.Memory] = {}
        while part := tuple(islice(places, _URL_BATCH if self.lazy.is_remote else BATCH)):
            here = matching(self.memory, retain.Filter(namespace=self.scopes.root, ids=part))
            found |= {memory.id: memory for memory in here}
        return [memory for memory in found.values() if record_of(memory, self.scopes).id in asked]

    # -- what is written ----------------------------------------------------------------------------------------

    def store(
        self, news: Sequence[retain.NewMemory], vectors: Sequence[Row | None] | None, *, instead_of: Sequence[str]
    ) -> None:
        """Store up to 1,000 memories in one transaction, which deletes those of `instead_of` that they don't replace.

        Raises:
            ConflictError: one of the memories to replace was changed or deleted meanwhile.
            EmbeddingDimensionMismatchError: the database holds vectors of another length.
        """
        replaced = {retain.id_of(str(new.namespace), str(new.key)) for new in news}
        moved = [id_ for id_ in instead_of if id_ not in replaced]
        with self.bringing(given_with(news, vectors)):
            self.memory.store_many(news, delete=moved[:BATCH])
        self.delete(moved[BATCH:])

    def delete(self, ids: Sequence[str]) -> int:
        """Delete memories by their ids and return how many there were."""
        return sum(
            self.memory.delete_many(retain.Filter(ids=tuple(ids[start : start + BATCH]))).count
            for start in range(0, len(ids), BATCH)
        )

    # -- vectors ------------------------------------------------------------------------------------------------

    def vectors_of(self, records: Sequence[MemoryRecord]) -> list[Row | None] | None:
        """Return the vectors that came with records; None when Retain makes them itself from the contents.

        Raises:
            EmbeddingDimensionMismatchError: they differ in length.
            InvalidInputError: they are of another embedder, and a service is to keep them.
        """
        embeddings = [record.embedding for record in records if record.embedding]
        if all(text_of(embedding) is not None for embedding in embeddings) and not (
            not embeddings and not self.lazy.is_remote and self.has_given_vectors()
        ):
            return None
        self.require_own_process()
        sizes = [len(embedding) for embedding in embeddings]
        for size in sizes:
            if size != sizes[0]:
                raise EmbeddingDimensionMismatchError(sizes[0], size)
        return [unit(record.embedding) if record.embedding else None for record in records]

    def has_given_vectors(self) -> bool:
        """Whether the database holds vectors of another embedder than Retain's."""
        model = self.memory.stats().model
        return model is not None and model.id == GIVEN_MODEL

    def require_own_process(self) -> None:
        """Refuse vectors of another embedder where a service searches with its own.

        Raises:
            InvalidInputError: this talks to a service.
        """
        if self.lazy.is_remote:
            raise retain.InvalidInputError(
                "this vector is not of RetainEmbedder, and a service of Retain searches with its own model; give "
                "Memory(embedder=RetainEmbedder()), or open a database by url to keep the vectors of another embedder",
                field="embedding",
            )

    @contextmanager
    def bringing(self, vectors: Given | None) -> Generator[None]:
        """Hand `vectors` on to the embedder of the database; None lets Retain's model make them.

        Raises:
            EmbeddingDimensionMismatchError: the database holds vectors of another length.
            InvalidInputError: it holds vectors of another model.
        """
        token = given.set(vectors)
        try:
            yield
        except retain.ModelMismatchError as error:
            stored = self.memory.stats().model
            if self.lazy.is_remote or stored is None:  # the service's own trouble: its database and its model differ
                raise
            brought = self._own_model.dimensions if vectors is None else vectors.dimensions
            if brought != stored.dimensions:
                raise EmbeddingDimensionMismatchError(stored.dimensions, brought) from error
            raise retain.InvalidInputError(
                f"this database holds vectors of {'another embedder' if stored.id == GIVEN_MODEL else stored.id}; give "
                "the memory the embedder that it began with (RetainEmbedder for a model of Retain), or a new database",
                field="embedding",
            ) from error
        finally:
            given.reset(token)


def given_with(news: Sequence[retain.NewMemory], vectors: Sequence[Row | None] | None) -> Given | None:
    """Return the vectors of memories to store, one for each passage that they will have."""
    if vectors is None:
        return None
    sizes = [len(vector) for vector in vectors if vector is not None]
    here = Given(sizes[0] if sizes else 1)
    for new, vector in zip(news, vectors, strict=True):
        if vector is not None:
            parts = [new.content[start:end].strip() for start, end in parts_of(new.content)]
            here.parts += parts
            here.vectors += [vector] * len(parts)
    return here


def is_meant(
    record: MemoryRecord,
    categories: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
    older_than: datetime | None = None,
) -> bool:
    """Whether a record has one of the categories, exactly these values in its metadata, and is strictly older."""
    return (
        (not categories or not set(categories).isdisjoint(record.categories))
        and all(record.metadata.get(key) == value for key, value in (metadata or {}).items())
        and (older_than is None or record.created_at < naive(older_than))
    )


def _is_within(namespace: str, ancestor: str) -> bool:
    return ancestor == "/" or namespace == ancestor or namespace.startswith(f"{ancestor}/")


def _places(record_id: str, used: Iterable[retain.NamespaceCount]) -> Iterator[str]:
    """Yield the ids that the memory of a record may have; one that came another way has the record's id itself."""
    with suppress(ValueError):
        yield str(UUID(record_id))
    for each in used:
        yield retain.id_of(each.namespace, record_id)
