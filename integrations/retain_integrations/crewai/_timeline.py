"""The oldest or newest of many memories by when they happened. Retain pages by when they were stored."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import retain

_PAGE = 1_000
_FEW = 5 * _PAGE
"""So many more than wanted are fetched rather than narrowing the time further."""
_MOMENT = timedelta(milliseconds=1)
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


def matching(memory: retain.SyncMemory, where: retain.Filter, /) -> Iterator[retain.Memory]:
    """Yield all that match, page by page."""
    cursor: str | None = None
    while True:
        listing = memory.list(where, retain.Page(limit=_PAGE, cursor=cursor))
        yield from listing.memories
        cursor = listing.next_cursor
        if cursor is None:
            return


def count(memory: retain.SyncMemory, where: retain.Filter, /) -> int:
    """Return how many match."""
    return memory.list(where, retain.Page(limit=1)).total


def among_newest(memory: retain.SyncMemory, where: retain.Filter, wanted: int, /) -> list[retain.Memory]:
    """Return the `wanted` memories that happened last, or all if there are fewer, and some others; in no order."""
    first = memory.list(where, retain.Page(limit=min(_PAGE, max(wanted, 1))))
    if first.next_cursor is None:
        return list(first.memories)
    # As a rule what was stored last also happened last, and then the first guess is right.
    since = _narrowed(memory, where, wanted, min(each.occurred_at for each in first.memories))
    return list(matching(memory, where if since is None else replace(where, since=since)))


def oldest(memory: retain.SyncMemory, where: retain.Filter, /) -> list[retain.Memory]:
    """Return memories among which is the one that happened first; none when nothing matches."""
    first = memory.list(where, retain.Page(limit=_PAGE))
    if first.next_cursor is None:
        return list(first.memories)
    low, high = _FIRST, min(each.occurred_at for each in first.memories) + _MOMENT
    while high - low > _MOMENT:
        middle = low + (high - low) / 2
        found = count(memory, replace(where, until=middle))
        low, high = (low, middle) if found else (middle, high)
        if 0 < found <= _FEW:
            break
    return list(matching(memory, replace(where, until=high)))


def _narrowed(memory: retain.SyncMemory, where: retain.Filter, wanted: int, guess: datetime) -> datetime | None:
    """Return a time since which at least `wanted` happened, and not many more; None when that says nothing."""
    low, high = None, _LAST
    middle = guess
    while True:
        found = count(memory, replace(where, since=middle))
        low, high = (middle, high) if found >= wanted else (low, middle)
        if wanted <= found <= wanted + _FEW or high - (low or _FIRST) <= _MOMENT:
            return low
        middle = (low or _FIRST) + (high - (low or _FIRST)) / 2
