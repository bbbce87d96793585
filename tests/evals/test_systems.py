"""Systems beside Retain: the full-text baseline, and peers behind a command or an address."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from retain import InvalidInputError, RetainError, StoreUnavailableError
from retain_evals.haystack import Haystack, Question, Session, Turn
from retain_evals.run import Mode
from retain_evals.runner import ask
from retain_evals.systems.bm25 import Bm25
from retain_evals.systems.external import External

HAYSTACK = Haystack(
    "h1",
    (
        Session("answer_a", "answer_a", None, (Turn("answer_a:0", "user", "I adopted a quokka named Ziggy."),)),
        Session(
            "b", "b", None, (Turn("b:0", "user", "The weather is fine."), Turn("b:1", "Anna", "My quokka ran away."))
        ),
    ),
    (Question("q1", "t", "What is my quokka called?", "Ziggy", None, frozenset({"answer_a"}), frozenset()),),
)


async def asked(system: Any, mode: Mode = "turn") -> Any:
    try:
        (one,) = await ask(system, mode, HAYSTACK)
    finally:
        await system.aclose()
    return one


async def test_full_text_search_finds_turns_or_whole_sessions_by_any_word():
    turns = await asked(Bm25())
    assert {place.turn for place in turns.raw} == {"answer_a:0", "b:0", "b:1"}
    assert {place.session for place in turns.grouped} == {"answer_a", "b"} and len(turns.grouped) == 2
    sessions = await asked(Bm25(), "session")
    assert {(place.session, place.turn) for place in sessions.raw} == {("answer_a", None), ("b", None)}


async def test_full_text_search_takes_any_question():
    from dataclasses import replace

    for text in ('"', "AND OR NOT", "quokka*", "(NEAR", "?!", "a:b"):
        question = replace(HAYSTACK.questions[0], text=text)
        (one,) = await ask(Bm25(), "turn", replace(HAYSTACK, questions=(question,)))
        assert len(one.raw) <= 3


PEER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    with open(sys.argv[1], "a") as log:
        log.write(line)
    {body}
"""
GOOD = """
    hits = [{"session": 1, "turn": 1, "score": 0.9}, {"session": 0, "turn": 0, "score": 0.5}]
    print(json.dumps({"hits": hits} if asked["op"] == "search" else {}), flush=True)
"""


def peer(tmp_path: Path, body: str) -> External:
    script = tmp_path / "peer.py"
    script.write_text(PEER.replace("    {body}", body if body == GOOD else f"    {body}"))
    return External(f"{sys.executable} '{script}' '{tmp_path / 'log'}'", label="peer")


async def test_a_command_is_told_what_was_said_and_nothing_that_gives_the_evidence_away(tmp_path: Path):
    one = await asked(peer(tmp_path, GOOD))
    assert [(place.session, place.turn, place.score) for place in one.raw] == [
        ("b", "b:1", 0.9),
        ("answer_a", "answer_a:0", 0.5),
    ]
    assert one.cpu_ms is None
    requests = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [request["op"] for request in requests] == ["store", "search", "search", "search", "forget"]
    assert requests[0]["sessions"][1] == {
        "session": 1,
        "started_at": None,
        "turns": [
            {"turn": 0, "role": "user", "content": "The weather is fine."},
            {"turn": 1, "role": "Anna", "content": "My quokka ran away."},
        ],
    }
    assert requests[-2] == {
        "op": "search", "haystack": "h1", "question": "What is my quokka called?", "k": 20, "grouped": True,
    }  # fmt: skip
    assert "answer_" not in (tmp_path / "log").read_text()


def answers(line: str) -> str:
    """Return the program of a peer that always answers the same."""
    return f"print({line!r}, flush=True)"


@pytest.mark.parametrize(
    ("body", "error", "told"),
    [
        ("sys.exit(3)", StoreUnavailableError, "ended before it answered store"),
        (answers("hello"), InvalidInputError, "no JSON object"),
        (answers("[]"), InvalidInputError, "no JSON object"),
        (answers('{"error": "no disk"}'), StoreUnavailableError, "refused store: no disk"),
        (answers("{}"), InvalidInputError, "without a list of hits"),
        (answers('{"hits": [{"session": 7, "turn": 0, "score": 1}]}'), InvalidInputError, "names no stored"),
        (answers('{"hits": [{"session": -1, "turn": 0, "score": 1}]}'), InvalidInputError, "names no stored"),
        (answers('{"hits": [{"session": 0, "score": 1}]}'), InvalidInputError, "names no stored"),
        (answers('{"hits": [{"session": 0, "turn": 0}]}'), InvalidInputError, "names no stored"),
    ],
)
async def test_what_a_command_does_wrong_is_told(tmp_path: Path, body: str, error: type[RetainError], told: str):
    with pytest.raises(error, match=told):
        await asked(peer(tmp_path, body))


@pytest.mark.parametrize("command", ["", "no-such-program-anywhere"])
async def test_a_command_that_can_not_be_started_is_told(command: str):
    with pytest.raises(InvalidInputError, match=r"is empty|can't be started"):
        await asked(External(command, label="peer"))


@contextmanager
def endpoint(answer: Callable[[dict[str, Any]], tuple[int, Any]]) -> Iterator[str]:
    """A peer behind HTTP, made up here."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = answer(body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_an_address_is_asked_the_same():
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {"hits": [{"session": 0, "score": 1}]} if body["op"] == "search" else {}

    with endpoint(answer) as url:
        one = await asked(External(url, label="http"), "session")
    assert [(place.session, place.turn) for place in one.grouped] == [("answer_a", None)]


async def test_an_address_that_refuses_or_is_not_there_is_told():
    with endpoint(lambda _: (500, {"detail": "broken"})) as url, pytest.raises(StoreUnavailableError, match="with 500"):
        await asked(External(url, label="http"))
    with pytest.raises(StoreUnavailableError, match="can't be reached"):
        await asked(External(url, label="http"))
