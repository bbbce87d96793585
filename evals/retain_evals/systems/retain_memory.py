"""Retain itself, through its public `MemoryAPI`: in this process, or as a running service."""

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal
from uuid import uuid4

import retain
from retain import Filter, Hit, MemoryAPI
from retain_evals.haystack import Haystack, Session
from retain_evals.run import Grouping, Mode, Ranked
from retain_evals.systems.configured import configured
from retain_evals.systems.system import said
from retain_evals.vector_cache import CachedEmbedder, VectorCache

RecallMode = Literal["hybrid", "semantic", "keyword"]


class RetainMemory:
    """Retain under one recall mode. Each haystack has a namespace of its own, in process also a database.

    What is stored is what a user would store: roles, contents and times. Sessions get numbers, since their ids give
    the evidence away.

    Args:
        recall_mode: The mode of recall.
        url: A running service; None opens databases in this process.
        api_key: Key for the service.
        cache: Folder with the vectors of earlier runs, in process only.
        overrides: Settings by name, in process only.
        label: The name in reports; None for "retain", with the recall mode unless it is the usual one.
    """

    def __init__(
        self,
        recall_mode: RecallMode = "hybrid",
        *,
        url: str | None = None,
        api_key: str | None = None,
        cache: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        label: str | None = None,
    ) -> None:
        self._recall_mode: RecallMode = recall_mode
        self._url = url
        self._api_key = api_key
        self._cache = cache
        self._overrides = dict(overrides or {})
        self._label = label or ("retain" if recall_mode == "hybrid" else f"retain-{recall_mode}")
        self._embedder: CachedEmbedder | None = None

    @property
    def name(self) -> str:
        """The label."""
        return self._label

    @property
    def is_remote(self) -> bool:
        """Whether a running service does the work."""
        return self._url is not None

    async def settings(self) -> Mapping[str, str]:
        """Return version, model, recall mode, and the settings that differ from the defaults."""
        shown = {"retain": retain.__version__, "recall_mode": self._recall_mode}
        if self._url is None:
            return shown | configured() | self._overrides | {"model": self._loaded().model_id}
        async with retain.connect(self._url, self._api_key) as memory:
            probe = await memory.store("Which model is this?", namespace="/evals")  # an empty service does not say
            model = (await memory.stats()).model
            if probe.created:
                await memory.delete(probe.memory.id)
        return shown | {"model": model.id if model else "unknown"}

    @asynccontextmanager
    async def stored(self, haystack: Haystack, mode: Mode, /) -> AsyncGenerator["_Stored"]:
        """Store the sessions in `mode`; leaving deletes them."""
        namespace = f"/evals/{uuid4().hex}"  # ids of a dataset may be anything, and others may evaluate here, too
        if self._url is not None:
            async with retain.connect(self._url, self._api_key) as memory:
                try:
                    yield await self._store(memory, haystack, mode, namespace)
                finally:
                    await memory.delete_many(Filter(namespace=namespace, states=retain.EVERYTHING.states))
            return
        with tempfile.TemporaryDirectory(prefix="retain-eval-") as folder:
            database = str(Path(folder) / "haystack.db")
            async with retain.open(database, embedder=self._loaded(), **self._overrides) as memory:
                yield await self._store(memory, haystack, mode, namespace)

    async def aclose(self) -> None:
        """Release the model and the cache."""
        if self._embedder is not None:
            await self._embedder.release()
            self._embedder = None

    async def _store(self, memory: MemoryAPI, haystack: Haystack, mode: Mode, namespace: str) -> "_Stored":
        for number, session in enumerate(haystack.sessions):
            await memory.store_session(
                _turns(session, mode),
                mode=mode,
                namespace=namespace,
                conversation_id=str(number),
                occurred_at=session.started_at,
            )
        return _Stored(memory, haystack, mode, namespace, self._recall_mode)

    def _loaded(self) -> CachedEmbedder:
        if self._embedder is None:
            embedder = retain.load_embedder(**self._overrides)
            cache = None if self._cache is None else VectorCache(self._cache, embedder.model_id)
            self._embedder = CachedEmbedder(embedder, cache)
        return self._embedder


def _turns(session: Session, mode: Mode) -> list[retain.Turn]:
    if mode == "session":  # the product writes the role before each turn itself
        return [retain.Turn(role=turn.role, content=turn.content) for turn in session.turns]
    return [retain.Turn(role=turn.role, content=said(turn.role, turn.content)) for turn in session.turns]


class _Stored:
    """One namespace."""

    def __init__(
        self, memory: MemoryAPI, haystack: Haystack, mode: Mode, namespace: str, recall_mode: RecallMode
    ) -> None:
        self._memory = memory
        self._haystack = haystack
        self._mode: Mode = mode
        self._where = Filter(namespace=namespace)
        self._recall_mode: RecallMode = recall_mode

    async def search(self, question: str, k: int, grouping: Grouping, /) -> Sequence[Ranked]:
        """Recall with the question as it stands."""
        found = await self._memory.recall(
            question,
            k=k,
            mode=self._recall_mode,
            where=self._where,
            group_by="conversation" if grouping == "grouped" else None,
        )
        return [self._ranked(hit) for hit in found.hits]

    def _ranked(self, hit: Hit) -> Ranked:
        session = self._haystack.sessions[int(hit.memory.conversation_id or "")]
        place = hit.memory.sequence
        turn = session.turns[place].id if self._mode == "turn" and place is not None else None
        return Ranked(session.id, turn, hit.score, dict(hit.signals))
