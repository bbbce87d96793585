"""Answers on disk: a folder with what was asked of whom, and a line for each answer.

    answering.json   data, run, models, k and the other settings that all answers of the folder share
    answers.jsonl    a line when a question is answered, and one that replaces it when the answer is judged

Starting again drops an unfinished last line and every line that was replaced, so that a finished file has one line for
each question. Keys are in neither file.
"""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import filelock

from retain import ConflictError, InvalidInputError

SETTINGS: Final = "answering.json"
ANSWERS: Final = "answers.jsonl"

Settings = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, judged or not yet.

    Attributes:
        prompt: Start of the SHA-256 of what the reader was asked, to tell whether it would be asked the same again.
        reader, judge: Names of the models; `judge` is None until the answer is judged.
        judged: Whether the judge says that it is correct; None until it is judged.
        verdict: What the judge said.
    """

    question_id: str
    question_type: str
    is_abstention: bool
    prompt: str
    answer: str
    reader: str
    judge: str | None = None
    judged: bool | None = None
    verdict: str | None = None


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("question_id", "question_type", "prompt", "answer", "reader"), (str,)),
    "is_abstention": (bool,),
    "judge": (str, type(None)),
    "judged": (bool, type(None)),
    "verdict": (str, type(None)),
}


class AnswerFolder:
    """A folder of answers. It need not exist before the first answer."""

    def __init__(self, path: Path, /) -> None:
        self.path = path

    def read(self) -> dict[str, Answer]:
        """Return the answers by question id, in the order in which they came; none if there is no such folder.

        Raises:
            InvalidInputError: a line is damaged.
        """
        answers: dict[str, Answer] = {}
        for answer in _lines(self.path / ANSWERS):
            answers[answer.question_id] = answer
        return answers

    def require(self, settings: Settings, /) -> None:
        """Make sure that answers with these settings may join those that are here.

        Raises:
            InvalidInputError: the answers here are to something else or by other models; the message names what.
        """
        path = self.path / SETTINGS
        if not path.exists():
            if (self.path / ANSWERS).exists():
                raise self._refused(f"holds {ANSWERS} without {SETTINGS}, so that nobody knows whose answers they are")
            return
        here = _settings(path)
        told = [
            f"{name}: {here.get(name)} there, {settings.get(name)} now"
            for name in sorted({*here, *settings})
            if here.get(name) != settings.get(name)
        ]
        if told:
            raise self._refused(f"holds answers with other settings ({'; '.join(told)})")

    @contextmanager
    def writer(self, settings: Settings, /) -> Generator["AnswerWriter"]:
        """Append answers, and keep other processes from it.

        Raises:
            InvalidInputError: as `read` and `require`, or the folder can't be made.
            ConflictError: another process writes here.
        """
        with self._locked():
            self.require(settings)
            _replace(self.path / SETTINGS, (json.dumps(settings, indent=2) + "\n").encode())
            known = self.read()
            _replace(self.path / ANSWERS, b"".join(_line(answer) for answer in known.values()))
            with (self.path / ANSWERS).open("ab", buffering=0) as file:
                yield AnswerWriter(file, known)

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"{self.path} can't be made: {error.strerror}", field="out") from None
        lock = filelock.FileLock(self.path / ".answers.lock", timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise ConflictError(f"another process answers into {self.path}; wait for it") from None
        try:
            yield
        finally:
            lock.release()

    def _refused(self, why: str) -> InvalidInputError:
        return InvalidInputError(f"{self.path} {why}; give another --out", field="out")


class AnswerWriter:
    """Appends answers to a folder. `known` are those that were there before."""

    def __init__(self, file: BinaryIO, known: Mapping[str, Answer], /) -> None:
        self._file = file
        self.known = known

    def add(self, answer: Answer, /) -> None:
        """Append an answer; it is in the file on return, and replaces an earlier line of its question."""
        left = memoryview(_line(answer))
        while left:  # unbuffered files may take a part only
            left = left[self._file.write(left) :]


def _line(answer: Answer) -> bytes:
    return json.dumps(asdict(answer)).encode() + b"\n"


def _lines(path: Path) -> Iterator[Answer]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            answer = _answer(line)
            if answer is None:
                raise InvalidInputError(f"{path}, line {number} is no answer; remove that line", field="out")
            yield answer


def _answer(line: bytes) -> Answer | None:
    try:
        read: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(read, dict) or read.keys() != _TYPES.keys():
        return None
    fields = cast("dict[str, Any]", read)
    return Answer(**fields) if all(isinstance(fields[name], kinds) for name, kinds in _TYPES.items()) else None


def _settings(path: Path) -> dict[str, Any]:
    try:
        read: Any = json.loads(path.read_bytes())
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise InvalidInputError(f"{path} is damaged; give another --out", field="out")
    return cast("dict[str, Any]", read)


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_bytes(content)
    unfinished.replace(path)
