"""Hub models over real HTTP, from a fake hub on this machine."""

import hashlib
import json
import multiprocessing
from pathlib import Path

import pytest

from retain.domain.errors import EmbeddingError, InvalidInputError
from retain.embeddings import open_embedder
from retain.embeddings.hub import hub_files, parse_hub_spec
from retain.embeddings.model_files import bundled_files
from retain.embeddings.onnx import OnnxEmbedder

from .conftest import FakeHub  # type: ignore[import-not-found]  # noqa: TID252
