import gzip
import hashlib
import json
import lzma
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import datasets
import huggingface_hub
import pyarrow
import pyarrow.parquet
import pytest

from retain import InvalidInputError
from retain_evals.datasets import longmemeval, open_benchmark, open_source, sha256_of

SAMPLES = Path(__file__).parent / "samples"
SAMPLE = SAMPLES / "longmemeval_sample.json"
ROWS: list[dict[str, Any]] = json.loads(SAMPLE.read_bytes())
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def locks_of_hugging_face_in_a_folder_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def as_array(rows: list[Any]) -> bytes:
    return json.dumps(rows).encode()


def as_lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


FILES = {
    "rows.json": as_array(ROWS),
    "lines.json": as_lines(ROWS),
    "ROWS.JSON": b" \n" + as_array(ROWS),
    "rows.jsonl": as_lines(ROWS) + b"\n",
    "rows.json.xz": lzma.compress(as_array(ROWS)),
    "rows.jsonl.xz": lzma.compress(as_lines(ROWS)),
    "rows.json.gz": gzip.compress(as_array(ROWS)),
    "rows.jsonl.gz": gzip.compress(as_lines(ROWS)),
}


@pytest.mark.parametrize("name", FILES)
def test_every_json_file_gives_the_same_rows_with_numbers_and_texts_as_answers(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(FILES[name])
    assert list(open_source(str(tmp_path / name))) == ROWS


def test_a_table_gives_the_same_haystacks(tmp_path: Path):
    # A column of a table has one type, so a table holds numbers as text.
    table = pyarrow.Table.from_pylist([row | {"answer": str(row["answer"])} for row in ROWS])
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    assert list(open_benchmark("longmemeval", str(tmp_path / "rows.parquet"))) == list(longmemeval(ROWS))


def test_a_table_of_conversations_gives_the_same_haystacks(tmp_path: Path):
    rows = json.loads((SAMPLES / "locomo_sample.json").read_bytes())
    for question in rows[0]["qa"]:
        question["answer"] = str(question["answer"]) if "answer" in question else None
    other: dict[str, Any] = {"sample_id": "conv-2", "qa": rows[0]["qa"][:1], "conversation": {}}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([*rows, other]), tmp_path / "rows.parquet")
    full, empty = open_benchmark("locomo", str(tmp_path / "rows.parquet"))
    assert full == next(iter(open_benchmark("locomo", str(SAMPLES / "locomo_sample.json"))))
    assert empty.sessions == ()


def test_rows_can_be_read_repeatedly():
    source = open_source(str(SAMPLE))
    assert list(source) == list(source)


def test_a_dataset_of_hugging_face_serves_as_rows():
    loaded = datasets.IterableDataset.from_generator(lambda: iter(ROWS))
    assert list(longmemeval(loaded)) == list(longmemeval(ROWS))


def test_a_local_file_causes_no_request(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a local file reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert len(list(open_source(str(SAMPLE)))) == 12


MEASURE = """
import sys
from pathlib import Path
import datasets
from retain_evals.datasets import open_benchmark
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
before = peak()
print(open_benchmark("longmemeval", sys.argv[1]).survey().questions, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of one program's memory")
def test_a_file_far_larger_than_a_row_is_never_held_whole(tmp_path: Path):
    turns = [{"role": "user", "content": "A sentence of a chat. " * 40}] * 400
    sessions = {"haystack_session_ids": ["s"], "haystack_dates": ["2023/05/20 (Sat) 10:00"]}
    whole = ROWS[0] | sessions | {"haystack_sessions": [turns], "answer_session_ids": ["s"]}
    path = tmp_path / "large.json"
    path.write_bytes(as_array([whole | {"question_id": f"q{number}"} for number in range(250)]))
    assert path.stat().st_size > 90_000_000
    questions, grown = map(int, run(MEASURE, str(path), {"HF_HOME": str(tmp_path)}).split())
    assert questions == 250
    assert grown < 45_000_000


DAMAGED = {
    "cut.json": (as_array(ROWS)[:-5000], r"cut.json can't be read after row 1\d .*is the file complete"),
    "cut.jsonl": (as_lines(ROWS)[:-50], "cut.jsonl can't be read after row 11 .*is the file complete"),
    "cut.json.xz": (lzma.compress(as_array(ROWS))[:-50], "cut.json.xz can't be read"),
    "cut.json.gz": (gzip.compress(as_array(ROWS))[:-50], "cut.json.gz can't be read"),
    "not.json.xz": (as_array(ROWS), "not.json.xz can't be read after row 0"),
    "not.json.gz": (as_array(ROWS), "not.json.gz can't be read after row 0"),
    "not.parquet": (as_array(ROWS), "not.parquet can't be read after row 0"),
    "object.json": (b'{\n"rows": []}', "object.json can't be read after row 0 .*Expected a JSON array of objects"),
    "latin.jsonl": ('{"a": "é"}'.encode("latin-1"), "latin.jsonl can't be read after row 0"),
    "latin.json": ('[{"a": "é"}]'.encode("latin-1"), "latin.json can't be read after row 0"),
    "texts.json": (b'[{}, "row"]', "texts.json, row 2 is 'row'; expected an object with fields"),
    "empty.json": (b"", "empty.json holds no rows; give a file with at least one"),
    "none.json": (b"[]", "none.json holds no rows; give a file with at least one"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_the_row(tmp_path: Path, name: str):
    content, message = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        list(open_source(str(tmp_path / name)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.json", "there is no file missing.json; give an existing file, or a dataset"),
        ("folder/missing.json.xz", "there is no file folder/missing.json.xz"),
        ("one/two/three", "there is no file one/two/three"),
        ("", "is a folder; give the data file in it"),
    ],
)
def test_a_file_that_is_not_there_is_refused(name: str, message: str):
    with pytest.raises(InvalidInputError, match=message):
        open_source(name)


def test_a_folder_and_an_unknown_kind_of_file_are_refused(tmp_path: Path):
    (tmp_path / "rows.csv").touch()
    with pytest.raises(InvalidInputError, match=r"rows.csv is of an unknown kind; convert it to one of .json, .jsonl"):
        open_source(str(tmp_path / "rows.csv"))
    with pytest.raises(InvalidInputError, match="is a folder"):
        open_source(str(tmp_path))


def test_the_hash_is_that_of_the_bytes():
    assert sha256_of(SAMPLE) == hashlib.sha256(SAMPLE.read_bytes()).hexdigest()


def test_offline_a_dataset_of_the_hub_that_is_not_cached_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"not in the hub's cache and offline mode is on.*give its path"):
        open_source("owner/chats:rows.json", offline=True)
    with pytest.raises(InvalidInputError, match="name one as owner/chats:file, or a local file"):
        open_source("owner/chats", offline=True)


def test_offline_a_dataset_of_the_hub_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    cached = tmp_path / "datasets--owner--chats"
    (cached / "snapshots" / COMMIT / "part").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    (cached / "snapshots" / COMMIT / "part" / "rows.json").write_bytes(as_array(ROWS))
    source = open_source("owner/chats:part/rows.json", offline=True)
    assert source.revision == COMMIT
    assert list(source) == ROWS


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does for a dataset with one data file, one with two, and for none other."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self.wfile.write(self._answer())

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the output of the tests clean."""

    def _answer(self) -> bytes:
        listed = {"one": ["README.md", "rows.json"], "two": ["a.json", "b.parquet"]}
        dataset = self.path.split("/")[4 if self.path.startswith("/api/") else 3]
        body = b"{}"
        if self.path.startswith("/api/") and dataset in listed:
            body = as_array([{"type": "file", "path": path, "size": 1, "oid": "1"} for path in listed[dataset]])
        elif self.path == f"/datasets/owner/one/resolve/{self.path.split('/')[5]}/rows.json":
            body = as_array(ROWS)
        self.send_response(404 if body == b"{}" else 200)
        if body == b"{}":
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        return body


@pytest.fixture
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


FETCH = """
import sys
from retain import InvalidInputError
from retain_evals.datasets import open_source
try:
    source = open_source(sys.argv[1])
    print(source.revision, len(list(source)))
except InvalidInputError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("owner/one", f"{COMMIT} 12"),
        ("owner/one:rows.json", f"{COMMIT} 12"),
        ("owner/one:rows.csv", "owner/one:rows.csv is of an unknown kind"),
        (
            "owner/two",
            "owner/two does not say which file to read; name it as owner/two:file (one of a.json, b.parquet)",
        ),
        ("owner/none", "owner/none can't be had from the Hugging Face hub"),
        ("owner/none:rows.json", "owner/none:rows.json can't be had from the Hugging Face hub"),
    ],
)
def test_a_dataset_of_the_hub_is_found_downloaded_or_refused(hub: str, tmp_path: Path, name: str, outcome: str):
    printed = run(FETCH, name, {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"})
    assert printed.startswith(outcome)


def run(program: str, argument: str, environment: dict[str, str]) -> str:
    """Run a program in a process of its own, since memory and the hub's address are fixed for a process."""
    inherited = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, "-c", program, argument],
        env=inherited | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
