"""What the runner asks of a memory system."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from retain_evals.haystack import Haystack
from retain_evals.run import Grouping, Mode, Ranked


class Searcher(Protocol):
    """A haystack that was stored and can be asked."""

    async def search(self, question: str, k: int, grouping: Grouping, /) -> Sequence[Ranked]:
        """Return up to `k` memories, best first; "grouped" has one for each session."""
        ...


class System(Protocol):
    """A memory system under test. It may be sent to another process before it is first used."""

    @property
    def name(self) -> str:
        """Short and unique in a report."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether the work is done by another process, so that CPU time here says nothing about it."""
        ...

    async def settings(self) -> Mapping[str, str]:
        """Return what its figures depend on: versions, model, options."""
        ...

    def stored(self, haystack: Haystack, mode: Mode, /) -> AbstractAsyncContextManager[Searcher]:
        """Store the haystack, apart from all others; leaving removes it."""
        ...

    async def aclose(self) -> None:
        """Release what was loaded. Idempotent."""
        ...


def said(role: str, content: str, /) -> str:
    """Return the text of a turn: with the speaker when that is a name, since then it is part of what was said."""
    return content if role in ("user", "assistant", "system") else f"{role}: {content}"
