"""Figures of trained weights, drawn from numbers alone, also those of a saved reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS, FITTED, MEASURED, PREDICTED
from deeplimit.papers.figures.initialisation_pictures import name_panel
from deeplimit.papers.figures.recipe import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {"synthetic data": ("o", ":"), "MNIST": ("s", "-")}
"""Marker and line of each data set, the lines as in the paper."""
ORANGE, PINK = COLOURS[4], COLOURS[3]


def _curve(panel: Axes, curve: Numbers, colour: str, what: str = "", line: str = "") -> None:
    """Draw all networks as points, and medians by depth as a line."""
    marker, usual = STYLES.get(curve["data"], ("o", "-"))
    line = line or usual
    depths, values = np.array(curve["depths"], dtype=float), np.array(curve["values"], dtype=float)
    levels = np.unique(depths)
    medians = [np.median(values[depths == level]) for level in levels]
    panel.plot(depths, values, marker, color=colour, ms=3, alpha=0.5)
    slope = float(curve["slope"])
    power = "" if np.isnan(slope) else f": $L^{{{slope:.2f}}}$"
    panel.plot(levels, medians, line, color=colour, lw=2, label=f"{what}{curve['data']}{power}")


def _log_log(panel: Axes) -> None:
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")


def entries(axes: Axes, numbers: Numbers) -> None:
    """Draw an entry of tanh's A, of ReLU's A, and the sums of the latter, against the layer."""
    panels = drawing.panels(axes, 3)
    depth = int(numbers["depth"])
    shown = (
        ("tanh", f"tanh: $L^\\beta A_k$, β = {float(numbers['beta']):.2f}"),
        ("relu", "ReLU: $A_k$"),
        ("sum", "ReLU: sum of $A_j$, j < k"),
    )
    for panel, (name, title) in zip(panels, shown, strict=True):
        values = np.array(numbers[name], dtype=float)
        dots = {"marker": ".", "ls": "", "ms": 3} if name == "relu" else {"lw": 1.2}
        panel.plot(np.arange(len(values)), values, color=MEASURED, **dots)
        name_panel(panel, f"{title}, entry (0, 0)", f"layer k of {depth}")


def scaling(axes: Axes, numbers: Numbers) -> None:
    """Draw quantities against depth, one panel each."""
    panels = drawing.panels(axes, len(numbers["panels"]), gap=0.12)
    for panel, found in zip(panels, numbers["panels"], strict=True):
        for curve in found["curves"]:
            _curve(panel, curve, FITTED)
        _log_log(panel)
        name_panel(panel, found["of"], "depth L")
        drawing.legend(panel, 9)


def hypothesis(axes: Axes, numbers: Numbers) -> None:
    """Draw increments and roots of sums of squares against depth, and one decomposed entry."""
    left, right = drawing.panels(axes, 2, gap=0.12)
    for pair in numbers["curves"]:
        _curve(left, pair["increments"], ORANGE, "increments, ")
        _curve(left, pair["squares"], PINK, "root sum of squares, ")
    _log_log(left)
    name_panel(left, "scaled increments and root sum of squares", "depth L")
    drawing.legend_above(left)
    layers = np.arange(int(numbers["depth"]))
    for name, colour, label in (
        ("weights", "0.7", "$L^\\beta A_k$"),
        ("noise", PREDICTED, "noise W"),
        ("trend", COLOURS[2], "trend"),
        ("drawn", PINK, "noise as published, $L^{\\beta-1} W$"),
    ):
        right.plot(layers, np.array(numbers[name], dtype=float), color=colour, lw=1.4, label=label)
    row, column = numbers["entry"]
    beta = float(numbers["beta"])
    name_panel(right, f"entry ({row}, {column}), L = {numbers['depth']}, β = {beta:.2f}", "layer k")
    drawing.legend(right, 8)


def signs(axes: Axes, numbers: Numbers) -> None:
    """Draw the sum of all layers against depth, and the residual factors of the deepest network."""
    left, right = drawing.panels(axes, 2, gap=0.12)
    for curve in numbers["curves"]:
        _curve(left, curve, FITTED)
    _log_log(left)
    name_panel(left, "norm of the sum of $|\\delta_k| A_k$", "depth L")
    drawing.legend(left, 9)
    delta = np.array(numbers["delta"], dtype=float)
    right.plot(np.arange(len(delta)), delta, "-", color=MEASURED, lw=0.5)
    right.plot(np.arange(len(delta)), delta, ".", color=MEASURED, ms=3)
    right.axhline(0.0, color=PREDICTED, lw=0.8)
    name_panel(right, f"$\\delta_k$, synthetic data, L = {numbers['depth']}", "layer k")


def denoised(axes: Axes, numbers: Numbers) -> None:
    """Draw the losses of trained and of denoised networks against depth, one panel per activation."""
    panels = drawing.panels(axes, len(numbers["panels"]), gap=0.1)
    colours = (PREDICTED, COLOURS[2], MEASURED, FITTED, COLOURS[4])
    for panel, found in zip(panels, numbers["panels"], strict=True):
        depths = np.array(found["depths"], dtype=float)
        levels = np.unique(depths)
        for colour, (name, each) in zip(colours, found["losses"].items(), strict=False):
            values = np.array(each, dtype=float)
            medians = [np.median(values[depths == level]) for level in levels]
            panel.plot(depths, values, "o", color=colour, ms=3, alpha=0.5)
            panel.plot(levels, medians, "--", color=colour, lw=1.8, label=name)
        _log_log(panel)
        low, high = 4e-4, max(4e-2, panel.get_ylim()[1])
        panel.set_ylim(low, high)
        panel.axhspan(low, 1e-2, color="#fdf6d8", zorder=0)
        name_panel(panel, f"{found['activation']}: loss on the training set", "depth L")
        drawing.legend_above(panel)


def norms(axes: Axes, numbers: Numbers) -> None:
    """Draw the norms of all layers as dots and the largest ones as a line, one panel per kernel."""
    panels = drawing.panels(axes, len(numbers["panels"]), gap=0.12)
    for panel, found in zip(panels, numbers["panels"], strict=True):
        every = found["norms"]
        panel.plot(every["depths"], every["values"], ".", color=MEASURED, ms=3, alpha=0.6)
        for curve, colour in zip(found["curves"], (FITTED, COLOURS[4]), strict=False):
            _curve(panel, curve, colour, "largest, ")
        _log_log(panel)
        drawing.number_axis(panel)
        drawing.depth_ticks(panel, [*map(int, np.unique(every["depths"]))])
        name_panel(panel, f"spectral norms of {found['of']}", "depth L")
        drawing.legend(panel, 8)


def sparsity(axes: Axes, numbers: Numbers) -> None:
    """Draw scaled increments and roots of sums of squares, one panel per kernel."""
    panels = drawing.panels(axes, len(numbers["panels"]), gap=0.12)
    for panel, found in zip(panels, numbers["panels"], strict=True):
        for pair, line in zip(found["curves"], ("-", ":"), strict=False):
            _curve(panel, pair["increments"], ORANGE, "increments, ", line)
            _curve(panel, pair["squares"], PINK, "root sum of squares, ", line)
        _log_log(panel)
        drawing.number_axis(panel)
        drawing.depth_ticks(panel, [*map(int, np.unique(found["curves"][0]["squares"]["depths"]))])
        name_panel(panel, f"kernels {found['of']}", "depth L")
        drawing.legend_above(panel)


def coordinates(axes: Axes, numbers: Numbers) -> None:
    """Draw one coordinate of the weights before and after training against the layer, one panel per start."""
    panels = drawing.panels(axes, len(numbers["panels"]))
    for panel, found in zip(panels, numbers["panels"], strict=True):
        layers = np.arange(int(numbers["depth"]))
        for name, colour, label in (("before", "0.55", "before"), ("weights", MEASURED, "after")):
            panel.plot(layers, np.array(found[name], dtype=float), ".", color=colour, ms=2, label=label)
        name_panel(panel, f"β = {float(found['exponent']):g}, {found['start']}", "layer k")
    drawing.legend(panels[0], 8, title="training", markerscale=3)


def accuracies(axes: Axes, numbers: Numbers) -> None:
    """Draw accuracies over Hurst index and exponent, with the boundary of explosion at initialisation."""
    from matplotlib.transforms import offset_copy

    hurst, exponents = (np.array(numbers[name], dtype=float) for name in ("hurst", "exponents"))
    values = np.array(numbers["accuracies"], dtype=float)
    shown = axes.pcolormesh(hurst, exponents, values.T, vmin=0.0, vmax=1.0, cmap="cividis", shading="nearest")
    for row, h in enumerate(hurst):
        for column, exponent in enumerate(exponents):
            colour = "white" if values[row, column] < 0.55 else "black"
            text = f"{values[row, column]:.2f}"
            size = drawing.points(axes, 7)
            axes.text(h, exponent, text, ha="center", va="center", color=colour, fontsize=size)
    fine = np.linspace(hurst[0], hurst[-1], 100)
    axes.plot(fine, np.maximum(fine, 0.5), color=FITTED, lw=2, label="max(H, 1/2)")
    drawing.label(axes, "Hurst index H", "exponent β", [])
    # Beside the label of the axis, below its ticks: every cell has a number that a legend would cover.
    below = offset_copy(
        axes.transAxes, drawing.figure_of(axes), y=-2 * drawing.points(axes, 10), units="points"
    )
    drawing.legend(
        axes,
        8,
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=below,
        frameon=False,
        borderaxespad=0.0,
    )
    drawing.colour_bar(axes, shown, "accuracy on the test set")
