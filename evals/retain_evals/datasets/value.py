"""A value of the data that knows where it stands, so that every complaint names row, question and field."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import cast

from retain import InvalidInputError

Row = Mapping[str, object]
"""One row of a dataset, as JSON gives it."""

_SHOWN_CHARACTERS = 80
_INVISIBLE = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))
"""Unicode categories of what nobody sees: spaces, control characters, zero-width joiners."""


def is_blank(text: str, /) -> bool:
    """Whether a text has no visible character; LongMemEval has turns of zero-width spaces."""
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


class Value:
    """A value at a place. Null counts as missing, because a table format fills absent fields with it.

    Every method raises `InvalidInputError` when the value is missing or not what the method is named after.
    """

    __slots__ = ("content", "path", "row")

    def __init__(self, content: object, row: str, path: str = "") -> None:
        self.content = content
        self.row = row
        self.path = path

    def __getitem__(self, field: str) -> "Value":
        """Return a field of an object; one that is absent is a missing value."""
        path = f"{self.path}.{field}" if self.path else field
        return Value(self.fields().get(field), self.row, path)

    def fields(self) -> Row:
        """Return the fields of an object."""
        content = self.content
        if not isinstance(content, Mapping):
            raise self.wrong("an object with fields")
        return cast(Row, content)

    def items(self) -> list["Value"]:
        """Return the members of a list."""
        content = self.content
        if not isinstance(content, list):
            raise self.wrong("a list")
        members = enumerate(cast(list[object], content))
        return [Value(member, self.row, f"{self.path}[{place}]") for place, member in members]

    def text(self) -> str:
        """Return a text, which may be blank."""
        if not isinstance(self.content, str):
            raise self.wrong("a text")
        return self.content

    def name(self) -> str:
        """Return a text that is not blank."""
        text = self.text()
        if not text.strip():
            raise self.wrong("a text that is not blank")
        return text

    def answer(self) -> str:
        """Return a text or a number, as text."""
        if isinstance(self.content, int | float) and not isinstance(self.content, bool):
            return str(self.content)
        if not isinstance(self.content, str):
            raise self.wrong("a text or a number")
        return self.name()

    def one_of(self, numbers: Collection[int]) -> int:
        """Return a whole number out of those that are allowed."""
        number = self.content
        if not isinstance(number, int) or isinstance(number, bool) or number not in numbers:
            raise self.wrong(f"one of {', '.join(map(str, numbers))}")
        return number

    def flag(self) -> bool:
        """Return true or false; a missing flag is false."""
        if self.content is None:
            return False
        if not isinstance(self.content, bool):
            raise self.wrong("true or false")
        return self.content

    def matching(self, pattern: re.Pattern[str], example: str) -> re.Match[str]:
        """Return how a whole text matches a pattern; the example shows the reader what is expected."""
        found = pattern.fullmatch(self.text())
        if found is None:
            raise self.wrong(f"a text such as {example!r}")
        return found

    def wrong(self, expected: str) -> InvalidInputError:
        """Return the error that says where the value stands, what it is, and what it should be."""
        shown = repr(self.content)
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[:_SHOWN_CHARACTERS]}…"
        problem = "is missing" if self.content is None else f"is {shown}"
        where = f"{self.row}: {self.path}" if self.path else self.row
        field = re.split(r"[.\[]", self.path)[0] or None
        return InvalidInputError(f"{where} {problem}; expected {expected}", field=field)
