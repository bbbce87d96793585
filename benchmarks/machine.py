"""The machine and its state, as far as figures depend on it; no names, no paths."""

import os
import platform
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

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
        "import_cpu_s": _import_cpu_s(),
        "gigaflops": _gigaflops(),
    }


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def load() -> float:
    """Return how many processes wanted to run, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def _import_cpu_s() -> float:
    """Return the CPU seconds that importing the MCP SDK takes: how fast this machine runs Python."""
    taken: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import mcp"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(min(taken), 2)


def _gigaflops() -> int:
    """Return float32 operations of a matrix product in a CPU second, in 1e9: how fast it runs the model."""
    size = 384
    left = np.ones((size, size), np.float32)
    rates: list[float] = []
    for _ in range(30):
        began = time.process_time()
        np.matmul(left, left)
        rates.append(2 * size**3 / max(time.process_time() - began, 1e-9) / 1e9)
    return round(max(rates))


def _field(file: str, name: str) -> str:
    for line in Path(file).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "0"
