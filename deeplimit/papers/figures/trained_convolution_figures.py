"""Figures 7 and 8 of Cohen et al. (2021), small: convolutional networks on CIFAR-10, or on a stand-in.

The paper trains networks of four stages with 64 to 512 channels on CIFAR-10 for 200 epochs on GPUs. Here one
stage has 8 channels. Images are digits that come inside packages, or CIFAR-10 from OpenML. The recursion, (9)
without shortcut, and the initialisation are the paper's. The optimiser is AdamW, which trains in fewer epochs
without batch norm. The paper's text says that the loss is not regularised. Its public code decays weights by
5e-4, which over its 78,200 steps leaves e^-20 of a kernel that has no gradient. So networks of full size are
trained with and without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch

from deeplimit.common.measurement import Running
from deeplimit.networks.architectures import convolutional
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.papers.figures import trained_pictures as pictures
from deeplimit.papers.figures.images import Images
from deeplimit.papers.figures.over_repeats import slope
from deeplimit.papers.figures.recipe import COHEN, Check, Found, Numbers, Picture, Recipe
from deeplimit.trained.diagnosis import DepthDiagnosis, diagnose
from deeplimit.trained.diagnosis.norms import LayerNorms
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.trained.training import AdamW, Initialisation, PooledEnds, TrainingReport, train

CHANNELS, RATE = 8, 4e-3
KERNELS = ("Δ", "A")
ALPHA, BETA = 0.1, 0.0
"""Published exponents of the largest norms of Δ and of A."""
CONSTANT, FLAT = 0.35, 0.4
"""Largest norms with a smaller slope are about constant; roots of sums of squares are of one order."""
ALIKE = 0.8
"""Kernels whose participation ratio is larger are all alike."""
PLAIN, DECAYED = "without weight decay", "with weight decay"


@final
@dataclass(frozen=True)
class Size:
    """How much is trained: depths, epochs, and the weight decays by their names."""

    depths: tuple[int, ...]
    epochs: int
    decays: tuple[tuple[str, float], ...]


QUICK = Size((6, 12, 24), 12, ((PLAIN, 0.0),))
FULL = Size((8, 16, 33, 65, 121), 20, ((PLAIN, 0.0), (DECAYED, 1.0)))


@final
@dataclass(frozen=True)
class UniformByFanIn(Initialisation):
    """Entries uniform on ±1/√fan-in, as torch draws convolutions."""

    def draw(
        self, network: ResidualNetwork, depth: int, tied: frozenset[str], generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        found = {}
        for weight, shape in zip(network.recursion.weights, network.weight_shapes, strict=True):
            bound = 1 / math.sqrt(torch.Size(shape[1:]).numel())
            empty = torch.empty(depth, *shape, dtype=torch.float64)
            found[weight.name] = empty.uniform_(-bound, bound, generator=generator)
        return found


@final
@dataclass(frozen=True, eq=False)
class Convolutions:
    """Networks of several depths, and what their kernels Δ and A are over depth."""

    name: str
    report: TrainingReport
    diagnoses: dict[str, DepthDiagnosis]

    def curve(self, kernel: str, quantity: str, exponent: float = 0.0) -> Numbers:
        """Return a quantity of all networks, times L^exponent, with its slope."""
        depths = self.diagnoses[kernel].depths
        values = self.diagnoses[kernel].findings[0].norms[quantity].values * depths.astype(float) ** exponent
        return {"data": self.name, "depths": depths, "values": values, "slope": slope(depths, values)}

    def participation(self, kernel: str) -> float:
        """Return the participation ratio of the deepest network's kernels: 1 where all have one norm."""
        return float(self.diagnoses[kernel].findings[0].norms["participation ratio"].values[-1])


def _train(images: Images, quick: bool, seed: int, device: str, running: Running) -> Iterator[Convolutions]:
    size, data = QUICK if quick else FULL, images.pictures(quick)
    channels, height, width = data.shape
    for place, (name, decay) in enumerate(size.decays):
        report = train(
            convolutional(CHANNELS, "relu", size=(height, width), exponent=0.0),
            size.depths,
            data,
            optimizer=AdamW(RATE, every=max(size.epochs // 2, 1), factor=0.3, weight_decay=decay),
            batch=64,
            epochs=size.epochs,
            initial=UniformByFanIn(),
            ends=PooledEnds(channels, data.outputs),
            seed=seed,
            device=device,
            **running.share(place / len(size.decays), (place + 1) / len(size.decays), name).arguments(),
        )
        weights = report.weights()
        diagnoses = {
            kernel: diagnose(
                {depth: [{"A": one[kernel]} for one in ones] for depth, ones in weights.items()},
                spatial=(height, width),
            )
            for kernel in KERNELS
        }
        yield Convolutions(name, report, diagnoses)


def largest_norms(images: Images, quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 7: spectral norms of the kernels, and the largest ones, against depth."""
    numbers: Numbers = {"panels": [{"of": kernel, "curves": []} for kernel in KERNELS]}
    checks, findings = [], []
    for networks in _train(images, quick, seed, device, running):
        for panel, kernel, exponent in zip(numbers["panels"], KERNELS, (ALPHA, BETA), strict=True):
            curve = networks.curve(kernel, "maximum")
            panel["curves"].append(curve)
            if networks.name == PLAIN:
                panel["norms"] = _all_norms(networks, kernel)
                checks.append(
                    Check(
                        f"the largest norm of {kernel} is about constant (paper: L^{-exponent:g}; to"
                        f" {CONSTANT:g})",
                        f"{curve['slope']:.2f}",
                        abs(curve["slope"]) <= CONSTANT,
                    )
                )
        accuracies = networks.report.accuracies[:, 0]
        told = ", ".join(f"{value:.0%}" for value in accuracies)
        failed = ", ".join(map(str, networks.report.depths[accuracies < accuracies.max() / 2]))
        less = (
            f" Those of L = {failed} have not learnt, and slopes up to there describe that." if failed else ""
        )
        findings.append(f"{networks.name}: {told} of the test set are right at each depth.{less}")
    findings.append(
        f"these are networks of one stage on {images.objects}. They say what the paper's criteria"
        " can tell, not what its networks are."
    )
    return numbers, checks, findings


def _all_norms(networks: Convolutions, kernel: str) -> Numbers:
    depths: list[int] = []
    values: list[float] = []
    for depth, ones in networks.report.weights().items():
        pixels = networks.report.networks.training.data.shape[-1]
        sizes = LayerNorms.of(Stack(kernel, ones[0][kernel]), (pixels, pixels)).sizes
        depths += [depth] * len(sizes)
        values += sizes.tolist()
    return {"depths": np.array(depths), "values": np.array(values)}


def sparsity(images: Images, quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 8: roots of sums of squares and scaled increments of the kernels against depth."""
    numbers: Numbers = {"panels": [{"of": kernel, "curves": []} for kernel in KERNELS]}
    checks, told, ratios = [], [], []
    for networks in _train(images, quick, seed, device, running):
        for panel, kernel, exponent in zip(numbers["panels"], KERNELS, (ALPHA, BETA), strict=True):
            increments = networks.curve(kernel, "increments", exponent)
            squares = networks.curve(kernel, "root sum of squares")
            panel["curves"].append({"increments": increments, "squares": squares})
            ratios.append(networks.participation(kernel))
            told.append(f"{ratios[-1]:.2f} for {kernel} {networks.name}")
            if networks.name == DECAYED:
                continue
            checks += [
                Check(
                    f"{kernel}: scaled increments do not vanish (slope above -{CONSTANT:g})",
                    f"{increments['slope']:.2f}",
                    increments["slope"] > -CONSTANT,
                ),
                Check(
                    f"{kernel}: the root sum of squares stays of one order (slope below {FLAT:g})",
                    f"{squares['slope']:.2f}",
                    squares["slope"] < FLAT,
                ),
            ]
    depth = int((QUICK if quick else FULL).depths[-1])
    findings = [
        "the paper concludes that few kernels are large. The participation ratio of the layers, 1 where all"
        f" kernels have one norm and 1/L where one holds all, is {', '.join(told)}, at L = {depth}.",
        "the paper's text says that the loss is not regularised, and its code decays weights.",
    ]
    if max(ratios) > ALIKE:
        findings.append(
            "the published criteria hold for networks whose kernels are all alike: they do not show sparsity."
        )
    return numbers, checks, findings


def on_images(images: Images) -> tuple[Recipe, ...]:
    """Return Figures 7 and 8."""
    rows = (
        (7, "spectral norms against depth", largest_norms, pictures.norms, (10.0, 4.2)),
        (8, "increments and root sum of squares", sparsity, pictures.sparsity, (10.0, 4.4)),
    )
    return tuple(
        Recipe(
            COHEN,
            number,
            f"{title}, for convolutional networks on {images.objects}",
            partial(run, images),
            Picture(draw, size),
            images.citations,
        )
        for number, title, run, draw, size in rows
    )
