"""`retain keys`: API keys for services and agents, made and revoked on the machine that has the database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.display import one_line, quoted_if_needed

if TYPE_CHECKING:
    from retain.auth.api_keys import ApiKeys

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the key.", show_default=False)]


def register(app: typer.Typer, /) -> None:
    """Add the commands to `app`."""
    keys = typer.Typer(no_args_is_help=False)
    command(keys, "list", bare=True)(list_keys)
    command(keys, "create")(create)
    command(keys, "revoke")(revoke)
    app.add_typer(keys, name="keys", help="Make, list and revoke API keys.", rich_help_panel="Serve")


async def create(
    call: Call,
    name: NameArgument,
    *,
    read_write: Annotated[bool, typer.Option("--read-write", help="May store, change and delete too.")] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="PATH", help="All it can see: this and below.")
    ] = "/",
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="The only agent it speaks for.")] = None,
) -> None:
    """Make a key that may read, and show it this once."""
    async with _keys(call) as keys:
        key = await keys.create(name, namespace=namespace, can_write=read_write, agent_id=agent)
        (made,) = [each for each in await keys.all() if each.name == name]
    if call.out.as_json:
        call.out.json(
            {
                "name": made.name,
                "key": key,
                "namespace": made.namespace,
                "can_write": made.can_write,
                "agent_id": made.agent_id,
            }
        )
    else:
        call.out.remark("Keep it now, it can't be shown again. Clients send it as a bearer token, or take it from "
                        "RETAIN_API_KEY.")  # fmt: skip
        call.out.line(key)


async def list_keys(call: Call) -> None:
    """List the keys, never their secrets."""
    from retain.domain.json_form import time_to_json
    from retain.transports.cli.cards import plain_table, time_text

    async with _keys(call) as keys:
        known = await keys.all()
    if call.out.as_json:
        forms = [
            {
                "name": key.name,
                "namespace": key.namespace,
                "can_write": key.can_write,
                "agent_id": key.agent_id,
                "created_at": time_to_json(key.created_at),
            }
            for key in known
        ]
        call.out.json({"keys": forms})
    elif not known:
        call.out.line("no keys; a service without keys serves this machine only. Make one: retain keys create NAME")
    else:
        columns = {"name": "left", "may": "left", "namespace": "left", "agent": "left", "created": "left"}
        rows = (
            (
                quoted_if_needed(key.name),
                "read, write" if key.can_write else "read",
                one_line(key.namespace),
                quoted_if_needed(key.agent_id or ""),
                time_text(key.created_at),
            )
            for key in known
        )
        call.out.show(plain_table(columns, rows))


async def revoke(call: Call, name: NameArgument) -> None:
    """Make a key worthless at once."""
    async with _keys(call) as keys:
        await keys.revoke(name)
    if call.out.as_json:
        call.out.json({"revoked": name})
    else:
        call.out.line(f"revoked {quoted_if_needed(name)}")


@asynccontextmanager
async def _keys(call: Call) -> "AsyncGenerator[ApiKeys]":
    from retain.auth.api_keys import ApiKeys
    from retain.bootstrap import open_store
    from retain.core.service import utc_now

    store = await open_store(call.local("keys"))
    try:
        yield ApiKeys(store, utc_now)
    finally:
        await store.aclose()
