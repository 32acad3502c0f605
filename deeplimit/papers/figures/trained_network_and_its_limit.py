"""Trained networks of many depths against the ODE that the deepest of them suggests.

Cohen et al. (2021) read limits off trained weights. Here the limit is integrated, and the networks' hidden
states are compared with it (`fitted_limit`). There are two ways of training. As published, every network
sees its batches in another order, and steps are of one size at all depths. On one path all networks take
full-batch steps of a size that falls like L^-1/2, as their trained weights do, on fewer data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import torch

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS
from deeplimit.common.measurement import Running
from deeplimit.networks.architectures import fully_connected
from deeplimit.papers.figures.over_repeats import Mean, order_against_deepest, slope
from deeplimit.papers.figures.recipe import Check, Found, Numbers, Paper, Picture, Recipe
from deeplimit.trained.datasets import synthetic_system
from deeplimit.trained.diagnosis.fitted_limit import fitted_limit
from deeplimit.trained.training import Adam, SmallGaussian, Stop, train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, INPUTS = 10, 8
LOSS = 1e-3
"""Training ends below this loss."""
TOLERANCE = 1e-3
"""Tolerance of the ODE solver."""
FALLS = -0.25
"""Errors with a steeper slope fall."""
CLOSE, FAR = 0.5, 0.1
"""A limit is a run's own where errors are below the share CLOSE of those against another run's.

It is far off where errors are above FAR.
"""
OWN, SLOPE, OTHER = "own limit", "slope halved", "another run's"
Weights = dict[int, dict[str, torch.Tensor]]


@final
@dataclass(frozen=True)
class Arm:
    """One way of training.

    Attributes:
        name: in words.
        activation: "tanh" with one δ >= 0 for all layers, or "relu" with one δ per layer.
        one_path: whether all depths are trained along one path, instead of as published.
        repeats: number of networks per depth.
    """

    name: str
    activation: str
    one_path: bool
    repeats: int

    @property
    def regime(self) -> str:
        """What the limit is: linear for tanh, as the paper says."""
        return "linear-ode" if self.activation == "tanh" else "neural-ode"

    def train(
        self, depths: tuple[int, ...], seed: int, device: str, running: Running
    ) -> tuple[list[Weights], torch.Tensor]:
        """Return the weights of each repeat by depth, and inputs.

        On one path each repeat has its own data: weights begin next to 0, so that little else differs.
        """
        shared = "delta" if self.activation == "tanh" else ()
        runs: list[Weights] = []
        calls = self.repeats if self.one_path else 1
        for run in range(calls):
            data = synthetic_system(WIDTH, 128 if self.one_path else 1024, INPUTS, seed=seed + run)
            report = train(
                fully_connected(WIDTH, self.activation, exponent=0.0),
                depths,
                data,
                optimizer=Adam(0.02, depth_exponent=-0.5) if self.one_path else Adam(0.01),
                batch=None if self.one_path else 32,
                epochs=600 if self.one_path else 200,
                stop=Stop(loss=LOSS, patience=None if self.one_path else 5),
                repeats=1 if self.one_path else self.repeats,
                initial=SmallGaussian(),
                tied=shared,
                nonnegative=shared,
                seed=seed + run,
                device=device,
                **running.share(run / calls, (run + 1) / calls, f"run {run + 1}").arguments(),
            )
            found = report.weights()
            for repeat in range(report.repeats):
                runs.append({depth: _double(networks[repeat]) for depth, networks in found.items()})
        return runs, data.test_inputs.double()


def _double(stacks: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: stack.double().cpu() for name, stack in stacks.items()}


ARMS = (
    Arm("tanh, as published", "tanh", False, 16),
    Arm("tanh, one path", "tanh", True, 12),
    Arm("ReLU, as published", "relu", False, 8),
    Arm("ReLU, one path", "relu", True, 12),
)


def _errors(weights: Weights, arm: Arm, x: torch.Tensor) -> np.ndarray:
    """Return the distance of each network to the limit of the deepest (m - 1,), the largest over layers."""
    errors: np.ndarray = (
        fitted_limit(weights, arm.activation, regime=arm.regime).compare(x, tolerance=TOLERANCE).errors
    )
    return errors


def _against(arm: Arm, runs: list[Weights], x: torch.Tensor) -> dict[str, np.ndarray]:
    """Return errors (m - 1, R) against the limit of the same run, and against limits that are wrong."""
    found: dict[str, list[np.ndarray]] = {}
    for place, run in enumerate(runs):
        deepest = max(run)
        limits = {OWN: run[deepest], OTHER: runs[(place + 1) % len(runs)][deepest]}
        if arm.activation == "tanh":
            limits[SLOPE] = {**run[deepest], "delta": 0.5 * run[deepest]["delta"]}
        for name, limit in limits.items():
            found.setdefault(name, []).append(_errors({**run, deepest: limit}, arm, x))
    return {name: np.array(errors).T for name, errors in found.items()}


@final
@dataclass(frozen=True)
class Told:
    """What errors (m, R) against one limit say, over repeats.

    Attributes:
        slope: of log errors in log depth.
        order: r of errors c (L^-r - D^-r), D the depth of the network that the limit was made from.
        typical, last: log of the geometric mean over depths, and of the last error.
    """

    slope: Mean
    order: Mean
    typical: Mean
    last: Mean

    @classmethod
    def of(cls, depths: np.ndarray, deepest: int, errors: np.ndarray) -> Told:
        """Return what errors at these depths say, the limit made from the deepest network."""
        return cls(
            Mean.of(np.array([slope(depths, each) for each in errors.T])),
            Mean.of(np.array([order_against_deepest(depths, each, deepest) for each in errors.T])),
            Mean.of(np.log(errors).mean(axis=0)),
            Mean.of(np.log(errors[-1])),
        )


def _run(quick: bool, seed: int, device: str, running: Running) -> Found:
    numbers: Numbers = {"arms": []}
    checks: list[Check] = []
    findings: list[str] = []
    arms = ARMS[:3] if quick else ARMS
    for place, arm in enumerate(arms):
        depths = _depths(arm, quick)
        share = running.share(place / len(arms), (place + 1) / len(arms), arm.name)
        runs, x = arm.train(depths, seed, device, share)
        runs = [run for run in runs if len(run) == len(depths)]
        errors = _against(arm, runs, x)
        levels = np.array(depths[:-1], dtype=float)
        told = {name: Told.of(levels, depths[-1], each) for name, each in errors.items()}
        gain = Mean.of(np.log(errors[OWN] / errors[OTHER])[-1])
        checks += _checks(arm, told, gain, depths)
        findings.append(_finding(arm, errors, told, gain, depths))
        numbers["arms"].append(
            {"name": arm.name, "depths": list(depths), "errors": errors, "slope": str(told[OWN].slope)}
        )
    return numbers, checks, findings


def _depths(arm: Arm, quick: bool) -> tuple[int, ...]:
    deepest = (7 if arm.activation == "tanh" else 6) if quick else (9 if arm.one_path else 10)
    return tuple(2**power for power in range(3, deepest + 1))


def _factor(log: Mean) -> str:
    low, high = log.interval()
    return f"{np.exp(log.value):.3g} [{np.exp(low):.3g}, {np.exp(high):.3g}]"


def _checks(arm: Arm, told: dict[str, Told], gain: Mean, depths: tuple[int, ...]) -> list[Check]:
    own = told[OWN]
    if not (arm.activation == "tanh" and arm.one_path):
        return [
            Check(
                f"{arm.name}: errors against its own limit stay above {FAR:g}",
                f"{_factor(own.typical)} in the mean over depths",
                own.typical.sure[0] > np.log(FAR),
            )
        ]
    found = [
        Check(
            f"{arm.name}: errors fall (slope below {FALLS:g})",
            f"slope {own.slope}",
            own.slope.sure[1] < FALLS,
        ),
        Check(
            f"{arm.name}: the limit is the run's own, at less than {CLOSE:g} of the errors against another's",
            f"{_factor(gain)} of them at L = {depths[-2]}",
            gain.sure[1] < np.log(CLOSE),
        ),
    ]
    for name in (SLOPE, OTHER):
        one = told[name]
        measured = f"slope {one.slope}, e = {_factor(one.last)} at L = {depths[-2]}"
        found.append(Check(f"control, {name}: errors do not fall", measured, one.slope.sure[0] > FALLS))
    return found


def _finding(
    arm: Arm, errors: dict[str, np.ndarray], told: dict[str, Told], gain: Mean, depths: tuple[int, ...]
) -> str:
    own = ", ".join(f"{value:.3g}" for value in np.exp(np.log(errors[OWN]).mean(axis=1)))
    text = (
        f"{arm.name}: errors against the limit of {depths[-1]} layers are {own} at L ="
        f" {', '.join(map(str, depths[:-1]))}; slope {told[OWN].slope}, and order {told[OWN].order} once that"
        f" network's own distance is put back. They are {_factor(gain)} of those against another run's limit."
    )
    if SLOPE in told:
        text += f" With half the slope they are {_factor(told[SLOPE].last)} at L = {depths[-2]}."
    return text


def _draw(axes: Axes, numbers: Numbers) -> None:
    """Draw errors against depth, one panel per way of training, one colour per limit."""
    panels = drawing.panels(axes, len(numbers["arms"]), gap=0.09)
    for panel, arm in zip(panels, numbers["arms"], strict=True):
        depths = np.array(arm["depths"][:-1], dtype=float)
        for name, colour in zip((OWN, OTHER, SLOPE), COLOURS, strict=False):
            if name in arm["errors"]:
                values = np.array(arm["errors"][name], dtype=float)
                panel.plot(depths, values, ".", color=colour, ms=3, alpha=0.6)
                panel.plot(depths, np.exp(np.log(values).mean(axis=1)), "-", color=colour, lw=1.8, label=name)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_ylim(0.003, 4.0)
        panel.tick_params(labelleft=panel.get_position().x0 == panels[0].get_position().x0)
        drawing.label(panel, "depth L", "", [])
        title = drawing.fitting(panel, arm["name"], 9, 2, panel.get_window_extent().width / 100)
        panel.set_title("\n".join(title), fontsize=drawing.points(panel, 9), pad=3)
        panel.grid(alpha=0.3)
    drawing.name_vertical(panels, "error")
    drawing.legend(panels[0], 8, loc="upper center")


RECIPE = Recipe(
    Paper("Cohen et al. (2021)", "cohen2021", "trained-limit"),
    None,
    "trained networks against the limit of the deepest",
    _run,
    Picture(_draw, (12.0, 4.2)),
)
