"""Why networks on embedded MNIST train no further than an affine map: settings changed one at a time.

The code of Cohen et al. (2021) ends training after five epochs in a row that lower the loss by less than 1 %.
Those are 9,375 steps on the 60,000 images of the paper, and 625 on the 4,000 images here, where the loss of
the best affine map is a plateau. The exponents are measured again in networks that leave it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from deeplimit.common import axes as drawing
from deeplimit.common.axes import COLOURS
from deeplimit.common.measurement import Running
from deeplimit.papers.figures.images import PACKAGED, Images
from deeplimit.papers.figures.initialisation_pictures import name_panel
from deeplimit.papers.figures.recipe import Check, Found, Numbers, Paper, Picture, Recipe
from deeplimit.papers.figures.trained_networks import (
    BATCH,
    RELU,
    TANH,
    Sweep,
    affine_fit,
    right_share,
)
from deeplimit.papers.figures.trained_scaling_figures import (
    Trained,
    factor_checks,
    rough_checks,
    smooth_checks,
    sum_check,
)
from deeplimit.trained.datasets import Data
from deeplimit.trained.training import Adam, TrainingReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PATIENCE = 5 * 60_000 // BATCH
"""Steps without progress after which the paper's training ends."""
PUBLISHED, LONGER, LABELS = "as published", f"patience of {PATIENCE:,} steps", "cross entropy"
PLATEAU = 1.1
"""A loss up to this many times that of the best affine map is on the plateau."""
LEARNT, LEARNT_LABELS = 0.9, 0.75
"""Shares of the training set that networks beyond the plateau classify rightly; the affine map has 0.6."""
SPREAD = 0.2
"""Standard deviation of each whitened input, about that of inputs of norm 1."""


def patient(sweep: Sweep, quick: bool) -> Sweep:
    """Return the sweep with the paper's patience in steps, at depths that train in minutes."""
    return replace(
        sweep,
        name=f"{LONGER}, {sweep.activation}",
        patience=PATIENCE * BATCH // len(sweep.data(sweep.images, quick).inputs),
        quick=(8, 16, 32),
        full=(8, 16, 32, 64, 128, 256),
        repeats=(1, 2),
    )


def _with(change: Callable[[Data], Data]) -> Callable[[Images, bool], Data]:
    return lambda images, quick: change(images.embedded(quick))


def whitened(data: Data) -> Data:
    """Return inputs whose covariance is SPREAD² times the identity on the training set."""
    mean = data.inputs.double().mean(dim=0)
    factor = torch.linalg.cholesky(torch.cov(data.inputs.double().T)).inverse().T
    inputs, test_inputs = (
        (SPREAD * (x.double() - mean) @ factor).float() for x in (data.inputs, data.test_inputs)
    )
    return replace(data, inputs=inputs, test_inputs=test_inputs)


def labelled(data: Data) -> Data:
    """Return labels in place of one-hot targets, so that the loss is the cross entropy."""
    targets, test_targets = data.targets.argmax(1), data.test_targets.argmax(1)
    return replace(data, targets=targets, test_targets=test_targets, classes=data.outputs)


def arms() -> dict[str, Sweep]:
    """Return tanh networks as published, and with one setting changed."""
    base = replace(TANH[1], quick=(8, 16, 32), full=(16, 64, 256), repeats=(1, 3))
    return {
        PUBLISHED: base,
        "step size 0.001": replace(base, optimizer=Adam(1e-3)),
        "step size 0.04/√L": replace(base, optimizer=Adam(0.04, depth_exponent=-0.5)),
        "first weights 100 times as large": replace(base, initial=1.0),
        "whitened inputs": replace(base, data=_with(whitened)),
        LABELS: replace(base, data=_with(labelled)),
    }


def nearest_neighbours(data: Data) -> float:
    """Return the share of the test set that the majority of three nearest inputs for training classifies."""
    nearest = torch.cdist(data.test_inputs, data.inputs).topk(3, largest=False).indices
    voted = data.targets.argmax(1)[nearest].mode(dim=1).values
    return float((voted == data.test_targets.argmax(1)).double().mean())


def _reached(report: TrainingReport, data: Data) -> Numbers:
    """Return losses, shares of right classes and epochs of all networks, each (m, R)."""
    own, runs = report.networks.training.data, range(report.repeats)

    def right(inputs: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
        return np.array(
            [[right_share(report.outputs(inputs, int(d), r), targets) for r in runs] for d in report.depths]
        )

    return {
        "depths": report.depths,
        "losses": report.train_losses,
        "train": right(own.inputs, data.targets),
        "test": right(own.test_inputs, data.test_targets),
        "epochs": report.epochs,
        "histories": report.histories[:, 0],
    }


def _told(name: str, reached: Numbers) -> str:
    """Return medians by depth in words."""
    rows = [
        f"L = {depth}: loss {loss:.4f}, {train:.0%} and {test:.0%} right after {epochs:.0f} epochs"
        for depth, loss, train, test, epochs in zip(
            reached["depths"],
            *(np.median(reached[each], axis=1) for each in ("losses", "train", "test", "epochs")),
            strict=True,
        )
    ]
    return f"{name}: {'; '.join(rows)} (training and test set)."


def judged(name: str, reached: Numbers, floor: float) -> Check:
    """Return whether networks of this setting are on the plateau, or have left it."""
    losses, right = reached["losses"], reached["train"]
    if name == LABELS or LONGER in name:
        least = LEARNT_LABELS if name == LABELS else LEARNT
        return Check(
            f"{name}: networks learn (above {least:.0%} of the training set)",
            f"{right.min():.0%} to {right.max():.0%}",
            bool(right.min() > least),
        )
    ratio = losses / floor
    return Check(
        f"control, {name}: training ends at the best affine map (1 to {PLATEAU:g} times its loss)",
        f"{ratio.min():.2f} to {ratio.max():.2f} times",
        bool(ratio.min() > 1 / PLATEAU and ratio.max() < PLATEAU),
    )


def _run(quick: bool, seed: int, device: str, running: Running) -> Found:
    data = PACKAGED.embedded(quick)
    floor, affine = affine_fit(data)
    neighbours = nearest_neighbours(data)
    longer = [patient(sweep, quick) for sweep in (TANH[1], RELU[1])]
    sweeps = arms() | {sweep.name: sweep for sweep in longer}
    numbers: Numbers = {"floor": floor, "affine": affine, "neighbours": neighbours, "arms": {}}
    checks, findings = [], []
    for place, (name, sweep) in enumerate(sweeps.items()):
        share = running.share(place / len(sweeps), (place + 1) / len(sweeps), name)
        report = sweep.train(quick, seed, device, share)
        reached = numbers["arms"][name] = _reached(report, data)
        checks.append(judged(name, reached, floor))
        findings.append(_told(name, reached))
        if LONGER in name:
            trained = Trained(sweep, report, sweep.diagnose(report))
            findings += [
                f"{each.stated} {'holds' if each.passed else 'FAILS'}: {each.measured}"
                for each in paper_checks(trained)
            ]
    findings.append(
        f"the best affine map has loss {floor:.4f} and {affine:.0%} of the training set right; three"
        f" nearest neighbours have {neighbours:.0%} of the test set. The limit of Hypothesis 1 is affine,"
        " so that networks that learn more are not near it."
    )
    return numbers, checks, findings


def paper_checks(trained: Trained) -> list[Check]:
    """Return what Figures 2 to 5 and Appendix B say of these networks."""
    biases, sums = trained.of_biases(), sum_check(trained)
    if not trained.sweep.is_shared:
        return [sums, *rough_checks(trained), *rough_checks(biases)]
    factors = factor_checks(trained.sweep.name, trained.weights, trained.diagnosis)
    return [*factors, sums, *smooth_checks(trained), *smooth_checks(biases)]


def _draw(axes: Axes, numbers: Numbers) -> None:
    """Draw losses against epochs, and the share of right classes against depth."""
    left, right = drawing.panels(axes, 2, gap=0.13)
    found = numbers["arms"]
    longer = found[f"{LONGER}, tanh"]
    published = found[PUBLISHED]
    ends = dict(zip(published["depths"], np.array(published["epochs"])[:, 0], strict=True))
    for depth, history in zip(longer["depths"], longer["histories"], strict=True):
        if depth in ends:
            losses = np.array(history, dtype=float)
            (line,) = left.plot(np.arange(1, len(losses) + 1), losses, lw=1.4, label=f"L = {depth}")
            left.plot(ends[depth], losses[ends[depth] - 1], "o", color=line.get_color(), ms=6)
    left.axhline(float(numbers["floor"]), color="0.4", ls="--", lw=1, label="best affine map")
    left.set_xscale("log")
    left.set_yscale("log")
    name_panel(left, "loss of tanh; dots: published end of training", "epoch")
    drawing.legend(left, 8, loc="lower left")
    for name, arm in found.items():
        learnt = name == LABELS or LONGER in name
        colour = COLOURS[[*found].index(name)] if learnt else COLOURS[0]
        changed = "as published, or one setting changed" if name == PUBLISHED else None
        shares = np.median(np.array(arm["train"], dtype=float), axis=1)
        label = name if learnt else changed
        right.plot(np.array(arm["depths"], dtype=float), shares, "o-", color=colour, ms=4, label=label)
    right.axhline(float(numbers["affine"]), color="0.4", ls="--", lw=1)
    right.set_xscale("log", base=2)
    right.set_ylim(0.0, 1.05)
    drawing.depth_ticks(right, [*map(int, longer["depths"])])
    name_panel(right, "share of the training set classified rightly", "depth L")
    drawing.legend(right, 8, loc="lower left")


RECIPE = Recipe(
    Paper("Cohen et al. (2021)", "cohen2021", "stop-rule"),
    None,
    "networks on embedded MNIST, by the rule that ends training",
    _run,
    Picture(_draw, (11.0, 4.4)),
)
