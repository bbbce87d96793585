"""Reading server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream; `data` is "" for one that only moves `id`."""

    id: int | None
    data: str


async def lines_of(chunks: AsyncIterator[bytes], /) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a byte stream, however it is cut, without their ends."""
    rest = b""
    async with aclosing(cast("Any", chunks)):
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.removesuffix(b"\r")
    if rest:
        yield rest


async def parsed_events(chunks: AsyncIterator[bytes], /) -> AsyncGenerator[Message, None]:
    """Yield the events of a stream; comments and what is cut off at the end are left out."""
    number: int | None = None
    data: list[str] = []
    async with aclosing(lines_of(chunks)) as lines:
        async for raw in lines:
            line = raw.decode("utf-8")
            if not line:
                if number is not None or data:
                    yield Message(number, "\n".join(data))
                number, data = None, []
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id" and value.isdecimal():
                number = int(value)
            elif name == "data":
                data.append(value)
