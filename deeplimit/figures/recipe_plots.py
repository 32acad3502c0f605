"""The figures of Marion et al. (2025), drawn from numbers alone: a saved reproduction can be drawn again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deeplimit.ground.plotting import FITTED, MEASURED, PREDICTED, power_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = dict[str, Any]


def growth(figure: Figure, numbers: Numbers) -> None:
    """Draw changes against depth, a panel an exponent: median, quartiles, 5 % and 95 %."""
    depths = np.array(numbers["depths"], dtype=float)
    ratio = "$|h_L - h_0|\\,/\\,|h_0|$" if numbers["of"] == "hidden" else "$|p_0 - p_L|\\,/\\,|p_L|$"
    for axes, panel in zip(
        figure.subplots(1, len(numbers["panels"]), squeeze=False)[0], numbers["panels"], strict=True
    ):
        low, first, middle, third, high = np.array(panel["log10_quantiles"], dtype=float).T
        axes.fill_between(depths, low, high, color=MEASURED, alpha=0.15, lw=0, label="5 % to 95 %")
        axes.fill_between(depths, first, third, color=MEASURED, alpha=0.35, lw=0, label="quartiles")
        axes.plot(depths, middle, "o-", color=MEASURED, ms=4, label="median")
        power_axis(axes)
        axes.set_title(f"β = {panel['exponent']:g}: {panel['verdict']}", fontsize=10)
        axes.set_xlabel("depth L")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel(ratio)
    figure.axes[0].legend(fontsize=8, title=f"{numbers['repeats']} networks", title_fontsize=8)


def distributions(figure: Figure, numbers: Numbers) -> None:
    """Draw histograms of both ratios, with their quartiles, the log-normal law and the bounds where they are
    known.
    """
    names = {"hidden": "$|h_L|\\,/\\,|h_0|$", "gradient": "$|p_0|\\,/\\,|p_L|$"}
    mean, deviation = (float(value) for value in numbers["log_normal"])
    for axes, (name, label) in zip(figure.subplots(1, 2, squeeze=False)[0], names.items(), strict=True):
        part = numbers[name]
        edges, counts = np.array(part["edges"], dtype=float), np.array(part["counts"], dtype=float)
        density = counts / counts.sum() / np.diff(edges)
        axes.stairs(
            density, edges, fill=True, color=MEASURED, alpha=0.45, label=f"{numbers['draws']} networks"
        )
        for place, quartile in enumerate(np.array(part["quartiles"], dtype=float)):
            axes.axvline(
                quartile,
                color=MEASURED,
                ls=("--", "-", "--")[place],
                lw=1,
                label="median, quartiles" if place == 1 else None,
            )
        own = not np.isfinite(mean)
        centre, width = (
            (float(part["mean_log"]), float(part["deviation_log"]))
            if own or name == "gradient"
            else (mean, deviation)
        )
        x = np.linspace(edges[0], edges[-1], 300)
        law = np.exp(-((np.log(x) - centre) ** 2) / (2 * width**2)) / (x * width * np.sqrt(2 * np.pi))
        fitted = "log-normal, fitted" if own or name == "gradient" else "log-normal, closed form"
        axes.plot(x, law, color=FITTED, lw=1.8, label=f"{fitted}: mean {centre:.3f}, deviation {width:.3f}")
        if name == "hidden" and "bounds" in numbers:
            for place, bound in enumerate(numbers["bounds"]):
                told = "bounds of Proposition 4 on the quartiles" if place == 0 else None
                axes.axvline(float(bound), color=PREDICTED, ls=":", lw=1.5, label=told)
        axes.set_xlabel(label)
        axes.set_ylim(0, 1.55 * max(density.max(), law.max()))
        axes.legend(fontsize=8, loc="upper right")
    figure.axes[0].set_ylabel("density")


def paths(figure: Figure, numbers: Numbers) -> None:
    """Draw one path a Hurst index."""
    for axes, panel in zip(
        figure.subplots(1, len(numbers["panels"]), squeeze=False)[0], numbers["panels"], strict=True
    ):
        path = np.array(panel["path"], dtype=float)
        axes.plot(np.linspace(0, 1, len(path)), path, color=MEASURED, lw=0.8)
        axes.set_title(
            f"H = {panel['hurst']:g} (measured over {numbers['paths']} paths: {panel['measured']:.3f})",
            fontsize=9,
        )
        axes.set_xlabel("t")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("$B^H_t$")


def phases(figure: Figure, numbers: Numbers) -> None:
    """Draw both maps side by side."""
    from deeplimit.ground.plotting import draw_phase_diagram
    from deeplimit.signal import PhaseDiagram

    diagram = PhaseDiagram.from_dict(numbers)
    for axes, of in zip(figure.subplots(1, 2, squeeze=False)[0], ("hidden", "gradient"), strict=True):
        draw_phase_diagram(diagram, axes, of)


class Drawing(NamedTuple):
    """How the numbers of a figure are drawn, and the picture's size in inches."""

    draw: Callable[[Figure, Numbers], None]
    size: tuple[float, float]


DRAWINGS = {
    **{f"marion-fig{number}": Drawing(growth, (11.0, 4.0)) for number in (1, 3, 4, 5, 10, 12, 13, 14)},
    "marion-fig2": Drawing(distributions, (11.0, 4.2)),
    "marion-fig6": Drawing(paths, (11.0, 3.6)),
    "marion-fig7": Drawing(phases, (14.0, 5.4)),
    "marion-fig11": Drawing(distributions, (11.0, 4.2)),
}
