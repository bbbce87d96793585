"""A team of three frameworks on one service: AutoGen, LangGraph and CrewAI share facts and signal by a tag.

python docs/integrations/team_example.py [DATABASE] [CREWAI_PYTHON]

Two runs, each with a service and three processes of its own; what the first run stored, the second knows. CREWAI_PYTHON
is the Python of an environment with retain[crewai], which can't share one with retain[server]; without it, the one that
`make test` built is taken. Runs offline, and no model is asked.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIGNAL = "msg:cluster"
NAMESPACE = "/team"
CREWAI_PYTHON = Path(__file__).parents[2] / ".venv-crewai" / "bin" / "python"
QUIET_CREWAI = {  # its telemetry and looks for updates would go to the network
    "CREWAI_DISABLE_TELEMETRY": "true",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_TESTING": "true",
}
NEWS = ["The cluster moves to Frankfurt in March", "The move of the cluster slipped to April"]
PLANS = ["Order the servers for the cluster by February", "Order the servers for the cluster by March"]
NOTES = ["Customers were told of the cluster's move", "Customers were told that the cluster moves later"]


def researcher(url: str, run: int) -> None:
    """AutoGen: add a fact, tagged so that whoever waits for the tag wakes up."""
    from autogen_core.memory import MemoryContent, MemoryMimeType

    from retain_integrations.autogen import RetainMemory

    async def work() -> None:
        memory = RetainMemory(base_url=url, namespace=NAMESPACE, agent_id="researcher", tags=[SIGNAL])
        await memory.add(MemoryContent(content=NEWS[run], mime_type=MemoryMimeType.TEXT))
        await memory.close()

    say("researcher (AutoGen)", f"stores {NEWS[run]!r} with the tag {SIGNAL}")
    asyncio.run(work())


def planner(url: str, run: int) -> None:
    """LangGraph: wait for the signal, look up what is known, and store a plan."""
    import retain
    from retain_integrations.langgraph import RetainStore

    with retain.connect(url) as service:
        # An event shows the tags of now, so a signal that was taken does not come again, whoever listens from 0.
        event = next(event for event in service.events(after=0) if SIGNAL in event.tags)
        news = service.get(event.memory_id)
        service.update(news.id, retain.MemoryPatch(tags=[tag for tag in news.tags if tag != SIGNAL]))
    say("planner (LangGraph)", f"was woken by {news.agent_id} with {news.content!r}")
    with RetainStore(base_url=url) as store:
        for item in store.search(("team",), query="when does the cluster move?", limit=5):
            say("planner (LangGraph)", f"knows {item.value.get('text') or item.value['content']!r}")
        store.put(("team", "plans"), f"plan-{run}", {"text": PLANS[run]})


def writer(url: str, run: int) -> None:
    """CrewAI: recall what the others stored, and remember a note."""
    os.environ.update(QUIET_CREWAI)
    from retain_integrations.crewai import RetainCrewMemory

    memory = RetainCrewMemory(base_url=url, namespace=NAMESPACE, root_scope="/")
    for match in memory.recall("what happens to the cluster?", limit=6):
        say("writer (CrewAI)", f"knows {match.record.content!r}")
    memory.remember(NOTES[run], scope="/notes", categories=["told"])
    memory.close()


def say(who: str, what: str) -> None:
    print(f"  {who} {what}\n", end="", flush=True)  # in one piece: two agents print at once


@contextmanager
def service(database: str) -> Iterator[str]:
    """Run `retain serve` on the database; yield its address."""
    retain = Path(sys.executable).with_name("retain")
    command = [retain, "serve", "--port", "0", "--json", "--database", database]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            document = ""
            while not document.endswith("}\n"):
                document += process.stdout.readline()
            yield json.loads(document)["url"]
        finally:
            process.terminate()


def start(python: str | Path, role: str, url: str, run: int) -> subprocess.Popen:
    return subprocess.Popen([python, __file__, "--role", role, url, str(run)])


def finish(*agents: subprocess.Popen) -> None:
    for agent in agents:
        if agent.wait(timeout=120):
            sys.exit(f"an agent failed: {' '.join(map(str, agent.args))}")


def main(database: str, crewai_python: str | Path) -> None:
    """Run the team twice."""
    for run in range(len(NEWS)):
        print(f"run {run + 1}", flush=True)
        with service(database) as url:
            finish(start(sys.executable, "planner", url, run), start(sys.executable, "researcher", url, run))
            finish(start(crewai_python, "writer", url, run))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        {"researcher": researcher, "planner": planner, "writer": writer}[sys.argv[2]](sys.argv[3], int(sys.argv[4]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            given = dict(enumerate(sys.argv))
            python = Path(given.get(2, CREWAI_PYTHON))
            if not python.exists():
                sys.exit(f"there is no {python}; name the Python of an environment with retain[crewai]")
            main(given.get(1, str(Path(folder) / "agents.db")), python)
