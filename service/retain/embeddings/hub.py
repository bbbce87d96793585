"""Models of a public hub, downloaded once into the cache and the same ever after.

A model folder is complete when its `manifest.json` is there: that is written last and holds the SHA-256 of every
file; each later load checks weights and tokenizer against it. Downloads resume, and processes that want the same
model take turns.
"""

import contextlib
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from retain.domain.errors import EmbeddingError, InvalidInputError
from retain.embeddings.model_files import MANIFEST, TOKENIZER, WEIGHTS, ModelFiles, folder_files

if TYPE_CHECKING:
    import httpx

HUB_URL = "https://huggingface.co"
ATTEMPTS = 4
TIMEOUT_S = 30.0

# Where each file may be on the hub, best first, and whether the model is usable without it.
WANTED: dict[str, tuple[tuple[str, ...], bool]] = {
    TOKENIZER: ((TOKENIZER, f"onnx/{TOKENIZER}"), True),
    "config.json": (("config.json",), False),
    "tokenizer_config.json": (("tokenizer_config.json",), False),
    "sentence_bert_config.json": (("sentence_bert_config.json",), False),
    "config_sentence_transformers.json": (("config_sentence_transformers.json",), False),
    "modules.json": (("modules.json",), False),
    "1_Pooling/config.json": (("1_Pooling/config.json",), False),
    f"{WEIGHTS}_data": ((f"onnx/{WEIGHTS}_data", f"{WEIGHTS}_data"), False),
    WEIGHTS: ((f"onnx/{WEIGHTS}", WEIGHTS), True),
}
# Trained with words before each text that their files don't mention.
_E5 = {"query_prefix": "query: ", "passage_prefix": "passage: "}
PREFIXES = {f"intfloat/multilingual-e5-{size}": _E5 for size in ("small", "base", "large")}

_SPEC = re.compile(
    r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?(#sha256=(?P<sha256>[0-9a-fA-F]{64}))?", re.ASCII
)


@dataclass(frozen=True)
class HubModel:
    """A model by name. `sha256` is the hash that its `model.onnx` must have, if the user pinned one."""

    name: str
    revision: str = "main"
    sha256: str | None = None

    @property
    def folder_name(self) -> str:
        """Its folder inside the cache."""
        return f"{self.name}@{self.revision}".replace("/", "--")


def parse_hub_spec(spec: str) -> HubModel:
    """`owner/name`, `owner/name@revision`, either with `#sha256=<64 hex digits>` at the end.

    Raises:
        InvalidInputError: it is none of these.
    """
    match = _SPEC.fullmatch(spec)
    if match is None or ".." in spec:
        raise InvalidInputError(
            f"RETAIN_EMBEDDING is 'hub:{spec}', expected hub:owner/name, optionally with @revision and "
            "#sha256=<64 hex digits of model.onnx>",
            field="embedding",
        )
    sha256 = match["sha256"]
    return HubModel(match["name"], match["revision"] or "main", sha256.lower() if sha256 else None)


def is_cached(model: HubModel, cache_dir: Path) -> bool:
    """Whether the model is complete in the cache."""
    return (cache_dir / model.folder_name / MANIFEST).exists()


def hub_files(
    model: HubModel,
    cache_dir: Path,
    /,
    *,
    hub_url: str = HUB_URL,
    offline: bool = False,
    sleep: Callable[[float], object] = time.sleep,
    closed: Callable[[], bool] = lambda: False,
) -> ModelFiles:
    """The model's files, downloaded if the cache lacks them. Blocks, with a progress bar on a terminal.

    `closed` is asked between the pieces of a download; when true the download is given up, to go on another time.

    Raises:
        EmbeddingError: offline and not in the cache, no such model, the hub can't be reached, the disk is full,
            or the weights have another hash than the pinned one.
    """
    folder = cache_dir / model.folder_name
    if not (folder / MANIFEST).exists():
        if offline:
            raise EmbeddingError(
                f"the embedding model {model.name} is not complete in {folder} ({_first_missing(folder)} is missing) "
                "and RETAIN_OFFLINE forbids downloading it: unset RETAIN_OFFLINE once, or copy the folder from a "
                "machine that has it"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _turn(folder / ".lock"):
                if not (folder / MANIFEST).exists():  # another process may have just finished
                    _download(model, folder, hub_url.rstrip("/"), _Pace(sleep, closed))
        except OSError as error:
            raise EmbeddingError(f"the embedding model can't be saved in {folder}: {error}") from error
    files = folder_files(folder)
    if model.sha256 and files.sha256.get(WEIGHTS) != model.sha256:
        raise EmbeddingError(
            f"{folder / WEIGHTS} has SHA-256 {files.sha256.get(WEIGHTS)}, but RETAIN_EMBEDDING pins {model.sha256}"
        )
    return files


def _first_missing(folder: Path) -> str:
    return next((name for name in (WEIGHTS, TOKENIZER) if not (folder / name).exists()), MANIFEST)


@contextlib.contextmanager
def _turn(path: Path) -> Generator[None]:
    """Wait for, and hold, a lock between processes that the system releases if this one dies."""
    with path.open("a+b") as stream:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(stream.fileno(), msvcrt.LK_LOCK, 1)
            try:
                yield
            finally:
                stream.seek(0)
                msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def _download(model: HubModel, folder: Path, hub_url: str, pace: "_Pace") -> None:
    import httpx

    hashes: dict[str, str] = {}
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True, headers={"Accept-Encoding": "identity"}) as client:
        for name, (places, needed) in WANTED.items():
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            for place in places:
                url = f"{hub_url}/{model.name}/resolve/{quote(model.revision, safe='')}/{quote(place)}"
                if target.exists() or _Download(client, url, target, pace).run():
                    hashes[name] = _sha256(target)
                    break
            else:
                if needed:
                    raise EmbeddingError(
                        f"the hub {hub_url} has no {' or '.join(places)} for {model.name} at {model.revision}: "
                        "check RETAIN_EMBEDDING; the model must be published in ONNX form"
                    )
    if model.sha256 and hashes[WEIGHTS] != model.sha256:
        (folder / WEIGHTS).unlink()
        raise EmbeddingError(
            f"model.onnx of {model.name} has SHA-256 {hashes[WEIGHTS]}, but RETAIN_EMBEDDING pins {model.sha256}; "
            "it was not kept"
        )
    manifest = {"name": model.name, "revision": model.revision, "files": hashes, **PREFIXES.get(model.name, {})}
    unfinished = folder / f"{MANIFEST}.part"
    unfinished.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(folder / MANIFEST)


@dataclass(frozen=True)
class _Pace:
    """How to wait between attempts, and whether to go on at all."""

    sleep: Callable[[float], object]
    closed: Callable[[], bool]

    def require_open(self) -> None:
        """Raise EmbeddingError when nobody wants the model any more."""
        if self.closed():
            raise EmbeddingError("the embedding model was closed while it was downloaded; the next use goes on")


class _Download:
    """One file; what an earlier attempt got is kept beside it and continued from, if the hub's file is the same."""

    def __init__(self, client: "httpx.Client", url: str, target: Path, pace: _Pace) -> None:
        self._client = client
        self._url = url
        self._target = target
        self._pace = pace
        self._part = target.with_name(target.name + ".part")
        self._etag = target.with_name(target.name + ".part.etag")

    def run(self) -> bool:
        """Download; False when the hub has no such file.

        Raises:
            EmbeddingError: the hub can't be reached or refuses; what came so far is kept.
        """
        import httpx

        problem = ""
        for attempt in range(ATTEMPTS):
            self._pace.require_open()
            if attempt:
                self._pace.sleep(2.0 ** (attempt - 1))
            try:
                status = self._attempt()
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                self._etag.unlink(missing_ok=True)
                self._part.replace(self._target)
                return True
            if status == HTTPStatus.NOT_FOUND:
                return False
            problem = f"HTTP {status}"
            if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                self._part.unlink(missing_ok=True)
            elif status != HTTPStatus.TOO_MANY_REQUESTS and status < 500:
                break
        raise EmbeddingError(
            f"{self._url} can't be downloaded: {problem}; run again to continue, or point RETAIN_EMBEDDING at a folder"
        )

    def _attempt(self) -> int:
        have = self._part.stat().st_size if self._part.exists() and self._etag.exists() else 0
        headers = {"Range": f"bytes={have}-", "If-Range": self._etag.read_text()} if have else {}
        with self._client.stream("GET", self._url, headers=headers) as response:
            if not response.is_success:
                return response.status_code
            continued = response.status_code == HTTPStatus.PARTIAL_CONTENT
            etag = response.headers.get("ETag", "")
            # A weak tag doesn't promise the same bytes.
            if etag and not etag.startswith("W/"):
                self._etag.write_text(etag)
            else:
                self._etag.unlink(missing_ok=True)
            size = int(response.headers.get("Content-Length", 0)) + (have if continued else 0)
            with self._part.open("ab" if continued else "wb") as stream, _progress(self._target.name, size) as advance:
                advance(have if continued else 0)
                for (
                    piece
                ) in response.iter_raw():  # of any size: a buffer of fixed size would be lost with the connection
                    self._pace.require_open()
                    stream.write(piece)
                    advance(len(piece))
                stream.flush()
                os.fsync(stream.fileno())
            return response.status_code


@contextlib.contextmanager
def _progress(name: str, size: int) -> Generator[Callable[[int], object]]:
    """A bar on stderr if that is a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=size or None)
        yield lambda count: progress.advance(task, count)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
