"""Local models: the right files, refused when they are not."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from retain.domain.errors import EmbeddingError
from retain.embeddings import open_embedder
from retain.embeddings.hashed import HashedEmbedder
from retain.embeddings.model_files import BUNDLED_SHA256, ModelFiles, bundled_files, file_sha256, folder_files
from retain.embeddings.onnx import OnnxEmbedder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with the bundled model and nothing that explains it."""
    target = tmp_path / "my-model"
    target.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(bundled_files().folder / name, target)
    return target


def tiny_graph(path: Path, output: str = "last_hidden_state", inputs: str = "input_ids") -> None:
    """Hidden state of token n is (n, 1)."""
    ids = helper.make_tensor_value_info(inputs, TensorProto.INT64, ["b", "t"])
    nodes = [
        helper.make_node("Cast", [inputs], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["wide", "axis"], ["first"]),
        helper.make_node("Mul", ["first", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "one"], ["second"]),
        helper.make_node("Concat", ["first", "second"], [output], axis=-1),
    ]
    values = [
        helper.make_tensor("axis", TensorProto.INT64, [1], [2]),
        helper.make_tensor("zero", TensorProto.FLOAT, [1], [0]),
        helper.make_tensor("one", TensorProto.FLOAT, [1], [1]),
    ]
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["b", "t", 2])
    graph = helper.make_graph(nodes, "tiny", [ids], [result], values)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_the_bundled_files_are_the_pinned_ones_with_licence_and_notice() -> None:
    files = bundled_files()
    manifest = json.loads((files.folder / "manifest.json").read_bytes())
    for name, expected in BUNDLED_SHA256.items():
        assert file_sha256(files.folder / name) == expected == manifest["files"][name]
    assert "Apache License" in (files.folder / "LICENSE").read_text()
    assert "all-MiniLM-L6-v2" in (files.folder / "NOTICE").read_text()
    assert files.model_id == f"all-MiniLM-L6-v2@{BUNDLED_SHA256['model.onnx'][:12]}-r2"


async def test_damaged_weights_are_refused(folder: Path) -> None:
    with (folder / "model.onnx").open("r+b") as stream:
        stream.seek(1_000_000)
        stream.write(b"x")
    files = ModelFiles(folder, "all-MiniLM-L6-v2", BUNDLED_SHA256, dimensions=384)
    with pytest.raises(EmbeddingError, match=r"model\.onnx is not the file expected"):
        await OnnxEmbedder(files).embed_query("hello")


async def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_text(json.dumps({"files": BUNDLED_SHA256}))
    (folder / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(EmbeddingError, match=r"tokenizer\.json is not the file expected"):
        await OnnxEmbedder(folder_files(folder)).warm_up()


async def test_files_that_are_no_model_are_named(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(EmbeddingError, match="can't load the embedding model"):
        await OnnxEmbedder(folder_files(folder)).warm_up()
    (folder / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(EmbeddingError, match=r"tokenizer\.json can't be read"):
        await OnnxEmbedder(folder_files(folder)).warm_up()


async def test_a_folder_gives_the_same_vectors_as_the_bundled_model(folder: Path, model: OnnxEmbedder) -> None:
    embedder = open_embedder(str(folder))
    assert await embedder.embed_query("same") @ await model.embed_query("same") > 0.9999
    assert embedder.model_id == f"my-model@{BUNDLED_SHA256['model.onnx'][:12]}-r2"
    assert (embedder.dimensions, embedder.passage_tokens) == (384, 254)
    await embedder.aclose()


async def test_prefixes_of_the_manifest_are_put_before_queries_and_passages(folder: Path, model: OnnxEmbedder) -> None:
    manifest = {"query_prefix": "query: ", "passage_prefix": "passage: ", "max_tokens": 20}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    embedder = OnnxEmbedder(folder_files(folder))
    assert embedder.passage_tokens == 20 - 2 - 2
    assert await embedder.embed_query("a cat") @ await model.embed_query("query: a cat") > 0.9999
    found = await embedder.embed_passages(["a cat"])
    assert found[0] @ (await model.embed_passages(["passage: a cat"]))[0] > 0.9999
    await embedder.embed_passages(["word " * embedder.passage_tokens])
    await embedder.aclose()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
async def test_hidden_states_are_pooled_as_the_model_says(folder: Path, pooling: str) -> None:
    tiny_graph(folder / "model.onnx")
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    embedder = OnnxEmbedder(folder_files(folder))
    with pytest.raises(EmbeddingError, match="not loaded yet"):
        _ = embedder.dimensions
    assert (await embedder.embed_passages([])).shape == (0, 2)
    assert embedder.dimensions == 2
    # "the" is token 1996 between [CLS] 101 and [SEP] 102; its neighbour in the batch is longer.
    first = (await embedder.embed_passages(["the", "the the"]))[0]
    expected = np.array([101 if pooling == "cls" else (101 + 1996 + 102) / 3, 1])
    assert np.allclose(first, expected / np.linalg.norm(expected), atol=1e-6)
    await embedder.aclose()


def test_a_model_that_pools_otherwise_is_refused(folder: Path) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    with pytest.raises(EmbeddingError, match="pooling_mode_lasttoken"):
        folder_files(folder)
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')
    with pytest.raises(EmbeddingError, match="Dense"):
        folder_files(folder)


@pytest.mark.parametrize(("output", "inputs"), [("logits", "input_ids"), ("last_hidden_state", "pixels")])
async def test_a_graph_that_is_no_sentence_encoder_is_refused(folder: Path, output: str, inputs: str) -> None:
    tiny_graph(folder / "model.onnx", output, inputs)
    with pytest.raises(EmbeddingError, match="not a sentence encoder"):
        await OnnxEmbedder(folder_files(folder)).warm_up()


def test_limits_come_from_the_model_s_own_files(folder: Path) -> None:
    (folder / "config.json").write_text('{"max_position_embeddings": 514, "model_type": "xlm-roberta"}')
    assert folder_files(folder).max_tokens == 512
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    assert folder_files(folder).max_tokens == 128


async def test_an_incomplete_folder_names_what_is_missing_and_is_taken_when_it_is_mended(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "elsewhere.json")
    embedder = open_embedder(str(folder))
    with pytest.raises(EmbeddingError, match=r"has no tokenizer\.json"):
        await embedder.embed_query("hello")
    (folder / "elsewhere.json").rename(folder / "tokenizer.json")
    assert (await embedder.embed_query("hello")).shape == (384,)
    await embedder.aclose()


@pytest.mark.parametrize("text", ['{"dimensions": "384"}', '{"files": []}', '{"pooling": "max"}', "[]", "{"])
def test_a_manifest_that_is_not_understood_is_an_error(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(EmbeddingError, match=r"manifest\.json"):
        folder_files(folder)


async def test_hashed_vectors_are_deterministic_and_near_for_shared_words() -> None:
    embedder = open_embedder("hashed")
    assert isinstance(embedder, HashedEmbedder)
    query = await embedder.embed_query("the deploy freeze")
    near, far, empty = await embedder.embed_passages(["deploy freeze on Friday", "yellow bananas", ""])
    assert near @ query > 0.4 > far @ query
    assert np.array_equal(query, await HashedEmbedder().embed_query("the deploy freeze"))
    assert abs(np.linalg.norm(empty) - 1) < 1e-6
    assert not isinstance(open_embedder(), HashedEmbedder)
