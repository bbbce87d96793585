"""Runs commands in this process on a database of their own, as quick as a function call."""

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retain.transports.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """`cli("store", "text")` runs that command; `cli.json(…)` runs it with `--json` and returns the document."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.database = folder / "memories.db"
        self._patch = patch
        self._capture = capture

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        self._capture.readouterr()
        code = main(arguments)
        out, err = self._capture.readouterr()
        return Outcome(code, out, err)

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        outcome = self("--json", *arguments, stdin=stdin)
        assert outcome.code == 0, outcome.err
        return outcome.json

    def stored(self, text: str, *options: str) -> str:
        """Store a memory and return its id."""
        return self.json("store", text, *options)["memory"]["id"]

    def refused(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str]:
        """Run a command that must fail, in one line and without a word on stdout."""
        outcome = self(*arguments, stdin=stdin)
        assert outcome.code != 0, outcome.out
        assert outcome.out == ""
        assert outcome.err.startswith("error: "), outcome.err
        assert outcome.err.count("\n") == 1, outcome.err
        assert "Traceback" not in outcome.err
        return outcome.code, outcome.err
