"""Engineering memories of some 60 words and questions about them, generated: same seed, same texts.

Sentences have the shapes that people write in decision logs and postmortems. Words are drawn from a Zipf
distribution over a few hundred English words and several thousand made-up names, so that the keyword index meets
both very common and very rare terms.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from benchmarks import words

WORDS_ASKED = 60
"""A memory has this many words, give or take six."""
_PROJECTS, _PEOPLE, _IDENTIFIERS = 1_500, 900, 6_000


@dataclass(frozen=True, slots=True)
class Text:
    """A memory, a question of 8 to 12 words that it alone answers, and the tags it is stored with."""

    content: str
    question: str
    tags: tuple[str, ...]


class _Zipf:
    """Draws the n-th of some items with a probability that falls as 1 / n."""

    def __init__(self, items: Sequence[str]) -> None:
        self._items = items
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(items))))

    def draw(self, random_: random.Random) -> str:
        return random_.choices(self._items, cum_weights=self._weights)[0]


def _names(count: int, seed: int, syllables: tuple[int, int]) -> list[str]:
    random_ = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        parts = random_.randint(*syllables)
        name = "".join(random_.choice(words.ONSETS) + random_.choice(words.NUCLEI) for _ in range(parts))
        found[(name + random_.choice(words.CODAS)).capitalize()] = None
    return list(found)


def _shuffled(items: Sequence[str], seed: int) -> list[str]:
    copy = list(dict.fromkeys(items))
    random.Random(seed).shuffle(copy)
    return copy


class Author:
    """Writes memories; `seed` decides them all."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._projects = _Zipf(_names(_PROJECTS, 11, (2, 3)))
        self._people = _Zipf(_names(_PEOPLE, 12, (1, 2)))
        identifiers = [f"{a}_{b}" for a in words.NOUNS for b in words.NOUNS[::7]]
        self._identifiers = _Zipf(_shuffled(identifiers, 13)[:_IDENTIFIERS])
        self._nouns = _Zipf(_shuffled(words.NOUNS, 14))
        self._adjectives = _Zipf(_shuffled(words.ADJECTIVES, 15))
        self._verbs = _Zipf(_shuffled(words.VERBS, 16))

    def write(self) -> Iterator[Text]:
        """Yield memories without end, no two alike."""
        return map(self._text, self._subjects())

    def write_short(self) -> Iterator[Text]:
        """Yield memories of one sentence without end, no two alike."""
        return map(self._short_text, self._subjects())

    def _subjects(self) -> Iterator[dict[str, str]]:
        seen: set[int] = set()
        while True:
            subject = self._subject()
            key = hash((subject["project"], subject["component"], subject["asked"]))
            if key not in seen:
                seen.add(key)
                yield subject

    def _subject(self) -> dict[str, str]:
        random_ = self._random
        incident = random_.random() < 0.5
        told, asked = random_.choice(words.SYMPTOMS if incident else words.SETTINGS)
        before = random_.choice((2, 3, 4, 5, 8, 10, 12, 15, 16, 20, 24, 30, 32, 40, 50, 60, 64, 90, 100, 120, 250))
        return {
            "kind": "incident" if incident else "setting",
            "project": self._projects.draw(random_),
            "component": random_.choice(words.COMPONENTS),
            "told": told,
            "asked": asked,
            "before": str(before),
            "after": str(before * random_.choice((2, 3, 4, 5)) + random_.randint(0, 3)),
            "reason": random_.choice(words.REASONS),
            "when": random_.choice(words.WHENS),
            "person": self._people.draw(random_),
            "ticket": f"{random_.choice(('OPS', 'APP', 'NET', 'DATA'))}-{random_.randint(100, 9999)}",
        }

    def _text(self, subject: dict[str, str]) -> Text:
        openings, closings, questions = _SHAPES[subject["kind"]]
        sentences = [self._filled(openings, subject), self._filled(closings, subject)]
        while (missing := WORDS_ASKED - _count(sentences)) > 5:
            sentences.insert(-1, self._filled(_LONG_ASIDES if missing > 17 else _SHORT_ASIDES, subject))
        return Text(" ".join(sentences), self._filled(questions, subject), self._tags(subject))

    def _short_text(self, subject: dict[str, str]) -> Text:
        _, _, questions = _SHAPES[subject["kind"]]
        sentence = self._filled(_SENTENCES[subject["kind"]], subject)
        return Text(sentence, self._filled(questions, subject), self._tags(subject))

    def _tags(self, subject: dict[str, str]) -> tuple[str, ...]:
        return subject["component"], subject["kind"], self._nouns.draw(self._random)

    def _filled(self, shapes: Sequence[str], subject: dict[str, str]) -> str:
        random_ = self._random
        sentence = random_.choice(shapes).format(
            **subject,
            n1=self._nouns.draw(random_),
            n2=self._nouns.draw(random_),
            n3=self._nouns.draw(random_),
            a1=self._adjectives.draw(random_),
            a2=self._adjectives.draw(random_),
            v1=self._verbs.draw(random_),
            v2=self._verbs.draw(random_),
            other=self._people.draw(random_),
            identifier=self._identifiers.draw(random_),
            number=random_.randint(2, 97),
        )
        return sentence[0].upper() + sentence[1:]


def texts(count: int, seed: int = 1) -> list[Text]:
    """Return the first `count` memories of a seed; a longer list begins with the shorter one."""
    return list(islice(Author(seed).write(), count))


def _count(sentences: Sequence[str]) -> int:
    return sum(len(sentence.split()) for sentence in sentences)


_SHAPES: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "incident": (
        (
            "The {project} {component} {told} {when}, {reason}.",
            "{when}, we learned that the {project} {component} {told}, {reason}.",
            "Incident {ticket}: the {component} of {project} {told}; it did so {reason}.",
            "{person} found out why the {project} {component} {told}: it happened {reason}.",
        ),
        (
            "The fix was to change {identifier}, and {person} added a test for it.",
            "We now check {identifier} first; {person} wrote that into the runbook under {ticket}.",
            "{person} {v1} the {n1} and set {identifier} to {after}, which has held since.",
        ),
        (
            "Any idea why {project}'s {component} {asked}?",
            "Why was it the {project} {component} {asked}?",
            "How come the {component} of {project} {asked}?",
        ),
    ),
    "setting": (
        (
            "We raised the {told} of the {project} {component} from {before} to {after} {when}.",
            "Decision {ticket}: the {component} of {project} runs with a {told} of {after}, not {before}.",
            "{when}, {person} set the {told} of the {project} {component} to {after}; it had been {before}.",
            "After a {a1} {n1} we agreed on {after} for the {told} in the {project} {component}, up from {before}.",
        ),
        (
            "Do not lower it again without asking {person}, as {identifier} depends on it.",
            "{person} keeps the numbers next to {identifier}; see {ticket} for the {n1}.",
            "It went wrong earlier {reason}, so {identifier} is now checked at start.",
        ),
        (
            "What is the {asked} in {project}'s {component}?",
            "Which {asked} did we give the {project} {component}?",
            "How did we set the {asked} of {project}'s {component}?",
        ),
    ),
}
"""By kind: openings, closings, questions."""

_SENTENCES = {
    "incident": (
        "The {project} {component} {told}.",
        "{person}: the {component} of {project} {told}.",
        "{when} the {project} {component} {told}.",
    ),
    "setting": (
        "The {project} {component} has a {told} of {after}.",
        "{ticket}: {told} of the {project} {component} is {after}, was {before}.",
        "{person} set the {told} of {project}'s {component} to {after}.",
    ),
}
"""By kind: memories of one sentence."""

_LONG_ASIDES = (
    "Nobody had {v1} the {a1} {n1}, so the {n2} looked {a2} until {other} compared it with the {n3} of last week.",
    "{other} suggested a {a1} {n1} instead, but the {n2} would have taken {number} days and the {n3} was too {a2}.",
    "We first {v1} the {n1} and then {v2} the {n2}, which made no difference apart from a more {a1} {n3}.",
    "The {a1} {n1} showed {number} percent more {n2} than usual, and that is what a {a2} {n3} would look like.",
    "For the {n1}, keep in mind that {other} {v1} the {a1} {n2} by hand and that {identifier} is {a2}.",
    "If the {n1} becomes {a1} again, look at {identifier} before anything else, since the {n2} is only a {a2} {n3}.",
)
_SHORT_ASIDES = (
    "{other} {v1} the {a1} {n1} meanwhile.",
    "The {n1} stays {a1} for now.",
    "That leaves the {a1} {n1} and the {n2} for {other}.",
    "It cost us {number} hours and a {a1} {n1}.",
)
