"""recall, list, tags, types and stats on the command line, and how they look."""

import json
import re

import pytest

from tests.transports.cli.running import Cli


@pytest.fixture
def real_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_EMBEDDING", "default")


def contents(listing: dict[str, list[dict[str, str]]]) -> list[str]:
    return [memory["content"] for memory in listing["memories"]]


@pytest.mark.usefixtures("real_model")
def test_recall_finds_what_was_stored_in_other_words(cli: Cli) -> None:  # Shows 4
    cli.stored("API rate limit is 100 requests a minute", "--tag", "api")
    cli.stored("The deploy freeze ends on Friday")
    cli.stored("Mara prefers review comments as questions")
    assert contents(cli.json("recall", "when can we ship again?"))[0] == "The deploy freeze ends on Friday"
    outcome = cli("recall", "when can we ship again?", "-k", "1")
    assert outcome.code == 0
    assert re.search(r"1 +0\.\d\d +The deploy freeze ends on Friday", outcome.out)
    assert re.search(r"why: semantic 0\.\d\d, related 0\.\d\d, keyword 0\.00", outcome.out)


@pytest.mark.usefixtures("real_model")
def test_a_correction_names_what_it_resembles(cli: Cli) -> None:  # Shows 6
    first = cli.stored("Limit is 100/min")
    outcome = cli("store", "Limit is 250/min")
    assert "similar to" in outcome.out
    assert first in outcome.out
    assert "Limit is 100/min" in outcome.out
    assert cli.json("stats")["total"] == 2


@pytest.mark.usefixtures("real_model")
def test_the_same_mistake_in_other_words_is_kept_as_well(cli: Cli) -> None:  # C060
    for text in ("Posted to GitHub without approval", "Commented on GitHub without showing the draft"):
        assert cli.json("store", text)["created"]


def test_recall_takes_every_option(cli: Cli) -> None:
    cli.stored("old note on redis", "-t", "a", "-t", "b", "--occurred-at", "2019-05-04", "--agent", "r1")
    cli.stored("new note on redis", "-t", "a", "--type", "bug", "--namespace", "/x/y", "--metadata", '{"env": "prod"}')
    ask = ("recall", "note on redis", "--mode", "keyword")
    for options, expected in (
        (("--tag", "a", "--tag", "b", "--tag-match", "all"), "old"),  # C064
        (("--exclude-tag", "b"), "new"),
        (("--type", "error"), "new"),
        (("--namespace", "/x"), "new"),
        (("--since", "2019-01-01", "--until", "2020-01-01"), "old"),
        (("--time", "in 2019", "--timezone", "Europe/Berlin"), "old"),
        (("--agent", "r1"), "old"),
        (("--metadata", '{"env": "prod"}'), "new"),
    ):
        assert contents(cli.json(*ask, *options)) == [f"{expected} note on redis"], options
    assert contents(cli.json(*ask, "-t", "a", "-t", "missing", "--tag-match", "all")) == []
    assert len(contents(cli.json(*ask, "-k", "1"))) == 1
    assert len(contents(cli.json(*ask, "--group-by", "conversation"))) == 2
    assert contents(cli.json(*ask, "--min-score", "1")) == []
    assert contents(cli.json(*ask, "--state", "archived")) == []


def test_words_for_a_time_are_read_from_the_question_when_asked_for(cli: Cli) -> None:
    cli.stored("note on redis", "--occurred-at", "2019-05-04")
    cli.stored("another note on redis")
    outcome = cli("recall", "note on redis in 2019", "--time-from-query", "--mode", "keyword")
    assert "read as a time: from 2019-01-01 00:00Z before 2020-01-01 00:00Z" in outcome.out
    assert outcome.out.count("note on redis") == 1


def test_nothing_found_is_said_and_no_failure(cli: Cli) -> None:
    outcome = cli("recall", "anything")
    assert (outcome.code, outcome.out) == (0, "nothing found\n")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("-k", "0"), "k must be"),
        (("-k", "-3"), "k must be"),
        (("-k", "99999999999999999999"), "k must be"),
        (("-k", "many"), "-k"),
        (("--min-score", "7"), "min_score"),
        (("--mode", "psychic"), "'hybrid'"),
        (("--tag-match", "everything"), "'any'"),  # C064
        (("--group-by", "mood"), "conversation"),
        (("--time", "whenever"), "whenever"),
        (("--since", "2026-13-45"), "since"),
        (("--state", "forgotten"), "active"),
        (("--timezone", "Mars"), "Mars"),
    ],
)
def test_an_impossible_question_is_refused(cli: Cli, options: tuple[str, ...], word: str) -> None:
    code, error = cli.refused("recall", "text", *options)
    assert (code, word in error) == (2, True), error


def test_list_pages_and_says_how_to_go_on(cli: Cli) -> None:
    for number in range(5):
        cli.stored(f"memory {number}")
    first = cli("list", "--limit", "2")
    cursor = re.search(r"2 of 5; go on with --cursor (\S+),", first.out)
    assert cursor
    assert "memory 4" in first.out
    rest = cli("list", "--limit", "10", "--cursor", cursor[1])
    assert [f"memory {number}" in rest.out for number in range(5)] == [True, True, True, False, False]
    assert cli.refused("list", "--cursor", "nonsense")[0] == 2


def test_list_all_follows_every_page(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retain.transports.cli.finding.ALL_AT_ONCE", 2)
    for number in range(5):
        cli.stored(f"memory {number}")
    listing = cli.json("list", "--all")
    assert contents(listing) == [f"memory {number}" for number in (4, 3, 2, 1, 0)]
    assert (listing["total"], listing["next_cursor"]) == (5, None)
    shown = cli("list", "--all").out
    assert [shown.count(f"memory {number}") for number in range(5)] == [1] * 5
    assert shown.endswith("5 memories\n")


def test_tags_are_counted_renamed_and_merged(cli: Cli) -> None:
    cli.stored("one", "-t", "bug")
    cli.stored("two", "-t", "Bug")
    cli.stored("three", "-t", "bugs", "-t", "rare")
    assert cli.json("tags", "merge", "Bug", "bugs", "--into", "bug") == {"changed": 2}
    assert cli.json("tags", "--min", "2") == {"tags": [{"tag": "bug", "count": 3}]}
    assert re.search(r"bug +3", cli("tags").out)
    assert cli.json("tags", "list") == cli.json("tags")
    assert cli.refused("tags", "rename", "missing", "x")[0] == 3


def test_an_own_type_can_be_added_and_used(cli: Cli) -> None:
    types = cli.json("types", "--add", "recipe", "--parent", "learning")["types"]
    assert {"type": "recipe", "parent": "learning", "count": 0, "namespace": "/"} in types
    assert cli.json("store", "x", "--type", "recipe")["memory"]["type"] == "recipe"
    assert cli.refused("types", "--parent", "learning")[0] == 2
    assert cli.refused("types", "--add", "decision")[0] == 2


def test_stats_count_what_a_listing_shows(cli: Cli) -> None:
    cli.stored("one", "-t", "a")
    cli.json("update", cli.stored("two"), "--archive")
    stats = cli.json("stats")
    assert (stats["total"], stats["archived"], stats["tags"]) == (1, 1, 1)
    assert re.search(r"memories +1\n", cli("stats").out)


DANGEROUS = "a\x1b[31mred\x07 \u202eabc \u200bz\r\u2028 👩‍👩‍👧‍👦 🇨🇭 שלום e\u0301"


@pytest.mark.parametrize("command", [("list",), ("recall", "שלום", "--mode", "keyword"), ("get",)])
def test_control_and_direction_characters_are_shown_as_escapes(cli: Cli, command: tuple[str, ...]) -> None:  # C202
    memory_id = cli.stored(DANGEROUS, "-t", "ta\u202eg")
    shown = cli(*command, *([memory_id] if command == ("get",) else [])).out
    assert not set("\x1b\x07\u202e\u200b\r\u2028") & set(shown)
    assert "\\x1b[31mred\\x07" in shown
    assert "\\u202eabc" in shown
    assert "👩‍👩‍👧‍👦 🇨🇭 שלום e\u0301" in shown


def test_json_keeps_every_code_point(cli: Cli) -> None:  # C202
    memory_id = cli.stored(DANGEROUS)
    assert cli.json("get", memory_id)["content"] == DANGEROUS


def test_nothing_is_wider_than_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")  # a path is shown whole, however long
    cli.stored("word " * 200, "-t", "a-tag-that-is-quite-long", "-t", "another tag", "--namespace", "/" + "n" * 90)
    cli.stored("數據庫" * 100)
    for arguments in (("list",), ("recall", "word"), ("tags",), ("types",), ("stats",), ("config",), ("doctor",)):
        for line in cli(*arguments).out.splitlines():
            assert len(line) <= 80, (arguments, line)


def test_what_looks_like_markup_is_shown_as_it_is(cli: Cli) -> None:
    cli.stored("[bold]not bold[/bold] [/] :smile:", "-t", "[red]")
    shown = cli("list").out
    assert "[bold]not bold[/bold] [/] :smile:" in shown
    assert "#[red]" in shown


def test_every_answer_with_json_is_one_document(cli: Cli) -> None:
    memory_id = cli.stored("text", "-t", "a")
    for arguments in (
        ("recall", "text"), ("list",), ("get", memory_id), ("tags",), ("types",), ("stats",), ("config",), ("doctor",),
        ("keys",), ("compact",), ("delete", "-t", "a", "--dry-run"),
    ):  # fmt: skip
        outcome = cli(*arguments, "--json")
        assert isinstance(json.loads(outcome.out), dict), arguments
        assert outcome.err == "", arguments
