"""A crew that remembers: it runs in two processes, one after the other, and the second knows what the first found.

python docs/integrations/crewai_example.py [DATABASE]

Runs offline: a scripted model stands where your LLM would. In a checkout it also starts from the main environment: then
the one that `make test` builds for CrewAI is used.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(  # CrewAI's telemetry and looks for updates would go to the network
    CREWAI_DISABLE_TELEMETRY="true",
    OTEL_SDK_DISABLED="true",
    CREWAI_DISABLE_VERSION_CHECK="true",
    CREWAI_TRACING_ENABLED="false",
    CREWAI_TESTING="true",
)

RUNS = [
    ("first run", "Find out what Mara wants to eat on her trip", "Mara is a vegetarian and allergic to nuts."),
    ("second run", "Choose a restaurant for Mara's trip", "Green Table: vegetarian, and its kitchen is free of nuts."),
]


def run_crew(database: str, place: int) -> None:
    """Run the crew once and print what it was reminded of, and what is remembered now."""
    from crewai import Agent, Crew, Task
    from crewai.llms.base_llm import BaseLLM

    from retain_integrations.crewai import RetainCrewMemory

    name, description, answer = RUNS[place]

    class ScriptedModel(BaseLLM):
        def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
            return f"Final Answer: {answer}"

    memory = RetainCrewMemory(database, crew="travel")
    print(f"{name}: {description}")
    for match in memory.recall(description, limit=3):
        print(f"  recalled ({match.score:.2f}): {match.record.content!r}")
    agent = Agent(role="Planner", goal="plan trips", backstory="An old hand.", llm=ScriptedModel(model="scripted"))
    task = Task(description=description, expected_output="One sentence.", agent=agent)
    print(f"  answer: {Crew(name='travel', agents=[agent], tasks=[task], memory=memory).kickoff()}")
    memory.drain_writes()
    for record in memory.list_records():
        print(f"  remembered in {record.scope}: {record.content!r}")
    memory.close()


def main() -> None:
    """Run the crew twice, each time in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        database = sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "agents.db")
        for place in range(len(RUNS)):
            subprocess.run([python_with_crewai(), __file__, database, str(place)], check=True)


def python_with_crewai() -> str | Path:
    """Return a Python that has CrewAI."""
    if importlib.util.find_spec("crewai"):
        return sys.executable
    python = Path(__file__).parents[2] / ".venv-crewai" / "bin" / "python"
    if not python.exists():
        sys.exit('CrewAI is not installed here; install it with: pip install "retain[crewai]"')
    return python


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run_crew(sys.argv[1], int(sys.argv[2]))
    else:
        main()
