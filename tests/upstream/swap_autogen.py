"""`pytest -p swap_autogen`: AutoGen's own tests of two memories, with `RetainMemory` in place of them.

Chroma itself is not needed: names that upstream's module imports from it stand empty where it is not installed.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import autogen_core.memory
from autogen_core.memory import MemoryContent
from pydantic import BaseModel

import retain
from retain_integrations.autogen import RetainMemory

_IMPORTED_FROM_CHROMA = {
    "chromadb": ("HttpClient", "PersistentClient"),
    "chromadb.api": ("ClientAPI",),
    "chromadb.api.models": (),
    "chromadb.api.models.Collection": ("Collection",),
    "chromadb.api.types": ("Document", "Metadata"),
}

if importlib.util.find_spec("chromadb") is None:
    for module_name, names in _IMPORTED_FROM_CHROMA.items():
        module = ModuleType(module_name)
        vars(module).update({name: type(name, (), {}) for name in names})
        sys.modules[module_name] = module

from autogen_ext.memory import chromadb as upstream  # noqa: E402 - after what it imports

_made: list[RetainMemory] = []


class SwappedIn(RetainMemory):
    """`RetainMemory` with the constructor of `ChromaDBVectorMemory`: its configuration, mapped field by field."""

    component_config_schema: Any = upstream.ChromaDBVectorMemoryConfig
    component_provider_override = "autogen_ext.memory.chromadb.ChromaDBVectorMemory"

    def __init__(self, config: Any = None) -> None:
        _made.append(self)
        self._chroma = config or upstream.PersistentChromaDBVectorMemoryConfig()
        folder = Path(getattr(self._chroma, "persistence_path", "."))
        folder.mkdir(parents=True, exist_ok=True)
        made = self._chroma.embedding_function_config
        super().__init__(
            str(folder / "memories.db"),
            namespace=f"/{self._chroma.collection_name}",
            k=self._chroma.k,
            score_threshold=self._chroma.score_threshold,
            embedder=(lambda: _with_own_function(made)) if made.function_type == "custom" else None,
        )

    @property
    def collection_name(self) -> str:
        return self._chroma.collection_name

    async def reset(self) -> None:
        await self.clear()

    def _to_config(self) -> Any:
        return self._chroma

    @classmethod
    def _from_config(cls, config: BaseModel) -> Self:
        return cls(config)


def _with_own_function(config: Any) -> retain.Embedder:
    """Make the caller's function, as upstream does, so that it may fail; its vectors here are zeros and not used."""
    config.function(**config.params)
    return retain.load_embedder()


upstream.ChromaDBVectorMemory = SwappedIn  # type: ignore[misc]


class AsAList(RetainMemory):
    """`RetainMemory` with the constructor of `ListMemory`."""

    component_config_schema: Any = autogen_core.memory._list_memory.ListMemoryConfig
    component_provider_override = "autogen_core.memory.ListMemory"

    def __init__(self, name: str | None = None, memory_contents: Sequence[MemoryContent] = ()) -> None:
        _made.append(self)
        self.name = name
        self._begun = list(memory_contents)
        folder = tempfile.mkdtemp(prefix="retain-upstream-")
        super().__init__(str(Path(folder) / "memories.db"), always=True)

    @property
    def content(self) -> list[MemoryContent]:
        return self._begun

    def _to_config(self) -> Any:
        return self.component_config_schema(name=self.name, memory_contents=self._begun)

    @classmethod
    def _from_config(cls, config: Any) -> Self:
        return cls(config.name, config.memory_contents)


autogen_core.memory.ListMemory = AsAList  # type: ignore[misc]


def pytest_sessionfinish() -> None:
    """The tests would not have been about us if they had made none of ours."""
    assert _made
