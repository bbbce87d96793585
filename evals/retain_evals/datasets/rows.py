"""Rows out of a local file, one at a time."""

import gzip
import json
import lzma
import zlib
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import ijson
import pyarrow
from pyarrow import parquet

from retain import InvalidInputError
from retain_evals.datasets.value import Row, Value

FILE_ENDINGS = (".json", ".jsonl", ".json.xz", ".jsonl.xz", ".json.gz", ".jsonl.gz", ".parquet")
"""The kinds of files that can be read."""

# pyarrow and ijson have no types of their own.
_arrow, _parquet, _ijson = cast(Any, pyarrow), cast(Any, parquet), cast(Any, ijson)
_DAMAGE: tuple[type[Exception], ...] = (
    *(json.JSONDecodeError, UnicodeDecodeError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError),
    *(_ijson.JSONError, _arrow.ArrowException),
)


def is_data_file(name: str, /) -> bool:
    """Return whether the ending of a file's name is one that can be read."""
    return name.lower().endswith(FILE_ENDINGS)


def rows_of(path: str) -> Generator[Row, None, None]:
    """Yield the rows of a file: the members of a JSON array, the lines of JSON Lines or the rows of a Parquet table.

    Whether JSON is an array or lines shows in its first character, since both go by the name `.json`. Only the row
    at hand is in memory, and of a table a few.

    Args:
        path: A text, because Hugging Face hashes the arguments of what it iterates.

    Raises:
        InvalidInputError: the file is damaged, cut off, empty, not UTF-8, or holds something else.
    """
    place = Path(path).name
    number = 0
    try:
        for number, row in enumerate(_raw_rows(Path(path)), 1):
            yield Value(row, f"{place}, row {number}").fields()
    except _DAMAGE as error:
        raise _unreadable(place, number, error) from error
    if not number:
        raise InvalidInputError(f"{place} holds no rows; give a file with at least one", field="data")


def _unreadable(place: str, read: int, error: Exception) -> InvalidInputError:
    reason = str(error).partition("\n")[0]
    return InvalidInputError(
        f"{place} can't be read after row {read} ({reason}); is the file complete? Expected a JSON array of objects, "
        "JSON Lines or Parquet, as the ending says",
        field="data",
    )


def _raw_rows(path: Path) -> Iterator[object]:
    if path.name.lower().endswith(".parquet"):
        yield from _table_rows(path)
        return
    with _opened(path) as file:
        start = _first_character(file)
    with _opened(path) as file:
        yield from _members(file) if start == b"[" else _lines(file)


def _opened(path: Path) -> IO[bytes]:
    ending = path.suffix.lower()
    if ending == ".xz":
        return lzma.open(path)
    return cast(IO[bytes], gzip.open(path)) if ending == ".gz" else path.open("rb")


def _first_character(file: IO[bytes]) -> bytes:
    while character := file.read(1):
        if not character.isspace():
            return character
    return b""


def _members(file: IO[bytes]) -> Iterator[object]:
    return _ijson.items(file, "item", use_float=True)


def _lines(file: Iterable[bytes]) -> Iterator[object]:
    return (json.loads(line) for line in file if line.strip())


def _table_rows(path: Path) -> Iterator[object]:
    with _parquet.ParquetFile(path, pre_buffer=False) as table:
        for batch in table.iter_batches(batch_size=8):
            yield from batch.to_pylist()
