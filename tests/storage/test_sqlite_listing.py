"""Pages and totals are the same whichever way they are found, and follow every change."""

from dataclasses import replace
from datetime import timedelta

import pytest

from retain.domain.memory import EVERYTHING, STATES, Filter, Page
from retain.storage.sqlite import SqliteStore, listing
from tests.conformance.making import MODEL, START, edit, entry
from tests.storage.conftest import Open

_HIDDEN = frozenset(("superseded", "archived"))
_FILTERS = {
    "all": Filter(),
    "every state": EVERYTHING,
    "hidden": Filter(states=_HIDDEN),
    "archived": Filter(states=frozenset(("archived",))),
    "one namespace": Filter(namespace="/b"),
    "namespaces": Filter(namespace="/a"),
    "no namespace": Filter(namespace="/absent"),
    "rare tag": Filter(tags=("rare",)),
    "frequent tag": Filter(tags=("frequent",)),
    "absent tag": Filter(tags=("absent",)),
    "any tag": Filter(tags=("frequent", "third"), states=STATES),
    "all tags": Filter(tags=("frequent", "third"), tag_match="all"),
    "without a tag": Filter(exclude_tags=("third",)),
    "tag in a namespace": Filter(namespace="/b", tags=("third",)),
    "type": Filter(types=("decision",)),
    "agent": Filter(agent_id="r", types=("decision",)),
    "time": Filter(since=START - timedelta(days=1), until=START - timedelta(days=1) + timedelta(seconds=30)),
    "conversation": Filter(conversation_id="c", tags=("third",)),
    "metadata": Filter(metadata={"k": 1}),
}
_WAYS = ("", "INDEXED BY memory_newest", "INDEXED BY memory_place")


@pytest.fixture
async def filled(store: SqliteStore) -> SqliteStore:
    """Sixty memories; three at a time are of one instant."""
    await store.put(
        [
            entry(
                f"memory {number}",
                ["frequent", *["third"][: number % 3 == 0], *["rare"][: number == 31]],
                after=number // 3,
                occurred_at=START - timedelta(days=number % 2, seconds=-number),
                namespace=("/", "/a", "/a/x", "/b")[number % 4],
                type="decision" if number % 5 == 0 else "observation",
                agent_id="r" if number % 2 else None,
                conversation_id="c" if number % 10 == 0 else None,
                metadata={"k": number % 7},
                archived_at=START if number % 9 == 0 else None,
            )
            for number in range(60)
        ],
        model=MODEL,
    )
    return store


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("name", _FILTERS)
async def test_each_way_to_find_pages_finds_the_same(
    filled: SqliteStore, name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = _FILTERS[name]

    def index_to_walk(*_: object) -> str:
        return way

    monkeypatch.setattr(listing, "_index_to_walk", index_to_walk)
    ids = await filled.ids(where)
    found: list[str] = []
    page = Page(limit=7)
    while True:
        shown = await filled.list(where, page)
        found += [memory.id for memory in shown.memories]
        assert shown.total == len(ids)
        if shown.next_cursor is None:
            break
        page = replace(page, cursor=shown.next_cursor)
    assert found == ids


async def test_a_total_follows_each_change_of_this_and_of_another_process(store: SqliteStore, open_store: Open) -> None:
    other = await open_store()
    where = Filter(tags=("a",), metadata={})

    async def total() -> int:
        return (await store.list(where, Page())).total

    assert await total() == 0
    one, two = (done.memory.id for done in await store.put([entry("1", ["a"]), entry("2", ["a"])], model=MODEL))
    assert await total() == 2
    await other.update(one, edit(tags=["b"]))
    assert await total() == 1
    await other.retag(["b"], "a", Filter(), at=START)
    assert await total() == 2
    await store.update(two, edit(archived_at=START))
    assert await total() == 1
    await other.delete(Filter(ids=(one,)), at=START)
    assert await total() == 0


async def test_tags_count_only_what_is_not_hidden(store: SqliteStore) -> None:
    ids = [one.memory.id for one in await store.put([entry(str(n), ["a", f"t{n}"]) for n in range(4)], model=MODEL)]
    await store.update(ids[0], edit(archived_at=START))
    await store.update(ids[1], edit(superseded_by=ids[2]))
    assert [(tag.tag, tag.count) for tag in await store.tags(Filter())] == [("a", 2), ("t2", 1), ("t3", 1)]
    assert [tag.tag for tag in await store.tags(Filter(), minimum_use=2)] == ["a"]
    assert len(await store.tags(EVERYTHING)) == 5


async def test_counts_of_a_namespace_are_those_of_its_memories(filled: SqliteStore) -> None:
    for namespace in ("/", "/a", "/b", "/absent"):
        memories = await filled.get(await filled.ids(Filter(namespace=namespace)))
        stats = await filled.stats(Filter(namespace=namespace))
        assert stats.total == len(memories)
        assert stats.conversations == len({memory.conversation_id for memory in memories} - {None})
        assert stats.tags == len({tag for memory in memories for tag in memory.tags})
        assert {counted.type: counted.count for counted in stats.by_type} == {
            type_: sum(memory.type == type_ for memory in memories) for type_ in {memory.type for memory in memories}
        }
