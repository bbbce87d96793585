"""What the setting `RETAIN_EMBEDDING` means."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from retain.domain.errors import InvalidInputError

if TYPE_CHECKING:
    from retain.core.ports import Embedder
    from retain.embeddings.model_files import ModelFiles

    class LoadableEmbedder(Embedder, Protocol):
        """An `Embedder` that can be made ready before the first text comes."""

        async def warm_up(self) -> None:
            """Load the model, or reach the endpoint, now; safe to call again."""
            ...


DEFAULT = "all-MiniLM-L6-v2"
FORMS = (
    f"{DEFAULT} (inside Retain), the path of a folder with model.onnx and tokenizer.json, hub:owner/name, or "
    "http(s)://host/v1#model-name"
)


def open_embedder(
    spec: str = DEFAULT,
    /,
    *,
    cache_dir: Path | None = None,
    offline: bool = False,
    api_key: str | None = None,
    hub_url: str | None = None,
) -> "LoadableEmbedder":
    """Return the embedder that `spec` names.

    Local models are loaded on first use or by `warm_up`. A hub model that is not in `cache_dir` is downloaded
    here: that blocks, and shows a progress bar when stderr is a terminal.

    Args:
        spec: "default" or "all-MiniLM-L6-v2"; a folder; "hub:owner/name[@revision][#sha256=...]";
            "http(s)://host/v1#model-name"; "hashed", which is for tests only.
        cache_dir: where hub models are kept; only they need it.
        offline: never use the network for a hub model.
        api_key: bearer token of the endpoint.
        hub_url: another hub, for example a mirror; the public one by default.

    Raises:
        InvalidInputError: `spec` is none of these.
        EmbeddingError: files are missing or damaged, or a hub model can't be had.
    """
    if re.match(r"https?://", spec, re.IGNORECASE):
        from retain.embeddings.http import HttpEmbedder

        url, _, model = spec.partition("#")
        return HttpEmbedder(url, model, api_key=api_key)
    if spec == "hashed":
        from retain.embeddings.hashed import HashedEmbedder

        return HashedEmbedder()

    from retain.embeddings.onnx import OnnxEmbedder

    return OnnxEmbedder(_local_files(spec, cache_dir, offline, hub_url))


def _local_files(spec: str, cache_dir: Path | None, offline: bool, hub_url: str | None) -> "ModelFiles":
    from retain.embeddings import hub, model_files

    if spec in ("default", model_files.BUNDLED):
        return model_files.bundled_files()
    if spec.startswith("hub:"):
        model = hub.parse_hub_spec(spec.removeprefix("hub:"))
        if cache_dir is None:
            raise InvalidInputError("a hub model needs cache_dir, a folder to keep it in", field="cache_dir")
        return hub.hub_files(model, cache_dir, hub_url=hub_url or hub.HUB_URL, offline=offline)
    if spec and Path(spec).expanduser().is_dir():
        return model_files.folder_files(Path(spec).expanduser())
    raise InvalidInputError(f"RETAIN_EMBEDDING is {spec!r}, expected {FORMS}", field="embedding")
