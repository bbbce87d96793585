"""How many packages and megabytes an installation brings; asks the package index, takes minutes."""

from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.readings import Reading, Readings
from tools import prove_wheel


def measure(bench: Bench) -> Readings:
    """Build the wheel and install it into fresh environments, as `make wheel` does."""
    folder = bench.folder / "installing"
    wheel = prove_wheel.build(folder / "dist")
    return _installed(wheel, "", folder, "base") | _installed(wheel, "[server]", folder, "server")


def _installed(wheel: Path, extra: str, folder: Path, name: str) -> Readings:
    packages, megabytes = prove_wheel.install(wheel, extra, folder / name)
    return {f"packages_{name}": Reading(len(packages)), f"megabytes_{name}": Reading(megabytes)}
