"""CrewAI's records and Retain's memories: the same thing told in two ways."""

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from crewai.memory.types import MemoryRecord
from crewai.memory.utils import normalize_scope_path

import retain

MARK = "crewai"
"""The key of a memory's metadata below which the fields of a record are that Retain has no place for."""
_MOST_TAG_CHARS = 100
_AGENT_SEGMENT = "agent"
_MOST_AGENT_CHARS = 64


class Scopes:
    """Scopes of CrewAI as namespaces of Retain below `root`, and back. Both are compared by whole segments."""

    def __init__(self, root: str) -> None:
        if not isinstance(cast("object", root), str) or not root.strip():
            raise retain.InvalidInputError("namespace must be a path such as /crewai", field="namespace")
        self.root = normalize_scope_path(unicodedata.normalize("NFC", root))

    def namespace(self, scope: str | None, /) -> str:
        """Return where the records of a scope lie.

        Raises:
            InvalidInputError: the scope is no text.
        """
        if scope is not None and not isinstance(cast("object", scope), str):
            raise retain.InvalidInputError(f"scope must be text, not {type(scope).__name__}", field="scope")
        path = normalize_scope_path(unicodedata.normalize("NFC", scope or ""))
        if path == "/":
            return self.root
        return path if self.root == "/" else self.root + path

    def scope(self, namespace: str, /) -> str:
        """Return the scope whose records lie in `namespace`."""
        return namespace if self.root == "/" else namespace.removeprefix(self.root) or "/"

    def child(self, namespace: str, parent: str, /) -> str | None:
        """Return the scope one step below the namespace `parent` that leads to `namespace`; None for `parent`."""
        below = namespace.removeprefix("" if parent == "/" else parent).strip("/")
        if not below:
            return None
        step = below.split("/", 1)[0]
        return self.scope(f"/{step}" if parent == "/" else f"{parent}/{step}")


def naive(moment: datetime, /) -> datetime:
    """Return a moment as CrewAI has it: UTC without saying so."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def tag_of(category: str, /) -> str:
    """Return the tag of a category. Nearly always the same; a tag has no spaces around it and an upper length."""
    if not isinstance(cast("object", category), str):
        raise retain.InvalidInputError(f"a category must be text, not {type(category).__name__}", field="categories")
    return unicodedata.normalize("NFC", category).strip()[:_MOST_TAG_CHARS].strip() or "-"


def memory_of(
    record: MemoryRecord,
    scopes: Scopes,
    /,
    *,
    old: retain.Memory | None,
    keep_tags: bool,
    searchable: Sequence[tuple[int, int]] | None,
) -> retain.NewMemory:
    """Return a record as a memory to store in place of `old`; what others put into its metadata stays."""
    namespace = scopes.namespace(record.scope)
    before = None if old is None or old.id != retain.id_of(namespace, record.id) else old.updated_at
    return retain.NewMemory(
        content=record.content,
        tags=[*_tags(record), *(_foreign_tags(old) if keep_tags and old is not None else ())],
        metadata={**({} if old is None else old.metadata), MARK: _fields(record)},
        namespace=namespace,
        agent_id=_agent(namespace),
        occurred_at=naive(record.created_at).replace(tzinfo=UTC),
        key=record.id,
        searchable=searchable,
        if_updated_at=before,
    )


def patch_of(record: MemoryRecord, old: retain.Memory, /) -> retain.MemoryPatch:
    """Return a record as a change of a memory that has its content, its scope and its vector already."""
    return retain.MemoryPatch(
        tags=_tags(record),
        metadata={**old.metadata, MARK: _fields(record)},
        occurred_at=naive(record.created_at).replace(tzinfo=UTC),
        if_updated_at=old.updated_at,
    )


def touched(memory: retain.Memory, at: datetime, /) -> retain.MemoryPatch | None:
    """Return the change that notes a use of a record; None for a memory that CrewAI did not store."""
    fields = _stored_fields(memory)
    if "id" not in fields:
        return None
    noted = {**memory.metadata, MARK: {**fields, "last_accessed": _text(at)}}
    return retain.MemoryPatch(metadata=noted, if_updated_at=memory.updated_at)


def _tags(record: MemoryRecord) -> list[str]:
    return list(dict.fromkeys(map(tag_of, record.categories)))


def _foreign_tags(memory: retain.Memory) -> list[str]:
    """Return the tags that were not categories when CrewAI stored the record."""
    own = set(map(tag_of, _names(_stored_fields(memory))))
    return [tag for tag in memory.tags if tag not in own and tag != f"agent:{memory.agent_id}"]


def _fields(record: MemoryRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "categories": list(record.categories),
        "importance": record.importance,
        "source": record.source,
        "private": record.private,
        "created_at": _text(record.created_at),
        "last_accessed": _text(record.last_accessed),
        "metadata": dict(record.metadata),
    }


def record_of(memory: retain.Memory, scopes: Scopes, /) -> MemoryRecord:
    """Return a memory as a record; one that came another way has its tags as categories and its own metadata."""
    try:
        return _record(memory, scopes, _stored_fields(memory))
    except ValueError:  # somebody else wrote below our key: the memory itself is still one
        return _record(memory, scopes, {})


def _record(memory: retain.Memory, scopes: Scopes, fields: Mapping[str, Any]) -> MemoryRecord:
    return MemoryRecord(
        id=memory.key if memory.key is not None and "id" in fields else memory.id,
        content=memory.content,
        scope=scopes.scope(memory.namespace),
        categories=_categories(memory, _names(fields)),
        metadata=fields.get("metadata", {}) if fields else dict(memory.metadata),
        importance=fields.get("importance", 0.5),
        created_at=_moment(fields.get("created_at"), memory.occurred_at),
        last_accessed=_moment(fields.get("last_accessed"), memory.updated_at),
        source=fields.get("source"),
        private=fields.get("private", False),
    )


def _stored_fields(memory: retain.Memory) -> Mapping[str, Any]:
    fields = memory.metadata.get(MARK)
    return cast("Mapping[str, Any]", fields) if isinstance(fields, Mapping) else {}


def _names(fields: Mapping[str, Any]) -> list[str]:
    """Return the categories that CrewAI stored; somebody else may have written something else there."""
    names: object = fields.get("categories")
    return [name for name in cast("list[object]", names) if isinstance(name, str)] if isinstance(names, list) else []


def _categories(memory: retain.Memory, names: Sequence[str]) -> list[str]:
    """Return the categories as they were given; tags that were added or taken away since count too."""
    tags = dict.fromkeys(tag for tag in memory.tags if tag != f"agent:{memory.agent_id}")
    kept = [name for name in names if tag_of(name) in tags]
    named = set(map(tag_of, kept))
    return [*kept, *(tag for tag in tags if tag not in named)]


def _agent(namespace: str) -> str | None:
    """Return the agent that CrewAI wrote into a scope, as in /crew/research/agent/writer."""
    segments = namespace.split("/")
    if len(segments) < 2 or segments[-2] != _AGENT_SEGMENT or len(segments[-1]) > _MOST_AGENT_CHARS:
        return None
    return segments[-1].strip()


def _text(moment: datetime) -> str:
    return naive(moment).isoformat(timespec="microseconds")


def _moment(text: object, otherwise: datetime) -> datetime:
    return datetime.fromisoformat(text) if isinstance(text, str) else naive(otherwise)
