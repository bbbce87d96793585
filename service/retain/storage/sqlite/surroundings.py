"""What stands before and after a passage in its conversation: the order in which things were said and stored."""

import numpy as np

from retain.domain.scoring import REACH
from retain.storage.sqlite.index import Mask, Positions, View
from retain.storage.sqlite.keywords import Windows

MIDDLE = len(REACH)
"""The column of the passage itself."""


def windows(view: View, chosen: Positions, alive: Mask, /) -> Windows:
    """Return (n, 2r + 1) for n `chosen` positions, ascending and alive: those around each in its thread, -1 for none.

    A thread reads by memories as they were stored, and passages as they stand in them. Only what is `alive` counts.
    """
    order, place = _threads_in_order(view, chosen, alive)
    around = place[:, None] + np.arange(-MIDDLE, MIDDLE + 1)
    inside = (around >= 0) & (around < len(order))
    found = order[np.where(inside, around, place[:, None])].astype(np.int32)
    return np.where(inside & (view.threads[found] == view.threads[chosen][:, None]), found, np.int32(-1))


def _threads_in_order(view: View, chosen: Positions, alive: Mask) -> tuple[Positions, Positions]:
    """Return the positions of all passages of the threads of `chosen`, in reading order, and where `chosen` are."""
    threads = view.threads[chosen].astype(np.int64)
    least = int(view.threads.min())
    asked = np.zeros(int(view.threads.max()) - least + 1, dtype=np.bool_)
    asked[threads - least] = True
    near = np.flatnonzero(asked[view.threads - np.int32(least)] & alive)
    sorting = np.lexsort((view.memories[near], view.threads[near]))  # stable: within a memory the order stays
    rank = np.empty(len(near), dtype=np.intp)
    rank[sorting] = np.arange(len(near))
    return near[sorting], rank[np.searchsorted(near, chosen)]


def is_conversation(view: View, positions: Positions, /) -> Mask:
    """Return which passages belong to a conversation."""
    return view.threads[positions] > 0
