"""Runs other projects' own test suites, unchanged, against our classes: `make upstream`.

The suites come with the source distributions of pinned versions, which are fetched once into var/upstream. A plugin
puts our class where the suite expects the project's own. One line is printed for each suite.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FETCHED = ROOT / "var" / "upstream"
MAIN, CREWAI = ROOT / ".venv" / "bin" / "python", ROOT / ".venv-crewai" / "bin" / "python"
QUIET_CREWAI = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
}


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests of one source distribution, what runs them, and those that are left out, with the reason."""

    package: str
    version: str
    tests: tuple[str, ...]
    plugin: str
    left_out: Mapping[str, str] = field(default_factory=dict)
    python: Path = MAIN
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.package} {self.version}"


SUITES = (
    Suite("langgraph-checkpoint", "4.3.2", ("tests/test_store.py",), "swap_langgraph"),
    Suite(
        "langgraph-checkpoint-sqlite",
        "3.1.2",
        ("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"),
        "swap_langgraph",
        {
            "tests/test_store.py::test_vector_store_initialization": "reads upstream's table names through store.conn",
            "tests/test_store.py::test_nonnull_migrations": "reads upstream's own SQL migrations",
            "tests/test_async_store.py::test_no_running_loop": "wants an error where ours works: sync calls in a loop",
        },
    ),
    Suite(
        "autogen-core",
        "0.7.5",
        ("tests/test_memory.py",),
        "swap_autogen",
        {"tests/test_memory.py::test_list_memory_content_types": "stores bytes; ours refuses what search can't read"},
    ),
    Suite("autogen-ext", "0.7.5", ("tests/memory/test_chroma_memory.py",), "swap_autogen"),
    Suite(
        "crewai",
        "1.15.30",
        ("tests/memory/test_unified_memory.py", "tests/memory/test_memory_root_scope.py",
         "tests/memory/test_storage_factory.py"),
        "swap_crewai",
        python=CREWAI,
        environment=QUIET_CREWAI,
    ),
)  # fmt: skip


def fetched(suite: Suite) -> Path:
    """Return the source distribution, fetched if it is not here yet."""
    stem = suite.package.replace("-", "_")
    there = FETCHED / f"{stem}-{suite.version}.tar.gz"
    if not there.exists():
        FETCHED.mkdir(parents=True, exist_ok=True)
        command = ["-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
        subprocess.run(
            [MAIN, *command, "-d", FETCHED, f"{suite.package}=={suite.version}"], check=True, stderr=subprocess.DEVNULL
        )
    return there


def unpacked_tests(suite: Suite, folder: Path) -> None:
    """Write the suite's `tests` to `folder`, without the project itself: what is installed is tested."""
    with tarfile.open(fetched(suite)) as archive:
        for member in archive.getmembers():
            _, _, inner = member.name.partition("/")
            if inner.startswith("tests/") and member.isfile():
                member.name = inner
                archive.extract(member, folder, filter="data")


def run(suite: Suite) -> bool:
    """Run one suite, print its line, and return whether nothing failed."""
    with tempfile.TemporaryDirectory(prefix="retain-upstream-") as name:
        folder = Path(name)
        unpacked_tests(suite, folder)
        # CrewAI's root conftest records HTTP traffic with packages that its memory tests do not use.
        (folder / "tests" / "conftest.py").unlink(missing_ok=True)
        report = folder / "report.xml"
        environment = {
            **os.environ,
            **suite.environment,
            "TMPDIR": name,
            "CREWAI_STORAGE_DIR": str(folder / "storage"),
            "PYTHONPATH": os.pathsep.join(map(str, (folder, HERE, ROOT / "service", ROOT / "integrations"))),
        }
        outcome = subprocess.run(
            [
                suite.python, "-m", "pytest", "-q", "-s", "-p", suite.plugin, "-p", "no:cacheprovider",
                "-c", "/dev/null", "--rootdir", folder, "-o", "asyncio_mode=auto", "--timeout", "300",
                f"--junitxml={report}",
                *(f"--deselect={test}" for test in suite.left_out), *suite.tests,
            ],
            cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return told(suite, report, outcome)


def told(suite: Suite, report: Path, outcome: subprocess.CompletedProcess[str]) -> bool:
    """Print what came of a suite; return whether all is well."""
    if not report.exists():
        print(f"{suite.name}: did not run\n{outcome.stdout}")
        return False
    counts = {
        name: int(value) for name, value in next(ElementTree.parse(report).iter("testsuite")).items() if value.isdigit()
    }
    failed, skipped = counts["failures"] + counts["errors"], counts["skipped"]
    passed = counts["tests"] - failed - skipped
    skips = f", skipped {skipped}" if skipped else ""
    print(f"{suite.name}: passed {passed}{skips}, left out {len(suite.left_out)}, failed {failed}", flush=True)
    for test, reason in suite.left_out.items():
        print(f"    left out {test}: {reason}")
    if failed or outcome.returncode or not passed:
        print(outcome.stdout)
        return False
    return True


def main() -> int:
    """Run all suites, or those whose package is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="*", choices=[*{suite.package for suite in SUITES}, []])
    wanted = parser.parse_args().package
    outcomes = [run(suite) for suite in SUITES if not wanted or suite.package in wanted]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
