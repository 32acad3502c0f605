"""Shaped networks whose width grows with the depth: the neural covariance SDE, in law."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import cast

import torch

from deeplimit.equations import CovarianceSDE
from deeplimit.networks.architectures import shaped_mlp
from deeplimit.papers.cases.case import LawCase, WrongTwin

LI = "Li et al."
_SOURCE = "Li, Nica and Roy (2022)"
_EQUATION = r"dV = T\,b(V)\,dt + \sqrt{T}\,V^{1/2}\,dS\,V^{1/2}"
_LINEAR = r"dV = \sqrt{T}\,V^{1/2}\,dS\,V^{1/2}"
DRAWS = 16384


def cases() -> Iterator[LawCase]:
    """Yield shaped networks of two and three inputs of norm 1 and correlation 0.3."""
    for inputs, ratio, draws in ((2, 1.0, DRAWS), (3, 1.0, 0)):
        network = shaped_mlp(inputs, depth_to_width=ratio, slopes=(1.0, -1.0))
        limit = cast(CovarianceSDE, network.limit())
        yield LawCase(
            LI,
            f"m = {inputs}, T = {ratio:g}, c = (1, -1)",
            network,
            _EQUATION,
            _SOURCE,
            (_linear(limit), _longer(limit)),
            x=torch.linalg.cholesky(0.7 * torch.eye(inputs) + 0.3)[None],
            paths=draws,
        )


def _linear(limit: CovarianceSDE) -> WrongTwin:
    return WrongTwin(
        "drift of the correlation left out",
        dataclasses.replace(limit, slope_difference=0.0),
        _LINEAR,
        "Without b the limit is that of a linear network, whose inputs align less.",
    )


def _longer(limit: CovarianceSDE) -> WrongTwin:
    return WrongTwin(
        "width taken for half of what it is",
        dataclasses.replace(limit, depth_to_width=2.0 * limit.depth_to_width),
        _EQUATION.replace("T", "2T"),
        "Sizes have the variance 4T instead of 2T, at every depth.",
    )
