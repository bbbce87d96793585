"""Items that live for a time. The clock is set by hand, except where a sweeper waits for it."""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.store.base import PutOp

import retain
from retain_integrations import _langgraph_mark, _langgraph_reader, langgraph
from retain_integrations._langgraph_sweeper import Sweeper
from retain_integrations.langgraph import RetainStore

USER = ("users", "u1")
MakeStore = Callable[..., RetainStore]


class Clock:
    """Seconds since 1970, that go on when they are told to."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    set_clock = Clock()
    for module in (langgraph, _langgraph_mark, _langgraph_reader):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=set_clock))
    return set_clock


@pytest.fixture
def left(memory: retain.SyncMemory, place: str, clock: Clock) -> Callable[[], float]:
    """Tells in how many minutes the item "k" expires."""
    id_ = retain.id_of(place, "k")
    return lambda: (memory.get(id_).metadata["langgraph"]["expires_at"] - clock()) / 60


def test_an_item_expires(make_store: MakeStore, clock: Clock) -> None:
    store = make_store(ttl={"omit_expired": True})
    store.put(USER, "short", {"text": "a parking ticket"}, ttl=5)
    store.put(USER, "long", {"text": "a passport"}, ttl=50)
    store.put(USER, "ever", {"text": "a name"})

    clock.now += 6 * 60

    assert store.get(USER, "short") is None
    assert sorted(item.key for item in store.search(USER)) == ["ever", "long"]
    assert sorted(item.key for item in store.search(USER, query="parking ticket")) == ["ever", "long"]
    assert [len(store.search(USER, query=query, limit=1)) for query in (None, "ticket")] == [1, 1]
    assert store.sweep_ttl() == 1
    clock.now += 60 * 60
    assert store.sweep_ttl() == 1
    assert [item.key for item in store.search(USER)] == ["ever"]


def test_what_has_expired_is_seen_until_it_is_swept(store: RetainStore, clock: Clock) -> None:
    store.put(USER, "k", {"text": "x"}, ttl=1)
    clock.now += 120
    assert store.get(USER, "k") is not None
    assert store.sweep_ttl() == 1
    assert store.get(USER, "k") is None
    assert store.list_namespaces() == []


def test_a_default_and_no_end(make_store: MakeStore, clock: Clock) -> None:
    store = make_store(ttl={"default_ttl": 10})
    store.put(USER, "default", {"n": 1})
    store.put(USER, "never", {"n": 1}, ttl=None)
    store.put(USER, "own", {"n": 1}, ttl=30)

    clock.now += 11 * 60

    assert store.sweep_ttl() == 1
    assert sorted(item.key for item in store.search(USER)) == ["never", "own"]


@pytest.mark.parametrize("read", ["get", "search", "query"])
def test_a_read_puts_the_end_off(read: str, make_store: MakeStore, clock: Clock, left: Callable[[], float]) -> None:
    store = make_store(ttl={"refresh_on_read": True, "default_ttl": 10})
    store.put(USER, "k", {"text": "a passport"})
    before = store.get(USER, "k", refresh_ttl=False)

    def use(refresh: bool | None) -> None:
        if read == "get":
            store.get(USER, "k", refresh_ttl=refresh)
        else:
            store.search(USER, query="passport" if read == "query" else None, refresh_ttl=refresh)

    clock.now += 6 * 60
    use(False)
    assert left() == pytest.approx(4)
    use(None)
    assert left() == pytest.approx(10)
    clock.now += 6 * 60
    assert store.sweep_ttl() == 0
    after = store.get(USER, "k", refresh_ttl=False)
    assert before is not None and after is not None
    assert (after.value, after.created_at) == (before.value, before.created_at)


@pytest.mark.parametrize(
    ("ttl", "refresh", "minutes"),
    [
        (None, None, 4),
        (None, True, 10),
        ({"default_ttl": 1}, None, 4),
        ({"default_ttl": 1}, True, 10),
        ({"refresh_on_read": True}, False, 4),
        ({"refresh_on_read": False}, None, 4),
        ({"refresh_on_read": False}, True, 10),
    ],
)
def test_a_read_says_whether_it_puts_the_end_off(
    ttl: Any, refresh: bool | None, minutes: float, make_store: MakeStore, clock: Clock, left: Callable[[], float]
) -> None:
    store = make_store(ttl=ttl)
    store.put(USER, "k", {"text": "x"}, ttl=10)
    clock.now += 6 * 60
    store.get(USER, "k", refresh_ttl=refresh)
    assert left() == pytest.approx(minutes)


def test_a_read_is_no_update(store: RetainStore, memory: retain.SyncMemory, clock: Clock, place: str) -> None:
    def updated_at() -> datetime:
        item = store.get(USER, "k", refresh_ttl=True)
        assert item is not None
        clock.now += 60
        return item.updated_at

    store.put(USER, "k", {"text": "x"}, ttl=10)
    put = memory.get(retain.id_of(place, "k")).updated_at
    clock.now += 60
    assert [updated_at() for _ in range(3)] == [put] * 3
    assert memory.get(retain.id_of(place, "k")).updated_at > put

    edited = memory.update(retain.id_of(place, "k"), retain.MemoryPatch(content="y")).updated_at
    assert [updated_at() for _ in range(3)] == [edited] * 3
    item = store.get(USER, "k")
    assert item is not None and item.value == {"text": "y"}

    store.put(USER, "k", {"text": "z"}, ttl=10)
    assert updated_at() > edited > put


def test_a_read_by_a_mark_of_others(store: RetainStore, memory: retain.SyncMemory, place: str) -> None:
    store.put(USER, "k", {"text": "x"}, ttl=10)
    mark = {"value": 5, "ttl": "long", "expires_at": "soon", "updated_at": "now"}
    memory.update(retain.id_of(place, "k"), retain.MemoryPatch(metadata={"langgraph": mark}))
    item = store.get(USER, "k", refresh_ttl=True)
    assert item is not None and item.value == {"content": "x"}


def test_what_lives_is_not_hidden_by_what_has_expired(local: MakeStore, clock: Clock) -> None:
    index = {"dims": 2, "embed": lambda texts: [[1.0, float(text != "asked")] for text in texts], "fields": ["text"]}
    store = local(ttl={"omit_expired": True, "refresh_on_read": False}, index=index)
    store.batch([PutOp(USER, f"ever {place}", {"text": "live"}) for place in range(2)])
    store.batch([PutOp(USER, f"long {place}", {"text": "live"}, ttl=90) for place in range(3)])
    for some in (600, 600):
        store.batch([PutOp(("gone", str(some)), str(place), {"text": "asked"}, ttl=1) for place in range(some)])
    store.batch([PutOp(USER, f"gone {place}", {"text": "asked"}, index=False, ttl=1) for place in range(1_000)])
    clock.now += 120

    live = ["ever 0", "ever 1", "long 0", "long 1", "long 2"]
    for query in (None, "asked"):
        found = store.search((), query=query)
        assert sorted(item.key for item in found) == live
        assert all((item.score is None) == (query is None) for item in found)
        pages = [store.search((), query=query, limit=2, offset=offset) for offset in (0, 2, 4)]
        assert [item.key for page in pages for item in page] == [item.key for item in found]
    assert store.list_namespaces() == [USER]
    assert local().list_namespaces(limit=9) == [("gone", "600"), USER]


def test_a_put_begins_anew(store: RetainStore, clock: Clock) -> None:
    store.put(USER, "k", {"n": 1}, ttl=1)
    store.put(USER, "k", {"n": 2})
    clock.now += 120
    assert store.sweep_ttl() == 0


def test_a_sweep_stays_below_its_root(make_store: MakeStore, where: dict[str, Any], clock: Clock) -> None:
    one, two = (make_store(namespace=f"{where['namespace']}/{name}") for name in ("1", "10"))
    for store in (one, two):
        store.put(USER, "k", {"n": 1}, ttl=1)
    clock.now += 120
    assert one.sweep_ttl() == 1
    assert two.get(USER, "k") is not None


def test_the_sweeper_removes_and_stops(make_store: MakeStore) -> None:
    store = make_store(ttl={"default_ttl": 0.001})
    store.put(USER, "k", {"n": 1})

    done = store.start_ttl_sweeper(sweep_interval_minutes=0.001)

    assert store.start_ttl_sweeper() is done
    end = time.monotonic() + 10
    while store.get(USER, "k") is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert store.get(USER, "k") is None
    assert not done.done()
    assert store.stop_ttl_sweeper(5)
    assert done.done()
    assert store.stop_ttl_sweeper(5)


def test_close_ends_the_sweeper(store: RetainStore) -> None:
    done = store.start_ttl_sweeper(10)
    store.close()
    assert done.done()


def test_a_sweep_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    store = RetainStore(base_url="http://127.0.0.1:9")
    done = store.start_ttl_sweeper(0.0005)
    end = time.monotonic() + 20
    while not caplog.records and time.monotonic() < end:
        time.sleep(0.02)
    assert not done.done()
    store.close()
    assert "expired items could not be removed: no service answers" in caplog.text


def test_a_sweeper_that_is_cancelled_stops(store: RetainStore) -> None:
    before = set(threading.enumerate())
    done = store.start_ttl_sweeper(10)
    (thread,) = (one for one in set(threading.enumerate()) - before if one.name == "retain-ttl-sweeper")
    assert done.cancel()
    thread.join(5)
    assert not thread.is_alive()
    assert store.start_ttl_sweeper(10) is not done
    assert store.stop_ttl_sweeper(5)


def test_an_odd_error_ends_the_sweeper_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    sweeper = Sweeper(lambda: 1 // 0, 0.001)
    sweeper.start()
    with pytest.raises(ZeroDivisionError):
        sweeper.done.result(10)
    assert sweeper.stop(5)
    assert "expired items are not removed any more" in caplog.text


@pytest.mark.parametrize("minutes", [-1, float("nan"), "5"])
def test_a_sweeper_needs_minutes(minutes: Any, store: RetainStore) -> None:
    with pytest.raises(retain.InvalidInputError, match="sweep_interval_minutes"):
        store.start_ttl_sweeper(minutes)
