"""Documentation is true: its snippets run, its links lead somewhere, and everything a user meets is named in it."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.domain import errors, memory, ontology, text
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


ANNOUNCED = """\
import httpx
BASE_URL = "http://localhost:8000"
async with httpx.AsyncClient() as client:
    await client.post(f"{BASE_URL}/api/memories", json={"content": "API rate limit is 100 req/min", "tags": ["api", "limits"]}, headers={"X-Agent-ID": "researcher"})
    results = await client.post(f"{BASE_URL}/api/memories/search", json={"query": "API rate limits", "tags": ["agent:researcher"]})
    print(results.json()["memories"])
"""  # noqa: E501 - as it was announced


def test_the_program_of_the_announcement_prints_its_memory(server: RunningServer) -> None:  # Shows 2
    program = ANNOUNCED.replace("http://localhost:8000", server.url)
    body = "\n".join(f"    {line}" for line in program.splitlines())
    source = f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())\n"
    outcome = subprocess.run([sys.executable, "-c", source], text=True, capture_output=True, check=True)
    assert "API rate limit is 100 req/min" in outcome.stdout
    assert "['api', 'limits', 'agent:researcher']" in outcome.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_readme_s_curl_calls_work(server: RunningServer) -> None:
    (calls,) = [body for body in snippets(ROOT / "README.md", "sh") if "curl" in body]
    script = calls.replace("localhost:8000", server.url).replace("curl ", "curl -sS --fail-with-body ")
    outcome = subprocess.run(["bash", "-ec", script], text=True, capture_output=True, check=True)
    assert "100 req/min" in outcome.stdout.split('"memories"')[1]


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


def test_every_command_and_option_of_the_evaluation_is_documented() -> None:
    import typer.main

    from retain_evals.cli import app

    page = (ROOT / "docs" / "evaluation.md").read_text()
    for name, command in typer.main.get_group(app).commands.items():
        assert f"retain-eval {name}" in page, name
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert any(option in page for option in parameter.opts), parameter.opts


async def test_every_tool_is_documented(server: RunningServer) -> None:
    from mcp.client import Client

    docs = all_docs()
    async with Client(f"{server.url}/mcp") as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        assert f"`{tool.name}`" in docs, tool.name


def test_every_type_and_limit_is_documented() -> None:
    page = (ROOT / "docs" / "memory.md").read_text()
    for name in ontology.BUILT_IN:
        assert f"`{name}`" in page, name
    limits = (text.MAX_TAGS, text.MAX_TAG_CHARS, text.MAX_CONTENT_CHARS, text.MAX_NAMESPACE_CHARS)
    limits += (memory.MAX_K, memory.MAX_PAGE, memory.MAX_BATCH, memory.MAX_METADATA_BYTES)
    for limit in limits:
        assert f"{limit:,}" in page, limit


def test_nothing_names_a_registry_or_a_path_of_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    parts = ("py" + r"pi\.org", "python" + "hosted", "npm" + r"js\.", r"deb\.deb" + "ian", "/wo" + "rk/", "/ro" + "ot/")
    forbidden = re.compile("|".join(parts))
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".txt", ".json", ".ipynb", ".sh", ".yaml", "") and path.is_file():
            found = forbidden.search(path.read_text("utf-8", "replace"))
            assert found is None, (name, found)
