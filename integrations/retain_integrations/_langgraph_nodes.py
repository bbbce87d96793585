"""Two nodes for the common pattern: recall before the model is called, remember after it has answered."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

import retain
from retain_integrations._question import is_blank
from retain_integrations._recalled import recalled_block

_MESSAGE_ID: Final = "retain-recalled"
"""Of the one message that recall keeps in the state; a reducer such as `add_messages` replaces it in its place."""
_NAMES: Final = uuid.UUID("6d2b4d6a-6f0c-5c8b-9f59-2b1d1a0b6f4e")

Node = Callable[..., dict[str, Any]]


def recall_node(namespace: Sequence[str], /, *, k: int = 5, min_score: float = 0.0) -> Node:
    """Return a node that puts what the store knows about the last human message into `messages`.

    There is one such message, which marks the memories as data; the next run replaces it, and it goes when nothing is
    found. It is a `HumanMessage`: many models take a `SystemMessage` at the beginning only, where yours is.

    Args:
        namespace: Where to look; "{user_id}" in a label stands for that value of `config["configurable"]`.
        k: Most memories, from 1.
        min_score: Least score, in [0, 1].

    Raises:
        InvalidInputError: when it runs: the configuration lacks a value that the namespace names.
    """

    def recall(state: Mapping[str, Any], config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
        messages: Sequence[AnyMessage] = state["messages"]
        question = _last_human(messages)
        found = store.search(_filled(namespace, config), query=question.text, limit=k) if question else []
        texts = [_text(item.value) for item in found if (item.score or 0.0) >= min_score]
        if texts:
            return {"messages": [HumanMessage(recalled_block(texts), id=_MESSAGE_ID)]}
        return {"messages": [RemoveMessage(_MESSAGE_ID)] if any(one.id == _MESSAGE_ID for one in messages) else []}

    return recall


def remember_node(namespace: Sequence[str], /, *, replies: bool = False) -> Node:
    """Return a node that stores the last human message, under a key that makes a repeated run store it once.

    Args:
        namespace: Where to store; "{user_id}" in a label stands for that value of `config["configurable"]`.
        replies: Whether the model's last answer is stored too.

    Raises:
        InvalidInputError: when it runs: the configuration lacks a value that the namespace names.
    """

    def remember(state: Mapping[str, Any], config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
        messages: Sequence[AnyMessage] = state["messages"]
        place = _filled(namespace, config)
        wanted = [_last_human(messages), messages[-1] if replies and messages and messages[-1].type == "ai" else None]
        for message in wanted:
            if message is not None and not is_blank(message.text):
                thread = config.get("configurable", {}).get("thread_id", "")
                key = str(uuid.uuid5(_NAMES, f"{thread}\0{message.id or message.text}"))
                store.put(place, key, {"content": message.text, "role": message.type}, index=["content"])
        return {}

    return remember


def _last_human(messages: Sequence[AnyMessage]) -> HumanMessage | None:
    said = (one for one in reversed(messages) if isinstance(one, HumanMessage) and one.id != _MESSAGE_ID)
    return next((one for one in said if not is_blank(one.text)), None)


def _filled(namespace: Sequence[str], config: RunnableConfig) -> tuple[str, ...]:
    values = config.get("configurable", {})
    try:
        return tuple(label.format_map(values) for label in namespace)
    except KeyError as error:
        raise retain.InvalidInputError(
            f"the namespace {tuple(namespace)} needs config['configurable'][{error}]", field="namespace"
        ) from None


def _text(value: Mapping[str, Any]) -> str:
    content = value.get("content")
    return content if isinstance(content, str) else str(dict(value))
