import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain import ConflictError, InvalidInputError, NotFoundError
from retain_evals.run import Asked, Ranked
from retain_evals.run_files import Manifest, RunFolder, RunManifest, names_of
from tests.evals.runs import asked

RUN = RunManifest("retain", "turn", {"model": "m", "retain": "1"})
MANIFEST = Manifest(
    "longmemeval",
    {"name": "half.json", "sha256": "ab", "revision": None},
    {"questions": 2, "sample": None, "seed": None, "limit": None},
    runs={"retain.turn": RUN},
)
QUESTIONS = [asked("q1", ["s1:0", "s2:1"], ["s2:1"]), asked("q2", [], ["s9:0"], is_abstention=True)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path)
    folder.prepare(MANIFEST)
    return folder


def write(folder: RunFolder, questions: list[Asked]) -> None:
    with folder.writer("retain.turn") as writer:
        for question in questions:
            writer.add(question)


def test_what_was_written_is_read(folder: RunFolder):
    write(folder, QUESTIONS)
    assert folder.read("retain.turn") == QUESTIONS
    assert folder.manifest() == MANIFEST


texts = st.text(max_size=8)


@given(texts, texts, st.floats(0, 1), st.dictionaries(texts, st.floats(0, 1), max_size=2))
def test_any_text_comes_back(session: str, kind: str, score: float, signals: dict[str, float]):
    import tempfile

    place = Ranked(session, None, round(score, 6), {name: round(value, 6) for name, value in signals.items()})
    question = Asked("q\n\ud800", kind, False, frozenset([session]), frozenset(), 3, (place,), (), 1.5, None)
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        folder.prepare(MANIFEST)
        write(folder, [question])
        assert folder.read("retain.turn") == [question]


@pytest.mark.parametrize("lost", [1, 20, 100])
def test_a_line_that_was_not_finished_is_left_out_and_cut_off_before_more_is_written(folder: RunFolder, lost: int):
    write(folder, QUESTIONS)
    path = folder.path / "retain.turn.jsonl"
    path.write_bytes(path.read_bytes()[:-lost])
    assert folder.read("retain.turn") == QUESTIONS[:1]
    write(folder, QUESTIONS[1:])
    assert folder.read("retain.turn") == QUESTIONS


def test_a_time_without_its_question_is_no_question(folder: RunFolder):
    write(folder, QUESTIONS)
    path = folder.path / "retain.turn.jsonl"
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    assert folder.read("retain.turn") == QUESTIONS[:1]


def test_a_question_whose_time_was_lost_is_asked_again_and_counts_once(folder: RunFolder):
    write(folder, QUESTIONS)
    path = folder.path / "retain.turn.latency.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert folder.read("retain.turn") == QUESTIONS[:1]
    write(folder, QUESTIONS[1:])
    assert folder.read("retain.turn") == QUESTIONS


def test_a_damaged_line_is_named(folder: RunFolder):
    write(folder, QUESTIONS)
    path = folder.path / "retain.turn.jsonl"
    path.write_bytes(b"\0\0\0\n" + path.read_bytes())
    with pytest.raises(InvalidInputError, match="line 1 is no question"):
        folder.read("retain.turn")


def test_equal_runs_have_equal_files_whatever_they_took(tmp_path: Path):
    folders = [RunFolder(tmp_path / name) for name in "ab"]
    for ms, folder in enumerate(folders):
        folder.path.mkdir()
        folder.prepare(MANIFEST)
        slow = Asked("q", "t", False, frozenset("s"), frozenset(), 3, (), (), wall_ms=float(ms), cpu_ms=ms / 2)
        write(folder, [slow])
    first, second = ((folder.path / "retain.turn.jsonl").read_bytes() for folder in folders)
    assert first == second


def test_more_runs_join_a_folder_of_the_same_questions(folder: RunFolder):
    other = RunManifest("bm25", "turn", {})
    folder.prepare(Manifest(MANIFEST.benchmark, MANIFEST.data, MANIFEST.selection, runs={"bm25.turn": other}))
    assert set(folder.manifest().runs) == {"retain.turn", "bm25.turn"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data": {"name": "half.json", "sha256": "cd", "revision": None}}, "data .sha256: ab there, cd now"),
        ({"selection": {"questions": 3}}, "selection .*questions: 2 there, 3 now"),
        ({"benchmark": "locomo"}, "benchmark .name: longmemeval there, locomo now"),
        (
            {"runs": {"retain.turn": RunManifest("retain", "turn", {"model": "n", "retain": "1"})}},
            "setting of retain.turn .model: m there, n now",
        ),
    ],
)
def test_runs_of_something_else_are_not_mixed_in(folder: RunFolder, change: dict[str, object], told: str):
    from dataclasses import replace

    with pytest.raises(ConflictError, match=told):
        folder.prepare(replace(MANIFEST, **change))
    assert folder.manifest() == MANIFEST


def test_a_discarded_run_is_gone(folder: RunFolder):
    write(folder, QUESTIONS)
    folder.discard("retain.turn")
    assert folder.manifest().runs == {}
    assert sorted(path.name for path in folder.path.iterdir()) == ["manifest.json"]


def test_the_time_of_all_stretches_adds_up(folder: RunFolder):
    folder.add_seconds("retain.turn", 1.5)
    folder.add_seconds("retain.turn", 2)
    assert folder.manifest().runs["retain.turn"].seconds == 3.5


def test_only_one_process_writes(folder: RunFolder):
    with (
        folder.locked(),
        pytest.raises(ConflictError, match="another evaluation writes"),
        RunFolder(folder.path).locked(),
    ):
        pass


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="can't be made"), RunFolder(tmp_path / "file" / "run").locked():
        pass


def test_a_folder_without_runs_is_told(tmp_path: Path):
    with pytest.raises(NotFoundError, match="holds no runs"):
        RunFolder(tmp_path).manifest()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": {"a": {"system": 1}}}', json.dumps({"runs": {}, "x": 1})])
def test_a_damaged_manifest_is_told(tmp_path: Path, text: str):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InvalidInputError, match="is no manifest"):
        RunFolder(tmp_path).manifest()


def test_the_name_of_a_run_is_a_file_name_everywhere():
    assert RunManifest("a/b:c d", "session", {}).name == "a-b-c-d.session"


def test_two_systems_of_one_name_are_refused():
    with pytest.raises(InvalidInputError, match="label one"):
        names_of([RUN, RUN])
