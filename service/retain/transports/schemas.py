"""What callers send, as pydantic models shared by REST and MCP: the forms are checked here, the rules in the core.

Descriptions are short because MCP shows them to every agent.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal, TypeVar, cast

from pydantic import Field, WithJsonSchema

from retain.domain.errors import InvalidInputError
from retain.domain.memory import (
    ACTIVE,
    UNSET,
    Filter,
    MemoryFields,
    MemoryPatch,
    NewMemory,
    Page,
    RecallMode,
    SessionMode,
    State,
    TagMatch,
    Turn,
)
from retain.domain.time_range import load_zone
from retain.transports.wire import (
    JsonMap,
    Number,
    OptionalSpans,
    OptionalWhole,
    Texts,
    Whole,
    Wire,
    WireTime,
    split_texts,
    to_instant,
)

T = TypeVar("T")


class FilterFields(Wire):
    """Which memories are meant; conditions add up."""

    ids: Texts = Field("", description="These ids only")
    namespace: str = Field("", description="This namespace and below")
    tags: Texts = Field("", description="Whole tags, exact")
    tag_match: TagMatch = Field("any", description="Any or all of tags")
    exclude_tags: Texts = Field("", description="None of these tags")
    types: Texts = Field("", description="These types and their subtypes")
    since: WireTime = Field("", description="occurred_at from (RFC 3339 or date)")
    until: WireTime = Field("", description="occurred_at before")
    time: str = Field("", description='Words instead: "last week"')
    timezone: str = Field("", description='Zone for times, as "Europe/Berlin"')
    agent_id: str = ""
    conversation_id: str = ""
    metadata: JsonMap = Field(
        default_factory=dict, description='Fields that must equal, or {"run.score": {"$gte": 0.5}}'
    )
    states: Texts = Field("", description="active (default), superseded, archived")

    def to_filter(self) -> Filter:
        """Return the filter.

        Raises:
            InvalidInputError: a time or state is not understood.
        """
        zone = load_zone(self.timezone) if self.timezone else None
        states = frozenset(cast("list[State]", split_texts(self.states, "states")))
        return Filter(
            ids=None if self.ids == "" else tuple(split_texts(self.ids, "ids")),
            namespace=self.namespace or None,
            tags=self.tags,
            tag_match=self.tag_match,
            exclude_tags=self.exclude_tags,
            types=tuple(split_texts(self.types, "types")),
            since=to_instant(self.since, "since", zone),
            until=to_instant(self.until, "until", zone),
            time=self.time or None,
            timezone=self.timezone or None,
            agent_id=self.agent_id or None,
            conversation_id=self.conversation_id or None,
            metadata=self.metadata,
            states=states or ACTIVE,
        )


class ListFields(FilterFields):
    """One page of a listing, newest first."""

    limit: Whole = Field(50, description="Page size, 1 to 1000")
    cursor: str = Field("", description="next_cursor of the page before")

    def to_page(self) -> Page:
        """Return the page."""
        return Page(self.limit, self.cursor or None)


class SearchFields(FilterFields):
    """A question and the filter for its answers."""

    query: str = Field("", description="What to find; empty lists the newest")
    k: Whole = Field(10, description="Most hits, 1 to 1000")
    mode: RecallMode = Field("hybrid", description="Meaning and words, one of them, or literal text")
    group_by: Literal["conversation", ""] = Field("", description="Best hit of each conversation only")
    min_score: Number = Field(0.0, description="Least score, 0 to 1")
    time_from_query: bool = Field(False, description='Read words such as "last week" in query as filter')


class DeleteFields(FilterFields):
    """What to delete."""

    dry_run: bool = Field(False, description="Only say what would go")
    expected_count: OptionalWhole = Field(None, description="Refuse unless so many match")


class TagsFields(FilterFields):
    """Which tags to list."""

    minimum_use: Whole = Field(1, description="Only tags on so many memories")


class NewMemoryFields(Wire):
    """A memory to store."""

    content: str = Field(description="The text")
    type: str = Field("", description="observation (default), decision, learning, error, pattern, a subtype or own")
    tags: Texts = Field("", description="List or comma-separated")
    metadata: JsonMap = Field(default_factory=dict)
    namespace: str = Field("", description="Path such as /team/project")
    agent_id: str = Field("", description="Adds the tag agent:<id>")
    conversation_id: str = ""
    sequence: OptionalWhole = Field(None, description="Place in the conversation, from 0")
    occurred_at: WireTime = Field("", description="When it happened; default now")
    supersedes: str = Field("", description="Id of the memory this replaces")
    key: str = Field("", description="Your name for it: storing again under it replaces it")

    def to_new_memory(self) -> NewMemory:
        """Return the memory to store.

        Raises:
            InvalidInputError: `occurred_at` is no time.
        """
        return NewMemory(
            content=self.content,
            type=self.type or None,
            tags=self.tags,
            metadata=self.metadata,
            namespace=self.namespace or None,
            agent_id=self.agent_id or None,
            conversation_id=self.conversation_id or None,
            sequence=self.sequence,
            occurred_at=to_instant(self.occurred_at, "occurred_at"),
            supersedes=self.supersedes or None,
            key=self.key or None,
        )


class IndexedMemoryFields(NewMemoryFields):
    """A memory to store, with what only programs say of it."""

    searchable: OptionalSpans = Field(
        None, description="Parts [start, end) of content that search sees; none at all when empty, all by default"
    )
    if_updated_at: WireTime = Field("", description="With key: store only when its updated_at is still this")
    if_absent: bool = Field(False, description="With key: store only when nothing is stored under it")
    keep_tags: bool = Field(False, description="With key: tags of the memory that is replaced stay")

    def to_new_memory(self) -> NewMemory:
        """Return the memory to store.

        Raises:
            InvalidInputError: a time is none.
        """
        return replace(
            super().to_new_memory(),
            searchable=self.searchable,
            if_updated_at=to_instant(self.if_updated_at, "if_updated_at"),
            if_absent=self.if_absent,
            keep_tags=self.keep_tags,
        )


class BatchFields(Wire):
    """Several memories, stored in one transaction."""

    memories: list[IndexedMemoryFields] = Field(description="Up to 1000; may be empty with delete")
    delete: Texts = Field("", description="Ids to remove first, in the same transaction")

    def to_new_memories(self) -> list[NewMemory]:
        """Return the memories to store; an error names the place of the faulty one."""
        return [_placed("memories", place, item.to_new_memory) for place, item in enumerate(self.memories)]


class TurnFields(Wire):
    """One message of a session."""

    role: str = Field(description="user, assistant, …")
    content: str
    occurred_at: WireTime = ""

    def to_turn(self) -> Turn:
        """Return the turn."""
        return Turn(role=self.role, content=self.content, occurred_at=to_instant(self.occurred_at, "occurred_at"))


class SessionFields(Wire):
    """A conversation to store."""

    turns: list[TurnFields] = Field(description="In order")
    mode: SessionMode = Field("turn", description="One memory a turn, or one for the session")
    type: str = Field("", description="Default conversation")
    tags: Texts = ""
    metadata: JsonMap = Field(default_factory=dict)
    namespace: str = ""
    agent_id: str = ""
    conversation_id: str = Field("", description="Made up when empty; again with more turns adds those")
    occurred_at: WireTime = ""

    def to_turns(self) -> list[Turn]:
        """Return the turns; an error names the place of the faulty one."""
        return [_placed("turns", place, item.to_turn) for place, item in enumerate(self.turns)]

    def to_fields(self) -> MemoryFields:
        """Return what is said of all the memories of the session."""
        fields: MemoryFields = {"tags": self.tags, "metadata": self.metadata}
        if self.type:
            fields["type"] = self.type
        if self.namespace:
            fields["namespace"] = self.namespace
        if self.agent_id:
            fields["agent_id"] = self.agent_id
        if self.conversation_id:
            fields["conversation_id"] = self.conversation_id
        if (occurred_at := to_instant(self.occurred_at, "occurred_at")) is not None:
            fields["occurred_at"] = occurred_at
        return fields


class PatchFields(Wire):
    """New values; what is left out stays. Only `superseded_by` may be null, which takes the mark away."""

    kept_null = frozenset(("content", "type", "tags", "metadata", "occurred_at", "superseded_by", "archived"))
    kept_empty = frozenset()

    content: str = ""
    type: str = ""
    tags: Texts = Field("", description="Replace all tags")
    metadata: JsonMap = Field(default_factory=dict, description="Replaces all metadata")
    occurred_at: WireTime = ""
    superseded_by: Annotated[str | None, WithJsonSchema({"type": ["string", "null"]})] = Field(
        None, description="Id of the memory that replaces it; null takes the mark away"
    )
    archived: bool = Field(False, description="Hide, or show again")

    def to_patch(self) -> MemoryPatch:
        """Return the patch: fields that were not sent are `UNSET`.

        Raises:
            InvalidInputError: `occurred_at` is no time.
        """
        values = {name: getattr(self, name) for name in self.model_fields_set & set(PatchFields.model_fields)}
        if "occurred_at" in values:
            values["occurred_at"] = to_instant(self.occurred_at, "occurred_at") or UNSET
        return MemoryPatch(**values)


class CheckedPatchFields(PatchFields):
    """New values, with what only programs say of them."""

    if_updated_at: WireTime = Field("", description="Change nothing unless its updated_at is still this")

    def to_patch(self) -> MemoryPatch:
        """Return the patch: fields that were not sent are `UNSET`.

        Raises:
            InvalidInputError: a time is none.
        """
        return replace(super().to_patch(), if_updated_at=to_instant(self.if_updated_at, "if_updated_at"))


class MergeTagsFields(Wire):
    """Tags to replace by one."""

    sources: Texts
    target: str


class RenameTagFields(Wire):
    """A tag and its new name."""

    old: str
    new: str


class NewTypeFields(Wire):
    """An own type."""

    type: str = Field(description="Its name")
    parent: str = Field("", description="The base type it belongs to")


def _placed(name: str, place: int, convert: Callable[[], T]) -> T:
    try:
        return convert()
    except InvalidInputError as error:
        raise type(error)(f"{name}[{place}]: {error}", field=error.field) from None
