"""What a memory is, what is asked of it, and what comes back: plain immutable values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, TypedDict

from retain.domain.ontology import BUILT_IN, DEFAULT_TYPE, OwnType
from retain.domain.text import ROOT
from retain.domain.time_range import TimeRange

Metadata: TypeAlias = Mapping[str, Any]
"""A JSON object."""

State = Literal["active", "superseded", "archived"]
RecallMode = Literal["hybrid", "semantic", "keyword", "exact"]
SessionMode = Literal["turn", "session"]
TagMatch = Literal["any", "all"]

STATES: Final[frozenset[State]] = frozenset(("active", "superseded", "archived"))
ACTIVE: Final[frozenset[State]] = frozenset(("active",))
RECALL_MODES: Final[tuple[RecallMode, ...]] = ("hybrid", "semantic", "keyword", "exact")
MAX_K = 1_000
"""Most hits one recall returns."""
MAX_PAGE = 1_000
"""Most memories one page of a listing holds."""
MAX_BATCH = 1_000
"""Most memories one call stores in one transaction."""
MAX_KEY_CHARS = 500
"""Longest key, in characters."""
MAX_METADATA_BYTES = 1_048_576
"""Largest metadata, in bytes of its JSON form."""


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Where one turn of a session lies in the content: characters [start, end)."""

    role: str
    start: int
    end: int
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """One stored memory. Times are aware UTC, to the millisecond.

    Attributes:
        id: UUIDv7; stays the same over edits.
        content: The text exactly as it was stored.
        content_hash: SHA-256 of the NFC form of `content`.
        occurred_at: When it happened; time filters use it. Equals `created_at` unless the caller said otherwise.
        sequence: Place within the conversation, from 0.
        key: The name its owner gave it, unique in the namespace; None for most.
        searchable: The parts [start, end) of the content that search sees; None for all of it, () for none.
        turns: For a memory that holds a whole session: where each of its turns lies.
        superseded_by: Id of the memory that replaced this one. Such memories are hidden unless asked for.
        archived_at: When it was put away. Such memories are hidden unless asked for.
    """

    id: str
    content: str
    content_hash: str
    created_at: datetime
    updated_at: datetime
    occurred_at: datetime
    type: str = DEFAULT_TYPE
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, Any])
    namespace: str = ROOT
    agent_id: str | None = None
    conversation_id: str | None = None
    sequence: int | None = None
    key: str | None = None
    searchable: tuple[tuple[int, int], ...] | None = None
    turns: tuple[TurnSpan, ...] = ()
    superseded_by: str | None = None
    archived_at: datetime | None = None

    @property
    def state(self) -> State:
        """ "superseded" wins over "archived"; otherwise "active"."""
        if self.superseded_by is not None:
            return "superseded"
        return "archived" if self.archived_at is not None else "active"


class MemoryFields(TypedDict, total=False):
    """What a caller may say about a new memory besides its content. See `NewMemory`."""

    type: str | None
    tags: Sequence[str] | str
    metadata: Metadata
    namespace: str | None
    agent_id: str | None
    conversation_id: str | None
    sequence: int | None
    occurred_at: datetime | None
    supersedes: str | None
    key: str | None
    searchable: Sequence[tuple[int, int]] | None
    if_updated_at: datetime | None
    if_absent: bool
    keep_tags: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory to be stored, as the caller gives it; `MemoryService` checks and completes it.

    Attributes:
        type: A known type; None means "observation".
        namespace: None means the caller's own namespace ("/" for the local user).
        agent_id: Also adds the tag `agent:<id>`.
        supersedes: Id of the memory that this one replaces, which is kept as superseded.
        key: Your own name for the memory, unique in its namespace. Storing again under the same key replaces the
            memory: all fields are the new ones, id and `created_at` stay. Two keys may hold the same text.
        searchable: Parts of the content that search sees, as characters [start, end) in order; each is embedded on
            its own. None means all of it, an empty sequence none: such a memory is listed and never found.
        if_updated_at: Store only when the memory under the key still has this `updated_at`: nobody was faster.
        if_absent: Store only when nothing is stored under the key.
        keep_tags: Whether tags that the memory under the key has stay, beside the new ones.
    """

    content: str
    type: str | None = None
    tags: Sequence[str] | str = ()
    metadata: Metadata = field(default_factory=dict[str, Any])
    namespace: str | None = None
    agent_id: str | None = None
    conversation_id: str | None = None
    sequence: int | None = None
    occurred_at: datetime | None = None
    supersedes: str | None = None
    key: str | None = None
    searchable: Sequence[tuple[int, int]] | None = None
    if_updated_at: datetime | None = None
    if_absent: bool = False
    keep_tags: bool = False


class Unset(Enum):
    """The type of `UNSET`: "leave this field as it is", which None can't say."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPatch:
    """A partial update: only the fields given change. `tags` and `metadata` replace the old ones whole.

    With `if_updated_at`, nothing changes unless the memory still has that `updated_at`: nobody has edited it since.
    """

    content: str | Unset = UNSET
    type: str | Unset = UNSET
    tags: Sequence[str] | str | Unset = UNSET
    metadata: Metadata | Unset = UNSET
    occurred_at: datetime | Unset = UNSET
    superseded_by: str | Unset | None = UNSET
    archived: bool | Unset = UNSET
    if_updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories are meant. Conditions add up; one that is left out does not restrict.

    Attributes:
        ids: These memories only.
        namespace: This namespace and all below it.
        tags: Whole tags, compared exactly; `tag_match` says whether any or all of them must be there.
        exclude_tags: None of these.
        types: These types and their subtypes.
        since, until: `occurred_at` in [since, until).
        time: The same as words, such as "last week"; can't be combined with `since` or `until`.
        timezone: Zone for `time`: an IANA name or an offset such as "+02:00". None: the service's setting.
        metadata: What fields of the metadata must be, by path: {"source": "wiki", "run.score": {"$gte": 0.5}}.
            Operators are in `retain.domain.metadata_filter`.
        states: By default only active memories: not superseded and not archived.
    """

    ids: tuple[str, ...] | None = None
    namespace: str | None = None
    tags: Sequence[str] | str = ()
    tag_match: TagMatch = "any"
    exclude_tags: Sequence[str] | str = ()
    types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    time: str | None = None
    timezone: str | None = None
    agent_id: str | None = None
    conversation_id: str | None = None
    metadata: Metadata = field(default_factory=dict[str, Any])
    states: frozenset[State] = ACTIVE


EVERYTHING: Final = Filter(states=STATES)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing, newest first by (created_at, id). `cursor` is `Listing.next_cursor` of the page before."""

    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One page. `total` counts all that the filter matches; `next_cursor` is None on the last page."""

    memories: tuple[Memory, ...]
    total: int
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a content that has a vector of its own: characters [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory found.

    Attributes:
        score: In [0, 1], higher is better; 1 for the same text, near 0 for unrelated text; comparable
            between queries, so that a fixed `min_score` works. See docs/recall.md.
        snippet: The passage that matched best.
        signals: What the score is made of, by name, each in [0, 1]; in mode "semantic" the cosine, in [-1, 1].
    """

    memory: Memory
    score: float
    snippet: str
    signals: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Recall:
    """What a recall found, best first; ties are ordered by id, newest first.

    Attributes:
        query: The text that was searched, without the time words when those were asked for.
        time_range: The range that time words in the query were read as.
    """

    hits: tuple[Hit, ...]
    query: str
    mode: RecallMode
    time_range: TimeRange | None = None


@dataclass(frozen=True, slots=True)
class Similar:
    """An earlier memory that resembles one just stored; `score` is the cosine in [0, 1]."""

    id: str
    score: float
    snippet: str


@dataclass(frozen=True, slots=True)
class Stored:
    """The outcome of a store.

    `created` is False when the same text was there already (new tags were added to it), or a memory of that key (it
    was replaced).
    """

    memory: Memory
    created: bool
    similar_to: tuple[Similar, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a session, as the caller gives it."""

    role: str
    content: str
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """The outcome of storing a session: one memory in mode "session", one a turn in mode "turn"."""

    conversation_id: str
    stored: tuple[Stored, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome of a delete: the ids that went, or would go with `dry_run`."""

    ids: tuple[str, ...]
    dry_run: bool = False

    @property
    def count(self) -> int:
        """How many memories went, or would go."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class TagCount:
    """A tag and the number of memories that carry it."""

    tag: str
    count: int


@dataclass(frozen=True, slots=True)
class NamespaceCount:
    """A namespace and the number of memories directly in it."""

    namespace: str
    count: int


@dataclass(frozen=True, slots=True)
class TypeCount:
    """A type, the base type it belongs to (None for a base type or an own one), and its use.

    Attributes:
        namespace: Where an own type was registered: it is known there and below. None for a built-in type.
    """

    type: str
    parent: str | None
    count: int
    namespace: str | None = None


def counted_types(own: Iterable[OwnType], used: Mapping[str, int], /) -> list[TypeCount]:
    """Return built-in and own types with their use, by name; types in use that nobody knows any more as well."""
    registered = [
        TypeCount(name, parent, used.get(name, 0), namespace) for name, parent, namespace in own if name not in BUILT_IN
    ]
    named = {count.type for count in registered}
    others = [TypeCount(name, BUILT_IN.get(name), used.get(name, 0)) for name in {*BUILT_IN, *used} - named]
    return sorted([*registered, *others], key=lambda count: (count.type, count.namespace or ""))


EventKind = Literal["stored", "updated", "deleted"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `seq` grows by commit order; `tags` and `type` are those at reading time, empty once deleted."""

    seq: int
    kind: EventKind
    memory_id: str
    namespace: str
    at: datetime
    type: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What stays of a deleted memory, for later sync: no content."""

    id: str
    content_hash: str
    namespace: str
    deleted_at: datetime


@dataclass(frozen=True, slots=True)
class Model:
    """Which embedding model made the vectors, and their size."""

    id: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts over what the caller may read.

    Attributes:
        total: Active memories; the same number that a listing without a filter gives.
        bytes: Size of the database on disk, or None for a caller bound to a namespace or a store without a file.
    """

    total: int
    superseded: int
    archived: int
    tags: int
    conversations: int
    by_type: tuple[TypeCount, ...]
    model: Model | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome of an import: how many memories were new, were there already, and how many tombstones came."""

    created: int
    skipped: int
    tombstones: int
