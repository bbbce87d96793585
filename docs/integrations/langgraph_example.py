"""A graph that remembers: it runs twice, each time in a process of its own, and the second knows what the first heard.

python docs/integrations/langgraph_example.py [DATABASE]

Runs offline: a scripted model stands where your LLM would.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from retain_integrations.langgraph import RetainStore, recall_node, remember_node

NAMESPACE = ("users", "{user_id}")
RUNS = [
    ("first run", "I am a vegetarian and allergic to nuts.", "Good to know."),
    ("second run", "Which restaurant suits what I can eat?", "Green Table: vegetarian, its kitchen free of nuts."),
]


def run_graph(database: str, place: int) -> None:
    """Run the graph once; print what the model was given, what it answered and what is stored now."""
    name, question, answer = RUNS[place]
    model = FakeListChatModel(responses=[answer])

    def respond(state: MessagesState) -> dict[str, Any]:
        show(state["messages"])
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_sequence(
        [("recall", recall_node(NAMESPACE)), ("respond", respond), ("remember", remember_node(NAMESPACE))]
    )
    builder.add_edge(START, "recall")
    print(name)
    with RetainStore(database) as store:
        graph = builder.compile(checkpointer=InMemorySaver(), store=store)
        config: RunnableConfig = {"configurable": {"thread_id": name, "user_id": "mara"}}
        state = graph.invoke({"messages": [HumanMessage(question)]}, config)
        print(f"  ai: {state['messages'][-1].text}")
        for item in store.search(("users", "mara")):
            print(f"  stored in {item.namespace}: {item.value['content']!r}")


def show(messages: Sequence[AnyMessage]) -> None:
    """Print what a model is given."""
    for message in messages:
        print(f"  {message.type}: " + message.text.replace("\n", "\n    "))


def main() -> None:
    """Run the graph twice on a database that stays, and say how to find there what it stored."""
    database = sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp(prefix="retain-")) / "agents.db")
    for place in range(len(RUNS)):
        subprocess.run([sys.executable, __file__, database, str(place)], check=True)
    print(f"\nThe same memory without LangGraph:\n  retain recall 'what can Mara eat' --database {database}")
    print(f"The same memory over MCP:\n  retain mcp --database {database}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run_graph(sys.argv[1], int(sys.argv[2]))
    else:
        main()
