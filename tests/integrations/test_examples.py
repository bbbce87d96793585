"""The examples of docs/integrations run offline, twice each, and the second run knows what the first stored."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

EXAMPLES = Path(__file__).parents[2] / "docs" / "integrations"
CREWAI_PYTHON = EXAMPLES.parents[1] / ".venv-crewai" / "bin" / "python"
RETAIN = Path(sys.executable).with_name("retain")
needs_crewai = pytest.mark.skipif(not CREWAI_PYTHON.exists(), reason="`make test` builds CrewAI's environment")


def output_of(*command: str | Path) -> str:
    outcome = subprocess.run(command, text=True, capture_output=True, check=False, timeout=110)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def second_run(example: str, database: Path) -> str:
    """Run an example; return what its second run printed."""
    return output_of(sys.executable, EXAMPLES / f"{example}_example.py", database).partition("second run")[2]


@pytest.mark.parametrize("example", ["langgraph", "autogen", "ag2", pytest.param("crewai", marks=needs_crewai)])
def test_the_second_run_knows_what_the_first_stored(example: str, tmp_path: Path) -> None:  # Shows 2
    assert "vegetarian and allergic to nuts" in second_run(example, tmp_path / "agents.db")


@needs_crewai
def test_three_frameworks_share_facts_and_signal_by_a_tag(tmp_path: Path) -> None:  # Shows 2
    output = output_of(sys.executable, EXAMPLES / "team_example.py", tmp_path / "agents.db", CREWAI_PYTHON)
    first, _, second = output.partition("run 2")
    assert "planner (LangGraph) was woken by researcher" in first
    assert "writer (CrewAI) knows 'Order the servers for the cluster by February'" in first
    assert """planner (LangGraph) knows "Customers were told of the cluster's move\"""" in second
    assert "planner (LangGraph) was woken by researcher with 'The move of the cluster slipped to April'" in second


async def test_what_langgraph_stored_is_found_elsewhere_with_its_origin(tmp_path: Path) -> None:  # Shows 3
    database = tmp_path / "agents.db"
    second_run("langgraph", database)
    found = json.loads(output_of(RETAIN, "recall", "who eats no meat?", "--database", database, "--json"))
    server = StdioServerParameters(command=str(RETAIN), args=["mcp", "--database", str(database)])
    async with Client(stdio_client(server)) as client:
        answer = await client.call_tool("memory_search", {"query": "who eats no meat?"})
    assert answer.structured_content is not None
    for memories in (found["memories"], answer.structured_content["memories"]):
        (memory,) = [each for each in memories if each["content"].startswith("I am a vegetarian")]
        assert memory["namespace"] == "/users/mara"
        assert memory["metadata"]["langgraph"]["thread_id"] == "first run"
