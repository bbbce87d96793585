"""What each tool takes: the wire models shared with REST, and what only a model needs (budgets and offsets)."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel, Field, ValidationError

from retain.domain.errors import InvalidInputError
from retain.domain.memory import MemoryPatch
from retain.transports.mcp.rendering import DEFAULT_MAX_CHARS, MAX_MAX_CHARS, MIN_MAX_CHARS
from retain.transports.schemas import (
    DeleteFields,
    FilterFields,
    ListFields,
    NewMemoryFields,
    PatchFields,
    SearchFields,
    SessionFields,
)
from retain.transports.wire import Whole, Wire, refusal

A = TypeVar("A", bound=BaseModel)


def _budget() -> Any:
    return Field(
        DEFAULT_MAX_CHARS, ge=MIN_MAX_CHARS, le=MAX_MAX_CHARS, description="Budget of the answer in characters"
    )


class StoreArguments(NewMemoryFields):
    """A memory to store."""

    idempotency_key: str = Field("", description="Same key and request within 24 h: stored once")


class StoreSessionArguments(SessionFields):
    """A conversation to store."""

    idempotency_key: str = ""


class SearchArguments(SearchFields):
    """A question, the filter for its answers, and which part of them."""

    offset: Whole = Field(0, ge=0, description="Hits to skip, to go on where an answer stopped")
    max_chars: Whole = _budget()


class GetArguments(Wire):
    """One memory, or a part of it."""

    id: str
    offset: Whole = Field(0, ge=0, description="First character, to go on where an answer stopped")
    max_chars: Whole = _budget()


class ListArguments(ListFields):
    """One page of a listing."""

    limit: Whole = Field(20, description="Page size, 1 to 1000")
    max_chars: Whole = _budget()


class UpdateArguments(PatchFields):
    """A memory and its new values."""

    kept_null = frozenset()

    id: str
    superseded_by: str | None = Field(None, description="Id of the memory that replaces it")

    def to_patch_of(self) -> MemoryPatch:
        """Return the patch: what was given besides the id."""
        return PatchFields(**{name: getattr(self, name) for name in self.model_fields_set - {"id"}}).to_patch()


class DeleteArguments(DeleteFields):
    """One memory by id, or all that a filter matches."""

    id: str = Field("", description="One memory, instead of a filter")

    def by_id(self) -> bool:
        """Return whether one memory is meant.

        Raises:
            InvalidInputError: both an id and a filter, or neither.
        """
        given = self.model_fields_set - {"id", "dry_run", "expected_count"}
        if self.id and given:
            raise InvalidInputError(f"give either id or a filter, not id and {min(given)}", field="id")
        if not self.id and not given and self.expected_count is None and not self.dry_run:
            raise InvalidInputError("name the memory (id), or say which ones (ids, tags, types, …)", field="id")
        return bool(self.id)


class StatsArguments(Wire):
    """What to count."""

    top_tags: Whole = Field(20, ge=0, le=200, description="How many tags to show, most used first")


def read(model: type[A], arguments: Mapping[str, Any] | None, /) -> A:
    """Return the arguments as `model`.

    Raises:
        InvalidInputError: an argument is unknown, missing or impossible; the message names it.
    """
    try:
        return model.model_validate(dict(arguments or {}))
    except ValidationError as error:
        raise refusal(cast("list[Mapping[str, Any]]", error.errors())) from None


def input_schema(model: type[BaseModel], /) -> dict[str, Any]:
    """Return the JSON schema of the arguments, without what says nothing to a model."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    compact = cast("dict[str, Any]", _compact(schema, definitions))
    compact.pop("description", None)
    required = compact.get("required", [])
    ordered = sorted(compact["properties"].items(), key=lambda entry: _rank(entry[0], required))
    return {**compact, "properties": dict(ordered), "additionalProperties": False}


def _rank(name: str, required: Sequence[str]) -> int:
    """Return the place of an argument: required ones first, then its own, then the filter that tools share."""
    return 0 if name in required else 2 if name in FilterFields.model_fields else 1


def _compact(node: object, definitions: Mapping[str, Any]) -> object:
    if isinstance(node, list):
        return [_compact(item, definitions) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("dict[str, Any]", node)
    if "$ref" in schema:
        target = dict(definitions[schema["$ref"].rsplit("/", 1)[-1]])
        target.pop("description", None)
        return _compact({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    if "anyOf" in schema:
        kept = [option for option in schema["anyOf"] if option != {"type": "null"}]
        rest = {k: v for k, v in schema.items() if k != "anyOf"}
        schema = {**kept[0], **rest} if len(kept) == 1 else {"anyOf": kept, **rest}
    result: dict[str, Any] = {}
    value: Any
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: _compact(item, definitions) for name, item in value.items()}
        elif key == "enum":
            result[key] = [item for item in value if item != ""]
        elif key == "type":  # further types are accepted, but several model APIs refuse a list of them
            result[key] = value if isinstance(value, str) else value[0]
        elif key == "default" and value in ("", None, 0, False, {}):
            continue
        elif key not in ("title", "additionalProperties", "format"):
            result[key] = _compact(value, definitions)
    return result
