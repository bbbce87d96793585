"""`RetainStore` as a `BaseStore`: what is put is got, listed, found and gone as LangGraph says."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import retain
from retain_integrations.langgraph import RetainStore

USER = ("users", "u1")


def keys(items: list[SearchItem]) -> list[str]:
    return sorted(item.key for item in items)


def test_put_get_search_list_delete(store: RetainStore) -> None:
    store.put(USER, "diet", {"text": "Mara is a vegetarian", "age": 7})

    item = store.get(USER, "diet")

    assert item is not None
    assert (item.namespace, item.key, item.value) == (USER, "diet", {"text": "Mara is a vegetarian", "age": 7})
    assert [found.key for found in store.search(("users",), query="what does Mara eat?")] == ["diet"]
    assert store.list_namespaces() == [USER]
    store.delete(USER, "diet")
    assert store.get(USER, "diet") is None
    assert store.search(()) == []
    store.delete(USER, "diet")


async def test_the_same_for_async_code(store: RetainStore) -> None:
    await asyncio.gather(*(store.aput(USER, f"k{place}", {"n": place}) for place in range(8)))

    item = await store.aget(USER, "k3")

    assert item is not None and item.value == {"n": 3}
    assert keys(await store.asearch(("users",), filter={"n": {"$gte": 6}})) == ["k6", "k7"]
    assert await store.alist_namespaces(prefix=("users",)) == [USER]
    await store.adelete(USER, "k3")
    assert await store.aget(USER, "k3") is None


async def test_sync_calls_beside_a_running_loop(store: RetainStore) -> None:
    store.put(USER, "k", {"n": 1})
    assert store.get(USER, "k") is not None
    async with store:
        assert len(await store.asearch(USER)) == 1


def test_a_prefix_is_of_whole_labels(store: RetainStore) -> None:  # C205
    for namespace, key in ((("tenant", "acme"), "n1"), (("tenant", "acme", "x"), "n2"), (("tenant", "acme-corp"), "s")):
        store.put(namespace, key, {"text": key})

    assert keys(store.search(("tenant", "acme"))) == ["n1", "n2"]
    assert keys(store.search(("tenant", "acme"), query="n1")) == ["n1", "n2"]
    assert keys(store.search(())) == ["n1", "n2", "s"]
    assert store.search(("Tenant",)) == []


@pytest.mark.parametrize(
    "label", ["%", "a%", "_", "*", "a*", "a/b", "..", " ", "ü", "u\u0308", "日本", "a\tb", "%2F", "?"]
)
def test_labels_are_literal(label: str, store: RetainStore) -> None:  # C209
    if "." in label:
        with pytest.raises(InvalidNamespaceError):
            store.put((label,), "k", {"text": "x"})
        return
    store.put((label, "below"), "k", {"text": "x"})
    store.put(("another", "below"), "k", {"text": "x"})

    assert [item.namespace for item in store.search((label,))] == [(label, "below")]
    assert store.list_namespaces() == sorted([(label, "below"), ("another", "below")])
    assert store.get((label,), "k") is None
    item = store.get((label, "below"), "k")
    assert item is not None and item.namespace == (label, "below")


@pytest.mark.parametrize("namespace", [("rag", 1), ("",), ("a.b",), (), ("a\0",), ("a", "")])
def test_an_illegal_namespace(namespace: Any, store: RetainStore) -> None:  # C209
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"text": "x"})
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("fine",), "k", {"text": "x"}), PutOp(namespace, "k", {"text": "x"})])
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph", "x"), "k", {"text": "x"})
    assert store.search(()) == []


def test_the_reference_and_ours_answer_alike(store: RetainStore) -> None:  # C210
    def outline(other: Any) -> list[Any]:
        other.put(USER, "k", {"n": 1})
        first = other.batch(
            [
                PutOp(USER, "k", {"n": 2}),
                GetOp(USER, "k"),
                PutOp(USER, "k", {"n": 3}),
                PutOp(("other",), "K", {"n": 4}),
                SearchOp(("users",)),
                GetOp(USER, "K"),
                ListNamespacesOp(),
            ]
        )
        second = other.batch([GetOp(USER, "k"), GetOp(("other",), "K"), GetOp(("other",), "k")])
        other.put(USER, "k", None)
        return [_plain(one) for one in (*first, *second, other.get(USER, "k"), other.get(("nowhere",), "k"))]

    assert outline(store) == outline(InMemoryStore())


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return [_plain(one) for one in result]
    return (result.namespace, result.key, result.value) if hasattr(result, "value") else result


def test_namespaces_are_cut_and_then_counted(store: RetainStore) -> None:  # C211
    for namespace in (("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("x",)):
        store.put(namespace, "k", {"text": "x"})

    assert store.list_namespaces(max_depth=2) == [("a", "b"), ("a", "e"), ("x",)]
    assert store.list_namespaces(prefix=("a",), suffix=("d",)) == [("a", "b", "d")]
    assert store.list_namespaces(max_depth=2, limit=1, offset=1) == [("a", "e")]
    assert store.list_namespaces(prefix=("*", "b")) == [("a", "b", "c"), ("a", "b", "d")]
    only = ListNamespacesOp(match_conditions=(MatchCondition("suffix", ("*", "d")),))
    assert store.batch([only]) == [[("a", "b", "d")]]


def test_no_ghost_namespaces(store: RetainStore) -> None:
    store.get(("nowhere",), "k")
    store.search(("nowhere",))
    store.put(("gone", "x"), "k", {"text": "x"})
    store.delete(("gone", "x"), "k")
    assert store.list_namespaces() == []


def test_an_update_keeps_created_at(store: RetainStore) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    store.put(USER, "k", {"n": 1})
    first = store.get(USER, "k")
    store.put(USER, "k", {"n": 2})
    second = store.get(USER, "k")

    assert first is not None and second is not None
    assert first.created_at.tzinfo is not None and first.updated_at.tzinfo is not None
    assert before <= first.created_at == second.created_at
    assert second.updated_at > first.updated_at
    assert second.value == {"n": 2}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"color": "red"}, ["a"]),
        ({"size": {"$gt": 3}}, ["b"]),
        ({"size": {"$gte": 3, "$lt": 9}}, ["a"]),
        ({"color": {"$ne": "red"}}, ["b", "c"]),
        ({"color": {"$gt": "green"}}, ["a"]),
        ({"color": {"$in": ["blue", "red"]}}, ["a", "b"]),
        ({"owner": {"name": "Mara"}}, ["a"]),
        ({"owner": {"name": "Mara", "age": {"$gte": 8}}}, []),
        ({"owner.name": "Mara"}, ["a"]),
        ({"owner.age": {"$lte": 7}}, ["a"]),
        ({"missing": {"$gt": 3}}, []),
        ({"missing": None}, ["a", "b", "c"]),
        ({"missing.deep": 1}, []),
        ({"color": {"$lt": 5}}, []),
        ({"tags": ["x", "y"]}, ["c"]),
        ({"flag": True}, ["c"]),
        ({"color": "red", "size": 9}, []),
        ({"color": "' OR 1=1 --"}, []),
    ],
)
def test_filters(wanted: dict[str, Any], found: list[str], store: RetainStore) -> None:
    put = [
        PutOp(USER, "a", {"color": "red", "size": 3, "owner": {"name": "Mara", "age": 7}}),
        PutOp(USER, "b", {"color": "blue", "size": 9, "owner": "nobody"}),
        PutOp(USER, "c", {"tags": ["x", "y"], "flag": True}),
    ]
    store.batch(put)

    assert keys(store.search(USER, filter=wanted)) == found
    assert keys(store.search(USER, query="red or blue", filter=wanted)) == found


@pytest.mark.parametrize("wanted", [{"size": {"$near": 3}}, {"size": {"$gt": 1, "$or": []}}])
def test_an_unknown_operator_is_an_error(wanted: dict[str, Any], store: RetainStore) -> None:
    with pytest.raises(ValueError, match="Unsupported operator"):
        store.search(USER, filter=wanted)


def test_pages_do_not_overlap(store: RetainStore) -> None:
    store.batch([PutOp(USER, f"k{place}", {"text": f"note {place}"}) for place in range(7)])

    for query in (None, "", "note"):
        pages = [store.search(USER, query=query, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        assert len({item.key for page in pages for item in page}) == 7
    assert store.search(USER, limit=0) == []


def test_a_query_gives_scores(store: RetainStore) -> None:
    store.put(USER, "diet", {"text": "Mara is a vegetarian"})
    store.put(USER, "bike", {"text": "The bicycle has a flat tyre"})

    found = store.search(USER, query="vegetarian meals")

    assert [item.key for item in found] == ["diet", "bike"]
    scores = [item.score for item in found]
    assert scores[0] is not None and 0 < scores[0] <= 1
    assert scores == sorted(scores, key=lambda score: score or 0.0, reverse=True)
    assert [item.score for item in store.search(USER)] == [None, None]


def _scored(items: list[SearchItem]) -> list[str]:
    return [item.key for item in items if item.score is not None]


def test_old_text_is_not_found(store: RetainStore) -> None:  # C207
    store.put(USER, "k", {"text": "zebra"})
    store.put(USER, "k", {"text": "dogs"}, index=False)
    assert _scored(store.search(USER, query="zebra")) == []
    assert _scored(store.search(USER, query="dogs")) == []
    store.put(USER, "k", {"text": "zebra"})
    store.delete(USER, "k")
    store.put(USER, "k", {"text": "dogs"})
    (hit,) = store.search(USER, query="zebra")
    store.put(USER, "k", {"text": "zebra"})
    (fresh,) = store.search(USER, query="zebra")
    assert fresh.score is not None and fresh.score > (hit.score or 0.0)


def test_which_fields_are_searched(make_store: Callable[..., RetainStore]) -> None:
    store = make_store(index={"fields": ["title"]})
    store.put(USER, "k", {"title": "giraffes", "note": "volcano"})
    assert _scored(store.search(USER, query="giraffes")) == ["k"]
    store.put(USER, "k", {"title": "giraffes", "notes": [{"t": "volcano"}]}, index=["notes[*].t"])
    assert _scored(store.search(USER, query="volcano")) == ["k"]
    store.put(USER, "k", {"note": "no title"})
    assert _scored(store.search(USER, query="giraffes")) == []
    assert [item.value for item in store.search(USER)] == [{"note": "no title"}]


@pytest.mark.parametrize(
    "bad",
    [
        PutOp(USER, "bad", {"n": object()}),
        PutOp(USER, "", {"n": 1}),
        PutOp(USER, "bad", ["no", "mapping"]),  # type: ignore[arg-type]
        PutOp(("a.b",), "bad", {"n": 1}),
        SearchOp(USER, filter={"n": {"$near": 1}}),
        PutOp(USER, "bad", {"n": "x" * 300_000}),
    ],
)
def test_a_batch_that_fails_writes_nothing(bad: Any, store: RetainStore) -> None:
    store.put(USER, "kept", {"n": 1})
    with pytest.raises(ValueError, match=r".+"):
        store.batch([PutOp(USER, "new", {"n": 1}), PutOp(USER, "kept", None), bad])
    assert [(item.key, item.value) for item in store.search(())] == [("kept", {"n": 1})]


def test_large_batches(store: RetainStore) -> None:
    puts = [PutOp(USER, f"k{place}", {"n": place}, index=False) for place in range(1_001)]
    with pytest.raises(retain.TooLargeError, match="up to 1,000"):
        store.batch(puts)
    for _ in range(2):
        store.batch(puts[1:])
    assert len(store.search(USER, limit=2_000)) == 1_000


def test_two_stores_on_one_database_and_threads(make_store: Callable[..., RetainStore]) -> None:
    stores = [make_store(), make_store()]

    def work(place: int) -> None:
        for step in range(5):
            stores[place % 2].put(USER, f"{place}-{step}", {"n": step})
            stores[place % 2].put(USER, "shared", {"by": place})
            assert stores[place % 2].get(USER, f"{place}-{step}") is not None

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    for store in stores:
        assert len(store.search(USER, limit=100)) == 21


def test_values_come_back_as_they_were(store: RetainStore) -> None:
    value = {"text": "", "none": None, "deep": {"list": [1, 2.5, {"x": True}]}, "ü": "日本 🦓", "a.b": 1, "big": 2**60}
    store.put(USER, "k", value)
    store.put(USER, "empty", {})
    store.put(USER, "same", value)
    item, empty, same = (store.get(USER, key) for key in ("k", "empty", "same"))
    assert item is not None and item.value == value
    assert empty is not None and empty.value == {}
    assert same is not None and same.value == value


def test_what_others_have_put_away_is_gone_until_it_is_put_again(
    store: RetainStore, memory: retain.SyncMemory, where: dict[str, Any]
) -> None:
    store.put(USER, "k", {"n": 1})
    memory.update(retain.id_of(where["namespace"] + "/users/u1", "k"), retain.MemoryPatch(archived=True))
    assert store.get(USER, "k") is None
    assert store.list_namespaces() == []
    store.put(USER, "k", {"n": 2})
    assert [item.value for item in store.search(USER)] == [{"n": 2}]


def test_a_query_of_any_text(store: RetainStore) -> None:
    store.put(USER, "k", {"text": "zebra"})
    for query in (" ", "\0", "half \ud83d", "?", '"', "zebra " * 5_000, "zebra OR (", "NEAR("):
        assert [item.key for item in store.search(USER, query=query)] == ["k"]


def test_a_closed_store_opens_again(store: RetainStore) -> None:
    store.put(USER, "k", {"n": 1})
    store.close()
    store.close()
    assert store.get(USER, "k") is not None


def test_one_root_does_not_see_another(make_store: Callable[..., RetainStore], where: dict[str, Any]) -> None:
    one, two = make_store(namespace=where["namespace"] + "/1"), make_store(namespace=where["namespace"] + "/10")
    two.put(USER, "k", {"n": 1})
    assert one.search(()) == []
    assert one.list_namespaces() == []
    assert make_store().list_namespaces() == [("10", *USER)]


def test_a_place_is_given_once() -> None:
    with pytest.raises(retain.InvalidInputError, match="not both"):
        RetainStore("a.db", base_url="http://127.0.0.1:1")
