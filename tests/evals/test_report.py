"""What a report has to hold (case C222), which questions count (C221), and what chance looks like."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from retain_evals import rendering
from retain_evals.metrics import GROUPED, MRR, RAW, TURNS
from retain_evals.report import ABSTENTION, ALL, ANSWERABLE, Report, report_of
from retain_evals.run import Asked, Mode
from retain_evals.run_files import Manifest, RunFolder, RunManifest
from tests.evals.runs import asked, by_chance

SHA256 = "0f" * 32


def reported(
    tmp_path: Path, questions: list[Asked], *, benchmark: str = "longmemeval", mode: Mode = "turn", missing: int = 0
) -> Report:
    run = RunManifest("retain", mode, {"retain": "0.1.0", "model": "all-MiniLM-L6-v2", "recall_mode": "hybrid"}, 90.0)
    tmp_path.mkdir(exist_ok=True)
    folder = RunFolder(tmp_path)
    folder.prepare(
        Manifest(
            benchmark,
            {"name": "half.json", "sha256": SHA256, "revision": None},
            {"questions": len(questions) + missing, "sample": None, "seed": None, "limit": None},
            {"abstentions": sum(one.is_abstention for one in questions)},
            {"python": "3.11", "retain": "0.1.0"},
            {"system": "Linux", "processors": "2"},
            {run.name: run},
        )
    )
    with folder.writer(run.name) as writer:
        for question in questions:
            writer.add(question)
    return report_of(folder)


def test_a_report_names_measure_k_granularity_split_hash_and_settings(tmp_path: Path):
    document = json.loads(reported(tmp_path, by_chance(1, 20)).as_json())
    run = document["runs"]["retain.turn"]
    assert document["data"] == {"name": "half.json", "sha256": SHA256, "revision": None}
    assert document["selection"]["questions"] == run["questions"] == 20
    assert run["mode"] == "turn"
    assert run["settings"]["model"] == "all-MiniLM-L6-v2"
    assert document["versions"]["retain"] == "0.1.0"
    assert set(run["scores"]) == {"session level, grouped", "session level, raw", "turn level, raw"}
    assert set(run["scores"]["session level, raw"]["all questions"]["recall_any@5"]) == {"value", "low", "high", "n"}
    assert run["latency_ms"] == {"wall p50": 12.5, "wall p95": 12.5, "cpu p50": 7.25, "cpu p95": 7.25}


def test_abstention_counts_apart(tmp_path: Path):
    """The 500 questions of LongMemEval: 470 in recall, 30 apart."""
    questions = [asked(f"q{n}", ["s1:0"], ["s1:0"]) for n in range(470)]
    questions += [asked(f"q{n}_abs", ["s1:0"], ["s2:0"], is_abstention=True) for n in range(30)]
    scores = reported(tmp_path, questions).runs["retain.turn"].scores[GROUPED]
    assert {name: scores[name][MRR].n for name in (ALL, ANSWERABLE, ABSTENTION)} == {
        ALL: 500,
        ANSWERABLE: 470,
        ABSTENTION: 30,
    }
    assert (scores[ALL][MRR].value, scores[ANSWERABLE][MRR].value, scores[ABSTENTION][MRR].value) == (0.94, 1, 0)


def test_shuffled_evidence_gives_chance(tmp_path: Path):
    """Rankings that are perfect for their own question, judged by the evidence of another."""
    draw = random.Random(3)
    made: list[Asked] = []
    for n in range(600):
        sessions = [f"s{number}:0" for number in range(60)]
        draw.shuffle(sessions)
        made.append(asked(f"q{n}", sessions, sessions[:2], sessions=60))
    evidence = [(one.evidence_sessions, one.evidence_turns) for one in made]
    draw.shuffle(evidence)
    shuffled = [
        replace(one, evidence_sessions=sessions, evidence_turns=turns)
        for one, (sessions, turns) in zip(made, evidence, strict=True)
    ]
    right = reported(tmp_path / "right", made).runs["retain.turn"].scores[GROUPED][ALL]
    wrong = reported(tmp_path / "wrong", shuffled).runs["retain.turn"]
    assert right["recall_all@3"].value == 1
    for metric, expected in wrong.chance.items():
        assert wrong.scores[GROUPED][ALL][metric].value == pytest.approx(expected, abs=0.05), metric


@pytest.mark.parametrize(("sessions", "warned"), [(50, [10]), (100, []), (40, [5, 10])])
def test_a_k_beyond_a_tenth_of_the_sessions_is_warned_of(tmp_path: Path, sessions: int, warned: list[int]):
    report = reported(tmp_path, by_chance(1, 5, sessions=sessions))
    told = [f"k = {k} is more than a tenth" for k in (5, 10) if k in warned]
    assert len(report.warnings) == len(told)
    assert all(warning.startswith(start) for warning, start in zip(report.warnings, told, strict=True))
    assert ("random order" in rendering.markdown_of(report)) is True


def test_chance_is_exact_on_small_haystacks(tmp_path: Path):
    chance = reported(tmp_path, [asked("q", [], ["s0:0", "s1:0"], sessions=4)]).runs["retain.turn"].chance
    assert chance["recall_any@1"] == pytest.approx(1 / 2)
    assert chance["recall_any@3"] == pytest.approx(1)
    assert chance["recall_all@3"] == pytest.approx(1 / 2)
    assert chance["recall_all@1"] == 0
    assert chance["recall_fraction@3"] == pytest.approx(3 / 4)
    assert chance["recall_all@5"] == chance["recall_fraction@5"] == 1


def test_questions_without_evidence_count_in_nothing_and_are_told(tmp_path: Path):
    report = reported(tmp_path, [asked("q1", ["s1:0"], ["s1:0"], sessions=200), asked("q2", ["s1:0"], [])])
    assert report.runs["retain.turn"].scores[GROUPED][ALL][MRR].n == 1
    assert any("1 questions have no evidence" in warning for warning in report.warnings)


def test_an_incomplete_run_says_so(tmp_path: Path):
    report = reported(tmp_path, by_chance(1, 5, sessions=200), missing=3)
    assert report.warnings[0].startswith("retain.turn is incomplete: 5 of 8 questions")


def test_a_run_of_sessions_has_no_figures_about_turns(tmp_path: Path):
    assert set(reported(tmp_path, by_chance(1, 5), mode="session").runs["retain.session"].scores) == {GROUPED, RAW}
    assert TURNS not in reported(tmp_path / "b", by_chance(1, 5), mode="session").runs["retain.session"].scores


def test_types_are_reported_apart(tmp_path: Path):
    questions = [asked("a", ["s1:0"], ["s1:0"], kind="one"), asked("b", ["s1:0"], ["s2:0"], kind="two")]
    scores = reported(tmp_path, questions).runs["retain.turn"].scores[GROUPED]
    assert (scores["one"]["recall_any@1"].value, scores["two"]["recall_any@1"].value) == (1, 0)


def test_what_others_published_stands_beside_the_same_measure_only(tmp_path: Path):
    report = reported(tmp_path, by_chance(1, 30))
    table = rendering.beside_published(report)
    assert table is not None
    for system, place, _, ours, *_ in table.rows:
        measure, view = place.split(", ")[:2]
        assert (system, measure) != ("mcp-memory-service", "recall_any@5")
        scores = report.runs["retain.turn"].scores
        of_view = next(means for key, means in scores.items() if f"{key.level} level" == view and key.grouping in place)
        assert ours.startswith(rendering.percent(of_view[ALL][measure].value))
    assert not any(figure.mode == "session" for figure in report.published)
    assert rendering.beside_published(reported(tmp_path / "b", by_chance(1, 3), benchmark="own")) is None


def test_the_markdown_holds_the_facts_and_every_measure(tmp_path: Path):
    text = rendering.markdown_of(reported(tmp_path, by_chance(1, 20)))
    for expected in (SHA256, "half.json", "all-MiniLM-L6-v2", "a memory for each turn", "recall_fraction", "k = 20"):
        assert expected in text


def test_the_tables_fit_a_terminal_of_80_columns(tmp_path: Path):
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    rendering.show_report(reported(tmp_path, by_chance(1, 20, sessions=200)), Console(file=out, width=80))
    shown = out.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert "retain.turn" in shown and "fraction@5" in shown
