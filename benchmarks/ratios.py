"""Values of one run held against each other: what a change may not worsen, whatever the machine."""

from benchmarks.readings import Reading, Readings

PAIRS = {
    "vec0_ratio": ("vec0", "dense"),
    "fts5_ratio": ("fts5", "keywords"),
    "recall_growth": ("recall_rest_large", "recall_rest_small"),
    "store_growth": ("store_rest_large", "store_rest_empty"),
    "rest_overhead": ("recall_rest_large", "recall_process_large"),
}
"""By figure: which reading is divided by which."""


def ratios(readings: Readings, /) -> Readings:
    """Return the ratios of what was measured."""
    return {
        key: Reading(readings[above].value / readings[below].value)
        for key, (above, below) in PAIRS.items()
        if above in readings and below in readings
    }
