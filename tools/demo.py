"""`make demo`: a service on a free port, thirty memories of a software team, questions in other words by every way in.

Starts only what it stops again, keeps its database in a temporary folder, and fails when a memory isn't found.
"""

import asyncio
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from mcp import Client, StdioServerParameters
from rich.console import Console
from rich.table import Table
from rich.text import Text

MEMORIES = Path(__file__).with_name("demo_memories.json")
RETAIN = (sys.executable, "-m", "retain.transports.cli.main")
MIN_SCORE = 0.3
"""What is below has nothing to do with the question; docs/recall.md has the measurements."""
ENOUGH = 3
"""An expected memory must be among so many."""
STOP_S = 20

OVER_MCP = {
    "content": "Feature flags older than 90 days are deleted by the flag owner; the nightly report lists them by team.",
    "tags": ["flags"],
    "type": "policy",
    "agent_id": "assistant",
}
OVER_CLI = (
    "The staging database is rebuilt from an anonymised copy every Sunday at 04:00, so don't keep test data there."
)
OLD_LIMIT = (
    "The partner API allows 100 requests per minute for each key; beyond that it answers 429 with a Retry-After header."
)
NEW_LIMIT = (
    "The partner API allows 250 requests per minute for each key; beyond that it answers 429 with a Retry-After header."
)
NONSENSE = "recipe for banana bread with walnuts"

Json = dict[str, Any]
Ask = Callable[[str], Awaitable[list[Json]]]


@dataclass(frozen=True)
class Question:
    """A question, and words of the memory that answers it."""

    text: str
    answer: str


BY_REST = (
    Question("when may we ship to production again?", "deploy freeze"),
    Question("how often may I call our partner's service?", "partner API"),
    Question("why did card charging break one night?", "certificate"),
)
BY_MCP = (
    Question("undo a broken deployment", "deploy revert"),
    Question("what is the biggest file a user can send?", "25 MB"),
    Question("can I keep sample records on the test system?", "staging database"),
)
BY_CLI = (
    Question("when is a former customer's data deleted?", "30 days after"),
    Question("bill showed the wrong date in New Zealand", "Auckland"),
    Question("who removes stale feature switches?", "Feature flags"),
)


@dataclass(frozen=True)
class Found:
    """What one question brought: its rank among the hits, counted from 1, and the hit."""

    question: Question
    way: str
    rank: int
    hit: Json | None


def main() -> int:
    """Run the demo; the exit code is 0 when every expected memory was found."""
    started = time.perf_counter()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    console = Console(highlight=False, markup=False)
    with tempfile.TemporaryDirectory(prefix="retain-demo-", ignore_cleanup_errors=True) as folder:
        environment = quiet_environment(Path(folder))
        console.print("Starting a service with a throw-away database …", style="dim")
        with running_service(environment, folder) as url:
            console.print(f"It listens on {url}, with REST and MCP on the same port.\n", style="dim")
            missing = asyncio.run(demonstrate(url, environment, folder, console))
    if missing:
        console.print(f"\n{missing} of the expected memories were not found.", style="bold red")
        return 1
    console.print(
        Text(f"\nAll found in {time.perf_counter() - started:.0f} s; the service is stopped, its database gone.")
    )
    console.print(HOW_TO_GO_ON)
    return 0


HOW_TO_GO_ON = """
To go on:
  . .venv/bin/activate
  retain store "Something worth remembering" --tag first
  retain recall "what did I want to remember?"
  retain serve      REST, MCP and their description on http://127.0.0.1:8000
  retain --help     everything else"""


def quiet_environment(folder: Path) -> dict[str, str]:
    """Return the environment without the user's own settings of Retain."""
    (folder / "retain.toml").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RETAIN_")}
    return {
        **kept,
        "RETAIN_CONFIG": str(folder / "retain.toml"),
        "RETAIN_DATABASE_URL": str(folder / "demo.db"),
        "RETAIN_LOG_LEVEL": "warning",
        "PYTHONUTF8": "1",
    }


@contextlib.contextmanager
def running_service(environment: dict[str, str], folder: str) -> Generator[str]:
    """Run `retain serve` on a free port while the block lasts, and give its URL."""
    command = (*RETAIN, "serve", "--port", "0", "--json")
    process = subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield str(json.loads(read_document(process))["url"])
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def read_document(process: "subprocess.Popen[str]") -> str:
    """Return the JSON document that the service prints when it is ready."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            return "".join(lines)
    raise SystemExit("the service did not start; its message is above")


async def demonstrate(url: str, environment: dict[str, str], folder: str, console: Console) -> int:
    """Store, ask, correct; return how many expected memories were missing."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as rest, stdio_client(environment, folder) as mcp:
        await store_everything(rest, mcp, environment, folder, console)
        found = [
            *[await answered(question, "REST", rest_asker(rest)) for question in BY_REST],
            *[await answered(question, "MCP", mcp_asker(mcp)) for question in BY_MCP],
            *[await answered(question, "CLI", cli_asker(environment, folder)) for question in BY_CLI],
        ]
        show(found, console)
        missing = sum(each.hit is None for each in found)
        missing += not await correction_is_kept(rest, console)
        missing += not await nonsense_finds_nothing(rest, console)
    return missing


async def store_everything(
    rest: httpx.AsyncClient, mcp: Client, environment: dict[str, str], folder: str, console: Console
) -> None:
    """Store the memories of four agents over REST, one over MCP and one from the command line."""
    memories: list[Json] = json.loads(MEMORIES.read_text("utf-8"))
    for agent in dict.fromkeys(memory["agent"] for memory in memories):
        own = [{k: v for k, v in memory.items() if k != "agent"} for memory in memories if memory["agent"] == agent]
        answer = await rest.post("/api/memories/batch", json={"memories": own}, headers={"X-Agent-ID": agent})
        answer.raise_for_status()
    outcome = await mcp.call_tool("memory_store", OVER_MCP)
    assert not outcome.is_error, outcome
    await run_cli(environment, folder, "store", OVER_CLI, "--tag", "staging", "--agent", "ops")
    tags = (await rest.get("/api/tags")).json()["tags"]
    agents = ", ".join(each["tag"].removeprefix("agent:") for each in tags if each["tag"].startswith("agent:"))
    total = (await rest.get("/api/stats")).json()["total"]
    console.print(f"Stored {total} memories of {agents}; {len(memories)} by REST, 1 by MCP, 1 by command line.")


async def answered(question: Question, way: str, ask: Ask) -> Found:
    """Ask, and find the expected memory among the first hits."""
    for rank, hit in enumerate((await ask(question.text))[:ENOUGH], 1):
        if question.answer in hit["content"]:
            return Found(question, way, rank, hit)
    return Found(question, way, 0, None)


def rest_asker(rest: httpx.AsyncClient) -> Ask:
    """Return a function that asks over REST."""

    async def ask(text: str) -> list[Json]:
        answer = await rest.post("/api/memories/search", json={"query": text, "k": ENOUGH})
        return answer.raise_for_status().json()["memories"]

    return ask


def mcp_asker(mcp: Client) -> Ask:
    """Return a function that asks over MCP."""

    async def ask(text: str) -> list[Json]:
        answer = await mcp.call_tool("memory_search", {"query": text, "k": ENOUGH})
        assert answer.structured_content is not None, answer
        return answer.structured_content["memories"]

    return ask


def cli_asker(environment: dict[str, str], folder: str) -> Ask:
    """Return a function that asks by command line."""

    async def ask(text: str) -> list[Json]:
        return (await run_cli(environment, folder, "recall", text, "-k", str(ENOUGH)))["memories"]

    return ask


@contextlib.asynccontextmanager
async def stdio_client(environment: dict[str, str], folder: str) -> AsyncGenerator[Client]:
    """Start `retain mcp` and connect to it."""
    command, *arguments = RETAIN
    parameters = StdioServerParameters(command=command, args=[*arguments, "mcp"], env=environment, cwd=folder)
    async with Client(parameters) as client:
        yield client


async def run_cli(environment: dict[str, str], folder: str, *arguments: str) -> Any:
    """Run a command with `--json` and return its answer."""
    process = await asyncio.create_subprocess_exec(
        *RETAIN, *arguments, "--json", env=environment, cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"retain {arguments[0]} failed with exit code {process.returncode}")
    return json.loads(output)


def show(found: Sequence[Found], console: Console) -> None:
    """Print the answers as a table."""
    table = Table(title="\nQuestions in other words", title_justify="left", title_style="bold", show_lines=False)
    table.add_column("asked by", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("question, what was found, and why", overflow="fold")
    for each in found:
        body = Text.assemble((each.question.text, "bold"))
        if each.hit is None:
            body.append("\nnot found", style="bold red")
            table.add_row(each.way, "", body)
            continue
        place = "" if each.rank == 1 else f"   (place {each.rank})"
        body.append(f"\n{shortened(each.hit['snippet'])}{place}", style="green")
        body.append(f"\n{why(each.hit)}", style="dim")
        table.add_row(each.way, f"{each.hit['score']:.2f}", body, end_section=True)
    console.print(table)


def why(hit: Json) -> str:
    """Return the signals of a hit and who knew it."""
    signals = ", ".join(f"{name} {value:.2f}" for name, value in hit["signals"].items())
    return f"{signals}; {hit['type']} by {hit['agent_id']}"


def shortened(text: str, limit: int = 150) -> str:
    """Return the beginning of a text, cut at a word."""
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


async def correction_is_kept(rest: httpx.AsyncClient, console: Console) -> bool:
    """Store a text that differs in one number: it is kept, and reported as similar to the old one."""
    answer = (await rest.post("/api/memories", json={"content": NEW_LIMIT, "tags": ["api", "limits"]})).json()
    similar = [each["snippet"] for each in answer["similar_to"]]
    kept = bool(answer["created"]) and OLD_LIMIT in similar
    console.print("\nA correction", style="bold")
    grid = Table.grid(padding=(0, 2))
    grid.add_row("stored", NEW_LIMIT)
    for each in answer["similar_to"][:1]:
        grid.add_row("similar to", f"{each['snippet']} ({math.floor(each['score'] * 100) / 100:.2f})", style="yellow")
    console.print(grid)
    console.print("Both are kept: which one holds is said by `supersedes`, never guessed.", style="dim")
    return kept


async def nonsense_finds_nothing(rest: httpx.AsyncClient, console: Console) -> bool:
    """Ask for what nobody stored: nothing reaches the least score."""
    question = {"query": NONSENSE, "min_score": MIN_SCORE}
    hits = (await rest.post("/api/memories/search", json=question)).json()["memories"]
    best = (await rest.post("/api/memories/search", json={"query": NONSENSE, "k": 1})).json()["memories"][0]["score"]
    console.print("\nNothing is made up", style="bold")
    console.print(f'"{NONSENSE}" with min_score {MIN_SCORE}: {len(hits)} found (the best scored {best:.2f}).')
    return not hits


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
