"""The commands that look after a database file: reembed and compact."""

from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.finding import size_text
from retain.transports.cli.memories import counted

if TYPE_CHECKING:
    from retain.core.ports import Embedder
    from retain.core.reembed import ReembeddableStore
    from retain.domain.memory import Model

PANEL = "Look after it"


def register(app: typer.Typer, /) -> None:
    """Add the commands to `app`."""
    command(app, "reembed", panel=PANEL)(reembed_database)
    command(app, "compact", panel=PANEL)(compact)


async def reembed_database(
    call: Call,
    *,
    force: Annotated[bool, typer.Option("--force", help="Also when the model is the same.")] = False,
    backup: Annotated[
        bool, typer.Option("--backup/--no-backup", help="Copy the database first, beside itself.")
    ] = True,
) -> None:
    """Change the database to the embedding model that the settings name. Stopped half-way, it goes on where it was."""
    import asyncio

    from retain.bootstrap import choose_embedder, open_store
    from retain.core.reembed import is_due

    settings = call.local("reembed")
    embedder = await asyncio.to_thread(choose_embedder, settings)
    store = await open_store(settings)
    try:
        old = await store.model()
        saved = embedded = None
        if await is_due(store, embedder, force=force):  # fetches the model: one that can't be had costs no backup
            saved = await _back_up(store, store.path, embedder, call) if backup else None
            embedded = await _embed_all(store, embedder)
        new = await store.model()
    finally:
        await store.aclose()
        await embedder.aclose()
    if call.out.as_json:
        form = None if new is None else {"id": new.id, "dimensions": new.dimensions}
        call.out.json({"embedded": embedded or 0, "model": form, "backup": None if saved is None else str(saved)})
    else:
        call.out.line(_outcome(old, new, embedded))


async def _back_up(store: "ReembeddableStore", path: Path, embedder: "Embedder", call: Call) -> Path:
    """Copy the database, unless a copy was made when the same work was begun; the old vectors are in that one."""
    from retain.domain.memory import EVERYTHING, Model

    left = await store.begin_reembedding(Model(embedder.model_id, embedder.dimensions))
    earlier = sorted(path.parent.glob(f"{escape(path.stem)}.before-reembed-*{escape(path.suffix)}"))
    if earlier and left < len(await store.ids(EVERYTHING)):
        call.out.remark(f"backup: {earlier[-1]}, of the attempt that now goes on")
        return earlier[-1]
    copy = path.with_name(f"{path.stem}.before-reembed-{datetime.now(UTC):%Y%m%dT%H%M%S}{path.suffix}")
    await store.backup(str(copy))
    call.out.remark(f"backup: {copy}")
    return copy


async def _embed_all(store: "ReembeddableStore", embedder: "Embedder") -> int:
    from retain.core.reembed import reembed
    from retain.domain.memory import EVERYTHING
    from retain.transports.cli.progress import progress_bar

    with progress_bar("embedding", len(await store.ids(EVERYTHING))) as advance:
        seen = 0

        def progress(done: int, total: int) -> None:
            nonlocal seen
            advance(done - seen)
            seen = done

        return await reembed(store, embedder, progress)


def _outcome(old: "Model | None", new: "Model | None", embedded: int | None) -> str:
    if new is None:
        return "nothing to do: the database holds no memory yet and takes the model of the first one"
    if embedded is None:
        return f"nothing to do: the database has the vectors of {new.id} ({new.dimensions} dimensions) already"
    return f"embedded {counted(embedded, 'memory', 'memories')} with {new.id} ({new.dimensions} dimensions)" + (
        f"; before: {old.id} ({old.dimensions})" if old is not None else ""
    )


async def compact(call: Call) -> None:
    """Give the space of deleted memories back to the disk."""
    from retain.bootstrap import open_store

    store = await open_store(call.local("compact"))
    try:
        before, after = await store.compact()
    finally:
        await store.aclose()
    if call.out.as_json:
        call.out.json({"bytes_before": before, "bytes_after": after})
    else:
        call.out.line(f"{size_text(before)} before, {size_text(after)} now")
