"""Figure 6 of Cohen et al. (2021): the loss of trained networks without their noise.

Noise is taken away as the paper does, with the trend of several networks, and with the trend of each network
alone. For ReLU layers with δ > 0 and δ < 0 may have trends of their own; a control then moves noise to other
layers of the same sign, which noise of an SDE would not mind.
"""

from __future__ import annotations

import numpy as np
import torch

from deeplimit.common.measurement import Running
from deeplimit.common.randomness import Purpose, generator
from deeplimit.papers.figures import trained_pictures as pictures
from deeplimit.papers.figures.recipe import COHEN, Check, Found, Numbers, Picture, Recipe
from deeplimit.papers.figures.trained_networks import RELU, TANH, as_analysed, published_trends
from deeplimit.papers.figures.trained_scaling_figures import Trained, train_all
from deeplimit.trained.diagnosis.layer_families import LEAST
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.smoother import compare_models, trend_matrix
from deeplimit.trained.diagnosis.stacks import Stack

HARMLESS, HARMFUL = 1.5, 3.0
"""Factors of the loss up to which denoising is harmless, and from which it is not; the paper has 1 and 10."""
ITSELF, PUBLISHED, ALONE = "trained", "trend of several networks (as published)", "trend of each network"
SIGNS, MOVED = "a trend for each sign of δ", "that, and noise of other layers of the sign"
MOST = 2
"""Networks per depth at reduced size."""


def own_trend(layers: torch.Tensor) -> torch.Tensor:
    """Return the trend of one network's layers (L, ...), by the smooth model that fits them best."""
    depth = len(layers)
    if depth < LEAST or not bool((layers != layers[0]).any()):
        return layers.mean(dim=0).expand_as(layers)
    model = compare_models(LayerGram.of(Stack("layers", layers))).trend
    matrix = torch.from_numpy(trend_matrix(model, (), depth))
    return (matrix @ layers.reshape(depth, -1)).reshape(layers.shape)


def trend_of_each_sign(layers: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """Return trends over the layers of positive factors and over those of negative ones, in their places."""
    found = torch.empty_like(layers)
    for sign in (-1.0, 1.0):
        kind = signs == sign
        if bool(kind.any()):
            found[kind] = own_trend(layers[kind])
    return found


def moved_within_signs(signs: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Return the order of layers (L,) that moves each one to a layer of the same sign."""
    order = torch.arange(len(signs))
    for sign in (-1.0, 1.0):
        places = (signs == sign).nonzero()[:, 0]
        order[places] = places[torch.randperm(len(places), generator=stream)]
    return order


def losses(trained: Trained, networks: int, seed: int) -> Numbers:
    """Return losses by what is left of the weights, one per network, and the networks' depths."""
    report, shared = trained.report, trained.sweep.is_shared
    weights = trained.weights
    analysed = {depth: [as_analysed(one, shared) for one in ones] for depth, ones in weights.items()}
    published = {
        name: published_trends(
            {depth: ones[0][name] for depth, ones in analysed.items()}, trained.diagnosis.published.beta
        )
        for name in ("A", "b")
    }
    stream = generator(seed, Purpose.DEPTH_CONTROLS)
    found: dict[str, list[float]] = {}
    depths: list[int] = []
    for depth, ones in analysed.items():
        for repeat, layers in enumerate(ones[:networks]):
            signs = torch.ones(depth) if shared else weights[depth][repeat]["delta"].sign()
            alone = {name: own_trend(each) for name, each in layers.items()}
            kept = {ITSELF: layers, PUBLISHED: {n: published[n][depth] for n in layers}, ALONE: alone}
            if not shared:
                split = {name: trend_of_each_sign(each, signs) for name, each in layers.items()}
                order = moved_within_signs(signs, stream)
                moved = {n: split[n] + (each - split[n])[order] for n, each in layers.items()}
                kept |= {SIGNS: split, MOVED: moved}
            depths.append(depth)
            for name, stacks in kept.items():
                factors = {} if shared else {"delta": signs}
                loss = report.loss_of({**stacks, **factors}, depth, repeat)
                found.setdefault(name, []).append(loss)
    return {"depths": np.array(depths), "losses": {name: np.array(each) for name, each in found.items()}}


def denoised(quick: bool, seed: int, device: str, running: Running) -> Found:
    """Figure 6: losses of trained and of denoised networks against depth, tanh and ReLU."""
    numbers: Numbers = {"panels": []}
    checks, findings = [], []
    for trained in train_all((TANH[0], RELU[0]), quick, seed, device, running):
        name = "tanh" if trained.sweep.is_shared else "ReLU"
        panel = losses(trained, MOST if quick else trained.report.repeats, seed)
        numbers["panels"].append({"activation": name, **panel})
        ratios = {kind: _deep_ratio(panel, kind) for kind in panel["losses"]}
        for kind in (PUBLISHED, ALONE):
            if trained.sweep.is_shared:
                stated, passed = f"below {HARMLESS:g} times", ratios[kind] < HARMLESS
                words = "does not change the loss"
            else:
                stated, passed = f"above {HARMFUL:g} times; paper: 10 times", ratios[kind] > HARMFUL
                words = "raises the loss"
            checks.append(
                Check(f"{name}: the {kind} {words} ({stated})", f"{ratios[kind]:.2f} times", passed)
            )
        if trained.sweep.is_shared and ratios[ALONE] < HARMLESS <= ratios[PUBLISHED]:
            findings.append(
                "tanh: each network's own trend leaves the loss as it is, so noise is negligible. The"
                f" published trend has {ratios[PUBLISHED]:.1f} times the loss because it is the mean of"
                " several networks, scaled by one exponent: networks of several depths did not find the same"
                " function."
            )
        if not trained.sweep.is_shared:
            findings.append(
                f"ReLU: a trend for each sign of δ has {ratios[SIGNS]:.1f} times the loss, one trend for all"
                f" layers {ratios[ALONE]:.1f} times. With the noise of other layers of the same sign the loss"
                f" is {ratios[MOVED]:.1f} times the trained one; noise of an SDE could be moved without harm."
            )
    return numbers, checks, findings


def _deep_ratio(panel: Numbers, kind: str) -> float:
    """Return the median over the deeper half of the networks of the loss over that of the trained network."""
    deep = panel["depths"] >= np.median(panel["depths"])
    return float(np.median((panel["losses"][kind] / panel["losses"][ITSELF])[deep]))


FIGURES = (
    Recipe(
        COHEN,
        6,
        "loss of trained and of denoised networks, synthetic data",
        denoised,
        Picture(pictures.denoised, (10.0, 4.4)),
    ),
)
