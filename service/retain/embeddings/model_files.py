"""The files of a local model: which ones, in which folder, and whether they are the ones expected."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from retain.domain.errors import EmbeddingError

BUNDLED = "all-MiniLM-L6-v2"
# Of the files that `make model` wrote; the build is deterministic, so anyone can check them.
BUNDLED_SHA256 = {
    "model.onnx": "5fe11381f62a7a6a62a6af68d723ba9b9a6f4698491a206391ce549162745858",
    "tokenizer.json": "5fd1c882abbd30517dced455a2c9768945ec726b96727927e4959348d9de550b",
}
WEIGHTS, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "manifest.json"
# Longer windows cost attention time and blur the vector; no model gets more, whatever it could read.
MOST_TOKENS = 512
# How text becomes a vector, beside the weights; another number makes another model of the same files. 2: what a
# model can't read is hashed (`unread.py`).
READING = 2


@dataclass(frozen=True)
class ModelFiles:
    """One model in one folder.

    `sha256` maps file names to the hash each must have; a file that is not named there is taken as it is.
    `pooling` ("mean" or "cls") is for graphs that give hidden states. `query_prefix` and `passage_prefix` are put
    before every text, as some models were trained with.
    """

    folder: Path
    name: str
    sha256: Mapping[str, str] = field(default_factory=dict[str, str])
    dimensions: int | None = None
    max_tokens: int = 256
    passage_tokens: int | None = None
    pooling: str = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""

    @cached_property
    def model_id(self) -> str:
        """`name@`, the first 12 hex digits of the SHA-256 of the weights, and the version of reading text."""
        return f"{self.name}@{(self.sha256.get(WEIGHTS) or file_sha256(self.folder / WEIGHTS))[:12]}-r{READING}"

    @property
    def has_model_id(self) -> bool:
        """Whether `model_id` is known without hashing the weights."""
        return WEIGHTS in self.sha256 or "model_id" in self.__dict__

    @property
    def external_weights(self) -> bool:
        """Whether the graph keeps its weights in a file of their own, beside it."""
        return (self.folder / f"{WEIGHTS}_data").exists()

    def read(self, name: str) -> bytes:
        """The bytes of one file, checked.

        Raises:
            EmbeddingError: the file can't be read or has another hash than expected.
        """
        path = self.folder / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise EmbeddingError(
                f"the embedding model's file {path} can't be read ({error.strerror}); "
                "reinstall Retain or correct RETAIN_EMBEDDING"
            ) from error
        self._compare(path, hashlib.sha256(content).hexdigest())
        return content

    def check(self, name: str) -> Path:
        """The path of one file after checking its hash, for files too large to hold in memory.

        Raises:
            EmbeddingError: the file can't be read or has another hash than expected.
        """
        path = self.folder / name
        if name in self.sha256:
            self._compare(path, file_sha256(path))
        return path

    def _compare(self, path: Path, found: str) -> None:
        expected = self.sha256.get(path.name, found)
        if found != expected:
            raise EmbeddingError(
                f"{path} is not the file expected for the embedding model {self.name}: its SHA-256 is "
                f"{found}, expected {expected}; it is damaged or was replaced, so restore it "
                "(reinstall Retain or download the model again)"
            )


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingError(f"{path} can't be read: {error.strerror}; check RETAIN_EMBEDDING") from error


def bundled_files() -> ModelFiles:
    """The model inside this package."""
    return ModelFiles(
        folder=Path(__file__).parent / "models" / BUNDLED,
        name=BUNDLED,
        sha256=BUNDLED_SHA256,
        dimensions=384,
        passage_tokens=254,
    )


def folder_files(folder: Path) -> ModelFiles:
    """The model in a user's folder: `model.onnx`, `tokenizer.json` and, if there, `manifest.json`.

    The manifest may say `name`, `dimensions`, `max_tokens`, `pooling` ("mean" or "cls"), `query_prefix`,
    `passage_prefix` and `files` (name to SHA-256). What it leaves open comes from the configuration files that
    sentence-transformers and transformers keep beside a model, else 256 tokens, mean pooling and no prefix.

    Raises:
        EmbeddingError: a file is missing or not understood, or the model needs a step that Retain lacks.
    """
    missing = [name for name in (WEIGHTS, TOKENIZER) if not (folder / name).is_file()]
    if missing:
        raise EmbeddingError(
            f"RETAIN_EMBEDDING names the folder {folder}, which has no {' and no '.join(missing)}; "
            f"a model folder holds {WEIGHTS} and {TOKENIZER}"
        )
    manifest = _read_json(folder / MANIFEST)
    prompts = cast(dict[str, Any], _read_json(folder / "config_sentence_transformers.json").get("prompts") or {})
    texts = {
        "name": folder.resolve().name,
        "pooling": manifest.get("pooling") or _pooling(folder),
        "query_prefix": prompts.get("query", ""),
        "passage_prefix": prompts.get("passage", prompts.get("document", "")),
        **{key: manifest[key] for key in ("name", "query_prefix", "passage_prefix") if key in manifest},
    }
    sizes = {key: manifest[key] for key in ("dimensions", "max_tokens") if key in manifest}
    hashes = cast(dict[str, Any], manifest.get("files", {}))
    if not (
        all(type(value) is int and value > 0 for value in sizes.values())
        and all(isinstance(value, str) for value in texts.values())
        and texts["pooling"] in ("mean", "cls")
        and type(hashes) is dict
        and all(isinstance(value, str) for value in hashes.values())
    ):
        raise EmbeddingError(
            f"{folder / MANIFEST} is not understood: dimensions and max_tokens are positive integers, name and the "
            'prefixes are strings, pooling is "mean" or "cls", files maps names to SHA-256'
        )
    sizes.setdefault("max_tokens", _max_tokens(folder))
    return ModelFiles(folder=folder, sha256=hashes, **texts, **sizes)


def _pooling(folder: Path) -> str:
    """ "mean" or "cls", as sentence-transformers' own files say; another way of pooling gives wrong vectors."""
    modules = cast(list[dict[str, Any]], _read_json(folder / "modules.json", list) or [])
    steps = {str(module.get("type", "")).rpartition(".")[2] for module in modules}
    modes = _read_json(folder / "1_Pooling" / "config.json")
    chosen = {key for key, value in modes.items() if key.startswith("pooling_mode_") and value is True}
    if steps - {"Transformer", "Pooling", "Normalize"} or len(chosen) > 1:
        raise EmbeddingError(f"the model in {folder} needs {sorted(steps)} with {sorted(chosen)}, which Retain lacks")
    modes_known = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    mode = next(iter(chosen), "pooling_mode_mean_tokens")
    if mode not in modes_known:
        raise EmbeddingError(f"the model in {folder} pools by {mode}; Retain knows {sorted(modes_known)}")
    return modes_known[mode]


def _max_tokens(folder: Path) -> int:
    """The smallest length that any of the model's own configuration files allows, at most 512, else 256."""
    config = _read_json(folder / "config.json")
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and "roberta" in str(config.get("model_type", "")):
        positions -= 2  # RoBERTa's first position is 2
    found = [
        positions,
        _read_json(folder / "tokenizer_config.json").get("model_max_length"),
        _read_json(folder / "sentence_bert_config.json").get("max_seq_length"),
    ]
    limits = [value for value in found if isinstance(value, int) and value > 0]
    return min([*limits, MOST_TOKENS]) if limits else 256


def _read_json(path: Path, kind: type = dict) -> Any:
    """The content of a JSON file, an empty `kind` when there is none."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return kind()
    except (OSError, ValueError) as error:
        raise EmbeddingError(f"{path} can't be read as JSON: {error}") from error
    if not isinstance(content, kind):
        raise EmbeddingError(f"{path} holds no JSON {kind.__name__}")
    return content
