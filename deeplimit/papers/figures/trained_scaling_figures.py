"""Figures 1-5 of Cohen et al. (2021): how trained weights scale with depth, and to which limit they point.

A check holds what the paper states, in kind. What its procedure could not have told, and what the repaired
statistics of `diagnose` say instead, are findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np
import torch

from deeplimit.common.measurement import Running
from deeplimit.common.verdict import RegimeVerdict
from deeplimit.papers.figures import trained_pictures as pictures
from deeplimit.papers.figures.images import PACKAGED, Images
from deeplimit.papers.figures.recipe import COHEN, Check, Found, Numbers, Picture, Recipe
from deeplimit.papers.figures.trained_networks import (
    BATCH,
    LOSS,
    RELU,
    TANH,
    Stacks,
    Sweep,
    affine_fit,
    as_analysed,
    local_slopes,
    published_trends,
    right_share,
    roughness,
)
from deeplimit.trained.diagnosis import DepthDiagnosis, diagnose
from deeplimit.trained.diagnosis.sweep_report import Finding, Quantity
from deeplimit.trained.training import TrainingReport

PUBLISHED_ALPHA, ROUGHLY = 0.7, 0.3
"""The published exponent of δ, and how far an exponent may be from a published one."""
SMOOTH, ROUGH = 0.02, 0.3
"""Layers with less roughness make a continuous curve; with more they look like noise."""
ENTRY = {"tanh": (9, 7), "relu": (7, 7)}
"""The entries of A that the paper decomposes."""


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """A sweep that was trained, and diagnosed; `letter` is the weight that the diagnosis calls A."""

    sweep: Sweep
    report: TrainingReport
    diagnosis: DepthDiagnosis
    letter: str = "A"

    @property
    def weights(self) -> dict[int, list[dict[str, torch.Tensor]]]:
        """Trained weights by depth."""
        return self.report.weights()

    @property
    def deepest(self) -> Stacks:
        """The first network of the greatest depth."""
        weights = self.weights
        return weights[max(weights)][0]

    @property
    def weight(self) -> str:
        """What is judged: A or b, for ReLU |δ|A or |δ|b."""
        return self.letter if self.sweep.is_shared else f"|δ|{self.letter}"

    def of_biases(self) -> Trained:
        """Return what Appendix B is about: the biases b in place of A."""
        stacks = {
            depth: [{"A": one["b"], "delta": one["delta"]} for one in ones]
            for depth, ones in self.weights.items()
        }
        diagnosis = diagnose(stacks, homogeneous=not self.sweep.is_shared)
        sweep = replace(self.sweep, name=f"{self.sweep.name}, b")
        return replace(self, sweep=sweep, diagnosis=diagnosis, letter="b")

    @property
    def finding(self) -> Finding:
        """What is said of A, or of |δ|A."""
        return self.diagnosis.findings[0]

    def norm(self, name: str) -> Quantity:
        """A quantity of A, or of |δ|A."""
        return self.finding.norms[name]

    def at_deepest(self, values: np.ndarray) -> float:
        """The median over the deepest networks of one number per network."""
        depths = self.diagnosis.depths
        return float(np.median(values[depths == depths[-1]]))

    def curve(self, quantity: Quantity, scale: float = 0.0) -> Numbers:
        """Return values of all networks, times L^scale, with their slope."""
        depths = self.diagnosis.depths
        return {
            "data": self.sweep.name,
            "depths": depths,
            "values": quantity.values * depths.astype(float) ** scale,
            "slope": quantity.slope + scale,
        }


def train_all(
    sweeps: tuple[Sweep, ...],
    quick: bool,
    seed: int,
    device: str,
    running: Running,
    images: Images = PACKAGED,
) -> Iterator[Trained]:
    """Yield the sweeps, trained and diagnosed."""
    for place, each in enumerate(sweeps):
        sweep = replace(each, images=images)
        name = f"{sweep.activation}, {sweep.name}"
        share = running.share(place / len(sweeps), (place + 1) / len(sweeps), name)
        report = sweep.train(quick, seed, device, share)
        yield Trained(sweep, report, sweep.diagnose(report))


def told(quantity: Quantity) -> str:
    """Return a slope with its interval."""
    return f"{quantity.slope:.2f} [{quantity.interval[0]:.2f}, {quantity.interval[1]:.2f}]"


def weights_over_layers(quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 1: one entry of the trained weights of the deepest networks against the layer."""
    tanh, relu = train_all((TANH[0], RELU[0]), quick, seed, device, running)
    smooth, rough = (each.deepest["A"].double() for each in (tanh, relu))
    scaled = as_analysed(relu.deepest, shared=False)["A"]
    beta = tanh.diagnosis.published.beta
    entry = rough[:, 0, 0]
    numbers: Numbers = {
        "depth": len(smooth),
        "beta": beta,
        "tanh": smooth[:, 0, 0] * len(smooth) ** beta,
        "relu": entry,
        "sum": torch.cat([torch.zeros(1, dtype=entry.dtype), entry.cumsum(0)]),
    }
    shares = {"tanh": roughness(smooth), "relu": roughness(rough), "scaled": roughness(scaled)}
    checks = [
        Check(
            f"tanh: A is a continuous function of the layer (½ Σ|ΔA|² below {SMOOTH:g} of Σ|A|²)",
            f"{shares['tanh']:.2g} at L = {len(smooth)}",
            shares["tanh"] < SMOOTH,
        ),
        Check(
            f"ReLU: A is irregular (½ Σ|ΔA|² above {ROUGH:g} of Σ|A|²)",
            f"{shares['relu']:.2f} for A, {shares['scaled']:.2f} for |δ|A, at L = {len(rough)}",
            min(shares["relu"], shares["scaled"]) > ROUGH,
        ),
    ]
    drift = float(rough.sum(0).norm() / rough.square().sum().sqrt())
    findings = [
        f"the sums of ReLU's A are no random walk: the sum of all layers is {drift:.1f} times that of"
        f" independent ones. Layers have a common part, which has {drift**2 / len(rough):.0%} of Σ|A|². A"
        " alone has no meaning for ReLU, whose layers are |δ|A (Remark 2.2)."
    ]
    return _plain(numbers), checks, findings


def scaling_of_tanh(images: Images, quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 2: δ and the sum of all layers against depth, tanh."""
    numbers: Numbers = {"panels": [{"of": "max |δ|", "curves": []}, {"of": "‖Σ A‖", "curves": []}]}
    checks, findings = [], []
    for trained in train_all(TANH, quick, seed, device, running, images):
        name, weights = trained.sweep.name, trained.weights
        checks += factor_checks(name, weights, trained.diagnosis)
        factors = np.array([float(s["delta"].abs().max()) for ones in weights.values() for s in ones])
        alpha = trained.diagnosis.alpha
        quantity = Quantity(factors, float("nan") if alpha is None else -alpha, (float("nan"),) * 2)
        sums = trained.norm("cumulative sum")
        numbers["panels"][0]["curves"].append(trained.curve(quantity))
        numbers["panels"][1]["curves"].append(trained.curve(sums))
        checks.append(sum_check(trained))
        findings += [_halves(trained, factors), _task(trained)]
    return numbers, checks, findings


def sum_check(trained: Trained) -> Check:
    """Return whether the sum of all layers grows as published."""
    sums, stated = trained.norm("cumulative sum"), trained.sweep.sums
    return Check(
        f"{trained.sweep.name}: the sum of {trained.weight} grows like L^{stated:g} (to {ROUGHLY:g})",
        told(sums),
        abs(sums.slope - stated) <= ROUGHLY,
    )


def factor_checks(
    name: str, weights: dict[int, list[dict[str, torch.Tensor]]], diagnosis: DepthDiagnosis
) -> list[Check]:
    """Return what the paper says of one residual factor for all layers of a tanh network."""
    alpha, interval = diagnosis.alpha, diagnosis.alpha_interval
    if alpha is None or interval is None:
        return [Check(f"{name}: layers have a factor δ", "they have none", False)]
    factors = [stacks["delta"] for ones in weights.values() for stacks in ones]
    shared = all(each.ndim == 0 and bool(each >= 0) for each in factors)
    beta = diagnosis.published.beta
    return [
        Check(f"{name}: one δ ≥ 0 for all layers", "so it is" if shared else "it is not", shared),
        Check(
            f"{name}: δ falls like L^-{PUBLISHED_ALPHA:g} (to {ROUGHLY:g})",
            f"α = {alpha:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]",
            abs(alpha - PUBLISHED_ALPHA) <= ROUGHLY and interval[0] > 0,
        ),
        Check(
            f"{name}: α + β = 1, which Theorem 4.3 needs (to 0.2)",
            f"{alpha + beta:.2f}, β = {beta:.2f}",
            abs(alpha + beta - 1) <= 0.2,
        ),
    ]


def _halves(trained: Trained, factors: np.ndarray) -> str:
    """Return whether exponents are the same at small and at large depth."""
    depths = trained.diagnosis.depths
    alphas = local_slopes(depths, factors)
    betas = local_slopes(depths, trained.norm("root mean square").values)
    return (
        f"{trained.sweep.name}: over the shallow and the deep half of L = {depths[0]} … {depths[-1]} the"
        f" slope of δ is {alphas[0]:.2f} and {alphas[1]:.2f}, that of the layers' root mean square"
        f" {betas[0]:.2f} and {betas[1]:.2f}. They would agree if weights followed one power law."
    )


def _task(trained: Trained) -> str:
    """Return what the best affine map reaches on the data, beside the deepest networks."""
    report, data = trained.report, trained.report.networks.training.data
    loss, right = affine_fit(data)
    depth = int(report.depths[-1])
    place = len(report.depths) - 1
    steps = int(np.median(report.epochs[place])) * -(-len(data.inputs) // BATCH)
    reached = float(np.median(report.train_losses[place]))
    found = right_share(report.outputs(data.inputs, depth), data.targets)
    text = (
        f"{trained.sweep.name}: the best affine map of the inputs has loss {loss:.2g}. The networks of"
        f" L = {depth} have {reached:.2g} after {steps} steps."
    )
    if loss < LOSS:
        return text + (
            f" Training ends below {LOSS:g}, so the data ask for nothing that a linear limit could not do."
        )
    text += (
        f" They classify {found:.0%} of their training set rightly, the affine map {right:.0%}; the paper"
        " says at least 99 %."
    )
    return text if found > right + 0.05 else f"{text} A limit that is affine, as (14) is, can do no more."


def hypothesis_for_tanh(images: Images, quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 3: increments and root sum of squares of A, and its decomposition, tanh."""
    numbers: Numbers = {"curves": []}
    checks, findings = [], []
    for place, trained in enumerate(train_all(TANH, quick, seed, device, running, images)):
        numbers["curves"].append(_increments_and_squares(trained))
        if place == 0:
            numbers |= _decomposed(trained)
        checks += smooth_checks(trained) + smooth_checks(trained.of_biases())
        findings.append(f"{trained.sweep.name}: `diagnose` says {trained.diagnosis.headline}")
    findings += [
        "the published steps could have said nothing else: noise of any size has L^β max|ΔA| = L^(β - 1/2),"
        " which falls for every β below 1/2. It is drawn as L^(β - 1) W, which is at most"
        f" {np.abs(numbers['drawn']).max():.2g} here where W reaches {np.abs(numbers['noise']).max():.2g}. D4"
        " falls under Hypothesis 1 alone.",
        "a trend of class C¹, as the paper says of Figure 3, would have L^β max|ΔA| fall like 1/L; a slope of"
        " -1/2 is that of a trend of Hölder exponent 1/2, as it also says.",
    ]
    return numbers, checks, findings


def smooth_checks(trained: Trained) -> list[Check]:
    """Return what the paper says of tanh's weights: Hypothesis 1."""
    name, letter = trained.sweep.name, trained.letter
    published, noise = trained.diagnosis.published, trained.norm("D4")
    share = trained.at_deepest(trained.finding.noise_share)
    return [
        Check(
            f"{name}: L^β max|Δ{letter}| falls (paper: like L^{trained.sweep.increments:g})",
            f"{published.scaled_increments:.2f}, β = {published.beta:.2f}",
            published.scaled_increments < -0.2,
        ),
        Check(
            f"{name}: Hypothesis 1, by the published steps",
            str(published.verdict),
            published.verdict == RegimeVerdict.LINEAR_ODE,
        ),
        Check(
            f"{name}: Hypothesis 1, by noise that falls with depth (D4, all of its interval)",
            told(noise),
            noise.interval[1] < 0,
        ),
        Check(f"{name}: noise is negligible (below 1 % of Σ|{letter}|²)", f"{share:.1g}", share < 0.01),
    ]


def _increments_and_squares(trained: Trained) -> Numbers:
    """Return both quantities by depth, with the slopes of the published steps."""
    published = trained.diagnosis.published
    increments = trained.curve(trained.norm("increments"), published.beta)
    squares = trained.curve(trained.norm("root sum of squares"))
    return {
        "increments": {**increments, "slope": published.scaled_increments},
        "squares": {**squares, "slope": published.root_sum},
    }


def _decomposed(trained: Trained) -> Numbers:
    """Return one entry of the deepest network's layers as the paper decomposes it."""
    shared = trained.sweep.is_shared
    stacks = {depth: as_analysed(ones[0], shared)["A"] for depth, ones in trained.weights.items()}
    beta, depth = trained.diagnosis.published.beta, max(stacks)
    entry = ENTRY[trained.sweep.activation]
    trend = published_trends(stacks, beta)[depth][:, *entry]
    noise = (stacks[depth][:, *entry] - trend).cumsum(0)
    return _plain(
        {
            "entry": list(entry),
            "depth": depth,
            "beta": beta,
            "weights": depth**beta * stacks[depth][:, *entry],
            "trend": depth**beta * trend,
            "drawn": depth ** (beta - 1) * noise,
            "noise": noise,
        }
    )


def _plain(numbers: Numbers) -> Numbers:
    """Return numbers with arrays in place of tensors."""
    return {
        name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in numbers.items()
    }


def scaling_of_relu(images: Images, quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 4: the sum of all layers |δ|A against depth, and δ against the layer, ReLU."""
    numbers: Numbers = {"curves": []}
    checks, findings = [], []
    for place, trained in enumerate(train_all(RELU, quick, seed, device, running, images)):
        name, sums = trained.sweep.name, trained.norm("cumulative sum")
        numbers["curves"].append(trained.curve(sums))
        checks.append(sum_check(trained))
        if place:
            continue
        delta = trained.deepest["delta"].double()
        numbers |= {"delta": delta.numpy(), "depth": len(delta)}
        positive = float((delta > 0).double().mean())
        changes = int((delta.sign().diff() != 0).sum())
        expected = 2 * positive * (1 - positive) * (len(delta) - 1)
        checks.append(
            Check(
                f"{name}: the sign of δ oscillates (at least half as often as that of independent layers)",
                f"{changes} changes over {len(delta)} layers, {expected:.0f} for independent ones",
                changes > 0.5 * expected,
            )
        )
        findings.append(
            f"{name}: {positive:.0%} of the factors are positive at L = {len(delta)} after training, about"
            " 50 % before: layers of the two signs are two kinds of layers."
        )
    return numbers, checks, findings


def hypothesis_for_relu(images: Images, quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 5: increments and root sum of squares of |δ|A, and its decomposition, ReLU."""
    numbers: Numbers = {"curves": []}
    checks, findings = [], []
    for place, trained in enumerate(train_all(RELU, quick, seed, device, running, images)):
        numbers["curves"].append(_increments_and_squares(trained))
        if place == 0:
            numbers |= _decomposed(trained)
        checks += rough_checks(trained) + rough_checks(trained.of_biases())
        headline = trained.diagnosis.headline
        findings.append(f"{trained.sweep.name}: `diagnose` says {headline} {_layers_left(trained)}")
    findings.append(
        "the paper reads β off the sum in its text and off the maximum in its code, so its slopes of scaled"
        " increments, 0.2 and 0.4, mean -0.6 and -0.5 without the factor, or -0.3 and 0.0."
    )
    return numbers, checks, findings


def rough_checks(trained: Trained) -> list[Check]:
    """Return what the paper says of ReLU's weights: noise of bounded quadratic variation."""
    name, published = trained.sweep.name, trained.diagnosis.published
    squares, increments, noise = map(trained.norm, ("root sum of squares", "increments", "D4"))
    share = trained.at_deepest(trained.finding.noise_share)
    return [
        Check(
            f"{name}: L^β max|Δ({trained.weight})| does not fall (paper: L^{trained.sweep.increments:g})",
            f"{published.scaled_increments:.2f}, β = {published.beta:.2f}; {told(increments)} without L^β",
            published.scaled_increments > -0.1,
        ),
        Check(
            f"{name}: the root sum of squares is bounded (slope below 0.1)",
            f"{published.root_sum:.2f} by least squares; {told(squares)}",
            published.root_sum < 0.1,
        ),
        Check(
            f"{name}: noise is not negligible (above 10 % of Σ|δ{trained.letter}|²)",
            f"{share:.2f}",
            share > 0.1,
        ),
        Check(f"{name}: noise stays with depth (slope of D4 above -0.35)", told(noise), noise.slope > -0.35),
    ]


def _layers_left(trained: Trained) -> str:
    """Return how many layers hold most of the weights, in words."""
    ratio, depths = trained.norm("participation ratio"), trained.diagnosis.depths
    depth = int(depths[-1])
    left = depth * trained.at_deepest(ratio.values)
    text = (
        f"The participation ratio goes like L^{told(ratio)}: {left:.0f} of {depth} layers hold most of"
        " Σ|δA|²."
        " Noise of Hypothesis 2 keeps this ratio; a fixed number of layers has 1/L."
    )
    if ratio.interval[1] >= 0:
        return text
    return (
        f"{text} So weights move into ever fewer layers. The paper calls such a regime sparse, and finds it"
        " in convolutional networks alone."
    )


ON_SYNTHETIC_DATA = Recipe(
    COHEN,
    1,
    "trained weights against the layer",
    weights_over_layers,
    Picture(pictures.entries, (11.0, 3.8)),
)


def on_images(images: Images) -> tuple[Recipe, ...]:
    """Return Figures 2 to 5, whose second half is on MNIST."""
    rows = (
        (2, "δ and the sum of A against depth, tanh", scaling_of_tanh, pictures.scaling, (10.0, 4.2)),
        (3, "increments and trend of A, tanh", hypothesis_for_tanh, pictures.hypothesis, (10.0, 4.4)),
        (
            4,
            "the sum of |δ|A against depth and δ against the layer, ReLU",
            scaling_of_relu,
            pictures.signs,
            (10.0, 4.2),
        ),
        (5, "increments and trend of |δ|A, ReLU", hypothesis_for_relu, pictures.hypothesis, (10.0, 4.4)),
    )
    return tuple(
        Recipe(COHEN, number, title, partial(run, images), Picture(draw, size), images.citations)
        for number, title, run, draw, size in rows
    )
