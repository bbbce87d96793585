"""An agent that remembers: it runs in two processes, one after the other, and the second knows what the first wrote.

python docs/integrations/ag2_example.py [DATABASE]

Runs offline: AG2's own scripted model stands where your model would. In the first run it calls the `knowledge` tool.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from ag2 import Agent, KnowledgeConfig
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig, TrackingConfig

from retain_integrations.ag2 import RecallPolicy, RetainKnowledgeStore

NOTE = {"action": "write", "path": "/people/mara.md", "content": "Mara is a vegetarian and allergic to nuts."}
RUNS = [
    (
        "first run",
        "Note what Mara eats: no meat, and no nuts.",
        [ToolCallEvent(name="knowledge", arguments=json.dumps(NOTE)), "Noted."],
    ),
    ("second run", "Which restaurant suits Mara?", ["Green Table: vegetarian, and its kitchen is free of nuts."]),
]


async def run_agent(database: str, place: int) -> None:
    """Run the agent once and print what it was reminded of, what it says, and what files there are then."""
    name, said, script = RUNS[place]
    store = RetainKnowledgeStore(database)
    model = TrackingConfig(TestConfig(*script))
    agent = Agent(
        "planner",
        "You plan trips.",
        config=model,
        knowledge=KnowledgeConfig(store, write_event_log=False),
        assembly=[RecallPolicy(store)],
    )
    print(f"{name}: {said}")
    reply = await agent.ask(said)
    for prompt in model.calls[0].prompt[1:]:
        print("  in the prompt:", prompt.replace("\n", "\n    "))
    print(f"  answer: {reply.body}")
    for file in await store.list("/people"):
        print(f"  /people/{file}: {await store.read(f'/people/{file}')!r}")
    await store.close()


def main() -> None:
    """Run the agent twice, each time in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        database = sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "agents.db")
        for place in range(len(RUNS)):
            subprocess.run([sys.executable, __file__, database, str(place)], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(run_agent(sys.argv[1], int(sys.argv[2])))
    else:
        main()
