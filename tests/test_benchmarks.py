"""The benchmark itself is honest: it runs, it notices a slow store, and it shows what it found."""

import io
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import benchmarks.__main__ as command
from benchmarks.__main__ import MEASURES, SLOW, main, measured
from benchmarks.acknowledged import Acknowledged
from benchmarks.bench import Bench
from benchmarks.corpus import fill, opened
from benchmarks.figures import FIGURES
from benchmarks.measures.recalling import candidates
from benchmarks.plan import PLANS, Plan
from benchmarks.ratios import PAIRS, ratios
from benchmarks.readings import Reading, Readings, Stopwatch
from benchmarks.report import MARKS, judge, markdown, show, write_into
from benchmarks.scale import Scaled
from benchmarks.texts import texts
from retain.core.ports import Chosen, Embedder, MemoryStore

STANDARD = PLANS["standard"]
MACHINE: dict[str, object] = {"date": "2026-12-01", "processor": "A | B", "libraries": {"numpy": "2"}}


class Slowed:
    """A store whose search takes `by_s` more CPU time than it has to."""

    def __init__(self, store: MemoryStore, by_s: float) -> None:
        self._store = store
        self._by_s = by_s

    async def candidates(self, *args: Any, **more: Any) -> Sequence[Chosen]:
        until = time.process_time() + self._by_s
        while time.process_time() < until:
            pass
        return await self._store.candidates(*args, **more)


@pytest.mark.slow
def test_a_tiny_run_measures_everything_that_needs_no_package_index(tmp_path: Path) -> None:
    names = [name for name in MEASURES if name not in SLOW]
    readings, broken = measured(Bench(PLANS["tiny"], tmp_path, tmp_path / "cache"), names, Console(file=io.StringIO()))
    assert broken == []
    readings |= ratios(readings)
    expected = {figure.key for figure in FIGURES if not figure.key.startswith(("packages_", "megabytes_"))}
    assert set(readings) == expected
    facts = [row for row in judge(readings, PLANS["tiny"]) if row.figure.kind == "fact"]
    assert {row.figure.key: row.reading for row in facts if row.verdict == "failed"} == {}


async def test_a_slowed_down_store_fails_the_gate_and_the_store_itself_does_not(
    tmp_path: Path, model: Embedder
) -> None:
    written = texts(12)
    store, service = await opened(tmp_path / "memories.db", model)
    await fill(service, written)
    questions = [text.question for text in written]
    vectors = np.stack([await model.embed_query(question) for question in questions])
    dense, keywords = await candidates(store, vectors, questions, 2)
    bounds = {figure.key: figure.at_least or 0 for figure in FIGURES}
    baselines = {
        "vec0": Reading(dense.cpu_ms * bounds["vec0_ratio"] * 2),
        "fts5": Reading(keywords.cpu_ms * bounds["fts5_ratio"] * 2),
    }
    slow_by_s = (dense.cpu_ms + keywords.cpu_ms) * 6 / 1000
    slow = await candidates(Slowed(store, slow_by_s), vectors, questions, 2)  # type: ignore[arg-type]
    await store.aclose()
    for (of_dense, of_keywords), verdict in (((dense, keywords), "ok"), (slow, "failed")):
        readings = baselines | {"dense": of_dense.reading(), "keywords": of_keywords.reading()}
        rows = judge(ratios(readings), STANDARD)
        assert [(row.figure.key, row.verdict) for row in rows] == [("vec0_ratio", verdict), ("fts5_ratio", verdict)]


def test_a_missed_time_fails_only_a_strict_run_and_only_beyond_the_tolerance() -> None:
    for value, verdict, strict_verdict in ((2.0, "ok", "ok"), (2.1, "missed", "missed"), (2.5, "missed", "failed")):
        assert judge({"start": Reading(value)}, STANDARD)[0].verdict == verdict
        assert judge({"start": Reading(value)}, STANDARD, strict=True)[0].verdict == strict_verdict


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share_lost", 1),
        ("kill_disagree", 1),
        ("load_errors", 1),
        ("quality", 0.89),
        ("mcp_tools", 11),
        ("resident", 311),
    ],
)
def test_a_missed_fact_fails_every_run(key: str, value: float) -> None:
    assert judge({key: Reading(value)}, STANDARD)[0].verdict == "failed"


def test_a_ratio_is_asked_only_of_databases_that_are_large_enough() -> None:
    assert judge({"vec0_ratio": Reading(1)}, STANDARD)[0].verdict == "failed"
    assert judge({"vec0_ratio": Reading(1)}, PLANS["quick"])[0].verdict == ""


def test_a_ratio_of_the_huge_database_is_asked_when_that_one_is_large_enough() -> None:
    readings = {"huge_fts5_ratio": Reading(1)}
    assert judge(readings, replace(PLANS["tiny"], huge=1_000_000))[0].verdict == "failed"
    assert judge(readings, replace(STANDARD, huge=1_000))[0].verdict == ""


def test_no_measurement_asks_the_questions_of_another() -> None:
    questions = [text.question for text in texts(20)]
    parts = Scaled(Path("unused.db"), "m", questions, np.eye(20, dtype=np.float32)).split(3)
    assert sorted(question for part in parts for question in part.questions) == sorted(questions)
    for part in parts:
        assert [questions[vector.argmax()] for vector in part.vectors] == part.questions


def test_a_reading_without_a_figure_is_refused() -> None:
    with pytest.raises(KeyError, match="no figure is called speed"):
        judge({"speed": Reading(1)}, STANDARD)


def test_every_ratio_is_of_figures_that_are_shown() -> None:
    keys = {figure.key for figure in FIGURES}
    assert keys >= {key for pair in PAIRS.values() for key in pair} | set(PAIRS)
    assert len(keys) == len(FIGURES)


def test_the_table_shows_what_was_asked_and_measured() -> None:
    rows = judge({"start": Reading(2.5, "wall 3 s"), "disk": Reading(2_978)}, STANDARD)
    printed = io.StringIO()
    show(rows, STANDARD, MACHINE, Console(file=printed, width=150))
    table = markdown(rows, STANDARD, MACHINE)
    for shown in (printed.getvalue(), table):
        assert "2.50 CPU s" in shown
        assert "missed" in shown
        assert "bytes on disk of a 60-word memory, 10,000" in shown
        assert "2,978 bytes" in shown
        assert "wall 3 s" in shown
    assert "| start to first healthy answer, model loaded | &lt;= 2 | 2.50 CPU s | missed | wall 3 s |" in table


def test_the_page_keeps_its_frame_and_gets_the_new_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = MARKS["full"]
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    write_into(page, "full", "new")
    write_into(page, "full", "newer")
    assert page.read_text() == f"before\n{begin}\n\nnewer\n\n{end}\nafter\n"
    with pytest.raises(ValueError, match="no place"):
        write_into(page, "standard", "new")


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (0.5, 1)])
def test_the_exit_code_says_whether_a_figure_failed(
    value: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "VAR", tmp_path)
    monkeypatch.setitem(MEASURES, "embedding", lambda bench: {"quality": Reading(value)})
    assert main(["--plan", "tiny", "--only", "embedding"]) == code
    (row,) = json.loads((tmp_path / "benchmarks-tiny.json").read_text())["rows"]
    assert (row["key"], row["value"]) == ("quality", value)


def test_a_measure_that_breaks_is_told_and_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(bench: Bench) -> Readings:
        raise RuntimeError("no server")

    monkeypatch.setattr(command, "VAR", tmp_path)
    monkeypatch.setitem(MEASURES, "load", broken)
    assert main(["--plan", "tiny", "--only", "load"]) == 1


def test_texts_are_alike_in_every_run_and_unlike_each_other() -> None:
    written = texts(2_000)
    assert texts(10) == written[:10]
    assert len({text.content for text in written}) == len({text.question for text in written}) == 2_000
    lengths = [len(text.content.split()) for text in written]
    assert min(lengths) >= 54
    assert max(lengths) <= 66
    assert 8 <= np.median([len(text.question.split()) for text in written]) <= 12


def test_lost_and_revived_memories_are_noticed() -> None:
    told = Acknowledged()
    told.read(["stored a 1", "stored b 1", "changing b", "stored c 1", "changed c 2", "deleting d", "deleted d"])
    told.read(["stored e 1", "deleting e"])  # killed before it was told that e is gone: either is right
    assert told.lost({"a": "1", "b": "9", "c": "2"}) == []
    assert told.lost({"b": "1", "c": "1", "d": "1", "e": "1"}) == ["a is missing", "c has other content", "d is back"]


def test_the_stopwatch_counts_groups_and_leaves_out_what_was_before() -> None:
    cpu = iter([0.0, 5.0, 5.2, 5.6])
    stopwatch = Stopwatch(lambda: next(cpu), group=2)
    stopwatch.reset()
    for _ in range(4):
        stopwatch.run(lambda: None)
    assert stopwatch.timed().cpu_ms == pytest.approx(150)


def test_plans_differ_in_size_only() -> None:
    assert all(isinstance(plan, Plan) and plan.small < plan.large for plan in PLANS.values())
