"""Media that can't be written: reading goes on, writing says why it does not."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retain.domain.errors import StoreError, StoreUnavailableError
from retain.domain.memory import EVERYTHING, Filter, Page
from retain.storage.sqlite import open_sqlite
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, START, edit, entry, unit


def made_immutable(*paths: Path) -> None:
    """Make paths unwritable, for root too; skip where that is not possible."""
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.access(paths[0], os.W_OK):
        try:
            done = subprocess.run(["chattr", "+i", *paths], capture_output=True).returncode == 0
        except FileNotFoundError:
            done = False
        if not done or os.access(paths[0], os.W_OK):
            made_mutable(*paths)
            pytest.skip("root writes here whatever the permissions say, and the file system has no immutable files")


def made_mutable(*paths: Path) -> None:
    """Undo `made_immutable`."""
    for path in reversed(paths):
        if os.getuid() == 0:
            subprocess.run(["chattr", "-i", path], capture_output=True)
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture(params=["file", "folder", "both"])
async def locked(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Path]:
    """A database with two memories, where the file, its folder or both can't be written."""
    path = tmp_path / "a folder #1?" / "retain.db"
    path.parent.mkdir()
    store = await open_sqlite(path, clock=lambda: START)
    await store.put([entry("one quokka", ["t"], vector=unit(1)), entry("two")], model=MODEL)
    await store.aclose()
    chosen = {"file": [path], "folder": [path.parent], "both": [path, path.parent]}[request.param]
    made_immutable(*chosen)
    yield path
    made_mutable(*chosen)


async def test_an_intact_database_is_read_where_it_cannot_be_written(locked: Path, tmp_path: Path) -> None:
    store = await open_sqlite(locked, clock=lambda: START)
    assert len((await store.list(EVERYTHING, Page())).memories) == 2
    found = await candidates(store, Filter(), 5, vector=unit(1), text="quokka", model=MODEL)
    assert len(found) == 2
    assert (await store.stats(Filter())).total == 2
    assert [count.tag for count in await store.tags(Filter())] == ["t"]
    assert await store.check() == []
    await store.backup(str(tmp_path / "copy.db"))
    await store.aclose()


async def test_writing_says_that_it_is_read_only(locked: Path) -> None:
    store = await open_sqlite(locked, clock=lambda: START)
    (id_, *_) = await store.ids(Filter())
    for attempt in (
        store.put([entry("three")], model=MODEL),
        store.update(id_, edit(tags=("x",))),
        store.delete(Filter(ids=(id_,)), at=START),
        store.register_type("own", None),
        store.compact(),
        store.repair(),
    ):
        with pytest.raises(StoreUnavailableError, match=r"^read-only: "):
            await attempt
    assert len(await store.ids(Filter())) == 2
    await store.aclose()


async def test_a_missing_file_in_an_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    made_immutable(folder)
    try:
        with pytest.raises(StoreError, match="can't be written"):
            await open_sqlite(folder / "retain.db", clock=lambda: START)
    finally:
        made_mutable(folder)


async def test_a_file_that_is_not_of_this_version_is_an_error_where_it_cannot_be_written(path: Path) -> None:
    store = await open_sqlite(path, clock=lambda: START)
    await store._database.write(lambda db: db.run("DROP TABLE keyword_place"))
    await store.aclose()
    made_immutable(path)
    try:
        with pytest.raises(StoreError, match=r"^read-only: .*brought up to date"):
            await open_sqlite(path, clock=lambda: START)
    finally:
        made_mutable(path)
