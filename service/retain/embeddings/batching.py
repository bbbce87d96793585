"""Requests that wait while a batch runs share the next one; queries go before passages.

Nothing waits on purpose: an idle lane starts at once. A lane is one thread that runs one batch at a time.
Bulk work is taken in batches of at most `BATCH_TOKENS`, and the request that led a batch goes to the end of
the line, so a query, or the one passage of a small store, waits for about one batch of an import, not all.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import EmbeddingError, RetainError

Vectors = NDArray[np.float32]
Encode = Callable[[str], list[list[int]]]
Run = Callable[[Sequence[list[int]]], Vectors]

# Padded tokens of one batch. More is no faster (docs/embeddings.md), needs memory and lets others wait.
BATCH_TOKENS = 512
# Most of a batch that may be padding.
PADDING_SHARE = 0.25
# How many waiting rows a batch chooses from.
CANDIDATES = 256


class Request:
    """Some texts and their vectors to come. `encode` gives a text's windows; their mean is its vector."""

    def __init__(self, texts: Sequence[str], encode: Encode) -> None:
        self.future: Future[Vectors] = Future()
        self.rows: deque[Row] = deque()
        self._texts = texts
        self._encode = encode
        self._left = 0
        self._sums: Vectors | None = None

    @property
    def dropped(self) -> bool:
        """Whether nobody waits for the rest: cancelled, or failed already."""
        return self.future.done()

    def prepare(self) -> None:
        """Cut the texts into tokens, longest first."""
        rows = [Row(self, i, ids) for i, text in enumerate(self._texts) for ids in self._encode(text)]
        self._left = len(rows)
        self.rows.extend(sorted(rows, key=lambda row: -len(row.ids)))

    def add(self, slot: int, vector: Vectors) -> None:
        """Take in the vector of one row; the last one completes the request."""
        if self._sums is None:
            self._sums = np.zeros((len(self._texts), len(vector)), np.float32)
        sums = self._sums
        sums[slot] += vector
        self._left -= 1
        if self._left == 0:
            sums /= np.linalg.norm(sums, axis=1, keepdims=True)
            self._succeed(sums)

    def _succeed(self, vectors: Vectors) -> None:
        try:
            self.future.set_result(vectors)
        except InvalidStateError:
            return  # the caller gave up meanwhile

    def fail(self, error: BaseException) -> None:
        """End the request with an error."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            return


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One sequence of token ids, one row of a batch."""

    request: Request
    slot: int
    ids: list[int]


class Batcher:
    """Runs requests on `lanes` threads side by side. Safe to use from any thread and any event loop."""

    def __init__(self, run: Run, lanes: int) -> None:
        self._run = run
        self._lanes = lanes
        self._active = 0
        self._closed = False
        self._lock = Lock()
        # Of queries, of passages: requests not yet cut into tokens, and those that have rows left.
        self._new: tuple[deque[Request], deque[Request]] = (deque(), deque())
        self._ready: tuple[deque[Request], deque[Request]] = (deque(), deque())
        self._pool = ThreadPoolExecutor(lanes, thread_name_prefix="retain-embedding")

    def submit(self, request: Request, *, urgent: bool) -> Future[Vectors]:
        """Put a request in line; its future gives (n, d) unit rows in the order of its texts."""
        with self._lock:
            if self._closed:
                raise EmbeddingError("the embedding model is closed")
            self._new[0 if urgent else 1].append(request)
            self._start_lane()
        return request.future

    def close(self) -> None:
        """Fail what still waits, let running batches end and stop the threads."""
        with self._lock:
            self._closed = True
            waiting = [request for queue in self._new for request in queue]
            # One without rows left has its last ones in a running batch, which will answer it.
            waiting += [request for queue in self._ready for request in queue if request.rows]
            for queue in (*self._new, *self._ready):
                queue.clear()
        for request in waiting:
            request.fail(EmbeddingError("the embedding model was closed before this text was embedded"))
        self._pool.shutdown()

    def _start_lane(self) -> None:
        """Put one more thread to work if one is free and something waits; the lock is held."""
        waiting = any((*self._new, *self._ready))
        if waiting and self._active < self._lanes and not self._closed:
            self._active += 1
            self._pool.submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                step = self._next_step()
                if step is None:
                    self._active -= 1
                    return
                self._start_lane()
            step()

    def _next_step(self) -> Callable[[], None] | None:
        for new, ready in zip(self._new, self._ready, strict=True):
            if new:
                request = new.popleft()
                return lambda: self._prepare(request, ready)
            if rows := self._take(ready):
                return lambda: self._run_rows(rows)
        return None

    def _prepare(self, request: Request, ready: deque[Request]) -> None:
        if request.dropped:
            return
        try:
            request.prepare()
        except Exception as error:  # noqa: BLE001  whatever it is belongs to this caller, not to this thread
            request.fail(_as_embedding_error(error))
            return
        with self._lock:
            ready.append(request)

    def _take(self, ready: deque[Request]) -> list[Row]:
        """Remove the rows of the next batch from the line; whoever led it goes to the end."""
        for _ in range(len(ready)):
            request = ready.popleft()
            if request.rows and not request.dropped:
                ready.append(request)
        waiting = list(islice((row for request in ready for row in islice(request.rows, CANDIDATES)), CANDIDATES))
        chosen = [waiting[i] for i in choose([len(row.ids) for row in waiting])]
        for row in chosen:
            row.request.rows.remove(row)
        ready.rotate(-1)
        return chosen

    def _run_rows(self, rows: list[Row]) -> None:
        try:
            vectors = self._run([row.ids for row in rows])
        except Exception as error:  # noqa: BLE001  the callers must hear of it, whatever it is
            for row in rows:
                row.request.fail(_as_embedding_error(error))
            return
        sound = np.isfinite(vectors).all(axis=1) & (np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3)
        with self._lock:
            for row, vector, good in zip(rows, vectors, sound, strict=True):
                if good:
                    row.request.add(row.slot, vector)
                else:
                    row.request.fail(EmbeddingError("the embedding model gave a vector that is zero or not a number"))


def choose(lengths: Sequence[int]) -> list[int]:
    """Which waiting rows go into one batch: the first, and those nearest to it in length that fit.

    They fit while rows times the longest stays within `BATCH_TOKENS` and padding within `PADDING_SHARE`.
    """
    if not lengths:
        return []
    chosen, longest, real = [0], lengths[0], lengths[0]
    for i in sorted(range(1, len(lengths)), key=lambda i: abs(lengths[i] - lengths[0])):
        longest_then, real_then = max(longest, lengths[i]), real + lengths[i]
        padded = longest_then * (len(chosen) + 1)
        if padded > BATCH_TOKENS or padded - real_then > PADDING_SHARE * padded:
            break
        chosen.append(i)
        longest, real = longest_then, real_then
    return chosen


def slices(texts: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    """Consecutive parts of at most `size` texts."""
    return (texts[start : start + size] for start in range(0, len(texts), size))


def _as_embedding_error(error: Exception) -> Exception:
    if isinstance(error, RetainError):
        return error
    wrapped = EmbeddingError(f"the embedding model failed: {error}")
    wrapped.__cause__ = error
    return wrapped
