from pathlib import Path

import pytest

import retain
from retain import InvalidInputError, Memory
from retain_evals import GROUPED, TURNS, RetainMemory, evaluate, labelled, report_of
from retain_evals.report import ALL


@pytest.fixture
async def memories(tmp_path: Path) -> list[Memory]:
    async with retain.open(str(tmp_path / "own.db")) as memory:
        for conversation, text in (
            ("deploy", "The deploy freeze ends on Friday."),
            ("deploy", "Only the release branch goes out then."),
            (None, "Anna prefers dark mode."),
        ):
            await memory.store(text, conversation_id=conversation)
        await memory.store("The deploy freeze was announced.", conversation_id="deploy", namespace="/other")
        return list((await memory.list(retain.EVERYTHING)).memories)


def about(memories: list[Memory], text: str) -> list[str]:
    return [memory.id for memory in memories if text in memory.content]


def test_conversations_are_sessions_and_a_memory_without_one_stands_alone(memories: list[Memory]):
    benchmark = labelled(memories, {"when?": about(memories, "ends on Friday")})
    (haystack,) = list(benchmark)
    assert [len(session.turns) for session in haystack.sessions] == [2, 1, 1]
    assert haystack.sessions[0].turns[0].content == "The deploy freeze ends on Friday."
    assert benchmark.survey().questions == 1


def test_own_memories_are_evaluated(memories: list[Memory], tmp_path: Path):
    labels = {
        "when can we ship again?": about(memories, "ends on Friday"),
        "which theme does Anna like?": about(memories, "dark mode"),
    }
    report = report_of(evaluate(labelled(memories, labels), [RetainMemory()], ["turn"], tmp_path / "run"))
    scores = report.runs["retain.turn"].scores
    assert report.runs["retain.turn"].questions == 2
    assert scores[TURNS][ALL]["recall_any@3"].value == scores[GROUPED][ALL]["recall_all@3"].value == 1
    assert report.manifest.benchmark == "own data"


def test_the_same_labels_are_the_same_data_in_any_process(memories: list[Memory], tmp_path: Path):
    from retain_evals.evaluation import _data_of

    labels = {"both?": about(memories, "deploy freeze")}
    assert _data_of(labelled(memories, labels)) == _data_of(labelled(memories[::-1], labels))


@pytest.mark.parametrize("ids", [[], ["nobody"]])
def test_a_label_without_a_memory_is_refused(memories: list[Memory], ids: list[str]):
    with pytest.raises(InvalidInputError, match="not there"):
        labelled(memories, {"when?": ids})


def test_nothing_to_label_is_refused(memories: list[Memory]):
    with pytest.raises(InvalidInputError, match="label at least one"):
        labelled(memories, {})
    with pytest.raises(InvalidInputError, match="label at least one"):
        labelled([], {"when?": ["x"]})
