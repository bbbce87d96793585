"""`retain doctor`: what was checked, what is wrong, and what to do about it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.serving import missing_server_modules

if TYPE_CHECKING:
    from retain.bootstrap import SqliteStore
    from retain.core.api import MemoryAPI
    from retain.core.ports import Embedder, Problem
    from retain.core.service import MemoryService
    from retain.domain.errors import RetainError
    from retain.settings import Settings

PROBE = "Retain checks itself: the quick brown fox jumps over the lazy dog"
PROBE_QUESTION = "which animal jumps over a dog?"
_NAMESPACE = "/retain-doctor"
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `code` is that of the error when it is wrong, None when it is well."""

    name: str
    detail: str
    code: str | None = None


@dataclass(slots=True)
class Report:
    """All checks so far."""

    checks: list[Check] = field(default_factory=list[Check])

    def good(self, name: str, detail: str) -> None:
        """Note that `name` is well."""
        self.checks.append(Check(name, detail))

    def bad(self, name: str, error: "RetainError") -> None:
        """Note that `name` is not well."""
        self.checks.append(Check(name, str(error), error.code))

    @property
    def exit_code(self) -> int:
        """0 when all is well, otherwise that of the gravest finding in the table of errors."""
        from retain.transports.errors import RENDERINGS

        return max((RENDERINGS[check.code].exit_code for check in self.checks if check.code), default=0)


def register(app: typer.Typer, /) -> None:
    """Add the command to `app`."""
    command(app, "doctor", panel="Look after it")(doctor)


async def doctor(
    call: Call,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild what can be derived; save what a damaged file still holds.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Also store, find and delete a memory.")] = False,
) -> None:
    """Check settings, database and model; the exit code is not 0 when something is wrong."""
    report = Report()
    settings = call.read.settings
    report.good("settings", str(call.read.file or "no file; environment and defaults"))
    for name, nearest in call.read.unknown.items():
        report.good("settings", f"{name} has no effect" + (f"; did you mean {nearest}?" if nearest else ""))
    if call.service_url:
        if repair:
            call.local("doctor --repair")
        await _examine_service(call, report, deep=deep)
    else:
        await _examine_file(settings, report, repair=repair, deep=deep)
    _show(report, call)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


async def _examine_service(call: Call, report: Report, *, deep: bool) -> None:
    async def counts() -> str:
        async with call.memory() as memory:
            return f"{call.service_url} answers; {(await memory.stats()).total:,} memories to be read"

    if await _checked(report, "service", counts) and deep:
        async with call.memory() as memory:
            await _checked(report, "round trip", lambda: _round_trip(memory))


async def _examine_file(settings: "Settings", report: Report, *, repair: bool, deep: bool) -> None:
    from retain.bootstrap import choose_embedder, make_service

    missing = missing_server_modules()
    report.good("server extra", 'not installed; pip install "retain[server]"' if missing else "installed")
    embedder = choose_embedder(settings)
    store = None
    try:
        store = await _examined_store(settings, embedder, report, repair=repair)
        if await _checked(report, "model", lambda: _embed(embedder)) and store is not None:
            service = make_service(store, embedder, settings)
            await _checked(report, "model of the database", lambda: _same_model(service))
            if deep:
                await _checked(report, "round trip", lambda: _round_trip(service))
    finally:
        for opened in (store, embedder):
            if opened is not None:
                await opened.aclose()


async def _examined_store(
    settings: "Settings", embedder: "Embedder", report: Report, *, repair: bool
) -> "SqliteStore | None":
    """Open and check the database; with `repair` mend it, or save what a damaged file still holds."""
    from retain.bootstrap import open_store
    from retain.domain.errors import RetainError, StoreCorruptError

    store = problems = None
    try:
        store = await open_store(settings)
        problems = await _problems(store, report, repair=repair)
    except RetainError as error:
        if not (repair and isinstance(error, StoreCorruptError)):
            report.bad("database", error)
            return store
    if store is None or problems is None:
        if store is not None:
            await store.aclose()
        store = await _rescued_store(settings, report)
        if store is None:
            return None
        problems = await store.check()
    if repair and any(problem.name == "memories-without-passages" for problem in problems):
        await _checked(report, "embedded again", lambda: _embed_unsearchable(store, embedder))
        problems = await store.check()
    await _tell(store, problems, report, repair=repair)
    return store


async def _problems(store: "SqliteStore", report: Report, *, repair: bool) -> "list[Problem] | None":
    """Return what is wrong after mending what can be mended; None when the file itself is damaged beyond that."""
    problems = await store.check()
    if not repair or not problems:
        return problems
    if any(problem.name == "file-damaged" and not problem.repairable for problem in problems):
        return None
    found = len(problems)
    problems = await store.repair()
    if any(problem.name == "file-damaged" for problem in problems):
        return None
    report.good("repair", f"{found - len(problems)} of {found} findings mended")
    return problems


async def _rescued_store(settings: "Settings", report: Report) -> "SqliteStore | None":
    from retain.bootstrap import open_store, rescue_store
    from retain.domain.errors import RetainError, StoreCorruptError

    try:
        outcome = await rescue_store(settings)
        store = await open_store(settings)
    except RetainError as error:
        report.bad("database", error)
        return None
    lost = [f"{outcome.lost:,} could not be read"] if outcome.lost else []
    lost += [f"{words} could not be read in full" for words in outcome.incomplete]
    said = f"the file was damaged: {outcome.rescued:,} memories are in a new one"
    kept = f"the damaged one is {outcome.kept}"
    if lost:
        report.bad("rescue", StoreCorruptError("; ".join([said, *lost, kept])))
    else:
        report.good("rescue", f"{said}, none was lost; {kept}")
    return store


async def _embed_unsearchable(store: "SqliteStore", embedder: "Embedder") -> str:
    """Give passages and vectors to the memories that have none."""
    from retain.core.embedding import entries

    done = 0
    await embedder.embed_query(PROBE_QUESTION)  # a remote model knows its size only after the first answer
    while batch := await store.unsearchable(_BATCH):
        made, model = await entries(embedder, batch)
        await store.complete([entry for entry in made if entry.passages], model=model)
        if not any(entry.passages for entry in made):
            break
        done += len(batch)
    return f"{done:,} memories"


async def _tell(store: "SqliteStore", problems: "list[Problem]", report: Report, *, repair: bool) -> None:
    from retain.domain.errors import StoreCorruptError
    from retain.domain.memory import Filter

    report.good("database", str(store.path))
    for problem in problems:
        hint = "; retain doctor --repair mends it" if problem.repairable and not repair else ""
        if problem.name == "file-damaged" and not problem.repairable:
            hint = "; retain doctor --repair saves what can be read"
        report.bad(problem.name, StoreCorruptError(f"{problem.detail} ({problem.count:,}){hint}"))
    if not problems:
        total = (await store.stats(Filter())).total
        report.good("integrity", f"file, passages, vectors, keywords and tags of {total:,} memories agree")


async def _checked(report: Report, name: str, look: Callable[[], Awaitable[str]]) -> bool:
    from retain.domain.errors import RetainError

    try:
        report.good(name, await look())
    except RetainError as error:
        report.bad(name, error)
        return False
    return True


async def _embed(embedder: "Embedder") -> str:
    vector = await embedder.embed_query(PROBE_QUESTION)
    return f"{embedder.model_id}, {len(vector)} dimensions"


async def _same_model(service: "MemoryService") -> str:
    await service.require_ready()
    return "the same"


async def _round_trip(memory: "MemoryAPI") -> str:
    """Store, find and delete a memory in a namespace of its own; it is deleted whatever happens."""
    from retain.domain.errors import StoreError
    from retain.domain.memory import Filter

    where = Filter(namespace=_NAMESPACE)
    stored = await memory.store(PROBE, namespace=_NAMESPACE)
    try:
        hits = (await memory.recall(PROBE_QUESTION, k=1, where=where)).hits
    finally:
        await memory.delete(stored.memory.id)
    if not hits or hits[0].memory.id != stored.memory.id:
        raise StoreError("a memory just stored was not found by meaning")
    return f"stored, found (score {hits[0].score:.2f}) and deleted"


def _show(report: Report, call: Call) -> None:
    if call.out.as_json:
        checks = [
            {"name": check.name, "ok": check.code is None, "detail": check.detail, "code": check.code}
            for check in report.checks
        ]
        call.out.json({"ok": report.exit_code == 0, "checks": checks})
        return
    from rich.table import Table
    from rich.text import Text

    from retain.transports.cli.display import one_line

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for check in report.checks:
        sign = Text(call.out.glyphs.bad, "red") if check.code else Text(call.out.glyphs.good, "green")
        grid.add_row(sign, Text(check.name), Text(one_line(check.detail)))
    call.out.show(grid)
