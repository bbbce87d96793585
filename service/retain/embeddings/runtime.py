"""The two native libraries, onnxruntime and tokenizers, as far as Retain uses them, with types.

Neither ships types, and onnxruntime takes 0.1 s to import; both are loaded on first use, and only here.
"""

import ctypes
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import EmbeddingError
from retain.embeddings.text import sound_text
from retain.embeddings.unread import Reading, Vocabulary


class Port(Protocol):
    """Name and element type of one input or output of a graph."""

    name: str
    type: str


class Session(Protocol):
    """A loaded graph. `run` may be called from several threads at once."""

    def get_inputs(self) -> Sequence[Port]:
        """What the graph wants."""
        ...

    def get_outputs(self) -> Sequence[Port]:
        """What the graph gives."""
        ...

    def run(self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]], /) -> list[NDArray[np.float32]]:
        """The outputs of those names."""
        ...


def load_session(model: Path) -> Session:
    """Load a graph for one thread per call; callers run several calls side by side instead.

    It takes a path, since onnxruntime's session would keep the bytes alive beside the weights made of them.

    Raises:
        EmbeddingError: onnxruntime can't read the graph.
    """
    # Telemetry begins at import: it writes a device id into the home folder and starts a sender.
    # Switching it off afterwards is too late, so the variable must be there before.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # noqa: TID251 - not read, told to the library
    ort: Any = importlib.import_module("onnxruntime")
    ort.disable_telemetry_events()
    options: Any = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen unrelated types of its own
        raise EmbeddingError(f"onnxruntime can't load the embedding model {model}: {error}") from error
    return cast(Session, session)


def return_free_memory() -> None:
    """Give freed pages back to the system: widening int8 weights leaves 100 MB of them in glibc's heap."""
    try:
        trim = cast(Callable[[int], int], ctypes.CDLL(None).malloc_trim)
    except (OSError, AttributeError, TypeError):
        return  # not glibc
    trim(0)


class _Encoding(Protocol):
    ids: list[int]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]


class _Tokenizer(Protocol):
    encode_special_tokens: bool

    def no_truncation(self) -> None: ...

    def no_padding(self) -> None: ...

    def token_to_id(self, token: str, /) -> int | None: ...

    def encode(self, sequence: str, /, *, add_special_tokens: bool) -> _Encoding: ...


class Tokens:
    """A model's tokenizer without truncation and padding. All methods are thread safe."""

    def __init__(self, tokenizer_json: bytes, /) -> None:
        """Raises EmbeddingError when the file is not a tokenizer."""
        tokenizers: Any = importlib.import_module("tokenizers")
        try:
            tokenizer = cast(_Tokenizer, tokenizers.Tokenizer.from_str(tokenizer_json.decode("utf-8")))
        except Exception as error:  # the Rust side raises plain Exception
            raise EmbeddingError(f"tokenizer.json can't be read: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # Without this, "[SEP]" typed in a text would become the separator itself.
        tokenizer.encode_special_tokens = True
        sample = tokenizer.encode("a", add_special_tokens=True)
        first = sample.special_tokens_mask.index(0)
        last = len(sample.ids) - sample.special_tokens_mask[::-1].index(0)
        self.head, self.tail = sample.ids[:first], sample.ids[last:]
        self.pad_id = tokenizer.token_to_id("[PAD]") or tokenizer.token_to_id("<pad>") or 0
        self._tokenizer = tokenizer
        unknown = tokenizer.token_to_id("[UNK]")
        self._vocabulary = Vocabulary(tokenizer_json, tokenizer.token_to_id("<unk>") if unknown is None else unknown)

    @property
    def specials(self) -> int:
        """How many tokens the model wants around each text."""
        return len(self.head) + len(self.tail)

    def ids(self, text: str, /) -> list[int]:
        """Token ids of `text`, without special tokens."""
        return self._encode(text).ids

    def read(self, text: str, /, *, prefix: str = "") -> Reading:
        """The tokens of `prefix + text` that mean something to the model, and what stands for the rest of `text`."""
        whole = prefix + sound_text(text)
        found = self._encode(whole)
        return self._vocabulary.read(whole, found.ids, found.offsets, len(prefix))

    def offsets(self, text: str, /) -> NDArray[np.int32]:
        """(t, 2) first and past-the-end character of each token."""
        return np.array(self._encode(text).offsets, np.int32).reshape(-1, 2)

    def _encode(self, text: str) -> _Encoding:
        return self._tokenizer.encode(sound_text(text), add_special_tokens=False)
