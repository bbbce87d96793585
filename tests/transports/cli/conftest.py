"""Commands on a database of their own; the quick test-only embedder unless a test asks for the real one."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transports.cli.running import Cli


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    """Commands configure logging for their process, which here is everybody's."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def settings_of_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own, for this process and those it starts."""
    for name in [name for name in os.environ if name.startswith("RETAIN_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RETAIN_DATABASE_URL", str(tmp_path / "memories.db"))
    monkeypatch.setenv("RETAIN_EMBEDDING", "hashed")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs commands in this process."""
    return Cli(tmp_path, monkeypatch, capsys)
