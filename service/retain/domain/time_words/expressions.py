"""Time expressions: how mentions of time become one range, alone or inside a sentence.

    expression = [lead] mention [to mention]          "since last week", "from January to March 2026"
    mention    = phrase {join mention}                "Friday" "of last week" "at 3pm"

A phrase is a row of `phrases.PHRASES`; it takes what is beside it only when the two belong together.
"""

import re
from dataclasses import replace
from datetime import datetime, tzinfo

from retain.domain.errors import InvalidInputError
from retain.domain.time_words.phrases import read_phrase
from retain.domain.time_words.spans import Calendar, Mention, NoSuchTimeError, Standing

Ends = tuple[datetime | None, datetime | None]
"""The two ends of a half-open range; None leaves that side open."""

_STARTING = {"since", "ever since", "starting", "starting from", "starting in"}
# The words that lead a time, and the bound that they make of it; "" makes none.
_LEADS = {
    **dict.fromkeys(["in", "on", "at", "during", "within", "over", "throughout"], ""),
    **dict.fromkeys(["from", "between", "for", "of"], ""),
    **dict.fromkeys(_STARTING, "since"),
    **dict.fromkeys(["after", "later than"], "after"),
    **dict.fromkeys(["before", "prior to", "earlier than"], "before"),
    **dict.fromkeys(["until", "till", "up to", "up until", "through", "by", "as of"], "until"),
}
_LEADS_A_RANGE = {"from", "between"} | {word for word, bound in _LEADS.items() if bound in {"since", "after"}}
# The leads after which a "March", "2025" or "Friday" in a sentence is a time. Not "by": "written by April".
_EITHER = _STARTING | {"over", "during", "after", "before", "prior to", "until", "till", "from", "between"}
_ENOUGH_FOR = {
    Standing.IN: _EITHER | {"in", "within", "throughout"},
    Standing.ON: _EITHER | {"on", "at"},
    Standing.DOUBTFUL: _EITHER | {"in", "on", "throughout"},
    Standing.CLOCK: _STARTING,
}
_NESTED = 3  # "morning" "of the 5th" "of March" "2025": deeper than this belongs to no time anyone writes


def _any_of(words: list[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True)).replace(" ", r"\s+")


_LEAD = re.compile(rf"(?:(?:sometime|earlier)\s+)?(?:({_any_of(list(_LEADS))})\s+)?")
_JOIN = re.compile(r"(?:\s*,\s*|\s+|-)(?:(?:of|in|on|at|during)\s+)?")
_TO = re.compile(
    r"\s+(?:(?:and\s+)?(?P<before>before)|(?P<and>and)|(?:and\s+)?(?:to|until|till|through|thru|up\s+to))\s+"
    r"|\s*(?:-|\.\.)\s*"
)
_ONWARDS = re.compile(r"\s+(?:onwards?(?!\w)|on\s*$)")
_BEGIN = re.compile(r"(?<![\w/.@#:$-])\w+")  # a word that isn't in the middle of a path, address or number
_END = re.compile(r"(?:'s?(?!\w))?(?![\w/@]|[-.:']\w)")  # takes "last week's" whole, leaves "friday.md" alone
_EMPTY_PAIRS = {"()", "[]", '""', "''", "“”", "‘’"}
_TRAILING = re.compile(r"[\s.,;:!?]*")


class ExpressionReader:
    """Reads one text, once."""

    def __init__(self, text: str, now: datetime, zone: tzinfo, field: str, *, in_sentence: bool) -> None:
        if now.utcoffset() is None:
            raise InvalidInputError("now: must be a datetime with a time zone", field="now")
        self._original = text
        self._text = _folded(text)
        self._calendar = Calendar(now, zone)
        self._field = field
        self._in_sentence = in_sentence
        self._mentions: dict[tuple[int, int], tuple[Mention, int] | None] = {}

    def whole(self) -> Ends | None:
        """The range, if the text is one expression and nothing else."""
        found = self._expression(len(self._text) - len(self._text.lstrip()))
        return found[0] if found and _TRAILING.fullmatch(self._text, found[1]) else None

    def first(self) -> tuple[Ends, str] | None:
        """The first range in the text that bounds the past, and the text without it."""
        position = 0
        while word := _BEGIN.search(self._text, position):
            found = self._expression(word.start())
            if found is None:
                position = word.end()
                continue
            (since, until), position = found
            bound = since or until
            if bound and bound <= self._calendar.now:
                rest = _joined(self._original[: word.start()], self._original[position:])
                return (since, until), rest
        return None

    def _expression(self, position: int) -> tuple[Ends, int] | None:
        lead = _LEAD.match(self._text, position)
        assert lead is not None  # every part of it is optional
        word = " ".join((lead[1] or "").split())
        try:
            found = self._mention(lead.end())
            if found is None or found[0].standing is Standing.PART:
                return None
            return self._range(word, *found) or self._single(word, *found)
        except NoSuchTimeError as error:
            message = f"there is no such date or time as {self._written(str(error))!r}"
        except OverflowError:
            message = f"{self._original[:80]!r} reaches outside the years 1 to 9999"
        raise InvalidInputError(f"{self._field}: {message}", field=self._field)

    def _mention(self, position: int, nested: int = _NESTED) -> tuple[Mention, int] | None:
        key = position, nested
        if key not in self._mentions:
            found = read_phrase(self._text, position, self._calendar)
            while found and nested and (joined := self._joined_to(*found, nested)):
                found = joined
            self._mentions[key] = found
        return self._mentions[key]

    def _joined_to(self, mention: Mention, end: int, nested: int) -> tuple[Mention, int] | None:
        join = _JOIN.match(self._text, end)
        beside = self._mention(join.end(), nested - 1) if join else None
        if join is None or beside is None:
            return None
        part, whole = (mention, beside[0]) if mention.belongs_to(beside[0]) else (beside[0], mention)
        if not part.belongs_to(whole):
            return None
        joined = part.inside(whole)
        if whole.cycle and whole.standing is Standing.DOUBTFUL and "of" not in join[0]:  # "early may fail"
            joined = replace(joined, standing=Standing.DOUBTFUL)
        return joined, beside[1]

    def _range(self, lead: str, first: Mention, end: int) -> tuple[Ends, int] | None:
        to = _TO.match(self._text, end)
        found = self._mention(to.end()) if to else None
        if to is None or found is None:
            return None
        second, end = found
        after = self._end_of_expression(end)
        if after is None or second.standing is Standing.PART or not self._leads_to(lead, to, first, second):
            return None
        start, stop = self._calendar.pair(first, second)
        since = start.end if _LEADS.get(lead) == "after" else start.start
        until = stop.start if to["before"] else stop.end
        if since >= until:
            names = f"{self._written(first.text)!r} is not before {self._written(second.text)!r}"
            message = f"the range ends before it starts: {names}"
            raise InvalidInputError(f"{self._field}: {message}", field=self._field)
        return (since, until), after

    def _leads_to(self, lead: str, to: re.Match[str], first: Mention, second: Mention) -> bool:
        if to["and"]:
            return lead == "between" and self._may_span(lead, first, second)
        if to["before"]:
            return _LEADS.get(lead) in {"since", "after"}
        return _LEADS.get(lead, "") in {"", "since", "after"} and self._may_span(lead, first, second)

    def _may_span(self, lead: str, first: Mention, second: Mention) -> bool:
        if not self._in_sentence:
            return True
        standings = {first.standing, second.standing}
        if lead in _LEADS_A_RANGE:
            return first.standing is not Standing.NEVER and standings != {Standing.CLOCK}
        months = first.unit == second.unit and first.unit in {"day", "month", "quarter"}
        named = months and standings <= {Standing.FREE, Standing.IN, Standing.DOUBTFUL}
        return standings == {Standing.FREE} or (named and standings != {Standing.DOUBTFUL})

    def _single(self, lead: str, mention: Mention, end: int) -> tuple[Ends, int] | None:
        bound = _LEADS.get(lead, "")
        if lead == "from" and (onwards := _ONWARDS.match(self._text, end)):
            bound, end = "since", onwards.end()
        after = self._end_of_expression(end)
        if after is None or (self._in_sentence and not _stands(mention, lead)):
            return None
        if lead == "between" and " and " not in mention.text:
            return None
        return self._bounded(bound, mention), after

    def _bounded(self, bound: str, mention: Mention) -> Ends:
        span = mention.latest(self._calendar.now)
        if bound == "before":
            return None, span.start
        if bound == "until":
            return None, span.end
        if bound:
            since = span.end if bound == "after" else span.start
            return since, self._calendar.end_of_now if since < self._calendar.end_of_now else None
        since, until = span.start - span.before, span.end + span.after
        if since >= until:  # a day that the zone skipped, as Samoa did with 2011-12-30
            raise NoSuchTimeError(mention.text)
        return since, until

    def _written(self, phrase: str) -> str:
        """The phrase with the capitals of the original."""
        start = self._text.find(phrase)
        return self._original[start : start + len(phrase)] if start >= 0 else phrase

    def _end_of_expression(self, end: int) -> int | None:
        match = _END.match(self._text, end)
        return match.end() if match else None


def _stands(mention: Mention, lead: str) -> bool:
    return mention.standing is Standing.FREE or lead in _ENOUGH_FOR.get(mention.standing, ())


def _folded(text: str) -> str:
    """Lower case with plain dashes and apostrophes, every character in its place."""
    lowered = (lower if len(lower := char.lower()) == 1 else char for char in text)
    return "".join(lowered).translate(str.maketrans("‐‑‒–—−’", "------'"))


def _joined(before: str, after: str) -> str:
    """What is left when an expression is cut out between the two."""
    before, after = before.rstrip(), after.lstrip()
    if before[-1:] + after[:1] in _EMPTY_PAIRS:
        before, after = before[:-1].rstrip(), after[1:].lstrip()
    if not before or before[-1] in ",;:":
        after = after.lstrip(" ,;:")
    if not after:
        return before.rstrip(" ,;:")
    return f"{before}{'' if not before or after[0] in '.,;:!?)' else ' '}{after}"
