"""Standard input and output as a clean channel: protocol on it, everything else on stderr.

Standard library only, so that it can take hold of the descriptors before anything heavy is imported.
"""

import os
import sys
from collections.abc import Iterator

_CHUNK = 65_536


class Channel:
    """The process's stdin and stdout, taken away from everybody else.

    From then on descriptor 1 is stderr and descriptor 0 the null device, so that `print`, a C library or a child
    process can neither write into the protocol nor read from it.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._in = os.dup(0)
        self._out = os.dup(1)
        os.dup2(2, 1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        sys.stdout = sys.stderr

    def lines(self) -> Iterator[bytes]:
        """Yield each line that comes in, without its end, until the other side closes. Blocks."""
        # No BufferedReader: its lock, held by a blocked thread, would be fatal at interpreter shutdown.
        begun: list[bytes] = []
        while chunk := os.read(self._in, _CHUNK):
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                yield b"".join((*begun, line))
                begun.clear()
            if rest:
                begun.append(rest)
        if begun:
            yield b"".join(begun)

    def write(self, line: bytes) -> None:
        """Write one message and its line end, whole. Blocks while the other side does not read.

        Raises:
            OSError: the other side is gone.
        """
        rest = memoryview(line + b"\n")
        while rest:
            rest = rest[os.write(self._out, rest) :]
