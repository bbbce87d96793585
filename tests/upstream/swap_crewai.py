"""`pytest -p swap_crewai`: CrewAI's own tests of memory with `RetainStorage` for `LanceDBStorage`."""

import os
from pathlib import Path

from crewai.memory.storage import lancedb_storage

from retain_integrations.crewai import RetainStorage

_opened: list[RetainStorage] = []


class SwappedIn(RetainStorage):
    """`RetainStorage` with the constructor of `LanceDBStorage`: a folder instead of a URL."""

    def __init__(
        self,
        path: str | Path | None = None,
        table_name: str = "memories",
        vector_dim: int | None = None,
        compact_every: int = 100,
    ) -> None:
        folder = Path(path) if path is not None else Path(os.environ["CREWAI_STORAGE_DIR"]) / "memory"
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / f"{table_name}.db")
        _opened.append(self)


lancedb_storage.LanceDBStorage = SwappedIn


def pytest_sessionfinish() -> None:
    """Close what the tests left open; they would not have been about us if there were none."""
    assert _opened
    for storage in _opened:
        storage.close()
