"""The answers of REST as models, for the OpenAPI page only: what is sent comes from `retain.domain.json_form`."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class TurnAnswer(BaseModel):
    """Where one turn of a session lies in the content."""

    role: str
    start: int
    end: int
    occurred_at: str | None


class MemoryAnswer(BaseModel):
    """One stored memory. Times are RFC 3339 in UTC."""

    id: str = Field(description="UUIDv7; stays the same over edits")
    content: str
    content_hash: str = Field(description="SHA-256 of the NFC form of content")
    type: str
    tags: list[str]
    metadata: dict[str, Any]
    namespace: str
    agent_id: str | None
    conversation_id: str | None
    sequence: int | None
    key: str | None = Field(description="The name its owner gave it")
    created_at: str
    updated_at: str
    occurred_at: str
    superseded_by: str | None
    archived_at: str | None
    searchable: list[list[int]] | None = Field(None, description="Parts that search sees, when not all")
    turns: list[TurnAnswer] | None = Field(None, description="Only of a memory that holds a whole session")


class HitAnswer(MemoryAnswer):
    """A memory that was found."""

    score: float = Field(description="0 to 1, higher is better")
    snippet: str = Field(description="The passage that matched best")
    signals: dict[str, float] = Field(description="What the score is made of")


class TimeRangeAnswer(BaseModel):
    """A range of time: since is in it, until is not."""

    since: str | None
    until: str | None


class RecallAnswer(BaseModel):
    """What a search found, best first."""

    memories: list[HitAnswer]
    query: str
    mode: str
    time_range: TimeRangeAnswer | None = Field(description="What time words in the query were read as")


class ListingAnswer(BaseModel):
    """One page of a listing, newest first."""

    memories: list[MemoryAnswer]
    total: int = Field(description="How many the filter matches")
    next_cursor: str | None = Field(description="Null on the last page")


class SimilarAnswer(BaseModel):
    """An earlier memory that resembles the stored one."""

    id: str
    score: float
    snippet: str


class StoredAnswer(BaseModel):
    """The outcome of a store."""

    memory: MemoryAnswer
    created: bool = Field(description="False when the same text was there already; new tags were added to it")
    similar_to: list[SimilarAnswer]


class BatchAnswer(BaseModel):
    """The outcomes of a batch, in order."""

    stored: list[StoredAnswer]


class SessionAnswer(BaseModel):
    """The outcome of storing a session."""

    conversation_id: str
    stored: list[StoredAnswer]


class DeletedAnswer(BaseModel):
    """What went, or would go."""

    count: int
    ids: list[str]
    dry_run: bool


class TagAnswer(BaseModel):
    """A tag and its use."""

    tag: str
    count: int


class TagsAnswer(BaseModel):
    """The tags in use, most used first."""

    tags: list[TagAnswer]


class NamespaceAnswer(BaseModel):
    """A namespace and the number of memories directly in it."""

    namespace: str
    count: int


class NamespacesAnswer(BaseModel):
    """The namespaces in use, by name."""

    namespaces: list[NamespaceAnswer]


class ChangedAnswer(BaseModel):
    """How many memories changed."""

    changed: int


class TypeAnswer(BaseModel):
    """A type and its use."""

    type: str
    parent: str | None
    count: int
    namespace: str | None = Field(description="Where an own type is known, with all below; null for a built-in one")


class TypesAnswer(BaseModel):
    """The known types, by name."""

    types: list[TypeAnswer]


class NewTypeAnswer(BaseModel):
    """The type that was added."""

    type: str
    parent: str | None


class ModelAnswer(BaseModel):
    """The embedding model."""

    id: str
    dimensions: int


class StatsAnswer(BaseModel):
    """Counts over what the caller may read."""

    total: int
    superseded: int
    archived: int
    tags: int
    conversations: int
    by_type: list[TypeAnswer]
    model: ModelAnswer | None
    bytes: int | None


class ImportedAnswer(BaseModel):
    """The outcome of an import."""

    created: int
    skipped: int
    tombstones: int


class HealthAnswer(BaseModel):
    """Whether the service works; the rest only with a key that is bound to no namespace."""

    status: Literal["healthy", "degraded"]
    version: str | None = None
    uptime_s: float | None = None
    problems: list[dict[str, str]] | None = None


class ProblemAnswer(BaseModel):
    """RFC 9457: what went wrong, for people (`detail`) and programs (`code`, `field`)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | None
