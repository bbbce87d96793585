"""The machine and its state, as far as figures depend on it; no names, no paths."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("apsw", "sqlite-vec", "numpy", "onnxruntime", "tokenizers", "fastapi", "uvicorn", "mcp")


def described() -> dict[str, object]:
    """Return the machine, the versions and the date."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": cores(),
        "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0] or 0) / 2**20, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "retain": version("retain"),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def load() -> float:
    """Return how many processes wanted to run, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def _field(file: str, name: str) -> str:
    for line in Path(file).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "0"
