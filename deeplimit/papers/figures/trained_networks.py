"""Networks that several figures share, trained as in Cohen et al. (2021).

Settings are those of the paper's public code: Adam, where the text says stochastic gradient descent, and
inputs that are divided by their norms, as targets are. MNIST has 5,000 images unless it comes from OpenML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch

from deeplimit.common.measurement import Running
from deeplimit.networks.architectures import fully_connected
from deeplimit.papers.figures.images import PACKAGED, Images
from deeplimit.papers.figures.over_repeats import slope
from deeplimit.statistics.power_law import solution
from deeplimit.trained.datasets import Data, synthetic_system
from deeplimit.trained.diagnosis import DepthDiagnosis, diagnose
from deeplimit.trained.training import Adam, Optimizer, SmallGaussian, Stop, TrainingReport, train

Stacks = Mapping[str, torch.Tensor]
ADAM = Adam(1e-2)
BATCH = 32
LOSS = 1e-3
"""Training ends below this loss."""
FULL = tuple(int(8 * 2 ** (step / 2)) for step in range(15))
"""Depths from 8 to 1024."""
PAPERS_DEPTHS = 4
"""Number of networks, of different depths, whose mean is the paper's trend."""


@final
@dataclass(frozen=True)
class Sweep:
    """Networks of several depths on one data set, and what the paper says of them.

    Attributes:
        name: the data, in words.
        activation: "tanh" with one δ >= 0 for all layers, or "relu" with one δ per layer.
        data: function of the images and of whether at reduced size that returns them.
        quick, full: depths at both sizes.
        repeats: networks per depth at both sizes.
        sums, increments: published slopes of the sum of all layers and of the scaled increments.
        patience: epochs in a row without a loss that is lower by 1 %, after which training ends.
        optimizer: how weights follow gradients.
        initial: size of the weights before training, times L.
        images: what MNIST is.
    """

    name: str
    activation: str
    data: Callable[[Images, bool], Data]
    quick: tuple[int, ...]
    full: tuple[int, ...]
    repeats: tuple[int, int]
    sums: float
    increments: float
    patience: int = 5
    optimizer: Optimizer = ADAM
    initial: float = 0.01
    images: Images = PACKAGED

    @property
    def is_shared(self) -> bool:
        """Whether all layers have one residual factor."""
        return self.activation == "tanh"

    def train(self, quick: bool, seed: int, device: str, running: Running) -> TrainingReport:
        """Return the trained networks, from the store where it holds them."""
        data = self.data(self.images, quick)
        shared = "delta" if self.is_shared else ()
        return train(
            fully_connected(data.outputs, self.activation, exponent=0.0),
            self.quick if quick else self.full,
            data,
            optimizer=self.optimizer,
            batch=BATCH,
            epochs=200,
            stop=Stop(loss=LOSS, patience=self.patience),
            repeats=self.repeats[0 if quick else 1],
            initial=SmallGaussian(self.initial),
            tied=shared,
            nonnegative=shared,
            seed=seed,
            device=device,
            **running.arguments(),
        )

    def diagnose(self, trained: TrainingReport) -> DepthDiagnosis:
        """Return what the weights are over depth; those of ReLU with the sizes of their factors."""
        return diagnose(trained.weights(), homogeneous=not self.is_shared)


def _synthetic(images: Images, quick: bool) -> Data:
    return synthetic_system()


def _embedded(images: Images, quick: bool) -> Data:
    return images.embedded(quick)


_SYNTHETIC = partial(Sweep, "synthetic data", data=_synthetic, full=FULL)
_MNIST = partial(Sweep, "MNIST", data=_embedded, full=FULL[::2])
TANH = (
    _SYNTHETIC("tanh", quick=(8, 16, 32, 64, 128, 256), repeats=(3, 5), sums=0.7, increments=-0.5),
    _MNIST("tanh", quick=(8, 16, 32, 64, 128), repeats=(2, 3), sums=0.8, increments=-0.5),
)
RELU = (
    _SYNTHETIC("relu", quick=(8, 16, 32, 64, 128, 256), repeats=(6, 5), sums=0.2, increments=0.2),
    _MNIST("relu", quick=(8, 16, 32, 64, 128), repeats=(2, 3), sums=0.1, increments=0.4),
)


def affine_fit(data: Data) -> tuple[float, float]:
    """Return the loss of the best affine map on the training set, and its share of right classes.

    The share is that of inputs whose largest output is the largest target.
    """
    ones = torch.ones(len(data.inputs), 1, dtype=torch.float64)
    x, y = torch.cat([data.inputs.double(), ones], dim=1), data.targets.double()
    outputs = x @ torch.from_numpy(solution(x.numpy(), np.ones(len(x))) @ y.numpy())
    return float((outputs - y).square().mean()), right_share(outputs, y)


def right_share(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the share of inputs whose largest output is the largest target."""
    return float((outputs.argmax(1) == targets.argmax(1)).double().mean())


def as_analysed(stacks: Stacks, shared: bool) -> dict[str, torch.Tensor]:
    """Return A and b (L, ...) in float64 as the paper analyses them, times |δ| where layers have factors."""
    sizes = torch.ones(()) if shared else stacks["delta"].abs()
    return {
        name: stacks[name].double() * sizes.double().reshape(-1, *[1] * (stacks[name].ndim - 1))
        for name in ("A", "b")
    }


def published_trends(stacks: Mapping[int, torch.Tensor], beta: float) -> dict[int, torch.Tensor]:
    """Return the trend of each network's layers (L, ...) as the paper's public code makes it.

    Sums of layers, times L^(β - 1), are averaged over the deepest networks on a grid of times. The trend of a
    layer is L^-β times the slope of that average in the layer's cell.

    Args:
        stacks: layers (L, ...) by depth L.
        beta: exponent of the weights.

    Returns:
        Trends by depth.

    Examples:
        >>> stacks = {L: torch.full((L, 1), L**-0.3, dtype=torch.float64) for L in (8, 16, 32)}
        >>> trends = published_trends(stacks, beta=0.3)
        >>> bool(torch.allclose(trends[16], stacks[16]))
        True
    """
    deepest = sorted(stacks)[-PAPERS_DEPTHS:]
    cells = min(500, deepest[0])
    sums = []
    for depth in deepest:
        layers = stacks[depth]
        paths = torch.cat([torch.zeros_like(layers[:1]), layers.cumsum(dim=0)])
        ends = torch.tensor([depth * cell // cells for cell in range(cells + 1)])
        sums.append(depth ** (beta - 1) * paths[ends])
    slopes = torch.stack(sums).mean(dim=0).diff(dim=0) * cells
    return {depth: depth**-beta * slopes[torch.arange(depth) * cells // depth] for depth in stacks}


def roughness(layers: torch.Tensor) -> float:
    """Return ½ Σ|A_{k+1} - A_k|² over Σ|A_k|²: about 1 for independent layers, 0 for a smooth function."""
    return float(layers.diff(dim=0).square().sum() / (2 * layers.square().sum()))


def local_slopes(depths: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Return slopes of log medians in log depth, over the shallow and over the deep half of the depths."""
    levels = np.unique(depths)
    medians = np.array([np.median(values[depths == level]) for level in levels])
    middle = len(levels) // 2
    halves = slice(0, middle + 1), slice(-(middle + 1), None)
    first, second = (slope(levels[half], medians[half]) for half in halves)
    return first, second
