"""What writers were told is done, held against what a database has."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

UNSURE = ""
"""Hash of a memory that was being changed when its writer stopped: the old content or the new one is right."""


@dataclass(slots=True)
class Acknowledged:
    """The state of memories according to the lines of `benchmarks.workers.Writer`.

    Attributes:
        present: Hash of the content by id.
        gone: Ids that were deleted.
    """

    present: dict[str, str] = field(default_factory=dict[str, str])
    gone: set[str] = field(default_factory=set[str])

    def read(self, lines: Iterable[str]) -> None:
        """Take in lines of one writer, up to its end."""
        for line in lines:
            verb, id_, *rest = line.split()
            if verb in ("stored", "changed"):
                self.present[id_] = rest[0]
            elif verb == "changing":
                self.present[id_] = UNSURE
            elif verb == "deleting":  # may be there or not when the writer is killed now
                self.present.pop(id_, None)
            elif verb == "deleted":
                self.gone.add(id_)
            else:
                raise ValueError(f"not a line of a writer: {line}")

    def lost(self, found: Mapping[str, str]) -> list[str]:
        """Return what is wrong with `found` (hash by id): missing, old content, or back from the dead."""
        wrong = [f"{id_} is missing" for id_ in self.present if id_ not in found]
        wrong += [
            f"{id_} has other content"
            for id_, hash_ in self.present.items()
            if hash_ != UNSURE and found.get(id_, hash_) != hash_
        ]
        return wrong + [f"{id_} is back" for id_ in self.gone if id_ in found]
