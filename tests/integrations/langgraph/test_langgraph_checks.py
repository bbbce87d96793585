"""What can't be is refused by name, before anything is read or written."""

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import retain
from retain_integrations.langgraph import RetainStore

USER = ("users", "u1")
MakeStore = Callable[..., RetainStore]
NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("ops", 5),
        ("ops", (USER, "k")),
        ("key", GetOp(USER, 5)),  # type: ignore[arg-type]
        ("key", GetOp(USER, "")),
        ("limit", SearchOp(USER, limit=-1)),
        ("limit", SearchOp(USER, limit="x")),  # type: ignore[arg-type]
        ("limit", SearchOp(USER, limit=True)),
        ("offset", SearchOp(USER, offset=-1)),
        ("offset", SearchOp(USER, offset=1.5)),  # type: ignore[arg-type]
        ("query", SearchOp(USER, query=5)),  # type: ignore[arg-type]
        ("filter", SearchOp(USER, filter=[1])),  # type: ignore[arg-type]
        ("filter", SearchOp(USER, filter={1: 1})),  # type: ignore[dict-item]
        ("filter", SearchOp(USER, filter={"x": {1: 1}})),
        ("filter", SearchOp(USER, filter={"x": {"$gt": 1, 2: 1}})),
        ("filter", SearchOp(USER, filter={"x": {"$in": 5}})),
        ("filter", SearchOp(USER, filter={"x": object()})),
        ("limit", ListNamespacesOp(limit=-1)),
        ("offset", ListNamespacesOp(offset=-1)),
        ("max_depth", ListNamespacesOp(max_depth=-1)),
        ("max_depth", ListNamespacesOp(max_depth="x")),  # type: ignore[arg-type]
        ("match_conditions", ListNamespacesOp(match_conditions=5)),  # type: ignore[arg-type]
        ("match_conditions", ListNamespacesOp(match_conditions=("a",))),  # type: ignore[arg-type]
        ("match_type", ListNamespacesOp(match_conditions=(MatchCondition("infix", ("a",)),))),  # type: ignore[arg-type]
        ("value", PutOp(USER, "k", [1])),  # type: ignore[arg-type]
        ("value", PutOp(USER, "k", {"n": object()})),
        *[("index", PutOp(USER, "k", {"n": 1}, index=index)) for index in (True, 0, "text", [1])],  # type: ignore[arg-type]
        *[("ttl", PutOp(USER, "k", {"n": 1}, ttl=ttl)) for ttl in (0, -1, NAN, INFINITY, "5", True)],  # type: ignore[arg-type]
    ],
)
def test_the_error_names_the_field(field: str, bad: Any, local: MakeStore) -> None:
    store = local()
    with pytest.raises(retain.InvalidInputError, match=r".+") as caught:
        store.batch([PutOp(USER, "new", {"n": 1}), bad])
    assert caught.value.field == field
    assert store.search(()) == []


@pytest.mark.parametrize("bad", ["users", 5, None])
def test_a_namespace_is_a_tuple(bad: Any, local: MakeStore) -> None:
    only = MatchCondition("prefix", bad)
    for op in (GetOp(bad, "k"), PutOp(bad, "k", {}), SearchOp(bad), ListNamespacesOp(match_conditions=(only,))):
        with pytest.raises(InvalidNamespaceError):
            local().batch([op])


@pytest.mark.parametrize(
    "wanted", [{"x": {}}, {"x": {"y": None}}, {"x": {"y": {}}}, {"x": {"y": 1}}, {"x": {"y": {"$ne": 1}}}, {"x": 1}]
)
def test_a_nested_filter_wants_an_object_as_upstream_does(wanted: dict[str, Any], local: MakeStore) -> None:
    values = [
        {},
        {"x": None},
        {"x": 1},
        {"x": {}},
        {"x": {"y": 1}},
        {"x": {"y": {}}},
        {"x": {"y": {"z": 1}}},
        {"x": []},
    ]
    stores: list[Any] = [local(), InMemoryStore()]
    for store in stores:
        store.batch([PutOp(USER, str(place), value) for place, value in enumerate(values)])
    found, expected = (sorted(item.key for item in store.search(USER, filter=wanted)) for store in stores)
    assert found == expected


def test_a_nested_filter_by_a_path_and_beside_a_query(local: MakeStore) -> None:
    store = local()
    store.batch([PutOp(USER, f"flat {n}", {"text": "zebra", "a": {"b": n}}) for n in range(20)])
    store.put(USER, "deep", {"text": "something else", "a": {"b": {"c": 1}}})
    store.put(USER, "dotted", {"text": "and another", "a.b": {"c": 1}})
    for query in (None, "zebra"):
        found = store.search(USER, query=query, filter={"a.b": {}}, limit=3)
        assert sorted(item.key for item in found) == ["deep", "dotted"]
        assert [item.key for item in store.search(USER, query=query, filter={"a": {"b": {}}})] == ["deep"]


@pytest.mark.parametrize("text", ["\u200b", " \u2060", "\t", ""])
def test_a_text_without_anything_to_see_is_kept(text: str, local: MakeStore) -> None:
    store = local(index={"fields": ["title"]})
    for index in (None, ["t"], False):
        store.put(USER, "k", {"t": text}, index=index)  # type: ignore[arg-type]
        item = store.get(USER, "k")
        assert item is not None and item.value == {"t": text}
