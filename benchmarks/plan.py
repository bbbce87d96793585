"""How much is measured: `BENCH=quick` for a smoke test, the standard plan for the figures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes in memories, times in seconds, the rest in operations.

    Attributes:
        small, large: Memories in the two databases that recall is measured on.
        starts: Runs of whatever is measured by starting a process.
        operations: Recalls and stores of one measurement, after `warm_up` others that do not count.
        load_s, clients: How long and by how many clients the server is loaded.
        sharing_s, processes: How long and by how many processes one file is shared.
        kill_rounds: How many writers are killed.
        scale, huge: Short memories, of one passage each, in the databases that stand for large stores: with vectors of
            the real model, and with synthetic ones; no huge one for 0.
        imported: Short memories that are imported in bulk.
    """

    name: str
    small: int = 1_000
    large: int = 10_000
    starts: int = 3
    operations: int = 200
    warm_up: int = 30
    load_s: float = 30.0
    clients: int = 16
    sharing_s: float = 20.0
    processes: int = 4
    kill_rounds: int = 50
    scale: int = 100_000
    huge: int = 0
    imported: int = 20_000


PLANS = {
    plan.name: plan
    for plan in (
        Plan("standard"),
        Plan("full", huge=1_000_000, imported=100_000),
        Plan("quick", small=300, large=1_000, starts=1, operations=60, load_s=8, sharing_s=5, kill_rounds=6,
             scale=5_000, imported=1_000),
        Plan("tiny", small=20, large=40, starts=1, operations=8, warm_up=2, load_s=1, clients=4, sharing_s=1,
             processes=2, kill_rounds=2, scale=600, huge=600, imported=100),
    )
}  # fmt: skip
"""By name. "tiny" only proves that everything runs; its figures mean nothing."""
