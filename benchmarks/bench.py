"""One run: its plan, its folder, its texts and databases, each made when first asked for."""

import asyncio
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from benchmarks.corpus import KnownVectors, fill, opened, real_embedder
from benchmarks.plan import Plan
from benchmarks.scale import Scaled, real, synthetic
from benchmarks.texts import Text, texts
from retain.core.ports import Embedder

SEARCHES = 5
"""Measurements of each database of short memories, with questions of their own."""
SPARE = 8_000
"""Texts beyond the large database: memories to store and questions to ask, each used once."""


class Bench:
    """What all measures share.

    Attributes:
        folder: Holds the databases and logs of this run; the caller removes it.
        cache: Keeps the vectors of the texts for the next run.
    """

    def __init__(self, plan: Plan, folder: Path, cache: Path) -> None:
        self.plan = plan
        self.folder = folder
        self._cache = cache
        self._texts = texts(plan.large + SPARE)
        self._spare = iter(self._texts[plan.large :])

    @property
    def stored(self) -> list[Text]:
        """The texts of the large database; the small one has the first of them."""
        return self._texts[: self.plan.large]

    def fresh(self, count: int) -> list[Text]:
        """Return texts that nothing has stored or asked in this run."""
        return [next(self._spare) for _ in range(count)]

    def fresh_forever(self) -> Iterator[Text]:
        """Yield such texts one by one; StopIteration after some thousands."""
        return self._spare

    @cached_property
    def embedder(self) -> Embedder:
        """The bundled model, loaded once in this process."""
        return real_embedder()

    @cached_property
    def known(self) -> KnownVectors:
        """The embedder that fills databases."""
        return KnownVectors(self.embedder, self._cache)

    @cached_property
    def small(self) -> Path:
        """A database with the first texts. Not to be written: copy it."""
        return self._filled("small", self.plan.small)

    @cached_property
    def large(self) -> Path:
        """A database with all texts of `stored`. Written only by the last measure that uses it."""
        return self._filled("large", self.plan.large)

    @cached_property
    def scaled(self) -> Scaled:
        """A database of short memories with real vectors. Not to be written: copy it."""
        return real(self.folder / "scale.db", self.plan.scale, self.known, self.embedder, self._asked)

    @cached_property
    def huge(self) -> Scaled:
        """A database of short memories with synthetic vectors, kept from run to run."""
        return synthetic(self._cache, self.plan.huge, self._asked)

    @property
    def _asked(self) -> int:
        return SEARCHES * (self.plan.operations + self.plan.warm_up)

    def copy(self, database: Path, name: str) -> Path:
        """Return a copy of a closed database."""
        return Path(shutil.copy(database, self.folder / f"{name}.db"))

    def _filled(self, name: str, count: int) -> Path:
        path = self.folder / f"{name}.db"

        async def work() -> None:
            _, service = await opened(path, self.known)
            await fill(service, self.stored[:count])
            await service.aclose()

        asyncio.run(work())
        self.known.save()
        return path
