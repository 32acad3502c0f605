"""One trained network: what its branches do, and how to know that weights are no initialisation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import nn

from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.scaling import BranchScaling

SLIGHT, FAR = 0.1, 3.0
"""Updates that together are smaller than SLIGHT of the state leave it as it is; above FAR they replace it."""

ALIKE, UNRELATED = 0.75, 0.25
"""Cosines of neighbouring layers, of which smooth ones have 1 and independent ones 0, above and below which
one of the two makes up three quarters of their squares. Alignment would not do: a drift of a few percent of
the squares adds up in many layers, and smooth layers that turn add up to nothing."""

UNEVEN = 1e-4
"""Relative spread of a normalisation's scale above which it is not constant, far above round-off."""


def as_trained(report: DepthReport) -> DepthReport:
    """Return the report of one depth as that of a trained network: a regime for each kind of branch."""
    branches = tuple(dataclasses.replace(branch, meaning=_regime(branch)) for branch in report.branches)
    told = "the weights are taken as trained, so no initialisation rule is judged."
    return dataclasses.replace(
        report, branches=branches, trained=True, reservations=(*report.reservations, told)
    )


def not_an_initialisation(report: DepthReport, reasons: Sequence[str]) -> DepthReport:
    """Return the report without what a rule about initialisations says of weights that are none."""
    told = f"these weights are no initialisation, so no rule about it is judged: {'; '.join(reasons)}."
    return dataclasses.replace(
        report,
        verdict=DepthVerdict.CANNOT_TELL,
        statuses=(DepthVerdict.CANNOT_TELL,) * len(report.branches),
        stream_statuses=(DepthVerdict.CANNOT_TELL,) * len(report.streams),
        findings=(),
        reservations=(*report.reservations, told, "Pass trained=True to see what the branches do."),
    )


def visibly_trained(model: nn.Module) -> list[str]:
    """Return why a module's weights are no initialisation, in words; nothing if they may be one.

    Initialisations give the scale of a normalisation one value. NOT seen: training without normalisations.
    An initialisation that draws these scales at random passes for training.
    """
    scales = {
        f"{name}.weight": weight.detach().double()
        for name, module in model.named_modules()
        if "norm" in type(module).__name__.lower()
        and isinstance(weight := getattr(module, "weight", None), torch.Tensor)
        and weight.numel() > 1
    }
    uneven = [
        name for name, scale in scales.items() if float(scale.std()) > UNEVEN * float(scale.abs().mean())
    ]
    if 2 * len(uneven) > len(scales):
        return [f"the entries of {uneven[0]}, a scale of a normalisation, differ"]
    return []


def _regime(branch: BranchScaling) -> str:
    """Return what size and alignment of a kind's updates say about the limit that the network is near."""
    layers = len(branch.layers)
    alignment = branch.alignment if branch.alignment is not None else 0.5
    together = branch.ratios[-1] * layers**alignment
    if not math.isfinite(together) or together == 0:
        return "identity" if together == 0 else "cannot tell"
    if together < SLIGHT:
        return f"identity (together {together:.2g} of the state)"
    if together > FAR:
        return f"turns far (together {together:.2g} of the state)"
    cosine = branch.neighbours
    kind = (
        "cannot tell"
        if cosine is None
        else "neural-ODE-like"
        if cosine > ALIKE
        else "neural-SDE-like"
        if cosine < UNRELATED
        else "between SDE and ODE"
    )
    beside = "" if cosine is None else f", neighbours have cosine {cosine:.2f}"
    return f"{kind} (together {together:.2g} of the state{beside})"
