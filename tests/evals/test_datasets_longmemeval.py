import json
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import datasets
import pytest

from retain import InvalidInputError
from retain_evals.datasets import DatasetCounts, longmemeval, open_benchmark

SAMPLE = Path(__file__).parent / "samples" / "longmemeval_sample.json"
GIVEN_HALF = Path(__file__).parents[3] / "shared" / "data" / "longmemeval_s_dev.json.xz"

ROW: dict[str, Any] = {
    "question_id": "q1",
    "question_type": "multi-session",
    "question": "How many cups?",
    "question_date": "2023/05/30 (Tue) 20:36",
    "answer": "two",
    "answer_session_ids": ["answer_1"],
    "haystack_session_ids": ["other", "answer_1"],
    "haystack_dates": ["2023/05/20 (Sat) 10:00", "2023/05/10 (Wed) 09:05"],
    "haystack_sessions": [
        [{"role": "user", "content": "Hello"}],
        [
            {"role": "user", "content": "I have two cups.", "has_answer": True},
            {"role": "assistant", "content": "Good.", "has_answer": False},
        ],
    ],
}


@pytest.fixture(autouse=True)
def locks_of_hugging_face_in_a_folder_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def row(**changes: Any) -> dict[str, Any]:
    return deepcopy(ROW) | changes


def only(**changes: Any):
    (haystack,) = longmemeval([row(**changes)])
    return haystack


def test_a_row_is_a_haystack_with_one_question():
    haystack = only()
    (question,) = haystack.questions
    assert (haystack.id, question.id, question.type) == ("q1", "q1", "multi-session")
    assert (question.text, question.answer, question.is_abstention) == ("How many cups?", "two", False)
    assert question.asked_at == datetime(2023, 5, 30, 20, 36, tzinfo=UTC)


def test_sessions_come_by_date():
    assert [session.key for session in only().sessions] == ["answer_1", "other"]
    assert only().sessions[0].started_at == datetime(2023, 5, 10, 9, 5, tzinfo=UTC)


def test_sessions_of_the_same_minute_stay_as_the_file_has_them():
    haystack = only(haystack_dates=["2023/05/10 (Wed) 09:05"] * 2)
    assert [session.key for session in haystack.sessions] == ["other", "answer_1"]


def test_a_session_that_occurs_twice_has_two_keys_and_one_id():
    haystack = only(haystack_session_ids=["answer_1", "answer_1"])
    assert [session.key for session in haystack.sessions] == ["answer_1#2", "answer_1"]
    assert {session.id for session in haystack.sessions} == {"answer_1"}
    assert len({turn.id for session in haystack.sessions for turn in session.turns}) == 3


def test_a_session_whose_id_looks_like_a_second_key_keeps_keys_apart():
    sessions = [[{"role": "user", "content": "Hello"}]] * 3
    dates = ["2023/05/20 (Sat) 10:00"] * 3
    haystack = only(haystack_session_ids=["a#2", "a", "a"], haystack_dates=dates, haystack_sessions=sessions)
    assert [session.key for session in haystack.sessions] == ["a#2", "a", "a#3"]


def test_evidence_turns_are_those_with_the_answer_by_key_and_place():
    assert only().questions[0].evidence_turns == {"answer_1:0"}
    assert only().questions[0].evidence_sessions == {"answer_1"}


def test_blank_turns_are_left_out_and_counted_and_places_stay():
    changed = row()
    changed["haystack_sessions"][1].insert(0, {"role": "user", "content": " \n", "has_answer": False})
    counts = DatasetCounts()
    (haystack,) = longmemeval([changed], counts)
    assert [turn.id for turn in haystack.sessions[0].turns] == ["answer_1:1", "answer_1:2"]
    assert haystack.questions[0].evidence_turns == {"answer_1:1"}
    assert (counts.turns, counts.blank_turns) == (3, 1)


def test_a_session_without_turns_is_left_out_and_counted():
    counts = DatasetCounts()
    (haystack,) = longmemeval([row(haystack_sessions=[[], ROW["haystack_sessions"][1]])], counts)
    assert [session.id for session in haystack.sessions] == ["answer_1"]
    assert (counts.sessions, counts.empty_sessions) == (1, 1)


def test_an_abstention_shows_in_the_end_of_the_id():
    assert only(question_id="q1_abs").questions[0].is_abstention


def test_a_number_as_answer_becomes_a_text():
    assert only(answer=3).questions[0].answer == "3"


def test_evidence_that_the_haystack_lacks_is_dropped_and_counted():
    counts = DatasetCounts()
    (haystack,) = longmemeval([row(answer_session_ids=["answer_1", "answer_2"])], counts)
    assert haystack.questions[0].evidence_sessions == {"answer_1"}
    assert (counts.dropped_evidence, counts.without_evidence) == (1, 0)


def test_a_null_flag_of_a_table_format_means_no_answer():
    changed = row()
    changed["haystack_sessions"][0][0]["has_answer"] = None
    (haystack,) = longmemeval([changed])
    assert haystack.questions[0].evidence_turns == {"answer_1:0"}


MALFORMED = [
    ({"question_id": 7}, "row 1: question_id is 7; expected a text"),
    ({"question_id": " "}, "row 1: question_id is ' '; expected a text that is not blank"),
    ({"question_type": None}, "row 1 (question 'q1'): question_type is missing; expected a text"),
    ({"question": ""}, "row 1 (question 'q1'): question is ''; expected a text that is not blank"),
    ({"answer": True}, "row 1 (question 'q1'): answer is True; expected a text or a number"),
    ({"answer": ["two"]}, "row 1 (question 'q1'): answer is ['two']; expected a text or a number"),
    (
        {"question_date": "30.5.2023"},
        "row 1 (question 'q1'): question_date is '30.5.2023'; expected a text such as '2023/05/30 (Tue) 20:36'",
    ),
    (
        {"haystack_dates": ["2023/05/20 (Sat) 10:00", "2023/02/30 (Wed) 09:05"]},
        "row 1 (question 'q1'): haystack_dates[1] is '2023/02/30 (Wed) 09:05'; expected a date of the calendar",
    ),
    (
        {"haystack_dates": ["2023/05/20 (Sat) 10:00"]},
        "expected 2 members, one for each of haystack_session_ids, not 1",
    ),
    ({"haystack_sessions": []}, "row 1 (question 'q1'): haystack_sessions is []; expected 2 members"),
    ({"haystack_session_ids": "other"}, "row 1 (question 'q1'): haystack_session_ids is 'other'; expected a list"),
    ({"haystack_session_ids": ["other", None]}, "haystack_session_ids[1] is missing; expected a text"),
    ({"answer_session_ids": None}, "answer_session_ids is missing; expected a list"),
    ({"haystack_sessions": [[], ["Hello"]]}, "haystack_sessions[1][0] is 'Hello'; expected an object with fields"),
    ({"haystack_sessions": [[], {}]}, "haystack_sessions[1] is {}; expected a list"),
    (
        {"haystack_sessions": [[], [{"role": "user", "content": 5}]]},
        "haystack_sessions[1][0].content is 5; expected a text",
    ),
    (
        {"haystack_sessions": [[], [{"content": "Hello"}]]},
        "haystack_sessions[1][0].role is missing; expected a text",
    ),
    (
        {"haystack_sessions": [[], [{"role": "user", "content": "Hello", "has_answer": "yes"}]]},
        "haystack_sessions[1][0].has_answer is 'yes'; expected true or false",
    ),
]


@pytest.mark.parametrize(("changes", "message"), MALFORMED)
def test_a_malformed_row_is_refused_with_row_question_and_field(changes: dict[str, Any], message: str):
    with pytest.raises(InvalidInputError) as refused:
        list(longmemeval([row(**changes)]))
    assert message in str(refused.value)
    assert refused.value.field in changes


def test_the_row_that_is_wrong_is_named_by_its_number():
    with pytest.raises(InvalidInputError, match=r"^row 2 \(question 'q2'\): answer is missing"):
        list(longmemeval([row(), row(question_id="q2", answer=None)]))


def test_a_question_id_that_stands_twice_is_refused():
    with pytest.raises(InvalidInputError, match=r"row 2 .* expected an id that no earlier row has"):
        list(longmemeval([row(), row()]))


def test_a_long_value_is_shortened_in_the_message():
    with pytest.raises(InvalidInputError) as refused:
        list(longmemeval([row(question_date="x" * 5000)]))
    assert len(str(refused.value)) < 250


def test_the_sample_has_all_six_types_and_what_makes_the_official_data_hard():
    counts = open_benchmark("longmemeval", str(SAMPLE)).survey()
    assert len(counts.questions_by_type) == 6
    assert (counts.questions, counts.abstentions, counts.doubled_haystacks) == (12, 1, 1)
    assert (counts.sessions, counts.unique_sessions) == (79, 78)
    assert (counts.dropped_evidence, counts.without_evidence) == (0, 0)
    answers = [instance["answer"] for instance in json.loads(SAMPLE.read_bytes())]
    assert {type(answer) for answer in answers} == {str, int}


def test_all_evidence_turns_of_the_sample_lie_in_evidence_sessions():
    for haystack in open_benchmark("longmemeval", str(SAMPLE)):
        (question,) = haystack.questions
        holding = {s.id for s in haystack.sessions if any(turn.id in question.evidence_turns for turn in s.turns)}
        assert holding == question.evidence_sessions or question.is_abstention


@pytest.mark.skipif(not GIVEN_HALF.exists(), reason="the given half of LongMemEval-S is not on this machine")
class TestGivenHalf:
    """C220 and C221: for the whole set 23,867 occurrences of 23,854 sessions, 30 abstentions of 500 questions."""

    def test_sessions_are_counted_by_occurrence_and_unique_and_abstentions_apart(self):
        counts = open_benchmark("longmemeval", str(GIVEN_HALF)).survey()
        assert (counts.questions, counts.abstentions) == (250, 15)
        assert (counts.sessions, counts.unique_sessions, counts.doubled_haystacks) == (11_915, 11_906, 9)
        assert (counts.turns, counts.blank_turns, counts.empty_sessions) == (123_326, 43, 0)
        assert (counts.dropped_evidence, counts.without_evidence) == (0, 0)

    def test_keys_and_turn_ids_are_unique_where_a_session_stands_twice(self):
        doubled = next(haystack for haystack in open_benchmark("longmemeval", str(GIVEN_HALF)) if is_doubled(haystack))
        keys = [session.key for session in doubled.sessions]
        turns = [turn.id for session in doubled.sessions for turn in session.turns]
        assert len(set(keys)) == len(keys)
        assert len(set(turns)) == len(turns)
        assert sum(key.endswith("#2") for key in keys) == 1


def is_doubled(haystack: Any) -> bool:
    return len({session.id for session in haystack.sessions}) < len(haystack.sessions)
