"""Run the adapters' tests with the oldest frameworks that pyproject.toml allows, each in an environment of its own."""

import os
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
RUNNER = ("pytest>=8", "pytest-asyncio>=0.24", "pytest-timeout>=2")


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's extra, what else its tests need, and where they are. Only CrewAI's do without our server beside."""

    extra: str
    tests: str
    also: tuple[str, ...] = ("server",)


ADAPTERS = (
    Adapter("langgraph", "tests/integrations/langgraph"),
    Adapter("ag2", "tests/integrations/test_ag2.py"),
    Adapter("crewai", "tests/integrations/crewai", ()),
)
"""AutoGen has one version in its range, which `make test` tests."""


def floors(extra: str) -> list[str]:
    """Return the oldest allowed version of each requirement of an extra, as pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [Requirement(text) for text in project["optional-dependencies"][extra]]
    return [f"{each.name}=={part.version}" for each in requirements for part in each.specifier if part.operator == ">="]


def test(adapter: Adapter) -> bool:
    """Run one adapter's tests at its floor; return whether they passed."""
    folder = ROOT / "var" / "floors" / adapter.extra
    python = folder / "bin" / "python"
    pins = floors(adapter.extra)
    if not python.exists():
        venv.create(folder, with_pip=True)
    extras = ",".join((adapter.extra, *adapter.also))
    install = [python, "-m", "pip", "install", "--quiet", "-e", f"{ROOT}[{extras}]", *pins, *RUNNER]
    subprocess.run(install, check=True)
    environment = {**os.environ, "RETAIN_SERVER_BIN": str(Path(sys.executable).with_name("retain"))}
    outcome = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", adapter.tests], cwd=ROOT, env=environment, check=False
    )
    print(f"{', '.join(pins)}: {'passed' if outcome.returncode == 0 else 'failed'}", flush=True)
    return outcome.returncode == 0


if __name__ == "__main__":
    outcomes = [test(adapter) for adapter in ADAPTERS]
    sys.exit(0 if all(outcomes) else 1)
