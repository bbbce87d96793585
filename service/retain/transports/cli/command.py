"""How a function becomes a command: the options that all commands share, and groups of options as dataclasses."""

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer

from retain.transports.cli.output import Output

if TYPE_CHECKING:
    from retain.core.api import MemoryAPI
    from retain.settings import Settings, SettingsWithSources

CONNECTION_PANEL = "Where to, and how to print"


@dataclass(frozen=True, slots=True)
class Connection:
    """The options of every command; given before or after the command's name."""

    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=CONNECTION_PANEL)] = (
        False
    )
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            "-d",
            metavar="URL",
            help="The database: sqlite:///PATH or a path. (env RETAIN_DATABASE_URL)",
            rich_help_panel=CONNECTION_PANEL,
        ),
    ] = None
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Use the service that runs there instead of a database. (env RETAIN_URL, RETAIN_API_KEY)",
            rich_help_panel=CONNECTION_PANEL,
        ),
    ] = None
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The settings file instead of retain.toml. (env RETAIN_CONFIG)",
            rich_help_panel=CONNECTION_PANEL,
        ),
    ] = None

    def merged(self, outer: object) -> "Connection":
        """Return these options, completed by those given further to the left."""
        if not isinstance(outer, Connection):
            return self
        return Connection(
            self.json or outer.json,
            self.database or outer.database,
            self.url or outer.url,
            self.config or outer.config,
        )


class Call:
    """One run of a command: its settings, its memory, its output."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.out = Output(as_json=connection.json)
        self.arguments: dict[str, object] = {}

    @cached_property
    def read(self) -> "SettingsWithSources":
        """The settings with their sources; a misspelt variable is reported on stderr.

        Raises:
            InvalidInputError: a setting is impossible, or both a database and a service are given.
        """
        from retain.domain.errors import InvalidInputError
        from retain.domain.ids import shortened
        from retain.settings import SettingsWithSources
        from retain.transports.json_text import is_whole

        options = self.connection
        if options.database and options.url:
            raise InvalidInputError("give --database or --url, not both", field="url")
        given = {"database_url": options.database, "url": options.url, **self.arguments}
        read = SettingsWithSources.read(given, config_file=options.config)
        for name in type(read.settings).model_fields:
            value: object = getattr(read.settings, name)
            if isinstance(value, str) and not is_whole(value):
                raise InvalidInputError(f"{name} is not UTF-8 text: {shortened(value)}; rename it", field=name)
        for name, nearest in read.unknown.items():
            if nearest:
                self.out.remark(f"warning: {name} is no setting and has no effect; did you mean {nearest}?")
        _log(read)
        return read

    @property
    def service_url(self) -> str | None:
        """The service to talk to; None for a database, which a `--database` always means."""
        return None if self.connection.database else self.read.settings.url

    def local(self, what: str) -> "Settings":
        """Return the settings for work on the database file itself.

        Raises:
            InvalidInputError: a service was named instead.
        """
        from retain.domain.errors import InvalidInputError

        if self.service_url:
            raise InvalidInputError(
                f"{what} works on the database file, not through {self.service_url}; run it where the file is, with "
                "--database",
                field="url",
            )
        return self.read.settings

    @asynccontextmanager
    async def memory(self) -> "AsyncGenerator[MemoryAPI]":
        """Open the database, or connect to the service, for as long as the block lasts."""
        settings = self.read.settings
        if self.service_url:
            from retain.opening import connect

            key = settings.api_key
            async with connect(self.service_url, None if key is None else key.get_secret_value()) as memory:
                yield memory
        else:
            from retain.bootstrap import open_service

            service = await open_service(settings)
            try:
                yield service
            finally:
                await service.aclose()


def _log(read: "SettingsWithSources") -> None:
    from retain.transports.logs import configure_logging

    configure_logging(read.settings.log_level if read.sources["log_level"] != "default" else "warning")


CommandFunction = Callable[..., Coroutine[Any, Any, None] | None]


def command(
    app: typer.Typer, name: str = "", /, *, panel: str | None = None, bare: bool = False
) -> Callable[[CommandFunction], CommandFunction]:
    """Register a function `(call, *, …)` as a command.

    Its first parameter is the `Call`. A parameter whose type is a dataclass stands for one option a field; the
    function gets the dataclass filled. `bare` also makes it what the group does when no command is named.
    """

    def register(function: CommandFunction) -> CommandFunction:
        run = _with_options(function)
        if name:
            app.command(name, rich_help_panel=panel)(run)
        if bare:
            app.callback(invoke_without_command=True)(run)
        return function

    return register


def register_root(app: typer.Typer, /) -> Callable[[CommandFunction], CommandFunction]:
    """Register a function `(call, *, …)` whose options come before the name of any command."""

    def register(function: CommandFunction) -> CommandFunction:
        app.callback()(_with_options(function))
        return function

    return register


def _with_options(function: CommandFunction) -> Callable[..., None]:
    signature = inspect.signature(function, eval_str=True)
    declared = list(signature.parameters.values())[1:]
    groups: dict[str, type[Any]] = {"": Connection}
    for each in declared:
        if isinstance(each.annotation, type) and is_dataclass(each.annotation):
            groups[each.name] = each.annotation

    def run(ctx: typer.Context, **values: Any) -> None:
        filled = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        connection = cast("Connection", filled.pop("")).merged(ctx.obj)
        if ctx.invoked_subcommand is not None:
            ctx.obj = connection
            return
        outcome = function(Call(connection), **values, **filled)
        if outcome is not None:
            _run(outcome)

    parameters = [inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for each in declared:
        if each.name in groups:
            parameters += _option_parameters(groups[each.name])
        else:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters += _option_parameters(Connection)
    run.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = inspect.getdoc(function)
    return run


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or to Ctrl-C, which also interrupts a read from the terminal; what was opened is closed."""
    import asyncio
    import signal

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # asyncio's own handler only cancels the task, which a blocking read does not notice.
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        asyncio.run(work)
    finally:
        signal.signal(signal.SIGINT, before)


def _option_parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(group)
    ]
