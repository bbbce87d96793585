"""Values of one run held against each other: what a change may not worsen, whatever the machine."""

from benchmarks.readings import Reading, Readings

PAIRS = {
    "vec0_ratio": ("vec0", "dense"),
    "fts5_ratio": ("fts5", "keywords"),
    "recall_growth": ("recall_rest_large", "recall_rest_small"),
    "store_growth": ("store_rest_large", "store_rest_empty"),
    "rest_overhead": ("recall_rest_large", "recall_process_large"),
    "scale_vec0_ratio": ("scale_vec0", "scale_dense"),
    "scale_fts5_ratio": ("scale_fts5", "scale_keywords"),
    "scale_floor_ratio": ("scale_dense", "scale_floor"),
    "scale_tag1_ratio": ("scale_tag1", "scale_hybrid"),
    "scale_tag10_ratio": ("scale_tag10", "scale_hybrid"),
    "scale_growth": ("scale_hybrid", "recall_core_large"),
    "scale_list_growth": ("scale_list_end", "scale_list_front"),
    "huge_growth": ("huge_hybrid", "scale_hybrid"),
    "huge_fts5_ratio": ("huge_fts5", "huge_keywords"),
    "huge_list_growth": ("huge_list_end", "huge_list_front"),
}
"""By figure: which reading is divided by which."""


def ratios(readings: Readings, /) -> Readings:
    """Return the ratios of what was measured."""
    return {
        key: Reading(readings[above].value / readings[below].value)
        for key, (above, below) in PAIRS.items()
        if above in readings and below in readings
    }
