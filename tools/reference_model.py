"""all-MiniLM-L6-v2 in plain float64 numpy: slow, obvious, and what the built graph is compared with."""

import math

import numpy as np
from numpy.typing import NDArray

LAYERS, HEADS, WIDTH, HEAD_WIDTH = 6, 12, 384, 32
LAYER_NORM_EPSILON = 1e-12

Weights = dict[str, NDArray[np.float32]]

# Varied on purpose: lengths from one token to the limit, code, numbers, names, other scripts, symbols.
CHECK_TEXTS = [
    "a",
    "API rate limit is 100 req/min",
    "The deploy freeze ends on Friday",
    "when can we ship again?",
    "We moved the session cookie to SameSite=Lax because the payment redirect lost it.",
    "SELECT id, content FROM memories WHERE namespace = ? AND deleted_at IS NULL ORDER BY created_at DESC;",
    "def retry(attempts: int = 3) -> None:\n    for attempt in range(attempts):\n        ...",
    "Postgres 16.3, port 5432, max_connections=200, shared_buffers=4GB",
    "Der Betriebsrat hat der neuen Schichtplanung am 3. März zugestimmt.",
    "数据库在凌晨三点备份，保留七天。",
    "データベースのバックアップは毎日午前3時に実行されます。",
    "Резервная копия базы создаётся каждую ночь.",
    "🚀🔥 ship it!!! ¯\\_(ツ)_/¯",
    "0x7ffdeadbeef 127.0.0.1 2026-11-30T23:59:59Z 3.14159e-10",
    "antidisestablishmentarianism " * 12,
    "The user prefers short answers, dark mode and metric units. " * 16,
    "Error: ECONNREFUSED 10.0.0.7:6379. Redis was restarted by the OOM killer; raise the memory limit. " * 6,
    "the of and to in a is that it for on with as by at from or an be this",
]


def reference(weights: Weights, ids: list[int]) -> NDArray[np.float64]:
    """The unit vector (384,) of one text's token ids, special tokens included."""

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + LAYER_NORM_EPSILON)
        return scaled * weights[name + ".weight"] + weights[name + ".bias"]

    def dense(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return x @ weights[name + ".weight"].T.astype(np.float64) + weights[name + ".bias"]

    erf = np.vectorize(math.erf, otypes=[np.float64])
    words, places, kinds = (weights[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type"))
    x = norm(words[ids].astype(np.float64) + places[: len(ids)] + kinds[0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        stem = f"encoder.layer.{layer}."
        query, key, value = (
            dense(x, f"{stem}attention.self.{n}").reshape(-1, HEADS, HEAD_WIDTH).transpose(1, 0, 2)
            for n in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(HEAD_WIDTH)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(-1, WIDTH)
        x = norm(x + dense(seen, stem + "attention.output.dense"), stem + "attention.output.LayerNorm")
        up = dense(x, stem + "intermediate.dense")
        gelu = up * 0.5 * (1 + erf(up / math.sqrt(2)))
        x = norm(x + dense(gelu, stem + "output.dense"), stem + "output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)
