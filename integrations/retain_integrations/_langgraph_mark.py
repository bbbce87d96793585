"""What only LangGraph knows of an item: a mark in the memory's metadata with its value, and when it ends."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, cast

from langchain_core.runnables.config import var_child_runnable_config

import retain
from retain_integrations._question import digest_of

MARK: Final = "langgraph"
"""The key of the metadata that holds it: value, text (a digest), ttl, expires_at, updated_at, thread_id."""
_LEAST_STEP: Final = 0.01
"""A read that would put off the end by less than this share of the time to live leaves it as it is."""


def new_mark(value: Mapping[str, Any], text: str, ttl: float | None, /) -> dict[str, Any]:
    """Return the mark of an item that is put now: its plain value, the content of its memory, its minutes to live."""
    mark: dict[str, Any] = {"value": value, "text": digest_of(text)}
    if ttl is not None:
        mark |= {"ttl": ttl, "expires_at": time.time() + ttl * 60}
    if thread_id := _thread_id():
        mark["thread_id"] = thread_id
    return mark


def _thread_id() -> str | None:
    """Return the thread of the graph that runs here, if one does."""
    config = var_child_runnable_config.get()
    thread_id = None if config is None else config.get("configurable", {}).get("thread_id")
    return None if thread_id is None else str(thread_id)


def _mark(memory: retain.Memory) -> Mapping[str, Any]:
    mark = memory.metadata.get(MARK)
    return cast("Mapping[str, Any]", mark) if isinstance(mark, Mapping) else {}


def value_of(memory: retain.Memory, /) -> dict[str, Any]:
    """Return the item's value: as it was put, with the text as others have edited it, or, of theirs, the content."""
    mark = _mark(memory)
    value = mark.get("value")
    if memory.key is None or not isinstance(value, Mapping):
        return {"content": memory.content}
    put = dict(cast("Mapping[str, Any]", value))
    if not _is_edited(memory):
        return put
    old = [text for text in _texts(put) if digest_of(text) == mark["text"]]
    return _replaced(put, old[0], memory.content) if len(old) == 1 else {"content": memory.content}


def _is_edited(memory: retain.Memory) -> bool:
    """Whether the content is another than was put."""
    return _mark(memory).get("text") not in (None, digest_of(memory.content))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner = cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        for item in inner:
            yield from _texts(item)


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return `value` with the text `new` for `old`."""
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in cast("list[object]", value)]
    return new if value == old else value


def updated_at(memory: retain.Memory, /) -> datetime:
    """Return when the item was put or edited: reads that put off its end change the memory only."""
    at = _mark(memory).get("updated_at")
    if isinstance(at, str) and not _is_edited(memory):
        with suppress(ValueError):  # written by somebody else
            return datetime.fromisoformat(at)
    return memory.updated_at


def expires_at(memory: retain.Memory, /) -> float:
    """Return when an item expires, in seconds since 1970; infinity for never."""
    at = _mark(memory).get("expires_at")
    return at if isinstance(at, int | float) else float("inf")


def refreshed(memory: retain.Memory, /) -> Mapping[str, Any] | None:
    """Return the metadata of an item that is read now; None where nothing has to change."""
    ttl = _mark(memory).get("ttl")
    if not isinstance(ttl, int | float):
        return None
    at = time.time() + ttl * 60
    if at - expires_at(memory) < ttl * 60 * _LEAST_STEP:
        return None
    now = {"value": value_of(memory), "text": digest_of(memory.content), "expires_at": at}
    return {**memory.metadata, MARK: {**_mark(memory), **now, "updated_at": updated_at(memory).isoformat()}}
