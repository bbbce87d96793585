"""What a command prints: one JSON document, or a table for people; errors as one line on stderr."""

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from retain.domain.errors import RetainError
from retain.transports import json_text
from retain.transports.cli.display import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def never_crash_on_output() -> None:
    """Make streams that can't show a character write an escape instead of failing (an ASCII or code-page terminal).

    A stream that the process was started without becomes one that fails as it is used, as other programs have it;
    only remarks and errors may get lost. Nor can a database be opened under its number.
    """
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    # os.open takes the lowest free descriptor, which is the missing one: those before it are open by then.
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - None when started with <&-
        os.open(os.devnull, os.O_WRONLY)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        os.open(os.devnull, os.O_RDONLY)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        os.open(os.devnull, os.O_WRONLY)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def is_unicode(stream: TextIO, /) -> bool:
    """Whether every character can be written to `stream`."""
    return (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")


def write_json(value: object, /) -> None:
    """Write one indented JSON document to stdout; characters that it lacks as JSON escapes."""
    sys.stdout.write(json_text.write_json(value, indent=2, ascii_only=not is_unicode(sys.stdout)) + "\n")


def close_quietly() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain that it fails again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


DEFAULT_WIDTH = 80
"""Columns of a terminal that does not say how many it has."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Signs that separate and shorten, for terminals with and without Unicode."""

    dot: str
    ellipsis: str
    good: str
    bad: str


UNICODE_GLYPHS = Glyphs(" · ", "…", "✓", "✗")
ASCII_GLYPHS = Glyphs(" | ", "...", "ok", "FAIL")


class Output:
    """Where the answers of one command go."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @cached_property
    def console(self) -> "Console":
        """For stdout."""
        return _console(stderr=False)

    @cached_property
    def errors(self) -> "Console":
        """For stderr: progress and remarks."""
        return _console(stderr=True)

    @property
    def glyphs(self) -> Glyphs:
        """The signs that stdout can show."""
        return UNICODE_GLYPHS if is_unicode(sys.stdout) else ASCII_GLYPHS

    def json(self, value: object, /) -> None:
        """Write the answer as JSON."""
        write_json(value)

    def line(self, text: str, /, style: str | None = None) -> None:
        """Write text that the caller made safe. A terminal gets it wrapped at words; a pipe or file as it is."""
        from rich.text import Text

        self.console.print(Text(text, style=style or ""), soft_wrap=not self.console.is_terminal)

    def show(self, table: "Table", /) -> None:
        """Print a table; a pipe or file gets it without the blanks that fill its lines."""
        if self.console.is_terminal:
            self.console.print(table)
            return
        with self.console.capture() as captured:
            self.console.print(table)
        sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))

    def remark(self, text: str, /) -> None:
        """Tell people something that is no part of the answer."""
        sys.stderr.write(text + "\n")


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if console.width < 1:  # COLUMNS=0, from terminals that do not know their size
        console.width = DEFAULT_WIDTH
    return console


def show_error(error: RetainError, /, *, as_json: bool) -> int:
    """Write `error` to stderr and return the exit code."""
    from retain.transports.errors import rendering
    from retain.transports.problems import problem

    if as_json:
        _, _, document = problem(error)
        sys.stderr.write(document.decode("ascii") + "\n")
    else:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
    return rendering(error).exit_code
