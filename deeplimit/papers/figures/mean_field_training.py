"""Training of networks that are means over all hidden units of all layers, against their limit.

Chizat (2025): h + (1/(LM)) V σ(W h) with M hidden units per layer, V and W independent and of a size that
does not depend on L and M, trained by full-batch gradient descent at a rate proportional to LM. After a fixed
number of steps outputs are O(1/L + 1/√(LM)) from those of a limit, which depends on neither. The limit
stands here as the mean of the largest networks. Errors are root mean squares over inputs and outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from scipy import stats

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS, PREDICTED
from deeplimit.common.measurement import Running
from deeplimit.common.randomness import Purpose, generator
from deeplimit.layers import TwoLayer, activations
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.papers.figures.over_repeats import Mean, slope
from deeplimit.papers.figures.recipe import LEVEL, Check, Found, Numbers, Paper, Picture, Recipe
from deeplimit.statistics.power_law import Regression, independent
from deeplimit.trained.datasets import Data
from deeplimit.trained.training import SGD, Initialisation, TrainingReport, train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, INPUTS, STEPS = 8, 16, 3
RATE = 6.0
"""Step size over LM; it moves outputs by half their size."""
TINY = 1e-9
"""Step size over LM of networks that are as drawn."""
CONTROL = 4
"""Hidden units of the control."""
LEAST = 64
"""Networks with fewer hidden units in all have errors beyond the leading terms and those that follow."""
FALLS = 0.2
"""Errors with a slope above minus this do not fall."""


@final
@dataclass(frozen=True)
class UnitOuter(Initialisation):
    """Standard normal V, whatever M is, and W of variance 1/d."""

    def draw(
        self, network: ResidualNetwork, depth: int, tied: frozenset[str], generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        outer, inner = (
            torch.randn(depth, *shape, generator=generator, dtype=torch.float64)
            for shape in network.weight_shapes
        )
        return {"V": outer, "W": inner / math.sqrt(network.width)}

    def describe(self, network: ResidualNetwork) -> str:
        return "normal V of unit variance, normal W of variance 1/d"


@final
@dataclass(frozen=True)
class Trainer:
    """Data and settings that all networks share."""

    data: Data
    seed: int
    device: str

    def train(
        self, hidden: int, depths: tuple[int, ...], repeats: int, rate: float, scale: float, running: Running
    ) -> TrainingReport:
        """Return networks at residual scale (LM)^-scale, trained at a rate over LM at scale 1.

        At scale 1/2 the rate does not depend on L and M: outputs move as much.
        """
        power = 2 * scale - 1
        return train(
            ResidualNetwork(TwoLayer(activations.resolve("tanh"), hidden, scale), WIDTH, exponent=scale),
            depths,
            self.data,
            optimizer=SGD(rate * hidden**power, depth_exponent=power),
            batch=None,
            epochs=STEPS,
            repeats=repeats,
            initial=UnitOuter(),
            dtype=torch.float64,
            seed=self.seed * 2**20 + hidden,  # networks of different widths share no numbers
            device=self.device,
            **running.arguments(),
        )

    def outputs(self, report: TrainingReport, depth: int) -> torch.Tensor:
        """Return the outputs of all networks of one depth (R, n, d)."""
        x = self.data.inputs
        return torch.stack([report.outputs(x, depth, repeat) for repeat in range(report.repeats)])


def known_constant(x: torch.Tensor) -> float:
    """Return e √(LM) before training: the root mean square of σ(W h), by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    sizes = x.double().norm(dim=1).numpy() / math.sqrt(WIDTH)
    squares = np.tanh(sizes[:, None] * nodes) ** 2 @ (weights / math.sqrt(2 * math.pi))
    return float(np.sqrt(squares.mean()))


def _data(seed: int) -> Data:
    stream = generator(seed, Purpose.DATA_INPUTS)
    inputs, targets = torch.randn(2, INPUTS, WIDTH, generator=stream, dtype=torch.float64)
    return Data.of(inputs, targets)


def _run(quick: bool, seed: int, device: str, running: Running) -> Found:
    depths, widths = ((8, 16, 32, 64, 128) if quick else (8, 16, 32, 64, 128, 256, 512)), (1, 4, 16, 64, 256)
    (deepest, widest), repeats = ((256, 128) if quick else (1024, 512)), (64 if quick else 256)
    most = 2**13 if quick else 2**16
    trainer = Trainer(_data(seed), seed, device)
    x, count = trainer.data.inputs, 8
    reference = trainer.train(widest, (deepest,), count, RATE, 1.0, running.share(0.0, 0.3, "limit"))
    limit = trainer.outputs(reference, deepest).mean(0)
    moved = float((limit - x).square().mean().sqrt())

    def squared_errors(report: TrainingReport, depth: int, target: torch.Tensor) -> np.ndarray:
        found: np.ndarray = (trainer.outputs(report, depth) - target).square().mean((1, 2)).numpy()
        return found

    cells, rows = [], []
    for place, hidden in enumerate(widths):
        share = running.share(0.3 + 0.12 * place, 0.42 + 0.12 * place, f"M = {hidden}")
        chosen = tuple(depth for depth in depths if LEAST <= depth * hidden <= most)
        report = trainer.train(hidden, chosen, repeats, RATE, 1.0, share)
        for depth in chosen:
            cells.append((depth, hidden))
            rows.append(squared_errors(report, depth, limit))
    squares = np.array(rows)
    means, variances = squares.mean(axis=1), squares.var(axis=1, ddof=1) / repeats
    level, hidden_units = np.array(cells, dtype=float).T
    units = level * hidden_units
    design = np.stack(
        [
            1 / units + 1 / (deepest * widest * count),
            (1 / level - 1 / deepest) ** 2,
            np.ones(len(level)),
            1 / (level * units),
            1 / units**2,
        ],
        axis=1,
    )
    relative = float((variances / means**2).mean())
    leading, fit = (_fit(columns, means, relative) for columns in (design[:, :3], design))
    a2, b2, f2, c, g = (float(value) for value in fit.coefficients)
    spread = np.sqrt(np.diag(fit.covariance))
    # The mean of the largest networks is one draw: its squared error enters all rows alike.
    spread[2] = math.hypot(spread[2], a2 / (deepest * widest * count))
    sure = float(stats.norm.isf(LEVEL / 2))
    a, a_error = math.sqrt(a2), float(spread[0]) / (2 * math.sqrt(a2))

    drawn = trainer.train(CONTROL, (depths[-1],), repeats, TINY, 1.0, running.share(0.9, 0.92, "as drawn"))
    before = Mean.of(squared_errors(drawn, depths[-1], x) * depths[-1] * CONTROL)
    known = known_constant(x)
    lazy = trainer.train(CONTROL, depths, repeats, RATE, 0.5, running.share(0.92, 1.0, "control"))
    control = np.array([squared_errors(lazy, depth, limit) for depth in depths])
    levels = np.array(depths, dtype=float)
    flat = Mean.of(np.array([slope(levels, np.sqrt(each)) for each in control.T]))

    together, ratios = _same_units(cells, squares - b2 * design[:, 1:2] - c * design[:, 3:4])
    checks = [
        Check(
            "before training e √(LM) is the root mean square of σ(W h), in closed form",
            "{:.3f} [{:.3f}, {:.3f}] against {:.3f}".format(
                *(math.sqrt(value) for value in (before.value, *before.interval())), known
            ),
            before.sure[0] <= known**2 <= before.sure[1],
        ),
        Check(
            f"e² = a²/(LM) + b²/L² + c/(L²M) + g/(LM)² + f² describes all L and M (level {LEVEL:g})",
            f"p = {fit.misfit:.2g}; a = {a:.3f} ± {a_error:.3f}, b² = {b2:.3f} ± {spread[1]:.3f}, c = {c:.2f}"
            f" ± {spread[3]:.2f}, g = {g:.1f} ± {spread[4]:.1f}",
            fit.misfit > LEVEL,
        ),
        Check(
            "nothing is left at L = ∞: f² is 0 within its error, and small beside the least e²",
            f"f² = {f2:.2g} ± {spread[2]:.2g}, least e² {means.min():.2g}",
            abs(f2) < sure * spread[2] and sure * spread[2] < means.min(),
        ),
        Check(
            f"at LM = {together} errors do not depend on M",
            ", ".join(f"{name}: {value}" for name, value in ratios.items()),
            all(value.sure[0] <= 1.0 <= value.sure[1] for value in ratios.values()),
        ),
        Check(
            f"control, residual scale 1/√(LM), M = {CONTROL}: errors do not fall",
            f"slope {flat}, e = {math.sqrt(control[-1].mean()):.2f} at L = {depths[-1]}",
            flat.sure[0] > -FALLS,
        ),
    ]
    findings = [
        f"{STEPS} steps move outputs by {moved:.2f}. a = {a:.3f} ± {a_error:.3f}; before training it is"
        f" {known:.3f}, which needs no fit.",
        f"without the terms c and g, which are of second order in 1/L and 1/(LM), p = {leading.misfit:.2g}.",
    ]
    numbers: Numbers = {
        "cells": [list(cell) for cell in cells],
        "errors": np.sqrt(means),
        "standard_errors": np.sqrt(variances) / (2 * np.sqrt(means)),
        "constants": [a2, b2, f2, c, g],
        "depths": list(depths),
        "control": np.sqrt(control.mean(axis=1)),
        "repeats": repeats,
        "reference": [deepest, widest],
    }
    return numbers, checks, findings


def _fit(design: np.ndarray, means: np.ndarray, relative: float) -> Regression:
    """Return the fit of means whose relative variance is one number.

    Variances are as the fit has them: those of small samples are least where squares happen to be small.
    """
    first = independent(design, means, relative * means**2)
    return independent(design, means, relative * (design @ first.coefficients) ** 2)


def _same_units(cells: list[tuple[int, int]], squares: np.ndarray) -> tuple[int, dict[str, Mean]]:
    """Return the largest LM that three widths share, and squares (cells, R) there over their common mean."""
    units = [depth * hidden for depth, hidden in cells]
    most = max(value for value in units if units.count(value) >= 3)
    chosen = [place for place, value in enumerate(units) if value == most]
    common = squares[chosen].mean()
    return most, {f"M = {cells[place][1]}": Mean.of(squares[place] / common) for place in chosen}


def _draw(axes: Axes, numbers: Numbers) -> None:
    """Draw errors times √(LM) against depth, one line per width, beside the fit and the control."""
    cells, errors = np.array(numbers["cells"], dtype=float), np.array(numbers["errors"], dtype=float)
    widths = np.array(numbers["standard_errors"], dtype=float)
    a2, b2, f2, c, g = (float(value) for value in numbers["constants"])
    left, right = drawing.panels(axes, 2, gap=0.13)
    for hidden, colour in zip(np.unique(cells[:, 1]), COLOURS, strict=False):
        chosen = cells[:, 1] == hidden
        depths = cells[chosen, 0]
        left.errorbar(
            depths, errors[chosen], 2 * widths[chosen], fmt="o", ms=4, color=colour, label=f"M = {hidden:.0f}"
        )
        squares = a2 / (depths * hidden) + b2 / depths**2 + f2 + (c + g / hidden) / (depths**2 * hidden)
        fitted = np.sqrt(np.maximum(squares, 0.0))
        left.plot(depths, fitted, "-", lw=1, color=colour)
        root = np.sqrt(depths * hidden)
        right.errorbar(depths, errors[chosen] * root, 2 * widths[chosen] * root, fmt="o-", ms=4, color=colour)
    levels = np.array(numbers["depths"], dtype=float)
    left.plot(
        levels, np.array(numbers["control"], dtype=float), "s--", color=PREDICTED, ms=4, label="1/√(LM)"
    )
    right.axhline(math.sqrt(a2), color=PREDICTED, lw=1)
    for panel, title in ((left, "error e of the output"), (right, "e √(LM)")):
        panel.set_xscale("log", base=2)
        drawing.label(panel, "depth L", "", [title])
        panel.grid(alpha=0.3)
    left.set_yscale("log")
    left.set_ylim(None, 10.0)
    right.set_ylim(0.0, None)
    drawing.legend(left, 8, ncol=2, loc="upper center")


RECIPE = Recipe(
    Paper("Chizat (2025)", "chizat2025", "mean-field-training"),
    None,
    "training as a mean over all hidden units of all layers",
    _run,
    Picture(_draw, (10.0, 4.2)),
)
