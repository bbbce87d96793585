"""How a LangGraph item lies in Retain: its namespace, its text, its value, the conditions of a filter."""

import json
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from langgraph.store.base import Item, SearchItem, get_text_at_path

import retain

MARK: Final = "langgraph"
"""The key of a memory's metadata that holds what only LangGraph knows: value, ttl, expires_at, thread_id."""
OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin")


def path_of(root: str, namespace: Sequence[str], /) -> str:
    """Return Retain's namespace for LangGraph's: one segment a label, under `root`."""
    inner = "/".join(map(_segment, namespace))
    return f"{root.rstrip('/')}/{inner}" if inner else root


def namespace_of(root: str, path: str, /) -> tuple[str, ...]:
    """Return LangGraph's namespace for a path under `root`."""
    inner = path.removeprefix(root.rstrip("/")).strip("/")
    return tuple(unquote(segment) for segment in inner.split("/")) if inner else ()


def _segment(label: str) -> str:
    """Escape what a path can't hold as it is: separators, control characters, blanks alone, other Unicode forms."""
    if unicodedata.normalize("NFC", label) != label or not label.strip():
        return quote(label, safe="")
    return "".join(
        quote(character, safe="") if character in "/%" or unicodedata.category(character) == "Cc" else character
        for character in label
    )


def plain(value: object, /) -> Any:
    """Return `value` with every mapping as a dict and every tuple as a list, as JSON has them.

    Raises:
        InvalidInputError: something in it has no form in JSON.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise retain.InvalidInputError(
        f"value holds a {type(value).__name__}: only text, numbers, booleans, None, lists and mappings can be kept",
        field="value",
    )


def text_and_parts(
    value: Mapping[str, Any], index: bool | Sequence[str] | None, fields: Sequence[str] | None, /
) -> tuple[str, list[tuple[int, int]] | None]:
    """Return the text of a memory, and which parts of it search sees (None for all of it).

    Args:
        value: The item's value, plain.
        index: Of the put: False for nothing, paths, or None for what the store says.
        fields: The store's paths; None for the whole value, as text that people can read.
    """
    if index is False:
        return _readable(value), []
    paths = fields if index is None or index is True else index
    if paths is None:
        return _readable(value), None
    texts = list(dict.fromkeys(text for path in paths for text in get_text_at_path(value, path) if text.strip()))
    if not texts:
        return _readable(value), []
    parts: list[tuple[int, int]] = []
    for text in texts:
        start = parts[-1][1] + 1 if parts else 0
        parts.append((start, start + len(text)))
    return "\n".join(texts), parts


def _readable(value: Mapping[str, Any]) -> str:
    """Return the one text of a value as it is; of more than one, a line for each with its path."""
    leaves = list(_leaves(value, ""))
    if len(leaves) == 1 and isinstance(leaves[0][1], str):
        text = leaves[0][1]
    else:
        text = "\n".join(f"{path}: {leaf}" for path, leaf in leaves)
    return text if text.strip() else json.dumps(value, ensure_ascii=False)


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _leaves(item, path)
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value)


def conditions(wanted: Mapping[str, Any] | None, /) -> dict[str, Any]:
    """Return a filter of LangGraph as a filter on metadata.

    A nested object is a condition on each of its fields; null also matches a field that is not there.

    Raises:
        InvalidInputError: an unknown operator, or a key that holds a quotation mark.
    """
    return dict(_conditions(wanted or {}, f"{MARK}.value"))


def _conditions(wanted: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in wanted.items():
        if "'" in key or '"' in key:
            raise retain.InvalidInputError(f"Invalid filter key {key!r}: it holds a quotation mark", field="filter")
        inner = f"{path}.{key}"
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            operators = [name for name in fields if name.startswith("$")]
            if not operators:
                yield from _conditions(fields, inner)
                continue
            if unknown := [name for name in fields if name not in OPERATORS]:
                raise retain.InvalidInputError(
                    f"Unsupported operator: {unknown[0]}; there are {', '.join(OPERATORS)}", field="filter"
                )
            yield inner, _comparable(plain(fields))
        else:
            yield inner, _comparable({"$eq": plain(value)})


def _comparable(operators: Mapping[str, Any]) -> dict[str, Any]:
    """Return operators without values that JSON has no form for: NUL and NaN equal nothing, infinity is very large."""
    kept: dict[str, Any] = {}
    for name, value in operators.items():
        if isinstance(value, float) and math.isinf(value):
            kept[name] = math.copysign(sys.float_info.max, value)
        elif (isinstance(value, float) and math.isnan(value)) or (isinstance(value, str) and "\0" in value):
            kept |= {"$nin": []} if name == "$ne" else {"$in": []}
        else:
            kept[name] = value
    return kept


def value_of(memory: retain.Memory, /) -> dict[str, Any]:
    """Return the item's value: as it was put, or the content of a memory that came in by another way."""
    mark = memory.metadata.get(MARK)
    if isinstance(mark, Mapping) and "value" in mark and memory.key is not None:
        return dict(cast("Mapping[str, Any]", mark["value"]))
    return {"content": memory.content}


def parts_of(memory: retain.Memory, /) -> list[str]:
    """Return the texts of a memory that are embedded."""
    if memory.searchable is None:
        return [memory.content]
    return [memory.content[start:end] for start, end in memory.searchable]


def item_of(root: str, memory: retain.Memory, /) -> Item:
    """Return a memory as an item. One without a key of its own has its id for a key."""
    return Item(**_fields(root, memory))


def search_item_of(root: str, memory: retain.Memory, score: float | None, /) -> SearchItem:
    """Return a memory as a search result."""
    return SearchItem(**_fields(root, memory), score=score)


def _fields(root: str, memory: retain.Memory) -> dict[str, Any]:
    return {
        "namespace": namespace_of(root, memory.namespace),
        "key": memory.id if memory.key is None else memory.key,
        "value": value_of(memory),
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
    }


def matches(namespace: tuple[str, ...], kind: str, path: Sequence[str], /) -> bool:
    """Whether a namespace begins ("prefix") or ends ("suffix") with `path`, "*" being any one label."""
    if len(path) > len(namespace):
        return False
    labels = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, labels, strict=True))


def shortened_to(namespaces: Iterable[tuple[str, ...]], depth: int | None, /) -> list[tuple[str, ...]]:
    """Return the namespaces cut to `depth` labels, each once, sorted."""
    cut: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda path: path[:depth]  # noqa: E731
    return sorted(set(map(cut, namespaces)))
