"""Items that others have stored, edited or tagged by another way in."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.store.base import PutOp

import retain
from retain_integrations.langgraph import RetainStore

USER = ("users", "u1")


def test_a_memory_of_another_way_in_is_an_item(store: RetainStore, memory: retain.SyncMemory, place: str) -> None:
    key = memory.store("Mara is a vegetarian", namespace=place, tags=["diet"]).memory.id

    item = store.get(USER, key)

    assert item is not None and item.value == {"content": "Mara is a vegetarian"}
    assert [(found.key, found.value) for found in store.search(USER, query="vegetarian")] == [(key, item.value)]
    assert store.get(("users", "u2"), key) is None
    store.delete(("users", "u2"), key)
    assert store.get(USER, key) is not None
    store.delete(USER, key)
    assert store.get(USER, key) is None


def test_a_put_replaces_a_memory_of_another_way_in(
    store: RetainStore, memory: retain.SyncMemory, place: str, where: dict[str, Any]
) -> None:
    key = memory.store("Mara is a vegetarian", namespace=place, tags=["diet"], agent_id="cook").memory.id
    other = memory.store("Mara is tall", namespace=f"{where['namespace']}/users/u2").memory.id

    store.batch([PutOp(USER, key, {"content": "Mara is a vegan"}), PutOp(USER, other, {"content": "small"})])

    item = store.get(USER, key)
    assert item is not None and item.value == {"content": "Mara is a vegan"}
    assert [found.value for found in store.search(USER, query="vegetarian") if found.key == key] == [item.value]
    kept = memory.list(retain.Filter(namespace=place)).memories
    assert {one.content: one.tags for one in kept} == {"Mara is a vegan": ("diet",), "small": ()}
    assert memory.get(other).content == "Mara is tall"
    store.delete(USER, key)
    store.delete(USER, other)
    assert memory.list(retain.Filter(namespace=place)).total == 0
    assert store.get(("users", "u2"), other) is not None


def test_a_memory_that_was_put_away_does_not_come_back_beside_a_put(
    store: RetainStore, memory: retain.SyncMemory, place: str
) -> None:
    key = memory.store("old", namespace=place).memory.id
    memory.update(key, retain.MemoryPatch(archived=True))
    store.put(USER, key, {"content": "new"})
    with pytest.raises(retain.NotFoundError):
        memory.get(key)


@pytest.mark.parametrize(
    ("value", "index", "shown"),
    [
        ({"text": "old"}, None, {"text": "new"}),
        ({"note": {"body": ["old"]}, "none": None}, None, {"note": {"body": ["new"]}, "none": None}),
        ({"text": "old", "by": "Mara"}, ["text"], {"text": "new", "by": "Mara"}),
        ({"text": "old", "by": "Mara"}, None, {"content": "new"}),
        ({"text": "old", "by": "old"}, ["text"], {"content": "new"}),
        ({"n": 5}, None, {"content": "new"}),
    ],
)
def test_text_that_others_have_edited_is_shown(
    value: Any, index: Any, shown: Any, store: RetainStore, memory: retain.SyncMemory, place: str
) -> None:
    store.put(USER, "k", value, index=index)
    put = store.get(USER, "k")
    assert put is not None and put.value == value

    edited = memory.update(retain.id_of(place, "k"), retain.MemoryPatch(content="new"))

    item = store.get(USER, "k")
    assert item is not None and item.value == shown
    assert item.updated_at == edited.updated_at > put.updated_at
    assert [found.value for found in store.search(USER, query="new")] == [shown]
    store.put(USER, "k", value, index=index)
    assert store.search(USER)[0].value == value


def test_tags_of_others_survive_a_put(store: RetainStore, memory: retain.SyncMemory, place: str) -> None:
    store.put(USER, "k", {"text": "x"})
    id_ = retain.id_of(place, "k")
    memory.update(id_, retain.MemoryPatch(tags=["reviewed"]))

    store.put(USER, "k", {"text": "y"})

    assert memory.get(id_).tags == ("reviewed",)
    assert memory.get(id_).content == "y"


def test_tags_given_just_now_survive_a_put(
    store: RetainStore, memory: retain.SyncMemory, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = retain.id_of(place, "k")
    store.put(USER, "k", {"text": "x"})
    memory.update(id_, retain.MemoryPatch(tags=["a"]))
    read = RetainStore._stored

    def read_and_be_late(self: RetainStore, *arguments: Any) -> Any:
        stored = read(self, *arguments)
        if (tags := memory.get(id_).tags) != ("a", "b"):
            memory.update(id_, retain.MemoryPatch(tags=[*tags, "b"]))
        return stored

    monkeypatch.setattr(RetainStore, "_stored", read_and_be_late)
    store.batch([PutOp(USER, "k", {"text": "y"}), PutOp(USER, "new", {"text": "z"})])

    assert (memory.get(id_).tags, memory.get(id_).content) == (("a", "b"), "y")
    assert store.get(USER, "new") is not None


def test_a_put_that_is_always_late_says_so_and_writes_nothing(
    store: RetainStore, memory: retain.SyncMemory, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = retain.id_of(place, "k")
    store.put(USER, "k", {"text": "x"})
    memory.update(id_, retain.MemoryPatch(tags=["0"]))
    read = RetainStore._stored

    def read_and_be_late(self: RetainStore, *arguments: Any) -> Any:
        stored = read(self, *arguments)
        memory.update(id_, retain.MemoryPatch(tags=[str(int(stored[id_].tags[0]) + 1)]))
        return stored

    monkeypatch.setattr(RetainStore, "_stored", read_and_be_late)
    with pytest.raises(retain.ConflictError):
        store.batch([PutOp(USER, "new", {"text": "y"}), PutOp(USER, "k", {"text": "y"})])

    assert [item.value for item in store.search(USER)] == [{"text": "x"}]
    assert memory.get(id_).tags == ("5",)


def test_many_write_the_same_tagged_item(store: RetainStore, memory: retain.SyncMemory, place: str) -> None:
    id_ = retain.id_of(place, "k")
    store.put(USER, "k", {"n": 0})
    memory.update(id_, retain.MemoryPatch(tags=["kept"]))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: store.put(USER, "k", {"n": n}), range(3)))
    assert memory.get(id_).tags == ("kept",)
