"""AG2's knowledge store on Retain, and a policy that injects relevant memories before each call of the model.

from retain_integrations.ag2 import RecallPolicy, RetainKnowledgeStore

store = RetainKnowledgeStore("sqlite:///agents.db")
agent = Agent("planner", config=model, knowledge=KnowledgeConfig(store), assembly=[RecallPolicy(store)])
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import retain
from retain_integrations._ag2_files import Files, names_in, normal_namespace, normal_path, path_of, revision_of, text_of
from retain_integrations._question import own_mark, question_of, require_visible, tags_of
from retain_integrations._recalled import is_recalled_block, recalled_block
from retain_integrations._sync import LazyMemory

try:
    from ag2.context import ConversationContext
    from ag2.events import BaseEvent, DataInput, ModelRequest, TextInput
    from ag2.knowledge import LOG_PREFIX, ChangeCallback, ChangeSubscription
    from ag2.knowledge.polling import PollingChangeWatcher
except ImportError as error:
    raise ImportError(
        'retain_integrations.ag2 needs ag2>=1.2,<2; install it with: pip install "retain[ag2]"'
    ) from error

DEFAULT_NAMESPACE: Final = "/ag2"
_WRITING: Final = timedelta(seconds=60)
"""How long a write may take from its time stamp until others see it: the longest content embeds in 15 seconds."""

T = TypeVar("T")


def is_knowledge(path: str, /) -> bool:
    """Whether search sees the file at `path`: not AG2's event logs, its descriptions of directories or hidden files."""
    name = path.rpartition("/")[2]
    return not path.startswith(LOG_PREFIX) and name != "SKILL.md" and not name.startswith(".")


class RetainKnowledgeStore:
    """A `KnowledgeStore` whose files are memories: read by path here, and found by meaning from everywhere.

    Paths, listings, offsets and missing files are as in AG2's own stores. Writing, appending and deleting a file are
    atomic, also between processes.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        agent_id: str | None = None,
        tags: Sequence[str] = (),
        searchable: Callable[[str], bool] = is_knowledge,
        poll_interval_s: float = 0.5,
        embedder: Callable[[], retain.Embedder] | None = None,
        **settings: Any,
    ) -> None:
        """Nothing is opened before the first call.

        Args:
            url: `sqlite:///PATH` or a plain path, for a database in this process; None takes the setting.
            base_url: Where a service listens, instead of `url`.
            api_key: A key of that service; None takes the setting `api_key`.
            namespace: Where the files are kept. Stores of one namespace share their files.
            agent_id: Who writes here, up to 64 characters. All stores of the namespace read the file nevertheless.
            tags: For every file written.
            searchable: Which paths recall may find. The others are never embedded, and read by path only.
            poll_interval_s: How often `on_change` looks for changes, in seconds, at least 0.05.
            embedder: Makes the embedder of a database in this process.
            **settings: Any setting of Retain by name.

        Raises:
            InvalidInputError: a value is impossible, or two contradict each other.
        """
        require_visible(agent_id=agent_id)
        self.namespace = normal_namespace(namespace)
        self.place = base_url or url
        self._files = Files(namespace=self.namespace, agent_id=agent_id, tags=tags_of(tags), searchable=searchable)
        self._poll_interval_s = poll_interval_s
        self._lazy = LazyMemory(url, base_url=base_url, api_key=api_key, embedder=embedder, **settings)

    async def call(self, work: Callable[[retain.SyncMemory], T], /) -> T:
        """Return what `work` does with the memory that the files are kept in, without blocking the event loop."""
        return await asyncio.to_thread(lambda: work(self._lazy.memory))

    async def close(self) -> None:
        """Close the database or the connection. Idempotent; the next call opens it again."""
        await asyncio.to_thread(self._lazy.close)

    async def read(self, path: str) -> str | None:
        """Return the file at `path`; None when there is none."""
        found = await self.call(lambda memory: self._files.find(memory, normal_path(path)))
        return None if found is None else text_of(found)

    async def write(self, path: str, content: str) -> None:
        """Write the file at `path`, in place of what was there.

        Raises:
            TooLargeError: the file is longer than the setting `max_content_chars`, or its path than 500 characters.
            InvalidInputError: `path` is the root, or `content` holds what no database can carry, such as NUL.
        """
        _require_text(content)
        await self.call(lambda memory: self._files.change(memory, normal_path(path), lambda _: content))

    async def append(self, path: str, content: str) -> int:
        """Append to the file at `path`, or make it; return the byte offset at which `content` stands.

        Raises:
            TooLargeError, InvalidInputError: as of `write`.
        """
        _require_text(content)
        before = await self.call(
            lambda memory: self._files.change(memory, normal_path(path), lambda old: old + content)
        )
        return len(before.encode())

    async def read_range(self, path: str, start: int, end: int | None = None) -> str:
        """Return the bytes [start, end) of the file at `path` as text; "" when there is no file.

        Raises:
            UnicodeDecodeError: an offset lies within a character.
        """
        whole = (await self.read(path) or "").encode()
        stop = len(whole) if end is None else min(end, len(whole))
        return whole[start:stop].decode() if start < stop else ""

    async def list(self, path: str = "/") -> list[str]:
        """Return the names of what lies directly in the directory `path`, sorted; directories end with "/"."""
        return names_in(
            await self.call(lambda memory: [path_of(file) for file in self._files.below(memory, path)]), path
        )

    async def exists(self, path: str) -> bool:
        """Whether there is a file or a directory at `path`."""
        where = normal_path(path)
        return await self.call(
            lambda memory: self._files.find(memory, where) is not None or self._files.count(memory, where) > 0
        )

    async def delete(self, path: str) -> None:
        """Delete the file at `path`, and all files below it; nothing happens when there is none."""
        await self.call(lambda memory: self._files.delete(memory, normal_path(path)))

    async def on_change(self, path: str, callback: ChangeCallback) -> ChangeSubscription:
        """Call `callback` with the path of each file at or below `path` that is written or deleted from now on.

        Changes by other stores and processes count, too. They are looked for at an interval (`poll_interval_s`), so
        two of one file may be told as one. What another way in edits may not be told.
        """
        backend = _Revisions(self, self._files)
        watcher = PollingChangeWatcher(
            backend=backend, prefix=path, callback=callback, interval_s=self._poll_interval_s
        )
        await watcher.start()
        return watcher


class _Revisions:
    """The revisions of the files below one path, for AG2's watcher, which compares them from time to time.

    After the first look, only files written lately are read, and all of them only when one has gone.
    """

    def __init__(self, store: RetainKnowledgeStore, files: Files) -> None:
        self._store = store
        self._files = files
        self._known: dict[str, str | None] = {}
        self._latest: datetime | None = None

    async def list_versions_under(self, prefix: str) -> dict[str, str | None]:
        """Return path and revision of each file at or below `prefix`."""
        return await self._store.call(lambda memory: self._look(memory, normal_path(prefix)))

    def _look(self, memory: retain.SyncMemory, path: str) -> dict[str, str | None]:
        itself = self._files.find(memory, path)
        if self._latest is not None:
            self._note([*self._files.below(memory, path, since=self._latest - _WRITING)], itself)
        if self._latest is None or self._files.count(memory, path) + (itself is not None) != len(self._known):
            self._known = {}
            self._note([*self._files.below(memory, path)], itself)
        return dict(self._known)

    def _note(self, files: Sequence[retain.Memory], itself: retain.Memory | None) -> None:
        for file in files if itself is None else (*files, itself):
            self._known[path_of(file)] = revision_of(file)
            self._latest = file.occurred_at if self._latest is None else max(self._latest, file.occurred_at)


class RecallPolicy:
    """An assembly policy that adds what is known about the latest message to the prompt, marked as data.

    Each call of the model sees one such block, or none when nothing is found.
    """

    name = "retain_recall"

    def __init__(
        self,
        store: RetainKnowledgeStore,
        *,
        namespace: str | None = None,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        tags: Sequence[str] = (),
        k: int = 5,
        score_threshold: float | None = None,
    ) -> None:
        """Ask the database or service of `store`.

        Args:
            store: Gives the connection; it need not be attached to the agent.
            namespace: What is searched, with all below it; None takes the store's own, "/" all that there is.
            agent_id: Only memories of this agent.
            conversation_id: Only memories of this conversation.
            tags: Only memories with any of these tags.
            k: Most memories that are added, 1 to 1,000.
            score_threshold: Least score of a memory that is added, in [0, 1].
        """
        require_visible(namespace=namespace, agent_id=agent_id, conversation_id=conversation_id)
        self._store = store
        self._where = retain.Filter(
            namespace=store.namespace if namespace is None else namespace,
            agent_id=agent_id,
            conversation_id=conversation_id,
            tags=tags_of(tags),
        )
        self._k = k
        self._least = 0.0 if score_threshold is None else score_threshold
        self._mark = own_mark(store.place, self._where.namespace, agent_id, conversation_id, *tags)

    async def apply(
        self, prompts: list[str], events: list[BaseEvent], context: ConversationContext
    ) -> tuple[list[str], list[BaseEvent]]:
        """Return the prompts with one block of memories at the end, and the events as they are."""
        kept = [prompt for prompt in prompts if not (is_recalled_block(prompt) and prompt.endswith(self._mark))]
        question = _latest_text(events)
        if not question:
            return kept, events
        found = await self._store.call(
            lambda memory: memory.recall(question, k=self._k, where=self._where, min_score=self._least)
        )
        block = recalled_block(dict.fromkeys(hit.memory.content for hit in found.hits))
        return ([*kept, f"{block}\n{self._mark}"] if block else kept), events


def _require_text(content: object) -> None:
    if not isinstance(content, str):
        raise retain.InvalidInputError(f"content must be text, not {type(content).__name__}", field="content")


def _latest_text(events: Sequence[BaseEvent]) -> str:
    for event in reversed(events):
        if isinstance(event, ModelRequest) and (question := question_of(_request_text(event))):
            return question
    return ""


def _request_text(request: ModelRequest) -> str:
    texts: list[str] = []
    for part in request.parts:
        if isinstance(part, TextInput):
            texts.append(part.content)
        elif isinstance(part, DataInput):
            texts.append(str(part.data))
    return "\n".join(texts)
