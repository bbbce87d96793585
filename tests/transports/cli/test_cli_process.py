"""The command line as programs meet it: processes, pipes, terminals without Unicode, signals, start-up time."""

import asyncio
import hashlib
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import RunningServer

ROOT = Path(__file__).parent.parent.parent.parent
RETAIN = (sys.executable, "-m", "retain.transports.cli.main")
HEAVY = ("numpy", "apsw", "onnxruntime", "httpx", "fastapi", "uvicorn", "mcp", "pydantic", "tokenizers", "asyncio")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*RETAIN, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    outcome = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "retain.transports.cli.main", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in outcome.stderr.splitlines()}
    assert "typer" in imported
    assert not [name for name in imported if name.split(".")[0] in HEAVY]
    assert "retain.core.service" not in imported


def test_help_comes_at_once() -> None:
    def cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_s() for _ in range(3)) <= 0.35


def test_import_retain_alone_imports_nothing_but_itself() -> None:
    code = "import sys, retain; print([n for n in sys.modules if n.startswith('retain.')])"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout == "['retain.version']\n"


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    import retain

    assert len(set(retain.__all__)) == len(retain.__all__)
    for name in retain.__all__:
        assert getattr(retain, name) is not None
        assert name in dir(retain)
    with pytest.raises(AttributeError, match="nonsense"):
        retain.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_entry_points_are_the_commands() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"retain": "retain.transports.cli.main:run", "retain-eval": "retain_evals.entry:run"}


def test_the_version_is_printed() -> None:
    from retain import __version__

    assert run("--version").stdout.decode() == f"retain {__version__}\n"


def test_a_terminal_without_unicode_never_crashes() -> None:  # C203
    text = "✓ 👩‍👩‍👧‍👦 Zürich 数据库 \u202e"
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    stored = run("store", text, "--tag", "🔥", "--json", **ascii_only)
    memory = json.loads(stored.stdout.decode("ascii"))["memory"]
    assert memory["content"] == text
    for arguments in (
        ("--help",),
        ("recall", "--help"),
        ("list",),
        ("recall", "Zürich"),
        ("get", memory["id"]),
        ("doctor",),
        ("tags",),
    ):
        outcome = run(*arguments, **ascii_only)
        assert outcome.returncode == 0, outcome.stderr
        assert outcome.stdout.isascii()
        assert outcome.stderr == b""
    assert run("get", "Zürich", **ascii_only).stderr.isascii()


@pytest.mark.parametrize("arguments", [("list", "--all"), ("export",), ("--help",), ("list", "--all", "--json")])
def test_a_reader_that_has_seen_enough_is_no_failure(arguments: tuple[str, ...]) -> None:
    lines = "".join(json.dumps({"role": "user", "content": f"{i} " * 400}) + "\n" for i in range(60))
    subprocess.run([*RETAIN, "session", "-"], input=lines.encode(), check=True, capture_output=True)
    reading, writing = os.pipe()
    with subprocess.Popen([*RETAIN, *arguments], stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_ctrl_c_ends_with_130_and_without_a_traceback() -> None:
    with subprocess.Popen(
        [*RETAIN, "import", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b'{"kind": "header", "format": "retain", "version": 1}\n' * 4000)
        process.stdin.flush()  # more than a pipe holds: the command is reading by now
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
    assert process.returncode == 130
    assert error.strip() == b"stopped; 0 memories are in, and the same command goes on with the rest"


def test_ctrl_c_during_an_import_says_how_much_is_in_and_a_second_run_goes_on() -> None:
    ids = [str(uuid.UUID(int=(7 << 76) | (2 << 62) | number)) for number in range(2_000)]
    at = "2026-11-30T10:30:00.000Z"
    lines = [json.dumps({"kind": "header", "format": "retain", "version": 1})]
    for id_ in ids:
        digest = hashlib.sha256(id_.encode()).hexdigest()
        record = {"id": id_, "content": id_, "content_hash": digest, "type": "observation", "namespace": "/",
                  "metadata": {}}  # fmt: skip
        lines.append(json.dumps({"kind": "memory", **record, "created_at": at, "updated_at": at, "occurred_at": at}))
    text = "".join(f"{line}\n" for line in lines).encode()
    with subprocess.Popen(
        [*RETAIN, "import", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(text)  # more than the batches under way and a pipe hold: one has been written by now
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        error = process.stderr.read().decode()
    assert process.returncode == 130
    told = re.fullmatch(r"stopped; ([\d,]+) memories are in, and the same command goes on with the rest", error.strip())
    assert told, error
    there = int(told[1].replace(",", ""))
    assert 0 < there < len(ids)
    Path("all.jsonl").write_bytes(text)
    again = json.loads(run("import", "all.jsonl", "--json").stdout)
    assert again == {"created": len(ids) - there, "skipped": there, "tombstones": 0}


def in_terminal(*arguments: str, keys: bytes = b"") -> tuple[int, str]:
    """Run a command on a terminal of its own and return its exit code and what the terminal showed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*RETAIN, *arguments], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        if keys:
            os.write(ours, keys)
        shown = b""
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        process.wait()
    os.close(ours)
    return process.returncode, shown.decode()


def test_on_a_terminal_long_work_shows_its_progress(tmp_path: Path) -> None:
    run("store", "text")
    for arguments in (("export", "all.jsonl"), ("import", "all.jsonl"), ("reembed", "--force")):
        code, shown = in_terminal(*arguments)
        assert code == 0
        assert re.search(r"\x1b\[\??[0-9;]*[a-zA-Z]", shown), arguments
        assert {"export": "exporting", "import": "importing", "reembed": "embedding"}[arguments[0]] in shown
        assert ("records" in shown) == (arguments[0] == "import")


@pytest.mark.parametrize(("keys", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 1), (b"\x04", 130, 1)])
def test_on_a_terminal_a_delete_by_condition_asks(keys: bytes, code: int, left: int) -> None:
    run("store", "text", "--tag", "a")
    left_with, shown = in_terminal("delete", "--tag", "a", keys=keys)
    assert "Delete 1 memory for good?" in shown
    assert left_with == code
    assert json.loads(run("stats", "--json").stdout)["total"] == left


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("served") / "memories.db", RETAIN_EMBEDDING="hashed") as running:
        yield running


def test_the_same_commands_work_through_a_service(server: RunningServer) -> None:
    stored = json.loads(run("--url", server.url, "store", "over the wire", "--tag", "a", "--json").stdout)
    assert json.loads(run("get", stored["memory"]["id"], "--json", RETAIN_URL=server.url).stdout) == stored["memory"]
    for arguments in (("recall", "over the wire"), ("list",), ("list", "--all"), ("export",)):
        assert b"over the wire" in run("--url", server.url, *arguments).stdout
    assert run("--url", server.url, "doctor", "--deep").returncode == 0
    assert run("--url", server.url, "tags", "rename", "a", "b").returncode == 0
    assert run("--url", server.url, "delete", "--tag", "b", "--yes").stdout == b"deleted 1 memory\n"
    outcome = run("--url", server.url, "get", stored["memory"]["id"], "--json")
    assert (outcome.returncode, json.loads(outcome.stderr)["code"]) == (3, "not_found")


def test_a_database_on_the_command_line_wins_over_a_service_in_the_environment(server: RunningServer) -> None:
    outcome = run("-d", "mine.db", "stats", "--json", RETAIN_URL=server.url)
    assert json.loads(outcome.stdout)["total"] == 0
    assert Path("mine.db").is_file()


def test_serve_says_where_everything_is() -> None:
    with subprocess.Popen(
        [*RETAIN, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().decode() for _ in range(5)]
        process.terminate()
    url = lines[0].split()[-1]
    for part in (
        f"{url}/api",
        f"{url}/docs",
        f"{url}/mcp",
        "retain mcp",
        str(Path("memories.db").absolute()),
        "Ctrl-C",
    ):
        assert part in "".join(lines)
    assert process.returncode == 0


def test_serve_with_json_prints_one_document_and_stops_on_a_signal() -> None:
    with subprocess.Popen(
        [*RETAIN, "serve", "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        document = b""
        while not document.endswith(b"}\n"):
            document += process.stdout.readline()
        process.send_signal(signal.SIGINT)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", json.loads(document)["url"])
    assert process.returncode == 0


async def test_mcp_speaks_on_standard_streams_and_warns_of_another_model(tmp_path: Path) -> None:
    run("store", "text")
    environment = {**os.environ, "RETAIN_EMBEDDING": "default"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *RETAIN, "mcp", env=environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(json.dumps(request).encode() + b"\n")
    answer = json.loads(await process.stdout.readline())
    assert answer["result"]["serverInfo"]["name"] == "retain"
    warning = await asyncio.wait_for(process.stderr.readline(), 60)
    assert b"retain reembed" in warning
    process.stdin.close()
    assert await process.stdout.read() == b""
    assert await process.wait() == 0
