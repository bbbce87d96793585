"""The commands about the words that memories are sorted by: tags and types."""

from typing import Annotated

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.display import quoted_if_needed
from retain.transports.cli.memories import counted
from retain.transports.cli.options import FilterOptions

PANEL = "Look after it"


def register(app: typer.Typer, /) -> None:
    """Add the commands to `app`."""
    tags = typer.Typer(no_args_is_help=False)
    command(tags, "list", bare=True)(list_tags)
    command(tags, "rename")(rename)
    command(tags, "merge")(merge)
    app.add_typer(tags, name="tags", help="List the tags in use; rename and merge them.", rich_help_panel=PANEL)
    command(app, "types", panel=PANEL)(types)


async def list_tags(
    call: Call,
    *,
    minimum: Annotated[int, typer.Option("--min", metavar="N", help="Only tags on so many memories.")] = 1,
    where: FilterOptions,
) -> None:
    """List the tags in use, most used first."""
    from retain.domain.json_form import tag_count_to_json
    from retain.transports.cli.cards import plain_table

    async with call.memory() as memory:
        tags = await memory.tags(where.to_filter(), minimum_use=minimum)
    if call.out.as_json:
        call.out.json({"tags": [tag_count_to_json(tag) for tag in tags]})
    else:
        rows = [(quoted_if_needed(tag.tag), f"{tag.count:,}") for tag in tags]
        call.out.show(plain_table({"tag": "left", "memories": "right"}, rows))


async def rename(
    call: Call,
    old: Annotated[str, typer.Argument(metavar="OLD", show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", show_default=False)],
) -> None:
    """Give a tag another name, everywhere. A NEW that is in use takes OLD in."""
    await _merge(call, [old], new)


async def merge(
    call: Call,
    sources: Annotated[list[str], typer.Argument(metavar="TAG...", show_default=False)],
    *,
    target: Annotated[str, typer.Option("--into", metavar="TAG", help="The tag that stays.", show_default=False)],
) -> None:
    """Replace several tags by one, everywhere."""
    await _merge(call, sources, target)


async def _merge(call: Call, sources: list[str], target: str) -> None:
    async with call.memory() as memory:
        changed = await memory.merge_tags(sources, target)
    if call.out.as_json:
        call.out.json({"changed": changed})
    else:
        call.out.line(f"changed {counted(changed, 'memory', 'memories')}")


async def types(
    call: Call,
    *,
    add: Annotated[str | None, typer.Option("--add", metavar="NAME", help="Add a type of your own.")] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", metavar="TYPE", help="The base type that it belongs to.")
    ] = None,
) -> None:
    """List the types of memories with their use, or add one."""
    from retain.domain.errors import InvalidInputError
    from retain.domain.json_form import type_count_to_json
    from retain.transports.cli.cards import plain_table

    if parent and not add:
        raise InvalidInputError("--parent goes with --add NAME", field="parent")
    async with call.memory() as memory:
        if add is not None:
            await memory.register_type(add, parent=parent)
        known = await memory.types()
    if call.out.as_json:
        call.out.json({"types": [type_count_to_json(each) for each in known]})
    else:
        rows = [(quoted_if_needed(each.type), each.parent or "", f"{each.count:,}") for each in known]
        call.out.show(plain_table({"type": "left", "belongs to": "left", "memories": "right"}, rows))
