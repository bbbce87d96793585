"""AutoGen's contents and messages as text that search sees, and memories as AutoGen's contents."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from autogen_core import FunctionCall, Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import FunctionExecutionResult, LLMMessage

import retain
from retain_integrations._question import is_blank, question_of
from retain_integrations._recalled import is_recalled_block

OWN: Final = "autogen"
"""The key of a memory's metadata under which the adapter keeps what it needs."""


def readable(content: object, /) -> tuple[str, str]:
    """Return the text that search sees, and the MIME type without parameters.

    Raises:
        InvalidInputError: search can't read such content, or it is not what its MIME type says.
    """
    if not isinstance(content, MemoryContent):
        raise retain.InvalidInputError(
            f"content must be a MemoryContent, not {type(content).__name__}", field="content"
        )
    value: object = content.content
    mime_type = content.mime_type.value if isinstance(content.mime_type, MemoryMimeType) else content.mime_type
    mime_type = mime_type.partition(";")[0].strip().lower()
    if isinstance(value, Image) or mime_type.startswith("image/"):
        raise retain.InvalidInputError(
            f"Image content ({mime_type}) cannot be converted to text; store a description of it", field="content"
        )
    if _is_json(mime_type):
        return _json_text(value), mime_type
    if not mime_type.startswith("text/"):
        raise retain.InvalidInputError(
            f"Unsupported content type: {mime_type}; Retain takes text/*, application/json and *+json",
            field="mime_type",
        )
    if not isinstance(value, str):
        raise retain.InvalidInputError(
            f"{mime_type} content must be a str, not {type(value).__name__}", field="content"
        )
    return value, mime_type


def _json_text(value: object) -> str:
    if not isinstance(value, dict):
        raise retain.InvalidInputError(f"JSON content must be a dict, not {type(value).__name__}", field="content")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise retain.InvalidInputError(f"JSON content can't be written as JSON: {error}", field="content") from None
    if json.loads(text) != value:
        raise retain.InvalidInputError(
            "JSON content holds what JSON does not have, such as a tuple or a key that is no text", field="content"
        )
    return text


def as_content(hit: retain.Hit, /) -> MemoryContent:
    """Return a memory as it was added, with its `id` and `score` in the metadata.

    What others stored or edited so that it is not what its MIME type says comes as plain text.
    """
    metadata = dict(hit.memory.metadata)
    own: object = metadata.pop(OWN, None)
    named = cast("Mapping[str, object]", own).get("mime_type") if isinstance(own, Mapping) else None
    mime_type = named if isinstance(named, str) else ""
    content: str | dict[str, Any] = hit.memory.content
    if _is_json(mime_type) and (parsed := _parsed(content)) is not None:
        content = parsed
    elif not mime_type.startswith("text/"):
        mime_type = MemoryMimeType.TEXT.value
    metadata.update(id=hit.memory.id, score=hit.score)
    return MemoryContent(content=content, mime_type=_known(mime_type), metadata=metadata)


def _is_json(mime_type: str) -> bool:
    return mime_type == "application/json" or mime_type.endswith("+json")


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        parsed: object = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _known(mime_type: str) -> MemoryMimeType | str:
    return next((kind for kind in MemoryMimeType if kind.value == mime_type), mime_type)


def latest_text(messages: Sequence[LLMMessage], /) -> str:
    """Return the text of the latest message that has some and is not itself recalled; "" when there is none."""
    for message in reversed(messages):
        text = _text_of(message.content)
        if not is_blank(text) and not is_recalled_block(text):
            return question_of(text)
    return ""


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in cast("Sequence[object]", content):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, FunctionCall):
            texts.append(f"{part.name} {part.arguments}")
        elif isinstance(part, FunctionExecutionResult):
            texts.append(part.content)
    return "\n".join(texts)
