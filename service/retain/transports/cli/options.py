"""Options that several commands share, as dataclasses whose fields bear the names of the wire models."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

    from retain.domain.memory import Filter

M = TypeVar("M", bound="BaseModel")
FILTER_PANEL = "Which memories"


def _filter(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=FILTER_PANEL, show_default=False)


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Which memories are meant; conditions add up."""

    tags: Annotated[
        list[str] | None, _filter("--tag", "-t", metavar="TAG", help="With this tag; commas or repeated for several.")
    ] = None
    tag_match: Annotated[Literal["any", "all"], _filter("--tag-match", help="Any or all of the tags.")] = "any"
    exclude_tags: Annotated[
        list[str] | None, _filter("--exclude-tag", metavar="TAG", help="Without this tag; commas or repeated.")
    ] = None
    types: Annotated[
        list[str] | None, _filter("--type", metavar="TYPE", help="Of this type or below it; commas or repeated.")
    ] = None
    namespace: Annotated[str | None, _filter("--namespace", "-n", metavar="PATH", help="In here and below.")] = None
    since: Annotated[str | None, _filter("--since", metavar="TIME", help="Happened then or later: 2026-03-01.")] = None
    until: Annotated[str | None, _filter("--until", metavar="TIME", help="Happened before that.")] = None
    time: Annotated[str | None, _filter("--time", metavar="WORDS", help='The same in words: "last week".')] = None
    timezone: Annotated[
        str | None, _filter("--timezone", metavar="ZONE", help='Zone for times: "Europe/Berlin" or "+02:00".')
    ] = None
    agent_id: Annotated[str | None, _filter("--agent", metavar="ID", help="By this agent.")] = None
    conversation_id: Annotated[str | None, _filter("--conversation", metavar="ID", help="Of this conversation.")] = None
    metadata: Annotated[
        str | None, _filter("--metadata", metavar="JSON", help="Whose metadata holds these keys with these values.")
    ] = None
    states: Annotated[
        list[str] | None,
        _filter("--state", metavar="STATE", help="active (unless said), superseded or archived; commas or repeated."),
    ] = None

    def given(self) -> dict[str, Any]:
        """Return the conditions by the field names of the wire models, those that were not given left out."""
        values = asdict(self)
        for name in ("tags", "exclude_tags", "types", "states"):
            values[name] = tag_list(values[name])
        return {name: value for name, value in values.items() if value not in (None, [])}

    def is_empty(self) -> bool:
        """Whether nothing restricts."""
        return self.given().keys() <= {"tag_match", "timezone"}

    def to_filter(self) -> "Filter":
        """Return the filter.

        Raises:
            InvalidInputError: a condition is not understood.
        """
        from retain.transports.schemas import FilterFields

        return checked(FilterFields, self.given()).to_filter()


def tag_list(values: list[str] | None, /) -> list[str] | None:
    """Return the values of a repeatable option as one list.

    Each may hold several, separated by commas; a JSON array keeps the commas of its strings.

    Raises:
        InvalidInputError: a JSON array holds something else.
    """
    if values is None:
        return None
    from retain.transports.wire import split_texts

    return [text for value in values for text in split_texts(value, "tags")]


def checked(model: type[M], values: dict[str, Any], /) -> M:
    """Return the wire model with `values`, so that the command line refuses what the other ways in refuse.

    Raises:
        InvalidInputError: a value has the wrong form.
    """
    from pydantic import ValidationError

    from retain.transports.wire import refusal

    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise refusal(error.errors(include_url=False)) from None


IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the memory.", show_default=False)]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
