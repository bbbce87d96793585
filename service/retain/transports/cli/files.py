"""Files and standard streams of commands, read and written so that a mistake leaves nothing half done."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import Any, BinaryIO, Literal, TextIO, cast

from retain.domain.errors import InvalidInputError, StoreUnavailableError
from retain.transports.json_text import UnreadableJsonError, read_json

STANDARD = "-"
_BOM = b"\xef\xbb\xbf"


def read_stdin() -> str:
    """Return what standard input holds.

    Raises:
        InvalidInputError: it is not UTF-8, or can't be read.
    """
    if sys.stdin.isatty():
        sys.stderr.write("reading from the terminal; end with Ctrl-D\n")
    try:
        return decoded(sys.stdin.buffer.read(), _name(STANDARD))
    except OSError as error:
        raise _unreadable(STANDARD, error) from None


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
        raise _unreadable(file, error) from None
    with stream:
        yield stream, os.fstat(stream.fileno()).st_size


def read_turns(file: str) -> list[Any]:
    """Return the turns of a conversation: of a JSON array, or of one JSON object a line.

    Raises:
        InvalidInputError: the file can't be read or is no JSON.
    """
    with opened(file) as (stream, _):
        try:
            text = decoded(stream.read(), _name(file))
        except OSError as error:
            raise _unreadable(file, error) from None
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
    for number, raw in enumerate(_lines(stream, file), 1):
        progress(len(raw))
        if not raw.strip():
            continue
        record = _parsed(decoded(raw, f"line {number}"), f"line {number}")
        if not isinstance(record, dict):
            raise InvalidInputError(f"line {number} is no JSON object; is {_name(file)} an export?", field="file")
        yield cast("dict[str, Any]", record)


def _lines(stream: BinaryIO, file: str) -> Iterator[bytes]:
    try:
        yield from stream
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: str, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"can't read {_name(file)}: {error.strerror}", field="file")


@contextmanager
def replacing(file: str, *, overwrite: bool) -> Generator[TextIO]:
    """Open a new file for writing that takes its name, and the rights of its precursor, when the block ends well.

    A symbolic link stays, and what it points to is replaced. What is no regular file, such as a device or a pipe, is
    written as it is.

    Raises:
        InvalidInputError: the file exists and may not be overwritten, or can't be written.
        StoreUnavailableError: the disk is full or fails.
    """
    path = Path(file).expanduser()
    try:
        found = path.stat()
    except OSError:  # not there, or told by the attempt to write it
        found = None
    if found is not None and not overwrite:
        raise InvalidInputError(f"{file} exists; choose another name or add --force", field="file")
    if found is not None and not S_ISREG(found.st_mode):
        with _written(file, path, "w", "a part may have been written") as stream:
            yield stream
        return
    try:
        path = path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise InvalidInputError(f"can't write {file}: {error}", field="file") from None
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _written(file, part, "x", "nothing was written") as stream:
            if found is not None:
                part.chmod(S_IMODE(found.st_mode))
            yield stream
            stream.flush()
        _take_name(file, part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _written(file: str, path: Path, mode: Literal["w", "x"], outcome: str) -> Generator[TextIO]:
    try:
        stream = path.open(mode, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise InvalidInputError(f"can't write {file}: {error.strerror}", field="file") from None
    try:
        with stream:
            yield stream
    except OSError as error:
        raise StoreUnavailableError(f"can't write {file}: {error.strerror}; {outcome}") from None


def _take_name(file: str, part: Path, path: Path) -> None:
    try:
        part.replace(path)
    except OSError as error:
        raise StoreUnavailableError(f"can't write {file}: {error.strerror}; nothing was written") from None


def _parsed(text: str, where: str) -> object:
    try:
        return read_json(text)
    except UnreadableJsonError as error:
        raise InvalidInputError(f"{where} {error}", field="file") from None


def _name(file: str) -> str:
    return "standard input" if file == STANDARD else file
