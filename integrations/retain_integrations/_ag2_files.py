"""Files as memories: one keyed memory for each path, changed atomically. All of this blocks."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

import retain
from retain_integrations._keyed import replace_keyed
from retain_integrations._question import is_blank

_OWN: Final = "ag2"
"""The key of a memory's metadata under which a file keeps what it needs."""
_PAGE: Final = 200
_AT_ONCE: Final = 1_000
_AFTER_SLASH: Final = chr(ord("/") + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of one store.

    Attributes:
        namespace: Where they are kept, in normal form.
        agent_id: Whose they are.
        tags: What each of them is tagged with.
        searchable: Which paths recall may find.
    """

    namespace: str
    agent_id: str | None
    tags: tuple[str, ...]
    searchable: Callable[[str], bool]

    def find(self, memory: retain.SyncMemory, path: str, /) -> retain.Memory | None:
        """Return the file at `path`, if there is one."""
        try:
            found = memory.get(retain.id_of(self.namespace, path))
        except retain.NotFoundError:
            return None
        return found if found.state == "active" else None

    def below(
        self, memory: retain.SyncMemory, path: str, /, *, since: datetime | None = None
    ) -> Iterator[retain.Memory]:
        """Yield the files in the directory `path` and below it; with `since`, those written at that time or later."""
        page = retain.Page(limit=_PAGE)
        while True:
            found = memory.list(self._where(path, since), page)
            yield from found.memories
            if found.next_cursor is None:
                return
            page = retain.Page(limit=_PAGE, cursor=found.next_cursor)

    def count(self, memory: retain.SyncMemory, path: str, /) -> int:
        """Return the number of files in the directory `path` and below it."""
        return memory.list(self._where(path, None), retain.Page(limit=1)).total

    def change(self, memory: retain.SyncMemory, path: str, change: Callable[[str], str], /) -> str:
        """Make the text of a file what `change` makes of it, atomically; return what it was before, "" for no file.

        Raises:
            InvalidInputError: `path` is the root, or the text can't be stored.
            TooLargeError: the text or the path is too long.
            StoreUnavailableError: others were always faster.
        """
        if path == "/":
            raise retain.InvalidInputError("/ is a directory; write to a path below it", field="path")
        try:
            old = replace_keyed(memory, self.namespace, path, lambda old: self._new(path, change(_active_text(old))))
        except retain.TooLargeError as error:
            raise retain.TooLargeError(f"the file {path}: {error}", field=error.field) from error
        return _active_text(old)

    def delete(self, memory: retain.SyncMemory, path: str, /) -> None:
        """Delete the file at `path` and all below it."""
        going = [retain.id_of(self.namespace, path), *[file.id for file in self.below(memory, path)]]
        for start in range(0, len(going), _AT_ONCE):
            memory.store_many([], delete=going[start : start + _AT_ONCE])

    def _where(self, path: str, since: datetime | None) -> retain.Filter:
        prefix = prefix_of(path)
        inside = {"$gte": prefix, "$lt": prefix[:-1] + _AFTER_SLASH}
        metadata = {f"{_OWN}.store": self.namespace, f"{_OWN}.path": inside}
        return retain.Filter(namespace=self.namespace, metadata=metadata, since=since)

    def _new(self, path: str, text: str) -> retain.NewMemory:
        blank = is_blank(text)
        own = {"store": self.namespace, "path": path}
        return retain.NewMemory(
            content=_placeholder(path) if blank else text,
            tags=self.tags,
            metadata={_OWN: {**own, "text": text} if blank else own},
            namespace=self.namespace,
            agent_id=self.agent_id,
            searchable=None if not blank and self.searchable(path) else (),
        )


def normal_namespace(namespace: str, /) -> str:
    """Return a namespace in normal form.

    Raises:
        InvalidInputError: it is no path from the root.
    """
    normal = unicodedata.normalize("NFC", namespace)
    if not normal.startswith("/") or (normal.endswith("/") and normal != "/"):
        raise retain.InvalidInputError("namespace must be a path such as /ag2", field="namespace")
    return normal


def normal_path(path: str, /) -> str:
    """Return a path as AG2 writes it: from the root, with single slashes and none at the end."""
    return "/" + "/".join(segment for segment in path.split("/") if segment)


def prefix_of(path: str, /) -> str:
    """Return what the paths of all files in a directory begin with."""
    return normal_path(path).rstrip("/") + "/"


def path_of(file: retain.Memory, /) -> str:
    """Return where a file lies."""
    return str(file.key)


def revision_of(file: retain.Memory, /) -> str:
    """Return what tells this state of a file from all others."""
    return file.updated_at.isoformat()


def text_of(file: retain.Memory, /) -> str:
    """Return the text of a file. Retain stores no blank content: such a text lies in the metadata."""
    blank = _own(file).get("text")
    return blank if isinstance(blank, str) and file.content == _placeholder(path_of(file)) else file.content


def _active_text(file: retain.Memory | None) -> str:
    return text_of(file) if file is not None and file.state == "active" else ""


def _own(file: retain.Memory) -> Mapping[str, object]:
    own: object = file.metadata.get(_OWN)
    return cast("Mapping[str, object]", own) if isinstance(own, Mapping) else {}


def _placeholder(path: str) -> str:
    return f"(the file {path} is empty)"


def names_in(paths: Sequence[str], directory: str, /) -> list[str]:
    """Return the names of what lies directly in a directory, sorted; directories end with a slash."""
    prefix = prefix_of(directory)
    parts = (path.removeprefix(prefix).partition("/") for path in paths)
    return sorted({name + slash for name, slash, _ in parts})
