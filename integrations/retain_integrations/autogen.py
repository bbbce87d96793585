"""`RetainMemory`: AutoGen's memory protocol on Retain, in this process or over HTTP.

from retain_integrations.autogen import RetainMemory

agent = AssistantAgent("planner", model_client=client, memory=[RetainMemory("sqlite:///agents.db")])
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

import retain
from retain_integrations._question import digest_of, own_mark, question_of, require_visible
from retain_integrations._recalled import is_recalled_block, recalled_block
from retain_integrations._sync import LazyMemory

try:
    from autogen_core import CancellationToken, Component
    from autogen_core.memory import Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import SystemMessage

    from retain_integrations._autogen_contents import OWN, as_content, latest_text, readable
except ImportError as error:
    raise ImportError(
        'retain_integrations.autogen needs autogen-core>=0.7.5,<0.8; install it with: pip install "retain[autogen]"'
    ) from error

DEFAULT_NAMESPACE: Final = "/autogen"
_SAID_OF_FILTER: Final = frozenset(("tags", "tag_match", "types", "since", "until", "metadata"))
_SAID_OF_QUERY: Final = _SAID_OF_FILTER | {"k", "score_threshold", "mode"}
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/?#]*@|(?<=\?)[^#]*")
"""User and password of a URL, and its query, which holds the keys of some services."""

T = TypeVar("T")


class RetainMemoryConfig(BaseModel):
    """What makes a `RetainMemory`; `RetainMemory` explains the fields. Dumps leave all keys out."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = Field(default=None, exclude=True)
    namespace: str = DEFAULT_NAMESPACE
    agent_id: str | None = None
    conversation_id: str | None = None
    tags: list[str] = Field(default_factory=list[str])
    k: int = Field(default=5, ge=1, le=1000)
    score_threshold: float | None = Field(default=None, ge=0, le=1)
    always: bool = False
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])


class RetainMemory(Memory, Component[RetainMemoryConfig]):
    """Memory that stays: what is added is found by meaning, in later runs and by other agents.

    It reads and clears all memories of its scope, whoever stored them: those in `namespace` and below, narrowed by
    `agent_id` and `conversation_id` when given. Adding the same content to the same scope again replaces the first.
    """

    component_config_schema = RetainMemoryConfig
    component_provider_override = "retain_integrations.autogen.RetainMemory"
    component_version = 1

    def __init__(
        self,
        url: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tags: Sequence[str] = (),
        k: int = 5,
        score_threshold: float | None = None,
        always: bool = False,
        embedder: Callable[[], retain.Embedder] | None = None,
        **settings: Any,
    ) -> None:
        """Nothing is opened before the first call.

        Args:
            url: `sqlite:///PATH` or a plain path, for a database in this process; None takes the setting.
            base_url: Where a service listens, instead of `url`.
            api_key: A key of that service; None takes the setting `api_key`.
            namespace: Where memories are kept and looked for.
            agent_id: Whose memories these are, up to 64 characters.
            conversation_id: The conversation that they belong to.
            tags: For every memory added.
            k: Most memories that one query returns, 1 to 1,000.
            score_threshold: Least score of what a query returns, in [0, 1].
            always: For what an agent must know whatever it is asked, such as preferences: each query and each context
                gets the newest `k` memories, in the order in which they were added.
            embedder: Makes the embedder of a database in this process. Such a memory can't be dumped.
            **settings: Any setting of Retain by name.

        Raises:
            InvalidInputError: a value is impossible, or two contradict each other.
        """
        require_visible(namespace=namespace, agent_id=agent_id, conversation_id=conversation_id)
        try:
            self._config = RetainMemoryConfig.model_validate(
                {
                    "url": url,
                    "base_url": base_url,
                    "api_key": api_key,
                    "namespace": namespace,
                    "agent_id": agent_id,
                    "conversation_id": conversation_id,
                    "tags": tags,
                    "k": k,
                    "score_threshold": score_threshold,
                    "always": always,
                    "settings": settings,
                }
            )
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            field = str(problem["loc"][0])
            raise retain.InvalidInputError(f"{field}: {problem['msg']}", field=field) from None
        key = self._config.api_key
        self._given_embedder = embedder is not None
        self._lazy = LazyMemory(
            url,
            base_url=base_url,
            api_key=None if key is None else key.get_secret_value(),
            embedder=embedder,
            **settings,
        )

    # -- the protocol -------------------------------------------------------------------------------------------

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Store text, Markdown or JSON. JSON is stored as its text and comes back as the same value.

        Cancelling while the write is under way ends the wait; the write itself may still happen.

        Raises:
            InvalidInputError: what search can't read (an image, binary data), or metadata that is not JSON.
            CancelledError: `cancellation_token` was cancelled.
        """
        new = self._new_memory(content)
        await self._call(lambda memory: memory.store(new), cancellation_token)

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """Return what answers `query`, best first; each result's metadata has the memory's `id` and its `score`.

        Args:
            query: A question, or content that is looked for by its text. An empty text lists the newest memories; of
                a very long one, beginning and end count.
                With `always` it does not matter.
            cancellation_token: Ends the wait.
            **kwargs: For this query only: `k`, `score_threshold`, `mode`, and the conditions `tags`, `tag_match`,
                `types`, `since`, `until`, `metadata` of `retain.Filter`.

        Raises:
            InvalidInputError: an unknown keyword, an impossible value, or content that search can't read.
            CancelledError: `cancellation_token` was cancelled.
        """
        if unknown := kwargs.keys() - _SAID_OF_QUERY:
            raise retain.InvalidInputError(
                f"query() knows no {min(unknown)!r}; it takes {', '.join(sorted(_SAID_OF_QUERY))}", field=min(unknown)
            )
        asked = "" if self._config.always else question_of(query if isinstance(query, str) else readable(query)[0])
        where = replace(self._scope(), **{name: kwargs[name] for name in kwargs.keys() & _SAID_OF_FILTER})
        k = kwargs.get("k", self._config.k)
        threshold = kwargs.get("score_threshold", self._config.score_threshold)
        least = 0.0 if threshold is None else threshold
        mode = kwargs.get("mode", "hybrid")
        found = await self._call(
            lambda memory: memory.recall(asked, k=k, mode=mode, where=where, min_score=least),
            cancellation_token,
        )
        hits = reversed(found.hits) if self._config.always else found.hits
        return MemoryQueryResult(results=[as_content(hit) for hit in hits])

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Put what answers the latest message at the end of the context, in place of what this memory put there before.

        There is at most one such message in a context, and none when nothing is found. It marks the memories as data
        and holds each in full. All other messages stay as they are, also those that the context does not show.
        """
        question = latest_text(await model_context.get_messages())
        asked = question or self._config.always
        found = await self.query(question) if asked else MemoryQueryResult(results=[])
        await self._take_back(model_context)
        if block := recalled_block(dict.fromkeys(readable(result)[0] for result in found.results)):
            await model_context.add_message(SystemMessage(content=f"{block}\n{self._mark}"))
        return UpdateContextResult(memories=found)

    async def clear(self) -> None:
        """Remove all memories of this scope, in every state; nothing outside it.

        Raises:
            InvalidInputError: the scope is everything that there is.
        """
        where = replace(self._scope(), states=retain.EVERYTHING.states)
        try:
            await self._call(lambda memory: memory.delete_many(where))
        except retain.InvalidInputError as error:
            if error.field != "where":
                raise
            raise retain.InvalidInputError(
                "clear() would delete everything; give this memory a namespace, an agent_id or a conversation_id",
                field="namespace",
            ) from error

    async def close(self) -> None:
        """Close the database or the connection. Idempotent; the next call opens it again."""
        await asyncio.to_thread(self._lazy.close)

    # -- the component ------------------------------------------------------------------------------------------

    def _to_config(self) -> RetainMemoryConfig:
        if self._given_embedder:
            raise TypeError("a RetainMemory with an embedder of its own can't be dumped; name one by embedding=")
        settings = self._config.settings.items()
        shown = {name: _without_credentials(value) for name, value in settings if not name.endswith("api_key")}
        base_url = _without_credentials(self._config.base_url)
        return self._config.model_copy(update={"base_url": base_url, "settings": shown})

    @classmethod
    def _from_config(cls, config: RetainMemoryConfig) -> Self:
        given = {name: getattr(config, name) for name in RetainMemoryConfig.model_fields if name != "settings"}
        return cls(**given, **config.settings)

    # -- inside -------------------------------------------------------------------------------------------------

    def _scope(self) -> retain.Filter:
        config = self._config
        return retain.Filter(
            namespace=config.namespace, agent_id=config.agent_id, conversation_id=config.conversation_id
        )

    def _new_memory(self, content: MemoryContent) -> retain.NewMemory:
        text, mime_type = readable(content)
        metadata = content.metadata or {}
        if OWN in metadata:
            raise retain.InvalidInputError(f"metadata may not hold {OWN!r}, which names its origin", field="metadata")
        config = self._config
        # Without a key of its own, a text that another agent of the namespace stored already would stay that
        # agent's alone, and this memory would never find it.
        owner = (config.agent_id, config.conversation_id)
        return retain.NewMemory(
            content=text,
            tags=config.tags,
            metadata={**metadata, OWN: {"mime_type": mime_type}},
            namespace=config.namespace,
            agent_id=config.agent_id,
            conversation_id=config.conversation_id,
            key=f"{OWN}:{digest_of(*owner, mime_type, text)}",
            keep_tags=True,
        )

    async def _call(
        self, work: Callable[[retain.SyncMemory], T], cancellation_token: CancellationToken | None = None
    ) -> T:
        future = asyncio.ensure_future(asyncio.to_thread(lambda: work(self._lazy.memory)))
        if cancellation_token is not None:
            cancellation_token.link_future(future)
        return await future

    @property
    def _mark(self) -> str:
        """The last line of this memory's message, by which it is known from those of other memories."""
        config = self._config
        return own_mark(config.base_url or config.url, config.namespace, config.agent_id, config.conversation_id)

    async def _take_back(self, model_context: ChatCompletionContext) -> None:
        # get_messages() shows a part only, and may hold messages that stand for what it skips; the state holds all.
        state = await model_context.save_state()
        messages = cast("Sequence[Mapping[str, Any]]", state.get("messages", ()))
        kept = [message for message in messages if not self._is_own(message)]
        if len(kept) < len(messages):
            await model_context.load_state({**state, "messages": kept})

    def _is_own(self, message: Mapping[str, Any]) -> bool:
        text = message.get("content")
        return message.get("type") == "SystemMessage" and is_recalled_block(text) and str(text).endswith(self._mark)


def _without_credentials(value: Any) -> Any:
    return _CREDENTIALS.sub("", value) if isinstance(value, str) and "://" in value else value
