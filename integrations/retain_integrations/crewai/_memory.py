"""CrewAI's memory without an LLM and without a network."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.memory_events import MemorySaveCompletedEvent, MemorySaveStartedEvent
from crewai.llms.base_llm import BaseLLM
from crewai.memory.types import MemoryMatch, MemoryRecord
from crewai.memory.unified_memory import Memory
from crewai.memory.utils import join_scope_paths, sanitize_scope_name
from pydantic import Field

import retain
from retain_integrations._recalled import recalled_block
from retain_integrations.crewai._storage import DEFAULT_NAMESPACE, RetainStorage
from retain_integrations.crewai._tool_results import tool_results

_RUN = re.compile(
    r"\A(?:Task|Input): (?P<task>.*?)\nAgent: .*?(?:\nExpected result: .*?)?\nResult: (?P<result>.*)\Z", re.DOTALL
)
"""What CrewAI hands to `extract_memories` after a task, or after `Agent.kickoff`."""
_ANSWER = "Final Answer:"
"""What stands between an agent's thoughts and its result where a model has no tool calls of its own."""
_NEVER = 1.0
_MOST_MORE = 200
"""So many more matches are looked at, at most, since private records of others are taken out after the search."""


class RetainCrewMemory(Memory):
    """A `Memory` for `Crew(memory=...)` and `Agent(memory=...)` that keeps everything in Retain.

        memory = RetainCrewMemory("sqlite:///agents.db", crew="research")
        crew = Crew(name="research", agents=[...], tasks=[...], memory=memory)

    Without an LLM nothing is sent anywhere: what is remembered keeps its words and gets the scope, categories and
    importance that the caller gives; after a task the task and its result are remembered; the same text is remembered
    once in a scope; a recall is one hybrid search. With an LLM the analysis is CrewAI's own. Recalled text reaches an
    agent marked as data, and can't end its mark.
    """

    store_tool_results: bool = Field(
        default=False,
        description="Whether what tools returned, and how they failed, may be remembered after a task.",
    )

    def __init__(
        self,
        url: str | Path | None = None,
        /,
        *,
        crew: str | None = None,
        agent: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        settings: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Nothing is opened yet.

        Args:
            url: `sqlite:///PATH` or a plain path; None takes the setting `database_url`.
            crew: Name of the crew whose memory this is: its root scope is /crew/<name>, as for `Crew(memory=True)`.
            agent: Name of the agent whose memory this is, instead of a crew: its root scope is /agent/<name>.
            base_url: Where a service listens, instead of `url`.
            api_key: A key of that service.
            namespace: Where in Retain the scope "/" lies.
            settings: Settings of Retain by name.
            **fields: Any field of `crewai.memory.Memory`, such as `llm`, `embedder`, `root_scope` or `storage`.

        Raises:
            InvalidInputError: it is not said whose memory this is, or said twice; or a value is impossible.
        """
        fields["root_scope"] = _root_scope(crew, agent, fields)
        if fields.get("storage") is None:
            fields["storage"] = RetainStorage(
                url, base_url=base_url, api_key=api_key, namespace=namespace, **(settings or {})
            )
        elif not isinstance(fields["storage"], RetainStorage):
            raise retain.InvalidInputError("storage must be a RetainStorage; crewai.Memory takes others")
        elif url is not None or base_url is not None:
            raise retain.InvalidInputError("give storage, or url or base_url, not both", field="storage")
        if fields.get("embedder") is None:
            fields["embedder"] = fields["storage"].embedder
        if fields.get("llm") is None:
            fields["llm"] = _NoLLM(model="none")
            fields.setdefault("consolidation_threshold", _NEVER)
        super().__init__(**fields)
        # Within a batch CrewAI drops what resembles another text of it at 0.98: a correction differs by one number.
        self._config.batch_dedup_threshold = _NEVER
        tool_results.listen()

    @property
    def _own_storage(self) -> RetainStorage:
        return cast("RetainStorage", self._storage)

    @property
    def _has_llm(self) -> bool:
        return not isinstance(self.llm, _NoLLM)

    def remember(
        self,
        content: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> MemoryRecord | None:
        """Store one text and return its record; None when this memory is read-only."""
        if not self._has_llm and not self.read_only:
            known = self._known(content, scope, root_scope, source, private)
            if known is not None:
                return self._noted(known, metadata, agent_role)
        scope, categories, importance = self._given(scope, categories, importance)
        return super().remember(
            content, scope, categories, metadata, importance, source, private, agent_role, root_scope
        )

    def remember_many(
        self,
        contents: list[str],
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> list[MemoryRecord]:
        """Store several texts in the background; `recall` waits for them. Returns an empty list."""
        contents = list(dict.fromkeys(contents))
        if not self._has_llm and not self.read_only:
            contents = [text for text in contents if not self._known(text, scope, root_scope, source, private)]
        scope, categories, importance = self._given(scope, categories, importance)
        return super().remember_many(
            contents, scope, categories, metadata, importance, source, private, agent_role, root_scope
        )

    def recall(
        self,
        query: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        limit: int = 10,
        depth: Literal["shallow", "deep"] = "deep",
        source: str | None = None,
        include_private: bool = False,
    ) -> list[MemoryMatch]:
        """Return up to `limit` matches, best first. Without an LLM every recall is a single hybrid search."""
        if not self._has_llm:
            depth = "shallow"
        more = 0
        if depth == "shallow" and not include_private:
            self.drain_writes()
            more = min(self._own_storage.count_private(join_scope_paths(self.root_scope, scope)), _MOST_MORE)
        found = super().recall(query, scope, categories, limit + more, depth, source, include_private)
        # CrewAI takes private records out itself; some of its versions let those of nobody through.
        seen = [match for match in found if include_private or _may_see(source, match.record)]
        return [_Marked(**dict(match)) for match in seen[:limit]]

    def extract_memories(self, content: str) -> list[str]:
        """Return what is worth remembering of a run: by the LLM if there is one, else the task with its result."""
        found = _RUN.match(content)
        result = content.strip() if found is None else found["result"].rpartition(_ANSWER)[2].strip()
        if found is not None and not self.store_tool_results:
            result = tool_results.without(result)
        if not result:
            return []
        if self._has_llm:
            return super().extract_memories(content if found is None else content[: found.start("result")] + result)
        return [result if found is None else f"Task: {found['task']}\nResult: {result}"]

    def _given(
        self, scope: str | None, categories: list[str] | None, importance: float | None
    ) -> tuple[str | None, list[str] | None, float | None]:
        """Return the fields of a record so that nobody has to guess them, if there is no LLM that could."""
        if self._has_llm:
            return scope, categories, importance
        return scope or "/", categories or [], self.default_importance if importance is None else importance

    def _known(
        self, content: str, scope: str | None, root_scope: str | None, source: str | None, private: bool
    ) -> MemoryRecord | None:
        if not content.strip():
            return None
        self.drain_writes()
        root = root_scope if root_scope is not None else self.root_scope
        same = self._own_storage.holding(content, join_scope_paths(root, scope))
        return next((record for record in same if (record.source, record.private) == (source, private)), None)

    def _noted(self, record: MemoryRecord, metadata: dict[str, Any] | None, agent_role: str | None) -> MemoryRecord:
        """Return a record that was there already, and tell of it as of any other."""
        about: dict[str, Any] = {"value": record.content, "metadata": metadata or {}, "source_type": "unified_memory"}
        crewai_event_bus.emit(self, MemorySaveStartedEvent(**about))
        started = datetime.now()
        self._own_storage.touch_records([record.id])
        took_ms = (datetime.now() - started).total_seconds() * 1000
        crewai_event_bus.emit(self, MemorySaveCompletedEvent(**about, agent_role=agent_role, save_time_ms=took_ms))
        return record


class _Marked(MemoryMatch):
    """A match that an agent reads as data."""

    def format(self) -> str:
        """Return the score and the whole text, within marks that the text can't end."""
        return f"- (score={self.score:.2f})\n{recalled_block([self.record.content])}"


class _NoLLM(BaseLLM):
    """Stands where CrewAI wants an LLM. It is never asked; should it be, CrewAI goes on without an answer."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse."""
        raise RuntimeError("this memory has no LLM; give RetainCrewMemory(llm=...) for CrewAI's analysis")


def _may_see(source: str | None, record: MemoryRecord) -> bool:
    return not record.private or (source is not None and record.source == source)


def _root_scope(crew: str | None, agent: str | None, fields: dict[str, Any]) -> str:
    said = {
        "crew": None if crew is None else f"/crew/{sanitize_scope_name(crew)}",
        "agent": None if agent is None else f"/agent/{sanitize_scope_name(agent)}",
        "root_scope": fields.get("root_scope"),
    }
    roots = [root for root in said.values() if root is not None]
    if len(roots) != 1:
        raise retain.InvalidInputError(
            "say once whose memory this is: crew='research', agent='writer', or root_scope='/' for one that all share",
            field="root_scope",
        )
    return str(roots[0])
