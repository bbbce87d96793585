"""`make demo` from the outside: it ends well, shows what it found, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("demo")
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "HOME": str(folder),
        "COLUMNS": "80",
        "RETAIN_PORT": "not a port: settings of the user must not matter",
    }
    outcome = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "demo.py")],
        env=environment, cwd=folder, text=True, capture_output=True, check=False,
    )  # fmt: skip
    return outcome, folder


def test_every_expected_memory_is_found(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:  # Shows 1
    outcome, _ = demo
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "Stored 30 memories" in outcome.stdout
    assert "not found" not in outcome.stdout


@pytest.mark.parametrize("way", ["REST", "MCP", "CLI"])
def test_each_way_in_is_asked(way: str, demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    assert f"│ {way} " in demo[0].stdout


def test_the_correction_and_the_nonsense_are_shown(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    assert "similar to" in demo[0].stdout
    assert "0 found" in demo[0].stdout


def test_it_fits_80_columns_and_says_how_to_go_on(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    assert max(map(len, demo[0].stdout.splitlines())) <= 80
    assert "retain serve" in demo[0].stdout


def test_it_leaves_nothing_behind_and_says_nothing_else(
    demo: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    outcome, folder = demo
    assert outcome.stderr == ""
    assert list(folder.iterdir()) == []


def test_the_memories_are_thirty_lifelike_ones() -> None:
    import json

    memories = json.loads((ROOT / "tools" / "demo_memories.json").read_text("utf-8"))
    assert len({memory["content"] for memory in memories}) == len(memories) == 28
    assert len({memory["agent"] for memory in memories}) >= 4
    assert all(memory["tags"] for memory in memories)
