"""Figures 8, 9 and 15 of Marion et al. (2025): classifiers of MNIST, whose weights begin smooth or rough.

Settings are those of the paper's public code: res-1 with ReLU, width 30, Adam, batches of 128, step sizes
divided by 10 after five epochs. MNIST has 5,000 images unless it comes from OpenML, standardised. Maps before
and after the layers are drawn as torch draws them, with biases. Smooth weights are values of a Gaussian
process; the code takes its normalised increments. Figure 9 has no bias in the layers: Figure 15 shows that it
matters little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.measurement import Running
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import IID, FractionalBrownian, Layer, SmoothGaussian, Trend, WeightLaw
from deeplimit.layers import Formula, Recursion, Side, Weight, activations
from deeplimit.networks.residual_network import ResidualNetwork, res1
from deeplimit.papers.figures import trained_pictures as pictures
from deeplimit.papers.figures.images import Images
from deeplimit.papers.figures.recipe import MARION, Check, Found, Numbers, Picture, Recipe
from deeplimit.papers.figures.trained_networks import roughness
from deeplimit.trained.datasets import Data
from deeplimit.trained.training import Adam, LinearEnds, TrainingReport, train

WIDTH, BATCH, EPOCHS_BETWEEN = 30, 128, 5
SMOOTH, ROUGH = 0.02, 0.5
"""Weights with less roughness are smooth over layers; with more they are not."""
STARTS: tuple[tuple[str, float, WeightLaw], ...] = (
    ("smooth initialisation", 1.0, SmoothGaussian(length_scale=0.1)),
    ("i.i.d. initialisation", 1.0, IID("uniform")),
    ("i.i.d. initialisation", 0.5, IID("uniform")),
)
LEARNS, FAILS = 0.8, 0.5
"""Shares of the best accuracy from which a network has learnt, and up to which it has not."""
MARGIN = 0.05
"""Networks whose exponent is less than this below the boundary are not counted as exploding."""


@final
@dataclass(frozen=True)
class _Zeros:
    """The zero vector as a function of time; two of the same length are equal."""

    length: int

    def __call__(self, t: float) -> Tensor:
        return torch.zeros(self.length, dtype=torch.float64)


@final
@dataclass(frozen=True)
class Res1WithBias(Recursion):
    """h + L^-β (V σ(h) + c): res-1 with a bias outside σ, as the paper's public code has it."""

    name: ClassVar[str] = "res1 with bias"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} (V σ(h) + c)", network_latex=r"h + L^{-%(exponent)s} (V \sigma(h) + c)"
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("V", side=Side.OUTER), Weight("c", shape="d"))

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        v, bias = layers
        return v.apply(self.activation(h), exponent) + bias.apply(torch.ones_like(h), exponent)


def _network(law: WeightLaw, exponent: float, bias: bool) -> ResidualNetwork:
    if not bias:
        return res1(WIDTH, "relu", weights=law, exponent=exponent)
    recursion = Res1WithBias(activations.resolve("relu"))
    return ResidualNetwork(recursion, WIDTH, (law, Trend(_Zeros(WIDTH))), exponent)


def _train(
    network: ResidualNetwork,
    data: Data,
    depth: int,
    rate: float,
    epochs: int,
    seed: int,
    device: str,
    running: Running,
) -> TrainingReport:
    return train(
        network,
        [depth],
        data,
        optimizer=Adam(rate, every=EPOCHS_BETWEEN, factor=0.1),
        batch=BATCH,
        epochs=epochs,
        ends=LinearEnds(data.shape[0], data.outputs),
        seed=seed,
        device=device,
        **running.arguments(),
    )


def _before(report: TrainingReport, depth: int, seed: int) -> Tensor:
    """Return the weights V (L, d, d) with which training began."""
    training = report.networks.training
    stream = generator(seed, Purpose.TRAINED_WEIGHTS, depth, 0)
    return training.initial.draw(training.parametrisation.network, depth, frozenset(), stream)["V"]


def weights_after_training(
    images: Images, bias: bool, quick: bool, seed: int, device: str, running: Running
) -> Found:
    """Figures 8 and 15: one coordinate of trained weights against the layer, for three ways to begin."""
    depth, epochs = (100, 2) if quick else (1000, 10)
    data = images.mnist()
    numbers: Numbers = {"depth": depth, "panels": []}
    checks, told = [], []
    for place, (name, exponent, law) in enumerate(STARTS):
        share = running.share(place / len(STARTS), (place + 1) / len(STARTS), f"β = {exponent:g}, {name}")
        report = _train(_network(law, exponent, bias), data, depth, 1e-3, epochs, seed, device, share)
        stacks = report.weights()[depth][0]
        after, before = stacks["V"].double(), _before(report, depth, seed)
        rough, moved = roughness(after), float((after - before).norm() / before.norm())
        accuracy = float(report.accuracies[0, 0])
        numbers["panels"].append(
            {
                "start": name,
                "exponent": exponent,
                "weights": after[:, 0, 0].numpy(),
                "before": before[:, 0, 0].numpy(),
            }
        )
        smooth = place == 0
        checks.append(
            Check(
                f"β = {exponent:g}, {name}: weights are {'smooth' if smooth else 'rough'} after training"
                f" (½ Σ|ΔV|² {f'below {SMOOTH:g}' if smooth else f'above {ROUGH:g}'} of Σ|V|²)",
                f"{rough:.2g}, {roughness(before):.2g} before; accuracy {accuracy:.0%}",
                rough < SMOOTH if smooth else rough > ROUGH,
            )
        )
        told.append(f"{moved:.0%} for β = {exponent:g} and {name}")
    findings = [
        f"training moves the weights by {', '.join(told)}, of their size before. The rest of what the picture"
        " shows is the initialisation."
    ]
    return numbers, checks, findings


@final
@dataclass(frozen=True)
class Grid:
    """Networks of a map: depth, epochs, Hurst indices (as many exponents), and learning rates."""

    depth: int
    epochs: int
    count: int
    rates: tuple[float, ...]


QUICK = Grid(100, 2, 5, (1e-3, 1e-2))


def accuracy_map(
    load: Callable[[], Data], full: Grid, quick: bool, seed: int, device: str, running: Running
) -> Found:
    """Figure 9: accuracy over Hurst index and exponent, the best of a grid of learning rates."""
    size, data = QUICK if quick else full, load()
    depth, count, rates = size.depth, size.count, size.rates
    grid = np.linspace(0.1, 0.9, count)
    accuracies = np.zeros((count, count, len(rates)))
    runs = [*np.ndindex(accuracies.shape)]
    for done, (row, column, which) in enumerate(runs):
        hurst, exponent = float(grid[row]), float(grid[column])
        share = running.share(done / len(runs), (done + 1) / len(runs), f"{row}, {column}, {which}")
        network = _network(FractionalBrownian(hurst), exponent, bias=False)
        report = _train(network, data, depth, rates[which], size.epochs, seed, device, share)
        # A network that diverged has no accuracy, and classifies nothing.
        accuracies[row, column, which] = np.nan_to_num(report.accuracies[0, 0], nan=0.0)
    best = accuracies.max(axis=2)
    numbers: Numbers = {"depth": depth, "hurst": grid, "exponents": grid, "accuracies": best}
    return numbers, *judged(best, grid, depth)


def judged(best: np.ndarray, grid: np.ndarray, depth: int) -> tuple[list[Check], list[str]]:
    """Return checks and findings of accuracies (Hurst indices, exponents)."""
    top = best.max()
    critical = np.maximum(grid, 0.5)[:, None]
    stable, exploding = grid >= critical, grid < critical - MARGIN
    learnt = best > LEARNS * top
    edges = [float(grid[np.flatnonzero(row > FAILS * top)].min(initial=1.0)) for row in best]
    checks = [
        Check(
            f"networks with β ≥ max(H, 1/2) learn (above {LEARNS:.0%} of the best accuracy)",
            f"{learnt[stable].mean():.0%} of {stable.sum()}; accuracy at least {best[stable].min():.0%}, best"
            f" {top:.0%}",
            bool(learnt[stable].all()),
        ),
        Check(
            f"smooth weights with the least β do not learn (below {FAILS:.0%} of the best accuracy)",
            f"accuracy {best[-1, 0]:.0%} at H = {grid[-1]:.2g}, β = {grid[0]:.2g}",
            bool(best[-1, 0] < FAILS * top),
        ),
        Check(
            "the least β with which networks learn rises with H",
            ", ".join(f"{edge:.2g} at H = {hurst:.2g}" for hurst, edge in zip(grid, edges, strict=True)),
            bool(edges[-1] > edges[0] and (np.diff(edges) >= 0).all()),
        ),
    ]
    findings = [
        f"of {exploding.sum()} networks with β below max(H, 1/2), where signals explode at initialisation,"
        f" {(learnt & exploding).sum()} learn at L = {depth}. The paper says that these are unable to learn.",
    ]
    return checks, findings


_TRAINED = "one coordinate of the weights of res-1 after training on MNIST"
_MAP = Picture(pictures.accuracies, (6.4, 5.2))
_THREE = Picture(pictures.coordinates, (11.0, 3.8))


def on_images(images: Images) -> tuple[Recipe, ...]:
    """Return Figures 8, 9 (a), 15 and 9 (b), which has no number of its own."""
    used = ("davies1987", *images.citations)
    after = partial(weights_after_training, images)
    of_mnist = partial(accuracy_map, images.mnist, Grid(1000, 10, 10, (1e-4, 1e-3, 1e-2, 1e-1, 1.0)))
    of_objects = partial(accuracy_map, images.vectors, Grid(300, 10, 7, (1e-3, 1e-2, 1e-1)))
    title = "accuracy on {} over Hurst index and exponent"
    second = replace(MARION, prefix="marion-fig9b")
    return (
        Recipe(MARION, 8, _TRAINED, partial(after, False), _THREE, images.citations),
        Recipe(MARION, 9, title.format("MNIST"), of_mnist, _MAP, used),
        Recipe(MARION, 15, f"{_TRAINED}, with a bias", partial(after, True), _THREE, images.citations),
        Recipe(second, None, title.format(images.objects), of_objects, _MAP, used),
    )
