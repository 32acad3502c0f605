"""What made NaN of finite states: an activation, or its derivative, rather than overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from deeplimit.layers.activations import Activation, derivative
from deeplimit.networks.residual_network import ResidualNetwork

ARGUMENTS = np.concatenate([-np.geomspace(1e3, 1e-3, 601), [0.0], np.geomspace(1e-3, 1e3, 601)])
"""Where an activation is asked: states within them have not overflowed."""
MODERATE = math.log(1e6)
"""Log change up to which no block is said to have overflowed."""


@final
@dataclass(frozen=True)
class Undefined:
    """What made the NaN among the changes of signal and of gradient; empty where overflow did."""

    hidden: str = ""
    gradient: str = ""


OVERFLOW = Undefined()


def undefined(network: ResidualNetwork, change: np.ndarray, gradient_change: np.ndarray) -> Undefined:
    """Return what made the NaN among log changes (m, draws) of signal and gradient.

    A gradient is NaN where its signal is, too. NOT checked: NaN of an activation beyond |x| = 1000.
    """
    if not (np.isnan(change).any() or np.isnan(gradient_change).any()):
        return OVERFLOW
    if not network.recursion.activation_in_words:
        both = np.stack([change, gradient_change])
        moderate = not (both > MODERATE).any()
        said = "the blocks gave it although no change was larger than a millionfold" if moderate else ""
        return Undefined(said, said)
    activation = network.recursion.activation
    value = _nan_of(activation, activation, "")
    return Undefined(
        value, value or _nan_of(lambda x: derivative(activation, x), activation, "the derivative of ")
    )


def _nan_of(function: Callable[[Tensor], Tensor], activation: Activation, of: str) -> str:
    """Return in words where a function of finite arguments is NaN; empty where it is nowhere."""
    points = torch.from_numpy(ARGUMENTS)
    with torch.no_grad():
        wrong = points[torch.isnan(function(points))]
    if not len(wrong):
        return ""
    nearest = float(wrong[wrong.abs().argmin()])
    return f"{of}activation {activation.name!r} is NaN at finite arguments, such as {nearest:.3g}"
