"""What the setting `RETAIN_EMBEDDING` means."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened

if TYPE_CHECKING:
    from retain.core.ports import Embedder

    class LoadableEmbedder(Embedder, Protocol):
        """An `Embedder` that can be made ready before the first text comes."""

        async def warm_up(self) -> None:
            """Load the model, or reach the endpoint, now; safe to call again."""
            ...


DEFAULT = "all-MiniLM-L6-v2"
FORMS = (
    "default, the path of a folder with model.onnx and tokenizer.json, hub:owner/name, or http(s)://host/v1#model-name"
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
    """Return the embedder that `spec` names, at once and whatever `spec` is.

    Models are loaded, and hub models that are not in `cache_dir` downloaded, on first use or by `warm_up`, off the
    event loop. A `spec` that is not understood, or a model that is missing, is an EmbeddingError of each use, so
    that all that needs no model goes on working.

    Args:
        spec: "default" or "all-MiniLM-L6-v2"; a folder; "hub:owner/name[@revision][#sha256=...]";
            "http(s)://host/v1#model-name"; "hashed", which is for tests only.
        cache_dir: where hub models are kept; only they need it.
        offline: never use the network for a hub model.
        api_key: bearer token of the endpoint.
        hub_url: another hub, for example a mirror; the public one by default.
    """
    if spec in ("default", DEFAULT):
        from retain.embeddings.model_files import bundled_files
        from retain.embeddings.onnx import OnnxEmbedder

        return OnnxEmbedder(bundled_files())
    if spec == "hashed":
        from retain.embeddings.hashed import HashedEmbedder

        return HashedEmbedder()

    if spec.startswith("hub:"):
        return _hub_embedder(spec, cache_dir, offline, hub_url)

    from retain.embeddings.deferred import DeferredEmbedder

    if re.match(r"https?://", spec, re.IGNORECASE):
        from retain.embeddings.http import HttpEmbedder

        url, _, model = spec.partition("#")
        try:
            return HttpEmbedder(url, model, api_key=api_key)
        except InvalidInputError as error:
            return DeferredEmbedder("RETAIN_EMBEDDING", _failing(error))
    return DeferredEmbedder(spec, lambda _: _folder_embedder(spec))


def _failing(error: InvalidInputError) -> "Callable[[object], LoadableEmbedder]":
    message, field = str(error), error.field

    def fail(_: object) -> "LoadableEmbedder":
        raise InvalidInputError(message, field=field)

    return fail


def _folder_embedder(spec: str) -> "LoadableEmbedder":
    from retain.embeddings.model_files import folder_files
    from retain.embeddings.onnx import OnnxEmbedder

    folder = None
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # too long, a NUL inside, ~ of nobody
        path = Path(spec).expanduser()
        folder = path if spec and path.is_dir() else None
    if folder is None:
        raise InvalidInputError(f"RETAIN_EMBEDDING is {shortened(spec)}, expected {FORMS}", field="embedding")
    return OnnxEmbedder(folder_files(folder))


def _hub_embedder(spec: str, cache_dir: Path | None, offline: bool, hub_url: str | None) -> "LoadableEmbedder":
    from retain.embeddings import hub
    from retain.embeddings.deferred import PAUSE_S, DeferredEmbedder
    from retain.embeddings.onnx import OnnxEmbedder

    try:
        model = hub.parse_hub_spec(spec.removeprefix("hub:"))
    except InvalidInputError as error:
        return DeferredEmbedder(spec, _failing(error))
    if cache_dir is None:
        return DeferredEmbedder(
            spec, _failing(InvalidInputError("a hub model needs cache_dir, a folder to keep it in", field="cache_dir"))
        )

    def make(closed: Callable[[], bool]) -> "LoadableEmbedder":
        return OnnxEmbedder(
            hub.hub_files(model, cache_dir, hub_url=hub_url or hub.HUB_URL, offline=offline, closed=closed)
        )

    # Offline nothing is downloaded, so what is missing may be told at once.
    return DeferredEmbedder(
        spec,
        make,
        at_hand=lambda: offline or hub.is_cached(model, cache_dir),
        pause_s=0 if offline else PAUSE_S,
    )
