"""The change of signal and gradient as a known function of L^γ, where layers are independent.

A network of L independent layers with updates of size α = L^-β and mean 0 is close to a diffusion that runs
for the time L α² = L^{1-2β}. Its change depends on β and L through this time alone, up to terms of relative
size α². So a measured change tells the time, and the growth of the time with L is γ.

Where states can be scaled the change is that of `radial_law`. Other activations σ are read in mean field: a
coordinate is h_0 + √v z, z normal, and v grows by E σ². The gradient's energy grows by E σ'².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.layers.activations import Activation, derivative, is_odd
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.signal.monotone import Monotone
from deeplimit.signal.radial_law import log_change_by_energy
from deeplimit.theory import block
from deeplimit.theory.growth import fades
from deeplimit.theory.theorem import PAPERS, are_independent, is_one_of, laws, sides

ADDED = np.geomspace(1e-7, 1e7, 240)
"""Variance that layers have added to a coordinate, over the mean square of the start."""
NODES = 48
LEAST_SLOPE = 0.45
"""Of log energy by log time: of a bounded σ the slope falls to 1/2. Below, no node of the quadrature lies
where σ still rises, and the curve is continued as a straight line."""
MOST_INPUTS = 16
"""Inputs whose curves are averaged, where several are given."""
BY_WIDTH = 0.6
"""Relative error of a curve, times the width, in mean field: coordinates share an energy that fluctuates.
Measured errors are up to 0.06 at width 8.
"""
BY_SIGN = 0.9
"""The same where a block that is homogeneous keeps more energy of one sign than of the other: up to 0.09."""


class Curve(Protocol):
    """How the log of a mean is read as the log of a time."""

    @property
    def uncertainty(self) -> float:
        """Relative error of the exponent that is read."""

    def log_times(self, log_means: np.ndarray, depths: np.ndarray) -> np.ndarray:
        """Return the logs (m,) of times from the logs (m,) of what is averaged, at these depths (m,)."""


@final
@dataclass(frozen=True)
class ByEnergy:
    """Reads E log(1 + x) as the energy that layers added, and this as the time in which they add it.

    Attributes:
        width: d.
        uncertainty: relative error of the exponent.
        time: log time by log energy; None where they are proportional.
    """

    width: int
    uncertainty: float
    time: Monotone | None = None

    def log_times(self, log_means: np.ndarray, depths: np.ndarray) -> np.ndarray:
        energy = log_change_by_energy(self.width).inverse(log_means)
        # Layers compound: (1 + q α²)^L = e^τ in the mean, and the time is proportional to L q α².
        per_layer = np.minimum(np.exp(energy - np.log(depths)), 50.0)
        added = energy + np.log(np.expm1(per_layer) / per_layer)
        return added if self.time is None else self.time(added)


@final
@dataclass(frozen=True)
class ByVariance:
    """Reads E log x as the variance that layers added to coordinates, and this as the time.

    Attributes:
        time: log time by log x.
        uncertainty: relative error of the exponent.
    """

    time: Monotone
    uncertainty: float

    def log_times(self, log_means: np.ndarray, depths: np.ndarray) -> np.ndarray:
        return self.time(log_means)


@final
@dataclass(frozen=True)
class Curves:
    """The curves of signal and gradient, and the γ = 1 - 2β of both."""

    hidden: Curve
    gradient: Curve
    exponent: float


def curves_of(network: ResidualNetwork, h0: Tensor | None) -> Curves | None:
    """Return how change depends on time, for inputs `h0` (n, d) or standard normal ones.

    None where layers are not independent, updates have a mean, or σ has no finite and positive mean squares.
    None, too, for γ > 0 at widths 1 and 2, where |h_L| need not grow although its mean square does, and where
    large states may stop.
    """
    if not is_one_of(network, *PAPERS) or not all(are_independent(facts) for facts in laws(network)):
        return None
    outer, inner = sides(network)
    activation, gamma = network.recursion.activation, 1.0 - 2.0 * network.exponent
    centred = outer is not None or (is_odd(activation) and all(facts.symmetric for facts in laws(network)))
    if not centred or (gamma > 0.0 and network.width <= 2):
        return None
    if network.is_homogeneous:
        known = block(network)
        exact = known is not None and known.kept is not None
        curve = ByEnergy(network.width, 0.0 if exact else BY_SIGN / network.width)
        return Curves(curve, curve, gamma)
    if gamma > 0.0 and all(fades(activation)):
        return None
    found = _mean_field(activation, _starts(h0, reads_products=inner is not None))
    if found is None:
        return None
    (signal, gradient), near = found, BY_WIDTH / network.width
    return Curves(ByVariance(signal, near), ByEnergy(network.width, near, gradient), gamma)


@final
@dataclass(frozen=True)
class Start:
    """What σ reads at the start: fixed values (k,), or none, and the mean square of the state.

    Without fixed values it reads a normal variable with the variance of the whole state: a product with
    weights, or a coordinate of a normal input.
    """

    values: np.ndarray | None
    square: float

    def arguments(self) -> tuple[Tensor, Tensor]:
        """Return arguments of σ (240, points) at every added variance, and weights (points,) that average."""
        z, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights = weights / weights.sum()
        if self.values is None:
            points = np.sqrt(self.square * (1.0 + ADDED))[:, None] * z
        else:
            added = np.sqrt(self.square * ADDED)[:, None, None] * z
            points = (self.values[:, None] + added).reshape(len(ADDED), -1)
            weights = np.tile(weights, len(self.values)) / len(self.values)
        return torch.from_numpy(points), torch.from_numpy(weights)


def _starts(h0: Tensor | None, *, reads_products: bool) -> list[Start]:
    if h0 is None:
        return [Start(None, 1.0)]
    rows = h0[:: max(1, len(h0) // MOST_INPUTS)][:MOST_INPUTS].double().cpu().numpy()
    return [Start(None if reads_products else row, float(np.mean(row**2))) for row in rows]


def _mean_field(activation: Activation, starts: list[Start]) -> tuple[Monotone, Monotone] | None:
    """Return log time by log x of the signal, and by log energy of the gradient: means over the starts."""
    curves = [curve for start in starts if len((curve := _curve(activation, start))[0]) > 2]
    if len(curves) < len(starts):
        return None
    first, last = max(curve[0][0] for curve in curves), min(curve[0][-1] for curve in curves)
    if not first < last:
        return None
    times = np.linspace(first, last, len(ADDED))
    changes, energies = (
        np.mean([np.interp(times, curve[0], curve[which]) for curve in curves], axis=0) for which in (1, 2)
    )
    signal, gradient = Monotone.rising(times, changes), Monotone.rising(times, energies, LEAST_SLOPE)
    if min(len(signal.x), len(gradient.x)) < 3:
        return None
    return Monotone(signal.y, signal.x), Monotone(gradient.y, gradient.x)


@torch.no_grad()
def _curve(activation: Activation, start: Start) -> np.ndarray:
    """Return log time, log x and log energy of the gradient (3, points), as far as they are finite."""
    points, weights = start.arguments()
    squares = (activation(points) ** 2 @ weights).numpy() / start.square
    slopes = (derivative(activation, points) ** 2 @ weights).numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        # Over log x, of which all are smooth: dT = x dlog x / E σ², and below the first x they are linear.
        rates = np.stack([ADDED / squares, ADDED * slopes / squares])
    steps = 0.5 * (rates[:, 1:] + rates[:, :-1]) * np.diff(np.log(ADDED))
    sums = rates[:, :1] + np.concatenate([np.zeros((2, 1)), np.cumsum(steps, axis=1)], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        time, energy = np.log(sums)
    good = np.isfinite(time) & np.isfinite(energy)
    kept = len(time) if good.all() else int(np.argmin(good))
    return np.stack([time, np.log(ADDED), energy])[:, :kept]
