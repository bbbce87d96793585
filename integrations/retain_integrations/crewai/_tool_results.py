"""What tools returned lately, so that a memory can tell an agent's own words from a tool's."""

import re
import threading
from collections import OrderedDict
from typing import Any

from crewai.hooks import register_after_tool_call_hook

_MOST_RESULTS = 500
_MOST_CHARS = 20_000
_TELLING_CHARS = 8
"""A shorter piece of text, such as a number, may stand in an answer without being quoted from a tool."""
_ERRORS = (
    re.compile(r"Error executing tool: (?P<error>.+)", re.DOTALL),
    re.compile(r"This was the error: (?P<error>.+?)\.?\n Tool ", re.DOTALL),
)
"""How CrewAI words the failure of a tool to the agent."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class ToolResults:
    """The last results of all tools in the process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening = False
        self._results: OrderedDict[str, None] = OrderedDict()

    def listen(self) -> None:
        """Begin to note results, once for the process."""
        with self._lock:
            listening, self._listening = self._listening, True
        if not listening:
            register_after_tool_call_hook(self._note)

    def _note(self, context: Any) -> None:
        result = str(context.tool_result or "").strip()[:_MOST_CHARS]
        if result:
            with self._lock:
                self._results[result] = None
                self._results.move_to_end(result)
                while len(self._results) > _MOST_RESULTS:
                    self._results.popitem(last=False)

    def without(self, text: str, /) -> str:
        """Return `text` without what repeats a result, and without the sentences that tell how a tool failed."""
        with self._lock:
            results = sorted(self._results, key=len, reverse=True)
        kept = text.strip()
        for result in results:
            if kept == result or (len(kept) >= _TELLING_CHARS and kept in result):
                return ""
            if len(result) >= _TELLING_CHARS:
                kept = kept.replace(result, "").strip()
            for error in (found["error"].strip() for wording in _ERRORS if (found := wording.search(result))):
                kept = _without_sentences(kept, error)
        return kept


def _without_sentences(text: str, error: str) -> str:
    """Return `text` without the sentences that hold `error`."""
    if len(error) < _TELLING_CHARS or error not in text:
        return text
    start = text.index(error)
    ends = [0, *(match.end() for match in _SENTENCE.finditer(text)), len(text)]
    first = max(end for end in ends if end <= start)
    last = min(end for end in ends if end >= start + len(error))
    return _without_sentences((text[:first] + text[last:]).strip(), error)


tool_results = ToolResults()
"""Those of this process."""
