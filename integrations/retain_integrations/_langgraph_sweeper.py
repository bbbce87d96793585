"""The thread that removes items that have expired."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

import retain

_LOG = logging.getLogger(__name__)


class Sweeper:
    """Calls `sweep` every `seconds` in a thread until it is stopped, or `done` is cancelled.

    A sweep that Retain could not do is logged and tried again. Any other error ends the thread, and is that of `done`.
    """

    def __init__(self, sweep: Callable[[], int], seconds: float) -> None:
        self.done: Future[None] = Future()
        self._sweep = sweep
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retain-ttl-sweeper", daemon=True)
        self.done.add_done_callback(lambda _: self._stopped.set())

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._sweep_until_stopped()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the future is told
            _LOG.exception("expired items are not removed any more")
            failure = error
        with suppress(InvalidStateError):  # it was cancelled
            self.done.set_exception(failure) if failure else self.done.set_result(None)

    def _sweep_until_stopped(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._sweep()
            except retain.RetainError as error:
                _LOG.warning("expired items could not be removed: %s", error)

    def stop(self, timeout: float | None = None) -> bool:
        """Stop; return whether the thread has ended within `timeout` seconds."""
        self._stopped.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()
