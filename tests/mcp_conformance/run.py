"""Runs the official MCP conformance suite against our server for each protocol revision; `make conformance`.

Twice: with sessions and event streams, where all that is scored must pass, and as `retain serve` is, where that which
is about streams cannot apply. The suite and the Node that it needs come from npm once, pinned, into var/conformance.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "var" / "conformance"
SUITE = "@modelcontextprotocol/conformance"
PACKAGES = {SUITE: "0.2.0-alpha.12", "node": "22.23.3"}
REVISIONS = ("2025-11-25", "2026-07-28")
MODES: dict[str, frozenset[str]] = {
    "streams": frozenset(),
    "shipped": frozenset(
        (
            "tools-call-with-logging",
            "tools-call-with-progress",
            "tools-call-sampling",
            "tools-call-elicitation",
            "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums",
        )
    ),
}
"""How the server runs, and which scenarios that leaves out."""
START_LIMIT_S = 60
RUN_LIMIT_S = 600


def install() -> None:
    """Fetch the pinned packages unless they are there."""
    # The package "node" fetches its binary in an install script, which npm runs only for those named here.
    project = json.dumps({"private": True, "dependencies": PACKAGES, "allowScripts": {"node": True}}, indent=2)
    manifest = CACHE / "package.json"
    if manifest.is_file() and manifest.read_text("utf-8") == project and Path(suite()[0]).is_file():
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("the conformance suite comes from npm, which is not installed here; install Node.js and try again")
    print(f"fetching {', '.join(f'{name} {version}' for name, version in PACKAGES.items())} …", flush=True)
    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True)
    manifest.write_text(project, "utf-8")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent"], cwd=CACHE, check=True)


def suite() -> list[str]:
    """Return the command that runs the suite."""
    modules = CACHE / "node_modules"
    return [str(modules / "node" / "bin" / "node"), str(modules / SUITE / "dist" / "index.js")]


@contextmanager
def running_server(mode: str) -> Iterator[str]:
    """Run the server with fixtures on a free port while entered; gives its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HERE / "server.py"), str(port), str(Path(folder) / "memories.db"), mode]
        process = subprocess.Popen(command, cwd=ROOT)
        try:
            await_port(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(timeout=20)


def await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Return once something listens on `port`."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the server ended with code {process.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit(f"the server did not listen on port {port} within {START_LIMIT_S} s")


def failures(output: str) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Return passed and failed checks by scored scenario, and the scored scenarios that failed."""
    scored, _, rest = output.partition("\nNot scored")
    unscored = set(re.findall(r"^\s+[✓✗] ([\w-]+) \(", rest, re.MULTILINE))
    lines = re.findall(r"^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed", scored, re.MULTILINE)
    counts = {name: (int(passed), int(failed)) for _, name, passed, failed in lines if name not in unscored}
    failed = [name for mark, name, _, _ in lines if name in counts and (mark == "✗" or counts[name][1])]
    return counts, failed


def check(url: str, mode: str, revision: str) -> bool:
    """Run what a revision requires, print the outcome, and return whether all that is scored and applies passed."""
    command = [*suite(), "server", "--url", url, "--requirements", revision]
    done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    counts, failing = failures(done.stdout)
    left_out = MODES[mode] & counts.keys()
    failed = [name for name in failing if name not in left_out]
    passed = sum(passed for name, (passed, _) in counts.items() if name not in left_out)
    print(
        f"MCP {revision}, {mode}: {len(counts) - len(left_out)} scored scenarios, {passed} checks passed, "
        f"{len(failed)} scenarios failed, {len(left_out)} do not apply",
        flush=True,
    )
    if failed or not counts:
        print(done.stdout, done.stderr, sep="\n")
        print(f"failed: {', '.join(failed) or 'the suite did not run'}")
    return bool(counts) and not failed


def main() -> int:
    """Return the exit code."""
    install()
    passed: list[bool] = []
    for mode in MODES:
        with running_server(mode) as url:
            passed += [check(url, mode, revision) for revision in REVISIONS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
