import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain import ConflictError, InvalidInputError
from retain_evals.answering.answer_files import Answer, AnswerFolder

SETTINGS = {"data": "ab", "run": "retain.turn", "reader": "r", "judge": "j", "k": 5, "revision": None}
OPEN = Answer("q1", "multi-session", False, "0f", "Seven.", "r")
JUDGED = Answer("q2", "multi-session", True, "1f", "Unknown.", "r", "j", True, "Yes.")


def write(folder: AnswerFolder, answers: Sequence[Answer]) -> None:
    with folder.writer(SETTINGS) as writer:
        for answer in answers:
            writer.add(answer)


def lines(folder: AnswerFolder) -> list[str]:
    return (folder.path / "answers.jsonl").read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> AnswerFolder:
    return AnswerFolder(tmp_path / "answers")


def test_a_folder_that_is_not_there_holds_nothing_and_takes_any_settings(folder: AnswerFolder):
    folder.require(SETTINGS)
    assert folder.read() == {}
    assert not folder.path.exists()


def test_what_was_written_is_read_in_its_order(folder: AnswerFolder):
    write(folder, [JUDGED, OPEN])
    assert list(folder.read().values()) == [JUDGED, OPEN]


texts = st.text(max_size=8)


@given(texts, texts, st.booleans())
def test_any_text_comes_back(name: str, text: str, judged: bool):
    import tempfile

    answer = Answer(name + "\ud800\n", text, judged, text, text, text, text, judged, text)
    with tempfile.TemporaryDirectory() as path:
        write(AnswerFolder(Path(path)), [answer])
        assert AnswerFolder(Path(path)).read() == {answer.question_id: answer}


def test_an_answer_is_in_the_file_as_soon_as_it_is_added(folder: AnswerFolder):
    with folder.writer(SETTINGS) as writer:
        writer.add(OPEN)
        assert folder.read() == {"q1": OPEN}


def test_a_line_names_question_answer_models_and_verdict(folder: AnswerFolder):
    write(folder, [JUDGED])
    assert json.loads(lines(folder)[0]) == {
        "question_id": "q2",
        "question_type": "multi-session",
        "is_abstention": True,
        "prompt": "1f",
        "answer": "Unknown.",
        "reader": "r",
        "judge": "j",
        "judged": True,
        "verdict": "Yes.",
    }


def test_the_verdict_replaces_the_line_of_the_answer_when_the_folder_is_opened_again(folder: AnswerFolder):
    verdict = replace(OPEN, judge="j", judged=False, verdict="No.")
    write(folder, [OPEN, JUDGED, verdict])
    assert len(lines(folder)) == 3
    assert folder.read() == {"q1": verdict, "q2": JUDGED}
    with folder.writer(SETTINGS) as writer:
        assert writer.known == {"q1": verdict, "q2": JUDGED}
    assert len(lines(folder)) == 2


def _fields(answer: Answer) -> dict[str, object]:
    return {name: getattr(answer, name) for name in Answer.__slots__}


@pytest.mark.parametrize("lost", [1, 20, 100])
def test_a_line_that_was_not_finished_is_left_out_and_cut_off_before_more_is_written(folder: AnswerFolder, lost: int):
    write(folder, [OPEN, JUDGED])
    path = folder.path / "answers.jsonl"
    path.write_bytes(path.read_bytes()[:-lost])
    assert folder.read() == {"q1": OPEN}
    write(folder, [JUDGED])
    assert folder.read() == {"q1": OPEN, "q2": JUDGED}


@pytest.mark.parametrize("damage", ["", "[]", "{}", "null", '{"question_id": "q"}', "\0\0"])
def test_a_damaged_line_is_named(folder: AnswerFolder, damage: str):
    write(folder, [OPEN])
    with (folder.path / "answers.jsonl").open("a") as file:
        file.write(f"{damage}\n")
    with pytest.raises(InvalidInputError, match="line 2 is no answer"):
        folder.read()


@pytest.mark.parametrize(("field", "value"), [("judged", "yes"), ("answer", None), ("is_abstention", 1), ("new", 1)])
def test_a_line_with_a_field_of_another_kind_is_damaged(folder: AnswerFolder, field: str, value: object):
    write(folder, [OPEN])
    (folder.path / "answers.jsonl").write_text(json.dumps(_fields(OPEN) | {field: value}) + "\n")
    with pytest.raises(InvalidInputError, match="line 1 is no answer"):
        folder.read()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reader": "s"}, "reader: r there, s now"),
        ({"judge": "s"}, "judge: j there, s now"),
        ({"k": 10}, "k: 5 there, 10 now"),
        ({"data": "cd"}, "data: ab there, cd now"),
        ({"run": "bm25.turn", "k": 1}, "k: 5 there, 1 now; run: retain.turn there, bm25.turn now"),
    ],
)
def test_answers_to_something_else_are_refused_and_kept(folder: AnswerFolder, change: dict[str, object], told: str):
    write(folder, [OPEN])
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(InvalidInputError, match=told), folder.writer({**SETTINGS, **change}):
        pass
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_answers_of_which_nobody_knows_the_settings_are_refused(folder: AnswerFolder):
    write(folder, [OPEN])
    (folder.path / "answering.json").unlink()
    with pytest.raises(InvalidInputError, match=r"without answering\.json"):
        folder.require(SETTINGS)


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_damaged_settings_are_told(folder: AnswerFolder, content: str):
    write(folder, [OPEN])
    (folder.path / "answering.json").write_text(content)
    with pytest.raises(InvalidInputError, match=r"answering\.json is damaged"):
        folder.require(SETTINGS)


def test_only_one_process_writes(folder: AnswerFolder):
    with (
        folder.writer(SETTINGS),
        pytest.raises(ConflictError, match="another process answers"),
        AnswerFolder(folder.path).writer(SETTINGS),
    ):
        pass
    write(folder, [OPEN])


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="can't be made"), AnswerFolder(tmp_path / "file" / "a").writer({}):
        pass
