"""Logging of a service: one line a record, to stderr, with control characters escaped so that no text forges a line."""

import logging
import sys

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CONTINUATION = "\n    | "


def printable(text: str) -> str:
    """Return `text` with what is not printable written as an escape, such as \\n or \\x1b."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class OneLine(logging.Formatter):
    """Escapes the message; a traceback follows in lines that are indented and escaped too."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line of a record."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name is logging's
        """Return the lines of a traceback."""
        lines = super().formatException(ei).split("\n")  # type: ignore[arg-type]
        return "    | " + _CONTINUATION.join(map(printable, lines))


def configure_logging(level: str) -> None:
    """Send all logs of this process to stderr, from `level` on ("debug", "info", "warning", "error")."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
