"""Items that live for a time: when they end, how a read puts that off, and the thread that removes them."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, cast

import retain
from retain_integrations._langgraph_form import MARK

_LOG = logging.getLogger(__name__)
_LEAST_STEP: Final = 0.01
"""A read that would put off the end by less than this share of the time to live leaves it as it is."""


def _mark(memory: retain.Memory) -> Mapping[str, Any]:
    mark = memory.metadata.get(MARK)
    return cast("Mapping[str, Any]", mark) if isinstance(mark, Mapping) else {}


def expires_at(memory: retain.Memory, /) -> float:
    """Return when an item expires, in seconds since 1970; infinity for never."""
    at = _mark(memory).get("expires_at")
    return float("inf") if at is None else float(at)


def refreshed(memory: retain.Memory, /) -> Mapping[str, Any] | None:
    """Return the metadata of an item that is read now; None where nothing has to change."""
    ttl = _mark(memory).get("ttl")
    if ttl is None:
        return None
    at = time.time() + ttl * 60
    if at - expires_at(memory) < ttl * 60 * _LEAST_STEP:
        return None
    return {**memory.metadata, MARK: {**_mark(memory), "expires_at": at}}


class Sweeper:
    """Calls `sweep` every `seconds` in a thread until it is stopped. A sweep that fails is logged, and tried again."""

    def __init__(self, sweep: Callable[[], int], seconds: float) -> None:
        self.done: Future[None] = Future()
        self._sweep = sweep
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retain-ttl-sweeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._sweep()
            except retain.RetainError as error:
                _LOG.warning("expired items could not be removed: %s", error)
        self.done.set_result(None)

    def stop(self, timeout: float | None = None) -> bool:
        """Stop; return whether the thread has ended within `timeout` seconds."""
        self._stopped.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()
