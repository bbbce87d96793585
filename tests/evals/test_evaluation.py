"""Whole evaluations: the real model, real databases, a real service, on the small samples."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import retain
from retain import ConflictError, InvalidInputError, StoreError, StoreUnavailableError
from retain_evals.datasets import open_benchmark
from retain_evals.evaluation import Selection, evaluate
from retain_evals.haystack import Haystack
from retain_evals.metrics import GROUPED
from retain_evals.report import ALL, report_of
from retain_evals.run import Grouping, Mode, Ranked
from retain_evals.run_files import RunFolder
from retain_evals.runner import ask
from retain_evals.systems.bm25 import Bm25
from retain_evals.systems.named import Access, settings_of, system_named
from retain_evals.systems.retain_memory import RetainMemory
from retain_evals.vector_cache import CachedEmbedder, VectorCache
from tests.servers import RunningServer

SAMPLES = Path(__file__).parent / "samples"
LONGMEMEVAL = open_benchmark("longmemeval", str(SAMPLES / "longmemeval_sample.json"))
HAYSTACKS = {haystack.id: haystack for haystack in LONGMEMEVAL}
LOCOMO = open_benchmark("locomo", str(SAMPLES / "locomo_sample.json"))


@pytest.fixture(scope="module", autouse=True)
def rows_cached_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import datasets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("datasets")))
        yield


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "vectors.db"


@pytest.fixture(scope="module")
def turn_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> RunFolder:
    return evaluate(LONGMEMEVAL, [RetainMemory(cache=cache)], ["turn"], tmp_path_factory.mktemp("run"), workers=2)


def test_a_run_asks_every_question_and_finds_the_evidence(turn_run: RunFolder):
    asked = turn_run.read("retain.turn")
    assert [one.question_id for one in asked] == [q.id for haystack in LONGMEMEVAL for q in haystack.questions]
    assert all(one.cpu_ms is not None and one.cpu_ms > 0 for one in asked)
    assert report_of(turn_run).runs["retain.turn"].scores[GROUPED][ALL]["recall_any@5"].value == 1


def test_a_second_run_from_the_cache_gives_the_same_files(turn_run: RunFolder, cache: Path, tmp_path: Path):
    again = evaluate(LONGMEMEVAL, [RetainMemory(cache=cache)], ["turn"], tmp_path, workers=1)
    assert (tmp_path / "retain.turn.jsonl").read_bytes() == (turn_run.path / "retain.turn.jsonl").read_bytes()
    assert again.manifest().data == turn_run.manifest().data


def test_grouped_results_are_distinct_sessions_and_signals_explain_the_scores(turn_run: RunFolder):
    for one in turn_run.read("retain.turn"):
        sessions = [place.session for place in one.grouped]
        doubled = one.sessions - len({session.id for session in HAYSTACKS[one.question_id].sessions})
        assert len(sessions) - len(set(sessions)) <= doubled
        assert all(set(place.signals) == {"semantic", "keyword", "related"} for place in one.raw)
        assert [place.score for place in one.raw] == sorted((place.score for place in one.raw), reverse=True)


def test_a_complete_run_is_not_run_again(turn_run: RunFolder, cache: Path):
    before = {path.name: path.read_bytes() for path in turn_run.path.iterdir()}
    evaluate(LONGMEMEVAL, [RetainMemory(cache=cache)], ["turn"], turn_run.path)
    assert {path.name: path.read_bytes() for path in turn_run.path.iterdir()} == before


def test_an_interrupted_run_goes_on_and_comes_to_the_same(turn_run: RunFolder, cache: Path, tmp_path: Path):
    shutil.copytree(turn_run.path, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "retain.turn.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    evaluate(LONGMEMEVAL, [RetainMemory(cache=cache)], ["turn"], tmp_path)
    assert path.read_bytes() == whole


def test_a_conversation_that_was_half_asked_is_completed(cache: Path, tmp_path: Path):
    evaluate(LOCOMO, [RetainMemory(cache=cache)], ["turn"], tmp_path)
    path = tmp_path / "retain.turn.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    evaluate(LOCOMO, [RetainMemory(cache=cache)], ["turn"], tmp_path)
    assert path.read_bytes() == whole


def test_a_killed_evaluation_leaves_a_run_that_goes_on(turn_run: RunFolder, cache: Path, tmp_path: Path):
    command = [sys.executable, "-m", "retain_evals.cli", "longmemeval", "--data"]
    command += [str(SAMPLES / "longmemeval_sample.json"), "--out", str(tmp_path / "run"), "--cache", str(cache)]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = tmp_path / "run" / "retain.turn.jsonl"
    while not (path.exists() and path.stat().st_size) and process.poll() is None:
        pass
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(RunFolder(tmp_path / "run").read("retain.turn")) >= 1
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0
    assert path.read_bytes() == (turn_run.path / "retain.turn.jsonl").read_bytes()


def test_a_fresh_run_replaces_the_old_one(cache: Path, tmp_path: Path):
    selection = Selection(limit=2)
    evaluate(LONGMEMEVAL, [Bm25()], ["turn"], tmp_path, selection=selection)
    with pytest.raises(ConflictError, match=r"limit: 2 there, 3 now.*--fresh"):
        evaluate(LONGMEMEVAL, [Bm25()], ["turn"], tmp_path, selection=Selection(limit=3))
    evaluate(LONGMEMEVAL, [Bm25()], ["turn"], tmp_path, selection=Selection(limit=3), fresh=True)
    assert len(RunFolder(tmp_path).read("bm25.turn")) == 3


def test_systems_and_modes_share_a_folder(cache: Path, tmp_path: Path):
    access = Access(cache=cache)
    systems = [system_named(name, access) for name in ("retain", "plain=retain:semantic", "bm25")]
    folder = evaluate(LONGMEMEVAL, systems, ["turn", "session"], tmp_path, selection=Selection(sample=3))
    report = report_of(folder)
    assert set(report.runs) == {
        f"{name}.{mode}" for name in ("retain", "plain", "bm25") for mode in ("turn", "session")
    }
    assert {run.questions for run in report.runs.values()} == {3}
    assert set(report.runs["plain.turn"].run.settings) == {"retain", "recall_mode", "model"}


def test_a_setting_changes_the_run_and_is_told(cache: Path, tmp_path: Path):
    access = Access(cache=cache, overrides={"recall_related_weight": "0"})
    systems = [system_named(name, access) for name in ("retain", "words=retain,recall_keyword_weight=5")]
    folder = evaluate(LONGMEMEVAL, systems, ["turn"], tmp_path, selection=Selection(limit=2))
    runs = folder.manifest().runs
    assert runs["words.turn"].settings["recall_keyword_weight"] == "5"
    assert runs["words.turn"].settings["recall_related_weight"] == "0"
    assert folder.read("words.turn") != folder.read("retain.turn")


async def test_what_the_environment_changes_about_recall_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RETAIN_RECALL_SURROUNDINGS", "0.5")
    monkeypatch.setenv("RETAIN_PORT", "9001")
    system = RetainMemory(overrides={"recall_related_weight": "0"})
    settings = await system.settings()
    await system.aclose()
    assert set(settings) == {"retain", "recall_mode", "recall_surroundings", "recall_related_weight", "model"}
    assert (settings["recall_surroundings"], settings["recall_related_weight"]) == ("0.5", "0")


def test_nothing_that_is_stored_tells_where_the_evidence_lies():
    """Ids of evidence sessions begin with "answer_" in LongMemEval."""
    stored: list[retain.Memory] = []

    class Spying(RetainMemory):
        @asynccontextmanager
        async def stored(self, haystack: Haystack, mode: Mode, /) -> AsyncGenerator[object]:  # type: ignore[override]
            async with super().stored(haystack, mode) as searcher:
                listing = await searcher._memory.list(retain.EVERYTHING, retain.Page(1000))
                stored.extend(listing.memories)
                yield searcher

    import asyncio

    async def run() -> None:
        system = Spying()
        try:
            for mode in ("turn", "session"):
                await ask(system, mode, next(iter(LONGMEMEVAL)))
        finally:
            await system.aclose()

    asyncio.run(run())
    told = json.dumps([repr(memory) for memory in stored])
    assert len(stored) > 20
    assert "answer_" not in told and "has_answer" not in told


async def test_a_running_service_gives_the_results_of_the_library(turn_run: RunFolder, tmp_path: Path):
    haystacks = list(LONGMEMEVAL)[:2]
    with RunningServer(tmp_path / "service.db") as server:
        system = RetainMemory(url=server.url)
        found = [answer for haystack in haystacks for answer in await ask(system, "turn", haystack)]
        settings = await system.settings()
        async with retain.connect(server.url) as memory:
            assert (await memory.list(retain.EVERYTHING)).total == 0
    expected = turn_run.read("retain.turn")[:2]
    assert all(one.cpu_ms is None for one in found)
    assert settings["model"].startswith("all-MiniLM-L6-v2")
    for here, there in zip(found, expected, strict=True):
        assert [place.turn for place in here.raw] == [place.turn for place in there.raw]
        scores = [place.score for place in there.grouped]
        assert [place.score for place in here.grouped] == pytest.approx(scores, abs=1e-4)  # the wire has four digits


class Broken:
    """A fake system that fails at the second haystack."""

    is_remote = False
    name = "broken"

    async def settings(self) -> Mapping[str, str]:
        return {}

    @asynccontextmanager
    async def stored(self, haystack: Haystack, mode: Mode, /) -> AsyncGenerator["Broken"]:
        if haystack.id != next(iter(LONGMEMEVAL)).id:
            raise StoreUnavailableError("the fake is out of order")
        yield self

    async def search(self, question: str, k: int, grouping: Grouping, /) -> Sequence[Ranked]:
        return []

    async def aclose(self) -> None: ...


def test_what_was_asked_before_a_failure_is_kept(tmp_path: Path):
    with pytest.raises(StoreUnavailableError, match="out of order"):
        evaluate(LONGMEMEVAL, [Broken()], ["turn"], tmp_path)
    assert len(RunFolder(tmp_path).read("broken.turn")) == 1


class Killed(Broken):
    """A fake system whose process dies, as one does that runs out of memory."""

    @asynccontextmanager
    async def stored(self, haystack: Haystack, mode: Mode, /) -> AsyncGenerator[Broken]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield self


def test_a_worker_that_dies_ends_the_run_with_a_reason(tmp_path: Path):
    with pytest.raises(StoreUnavailableError, match="a worker process ended before its work"):
        evaluate(LONGMEMEVAL, [Killed()], ["turn"], tmp_path)


@pytest.mark.parametrize(
    ("selection", "workers", "told"),
    [(Selection(sample=0), 1, "0 questions"), (Selection(limit=-1), 1, "-1 questions"), (Selection(), 0, "0 workers")],
)
def test_impossible_arguments_are_refused_before_anything_is_made(
    tmp_path: Path, selection: Selection, workers: int, told: str
):
    with pytest.raises(InvalidInputError, match=told):
        evaluate(LONGMEMEVAL, [Bm25()], ["turn"], tmp_path / "run", selection=selection, workers=workers)
    assert not (tmp_path / "run").exists()


def test_data_without_questions_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInputError, match="no questions"):
        evaluate(replace(LONGMEMEVAL, rows=[]), [Bm25()], ["turn"], tmp_path)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("elastic", "there is no system 'elastic'"),
        ("retain:psychic", "is no recall mode"),
        ("retain,weight", "write NAME=VALUE"),
        ("", "there is no system ''"),
    ],
)
def test_an_unknown_system_is_refused(name: str, told: str):
    with pytest.raises(InvalidInputError, match=told):
        system_named(name, Access())


def test_a_running_service_takes_no_settings():
    with pytest.raises(InvalidInputError, match="has settings of its own"):
        system_named("retain", Access(url="http://127.0.0.1:1", overrides={"recall_related_weight": "0"}))


def test_settings_may_hold_equals_signs():
    assert settings_of(["a=b=c"]) == {"a": "b=c"}


def test_a_cache_that_is_something_else_is_told(tmp_path: Path):
    path = tmp_path / "vectors.db"
    path.write_bytes(b"garbage " * 1000)
    with pytest.raises(StoreError, match=r"vectors\.db can't be used: file is not a database; remove it"):
        evaluate(LONGMEMEVAL, [RetainMemory(cache=path)], ["turn"], tmp_path / "run", selection=Selection(limit=1))


async def test_vectors_come_from_the_cache_exactly_as_they_were_made(tmp_path: Path):
    embedder = retain.load_embedder()
    cached = CachedEmbedder(embedder, VectorCache(tmp_path / "vectors.db", embedder.model_id))
    texts = ["We moved to Lisbon.", "The cat sleeps.", "We moved to Lisbon."]
    first = await cached.embed_passages(texts)
    second = await cached.embed_passages(texts[::-1])
    assert (first == second[::-1]).all()
    assert (first[0] == first[2]).all()
    await cached.release()
    other = VectorCache(tmp_path / "vectors.db", "another model")
    assert other.read([other.key(text) for text in texts]) == {}
    other.close()
