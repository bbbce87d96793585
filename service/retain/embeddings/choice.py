"""What the setting `RETAIN_EMBEDDING` means."""

from pathlib import Path
from typing import TYPE_CHECKING

from retain.domain.errors import InvalidInputError

if TYPE_CHECKING:
    from retain.core.ports import Embedder

FORMS = (
    "all-MiniLM-L6-v2 (the model inside Retain), the path of a folder with model.onnx and tokenizer.json, "
    "hub:owner/name, or http(s)://host/v1#model-name"
)


def open_embedder(
    spec: str = "default",
    /,
    *,
    cache_dir: Path | None = None,
    offline: bool = False,
    api_key: str | None = None,
    hub_url: str | None = None,
) -> "Embedder":
    """Return the embedder that `spec` names; a local model is loaded on first use."""
    from retain.embeddings import model_files
    from retain.embeddings.onnx import OnnxEmbedder

    if spec in ("default", model_files.BUNDLED):
        return OnnxEmbedder(model_files.bundled_files())
    if Path(spec).is_dir():
        return OnnxEmbedder(model_files.folder_files(Path(spec)))
    raise InvalidInputError(f"RETAIN_EMBEDDING is {spec!r}, expected {FORMS}", field="embedding")
