"""The page of LangGraph runs, and its example does what it says. Snippets are fenced as `py`: not everybody has it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_one_file import StdioClient

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/integrations/langgraph.md"
SNIPPETS = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
YOURS = """
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from retain_integrations.langgraph import RetainStore

builder = StateGraph(MessagesState)
builder.add_node("answer", lambda state: {"messages": [("ai", "done")]})
builder.add_edge(START, "answer")
checkpointer = InMemorySaver()
store = RetainStore("sqlite:///agents.db")
"""
THEN = """
store.put(("snippet",), "k", {"text": "works"})
assert store.search(("snippet",), query="works")[0].score is not None
store.close()
if "retain_store" in globals():
    import asyncio

    async def use():
        async with retain_store() as opened:
            assert await opened.aget(("snippet",), "k") is not None

    asyncio.run(use())
"""


def run(*command: str, folder: Path) -> str:
    paths = os.pathsep.join([str(ROOT / "service"), str(ROOT / "integrations")])
    environment = {**os.environ, "PYTHONPATH": paths}
    outcome = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs(snippet: str, tmp_path: Path) -> None:
    run("-c", YOURS + snippet + THEN, folder=tmp_path)
    assert len(SNIPPETS) == 7


def test_the_second_run_knows_what_the_first_heard_and_so_do_others(tmp_path: Path) -> None:
    database = tmp_path / "agents.db"
    said = "I am a vegetarian and allergic to nuts."

    printed = run(str(ROOT / "docs/integrations/langgraph_example.py"), str(database), folder=tmp_path)

    first, second = printed.split("second run")
    assert "recalled_memories" not in first
    assert f"1. {said}" in second
    recall, mcp = (shlex.split(line) for line in printed.splitlines() if line.startswith("  retain "))
    shown = json.loads(run("-m", "retain.transports.cli.main", *recall[1:], "--json", folder=tmp_path))
    assert mcp == ["retain", "mcp", "--database", str(database)]
    with StdioClient(database) as client:
        told = client.call("memory_search", query="what can Mara eat")
    for found in (shown, told):
        (memory,) = [one for one in found["memories"] if one["content"] == said]
        assert memory["namespace"] == "/users/mara"
        assert memory["metadata"]["langgraph"]["thread_id"] == "first run"
