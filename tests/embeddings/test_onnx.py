"""The bundled model, for real."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from retain.domain.errors import EmbeddingError, TooLargeError
from retain.embeddings import model_files, runtime
from retain.embeddings.onnx import OnnxEmbedder, SentenceModel

ROOT = Path(__file__).parents[2]
REFERENCE: dict[str, list[float]] = json.loads((Path(__file__).parent / "reference_vectors.json").read_bytes())

TEXTS = [
    "a",
    "API rate limit is 100 req/min",
    "The deploy freeze ends on Friday",
    "数据库在凌晨三点备份，保留七天。",
    "🚀🔥 ship it!!!",
    "SELECT id FROM memories WHERE namespace = ? ORDER BY created_at DESC;" * 3,
    "0 0 0 0 0 0 0 0",
    "antidisestablishmentarianism " * 20,
    "The user prefers short answers, dark mode and metric units. " * 15,
    "",
]


@pytest.fixture(scope="module")
def sentences() -> tuple[SentenceModel, runtime.Tokens]:
    files = model_files.bundled_files()
    tokens = runtime.Tokens(files.read("tokenizer.json"))
    return SentenceModel(files, tokens), tokens


def test_the_graph_gives_the_vectors_of_the_float64_reference(sentences: tuple[SentenceModel, runtime.Tokens]) -> None:
    sentence_model, tokens = sentences
    found = sentence_model.run([tokens.ids(text) for text in REFERENCE])
    cosines = np.sum(found * np.array(list(REFERENCE.values())), axis=1)
    assert len(REFERENCE) > 10
    assert cosines.min() >= 0.999


async def test_a_text_has_one_vector_whatever_batch_it_is_in(model: OnnxEmbedder) -> None:
    together = await model._embed_passages(TEXTS * 7)  # past those that are remembered
    alone = np.concatenate([await model._embed_passages([text]) for text in TEXTS])
    assert np.sum(together * np.tile(alone, (7, 1)), axis=1).min() >= 0.9999


def test_padding_and_outliers_do_not_move_a_vector(sentences: tuple[SentenceModel, runtime.Tokens]) -> None:
    sentence_model, tokens = sentences
    rows = [tokens.ids(text) for text in TEXTS]
    together = sentence_model.run(rows)
    alone = np.concatenate([sentence_model.run([row]) for row in rows])
    assert np.sum(together * alone, axis=1).min() >= 0.9999


async def test_a_query_and_a_passage_of_the_same_text_have_the_same_vector(model: OnnxEmbedder) -> None:
    text = "what do we know about rate limits here?"
    assert np.dot(await model.embed_query(text), (await model.embed_passages([text]))[0]) >= 0.9999


async def test_rows_are_float32_units_in_the_order_of_the_texts(model: OnnxEmbedder) -> None:
    found = await model.embed_passages(TEXTS)
    assert found.shape == (len(TEXTS), model.dimensions)
    assert found.dtype == np.float32
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
    assert (await model.embed_passages([])).shape == (0, 384)


async def test_meaning_is_near_and_the_unrelated_far(model: OnnxEmbedder) -> None:
    query = await model.embed_query("when can we ship again?")
    near, far = await model.embed_passages(["The deploy freeze ends on Friday", "Bananas are yellow"])
    assert near @ query > far @ query + 0.2


async def test_the_last_word_of_the_longest_passage_counts(model: OnnxEmbedder) -> None:
    stem = "word " * (model.passage_tokens - 1)
    one, other = await model.embed_passages([stem + "banana", stem + "finance"])
    assert one @ other < 0.99999


async def test_a_passage_over_the_limit_is_refused_not_cut(model: OnnxEmbedder) -> None:
    with pytest.raises(TooLargeError, match="255 tokens is longer than the 254") as caught:
        await model.embed_passages(["fine", "word " * 255])
    assert caught.value.field == "content"


async def test_the_end_of_a_long_query_counts(model: OnnxEmbedder) -> None:
    long = "The weather was mild and the streets were quiet. " * 60
    plain, asked = await model.embed_query(long), await model.embed_query(long + "Who resets Kafka offsets? " * 40)
    topic = (await model.embed_passages(["Kafka consumer offsets are reset by the on-call engineer"]))[0]
    assert asked @ topic > plain @ topic + 0.2
    assert abs(np.linalg.norm(asked) - 1) < 1e-5


def test_token_offsets_are_characters_of_the_text(model: OnnxEmbedder) -> None:
    text = "Grüße 🚀 an [SEP] Zoë\ud800 数据"
    offsets = model.token_offsets(text)
    assert offsets.dtype == np.int32
    assert [text[a:b] for a, b in offsets[-3:]] == ["Zoë", "数", "据"]
    assert (np.diff(offsets[:, 0]) >= 0).all()
    assert model.token_offsets("").shape == (0, 2)


async def test_broken_text_is_embedded_and_typed_special_tokens_are_text(model: OnnxEmbedder) -> None:
    assert np.isfinite(await model.embed_query("nul \x00 and half a pair \udc00")).all()
    assert len(model.token_offsets("[SEP]")) > 1


async def test_a_changed_copy_of_a_query_vector_does_not_spoil_the_next(model: OnnxEmbedder) -> None:
    first = await model.embed_query("is the cache safe?")
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(await model.embed_query("is the cache safe?"), kept)


async def test_a_passage_is_embedded_once_and_its_vector_stays_the_same(
    model: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[int] = []
    working = SentenceModel.run

    def counted(self: SentenceModel, rows: Sequence[list[int]]) -> NDArray[np.float32]:
        run.append(len(rows))
        return working(self, rows)

    monkeypatch.setattr(SentenceModel, "run", counted)
    first = await model.embed_passages(["seen before", "seen before", "another one"])
    again = await model.embed_passages(["another one", "seen before"])
    assert np.array_equal(again, first[[2, 0]]) and np.array_equal(first[0], first[1])
    assert sum(run) == 2


async def test_clients_at_once_get_their_own_vectors(model: OnnxEmbedder) -> None:
    texts = [f"fact number {i} about service {i * 7}" for i in range(16)]
    found = await asyncio.gather(*(model._embed_passages([text]) for text in texts))
    alone = [await model._embed_passages([text]) for text in texts]
    assert min(float(a[0] @ b[0]) for a, b in zip(found, alone, strict=True)) >= 0.9999


async def test_a_closed_model_says_so() -> None:
    embedder = OnnxEmbedder(model_files.bundled_files())
    await embedder.aclose()
    await embedder.aclose()
    with pytest.raises(EmbeddingError, match="closed"):
        await embedder.embed_query("hello")


def test_telemetry_is_off_before_a_session_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real: Any = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: calls.append("telemetry off"))
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *a, **k: calls.append("session") or real(*a, **k))
    runtime.load_session(model_files.bundled_files().folder / "model.onnx")
    assert calls == ["telemetry off", "session"]


def test_importing_embeddings_loads_no_native_library() -> None:
    script = (
        "import sys, retain.embeddings as e; m = e.open_embedder(); m.model_id, m.dimensions, m.passage_tokens\n"
        "print([n for n in ('onnxruntime', 'tokenizers', 'httpx', 'rich') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "service")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_truncation_and_padding_of_a_hub_tokenizer_are_ignored() -> None:
    settings = json.loads(model_files.bundled_files().read("tokenizer.json"))
    assert settings["truncation"] is None
    assert settings["padding"] is None
    settings["truncation"] = {"max_length": 128, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    settings["padding"] = {"strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                           "pad_type_id": 0, "pad_token": "[PAD]"}  # fmt: skip
    tokens = runtime.Tokens(json.dumps(settings).encode())
    assert len(tokens.ids("word " * 300)) == 300
    assert len(tokens.ids("word")) == 1
