"""docs/cli.md names every command and every option."""

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from retain.transports.cli.main import app
from retain.transports.errors import RENDERINGS

PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "cli.md").read_text("utf-8")


def commands(command: Any, path: str) -> list[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    return [(path, command)] + [each for name, sub in below.items() for each in commands(sub, f"{path} {name}")]


@pytest.mark.parametrize(("path", "command"), commands(get_command(app), "retain"))
def test_a_command_and_its_options_are_documented(path: str, command: Any) -> None:
    assert f"`{path}" in PAGE
    for option in command.params:
        for name in (*option.opts, *option.secondary_opts):
            assert not name.startswith("--") or f"`{name}" in PAGE, (path, name)


def test_every_command_and_option_says_what_it_is_for() -> None:
    for path, command in commands(get_command(app), "retain"):
        assert command.help, path
        for option in command.params:
            assert option.param_type_name == "argument" or option.help, (path, option.name)


def test_every_exit_code_is_documented() -> None:
    for rendering in RENDERINGS.values():
        assert f"\n| {rendering.exit_code} | " in PAGE
