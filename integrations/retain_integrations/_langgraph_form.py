"""How a LangGraph item lies in Retain: its namespace, its text, its value."""

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import quote, unquote

from langgraph.store.base import Item, SearchItem, get_text_at_path

import retain
from retain_integrations._langgraph_mark import updated_at, value_of
from retain_integrations._question import is_blank


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


def plain(value: object, field: str = "value", /) -> Any:
    """Return `value` with every mapping as a dict and every tuple as a list, as JSON has them.

    Raises:
        InvalidInputError: something in it has no form in JSON.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item, field) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item, field) for item in cast("Sequence[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise retain.InvalidInputError(
        f"{field} holds a {type(value).__name__}: only text, numbers, booleans, None, lists and mappings can be kept",
        field=field,
    )


def text_and_parts(
    value: Mapping[str, Any], index: Literal[False] | Sequence[str] | None, fields: Sequence[str] | None, /
) -> tuple[str, list[tuple[int, int]] | None]:
    """Return the text of a memory, and which parts of it search sees (None for all of it).

    Args:
        value: The item's value, plain.
        index: Of the put: False for nothing, paths, or None for what the store says.
        fields: The store's paths; None for the whole value, as text that people can read.
    """
    if index is False:
        return _readable(value), []
    paths = fields if index is None else index
    if paths is None:
        return _readable(value), None
    texts = list(dict.fromkeys(text for path in paths for text in get_text_at_path(value, path) if not is_blank(text)))
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
    return json.dumps(value, ensure_ascii=False) if is_blank(text) else text


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _leaves(item, path)
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value)


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
        "updated_at": updated_at(memory),
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
