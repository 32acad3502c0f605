"""The picture of a depth check: sizes of updates against depth, with the power laws that were found and
expected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS, PREDICTED
from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check.scaling import BranchScaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def over_depths(
    axes: Axes,
    depths: Sequence[int],
    branches: Sequence[BranchScaling],
    statuses: Sequence[DepthVerdict],
    wanted: float | None,
) -> None:
    """Draw each kind's size over that at the first depth, so that slopes compare at a glance."""
    ratio = np.asarray(depths, dtype=float) / depths[0]
    small = drawing.is_small(axes)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    least = 1.0
    for place, kind in enumerate(branches):
        colour = COLOURS[place % len(COLOURS)]
        if not all(math.isfinite(size) and size > 0 for size in kind.sizes):
            axes.plot(
                [], [], color=colour, marker="o", label=f"{drawing.plain(kind.kind)}: zero at the start"
            )
            continue
        sizes = np.asarray(kind.sizes) / kind.sizes[0]
        least = min(least, float(sizes.min()))
        marker = "X" if statuses[place] == DepthVerdict.NOT_AS_EXPECTED else "o"
        axes.plot(depths, sizes, color=colour, marker=marker, ms=4 if small else 6, label=_told(kind, small))
    for exponent, name in ((0.5, "1/2: neural SDE"), (1.0, "1: neural ODE")):
        line = ratio**-exponent
        meant = wanted is not None and abs(exponent - wanted) < 1e-9
        style = {"linestyle": "-", "linewidth": 2.5} if meant else {"linestyle": ":", "linewidth": 1.0}
        axes.plot(depths, line, color=PREDICTED, alpha=0.5, zorder=0, **style)  # type: ignore[arg-type]
        axes.annotate(
            (name.split(":")[0] if small else name) + ("\n(expected)" if meant and not small else ""),
            (depths[-1], line[-1]),
            xytext=(3 if small else 8, 0),
            textcoords="offset points",
            va="center",
            fontsize=drawing.points(axes, 8),
            color=PREDICTED,
        )
    if wanted is not None and wanted not in (0.5, 1.0):
        told = f"expected: {wanted:g}"
        axes.plot(depths, ratio**-wanted, color=PREDICTED, linewidth=2.5, alpha=0.5, zorder=0, label=told)
    axes.set_ylim(0.7 * min(least, 1 / float(ratio[-1])), None)
    room = float(ratio[-1]) ** (0.1 if small else 0.2)  # for the names of the lines
    axes.set_xlim(depths[0] / 1.15, depths[-1] * room)
    drawing.depth_ticks(axes, depths)
    drawing.number_axis(axes)


def _told(kind: BranchScaling, small: bool) -> str:
    name = drawing.plain(kind.kind)
    if kind.exponent is None:
        return f"{name}: not deepened"
    return f"{name}: {kind.exponent:.2f}" if small else f"{name}: {kind.exponent_in_words}"


def over_layers(axes: Axes, branches: Sequence[BranchScaling]) -> None:
    """Draw each kind's update over the stream that it joins, layer by layer."""
    from matplotlib.ticker import MaxNLocator

    for place, kind in enumerate(branches):
        layers = np.arange(1, len(kind.layers) + 1)
        colour = COLOURS[place % len(COLOURS)]
        axes.plot(layers, kind.layers, color=colour, marker="o", markersize=4, label=drawing.plain(kind.kind))
    axes.set_ylim(0.0, None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
