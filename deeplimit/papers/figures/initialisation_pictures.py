"""Figures of networks at initialisation, drawn from numbers alone, also those of a saved reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import FITTED, MEASURED, PREDICTED
from deeplimit.papers.figures.recipe import Numbers
from deeplimit.signal import PhaseDiagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def name_panel(axes: Axes, title: str, x: str, size: float = 10.0) -> None:
    """Name a panel and its horizontal axis, in the size of its figure."""
    drawing.label(axes, x, "", [])
    width = axes.get_window_extent().width / drawing.figure_of(axes).dpi
    lines = drawing.fitting(axes, title, size, 2, inches=width)
    axes.set_title("\n".join(lines), fontsize=drawing.points(axes, size), pad=3)
    axes.grid(alpha=0.3)


def growth(axes: Axes, numbers: Numbers) -> None:
    """Draw changes against depth, one panel per exponent: median, quartiles, 5 % and 95 %."""
    depths = np.array(numbers["depths"], dtype=float)
    ratio = "$|h_L - h_0|\\,/\\,|h_0|$" if numbers["of"] == "hidden" else "$|p_0 - p_L|\\,/\\,|p_L|$"
    panels = drawing.panels(axes, len(numbers["panels"]))
    for panel, found in zip(panels, numbers["panels"], strict=True):
        low, first, middle, third, high = np.array(found["log10_quantiles"], dtype=float).T
        panel.fill_between(depths, low, high, color=MEASURED, alpha=0.15, lw=0, label="5 % to 95 %")
        panel.fill_between(depths, first, third, color=MEASURED, alpha=0.35, lw=0, label="quartiles")
        panel.plot(depths, middle, "o-", color=MEASURED, ms=4, label="median")
        drawing.power_axis(panel)
        name_panel(panel, f"β = {found['exponent']:g}: {found['verdict']}", "depth L")
    drawing.name_vertical(panels, ratio)
    drawing.legend(panels[0], 8, title=f"{numbers['repeats']} networks")


def distributions(axes: Axes, numbers: Numbers) -> None:
    """Draw histograms of both ratios, with quartiles, and the log-normal law and bounds if known."""
    names = {"hidden": "$|h_L|\\,/\\,|h_0|$", "gradient": "$|p_0|\\,/\\,|p_L|$"}
    panels = drawing.panels(axes, 2)
    for panel, (name, label) in zip(panels, names.items(), strict=True):
        _distribution(panel, numbers, name)
        panel.set_xlabel(label, fontsize=drawing.points(panel, 10))
        panel.tick_params(labelsize=drawing.points(panel, 10))
        drawing.legend(panel, 8, loc="upper right")
    drawing.name_vertical(panels, "density")


def _distribution(panel: Axes, numbers: Numbers, name: str) -> None:
    mean, deviation = (float(value) for value in numbers["log_normal"])
    part = numbers[name]
    edges, counts = np.array(part["edges"], dtype=float), np.array(part["counts"], dtype=float)
    density = counts / counts.sum() / np.diff(edges)
    networks = f"{numbers['draws']} networks"
    panel.stairs(density, edges, fill=True, color=MEASURED, alpha=0.45, label=networks)
    for place, quartile in enumerate(np.array(part["quartiles"], dtype=float)):
        style = ("--", "-", "--")[place]
        told = "median, quartiles" if place == 1 else None
        panel.axvline(quartile, color=MEASURED, ls=style, lw=1, label=told)
    closed = np.isfinite(mean) and name == "hidden"
    centre, width = (mean, deviation) if closed else (float(part["mean_log"]), float(part["deviation_log"]))
    x = np.linspace(edges[0], edges[-1], 300)
    law = np.exp(-((np.log(x) - centre) ** 2) / (2 * width**2)) / (x * width * np.sqrt(2 * np.pi))
    kind = "log-normal, closed form" if closed else "log-normal, fitted"
    panel.plot(x, law, color=FITTED, lw=1.8, label=f"{kind}: mean {centre:.3f}, deviation {width:.3f}")
    if name == "hidden" and "bounds" in numbers:
        for place, bound in enumerate(numbers["bounds"]):
            told = "bounds of Proposition 4 on the quartiles" if place == 0 else None
            panel.axvline(float(bound), color=PREDICTED, ls=":", lw=1.5, label=told)
    panel.set_ylim(0, 1.55 * max(density.max(), law.max()))


def paths(axes: Axes, numbers: Numbers) -> None:
    """Draw one path per Hurst index."""
    panels = drawing.panels(axes, len(numbers["panels"]))
    for panel, found in zip(panels, numbers["panels"], strict=True):
        path = np.array(found["path"], dtype=float)
        panel.plot(np.linspace(0, 1, len(path)), path, color=MEASURED, lw=0.8)
        measured = f"measured over {numbers['paths']} paths: {found['measured']:.3f}"
        name_panel(panel, f"H = {found['hurst']:g} ({measured})", "t", 9)
    drawing.name_vertical(panels, "$B^H_t$")


def phases(axes: Axes, numbers: Numbers) -> None:
    """Draw both maps side by side."""
    diagram = PhaseDiagram.from_dict(numbers)
    for panel, of in zip(drawing.panels(axes, 2, gap=0.25), ("hidden", "gradient"), strict=True):
        diagram.plot(panel, of=of)
