"""Build the wheel, install it into fresh environments, and prove that what users install works and stays small."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = {"": (42, 285), "[server]": (66, 335)}
"""By extra: most packages, most megabytes of the environment, the model included."""


def run(*command: str | Path, **more: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, text=True, capture_output=True, **more).stdout  # type: ignore[call-overload]


def build(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def install(wheel: Path, extra: str, folder: Path) -> tuple[list[str], float]:
    """Install the wheel into a fresh environment; return its packages and megabytes, pip and setuptools aside."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1")
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "-c", constraints, f"{wheel}{extra}")
    run(python, "-m", "pip", "check")
    listed = json.loads(run(python, "-m", "pip", "list", "--format=json"))
    packages = [item["name"] for item in listed if item["name"] not in ("pip", "setuptools", "wheel")]
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
    return packages, size_mb(folder)


def prove(wheel: Path, extra: str, folder: Path) -> str:
    packages, megabytes = install(wheel, extra, folder)
    most_packages, most_megabytes = LIMITS[extra]
    line = (
        f"retain{extra}: {len(packages)} packages (asked <= {most_packages}), "
        f"{megabytes:.0f} MB (asked <= {most_megabytes})"
    )
    if len(packages) > most_packages or megabytes > most_megabytes:
        sys.exit(f"too large: {line}\n{', '.join(packages)}")
    round_trip(folder)
    return line


def round_trip(folder: Path) -> None:
    environment = {**os.environ, "RETAIN_DATABASE_URL": str(folder / "memories.db"), "RETAIN_OFFLINE": "true"}
    retain = folder / "bin" / "retain"
    outside: dict[str, object] = {"cwd": str(folder), "env": environment}
    run(retain, "store", "The deploy freeze ends on Friday", "--json", **outside)
    found = json.loads(run(retain, "recall", "when can we ship again?", "--json", **outside))
    if found["memories"][0]["content"] != "The deploy freeze ends on Friday":
        sys.exit("the installed wheel does not find what it stored")
    run(retain, "doctor", **outside)
    missing = subprocess.run([folder / "bin" / "retain-eval", "--help"], text=True, capture_output=True, check=False)
    if missing.returncode != 1 or 'pip install "retain[evals]"' not in missing.stderr:
        sys.exit(f"without its extra, retain-eval should say what to install: {missing.stderr}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        for extra in LIMITS:
            print(prove(wheel, extra, folder / f"env{len(extra)}"))


if __name__ == "__main__":
    main()
