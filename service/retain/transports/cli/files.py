"""Files and standard streams of commands, read and written so that a mistake leaves nothing half done."""

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from retain.domain.errors import InvalidInputError, StoreUnavailableError
from retain.domain.ids import shortened

STANDARD = "-"
_BOM = b"\xef\xbb\xbf"


def read_stdin() -> str:
    """Return what standard input holds.

    Raises:
        InvalidInputError: it is not UTF-8.
    """
    if sys.stdin.isatty():
        sys.stderr.write("reading from the terminal; end with Ctrl-D\n")
    return decoded(sys.stdin.buffer.read(), "standard input")


def decoded(raw: bytes, name: str) -> str:
    """Return UTF-8 bytes as text, without a byte order mark.

    Raises:
        InvalidInputError: they are not UTF-8.
    """
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{name} is not UTF-8 text (byte {error.start:,}); convert it first", field="file"
        ) from None


@contextmanager
def opened(file: str) -> Generator[tuple[BinaryIO, int | None]]:
    """Open a file, or standard input for "-", for reading bytes; the second value is its size when known.

    Raises:
        InvalidInputError: there is no such file, or it can't be read.
    """
    if file == STANDARD:
        yield sys.stdin.buffer, None
        return
    try:
        stream = Path(file).expanduser().open("rb")
    except OSError as error:
        raise InvalidInputError(f"can't read {file}: {error.strerror}", field="file") from None
    with stream:
        yield stream, os.fstat(stream.fileno()).st_size


def read_turns(file: str) -> list[Any]:
    """Return the turns of a conversation: of a JSON array, or of one JSON object a line.

    Raises:
        InvalidInputError: the file can't be read or is no JSON.
    """
    with opened(file) as (stream, _):
        text = decoded(stream.read(), _name(file))
    if text.lstrip().startswith("["):
        return cast("list[Any]", _parsed(text, _name(file)))
    lines = (line for line in text.split("\n") if line.strip())
    return [_parsed(line, f"line {number}") for number, line in enumerate(lines, 1)]


async def read_records(
    stream: BinaryIO, file: str, progress: Callable[[int], None]
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the JSON object of each line; `progress` learns how many bytes each took.

    Raises:
        InvalidInputError: a line is no JSON object; the message names it.
    """
    for number, raw in enumerate(stream, 1):
        progress(len(raw))
        if not raw.strip():
            continue
        record = _parsed(decoded(raw, f"line {number}"), f"line {number}")
        if not isinstance(record, dict):
            raise InvalidInputError(f"line {number} is no JSON object; is {_name(file)} an export?", field="file")
        yield cast("dict[str, Any]", record)


@contextmanager
def replacing(file: str, *, overwrite: bool) -> Generator[TextIO]:
    """Open a new file for writing that takes its name only when the block ends well.

    Raises:
        InvalidInputError: the file exists and may not be overwritten, or can't be written.
        StoreUnavailableError: the disk is full or fails.
    """
    path = Path(file).expanduser()
    if path.exists() and not overwrite:
        raise InvalidInputError(f"{file} exists; choose another name or add --force", field="file")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        stream = part.open("x", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidInputError(f"can't write {file}: {error.strerror}", field="file") from None
    try:
        with stream:
            yield stream
        part.replace(path)
    except OSError as error:
        raise StoreUnavailableError(f"writing {file} failed: {error.strerror}; nothing was written") from None
    finally:
        part.unlink(missing_ok=True)


def _parsed(text: str, where: str) -> object:
    try:
        return json.loads(text, parse_constant=_refused_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} is no JSON: {shortened(str(error), 120)}", field="file") from None


def _refused_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


def _name(file: str) -> str:
    return "standard input" if file == STANDARD else file
