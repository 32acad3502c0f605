"""How the correlation of two inputs moves through a pre-norm network of infinite width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import final

import numpy as np
import torch

from deeplimit.common import validation
from deeplimit.layers import activations
from deeplimit.layers.activations import Activation, Slopes, slopes

NODES = 160
"""Nodes of Gauss and Hermite's rule per dimension: exact to rounding for smooth σ, to 1e-3 with a kink."""


@final
@dataclass(frozen=True)
class CorrelationClock:
    """The correlation of two inputs in h + L^-β V σ(N(h)), with independent layers and infinite width.

    An update has the mean square v² = E σ(g)², g standard normal, whatever the state: so |h_k|²/d is
    c + k L^-2β v², and the correlation obeys dρ/ds = f(ρ) - ρ in the time s = log(1 + L^{1-2β} v²/c). At
    β = 1/2 the time is finite at infinite depth. At β = 0 it grows like log L: each doubling of the depth
    adds as much as the one before.

    Args:
        activation: σ, a name or a callable on tensors.
        initial: c, the mean square of the entries of h_0, above 0.

    Raises:
        TypeError, ValueError: For arguments of another kind, an initial size that is not above 0, and σ = 0.

    NOT checked: that the width is large, and that the entries of first states look like normal numbers; at
    width d correlations of networks scatter by about 1/√d.

    Examples:
        >>> import deeplimit as dl
        >>> clock = dl.CorrelationClock("relu", initial=10.0)
        >>> [round(clock.at_depth(0.2, depth, exponent=0.0), 3) for depth in (16, 128, 1024)]
        [0.316, 0.509, 0.664]
    """

    activation: Activation
    initial: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activations.resolve(self.activation))
        checked = validation.real(self.initial, "initial", above=0.0, hint="it is the mean square of h_0.")
        object.__setattr__(self, "initial", checked)
        if not self.update > 0.0:
            raise ValueError(
                f"activation {self.activation.name} is 0 at standard normal states, so that nothing moves."
            )

    @cached_property
    def update(self) -> float:
        """The mean square v² = E σ(g)² of an update."""
        return self._product(1.0)

    def map(self, correlation: float) -> float:
        """Return f(ρ), the correlation of two updates whose states have the correlation ρ."""
        return self._product(_checked(correlation)) / self.update

    def time(self, depth: int, exponent: float = 0.5) -> float:
        """Return the time s that passes over all layers."""
        return math.log1p(self._added(depth, exponent) * depth / self.initial)

    def at_time(self, correlation: float, time: float) -> float:
        """Return the correlation after a time, from the differential equation."""
        from scipy.integrate import solve_ivp  # here: most calls need no equation solved

        start = _checked(correlation)
        until = validation.real(time, "time", minimum=0.0)
        if until == 0.0:
            return start

        def slope(_: float, rho: np.ndarray) -> list[float]:
            return [self.map(float(np.clip(rho[0], -1.0, 1.0))) - float(rho[0])]

        found = solve_ivp(slope, (0.0, until), [start], rtol=1e-9, atol=1e-12)
        return float(found.y[0, -1])

    def at_depth(self, correlation: float, depth: int, exponent: float = 0.5) -> float:
        """Return the correlation behind the last layer at infinite width, by the recursion over layers."""
        rho, size, added = _checked(correlation), self.initial, self._added(depth, exponent)
        for _ in range(depth):
            rho = (size * rho + added * self.map(rho)) / (size + added)
            size += added
        return rho

    def _added(self, depth: int, exponent: float) -> float:
        layers = validation.integer(depth, "depth", minimum=1)
        power = validation.real(exponent, "exponent", minimum=0.0, maximum=100.0)
        return self.update * math.pow(layers, -2.0 * power)

    def _product(self, correlation: float) -> float:
        """Return E σ(g) σ(g') for standard normal g, g' with this correlation."""
        found = slopes(self.activation)
        if found is not None:
            return _of_slopes(found, correlation)
        points, weights = _rule()
        other = correlation * points[:, None] + math.sqrt(max(0.0, 1.0 - correlation**2)) * points
        with torch.no_grad():
            first = self.activation(torch.from_numpy(points)).numpy()
            second = self.activation(torch.from_numpy(other)).numpy()
        return float((weights * first) @ (second @ weights))


@cache  # finding nodes takes twenty times as long as using them
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights (NODES,) for means over a standard normal number."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return points, weights / weights.sum()


def _of_slopes(found: Slopes, correlation: float) -> float:
    """Return E σ(g) σ(g') of a σ that is linear on either side of 0 (the arc-cosine kernel)."""
    p, n = found.positive, found.negative
    return (p * p + n * n) * _rectified(correlation) - 2 * p * n * _rectified(-correlation)


def _rectified(correlation: float) -> float:
    """Return E g⁺ g'⁺."""
    inside = math.sqrt(max(0.0, 1.0 - correlation**2))
    return (inside + correlation * (math.pi - math.acos(correlation))) / (2 * math.pi)


def _checked(correlation: object) -> float:
    return validation.real(correlation, "correlation", minimum=-1.0, maximum=1.0)
