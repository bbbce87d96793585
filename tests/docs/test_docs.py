"""Documentation is true: its snippets run, its links lead somewhere, and everything a user meets is named in it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.domain import errors
from retain.settings import Settings, environment_name
from tests.servers import RunningServer

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(path: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(path.read_text()) if name == language]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("docs") / "memories.db") as running:
        yield running


def python_snippets() -> list[tuple[str, str]]:
    return [(path.name, body) for path in PAGES for body in snippets(path, "python")]


@pytest.mark.parametrize(("page", "snippet"), python_snippets())
def test_a_python_snippet_runs(page: str, snippet: str, server: RunningServer, tmp_path: Path) -> None:
    here = re.sub(r"http://(localhost|127\.0\.0\.1):8000", server.url, snippet)
    if "async with" in here or "await " in here:
        body = "\n".join(f"    {line}" for line in here.splitlines())
        here = f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())\n"
    outcome = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", here],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr


def test_the_program_of_the_announcement_prints_its_memory(server: RunningServer) -> None:  # Shows 2
    program = next(body for body in snippets(ROOT / "README.md", "python") if "X-Agent-ID" in body)
    body = "\n".join(f"    {line}" for line in program.replace("http://localhost:8000", server.url).splitlines())
    source = f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())\n"
    outcome = subprocess.run([sys.executable, "-c", source], text=True, capture_output=True, check=True)
    assert "API rate limit is 100 req/min" in outcome.stdout
    assert "['api', 'limits', 'agent:researcher']" in outcome.stdout


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_json_snippets_are_json(path: Path) -> None:
    for body in snippets(path, "json"):
        json.loads(body)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def all_docs() -> str:
    return "\n".join(path.read_text() for path in PAGES)


def test_every_setting_is_documented() -> None:
    docs = all_docs()
    for name in Settings.model_fields:
        assert environment_name(name) in docs, name


def test_every_error_code_is_documented() -> None:
    docs = all_docs()
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.RetainError) and value is not errors.RetainError:
            assert f"`{value.code}`" in docs, value.code


async def test_every_route_is_documented(server: RunningServer) -> None:
    import httpx

    docs = all_docs()
    async with httpx.AsyncClient(base_url=server.url) as client:
        schema = (await client.get("/openapi.json")).json()
    for path in schema["paths"]:
        assert path in docs, path


def test_every_command_is_documented() -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "retain.transports.cli.main", "--help"], text=True, capture_output=True, check=True
    )
    commands = re.findall(r"^\W+?\b(?<!-)([a-z]+)  ", outcome.stdout, re.MULTILINE)
    assert "recall" in commands
    docs = all_docs()
    for command in commands:
        assert f"retain {command}" in docs, command


async def test_every_tool_is_documented(server: RunningServer) -> None:
    from mcp.client import Client

    docs = all_docs()
    async with Client(f"{server.url}/mcp") as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        assert f"`{tool.name}`" in docs, tool.name


def test_nothing_names_a_registry_or_a_path_of_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    parts = ("py" + r"pi\.org", "python" + "hosted", "npm" + r"js\.", r"deb\.deb" + "ian", "/wo" + "rk/", "/ro" + "ot/")
    forbidden = re.compile("|".join(parts))
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".txt", ".json", ".sh", ".yaml", "") and path.is_file():
            found = forbidden.search(path.read_text("utf-8", "replace"))
            assert found is None, (name, found)
