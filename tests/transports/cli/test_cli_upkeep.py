"""export, import, reembed, compact, doctor, keys, config and serve on the command line."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import apsw
import pytest

from retain.domain.errors import EmbeddingError
from retain.embeddings.hashed import HashedEmbedder
from tests.transports.cli.running import Cli


def fill(cli: Cli) -> None:
    """Store one of everything."""
    old = cli.stored(
        "old 👩‍👩‍👧‍👦 🇨🇭 שלום e\u0301 \u202eabc",
        "-t",
        '["c,d"]',
        "-t",
        "🔥",
        "--metadata",
        '{"a": {"b": [1, null]}}',
        "--namespace",
        "/x",
    )
    cli.stored(
        "new", "--supersedes", old, "--namespace", "/x", "--agent", "r1", "--conversation", "c1", "--sequence", "0"
    )
    cli.json("update", cli.stored("archived", "--occurred-at", "2019-05-04"), "--archive")
    cli.json("types", "--add", "recipe", "--parent", "learning")
    cli.json("delete", cli.stored("deleted"))


ANOTHER = {"id": "hashed-128@test-only", "dimensions": 128}


def another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the test-only embedder is another model, of another size."""
    monkeypatch.setattr(HashedEmbedder.__init__, "__defaults__", (128, 254))


def exported(cli: Cli, *options: str) -> list[dict[str, object]]:
    outcome = cli("export", "-", *options)
    assert (outcome.code, outcome.err) == (0, "")
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_export_and_import_lose_nothing(cli: Cli) -> None:  # C171, C202
    fill(cli)
    before = exported(cli)
    assert cli("export", "all.jsonl").out == "exported 3 memories to all.jsonl\n"
    outcome = cli("-d", "copy.db", "import", "all.jsonl")
    assert outcome.out == "imported 3 memories; 0 were there already; 1 deletions noted\n"
    after = exported(cli, "-d", "copy.db")
    assert after[1:] == before[1:]
    assert {record["kind"] for record in after} == {"header", "type", "memory", "tombstone"}
    assert (cli.folder / "all.jsonl").read_text("utf-8").splitlines()[1:] == [
        json.dumps(record, ensure_ascii=False) for record in before[1:]
    ]


def test_importing_again_changes_nothing(cli: Cli) -> None:
    fill(cli)
    cli("export", "all.jsonl")
    assert cli.json("import", "all.jsonl") == {"created": 0, "skipped": 3, "tombstones": 0}


def test_import_reads_standard_input(cli: Cli) -> None:
    cli.stored("text")
    lines = cli("export").out
    assert cli.json("-d", "copy.db", "import", "-", stdin=lines.encode())["created"] == 1


def test_a_filter_restricts_an_export(cli: Cli) -> None:
    fill(cli)
    kept = [record["content"] for record in exported(cli, "--agent", "r1") if record["kind"] == "memory"]
    assert kept == ["new"]


def test_an_export_replaces_a_file_only_when_told_to(cli: Cli) -> None:
    cli.stored("text")
    Path("precious.txt").write_text("mine")
    assert "--force" in cli.refused("export", "precious.txt")[1]
    assert Path("precious.txt").read_text() == "mine"
    assert cli("export", "precious.txt", "--force").code == 0
    assert list(cli.folder.glob(".precious*")) == []


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "header"),
        (b"no json\n", "line 1"),
        (b"[1]\n", "line 1 is no JSON object"),
        (b'{"kind": "memory"}\n', "header"),
        ("Zürich".encode("latin-1"), "line 1 is not UTF-8"),
        (b'{"kind": "header", "format": "retain", "version": 99}\n', "upgrade"),
        (b'{"kind": "header", "format": "retain", "version": 1}\n{"kind": "memory", "id": NaN}\n', "line 2"),
        (b'{"kind": "header", "format": "retain", "version": 1}\n{"kind": "memory"}\n', "line 2"),
    ],
)
def test_a_faulty_import_names_the_line(cli: Cli, content: bytes, word: str) -> None:
    code, error = cli.refused("import", "-", stdin=content)
    assert (code, word in error) == (2, True), error


def test_reembed_backs_up_switches_and_keeps_everything(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cli)
    before = exported(cli)
    old = cli.json("stats")["model"]
    monkeypatch.setenv("RETAIN_EMBEDDING", "default")
    code, error = cli.refused("recall", "text")
    assert code == 7
    assert "retain reembed" in error
    assert cli("recall", "new", "--mode", "keyword").code == 0
    assert cli("list").code == 0
    outcome = cli("reembed")
    assert outcome.code == 0
    assert "embedded 3 memories with all-MiniLM-L6-v2" in outcome.out
    (backup,) = cli.folder.glob("memories.before-reembed-*.db")
    assert outcome.err == f"backup: {backup}\n"
    assert exported(cli)[1:] == before[1:]
    assert cli.json("recall", "new", "-k", "1")["memories"][0]["content"] == "new"
    assert cli.json("stats")["model"] != old
    assert cli.json("-d", str(backup), "stats")["model"] == old


def test_reembed_goes_on_where_it_stopped(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        cli.stored(f"memory {number}")
    monkeypatch.setattr("retain.core.reembed.BATCH", 1)
    another_model(monkeypatch)
    working, left = HashedEmbedder.embed_passages, [2]

    async def fails_after_two(self: HashedEmbedder, texts: list[str]) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise EmbeddingError("the endpoint is gone")
        return await working(self, texts)

    monkeypatch.setattr(HashedEmbedder, "embed_passages", fails_after_two)
    outcome = cli("reembed", "--no-backup")
    assert (outcome.code, outcome.err) == (7, "error: the endpoint is gone\n")
    left[0] = 1
    assert cli.json("reembed", "--no-backup") == {
        "embedded": 1,
        "model": ANOTHER,
        "backup": None,
    }


def test_reembed_makes_no_backup_for_a_model_that_can_not_be_had(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.stored("text")
    another_model(monkeypatch)

    async def fails(self: HashedEmbedder, text: str) -> object:
        raise EmbeddingError("the endpoint is gone")

    monkeypatch.setattr(HashedEmbedder, "embed_query", fails)
    assert cli("reembed").code == 7
    assert list(cli.folder.glob("*.before-reembed-*")) == []


def test_reembed_that_goes_on_keeps_to_its_first_backup(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        cli.stored(f"memory {number}")
    old = cli.json("stats")["model"]
    monkeypatch.setattr("retain.core.reembed.BATCH", 1)
    another_model(monkeypatch)
    working, left = HashedEmbedder.embed_passages, [1]

    async def fails_after_one(self: HashedEmbedder, texts: list[str]) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise EmbeddingError("the endpoint is gone")
        return await working(self, texts)

    monkeypatch.setattr(HashedEmbedder, "embed_passages", fails_after_one)
    assert cli("reembed").code == 7
    (backup,) = cli.folder.glob("*.before-reembed-*")
    assert cli("reembed").code == 7
    left[0] = 10
    assert cli.json("reembed")["backup"] == str(backup)
    assert list(cli.folder.glob("*.before-reembed-*")) == [backup]
    assert cli.json("-d", str(backup), "stats")["model"] == old


def test_reembed_has_nothing_to_do_with_the_same_model_or_no_memory(cli: Cli) -> None:
    assert "nothing to do" in cli("reembed").out
    cli.stored("text")
    assert "nothing to do" in cli("reembed").out
    assert list(cli.folder.glob("*before-reembed*")) == []
    assert cli.json("reembed", "--force", "--no-backup")["embedded"] == 1


def test_compact_says_the_size_before_and_after(cli: Cli) -> None:
    cli.stored("text")
    assert re.fullmatch(r"[\d.]+ kB before, [\d.]+ kB now\n", cli("compact").out)


def test_doctor_says_what_it_checked(cli: Cli) -> None:
    cli.stored("text")
    outcome = cli("doctor", "--deep")
    assert outcome.code == 0
    for word in ("settings", "database", "integrity", "model", "round trip", "found"):
        assert word in outcome.out
    assert cli.json("stats")["total"] == 1


def test_doctor_finds_and_mends_what_disagrees(cli: Cli) -> None:
    cli.stored("text")
    with apsw.Connection(str(cli.database)) as connection:
        connection.execute("UPDATE namespace SET active = 7")
    damaged = cli("doctor", "--json")
    assert (damaged.code, damaged.json["ok"]) == (8, False)
    assert "retain doctor --repair" in damaged.out
    assert cli("doctor", "--repair").code == 0
    assert cli("doctor").code == 0


def damaged_page(cli: Cli, name: str) -> None:
    """Fill one leaf page of a table with noise."""
    connection = apsw.Connection(str(cli.database))
    sql = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path LIMIT 1"
    page = int(str(connection.execute(sql, (name,)).fetchall()[0][0]))
    connection.close()
    raw = bytearray(cli.database.read_bytes())
    raw[(page - 1) * 4096 : page * 4096] = b"\xaa" * 4096
    cli.database.write_bytes(raw)


def test_doctor_saves_what_a_damaged_file_holds_and_embeds_it_again(cli: Cli) -> None:
    for number in range(20):
        cli.stored(f"the quokka number {number} eats")
    damaged_page(cli, "passage")
    told = cli("doctor")
    assert told.code == 8
    assert "retain doctor --repair" in " ".join(told.out.split())
    mended = cli("doctor", "--repair", "--json")
    checks = {check["name"]: check for check in mended.json["checks"]}
    assert (mended.code, mended.json["ok"]) == (0, True), mended.out
    assert "20 memories are in a new one, none was lost" in checks["rescue"]["detail"]
    assert checks["embedded again"]["ok"]
    assert len(mended.json["checks"]) == len({check["name"] for check in mended.json["checks"]})
    assert len(list(cli.folder.glob("memories.damaged-*.db"))) == 1
    assert cli("doctor").code == 0
    assert len(cli.json("recall", "quokka", "-k", "3")["memories"]) == 3


def test_doctor_fails_and_counts_when_memories_are_lost(cli: Cli) -> None:
    for number in range(40):
        cli.stored(f"memory {number} {'with many words ' * 20}")
    damaged_page(cli, "memory")
    mended = cli("doctor", "--repair", "--json")
    (rescue,) = [check for check in mended.json["checks"] if check["name"] == "rescue"]
    assert (mended.code, rescue["ok"]) == (8, False)
    assert "could not be read" in rescue["detail"]
    assert cli("doctor").code == 0
    assert 0 < cli.json("stats")["total"] < 40


def test_doctor_fails_when_the_model_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:  # C197
    cli.stored("text")
    monkeypatch.setenv("RETAIN_EMBEDDING", "./no-such-folder")
    outcome = cli("doctor")
    assert outcome.code != 0
    assert "no-such-folder" in outcome.out
    assert "integrity" in outcome.out


def test_doctor_names_both_models_when_they_differ(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.stored("text")
    another_model(monkeypatch)
    outcome = cli("doctor", "--json")
    (check,) = [check for check in outcome.json["checks"] if not check["ok"]]
    assert outcome.code == 7
    assert ANOTHER["id"] in check["detail"]
    assert "retain reembed" in check["detail"]


def test_doctor_tells_of_a_damaged_file(cli: Cli) -> None:
    cli.database.write_bytes(b"no database\n" * 400)
    outcome = cli("doctor", "--json")
    assert outcome.code == 8
    assert "memories.db" in outcome.out


def test_keys_are_shown_once_listed_and_revoked(cli: Cli) -> None:
    made = cli.json("keys", "create", "bot", "--read-write", "--namespace", "team", "--agent", "r1")
    assert made["key"].startswith("rtn_")
    assert (made["namespace"], made["can_write"], made["agent_id"]) == ("/team", True, "r1")
    shown = cli("keys", "create", "reader")
    assert re.fullmatch(r"rtn_\S+\n", shown.out)
    assert "can't be shown again" in shown.err
    listed = cli("keys").out
    assert "read, write" in listed
    assert made["key"] not in listed
    assert [key["name"] for key in cli.json("keys", "list")["keys"]] == ["bot", "reader"]
    assert cli("keys", "revoke", "bot").out == "revoked bot\n"
    assert [key["name"] for key in cli.json("keys")["keys"]] == ["reader"]
    assert cli.refused("keys", "revoke", "bot")[0] == 3
    assert cli.refused("keys", "create", "reader")[0] == 4


@pytest.mark.parametrize("command", [("keys",), ("keys", "create", "x"), ("reembed",), ("compact",), ("serve",)])
def test_what_needs_the_file_is_not_done_through_a_service(cli: Cli, command: tuple[str, ...]) -> None:
    assert "--database" in cli.refused("--url", "http://127.0.0.1:9", *command)[1]


def test_config_shows_every_setting_its_value_and_its_source(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:  # C196
    monkeypatch.setenv("RETAIN_API_KEY", "rtn_secret")
    monkeypatch.setenv("RETAIN_EMBEDDING", "https://user:hunter2@models.example/v1#m")
    Path("retain.toml").write_text("port = 9003\n")
    monkeypatch.setenv("RETAIN_CONFIG", "retain.toml")
    outcome = cli("config", "-d", "here.db")
    assert re.search(r"port +9003 +file\n", outcome.out)
    assert re.search(r"database_url +here\.db +argument\n", outcome.out)
    assert re.search(r"host +127\.0\.0\.1 +default\n", outcome.out)
    assert re.search(r"api_key +\*+ +environment\n", outcome.out)
    everything = outcome.out + cli("config", "--json").out
    assert "rtn_secret" not in everything
    assert "hunter2" not in everything
    rows = {row["name"]: row for row in cli.json("config")["settings"]}
    assert rows["port"]["variable"] == "RETAIN_PORT"
    assert rows["allowed_hosts"]["value"] == []


def test_a_misspelt_variable_is_warned_of_on_stderr(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_DATABSE_URL", "x")
    monkeypatch.setenv("RETAIN_SOMETHING_ELSE_ENTIRELY", "x")
    outcome = cli("stats", "--json")
    assert outcome.code == 0
    assert outcome.json["total"] == 0
    assert outcome.err.startswith("warning: RETAIN_DATABSE_URL is no setting")
    assert "did you mean RETAIN_DATABASE_URL?" in outcome.err
    assert "ENTIRELY" not in outcome.err
    assert "RETAIN_SOMETHING_ELSE_ENTIRELY" in cli("config").out


def test_a_wrong_setting_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:  # C195
    monkeypatch.setenv("RETAIN_PORT", "abc")
    code, error = cli.refused("stats")
    assert code == 2
    for word in ("RETAIN_PORT", "environment", "'abc'", "0 to 65535"):
        assert word in error


def test_the_default_database_gets_its_folder(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETAIN_DATABASE_URL")
    monkeypatch.setenv("XDG_DATA_HOME", str(cli.folder / "new" / "data"))
    assert cli("stats").code == 0
    assert (cli.folder / "new" / "data" / "retain" / "memories.db").is_file()


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_without_the_server_extra_the_way_to_get_it_is_said(
    cli: Cli, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # C190
    monkeypatch.setattr(
        "retain.transports.cli.serving.find_spec", lambda name: None if name == "uvicorn" else find_spec(name)
    )
    code, error = cli.refused(command)
    assert code == 6
    assert 'pip install "retain[server]"' in error


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (("--host", "0.0.0.0"), 5, "retain keys create"),
        (("--port", "70000"), 2, "0 to 65535"),
        (("--port", "web"), 2, "0 to 65535"),
        (("--host", "no.such.host.invalid", "--port", "0"), 2, "--host"),
    ],
)
def test_serve_refuses_what_is_unsafe_or_impossible(cli: Cli, options: tuple[str, ...], code: int, word: str) -> None:
    if word == "--host":
        cli.json("keys", "create", "x")
    refused_with, error = cli.refused("serve", *options)
    assert (refused_with, word in error) == (code, True), error


def test_a_port_that_is_taken_is_said_with_the_way_out(cli: Cli) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, error = cli.refused("serve", "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "in use" in error
    assert "--port" in error
