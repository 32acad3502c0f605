"""The picture of a training check: changes after the steps against depth, over those of the shallowest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS, PREDICTED
from deeplimit.modules.training_check.best_rate import RateDrift
from deeplimit.modules.training_check.findings import many
from deeplimit.modules.training_check.scaling import BranchTransfer, Power, StreamTransfer

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def over_depths(
    axes: Axes,
    depths: Sequence[int],
    branches: Sequence[BranchTransfer],
    streams: Sequence[StreamTransfer],
) -> None:
    """Draw features (black), branches' relative changes (solid) and nonlinearities (dashed)."""
    small = drawing.is_small(axes)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for stream in streams:
        name = "features" if len(streams) == 1 else f"features, stream {stream.stream + 1}"
        _line(axes, depths, stream.change[-1], name, small=small, color="black", linewidth=2.5)
    for place, branch in enumerate(branches):
        colour = COLOURS[place % len(COLOURS)]
        change = "change / stream" if branch.starts_at_zero else "change"
        _line(axes, depths, branch.change[-1], f"{branch.kind}: {change}", small=small, color=colour)
        if branch.nonlinearity[-1].exponent is not None:
            name = f"{branch.kind}: nonlinearity"
            _line(axes, depths, branch.nonlinearity[-1], name, small=small, color=colour, linestyle="--")
    ratio = np.asarray(depths, dtype=float) / depths[0]
    guides = [(0.0, "the same at every depth"), (-0.5, "1/√depth")]
    if any(branch.starts_at_zero for branch in branches):
        guides.append((-1.0, "1/depth"))
    for exponent, name in guides:
        axes.plot(depths, ratio**exponent, color=PREDICTED, alpha=0.5, linestyle=":", zorder=0, label=name)
    drawing.depth_ticks(axes, depths)
    drawing.number_axis(axes)


def over_rates(axes: Axes, depths: Sequence[int], drift: RateDrift) -> None:
    """Draw the loss against the factor of all learning rates, one curve per depth, with its best factor."""
    axes.set_xscale("log")
    for place, (depth, losses) in enumerate(zip(depths, drift.losses, strict=True)):
        colour, best = COLOURS[place % len(COLOURS)], drift.best.values[place]
        axes.plot(drift.factors, losses, color=colour, marker="o", ms=4, label=f"depth {depth}")
        if math.isfinite(best):
            axes.axvline(best, color=colour, linestyle=":")
    axes.set_xticks(drift.factors, [f"{factor:g}" for factor in drift.factors])
    axes.minorticks_off()
    lowest = min(min(losses) for losses in drift.losses)
    first = max(losses[0] for losses in drift.losses)
    if lowest < first < math.inf:  # losses past the best rate grow without bound
        axes.set_ylim(lowest - 0.05 * (first - lowest), first + 0.5 * (first - lowest))
    drawing.label(
        axes, "factor of all learning rates", f"loss after {many(drift.steps, 'step')}", [drift.verdict]
    )
    drawing.legend(axes, 8)


def _line(
    axes: Axes, depths: Sequence[int], power: Power, name: str, *, small: bool, **style: object
) -> None:
    """Draw one quantity where it is a positive number, over its first such value."""
    seen = [(at, value) for at, value in zip(depths, power.values, strict=True) if 0 < value < math.inf]
    told = drawing.plain(name if small or power.exponent is None else f"{name} {power.in_words}")
    axes.plot(
        [at for at, _ in seen],
        [value / seen[0][1] for _, value in seen],
        marker="o",
        ms=4 if small else 6,
        label=told,
        **style,  # type: ignore[arg-type]
    )
