"""Where rows come from: a local file, or a file of a dataset on the Hugging Face hub."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

import huggingface_hub
from huggingface_hub import constants, errors

from retain import InvalidInputError
from retain_evals.datasets.rows import FILE_ENDINGS, is_data_file, rows_of
from retain_evals.datasets.value import Row

_hub = cast(Any, huggingface_hub)  # it has types for a part only
# The hub's client has changed its HTTP library twice, so the error of that library is taken from the client.
_HUB_ERRORS: tuple[type[Exception], ...] = (
    *(cast(Any, errors).HTTPError, OSError),
    *(errors.EntryNotFoundError, errors.HFValidationError),
)
_HUB_NAME = re.compile(r"(?P<dataset>[\w.-]+/[\w.-]+?)(?::(?P<file>.+))?")


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of one data file. Each iteration reads the file anew, a row at a time, through Hugging Face `datasets`.

    Attributes:
        name: As it was asked for.
        path: The file, for one of the hub in the hub's cache.
        revision: The commit of the hub's dataset; None for a local file.
    """

    name: str
    path: Path
    revision: str | None = None

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows.

        Raises:
            InvalidInputError: the file is damaged or holds something else.
        """
        import datasets  # takes a second, which `--help` and the workers need not wait for

        # The JSON reader of `datasets` itself loads a whole array and wants one type for a column; ours is passed on.
        return iter(cast(Any, datasets).IterableDataset.from_generator(rows_of, gen_kwargs={"path": str(self.path)}))


def open_source(data: str, /, *, offline: bool = False) -> Source:
    """Find a data file. A local file never causes a request; one of the hub is downloaded once, then cached.

    Args:
        data: A file with an ending of `FILE_ENDINGS`, or a dataset of the hub: `owner/name:file`, or `owner/name` when
            it has a single data file.
        offline: Take a file of the hub from the cache only. HF_HUB_OFFLINE does the same.

    Raises:
        InvalidInputError: there is no such file or dataset, the kind of file is unknown, the name of a dataset leaves
            the file open, or the hub can't be reached.
    """
    path = Path(data)
    if path.is_file():
        if not is_data_file(path.name):
            raise _refused(f"{data} is of an unknown kind; convert it to one of {', '.join(FILE_ENDINGS)}")
        return Source(data, path)
    if path.exists():
        raise _refused(f"{data} is a folder; give the data file in it")
    named = _HUB_NAME.fullmatch(data)
    if named is None or is_data_file(named["dataset"]):
        raise _refused(f"there is no file {data}; give an existing file, or a dataset of the hub as owner/name:file")
    return _from_hub(data, named["dataset"], named["file"], offline)


def sha256_of(path: Path, /) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_hub(data: str, dataset: str, file: str | None, offline: bool) -> Source:
    offline = offline or constants.is_offline_mode()
    if file is None and offline:
        raise _refused(f"offline, the files of {dataset} can't be listed; name one as {dataset}:file, or a local file")
    try:
        file = file or _only_data_file(dataset)
        if not is_data_file(file):
            raise _refused(f"{data} is of an unknown kind; it should be one of {', '.join(FILE_ENDINGS)}")
        path = Path(_hub.hf_hub_download(dataset, file, repo_type="dataset", local_files_only=offline))
    except _HUB_ERRORS as error:
        reason = "it is not in the hub's cache and offline mode is on" if offline else f"the hub says: {error}"
        raise _refused(
            f"{data} can't be had from the Hugging Face hub ({reason}); download the file where there is a network and "
            "give its path instead"
        ) from error
    # The cache keeps a file at snapshots/<commit>/<file>.
    return Source(data, path, revision=path.parents[len(PurePosixPath(file).parts) - 1].name)


def _only_data_file(dataset: str) -> str:
    files = [file for file in huggingface_hub.list_repo_files(dataset, repo_type="dataset") if is_data_file(file)]
    if len(files) != 1:
        choice = f"one of {', '.join(sorted(files))}" if files else f"it has none of {', '.join(FILE_ENDINGS)}"
        raise _refused(f"{dataset} does not say which file to read; name it as {dataset}:file ({choice})")
    return files[0]


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(message, field="data")
