"""Standard streams and files as shells and disks hand them over: closed, full, devices, pipes, links."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.transports.cli.running import Cli

RETAIN = f"{sys.executable} -W error -m retain.transports.cli.main"
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which `retain` is the command."""
    return subprocess.run(
        ["sh", "-c", command.replace("retain", RETAIN, 1)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def failed_in_one_line(outcome: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert outcome.returncode == code, outcome.stderr
    assert outcome.stderr.startswith(("error: ", "{")) and outcome.stderr.count("\n") == 1, outcome.stderr
    assert said in outcome.stderr


@pytest.mark.parametrize("command", ["retain store -", "retain session -", "retain import -"])
def test_a_closed_standard_input_is_said(command: str) -> None:
    failed_in_one_line(shell(f"{command} <&-"), 2, "can't read standard input: ")


@pytest.mark.parametrize("command", ["retain list", "retain --json stats", "retain export", "retain --version"])
def test_a_closed_standard_output_is_said(command: str) -> None:
    failed_in_one_line(shell(f"{command} >&-"), 8, "can't write the answer: ")


def test_a_closed_standard_error_costs_only_the_remarks() -> None:
    assert shell("retain get nothing 2>&-").returncode == 2
    assert shell("retain store text 2>&-").stdout.startswith("stored ")


def test_a_command_that_reads_nothing_works_without_standard_input() -> None:
    assert shell("retain store text <&-").stdout.startswith("stored ")


def test_mcp_without_standard_input_ends() -> None:
    outcome = shell("retain mcp <&-")
    assert outcome.returncode == 0
    assert "Traceback" not in outcome.stderr


@needs_full
@pytest.mark.parametrize("command", ["retain list", "retain --json list", "retain export", "retain config"])
def test_a_full_disk_under_standard_output_is_said(command: str) -> None:
    assert shell("retain store text").returncode == 0
    failed_in_one_line(shell(f"{command} > /dev/full"), 8, "can't write the answer: ")


@needs_full
def test_a_full_disk_under_an_export_is_said(cli: Cli) -> None:
    cli.stored("text")
    code, error = cli.refused("export", "/dev/full", "--force")
    assert code == 8
    assert "can't write /dev/full: " in error
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_an_export_into_a_pipe_leaves_it_one(cli: Cli) -> None:
    cli.stored("text")
    pipe = cli.folder / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert cli("export", str(pipe), "--force").code == 0
    reader.join(timeout=20)
    assert '"text"' in read[0]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_export_through_a_link_replaces_what_it_points_to(cli: Cli) -> None:
    cli.stored("text")
    folder = cli.folder / "elsewhere"
    folder.mkdir()
    target, link = folder / "kept.jsonl", cli.folder / "link.jsonl"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    assert "--force" in cli.refused("export", str(link))[1]
    assert cli("export", str(link), "--force").code == 0
    assert link.is_symlink()
    assert '"text"' in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["kept.jsonl"]


def test_an_export_through_a_link_to_nothing_makes_what_it_points_to(cli: Cli) -> None:
    cli.stored("text")
    link = cli.folder / "link.jsonl"
    link.symlink_to(cli.folder / "new.jsonl")
    assert cli("export", str(link)).code == 0
    assert link.is_symlink()
    assert '"text"' in (cli.folder / "new.jsonl").read_text()


def test_an_export_to_what_can_not_be_written_is_refused_in_one_line(cli: Cli) -> None:
    circle = cli.folder / "circle"
    circle.symlink_to(circle)
    for name in (str(cli.folder), str(circle), "nowhere/out.jsonl"):
        code, error = cli.refused("export", name, "--force")
        assert code == 2
        assert "can't write" in error


def test_a_setting_that_is_no_text_is_named(cli: Cli) -> None:
    outcome = subprocess.run(
        [*RETAIN.split(), "list"],
        env={**os.environb, b"RETAIN_DATABASE_URL": b"/tmp/\xff.db"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    failed_in_one_line(outcome, 2, "database_url is not UTF-8 text")


@pytest.mark.parametrize("columns", ["0", "", "nonsense"])
def test_a_width_that_is_none_counts_as_80(columns: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.stored("a text to be seen")
    monkeypatch.setenv("COLUMNS", columns)
    assert "a text to be seen" in cli("list").out


@pytest.mark.parametrize("digits", [5_000])
def test_a_number_that_is_too_long_is_said_with_its_line(digits: int, cli: Cli) -> None:
    header = b'{"kind": "header", "format": "retain", "version": 1}\n'
    code, error = cli.refused("import", "-", stdin=header + b'{"kind": "memory", "n": ' + b"1" * digits + b"}\n")
    assert code == 2
    assert "line 2 holds a number of 5,000 digits, which is too long" in error
    assert "metadata" in cli.refused("store", "x", "--metadata", '{"n": ' + "1" * digits + "}")[1]
