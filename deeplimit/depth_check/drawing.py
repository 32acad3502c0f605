"""The picture of a depth check: sizes of updates against depth, with the power laws found and expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeplimit.depth_check.scaling import BranchScaling
from deeplimit.ground.plotting import PREDICTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f")


def draw_over_depths(
    axes: Axes,
    levels: Sequence[int],
    branches: Sequence[BranchScaling],
    statuses: Sequence[str],
    wanted: float | None,
) -> None:
    """Draw the size of each kind's update, divided by that at the first depth; `wanted`: expected exponent.

    Sizes are relative, so that slopes compare at a glance.
    """
    from matplotlib.ticker import NullFormatter, NullLocator, ScalarFormatter

    depths = np.asarray(levels, dtype=float)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    least = 1.0
    for place, kind in enumerate(branches):
        colour = COLOURS[place % len(COLOURS)]
        if not all(0 < size < math.inf for size in kind.sizes):
            axes.plot([], [], color=colour, marker="o", label=f"{kind.kind}: zero at the start")
            continue
        sizes = np.asarray(kind.sizes) / kind.sizes[0]
        least = min(least, float(sizes.min()))
        told = (
            "not deepened"
            if kind.exponent is None
            else f"{kind.exponent:.2f} [{kind.exponent_interval[0]:.2f}, {kind.exponent_interval[1]:.2f}]"
            if kind.exponent_interval
            else ""
        )
        marker = "X" if statuses[place] == "not as expected" else "o"
        axes.plot(depths, sizes, color=colour, marker=marker, label=f"{kind.kind}: {told}")
    for exponent, name in ((0.5, "1/2: neural SDE"), (1.0, "1: neural ODE")):
        line = (depths / depths[0]) ** -exponent
        meant = wanted is not None and abs(exponent - wanted) < 1e-9
        axes.plot(
            depths,
            line,
            color=PREDICTED,
            linestyle="-" if meant else ":",
            linewidth=2.5 if meant else 1.0,
            alpha=0.5,
            zorder=0,
        )
        axes.annotate(
            name + ("\n(expected)" if meant else ""),
            (depths[-1], line[-1]),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=PREDICTED,
        )
    if wanted is not None and wanted not in (0.5, 1.0):
        axes.plot(
            depths,
            (depths / depths[0]) ** -wanted,
            color=PREDICTED,
            linewidth=2.5,
            alpha=0.5,
            zorder=0,
            label=f"expected: {wanted:g}",
        )
    axes.set_ylim(0.7 * min(least, (depths[-1] / depths[0]) ** -1.0), None)
    axes.set_xlim(
        depths[0] / 1.15, depths[-1] * (depths[-1] / depths[0]) ** 0.2
    )  # room for the names of the lines
    axes.set_xticks(depths)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("depth")
    axes.set_ylabel(f"update at the same stream, over that at depth {levels[0]}")
    axes.legend(fontsize=8, loc="lower left")


def draw_over_layers(axes: Axes, branches: Sequence[BranchScaling]) -> None:
    """Draw each kind's update divided by the stream that it joins, layer by layer."""
    from matplotlib.ticker import MaxNLocator

    for place, kind in enumerate(branches):
        layers = np.arange(1, len(kind.layers) + 1)
        axes.plot(
            layers,
            kind.layers,
            color=COLOURS[place % len(COLOURS)],
            marker="o",
            markersize=4,
            label=kind.kind,
        )
    axes.set_ylim(0.0, None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("layer")
    axes.set_ylabel("update over stream")
    axes.legend(fontsize=8)
