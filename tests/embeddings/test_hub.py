"""Hub models over real HTTP, from a fake hub on this machine."""

import hashlib
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from retain.domain.errors import EmbeddingError, InvalidInputError
from retain.embeddings import open_embedder
from retain.embeddings.hub import HubModel, hub_files, parse_hub_spec
from retain.embeddings.model_files import bundled_files
from retain.embeddings.onnx import OnnxEmbedder

NAME = "acme/tiny"
WEIGHTS = bytes(range(256)) * 20
FILES = {"onnx/model.onnx": WEIGHTS, "tokenizer.json": b"{}", "config.json": b'{"max_position_embeddings": 64}'}
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


def no_wait(_: float) -> None:
    """Instead of sleeping between attempts."""


def fetch(hub: Any, cache: Path, spec: str = NAME, **options: Any):
    return hub_files(parse_hub_spec(spec), cache, hub_url=hub.url, sleep=no_wait, **options)


async def test_a_hub_model_embeds_like_the_same_files_in_a_folder(
    hub: Any, tmp_path: Path, model: OnnxEmbedder
) -> None:
    bundled = bundled_files().folder
    weights = (bundled / "model.onnx").read_bytes()
    hub.put("acme/minilm", {"onnx/model.onnx": weights, "tokenizer.json": (bundled / "tokenizer.json").read_bytes()})
    embedder = open_embedder("hub:acme/minilm", cache_dir=tmp_path, hub_url=hub.url)
    assert await embedder.embed_query("the same vector") @ await model.embed_query("the same vector") > 0.9999
    assert embedder.model_id == f"acme/minilm@{hashlib.sha256(weights).hexdigest()[:12]}-r2"
    await embedder.aclose()


def test_a_second_use_needs_no_network(hub: Any, tmp_path: Path) -> None:
    hub.put(NAME, FILES)
    fetch(hub, tmp_path)
    asked = len(hub.requests)
    files = fetch(hub, tmp_path, offline=True)
    assert len(hub.requests) == asked
    assert (files.name, files.max_tokens, files.sha256["model.onnx"]) == (NAME, 64, SHA256)


def test_offline_without_the_files_names_the_file_and_the_setting(hub: Any, tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"model\.onnx is missing.*RETAIN_OFFLINE"):
        fetch(hub, tmp_path, offline=True)
    assert hub.requests == []


def test_a_broken_download_goes_on_where_it_stopped(hub: Any, tmp_path: Path) -> None:
    hub.put(NAME, FILES)
    hub.cuts = 2
    files = fetch(hub, tmp_path)
    ranges = [wanted for path, wanted in hub.requests if path.endswith("/onnx/model.onnx")]
    assert ranges == [None, "bytes=1000-", "bytes=2000-"]
    assert (files.folder / "model.onnx").read_bytes() == WEIGHTS
    assert not list(files.folder.rglob("*.part*"))


def test_a_download_given_up_goes_on_in_the_next_run(hub: Any, tmp_path: Path) -> None:
    hub.put(NAME, FILES)
    hub.cuts = 4
    with pytest.raises(EmbeddingError, match=r"can't be downloaded.*run again to continue"):
        fetch(hub, tmp_path)
    files = fetch(hub, tmp_path)
    assert hub.requests[-1] == ("/acme/tiny/resolve/main/onnx/model.onnx", "bytes=4000-")
    assert (files.folder / "model.onnx").read_bytes() == WEIGHTS


def test_a_file_that_changed_on_the_hub_is_not_glued_to_the_old_part(hub: Any, tmp_path: Path) -> None:
    hub.put(NAME, FILES)
    hub.cuts = 4
    with pytest.raises(EmbeddingError):
        fetch(hub, tmp_path)
    hub.put(NAME, {"onnx/model.onnx": WEIGHTS[::-1]})
    assert (fetch(hub, tmp_path).folder / "model.onnx").read_bytes() == WEIGHTS[::-1]


def test_the_pinned_hash_decides(hub: Any, tmp_path: Path) -> None:
    hub.put(NAME, FILES)
    wrong = "0" * 64
    with pytest.raises(EmbeddingError, match=f"SHA-256 {SHA256}, but RETAIN_EMBEDDING pins {wrong}"):
        fetch(hub, tmp_path, f"{NAME}#sha256={wrong}")
    assert fetch(hub, tmp_path, f"{NAME}#sha256={SHA256}").sha256["model.onnx"] == SHA256
    with pytest.raises(EmbeddingError, match="pins"):
        fetch(hub, tmp_path, f"{NAME}#sha256={wrong}")


async def test_the_hash_of_the_first_download_holds_ever_after(hub: Any, tmp_path: Path) -> None:
    bundled = bundled_files().folder
    hub.put(NAME, {**FILES, "tokenizer.json": (bundled / "tokenizer.json").read_bytes()})
    files = fetch(hub, tmp_path)
    (files.folder / "model.onnx").write_bytes(WEIGHTS[::-1])
    with pytest.raises(EmbeddingError, match="not the file expected"):
        await OnnxEmbedder(fetch(hub, tmp_path)).warm_up()


def test_a_model_that_is_not_there_names_the_place(hub: Any, tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"no tokenizer\.json or onnx/tokenizer\.json for acme/tiny at main"):
        fetch(hub, tmp_path)
    hub.put(NAME, {"tokenizer.json": b"{}"})
    with pytest.raises(EmbeddingError, match="must be published in ONNX form"):
        fetch(hub, tmp_path)


def test_a_hub_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"http://127\.0\.0\.1:1/.*can't be downloaded"):
        hub_files(HubModel(NAME), tmp_path, hub_url="http://127.0.0.1:1", sleep=no_wait)


def test_revisions_are_kept_apart(hub: Any, tmp_path: Path) -> None:
    hub.put(NAME, FILES)
    hub.put(NAME, {**FILES, "onnx/model.onnx": b"other"}, revision="v2")
    assert fetch(hub, tmp_path).model_id != fetch(hub, tmp_path, f"{NAME}@v2").model_id


def test_the_prefixes_of_known_models_are_kept(hub: Any, tmp_path: Path) -> None:
    hub.put("intfloat/multilingual-e5-small", FILES)
    files = fetch(hub, tmp_path, "intfloat/multilingual-e5-small")
    assert (files.query_prefix, files.passage_prefix) == ("query: ", "passage: ")


def test_prompts_of_sentence_transformers_are_kept(hub: Any, tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "Q: ", "document": "D: "}}
    hub.put(NAME, {**FILES, "config_sentence_transformers.json": json.dumps(prompts).encode()})
    files = fetch(hub, tmp_path)
    assert (files.query_prefix, files.passage_prefix) == ("Q: ", "D: ")


def test_two_processes_at_once_download_once(hub: Any, tmp_path: Path) -> None:
    hub.put(NAME, FILES)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=hub_files, args=(HubModel(NAME), tmp_path), kwargs={"hub_url": hub.url})
                 for _ in range(2)]  # fmt: skip
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert [path for path, _ in hub.requests].count("/acme/tiny/resolve/main/onnx/model.onnx") == 1
    assert (fetch(hub, tmp_path, offline=True).folder / "model.onnx").read_bytes() == WEIGHTS


def test_a_cache_that_can_t_be_written_is_named(hub: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddingError, match="can't be saved in"):
        fetch(hub, tmp_path / "file")


@pytest.mark.parametrize("spec", ["", "name", "a/b/c", "../x", "a/..", "a/b#sha256=12", "a/b@", "a b/c"])
def test_a_name_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(InvalidInputError, match="expected hub:owner/name"):
        parse_hub_spec(spec)
