"""An assistant that remembers: it runs in two processes, one after the other, and the second knows what was saved.

python docs/integrations/autogen_example.py [DATABASE]

Runs offline: AutoGen's replay client stands where your model client would.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MemoryQueryEvent
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_ext.models.replay import ReplayChatCompletionClient

from retain_integrations.autogen import RetainMemory

RUNS = [
    ("first run", "Mara is a vegetarian and allergic to nuts. Remember that.", "Noted."),
    ("second run", "Which restaurant suits Mara?", "Green Table: vegetarian, and its kitchen is free of nuts."),
]


async def run_agent(database: str, place: int) -> None:
    """Run the assistant once, print what it was reminded of and what it says, and save what the user told it."""
    name, said, answer = RUNS[place]
    memory = RetainMemory(database, agent_id="planner")
    model = ReplayChatCompletionClient([answer])
    agent = AssistantAgent("planner", model_client=model, memory=[memory])
    print(f"{name}: {said}")
    result = await agent.run(task=said)
    for event in result.messages:
        if isinstance(event, MemoryQueryEvent):
            for recalled in event.content:
                print(f"  recalled: {recalled.content!r}")
    print(f"  the model saw {len(model.create_calls[0]['messages'])} messages and answers: {answer}")
    if place == 0:
        await memory.add(MemoryContent(content=said, mime_type=MemoryMimeType.TEXT))
    await memory.close()


def main() -> None:
    """Run the assistant twice, each time in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        database = sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "agents.db")
        for place in range(len(RUNS)):
            subprocess.run([sys.executable, __file__, database, str(place)], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(run_agent(sys.argv[1], int(sys.argv[2])))
    else:
        main()
