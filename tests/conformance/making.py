"""What store tests are made of: entries with vectors that are chosen, not computed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from retain.core.ports import Change, Entry, Vectors
from retain.domain.ids import id_of, new_id
from retain.domain.memory import Memory, Model, Passage
from retain.domain.text import content_hash

MODEL = Model("test-model", 32)
START = datetime(2026, 11, 30, 10, 30, tzinfo=UTC)


def unit(seed: int, *, dimensions: int = MODEL.dimensions) -> Vectors:
    """Return (d,) a unit vector that depends on `seed` alone."""
    vector = np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
    return vector / np.linalg.norm(vector)


def towards(vector: Vectors, cosine: float, seed: int) -> Vectors:
    """Return (d,) a unit vector that has the given cosine to `vector`."""
    aside = unit(seed, dimensions=len(vector))
    aside = aside - (aside @ vector) * vector
    made = cosine * vector + np.sqrt(1 - cosine**2) * aside / np.linalg.norm(aside)
    return made.astype(np.float32)


def entry(
    content: str,
    tags: Sequence[str] = (),
    *,
    vector: Vectors | None = None,
    after: float = 0,
    supersedes: str | None = None,
    **fields: Any,
) -> Entry:
    """Return a memory of one passage, created `after` seconds past START."""
    at = START + timedelta(seconds=after)
    memory = Memory(
        id=new_id(),
        content=content,
        content_hash=content_hash(content),
        created_at=at,
        updated_at=at,
        occurred_at=at,
        tags=tuple(tags),
    )
    vector = unit(hash(content) & 0xFFFF) if vector is None else vector
    return Entry(replace(memory, **fields), [Passage(0, len(content))], vector[None, :], supersedes)


def keyed(content: str, key: str, *, namespace: str = "/", **more: Any) -> Entry:
    """Return a memory that has a key."""
    return entry(content, namespace=namespace, key=key, id=id_of(namespace, key), **more)


def edit(content: str | None = None, *, vector: Vectors | None = None, after: float = 60, **fields: object) -> Change:
    """Return a change of the content, of other fields, or of both."""
    at = START + timedelta(seconds=after)
    if content is None:
        return Change(at, fields)
    made = entry(content, vector=vector)
    return Change(at, fields, content, made.memory.content_hash, made.passages, made.vectors)
