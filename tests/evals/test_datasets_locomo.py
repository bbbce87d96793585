from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import datasets
import pytest

from retain import InvalidInputError
from retain_evals.datasets import DatasetCounts, locomo, open_benchmark

SAMPLE = Path(__file__).parent / "samples" / "locomo_sample.json"
GIVEN_HALF = Path(__file__).parents[3] / "shared" / "data" / "locomo_dev.json.xz"

QUESTION: dict[str, Any] = {"question": "Who sings?", "answer": "Ana", "evidence": ["D1:2"], "category": 4}
ROW: dict[str, Any] = {
    "sample_id": "conv-9",
    "qa": [QUESTION],
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Ben",
        "session_1_date_time": "12:05 am on 8 May, 2023",
        "session_1": [
            {"speaker": "Ben", "dia_id": "D1:1", "text": "Hello"},
            {"speaker": "Ana", "dia_id": "D1:2", "text": "I sing now.", "blip_caption": "a photo of a stage"},
        ],
        "session_2_date_time": "12:30 pm on 9 May, 2023",
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "Still singing?"}],
        "session_3_date_time": "1:00 pm on 9 May, 2023",
    },
}


@pytest.fixture(autouse=True)
def locks_of_hugging_face_in_a_folder_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def row(conversation: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    changed = deepcopy(ROW) | changes
    changed["conversation"] |= conversation or {}
    return changed


def only(conversation: dict[str, Any] | None = None, **changes: Any):
    (haystack,) = locomo([row(conversation, **changes)])
    return haystack


def asked(**changes: Any):
    """Return the only question of a conversation, changed."""
    return only(qa=[QUESTION | changes]).questions[0]


def test_a_conversation_is_a_haystack_with_all_its_questions():
    haystack = only(qa=[QUESTION, QUESTION])
    assert haystack.id == "conv-9"
    assert [question.id for question in haystack.questions] == ["conv-9:0", "conv-9:1"]
    assert [session.key for session in haystack.sessions] == ["session_1", "session_2"]


def test_dates_are_read_with_midnight_and_noon():
    assert [session.started_at for session in only().sessions] == [
        datetime(2023, 5, 8, 0, 5, tzinfo=UTC),
        datetime(2023, 5, 9, 12, 30, tzinfo=UTC),
    ]


def test_sessions_come_by_date_and_numbers_count_as_numbers():
    turns = [{"speaker": "Ben", "dia_id": "D10:1", "text": "Later"}]
    haystack = only({"session_10": turns, "session_10_date_time": "12:30 pm on 9 May, 2023"})
    assert [session.key for session in haystack.sessions] == ["session_1", "session_2", "session_10"]
    haystack = only({"session_2_date_time": "1:00 pm on 7 May, 2023"})
    assert [session.key for session in haystack.sessions] == ["session_2", "session_1"]


def test_a_turn_has_its_speaker_as_role_and_the_picture_it_shares_in_its_content():
    first, second = only().sessions[0].turns
    assert (first.id, first.role, first.content) == ("D1:1", "Ben", "Hello")
    assert (second.role, second.content) == ("Ana", "I sing now. [shares a photo of a stage]")


def test_a_picture_without_text_is_a_turn_and_a_turn_without_both_is_left_out_and_counted():
    turns = [
        {"speaker": "Ben", "dia_id": "D2:1", "text": "", "blip_caption": "a photo of a cat"},
        {"speaker": "Ben", "dia_id": "D2:2", "text": " "},
    ]
    counts = DatasetCounts()
    (haystack,) = locomo([row({"session_2": turns})], counts)
    assert [turn.content for turn in haystack.sessions[1].turns] == ["[shares a photo of a cat]"]
    assert counts.blank_turns == 1


def test_sessions_that_a_table_format_fills_with_null_are_absent_and_empty_ones_are_counted():
    counts = DatasetCounts()
    (haystack,) = locomo([row({"session_3": [], "session_4": None, "session_4_date_time": None})], counts)
    assert len(haystack.sessions) == 2
    assert counts.empty_sessions == 1


def test_evidence_sessions_are_those_of_the_evidence_turns():
    question = asked(evidence=["D1:2", "D2:1"])
    assert question.evidence_turns == {"D1:2", "D2:1"}
    assert question.evidence_sessions == {"session_1", "session_2"}


@pytest.mark.parametrize(
    ("written", "turns", "dropped"),
    [
        (["D1:1; D2:1"], {"D1:1", "D2:1"}, 0),
        (["D1:1 D1:2 D2:1"], {"D1:1", "D1:2", "D2:1"}, 0),
        (["D:1:2"], {"D1:2"}, 0),
        (["D01:02"], {"D1:2"}, 0),
        ([["D1:1"], ["D2:1", "D1:1"]], {"D1:1", "D2:1"}, 0),
        (["D"], set[str](), 1),
        (["D1:2", "D7:1"], {"D1:2"}, 1),
        (["D7:1; D1:2; D8:1", ""], {"D1:2"}, 3),
        ([], set[str](), 0),
    ],
)
def test_untidy_evidence_is_normalised_and_what_names_no_turn_is_dropped_and_counted(
    written: list[Any], turns: set[str], dropped: int
):
    counts = DatasetCounts()
    (haystack,) = locomo([row(qa=[QUESTION | {"evidence": written}])], counts)
    assert haystack.questions[0].evidence_turns == turns
    assert counts.dropped_evidence == dropped
    assert counts.without_evidence == (not turns)


@pytest.mark.parametrize(
    ("category", "kind"), [(1, "multi-hop"), (2, "temporal"), (3, "open-domain"), (4, "single-hop")]
)
def test_the_type_follows_from_the_category(category: int, kind: str):
    assert asked(category=category).type == kind


def test_an_adversarial_question_keeps_its_evidence_and_never_has_the_wrong_answer_as_answer():
    adversarial = {"question": "Why does Ben sing?", "evidence": ["D1:2"], "category": 5, "adversarial_answer": "Joy"}
    (question,) = only(qa=[adversarial]).questions
    assert (question.type, question.is_abstention, question.evidence_turns) == ("adversarial", False, {"D1:2"})
    assert question.answer == "The conversation does not tell."
    assert only(qa=[adversarial | {"answer": "No"}]).questions[0].answer == "No"


def test_a_number_as_answer_becomes_a_text():
    assert asked(answer=2022).answer == "2022"


MALFORMED = [
    ({"sample_id": None}, "row 1: sample_id is missing; expected a text"),
    ({"qa": None}, "row 1 (conversation 'conv-9'): qa is missing; expected a list"),
    ({"qa": [QUESTION | {"category": 6}]}, "qa[0].category is 6; expected one of 1, 2, 3, 4, 5"),
    ({"qa": [QUESTION | {"category": True}]}, "qa[0].category is True; expected one of 1, 2, 3, 4, 5"),
    ({"qa": [QUESTION | {"category": "4"}]}, "qa[0].category is '4'; expected one of 1, 2, 3, 4, 5"),
    ({"qa": [QUESTION | {"answer": None}]}, "qa[0].answer is missing; expected a text or a number"),
    ({"qa": [QUESTION | {"question": ""}]}, "qa[0].question is ''; expected a text that is not blank"),
    ({"qa": [QUESTION | {"evidence": None}]}, "qa[0].evidence is missing; expected a list"),
    ({"qa": [QUESTION | {"evidence": [3]}]}, "qa[0].evidence[0] is 3; expected a text"),
]
MALFORMED_CONVERSATIONS = [
    (
        {"session_1_date_time": "8 May 2023"},
        "session_1_date_time is '8 May 2023'; expected a text such as '1:56 pm on 8 May, 2023'",
    ),
    ({"session_1_date_time": "1:56 pm on 8 Mai, 2023"}, "expected a date of the calendar"),
    ({"session_1_date_time": "13:56 pm on 8 May, 2023"}, "expected a date of the calendar"),
    ({"session_2_date_time": None}, "conversation.session_2_date_time is missing; expected a text"),
    ({"session_2": "Hello"}, "conversation.session_2 is 'Hello'; expected a list"),
    (
        {"session_2": [{"speaker": "Ben", "dia_id": "2", "text": "Hi"}]},
        "conversation.session_2[0].dia_id is '2'; expected a text such as 'D1:3'",
    ),
    (
        {"session_2": [{"speaker": "Ben", "dia_id": "D1:1", "text": "Hi"}]},
        "session_2[0].dia_id is 'D1:1'; expected an id that no earlier turn of the conversation has",
    ),
    ({"session_2": [{"dia_id": "D2:1", "text": "Hi"}]}, "conversation.session_2[0].speaker is missing"),
    ({"session_2": [{"speaker": "Ben", "dia_id": "D2:1"}]}, "conversation.session_2[0].text is missing"),
]


@pytest.mark.parametrize(("changes", "message"), MALFORMED)
def test_a_malformed_row_is_refused_with_row_conversation_and_field(changes: dict[str, Any], message: str):
    with pytest.raises(InvalidInputError) as refused:
        list(locomo([row(**changes)]))
    assert message in str(refused.value)
    assert refused.value.field in changes


@pytest.mark.parametrize(("changes", "message"), MALFORMED_CONVERSATIONS)
def test_a_malformed_conversation_is_refused_with_its_field(changes: dict[str, Any], message: str):
    with pytest.raises(InvalidInputError) as refused:
        list(locomo([row(changes)]))
    assert str(refused.value).startswith("row 1 (conversation 'conv-9'): conversation.")
    assert message in str(refused.value)
    assert refused.value.field == "conversation"


def test_a_conversation_that_stands_twice_is_refused():
    with pytest.raises(InvalidInputError, match=r"row 2 .* expected an id that no earlier row has"):
        list(locomo([row(), row()]))


def test_the_sample_has_all_five_types():
    counts = open_benchmark("locomo", str(SAMPLE)).survey()
    assert set(counts.questions_by_type) == {"multi-hop", "temporal", "open-domain", "single-hop", "adversarial"}
    assert (counts.haystacks, counts.sessions, counts.questions) == (1, 4, 10)
    assert (counts.dropped_evidence, counts.without_evidence) == (0, 0)


@pytest.mark.skipif(not GIVEN_HALF.exists(), reason="the given half of LoCoMo is not on this machine")
def test_the_given_half_is_read_whole():
    counts = open_benchmark("locomo", str(GIVEN_HALF)).survey()
    assert (counts.haystacks, counts.sessions, counts.turns, counts.questions) == (5, 136, 2_960, 1_020)
    assert (counts.without_evidence, counts.dropped_evidence, counts.abstentions) == (2, 1, 0)
    assert counts.questions_by_type["adversarial"] == 232
