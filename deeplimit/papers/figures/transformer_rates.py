"""How fast transformers trained by AdamW approach their limit in depth and number of heads.

Gibson & Reisinger (2026) state that hidden states and gradients by them are O(1/L + L^-1/3 H^-1/2) from a
system of forward and backward ODEs, L layers with H heads each. The rate of the fluctuation needs no limit:
it is the spread of trained networks around their mean. What the mean itself lacks is the bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from scipy import linalg, optimize, stats

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS, PREDICTED
from deeplimit.common.measurement import Running
from deeplimit.papers.figures.over_repeats import Mean
from deeplimit.papers.figures.recipe import LEVEL, Check, Found, Numbers, Paper, Picture, Recipe
from deeplimit.papers.figures.trained_transformers import (
    Cells,
    Setting,
    Spread,
    Transformers,
    squares,
    tokens_and_targets,
)
from deeplimit.statistics.power_law import independent, solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 8
"""The bias of networks with fewer layers has terms of higher order."""
ORDERS = (0.1, 4.0)
"""Orders of the bias are looked for between these."""
FALLS = 0.2
"""Fluctuations with a slope above minus this do not fall."""


@final
@dataclass(frozen=True)
class Power:
    """A fluctuation F of size L^-γ H^-η over many cells.

    Attributes:
        depth, heads: γ and η; `heads` repeats γ where all cells have one H.
        misfit: probability that noise alone leaves residuals as large.
        errors: standard errors of log F² (m,).
    """

    depth: Mean
    heads: Mean
    misfit: float
    errors: np.ndarray

    @classmethod
    def of(cls, cells: Cells, values: np.ndarray) -> Power:
        """Fit independent estimates (m, R) of F² with log F² = c - 2γ log L - 2η log H + a/L + b/(LH).

        All estimates are about equally far from their mean in relation to it, so that their relative variance
        is one number. Where all cells have one H, the terms with η, a and b are left out.
        """
        levels, heads = np.array(cells, dtype=float).T
        count, repeats = values.shape
        means = values.mean(axis=1)
        relative = float((values.var(axis=1, ddof=1) / means**2).mean()) / repeats
        columns = [np.ones(count), -2 * np.log(levels)]
        both = len(np.unique(heads)) > 1
        if both:
            columns += [-2 * np.log(heads), 1 / levels, 1 / (levels * heads)]
        fit = independent(np.stack(columns, axis=1), np.log(means), np.full(count, relative))
        errors, degrees = np.sqrt(np.diag(fit.covariance)), count * (repeats - 1)
        powers = [
            Mean(float(fit.coefficients[place]), float(errors[place]), degrees) for place in (1, 1 + both)
        ]
        return cls(powers[0], powers[1], fit.misfit, np.full(count, math.sqrt(relative)))

    def __str__(self) -> str:
        words = [f"{name} = {told(mean)}" for name, mean in (("γ", self.depth), ("η", self.heads))]
        return f"{', '.join(words)} (p = {self.misfit:.2g})"


def told(mean: Mean) -> str:
    """Return a mean and its 95 % interval with three decimals."""
    low, high = mean.interval()
    return f"{mean.value:.3f} [{low:.3f}, {high:.3f}]"


@final
@dataclass(frozen=True)
class Bias:
    """Means over networks as m + u L^-r + v/(LH), with vectors m, u and v, from `LEAST` layers on.

    Attributes:
        order: r.
        interval, sure: its intervals at 95 % and at the level of a check.
        misfit: probability that noise alone leaves residuals as large.
        by_depth, by_heads: root mean squares of u and v at r = 1, less what noise adds.
        seen: probability that noise alone makes v as large.
        limit: m at r = 1 (k,).
    """

    order: float
    interval: tuple[float, float]
    sure: tuple[float, float]
    misfit: float
    by_depth: float
    by_heads: float
    seen: float
    limit: np.ndarray

    @classmethod
    def of(cls, cells: Cells, samples: list[np.ndarray]) -> Bias:
        """Return the bias of networks (R, k), a list of one array per cell.

        Coordinates are dependent, with correlations that all cells share. Intervals hold all orders at which
        the sum of squares is not far above its least value.
        """
        chosen = [place for place, (depth, _) in enumerate(cells) if depth >= LEAST]
        levels, heads = np.array([cells[place] for place in chosen], dtype=float).T
        means, residuals, roots = [], [], []
        for place in chosen:
            sample = samples[place]
            spread = math.sqrt(float(squares(sample).mean()))
            means.append(sample.mean(axis=0))
            residuals.append((sample - means[-1]) / spread)
            roots.append(math.sqrt(len(sample)) / spread)
        size = means[0].size
        degrees = sum(len(each) - 1 for each in residuals)
        shape = sum(each.T @ each for each in residuals) / degrees
        values, weights = np.array(means), np.array(roots)
        told_apart = linalg.solve_triangular(np.linalg.cholesky(shape), values.T, lower=True).T
        shrink = (degrees - size - 1) / degrees  # the inverse of an estimated covariance is too large

        def columns(order: float) -> np.ndarray:
            return np.stack([np.ones(len(levels)), levels**-order, 1 / (levels * heads)], axis=1)

        def left(design: np.ndarray) -> float:
            rest = told_apart - design @ (solution(design, weights) @ told_apart)
            return float(shrink * (weights**2 @ rest**2).sum())

        low, high = ORDERS
        found = optimize.minimize_scalar(lambda order: left(columns(order)), bounds=ORDERS, method="bounded")
        best, least = float(found.x), float(found.fun)

        def interval(confidence: float) -> tuple[float, float]:
            most = least + float(stats.chi2.ppf(confidence, 1))

            def excess(order: float) -> float:
                return left(columns(order)) - most

            return (
                float(optimize.brentq(excess, low, best)) if excess(low) > 0 else low,
                float(optimize.brentq(excess, best, high)) if excess(high) > 0 else high,
            )

        first = columns(1.0)
        solved = solution(first, weights)
        limit, *vectors = solved @ values
        noise = ((solved / weights) ** 2).sum(axis=1)[1:]
        by_depth, by_heads = (
            math.sqrt(max(0.0, float((vector**2).mean()) - float(variance)))
            for vector, variance in zip(vectors, noise, strict=True)
        )
        return cls(
            best,
            interval(0.95),
            interval(1 - LEVEL),
            float(stats.chi2.sf(least, (len(levels) - 3) * size - 1)),
            by_depth,
            by_heads,
            float(stats.chi2.sf(left(first[:, :2]) - left(first), size)),
            limit,
        )

    def __str__(self) -> str:
        return (
            f"r = {self.order:.2f} [{self.interval[0]:.2f}, {self.interval[1]:.2f}] (p = {self.misfit:.2g})"
        )


SMOOTH = Setting("ε = 1", 1.0, 0.3)
SIGN = Setting("ε = 1e-8", 1e-8, 0.1)
ONE = replace(SIGN, name="ε = 1e-8, one step", steps=1)
SETTINGS = (SMOOTH, SIGN, ONE)
ROOT = replace(SMOOTH, name="residual scale 1/√L", scale=0.5)
TIED = replace(SMOOTH, name="all layers begin with one draw of heads", tied=True)
CONTROLS = (ROOT, TIED)
CONTROL_HEADS = 4
UNIFORM = replace(SMOOTH, name="uniform attention", uniform=True, steps=0)
SAME = 0.03
"""Exponents this near to 1/4 are taken for it: terms of higher order fall slowly there."""


def known_variance(x: np.ndarray, depth: int, heads: int) -> float:
    """Return F² of networks before training with uniform attention, for tokens x (sequences, tokens, d).

    Tokens move as their mean m does. A layer adds a matrix times m, independent of m, with entries of
    variance 1/(d L² H). So E |m|² grows by the factor 1 + 1/(L² H) per layer.
    """
    mean = x.mean(axis=1)
    return float((mean**2).mean()) * math.expm1(depth * math.log1p(1 / (depth**2 * heads)))


def _within(mean: Mean, value: float, reach: float = 0.0) -> bool:
    return mean.sure[0] - reach <= value <= mean.sure[1] + reach


def _run(quick: bool, seed: int, device: str, running: Running) -> Found:
    depths, heads = ((4, 8, 16, 32, 64), (1, 4)) if quick else ((4, 8, 16, 32, 64, 128), (1, 2, 4, 8, 16))
    repeats = 96 if quick else 512
    cells = tuple((depth, count) for depth in depths for count in heads)

    def networks(setting: Setting, chosen: Cells, first: float, last: float) -> list[Spread]:
        measured = Transformers(setting, chosen, repeats, seed, device=torch.device(device))
        return running.share(first, last, setting.name).measure(measured)

    checks: list[Check] = []
    findings: list[str] = []
    numbers: Numbers = {"cells": [list(cell) for cell in cells], "settings": [], "controls": []}
    small = tuple(cell for cell in cells if cell[0] <= 16)
    x = tokens_and_targets(seed)[0].numpy()
    ratio = Mean.of(
        np.mean(
            [
                squares(each.outputs) / known_variance(x, *cell)
                for cell, each in zip(small, networks(UNIFORM, small, 0.0, 0.05), strict=True)
            ],
            axis=0,
        )
    )
    checks.append(
        Check(
            "before training, with uniform attention, F² over its closed form is 1",
            told(ratio),
            _within(ratio, 1.0),
        )
    )
    for setting, first in zip(SETTINGS, (0.05, 0.4, 0.75), strict=True):
        found = networks(setting, cells, first, first + (0.35 if setting.steps > 1 else 0.2))
        values = {
            "outputs": np.array([squares(each.outputs) for each in found]),
            "gradients": np.array([squares(each.gradients) for each in found]),
            "weights": np.array([each.probes for each in found]),
        }
        powers = {name: Power.of(cells, each) for name, each in values.items()}
        bias = Bias.of(cells, [each.outputs for each in found])
        checks += _judged(setting, powers, bias)
        moved = math.sqrt(float(((bias.limit - x.ravel()) ** 2).mean()))
        findings.append(
            f"{setting.name}: training moves outputs by {moved:.2f}. Bias: {bias.by_depth:.3f}/L and"
            f" {bias.by_heads:.3f}/(LH), the latter with p = {bias.seen:.2g}. F √(LH) in the largest network:"
            + ",".join(
                f" {name} {math.sqrt(each[-1].mean() * cells[-1][0] * cells[-1][1]):.3f}"
                for name, each in values.items()
            )
            + "."
        )
        numbers["settings"].append(
            {
                "name": setting.name,
                **{name: np.sqrt(each.mean(axis=1)) for name, each in values.items()},
                **{f"{name}_errors": powers[name].errors / 2 for name in values},
                "bias": [
                    math.sqrt(float(((each.outputs.mean(axis=0) - bias.limit) ** 2).mean())) for each in found
                ],
                "by_depth": bias.by_depth,
            }
        )
    held = tuple((depth, CONTROL_HEADS) for depth in depths)
    for setting, first in zip(CONTROLS, (0.95, 0.975), strict=True):
        spread = np.array([squares(each.outputs) for each in networks(setting, held, first, first + 0.025)])
        power = Power.of(held, spread)
        checks.append(
            Check(
                f"control, {setting.name}, H = {CONTROL_HEADS}: fluctuations do not fall with depth",
                f"γ = {told(power.depth)}, F = {math.sqrt(spread[-1].mean()):.2f} at L = {depths[-1]}",
                power.depth.sure[1] < FALLS,
            )
        )
        numbers["controls"].append({"name": setting.name, "outputs": np.sqrt(spread.mean(axis=1))})
    numbers |= {"depths": list(depths), "control_heads": CONTROL_HEADS, "repeats": repeats}
    return numbers, checks, findings


def _judged(setting: Setting, powers: dict[str, Power], bias: Bias) -> list[Check]:
    """Return the checks of one setting."""
    checks = []
    for name in ("outputs", "gradients"):
        power = powers[name]
        both = _within(power.depth, 0.5) and _within(power.heads, 0.5) and power.misfit > LEVEL
        checks.append(Check(f"{setting.name}: {name} fluctuate as L^-1/2 H^-1/2", str(power), both))
    depth = min((powers[name].depth for name in ("outputs", "gradients")), key=lambda mean: mean.sure[0])
    checks.append(
        Check(
            f"{setting.name}: the bound L^-1/3 is not attained, γ > 1/3",
            f"γ > {depth.sure[0]:.3f} at level {LEVEL:g}",
            depth.sure[0] > 1 / 3,
        )
    )
    if setting is not ONE:
        first = bias.sure[0] <= 1.0 <= bias.sure[1] and bias.misfit > LEVEL
        checks.append(Check(f"{setting.name}: means of outputs converge at order 1", str(bias), first))
    weights = powers["weights"]
    exponents = weights.depth, weights.heads
    stated, passed = {
        SMOOTH: ("fluctuate as L^-1/2 H^-1/2", all(_within(each, 0.5) for each in exponents)),
        SIGN: ("fluctuate more slowly than that", all(each.sure[1] < 0.5 for each in exponents)),
        ONE: ("fluctuate as (LH)^-1/4", all(_within(each, 0.25, SAME) for each in exponents)),
    }[setting]
    return [*checks, Check(f"{setting.name}: weights of single heads {stated}", str(weights), passed)]


def _draw(axes: Axes, numbers: Numbers) -> None:
    """Draw fluctuations against depth with the controls; all of them times √(LH); and the bias."""
    cells, depths = np.array(numbers["cells"], dtype=float), np.array(numbers["depths"], dtype=float)
    units = cells.prod(axis=1)
    left, middle, right = drawing.panels(axes, 3, gap=0.085)
    smooth, sign, one = numbers["settings"]
    for heads, colour in zip(np.unique(cells[:, 1]), COLOURS, strict=False):
        chosen = cells[:, 1] == heads
        spread = np.array(smooth["outputs"], dtype=float)[chosen]
        left.plot(cells[chosen, 0], spread, "o-", ms=3, lw=1, color=colour, label=f"H = {heads:.0f}")
        away = np.array(smooth["bias"], dtype=float)[chosen]
        right.plot(cells[chosen, 0], away, "o-", ms=3, lw=1, color=colour, label=f"H = {heads:.0f}")
    first = float(np.array(smooth["outputs"], dtype=float)[0])
    left.plot(depths, first * (depths / depths[0]) ** (-1 / 3), ":", color=PREDICTED, label="L^-1/3")
    for control, mark in zip(numbers["controls"], ("s--", "^--"), strict=True):
        name = "scale 1/√L" if "scale" in control["name"] else "tied layers"
        left.plot(depths, np.array(control["outputs"], dtype=float), mark, ms=4, color=PREDICTED, label=name)
    right.plot(depths, float(smooth["by_depth"]) / depths, "--", color=PREDICTED, label="H = ∞, 1/L")
    lines = (
        (smooth, "outputs", "o", "outputs, ε = 1"),
        (sign, "outputs", "s", "outputs, ε = 1e-8"),
        (smooth, "weights", "^", "weights, ε = 1"),
        (sign, "weights", "v", "weights, ε = 1e-8"),
        (one, "weights", "D", "weights, one step"),
    )
    for (setting, name, mark, text), colour in zip(lines, COLOURS, strict=False):
        values = np.array(setting[name], dtype=float) * np.sqrt(units)
        errors = 2 * values * np.array(setting[f"{name}_errors"], dtype=float)
        middle.errorbar(units, values, errors, fmt=mark, ms=3, lw=1, color=colour, label=text)
    for panel, x, title in (
        (left, "depth L", "fluctuation F of outputs, ε = 1"),
        (middle, "LH", "F √(LH)"),
        (right, "depth L", "distance of the mean to its limit"),
    ):
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        drawing.label(panel, x, "", [title])
        panel.grid(alpha=0.3)
    low, high = left.get_ylim()
    left.set_ylim(low * (low / high) ** 0.45, high)
    drawing.legend(left, 8, ncol=2, loc="lower left")
    low, high = middle.get_ylim()
    middle.set_ylim(low, high * (high / low) ** 0.5)
    drawing.legend(middle, 8, loc="upper left")
    drawing.legend(right, 8, loc="upper right")


RECIPE = Recipe(
    Paper("Gibson & Reisinger (2026)", "gibson2026", "trained-transformers"),
    None,
    "the spread of transformers trained by AdamW",
    _run,
    Picture(_draw, (12.0, 4.2)),
)
