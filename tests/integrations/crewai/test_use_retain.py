"""`use_retain`: plain `Crew(memory=True)` on Retain."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI has an environment of its own: it can't be installed beside mcp 2")

from crewai import Agent, Crew, Task
from crewai.flow.flow import Flow
from crewai.llms.base_llm import BaseLLM
from crewai.memory import Memory, unified_memory
from crewai.memory.storage import factory

import retain
from retain_integrations.crewai import RetainInUse, RetainStorage, use_retain

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Stub(BaseLLM):
    """Answers a task, and fails at analyses: CrewAI then keeps the whole text."""

    def call(self, messages: Any, *args: Any, response_model: Any = None, **kwargs: Any) -> str:
        if response_model is not None:
            raise RuntimeError("no analysis")
        return "Final Answer: The vault code is 4417"


def crew(name: str = "research") -> Crew:
    agent = Agent(role="Writer", goal="answer", backstory="knows", llm=Stub(model="stub"))
    task = Task(description="Find the vault code", expected_output="a code", agent=agent)
    return Crew(name=name, agents=[agent], tasks=[task], memory=True)


def memory_of(crew: Crew) -> Memory:
    memory = crew._memory
    assert isinstance(memory, Memory)
    return memory


@pytest.fixture
def in_use(where: dict[str, Any]) -> Iterator[RetainInUse]:
    place = dict(where)
    with use_retain(place.pop("url", None), **place) as handle:
        yield handle


def test_a_plain_crew_remembers_in_retain_and_others_see_nothing(in_use: RetainInUse) -> None:
    first = crew()
    first.kickoff()
    memory_of(first).drain_writes()
    (match, *_) = memory_of(crew()).recall("vault code")
    assert "The vault code is 4417" in match.record.content
    assert match.record.scope == "/crew/research/agent/writer"
    assert memory_of(crew("others")).recall("vault code") == []
    assert in_use.storage.count("/crew/research") == 1


def test_no_embedder_of_openai_is_built_and_nothing_connects(tmp_path: Path, no_network: list[Any]) -> None:
    with use_retain(tmp_path / "agents.db"):
        running = crew()
        running.kickoff()
        memory_of(running).drain_writes()
        assert memory_of(running).recall("vault code")
    assert no_network == []


def test_flows_and_plain_memories_use_it_too_and_named_storages_stay(in_use: RetainInUse, tmp_path: Path) -> None:
    class Working(Flow[Any]):
        pass

    assert Working().memory._storage is in_use.storage  # type: ignore[union-attr]
    assert Memory()._storage is in_use.storage
    assert Memory(storage=str(tmp_path / "lance"))._storage is not in_use.storage


def test_undoing_puts_back_what_was_there_before(tmp_path: Path) -> None:
    before = (factory._factory, unified_memory._default_embedder)
    outer = use_retain(tmp_path / "outer.db")
    with use_retain(tmp_path / "inner.db") as inner:
        assert Memory()._storage is inner.storage
    assert Memory()._storage is outer.storage
    outer.undo()
    outer.undo()
    assert (factory._factory, unified_memory._default_embedder) == before


def test_another_version_of_crewai_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(unified_memory, "_default_embedder")
    with pytest.raises(retain.CapabilityError, match=r"retain\[crewai\]"):
        use_retain(tmp_path / "agents.db")


def test_an_older_crewai_is_refused_by_name() -> None:
    code = "import sys; sys.modules['crewai.memory.storage.factory'] = None; import retain_integrations.crewai"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_environment())
    assert "needs crewai>=1.15,<1.16" in outcome.stderr


def test_the_example_remembers_over_two_processes(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "docs" / "integrations" / "crewai_example.py"
    outcome = subprocess.run(
        [sys.executable, str(example), str(tmp_path / "agents.db")],
        capture_output=True,
        text=True,
        env=_environment(),
        timeout=100,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "second run" in outcome.stdout
    storage = RetainStorage(tmp_path / "agents.db")
    assert storage.count("/crew/travel") == 2
    storage.close()


def _environment() -> dict[str, str]:
    root = Path(__file__).parents[3]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "service"), str(root / "integrations")])}
