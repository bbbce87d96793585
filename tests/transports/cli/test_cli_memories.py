"""store, session, get, update and delete on the command line."""

import json

import pytest

from tests.transports.cli.running import Cli

UNKNOWN_ID = "0197f3a0-0000-7000-8000-000000000000"


def test_store_prints_the_id_and_what_is_known(cli: Cli) -> None:
    outcome = cli("store", "The deploy freeze ends on Friday", "--tag", "release", "--type", "decision")
    assert outcome.code == 0
    assert outcome.out.startswith("stored ")
    assert "decision" in outcome.out
    assert "#release" in outcome.out


def test_store_takes_every_field(cli: Cli) -> None:
    old = cli.stored("Limit is 100/min", "--namespace", "/team/a")
    stored = cli.json(
        "store", "Limit is 250/min", "--tag", "api", "--tag", "two words", "--type", "fact", "--namespace", "/team/a",
        "--agent", "r1", "--conversation", "c1", "--sequence", "3", "--metadata", '{"pr": 12}',
        "--occurred-at", "2026-03-01T14:00:00Z", "--supersedes", old,
    )  # fmt: skip
    memory = stored["memory"]
    assert memory["tags"] == ["api", "two words", "agent:r1"]
    assert memory["type"] == "fact"
    assert memory["namespace"] == "/team/a"
    assert (memory["agent_id"], memory["conversation_id"], memory["sequence"]) == ("r1", "c1", 3)
    assert memory["metadata"] == {"pr": 12}
    assert memory["occurred_at"] == "2026-03-01T14:00:00.000Z"
    assert cli.json("get", old)["superseded_by"] == memory["id"]


def test_store_reads_standard_input(cli: Cli) -> None:
    memory = cli.json("store", "-", stdin="first line\nsecond\tline ü\n".encode())["memory"]
    assert memory["content"] == "first line\nsecond\tline ü"


def test_standard_input_must_be_utf8(cli: Cli) -> None:
    code, error = cli.refused("store", "-", stdin="Zürich".encode("latin-1"))
    assert code == 2
    assert "not UTF-8" in error


def test_storing_twice_is_said_and_merges_tags(cli: Cli) -> None:  # C053, C058
    first = cli.stored("Use uv, not pip.", "--tag", "a")
    outcome = cli("store", "Use uv, not pip.", "--tag", "b")
    assert outcome.code == 0
    assert outcome.out.startswith(f"there already: {first}")
    assert "#a #b" in outcome.out
    assert cli.json("stats")["total"] == 1


def test_tags_are_repeated_or_separated_by_commas_and_json_keeps_commas(cli: Cli) -> None:  # C065
    memory = cli.json("store", "text", "-t", "x,y", "-t", "z", "-t", '["c,d"]')["memory"]
    assert memory["tags"] == ["x", "y", "z", "c,d"]


@pytest.mark.parametrize(
    "tag", ["msg:cluster", "c++", "🔥", "C#", "a/b", "two words", "50%", "a_b", "back\\slash", "[x]"]
)
def test_any_tag_is_stored_found_renamed_and_deleted_exactly(cli: Cli, tag: str) -> None:  # C062, C069
    cli.stored("other", "-t", "axb")
    cli.stored("mine", "-t", tag)
    assert [memory["content"] for memory in cli.json("list", "-t", tag)["memories"]] == ["mine"]
    assert cli.json("tags", "rename", tag, "renamed") == {"changed": 1}
    assert cli.json("tags", "rename", "renamed", tag) == {"changed": 1}
    assert cli.json("delete", "-t", tag, "--expect", "1")["count"] == 1


def test_notes_of_one_conversation_are_all_stored(cli: Cli) -> None:  # C055
    for text in ("Excalidraw log rotation broken", "Excalidraw log rotation fixed by daily cron"):
        assert cli.json("store", text, "--conversation", "c1")["created"]
    assert not cli.json("store", "Excalidraw log rotation broken", "--conversation", "c1")["created"]


def test_an_idempotency_key_makes_a_retry_harmless(cli: Cli) -> None:  # C058
    first = cli.json("store", "once", "--idempotency-key", "k")
    assert cli.json("store", "once", "--idempotency-key", "k")["memory"]["id"] == first["memory"]["id"]
    code, _ = cli.refused("store", "other", "--idempotency-key", "k")
    assert code == 4


def test_a_text_that_begins_with_a_dash_comes_after_two_dashes(cli: Cli) -> None:
    assert cli.json("store", "--", "--json is an option")["memory"]["content"] == "--json is an option"


TURNS = [{"role": "user", "content": "Where is staging?"}, {"role": "assistant", "content": "Port 6543."}]


def test_a_session_is_read_from_a_file_of_one_array(cli: Cli) -> None:
    (cli.folder / "talk.json").write_text(json.dumps(TURNS))
    stored = cli.json("session", "talk.json", "--conversation", "c1")
    assert [item["memory"]["sequence"] for item in stored["stored"]] == [0, 1]


def test_a_session_is_read_line_by_line_and_grows(cli: Cli) -> None:
    lines = "".join(json.dumps(turn) + "\n" for turn in TURNS)
    assert cli("session", "-", "--conversation", "c1", stdin=lines.encode()).code == 0
    longer = lines + json.dumps({"role": "user", "content": "Thanks"}) + "\n"
    outcome = cli("session", "-", "--conversation", "c1", stdin=longer.encode())
    assert outcome.out == "stored 1 memory of conversation c1; 2 were there already\n"


def test_a_session_can_be_one_memory_beside_a_fact_about_the_same(cli: Cli) -> None:  # C057
    cli.stored("We use Redis for queues")
    turns = [{"role": "user", "content": "Redis queues?"}, {"role": "assistant", "content": "We use Redis for queues"}]
    stored = cli.json("session", "-", "--mode", "session", stdin=json.dumps(turns).encode())
    assert len(stored["stored"]) == 1
    assert stored["stored"][0]["created"]


def test_a_faulty_turn_is_named_by_its_place(cli: Cli) -> None:
    _, error = cli.refused("session", "-", stdin=b'[{"role": "user", "content": "x"}, {"role": "user"}]')
    assert "turns[1].content" in error


def test_get_shows_the_whole_content(cli: Cli) -> None:
    content = "A long line that goes on and on. " * 12 + "\n\nAnd an end."
    outcome = cli("get", cli.stored(content, "--metadata", '{"pr": 12}'))
    assert outcome.out.endswith(content + "\n")
    assert '{"pr": 12}' in outcome.out


def test_update_changes_only_what_is_given(cli: Cli) -> None:
    memory_id = cli.stored("text", "-t", "a", "--type", "decision")
    changed = cli.json("update", memory_id, "--content", "new text")
    assert (changed["content"], changed["tags"], changed["type"]) == ("new text", ["a"], "decision")
    assert cli.json("update", memory_id, "--no-tags")["tags"] == []
    assert cli.json("update", memory_id, "--archive")["archived_at"] is not None
    assert cli.json("update", memory_id, "--unarchive")["archived_at"] is None


def test_a_mark_of_replacement_can_be_set_and_taken_away(cli: Cli) -> None:
    old, new = cli.stored("old"), cli.stored("new")
    assert cli.json("update", old, "--superseded-by", new)["superseded_by"] == new
    assert cli.json("update", old, "--not-superseded")["superseded_by"] is None


def test_update_refuses_to_do_nothing_and_contradictions(cli: Cli) -> None:
    memory_id = cli.stored("text")
    assert "nothing to change" in cli.refused("update", memory_id)[1]
    assert cli.refused("update", memory_id, "--tag", "a", "--no-tags")[0] == 2


def test_delete_takes_one_id_or_several_at_once(cli: Cli) -> None:
    one, two, three = (cli.stored(f"memory {number}") for number in range(3))
    assert cli("delete", one).out == "deleted 1 memory\n"
    assert cli.json("delete", two, three)["count"] == 2
    assert cli.json("stats")["total"] == 0


def test_of_several_ids_all_or_none_are_deleted(cli: Cli) -> None:
    memory_id = cli.stored("kept")
    assert cli.refused("delete", memory_id, UNKNOWN_ID)[0] == 4
    assert cli.json("get", memory_id)["content"] == "kept"


def test_delete_by_condition_wants_a_confirmation_that_a_script_can_give(cli: Cli) -> None:
    for number in range(3):
        cli.stored(f"bulk {number}", "-t", "bulk")
    _, error = cli.refused("delete", "--tag", "bulk")
    assert "3 memories" in error
    assert "--expect 3" in error
    assert cli("delete", "--tag", "bulk", "--dry-run").out == "would delete 3 memories\n"
    assert cli.refused("delete", "--tag", "bulk", "--expect", "2")[0] == 4
    assert cli("delete", "--tag", "bulk", "--yes").out == "deleted 3 memories\n"


def test_delete_without_any_condition_is_refused(cli: Cli) -> None:
    memory_id = cli.stored("text")
    assert cli.refused("delete", "--yes")[0] == 2
    assert cli.refused("delete", memory_id, "--tag", "x")[0] == 2
    assert cli.json("stats")["total"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("get", "not-an-id"), 2, "UUID"),
        (("get", UNKNOWN_ID), 3, "no memory"),
        (("delete", UNKNOWN_ID), 3, "no memory"),
        (("update", UNKNOWN_ID, "--content", "x"), 3, "no memory"),
        (("store", ""), 2, "content is empty"),
        (("store", "nul \0 here"), 2, "NUL"),
        (("store", "half \ud83d"), 2, "surrogate"),  # C200
        (("store", "x", "--tag", "half \ud83d"), 2, "surrogate"),
        (("store", "x", "--type", "nonsense"), 2, "retain types --add nonsense"),
        (("store", "x", "--tag", "a" * 101), 2, "100"),  # C068
        (("store", "x", "--metadata", "[1]"), 2, "metadata"),
        (("store", "x", "--metadata", "no json"), 2, "metadata"),
        (("store", "x", "--occurred-at", "2026-02-29"), 2, "occurred_at"),
        (("store", "x", "--namespace", "/a//b"), 2, "namespace"),
        (("store", "x", "--sequence", "one"), 2, "--sequence"),
        (("session", "missing.json"), 2, "missing.json"),
        (("store",), 2, "retain store --help"),
        (("store", "x", "--jsn"), 2, "--json"),
        (("stor", "x"), 2, "Did you mean 'store'"),
        (("--url", "http://127.0.0.1:9", "stats"), 8, "retain serve"),
        (("--url", "http://127.0.0.1:9", "-d", "x.db", "stats"), 2, "not both"),
        (("-d", "postgres://host/db", "stats"), 2, "sqlite:///"),
        (("-d", ".", "stats"), 8, "folder"),
        (("-d", "missing/x.db", "stats"), 8, "missing"),
    ],
)
def test_what_is_impossible_is_refused_in_one_line_with_its_exit_code(
    cli: Cli, arguments: tuple[str, ...], code: int, word: str
) -> None:
    refused_with, error = cli.refused(*arguments)
    assert (refused_with, word in error) == (code, True), error


def test_with_json_an_error_is_the_problem_that_the_service_sends(cli: Cli) -> None:
    outcome = cli("get", UNKNOWN_ID, "--json")
    assert (outcome.code, outcome.out) == (3, "")
    problem = json.loads(outcome.err)
    assert (problem["code"], problem["status"], problem["field"]) == ("not_found", 404, "id")
    assert json.loads(cli("get", "--json").err)["code"] == "invalid_input"


def test_a_file_that_is_no_database_is_left_alone(cli: Cli) -> None:
    cli.database.write_bytes(b"precious notes\n" * 400)
    code, error = cli.refused("list")
    assert code == 8
    assert "memories.db" in error
    assert cli.database.read_bytes() == b"precious notes\n" * 400
