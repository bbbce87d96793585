"""Remembered lists of where a word occurs: the same answers as without them, whoever writes in between."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from retain.core.ports import Entry
from retain.domain.memory import EVERYTHING, Filter, Passage
from retain.domain.scoring import Candidates
from retain.storage.sqlite import maintenance, memories, postings, search
from retain.storage.sqlite.connection import Connection, in_transaction
from retain.storage.sqlite.index import PassageIndex
from retain.storage.sqlite.migrations import opened
from retain.storage.sqlite.postings import PostingCache
from tests.conformance.making import MODEL, START, edit, entry, unit

Shares = dict[tuple[str, int], float]
ALPHA = ("keyword", "alpha")


@pytest.fixture(autouse=True)
def _even_short_lists_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "LEAST_KEPT", 1)


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[list[Connection]]:
    """Three connections to one empty file."""
    made = [opened(tmp_path / "retain.db", now_ms=0) for _ in range(3)]
    yield made
    for connection in made:
        connection.close()


def put(connection: Connection, *entries: Entry) -> list[str]:
    written = in_transaction(connection, lambda db: memories.put(db, entries, MODEL, None, None, START))
    return [one.memory.id for one in written]


def remove(connection: Connection, *ids: str) -> None:
    in_transaction(connection, lambda db: memories.delete(db, Filter(ids=ids), START, None))


def every(candidates: Candidates) -> NDArray[np.intp]:
    return np.arange(len(candidates))


def shares(connection: Connection, index: PassageIndex, text: str, where: Filter = EVERYTHING) -> Shares:
    """Return what each passage holds of a question, by memory and place; within a transaction if there is one."""
    values: list[float] = []

    def choose(candidates: Candidates) -> NDArray[np.intp]:
        assert candidates.keyword is not None
        values.extend(candidates.keyword.tolist())
        return every(candidates)

    begun = connection.in_transaction
    if not begun:
        connection.run("BEGIN")
    chosen = search.candidates(connection, index, where, 10_000, choose, None, text, None)
    if not begun:
        connection.run("ROLLBACK")
    return {(one.memory.id, one.start): values[one.place] for one in chosen}


def ids(found: Shares) -> set[str]:
    return {id_ for id_, _ in found}


def kept(index: PassageIndex, term: tuple[str, str] = ALPHA) -> list[int] | None:
    """Return the list that is remembered for a term."""
    assert index._loaded is not None
    places = index._loaded.postings.get(term, index._loaded.size)
    return None if places is None else places.tolist()


def notes(count: int, text: str = "alpha", start: int = 0) -> list[Entry]:
    return [entry(f"{text} n{start + number}", vector=unit(number)) for number in range(count)]


def test_a_list_is_remembered_after_the_first_question(connections: list[Connection]) -> None:
    one, *_ = connections
    index = PassageIndex()
    put(one, *notes(5), *notes(5, "beta"))
    first = shares(one, index, "alpha")
    assert kept(index) == [0, 1, 2, 3, 4]
    assert shares(one, index, "alpha") == first
    assert len(first) == 5


def test_a_short_list_is_read_each_time(connections: list[Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "LEAST_KEPT", 6)
    one, *_ = connections
    index = PassageIndex()
    put(one, *notes(5))
    assert len(shares(one, index, "alpha")) == 5
    assert kept(index) is None
    assert index.sizes["postings"] == 0


@pytest.mark.parametrize("writer", [0, 1])
def test_what_this_or_another_connection_stores_is_in_the_remembered_list(
    connections: list[Connection], writer: int
) -> None:
    reader = connections[0]
    index = PassageIndex()
    put(reader, *notes(5))
    shares(reader, index, "alpha")
    added = put(connections[writer], *notes(3, start=100), entry("beta alone"))
    found = shares(reader, index, "alpha")
    assert kept(index) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert set(added[:3]) <= ids(found)
    assert added[3] not in ids(found)
    assert found == shares(reader, PassageIndex(), "alpha")


def test_a_new_content_leaves_the_list_of_its_old_words_and_enters_that_of_its_new_ones(
    connections: list[Connection],
) -> None:
    reader, writer, _ = connections
    index = PassageIndex()
    first, *_ = put(writer, *notes(5), *notes(5, "beta"))
    before = shares(reader, index, "alpha"), shares(reader, index, "beta")
    in_transaction(writer, lambda db: memories.update(db, first, edit("beta now"), MODEL))
    after = shares(reader, index, "alpha"), shares(reader, index, "beta")
    assert ids(after[0]) == ids(before[0]) - {first}
    assert ids(after[1]) == ids(before[1]) | {first}
    assert after == (shares(reader, PassageIndex(), "alpha"), shares(reader, PassageIndex(), "beta"))


def test_what_was_deleted_is_found_no_more_and_counted_no_more(connections: list[Connection]) -> None:
    reader, writer, _ = connections
    index = PassageIndex()
    stored = put(writer, *notes(5), *notes(200, "beta"))
    shares(reader, index, "alpha")
    remove(writer, *stored[:3])
    found = shares(reader, index, "alpha")
    assert ids(found) == set(stored[3:5])
    assert found == shares(reader, PassageIndex(), "alpha")


def test_an_index_that_loads_anew_remembers_nothing_of_before(connections: list[Connection]) -> None:
    reader, writer, _ = connections
    index = PassageIndex()
    stored = put(writer, *notes(5))
    shares(reader, index, "alpha")
    remove(writer, stored[0])
    in_transaction(writer, maintenance.repair)
    put(writer, *notes(1, start=100))
    shares(reader, index, "beta")
    assert kept(index) is None
    assert len(shares(reader, index, "alpha")) == 5


def test_more_new_passages_than_are_looked_at_drop_the_lists(
    connections: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "_FOLLOWED_AT_MOST", 3)
    reader, writer, _ = connections
    index = PassageIndex()
    put(writer, *notes(50))
    shares(reader, index, "alpha")
    put(writer, *notes(4, start=100))
    shares(reader, index, "beta")
    assert kept(index) is None
    assert index.sizes["postings"] == 0
    assert len(shares(reader, index, "alpha")) == 54


def test_a_reader_from_before_sees_the_list_as_it_was(connections: list[Connection]) -> None:
    old, new, writer = connections
    index = PassageIndex()
    put(writer, *notes(5))
    old.run("BEGIN")
    before = shares(old, index, "alpha")
    view = index.view(old)
    put(writer, *notes(2, start=100))
    assert len(shares(new, index, "alpha")) == 7
    places = view.postings.get(ALPHA, len(view.keys))
    assert places is not None
    assert places.tolist() == [0, 1, 2, 3, 4]
    assert ids(shares(old, index, "alpha")) == ids(before)


def test_a_list_that_was_read_before_the_index_went_on_is_not_kept(connections: list[Connection]) -> None:
    old, new, writer = connections
    index = PassageIndex()
    put(writer, *notes(5), *notes(5, "beta"))
    old.run("BEGIN")
    view = index.view(old)
    put(writer, *notes(2, start=100))
    shares(new, index, "beta")
    view.postings.put(ALPHA, np.arange(5, dtype=np.int32), len(view.keys), view.version)
    assert kept(index) is None


def test_a_list_read_by_a_reader_whose_snapshot_is_older_than_the_index_is_not_kept(
    connections: list[Connection],
) -> None:
    old, new, writer = connections
    index = PassageIndex()
    first = put(writer, *notes(5), *notes(5, "beta"))
    old.run("BEGIN")
    assert old.count("SELECT count(*) FROM memory") == 10
    later = put(writer, *notes(2, start=100))
    shares(new, index, "beta")  # the index is now ahead of `old`
    assert ids(shares(old, index, "alpha")) == set(first[:5])
    assert ids(shares(new, index, "alpha")) == {*first[:5], *later}
    old.run("ROLLBACK")
    assert ids(shares(old, index, "alpha")) == {*first[:5], *later}


def test_pairs_of_unspaced_characters_are_followed_too(connections: list[Connection]) -> None:
    reader, writer, _ = connections
    index = PassageIndex()
    put(writer, *notes(5, "数据库"), *notes(5, "会议"))
    assert len(shares(reader, index, "数据")) == 5
    assert kept(index, ("pair", "数据")) == [0, 1, 2, 3, 4]
    (added,) = put(writer, entry("新的数据"))
    assert added in ids(shares(reader, index, "数据"))
    assert shares(reader, index, "数据库 会议") == shares(reader, PassageIndex(), "数据库 会议")


def test_the_start_of_a_pair_is_looked_up_each_time(connections: list[Connection]) -> None:
    reader, writer, _ = connections
    index = PassageIndex()
    put(writer, *notes(5, "数据库"))
    assert len(shares(reader, index, "据")) == 5
    (added,) = put(writer, entry("据说"))
    found = shares(reader, index, "据")
    assert added in ids(found)
    assert found == shares(reader, PassageIndex(), "据")


def test_both_spellings_of_a_stem_are_one_list(connections: list[Connection]) -> None:
    reader, writer, _ = connections
    index = PassageIndex()
    one, two = put(writer, entry("deploy"), entry("deployment"))
    assert ids(shares(reader, index, "deploy")) == {one, two}
    three, four = put(writer, entry("we deploy again"), entry("the deployment again"))
    for word in ("deploy", "deployments"):
        assert ids(shares(reader, index, word)) == {one, two, three, four}


def test_a_list_goes_when_the_bytes_are_used_up_the_one_not_asked_for_longest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postings, "_LEAST_BYTES", 1_000)
    monkeypatch.setattr(postings, "_BYTES_PER_PASSAGE", 0)
    cache = PostingCache()
    size = 100_000
    for number in range(4):
        cache.put(("keyword", str(number)), np.arange(60, dtype=np.int32), size, 0)
    assert cache.nbytes == 4 * 60 * 4
    assert cache.get(("keyword", "0"), size) is not None
    cache.put(("keyword", "new"), np.arange(60, dtype=np.int32), size, 0)
    held = [term for term in ("0", "1", "2", "3", "new") if cache.get(("keyword", term), size) is not None]
    assert held == ["0", "2", "3", "new"]
    assert cache.nbytes == 4 * 60 * 4


def test_a_list_larger_than_all_there_is_room_for_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "_LEAST_BYTES", 100)
    monkeypatch.setattr(postings, "_BYTES_PER_PASSAGE", 0)
    cache = PostingCache()
    cache.put(ALPHA, np.arange(60, dtype=np.int32), 100_000, 0)
    assert cache.get(ALPHA, 100_000) is None
    assert cache.nbytes == 0


@pytest.mark.parametrize("every_nth", [1, 3, 31, 32, 33, 500])
def test_a_list_comes_back_as_it_was_given_whether_kept_as_places_or_bits(every_nth: int) -> None:
    size = 5_003
    places = np.arange(2, size, every_nth, dtype=np.int32)
    cache = PostingCache()
    cache.put(ALPHA, places, size, 0)
    assert cache.nbytes <= min(places.nbytes, size / 8 + 1)
    for upto in (size, 2, 1_000, 0):
        found = cache.get(ALPHA, upto)
        assert found is not None
        assert found.dtype == np.int32
        assert found.tolist() == places[places < upto].tolist()


def test_whatever_is_written_in_between_answers_are_the_same_with_and_without_remembered_lists(
    connections: list[Connection],
) -> None:
    reader, writer, other = connections
    chance = random.Random(3)
    index = PassageIndex()
    words = ["alpha", "beta", "deploy", "deployment", "café", "数据库", "会议", "the"]
    stored: list[str] = []

    def one(number: int) -> Entry:
        """Return a memory of three passages."""
        parts = [" ".join([*chance.choices(words, k=chance.randint(1, 4)), f"n{number}"]) for _ in range(3)]
        made = entry("\n".join(parts))
        starts = [sum(len(part) + 1 for part in parts[:place]) for place in range(3)]
        spans = [Passage(start, start + len(part)) for start, part in zip(starts, parts, strict=True)]
        return Entry(made.memory, spans, np.stack([unit(place) for place in range(3)]))

    def change(connection: Connection, number: int) -> None:
        match chance.choice(("put", "put", "put", "edit", "delete")):
            case "edit" if stored:
                made = one(number)
                patch = edit(made.memory.content)
                patch = type(patch)(
                    patch.updated_at, {}, patch.content, patch.content_hash, made.passages, made.vectors
                )
                id_ = chance.choice(stored)
                in_transaction(connection, lambda db: memories.update(db, id_, patch, MODEL))
            case "delete" if len(stored) > 20:
                going = [stored.pop(chance.randrange(len(stored))) for _ in range(chance.choice((1, 1, 15)))]
                remove(connection, *going)
            case _:
                stored.extend(put(connection, *(one(number * 10 + more) for more in range(chance.choice((1, 5))))))

    for number in range(150):
        change(chance.choice((writer, other)), number)
        text = " ".join(chance.choices([*words, "据"], k=3))
        where = chance.choice((EVERYTHING, Filter(ids=tuple(stored[::3]))))
        assert shares(reader, index, text, where) == shares(reader, PassageIndex(), text, where), number
    assert index.sizes["postings"] > 0
