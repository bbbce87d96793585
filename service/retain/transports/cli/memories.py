"""The commands about single memories: store, session, get, update, delete."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.options import FilterOptions, IdArgument, YesOption, checked, tag_list

if TYPE_CHECKING:
    from retain.core.api import MemoryAPI
    from retain.domain.memory import Deleted, Filter, Stored

PANEL = "Store and find"
TextArgument = Annotated[
    str, typer.Argument(metavar="TEXT", help="What to remember; - reads it from standard input.", show_default=False)
]
TagsOption = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", metavar="TAG", help="A tag, or several with commas; may be repeated."),
]
MetadataOption = Annotated[str | None, typer.Option("--metadata", metavar="JSON", help='A JSON object: {"pr": 12}.')]
NamespaceOption = Annotated[str | None, typer.Option("--namespace", "-n", metavar="PATH", help="As in /team/project.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Who says so; adds the tag agent:ID.")]
OccurredOption = Annotated[
    str | None, typer.Option("--occurred-at", metavar="TIME", help="When it happened, as 2026-03-01T14:00:00Z.")
]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", metavar="ID", help="The conversation it belongs to.")
]
KeyOption = Annotated[
    str | None, typer.Option("--idempotency-key", metavar="KEY", help="Same key and text within 24 h: stored once.")
]


def register(app: typer.Typer, /) -> None:
    """Add the commands to `app`."""
    command(app, "store", panel=PANEL)(store)
    command(app, "session", panel=PANEL)(session)
    command(app, "get", panel=PANEL)(get)
    command(app, "update", panel="Change")(update)
    command(app, "delete", panel="Change")(delete)


async def store(
    call: Call,
    text: TextArgument,
    *,
    tags: TagsOption = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="observation unless said; see: retain types.")
    ] = None,
    metadata: MetadataOption = None,
    namespace: NamespaceOption = None,
    agent_id: AgentOption = None,
    conversation_id: ConversationOption = None,
    sequence: Annotated[int | None, typer.Option("--sequence", metavar="N", help="Place in the conversation.")] = None,
    occurred_at: OccurredOption = None,
    supersedes: Annotated[
        str | None, typer.Option("--supersedes", metavar="ID", help="The memory that this one replaces.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="NAME", help="Your name for it: storing again under it replaces it.")
    ] = None,
    idempotency_key: KeyOption = None,
) -> None:
    """Store a memory. The same text again is kept once; what resembles it is named."""
    from retain.domain.json_form import stored_to_json
    from retain.transports.schemas import NewMemoryFields

    values = {
        "content": text_or_stdin(text),
        "type": type,
        "tags": tag_list(tags),
        "metadata": metadata,
        "namespace": namespace,
        "agent_id": agent_id,
        "conversation_id": conversation_id,
        "sequence": sequence,
        "occurred_at": occurred_at,
        "supersedes": supersedes,
        "key": key,
    }
    new = checked(NewMemoryFields, given(values)).to_new_memory()
    async with call.memory() as memory:
        stored = await memory.store(new, idempotency_key=idempotency_key)
    if call.out.as_json:
        call.out.json(stored_to_json(stored))
    else:
        _show_stored(stored, call)


async def session(
    call: Call,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A JSON array of turns, or one turn a line; - is standard input. A turn is "
            '{"role": …, "content": …, "occurred_at": …}.',
            show_default=False,
        ),
    ],
    *,
    mode: Annotated[
        Literal["turn", "session"], typer.Option("--mode", help="One memory a turn, or one for all.")
    ] = "turn",
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="conversation unless said.")] = None,
    tags: TagsOption = None,
    metadata: MetadataOption = None,
    namespace: NamespaceOption = None,
    agent_id: AgentOption = None,
    conversation_id: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Again with more turns adds those.")
    ] = None,
    occurred_at: OccurredOption = None,
    idempotency_key: KeyOption = None,
) -> None:
    """Store a conversation."""
    from retain.domain.json_form import stored_session_to_json
    from retain.transports.cli.files import read_turns
    from retain.transports.schemas import SessionFields

    values = {
        "turns": read_turns(file),
        "mode": mode,
        "type": type,
        "tags": tag_list(tags),
        "metadata": metadata,
        "namespace": namespace,
        "agent_id": agent_id,
        "conversation_id": conversation_id,
        "occurred_at": occurred_at,
    }
    fields = checked(SessionFields, given(values))
    async with call.memory() as memory:
        outcome = await memory.store_session(
            fields.to_turns(), mode=mode, idempotency_key=idempotency_key, **fields.to_fields()
        )
    if call.out.as_json:
        call.out.json(stored_session_to_json(outcome))
    else:
        new = sum(stored.created for stored in outcome.stored)
        call.out.line(
            f"stored {counted(new, 'memory', 'memories')} of conversation {outcome.conversation_id}"
            + (f"; {len(outcome.stored) - new} were there already" if new < len(outcome.stored) else "")
        )


async def get(call: Call, memory_id: IdArgument) -> None:
    """Show one memory, whole."""
    from retain.domain.json_form import memory_to_json
    from retain.transports.cli.cards import show_memory

    async with call.memory() as memory:
        found = await memory.get(memory_id)
    if call.out.as_json:
        call.out.json(memory_to_json(found))
    else:
        show_memory(found, call.out)


async def update(
    call: Call,
    memory_id: IdArgument,
    *,
    content: Annotated[
        str | None, typer.Option("--content", metavar="TEXT", help="New text; - reads it from standard input.")
    ] = None,
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="New type.")] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="Replaces all tags; commas or repeated.")
    ] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Take all tags away.")] = False,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Replaces all metadata: a JSON object.")
    ] = None,
    occurred_at: OccurredOption = None,
    superseded_by: Annotated[
        str | None, typer.Option("--superseded-by", metavar="ID", help="The memory that replaces it.")
    ] = None,
    not_superseded: Annotated[bool, typer.Option("--not-superseded", help="Take that mark away.")] = False,
    archived: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Hide it, or show it again.", show_default=False)
    ] = None,
) -> None:
    """Change a memory; only what is given changes."""
    from retain.domain.errors import InvalidInputError
    from retain.domain.json_form import memory_to_json
    from retain.transports.cli.cards import show_memory
    from retain.transports.schemas import PatchFields

    if (tags and no_tags) or (superseded_by and not_superseded):
        raise InvalidInputError("an option and its opposite are both given", field="tags" if tags else "superseded_by")
    values = given(
        {
            "content": None if content is None else text_or_stdin(content),
            "type": type,
            "tags": tag_list(tags),
            "metadata": metadata,
            "occurred_at": occurred_at,
            "superseded_by": superseded_by,
            "archived": archived,
        }
    )
    if no_tags:
        values["tags"] = []
    if not_superseded:
        values["superseded_by"] = None
    if not values:
        raise InvalidInputError("nothing to change; give for example --content or --tag", field="patch")
    async with call.memory() as memory:
        changed = await memory.update(memory_id, checked(PatchFields, values).to_patch())
    if call.out.as_json:
        call.out.json(memory_to_json(changed))
    else:
        show_memory(changed, call.out)


async def delete(
    call: Call,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of memories.")] = None,
    *,
    where: FilterOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    expect: Annotated[int | None, typer.Option("--expect", metavar="N", help="Refuse unless so many match.")] = None,
    yes: YesOption = False,
) -> None:
    """Delete memories for good, by id or by what they have in common."""
    from retain.domain.errors import InvalidInputError
    from retain.domain.json_form import deleted_to_json
    from retain.domain.memory import STATES, Deleted, Filter

    if ids and not where.is_empty():
        raise InvalidInputError("give ids or conditions such as --tag, not both", field="ids")
    if not ids and where.is_empty() and expect is None:
        raise InvalidInputError("say what to delete: ids, or conditions such as --tag", field="ids")
    named = tuple(dict.fromkeys(ids or ()))
    condition = Filter(ids=named, states=STATES) if named else where.to_filter()
    async with call.memory() as memory:
        if len(named) == 1 and not dry_run and expect is None:
            await memory.delete(named[0])
            outcome = Deleted(named)
        elif named and not dry_run:
            outcome = await memory.delete_many(condition, expected_count=len(named) if expect is None else expect)
        else:
            outcome = await _delete(memory, condition, dry_run=dry_run, expect=expect, yes=yes, call=call)
    if call.out.as_json:
        call.out.json(deleted_to_json(outcome))
    else:
        verb = "would delete" if outcome.dry_run else "deleted"
        call.out.line(f"{verb} {counted(outcome.count, 'memory', 'memories')}")


async def _delete(
    memory: "MemoryAPI", where: "Filter", *, dry_run: bool, expect: int | None, yes: bool, call: Call
) -> "Deleted":
    if dry_run or yes or expect is not None:
        return await memory.delete_many(where, dry_run=dry_run, expected_count=expect)
    count = (await memory.delete_many(where, dry_run=True)).count
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or call.out.as_json:
        from retain.domain.errors import InvalidInputError

        raise InvalidInputError(
            f"this would delete {counted(count, 'memory', 'memories')}; confirm with --yes or --expect {count}",
            field="yes",
        )
    if count and not typer.confirm(f"Delete {counted(count, 'memory', 'memories')} for good?", err=True):
        raise typer.Exit(1)
    return await memory.delete_many(where, expected_count=count)


def _show_stored(stored: "Stored", call: Call) -> None:
    from retain.transports.cli.cards import facts, show_similar

    call.out.line(f"{'stored' if stored.created else 'there already:'} {stored.memory.id}")
    call.out.line(facts(stored.memory, call.out), style="dim")
    show_similar(stored.similar_to, call.out)


def counted(count: int, one: str, many: str) -> str:
    """Return "1 memory" or "3 memories"."""
    return f"{count:,} {one if count == 1 else many}"


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that were given: not None."""
    return {name: value for name, value in values.items() if value is not None}


def text_or_stdin(text: str) -> str:
    """Return `text`, or what standard input holds when it is "-"; one line feed at its end goes."""
    if text != "-":
        return text
    from retain.transports.cli.files import read_stdin

    return read_stdin().removesuffix("\n").removesuffix("\r")
