"""Layers that begin alike stay alike: implicit regularisation of deep networks towards neural ODEs.

Marion et al. (2024) train h + (1/L) V tanh(W h) from layers that are all the same. They prove that weights
stay Lipschitz in k/L, so that the trained network is a scheme for an ODE. Here outputs of trained networks
are measured against those of the deepest one. Independent layers, at 1/L and at 1/√L, are the controls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import torch

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS
from deeplimit.common.measurement import Running
from deeplimit.networks.residual_network import res2
from deeplimit.papers.figures.over_repeats import Mean, fitted_order, order_in_words, slope
from deeplimit.papers.figures.recipe import LEVEL, Check, Found, Numbers, Paper, Picture, Recipe
from deeplimit.trained.datasets import Data, synthetic_system
from deeplimit.trained.training import SGD, FromWeightLaws, TrainingReport, train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, INPUTS = 10, 32
RATE = 4.0
"""Step size at L = 1."""
EPOCHS = 40
"""Steps. After 80, L max|ΔW| reaches 154, and depths up to 256 do not show the order of the errors."""
FLAT = 0.1
"""A distance between layers that grows by no more than this share at twice the depth is bounded."""
WIDEST = 0.25
"""Half-width that the interval of an order may have, where the order is to be found."""


@final
@dataclass(frozen=True)
class Arm:
    """Networks from one initialisation.

    Attributes:
        name: the initialisation, in words.
        tied: whether all layers of all depths begin with the same weights.
        exponent: residual exponent β. Gradients of a layer fall like L^-β; steps are in proportion to
            L^(2β - 1), so that training moves outputs as much at every depth.
    """

    name: str
    tied: bool
    exponent: float

    def train(
        self,
        data: Data,
        depths: tuple[int, ...],
        repeats: int,
        epochs: int,
        seed: int,
        device: str,
        running: Running,
    ) -> TrainingReport:
        """Return networks after full-batch gradient descent."""
        return train(
            res2(WIDTH, "tanh", exponent=self.exponent),
            depths,
            data,
            optimizer=SGD(RATE, depth_exponent=2 * self.exponent - 1),
            batch=None,
            epochs=epochs,
            repeats=repeats,
            initial=FromWeightLaws(same_in_all_layers=self.tied, same_at_all_depths=self.tied),
            dtype=torch.float64,
            seed=seed,
            device=device,
            **running.arguments(),
        )


ARMS = (
    Arm("all layers alike, 1/L", True, 1.0),
    Arm("independent layers, 1/L", False, 1.0),
    Arm("independent layers, 1/√L", False, 0.5),
)


def _lipschitz(report: TrainingReport) -> np.ndarray:
    """Return L·max |W_{k+1} - W_k| over V and W for every network (m, R)."""
    return np.array(
        [
            [
                depth * max(float(one[name].diff(dim=0).flatten(1).norm(dim=1).max()) for name in ("V", "W"))
                for one in networks
            ]
            for depth, networks in report.weights().items()
        ]
    )


def _squares(report: TrainingReport, x: torch.Tensor) -> np.ndarray:
    """Return the mean squared distance of outputs to those of the deepest network (m - 1, R)."""
    outputs = [
        torch.stack([report.outputs(x, int(depth), repeat) for repeat in range(report.repeats)])
        for depth in report.depths
    ]
    return np.array([(each - outputs[-1]).square().mean((1, 2)).tolist() for each in outputs[:-1]])


def _run(quick: bool, seed: int, device: str, running: Running) -> Found:
    depths = tuple(2**power for power in range(3, 8 if quick else 10))
    repeats = 16 if quick else 24
    data = synthetic_system(WIDTH, INPUTS, INPUTS)
    numbers: Numbers = {"depths": list(depths), "repeats": repeats, "epochs": EPOCHS, "arms": []}
    checks, findings = [], []
    for place, arm in enumerate(ARMS):
        share = running.share(place / len(ARMS), (place + 1) / len(ARMS), arm.name)
        parts = share.share(0.0, 0.2, "a quarter"), share.share(0.2, 1.0, "whole")
        early = arm.train(data, depths, repeats, EPOCHS // 4, seed, device, parts[0])
        late = arm.train(data, depths, repeats, EPOCHS, seed, device, parts[1])
        roughness = [_lipschitz(report) for report in (early, late)]
        growth = [Mean.of(each[-1] / each[-2]) for each in roughness]
        squares = _squares(late, data.test_inputs)
        levels = np.array(depths[:-1], dtype=float)
        fit = fitted_order(levels, squares, depths[-1])
        low, high = fit.interval(1 - LEVEL)
        # Errors of order 1, once the deepest network's own is put back, have slope -1.
        shown = np.sqrt(squares) / (1 - levels / depths[-1])[:, None]
        slopes = Mean.of(np.array([slope(levels, each) for each in shown.T]))
        bounded = max(each.sure[1] for each in growth) < 1 + FLAT
        fell = Mean.of((late.histories[-1, :, -1]) / late.histories[-1, :, 0])
        ratio = f"{depths[-1]} over {depths[-2]} layers: {growth[0]} early, {growth[1]} late"
        order = f"order {order_in_words(fit)}, mean slope {slopes}"
        if arm.tied:
            checks += [
                Check(f"{arm.name}: L max|ΔW| stays bounded", ratio, bounded),
                Check(
                    f"{arm.name}: outputs converge at order 1",
                    order,
                    low <= 1.0 <= high and high - low < 2 * WIDEST,
                ),
            ]
        else:
            unbounded = min(each.sure[0] for each in growth) > 1 + FLAT
            checks += [
                Check(f"control, {arm.name}: L max|ΔW| grows", ratio, unbounded),
                Check(f"control, {arm.name}: order 1 is refuted", order, slopes.sure[0] > -1 + WIDEST),
            ]
        findings.append(
            f"{arm.name}: training takes the loss at L = {depths[-1]} to {fell} of what it was. L max|ΔW| is"
            f" {', '.join(f'{value:.3g}' for value in roughness[1].mean(axis=1))} at L ="
            f" {', '.join(map(str, depths))}."
        )
        numbers["arms"].append(
            {
                "name": arm.name,
                "errors": np.sqrt(squares),
                "lipschitz": roughness[1],
                "order": order_in_words(fit),
            }
        )
    return numbers, checks, findings


def _draw(axes: Axes, numbers: Numbers) -> None:
    """Draw the distance of layers, and that of outputs from the deepest network, against depth."""
    depths = np.array(numbers["depths"], dtype=float)
    left, right = drawing.panels(axes, 2, gap=0.13)
    for arm, colour in zip(numbers["arms"], COLOURS, strict=False):
        rough, errors = (np.array(arm[name], dtype=float) for name in ("lipschitz", "errors"))
        for panel, levels, values in ((left, depths, rough), (right, depths[:-1], errors)):
            low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], axis=1)
            panel.fill_between(levels, low, high, color=colour, alpha=0.25, lw=0)
            panel.plot(levels, middle, "o-", color=colour, ms=4, label=arm["name"])
    for panel, title in ((left, "L max|ΔW|"), (right, f"distance to {depths[-1]:.0f} layers")):
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        drawing.label(panel, "depth L", "", [title])
        panel.grid(alpha=0.3)
    low, high = left.get_ylim()
    left.set_ylim(low, high * (high / low) ** 0.45)
    drawing.legend(left, 9, loc="upper left")


RECIPE = Recipe(
    Paper("Marion et al. (2024)", "marion2024", "tied-initialisation"),
    None,
    "layers that begin alike stay alike through training",
    _run,
    Picture(_draw, (10.0, 4.2)),
    ("cohen2021",),
)
