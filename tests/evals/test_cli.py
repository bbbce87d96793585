"""The command line: what it prints, what it refuses, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain_evals.cli import main
from tests.evals.fake_chat_endpoint import JUDGE, READER, FakeChatEndpoint, fake_chat_endpoint

SAMPLES = Path(__file__).parent / "samples"
LONGMEMEVAL = str(SAMPLES / "longmemeval_sample.json")


@pytest.fixture(scope="module", autouse=True)
def rows_cached_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import datasets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("datasets")))
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in (("a", []), ("b", ["--set", "recall_keyword_weight=0"])):
        arguments = ["longmemeval", "--data", LONGMEMEVAL, "--out", str(folder / name), *settings]
        assert main([*arguments, "--cache", str(folder / "vectors.db"), "--workers", "2"]) == 0
    return folder


def test_ctrl_c_ends_a_run_at_once_says_how_to_go_on_and_leaves_no_folder(tmp_path: Path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [Path(sys.executable).with_name("retain-eval"), "longmemeval", "--data", LONGMEMEVAL, "--mode", "both"]
    started = subprocess.Popen(
        [*command, "--out", tmp_path / "run", "--cache", tmp_path / "vectors.db", "--workers", "2"],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a terminal sends Ctrl-C to the whole group
    )
    while started.poll() is None and len(list(temporary.glob("retain-eval-*/*"))) < 2:  # both workers are at work
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGINT)
    output, _ = started.communicate(timeout=60)
    assert started.returncode == 130, output
    assert output.strip().endswith("interrupted; the same command goes on where it stopped")
    assert "Traceback" not in output
    assert not list(temporary.glob("retain-eval-*"))


def test_a_run_prints_its_tables_and_writes_reports(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(runs / "a")]) == 0
    shown = capsys.readouterr().out
    for expected in (
        "12 questions of longmemeval_sample.json",
        "retain.turn",
        "fraction@5",
        "random order",
        "whole run",
    ):
        assert expected in shown
    assert "without abstention (n = 11)" in shown
    document = json.loads((runs / "a" / "report.json").read_text())
    assert document["runs"]["retain.turn"]["questions"] == 12
    assert (runs / "a" / "report.md").read_text().startswith("# LongMemEval, 12 questions")


def test_a_report_is_printed_as_json(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(runs / "a"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmark"] == "longmemeval"


def test_two_runs_are_compared(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(runs / "a"), str(runs / "b")]) == 0
    shown = capsys.readouterr().out
    assert "12 questions" in shown and "verdict" in shown and "noise" in shown
    assert main(["compare", str(runs / "a"), str(runs / "b"), "--json"]) == 0
    (comparison,) = json.loads(capsys.readouterr().out)
    assert comparison["questions"] == 12
    assert {difference["verdict"] for difference in comparison["differences"]} <= {
        "the same",
        "noise",
        "more than noise",
    }


def test_a_run_is_the_same_as_itself(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(runs / "a"), str(runs / "a")]) == 0
    assert "No question changed" in capsys.readouterr().out


def test_locomo_runs_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = str(SAMPLES / "locomo_sample.json")
    assert main(["locomo", "--data", data, "--system", "bm25", "--out", str(tmp_path)]) == 0
    assert "LoCoMo, 10 questions" in capsys.readouterr().out


def test_the_folder_of_a_run_is_named_after_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["longmemeval", "--data", LONGMEMEVAL, "--system", "bm25", "--sample", "3", "--seed", "7"]) == 0
    assert (tmp_path / "retain-eval" / "longmemeval-longmemeval_sample-sample3-seed7" / "report.md").exists()


def test_a_peer_is_evaluated_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    peer = tmp_path / "peer.py"
    peer.write_text(
        "import json, sys\n"
        "stored = {}\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked['op'] == 'store': stored[asked['haystack']] = asked['sessions']\n"
        "    hits = [{'session': s['session'], 'turn': 0, 'score': 1.0} for s in stored[asked['haystack']]]\n"
        "    print(json.dumps({'hits': hits} if asked['op'] == 'search' else {}), flush=True)\n"
    )
    arguments = ["longmemeval", "--data", LONGMEMEVAL, "--out", str(tmp_path / "run"), "--limit", "2"]
    assert main([*arguments, "--system", f"mine=command:{sys.executable} {peer}", "--system", "bm25"]) == 0
    shown = capsys.readouterr().out
    assert "mine.turn" in shown and "bm25.turn" in shown


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["longmemeval", "--data", "none.json"], "there is no file none.json", 1),
        (["longmemeval"], "Missing option '--data'", 2),
        (["longmemeval", "--data", LONGMEMEVAL, "--mode", "page"], "Invalid value for '--mode'", 2),
        (["longmemeval", "--data", LONGMEMEVAL, "--workers", "0"], "0 workers", 1),
        (["longmemeval", "--data", LONGMEMEVAL, "--sample", "0"], "0 questions", 1),
        (["longmemeval", "--data", LONGMEMEVAL, "--set", "colour=red"], "colour", 1),
        (["longmemeval", "--data", LONGMEMEVAL, "--cache", "c.db", "--no-cache"], "--cache or --no-cache", 1),
        (["locomo", "--data", LONGMEMEVAL], "row 1", 1),
        (["report", "nowhere"], "nowhere holds no runs", 1),
        (["compare", "nowhere", "nowhere"], "there is no run nowhere", 1),
        (["frobnicate"], "No such command 'frobnicate'", 2),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    arguments: list[str], told: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    errors = capsys.readouterr().err
    assert errors.startswith("error: ") and told in errors and errors.count("\n") == 1


def test_help_comes_without_the_heavy_modules():
    heavy = (
        "import sys; from retain_evals.cli import main; main(['--help']); print([m for m in HEAVY if m in sys.modules])"
    )
    program = f"HEAVY = ('datasets', 'matplotlib', 'onnxruntime'); {heavy}"
    shown = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout
    assert "longmemeval" in shown and shown.splitlines()[-1] == "[]"


@pytest.fixture
def fake() -> Iterator[FakeChatEndpoint]:
    with fake_chat_endpoint() as endpoint:
        yield endpoint


def answering(runs: Path, fake: FakeChatEndpoint, *more: str) -> list[str]:
    arguments = ["answer", str(runs / "a"), "--data", LONGMEMEVAL, "--base-url", fake.base_url, "--model", READER]
    return [*arguments, "--judge-model", JUDGE, "--k", "3", *more]


def test_answers_are_given_judged_and_counted(
    runs: Path, fake: FakeChatEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = ("--out", str(tmp_path / "answers"), "--api-key", "sk-secret")
    assert main(answering(runs, fake, *out, "--yes", "--price", "1,2", "--json")) == 0
    shown = capsys.readouterr()
    assert "12 questions to answer or judge" in shown.err and "costs at most about" in shown.err
    assert json.loads(shown.out)["overall"] == {"correct": 12, "judged": 12}
    assert len(fake.received) == 24
    assert main(answering(runs, fake, *out, "--yes")) == 0
    assert "(12 of 12)" in capsys.readouterr().out
    assert len(fake.received) == 24
    assert not any(b"sk-secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_nothing_is_sent_before_it_is_agreed_to(
    runs: Path, fake: FakeChatEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert main(answering(runs, fake, "--out", str(tmp_path / "answers"))) == 1
    assert fake.received == []


def test_a_price_that_is_none_is_refused(
    runs: Path, fake: FakeChatEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(answering(runs, fake, "--out", str(tmp_path), "--price", "cheap")) == 1
    assert "write IN,OUT" in capsys.readouterr().err
    assert fake.received == []
