"""What each tool takes: flat, with one short description a field, since every agent pays for reading them.

Ranges that the core checks stand in the schema for the model's benefit and are left to the core to enforce, so
that an error has the same code and words in every way in.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened
from retain.domain.memory import (
    MAX_K,
    MAX_PAGE,
    UNSET,
    Filter,
    MemoryFields,
    MemoryPatch,
    NewMemory,
    RecallMode,
    SessionMode,
    State,
    TagMatch,
    Turn,
)
from retain.domain.time_range import parse_instant
from retain.transports.mcp.rendering import DEFAULT_MAX_CHARS, MAX_MAX_CHARS, MIN_MAX_CHARS


def _range(low: int, high: int | None = None) -> dict[str, Any]:
    return {"minimum": low} if high is None else {"minimum": low, "maximum": high}


Id = Annotated[str, Field(description="Id of the memory.")]
Metadata = Annotated[dict[str, Any] | None, Field(description="JSON object of your own.")]
MaxChars = Annotated[
    int,
    Field(
        ge=MIN_MAX_CHARS,
        le=MAX_MAX_CHARS,
        description="Longest answer in characters; what is left out is announced.",
    ),
]


class Arguments(BaseModel):
    """Arguments of a tool. "" and null mean "not given", since models fill in every field; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _drop_what_is_not_given(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        given = cast("dict[str, object]", value)
        return {
            name: item
            for name, item in given.items()
            if not (item in ("", None) and name in cls.model_fields and not cls.model_fields[name].is_required())
        }


class Condition(Arguments):
    """Which memories are meant. Conditions add up."""

    tags: Annotated[list[str] | str | None, Field(description="Exact tags.")] = None
    tag_match: Annotated[TagMatch, Field(description="Any or all of tags.")] = "any"
    exclude_tags: Annotated[list[str] | str | None, Field(description="None of these tags.")] = None
    types: Annotated[list[str] | None, Field(description="These types and their subtypes.")] = None
    time: Annotated[str | None, Field(description='When it happened, in words: "last week", "since March".')] = None
    since: Annotated[str | None, Field(description="Happened at or after, RFC 3339.")] = None
    until: Annotated[str | None, Field(description="Happened before, RFC 3339.")] = None
    timezone: Annotated[str | None, Field(description='Zone of time: IANA name or "+02:00".')] = None
    conversation_id: str | None = None
    agent_id: str | None = None
    namespace: Annotated[str | None, Field(description="This namespace and below.")] = None
    metadata: Annotated[dict[str, Any] | None, Field(description="Top-level keys that equal these values.")] = None
    states: Annotated[list[State] | None, Field(description="Default: active only.")] = None

    def where(self) -> Filter:
        """Return the filter that the arguments say."""
        states = Filter.states if not self.states else frozenset(self.states)
        return Filter(
            tags=self.tags or (),
            tag_match=self.tag_match,
            exclude_tags=self.exclude_tags or (),
            types=tuple(self.types or ()),
            time=self.time,
            since=None if self.since is None else parse_instant(self.since, field="since"),
            until=None if self.until is None else parse_instant(self.until, field="until"),
            timezone=self.timezone,
            conversation_id=self.conversation_id,
            agent_id=self.agent_id,
            namespace=self.namespace,
            metadata=self.metadata or {},
            states=states,
        )
