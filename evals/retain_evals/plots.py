"""Plots of reports, for notebooks and slides. Each function draws one figure and returns it."""

# matplotlib leaves the types of its keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from typing import Any, Final

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from retain_evals.intervals import Difference, Mean
from retain_evals.metrics import GROUPED, KS, View
from retain_evals.report import ABSTENTION, ALL, ANSWERABLE, Report

COLOURS: Final = ("#0b6e4f", "#d1495b", "#30638e", "#edae49", "#6a4c93", "#7f7f7f")
"""Told apart also by readers who do not see red and green, and in grey."""
_GREY: Final = "#8a8f98"


def recall_by_k(
    report: Report,
    /,
    *,
    metric: str = "recall_fraction",
    view: View = GROUPED,
    questions: str = ALL,
    names: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a measure over k, a line for each run, with 95 % intervals and what a random order reaches.

    Args:
        names: What runs are called in the plot, in the order in which they are drawn; all by default.
    """
    figure, axes = _axes(7.2, 4.2)
    shown = names or {name: name for name in report.runs}
    for colour, (name, label) in zip(COLOURS, shown.items(), strict=False):
        means = report.runs[name].scores[view][questions]
        line = [means[f"{metric}@{k}"] for k in KS]
        axes.plot(KS, [100 * mean.value for mean in line], "-o", color=colour, label=label, linewidth=2, markersize=5)
        axes.fill_between(
            KS, [100 * mean.low for mean in line], [100 * mean.high for mean in line], color=colour, alpha=0.12
        )
    chance = report.runs[next(iter(shown))].chance
    if view == GROUPED and f"{metric}@{KS[0]}" in chance:
        axes.plot(KS, [100 * chance[f"{metric}@{k}"] for k in KS], ":", color=_GREY, label="random order")
    axes.set_ylim(top=102)
    axes.set_xscale("log")
    axes.set_xticks(KS, [str(k) for k in KS])
    axes.minorticks_off()
    axes.set_xlabel("k: how many results are read")
    axes.set_ylabel(f"{metric}@k, %")
    axes.set_title(f"{metric}@k, {view}, {questions}", loc="left")
    axes.legend(frameon=False, loc="lower right")
    return figure


def by_type(
    report: Report,
    /,
    *,
    metric: str = "recall_fraction@5",
    view: View = GROUPED,
    names: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a measure for each type of question, with 95 % intervals, a row of points for each type."""
    shown = names or {name: name for name in report.runs}
    first = report.runs[next(iter(shown))].scores[view]
    types = [kind for kind in first if kind not in (ALL, ANSWERABLE, ABSTENTION)]
    figure, axes = _axes(7.2, 1.4 + 0.55 * len(types))
    gap = 0.6 / max(1, len(shown))
    for place, (colour, (name, label)) in enumerate(zip(COLOURS, shown.items(), strict=False)):
        scores = report.runs[name].scores[view]
        rows = np.arange(len(types)) + (place - (len(shown) - 1) / 2) * gap
        _points(axes, [scores[kind][metric] for kind in types], rows, colour, label)
    axes.set_xlim(min(axes.get_xlim()[0], 90), 102)
    axes.set_yticks(range(len(types)), [f"{kind} (n = {first[kind][metric].n})" for kind in types])
    axes.invert_yaxis()
    axes.set_xlabel(f"{metric}, %, with 95 % intervals")
    axes.set_title(f"{metric} by type of question, {view}", loc="left")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.14 - 0.3 / len(types)), ncols=len(shown))
    return figure


def _points(axes: Axes, means: Sequence[Mean], rows: NDArray[Any], colour: str, label: str) -> None:
    values = np.array([[mean.value, mean.low, mean.high] for mean in means]) * 100
    errors = np.abs(values[:, 1:] - values[:, :1]).T
    axes.errorbar(values[:, 0], rows, xerr=errors, fmt="o", color=colour, label=label, capsize=2, markersize=5)


def differences(found: Mapping[str, Difference], /, *, metric: str, against: str) -> Figure:
    """Draw how far each of several runs lies from one, in points with 95 % intervals; filled when more than noise."""
    figure, axes = _axes(7.2, 1.3 + 0.45 * len(found))
    for row, difference in enumerate(found.values()):
        mean = difference.mean
        colour = COLOURS[1] if mean.value < 0 else COLOURS[0]
        axes.plot([100 * mean.low, 100 * mean.high], [row, row], "-", color=colour, linewidth=1.5)
        face = colour if difference.is_more_than_noise else "white"
        axes.plot(100 * mean.value, row, "o", color=colour, markerfacecolor=face, markersize=7)
        axes.annotate(
            f"{100 * mean.value:+.1f}", (100 * mean.value, row), (0, 7), textcoords="offset points", ha="center"
        )
    axes.axvline(0, color=_GREY, linewidth=1)
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(len(found) - 0.5, -0.7)
    axes.set_xlabel(f"points of {metric} against {against}; filled: more than noise")
    axes.set_title(f"What each part is worth: {metric}", loc="left")
    return figure


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained", dpi=120)
    axes.grid(color="#e6e8eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
