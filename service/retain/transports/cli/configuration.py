"""`retain config`: every setting, its value, and where that came from."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import typer

from retain.transports.cli.command import Call, command

if TYPE_CHECKING:
    from retain.settings import SettingsWithSources

MASK = "********"


def register(app: typer.Typer, /) -> None:
    """Add the command to `app`."""
    command(app, "config", panel="Look after it")(config)


def config(call: Call) -> None:
    """Show every setting, its value, and where that came from: argument, environment, file or default."""
    from retain.settings import Settings, environment_name

    read = call.read
    rows = [
        {
            "name": name,
            "variable": environment_name(name),
            "value": shown_value(read, name),
            "source": read.sources[name],
            "description": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]
    if call.out.as_json:
        call.out.json(
            {"settings": rows, "file": None if read.file is None else str(read.file), "unknown": dict(read.unknown)}
        )
        return
    from retain.settings import user_config_file
    from retain.transports.cli.cards import plain_table
    from retain.transports.cli.display import one_line

    table = ((str(row["name"]), one_line(_text(row["value"])), str(row["source"])) for row in rows)
    call.out.show(plain_table({"setting": "left", "value": "left", "source": "left"}, table))
    call.out.line(f"file: {read.file or f'none ({user_config_file()} would be read)'}", style="dim")
    for name, nearest in read.unknown.items():
        if not nearest:
            call.out.line(f"{name} is set and is no setting", style="yellow")


def shown_value(read: "SettingsWithSources", name: str) -> Any:
    """Return the value of a setting for people: secrets masked, also those inside a URL."""
    from retain.settings import is_secret

    value: object = getattr(read.settings, name)
    if value is None:
        return None
    if is_secret(name):
        return MASK
    if isinstance(value, tuple):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return _without_password(value) if isinstance(value, str) and "@" in value and "://" in value else value


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{parts.username}:{MASK}@{parts.netloc.rpartition('@')[2]}"))


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value)) or "-"  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return str(value)
