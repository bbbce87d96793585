"""Memory ids: UUID version 7 (RFC 9562 §5.7), so that ids sort by the time they were made; version 8 for own keys."""

import hashlib
import secrets
import threading
import time
import uuid
from collections.abc import Callable

from retain.domain.errors import InvalidInputError

_COUNTER_BITS = 12  # rand_a of RFC 9562, used as a counter within one millisecond (method 1 of §6.2)


class Uuid7Source:
    """Makes UUIDv7 strings that strictly increase within this process, also when the clock steps back."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._last_ms = 0
        self._counter = 0

    def __call__(self) -> str:
        """Return the next id."""
        with self._lock:
            now = self._now_ms()
            if now > self._last_ms:
                self._last_ms, self._counter = now, secrets.randbits(_COUNTER_BITS - 1)
            else:
                self._counter += 1
                if self._counter >> _COUNTER_BITS:
                    self._last_ms, self._counter = self._last_ms + 1, 0
            stamp, counter = self._last_ms, self._counter
        value = (stamp & (1 << 48) - 1) << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | secrets.randbits(62)
        return str(uuid.UUID(int=value))


new_id = Uuid7Source()


def id_of(namespace: str, key: str, /) -> str:
    """Return the id of the memory that has `key` in `namespace`: a UUID version 8, the same on every machine.

    Args:
        namespace: In its normal form, such as "/team/a".
        key: As it was stored.
    """
    digest = int.from_bytes(hashlib.sha256(f"{namespace}\0{key}".encode("utf-8", "surrogatepass")).digest()[:16])
    return str(uuid.UUID(int=digest & ~(0xF << 76 | 0b11 << 62) | 0x8 << 76 | 0b10 << 62))


def parse_id(value: object, /, *, field: str = "id") -> str:
    """Return `value` as a canonical lower-case UUID string.

    Raises:
        InvalidInputError: it is no UUID.
    """
    if isinstance(value, str) and len(value) <= 64:
        try:
            return str(uuid.UUID(value))
        except ValueError:
            pass
    raise InvalidInputError(f"{field} must be a UUID such as {new_id()}, not {shortened(value)}", field=field)


def shortened(value: object, length: int = 60) -> str:
    """Return a one-line, printable quotation of `value` for an error message."""
    text = ascii(value) if not isinstance(value, str) else repr(value)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= length else f"{text[:length]}…"
