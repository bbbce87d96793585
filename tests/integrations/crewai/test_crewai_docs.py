"""The snippets of docs/integrations/crewai.md run; they are fenced as `py`, since they need CrewAI's environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("crewai", reason="CrewAI has an environment of its own: it can't be installed beside mcp 2")

ROOT = Path(__file__).parents[3]
SNIPPETS = re.findall(
    r"^```py\n(.*?)^```", (ROOT / "docs/integrations/crewai.md").read_text(), re.MULTILINE | re.DOTALL
)
YOURS = """
from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM

class Stub(BaseLLM):
    def call(self, messages, *args, **kwargs):
        return "Final Answer: done"

agent = Agent(role="Writer", goal="g", backstory="b", llm=Stub(model="stub"))
task = Task(description="work", expected_output="x", agent=agent)
crew = None
"""
RUN = """
if crew is not None:
    crew.kickoff()
"""


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs(snippet: str, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT / "service"), str(ROOT / "integrations")])
    outcome = subprocess.run(
        [sys.executable, "-c", YOURS + snippet + RUN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert len(SNIPPETS) == 3
