"""An embedding model given through `index=`, as LangGraph's own stores take it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langgraph.store.base import PutOp

import retain
from retain_integrations.langgraph import RetainStore

USER = ("users", "u1")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MakeStore = Callable[..., RetainStore]


def letters(texts: Sequence[str]) -> list[list[float]]:
    """Count letters: cosines can be reckoned by hand."""
    return [[float(text.lower().count(letter)) for letter in LETTERS] for text in texts]


async def letters_later(texts: Sequence[str]) -> list[list[float]]:
    return letters(texts)


@pytest.mark.parametrize("embed", [letters, letters_later])
def test_the_score_is_the_cosine(embed: Any, local: MakeStore) -> None:
    store = local(index={"dims": 26, "embed": embed, "fields": ["text"]})
    store.batch([PutOp(USER, text, {"text": text}) for text in ("ab", "abcd", "xyz")])

    found = store.search(USER, query="ab")

    assert [item.key for item in found] == ["ab", "abcd", "xyz"]
    assert [item.score for item in found] == [pytest.approx(score, abs=1e-3) for score in (1, 0.7071, 0)]


async def test_inside_a_running_loop(local: MakeStore) -> None:
    store = local(index={"dims": 26, "embed": letters_later})
    await store.aput(USER, "k", {"text": "ab"})
    (item,) = store.search(USER, query="text ab")
    assert item.score is not None and item.score > 0.5


def test_the_best_of_several_fields_counts(local: MakeStore) -> None:
    store = local(index={"dims": 26, "embed": letters, "fields": ["one", "two"]})
    store.put(USER, "k", {"one": "xyz", "two": "ab"})
    (item,) = store.search(USER, query="ab")
    assert item.score == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("embed", [lambda texts: [[1.0]] * len(texts), lambda texts: 1 / 0, lambda texts: []])
def test_a_model_that_fails_writes_nothing(embed: Any, local: MakeStore) -> None:
    store = local(index={"dims": 26, "embed": embed})
    with pytest.raises(retain.EmbeddingError):
        store.put(USER, "k", {"text": "ab"})
    assert store.get(USER, "k") is None


@pytest.mark.parametrize("dims", [0, -1, 2.5, None, True])
def test_dims_must_be_a_count(dims: Any) -> None:
    with pytest.raises(retain.InvalidInputError, match="dims"):
        RetainStore("a.db", index={"dims": dims, "embed": letters})


def test_another_model_on_the_same_database_is_refused(local: MakeStore) -> None:
    with local(index={"dims": 26, "embed": letters}) as store:
        store.put(USER, "k", {"text": "ab"})
    other = local(index={"dims": 26, "embed": letters_later})
    with pytest.raises(retain.ModelMismatchError):
        other.search(USER, query="ab")


def test_a_service_has_a_model_of_its_own() -> None:
    with pytest.raises(retain.InvalidInputError, match="a service embeds with its own model"):
        RetainStore(base_url="http://127.0.0.1:1", index={"dims": 26, "embed": letters})
