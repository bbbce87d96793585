"""CrewAI's memory on Retain: a storage, a memory that needs no LLM and no network, and one line for whole crews.

from retain_integrations.crewai import use_retain

use_retain("sqlite:///agents.db")
crew = Crew(name="research", agents=[...], tasks=[...], memory=True)
"""

from importlib import import_module

try:
    import_module("crewai.memory.storage.factory")  # came with 1.15
except ImportError as error:
    raise ImportError(
        'retain_integrations.crewai needs crewai>=1.15,<1.16; install it with: pip install "retain[crewai]"'
    ) from error

from retain_integrations.crewai._embedders import RetainEmbedder
from retain_integrations.crewai._memory import RetainCrewMemory
from retain_integrations.crewai._storage import DEFAULT_NAMESPACE, RetainStorage
from retain_integrations.crewai._use import RetainInUse, use_retain

__all__ = [
    "DEFAULT_NAMESPACE",
    "RetainCrewMemory",
    "RetainEmbedder",
    "RetainInUse",
    "RetainStorage",
    "use_retain",
]
