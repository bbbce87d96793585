from collections.abc import Sequence
from pathlib import Path

import pytest

from retain import ConflictError, InvalidInputError, NotFoundError
from retain_evals.comparison import compare, paired
from retain_evals.metrics import GROUPED, RAW, TURNS
from retain_evals.report import ALL
from retain_evals.run import Asked
from retain_evals.run_files import Manifest, RunFolder, RunManifest
from tests.evals.runs import asked

RIGHT, WRONG = ["s1:0", "s2:0"], ["s3:0", "s4:0", "s5:0", "s6:0", "s7:0", "s8:0"]


def saved(path: Path, questions: Sequence[Asked], *, name: str = "retain", sha256: str = "ab") -> Path:
    run = RunManifest(name, "turn", {})
    path.mkdir(exist_ok=True)
    folder = RunFolder(path)
    data = {"name": "half.json", "sha256": sha256, "revision": None}
    folder.prepare(Manifest("longmemeval", data, {"questions": 50}, runs={run.name: run}))
    with folder.writer(run.name) as writer:
        for question in questions:
            writer.add(question)
    return path


def run(found: int, of: int = 50) -> list[Asked]:
    return [asked(f"q{n:02}", RIGHT if n < found else WRONG, ["s1:0", "s2:0"]) for n in range(of)]


def test_it_says_which_questions_changed(tmp_path: Path):
    ((a, b),) = paired(saved(tmp_path / "a", run(10, 12)), saved(tmp_path / "b", run(11, 12)))
    comparison = compare(a, b)
    assert {(one.question_id, one.view) for one in comparison.changed} == {
        ("q10", view) for view in (GROUPED, RAW, TURNS)
    }
    assert comparison.changed[0].before == {"recall_any@5": 0, "recall_fraction@5": 0, "recall_all@5": 0}
    assert comparison.changed[0].after == {"recall_any@5": 1, "recall_fraction@5": 1, "recall_all@5": 1}
    found = comparison.differences[GROUPED, ALL, "recall_any@5"]
    assert (found.better, found.worse, found.is_more_than_noise) == (1, 0, False)


def test_it_says_when_a_difference_is_more_than_noise(tmp_path: Path):
    ((a, b),) = paired(saved(tmp_path / "a", run(20)), saved(tmp_path / "b", run(40)))
    found = compare(a, b).differences[GROUPED, ALL, "recall_any@5"]
    assert found.mean.value == pytest.approx(0.4)
    assert found.is_more_than_noise


def test_the_order_of_the_questions_does_not_matter(tmp_path: Path):
    ((a, b),) = paired(saved(tmp_path / "a", run(20)), saved(tmp_path / "b", run(20)[::-1]))
    assert compare(a, b).changed == []


def test_only_common_questions_are_compared_and_the_others_are_counted(tmp_path: Path):
    ((a, b),) = paired(saved(tmp_path / "a", run(20)), saved(tmp_path / "b", run(20)[5:]))
    comparison = compare(a, b)
    assert (comparison.questions, comparison.only_a, comparison.only_b) == (45, 5, 0)


def test_runs_of_other_data_are_not_compared(tmp_path: Path):
    ((a, b),) = paired(saved(tmp_path / "a", run(20)), saved(tmp_path / "b", run(20), sha256="cd"))
    with pytest.raises(ConflictError, match="only runs of the same data"):
        compare(a, b)


def test_runs_without_a_common_question_are_not_compared(tmp_path: Path):
    ((a, b),) = paired(saved(tmp_path / "a", run(9)[:5]), saved(tmp_path / "b", run(9)[5:]))
    with pytest.raises(InvalidInputError, match="no question in common"):
        compare(a, b)


def test_folders_are_paired_by_the_names_of_their_runs(tmp_path: Path):
    a, b = saved(tmp_path / "a", run(1)), saved(tmp_path / "b", run(2))
    saved(a, run(3), name="bm25")
    saved(b, run(4), name="bm25")
    assert [(str(x), str(y)) for x, y in paired(a, b)] == [
        (str(a / name), str(b / name)) for name in ("retain.turn", "bm25.turn")
    ]


def test_two_runs_of_one_folder_are_named_by_their_files(tmp_path: Path):
    folder = saved(tmp_path, run(1))
    saved(folder, run(2), name="bm25")
    ((a, b),) = paired(folder / "retain.turn.jsonl", folder / "bm25.turn.jsonl")
    assert (a.run.system, b.run.system) == ("retain", "bm25")


def test_paths_that_leave_the_run_open_are_refused(tmp_path: Path):
    a = saved(tmp_path / "a", run(1))
    saved(a, run(2), name="bm25")
    with pytest.raises(InvalidInputError, match="no run of the same name"):
        paired(a, saved(tmp_path / "b", run(1), name="dense"))


def test_what_is_not_there_is_told(tmp_path: Path):
    a = saved(tmp_path / "a", run(1))
    with pytest.raises(NotFoundError, match="there is no run"):
        paired(a, tmp_path / "b")
    (a / "other.jsonl").write_text("")
    with pytest.raises(NotFoundError, match=r"holds no run other; it has retain\.turn"):
        paired(a / "other.jsonl", a)
