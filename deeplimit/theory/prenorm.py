"""Rows on pre-norm networks h + L^-β V σ(N(h)); derived in docs/theorems/prenorm.md."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar, cast, final

import torch
from scipy import special

from deeplimit.driving import IndependentLaw
from deeplimit.equations import Identity, Limit, NeuralSDE
from deeplimit.layers import PreNorm
from deeplimit.layers.activations import Activation, derivative, has_kink
from deeplimit.theory.smooth_layers import EulerOfODE
from deeplimit.theory.theorem import (
    Hypothesis,
    Network,
    Regime,
    Theorem,
    is_one_of,
    layers_are_functions,
    layers_are_independent,
    lipschitz,
    of_the_weights,
    side,
)

SOURCE = "Pre-norm networks (derived on the page Pre-norm)"
AWAY_FROM_ZERO = Hypothesis.unknown("states stay away from 0", "that states stay away from 0, where N jumps.")
ALIVE = Hypothesis.unknown(
    "updates do not die out",
    "that updates do not die out, as those of ReLU do once no entry of N(h) is positive.",
)


SIMULATED = 11
"""Fewer dimensions have no order stated: step 3 leaves out how slopes at two entries correlate."""
NODES = 200
"""Of a quadrature on the sphere: exact for polynomials up to degree 399, and to 1e-3 for kinks."""


@lru_cache(maxsize=256)
def errors_have_a_mean_square(dimensions: int, activation: Activation) -> bool:
    """Return whether the errors that N magnifies near 0 have a mean square: step 3 of the page.

    In logarithmic time they grow at the rate λ, the larger root of λ² - τλ = n(n - 1)κ with
    τ = (n - 1)(κ - 1) - 1 and κ = E σ'²/E σ² on the sphere. Their mean square is finite where λ ≤ (n - 2)²/8.
    For σ(x) = x and ReLU κ is 1 and λ = n - 1: from 11 dimensions on.
    """
    n = dimensions
    if n < SIMULATED:
        return False
    # The density of one coordinate of a point of the unit sphere is proportional to (1 - u²)^((n - 3)/2).
    nodes, weights = special.roots_jacobi(NODES, (n - 3) / 2, (n - 3) / 2)
    x = torch.from_numpy(math.sqrt(n) * nodes)
    try:
        slopes = derivative(activation, x).numpy()
    except RuntimeError:  # it cannot be differentiated
        return False
    with torch.no_grad():
        square = float(weights @ activation(x).numpy() ** 2)
    if square <= 0:
        return False
    kappa = float(weights @ slopes**2) / square
    trace = (n - 1) * (kappa - 1) - 1
    return (trace + math.sqrt(trace**2 + 4 * n * (n - 1) * kappa)) / 2 <= (n - 2) ** 2 / 8 * (1 + 1e-6)


def _is_independent(network: Network) -> bool:
    return is_one_of(network, PreNorm) and layers_are_independent(network)


class _OfIndependentLayers(Theorem):
    """What rows on independent layers share: the conditions."""

    further: ClassVar[tuple[Hypothesis, ...]] = ()
    """What only this row does not check."""

    def regime(self, network: Network) -> Regime:
        return self._regime(network).under(lipschitz(network), *self.further, *of_the_weights(network))

    @abstractmethod
    def _regime(self, network: Network) -> Regime:
        """Return what the statement says, without its conditions."""


@final
class PreNormDiffusion(_OfIndependentLayers):
    """Independent Gaussian layers at the exponent 1/2: the Euler-Maruyama scheme of a neural SDE.

    Its order is stated from 11 dimensions on. In fewer, states often come near 0, where N magnifies errors.
    """

    further = (AWAY_FROM_ZERO,)

    def matches(self, network: Network) -> bool:
        facts = network.facts
        gaussian = facts.gaussian and facts.independent_entries is True
        return _is_independent(network) and gaussian and side(network.exponent, 0.5) == 0

    def _regime(self, network: Network) -> Regime:
        dimensions = cast("PreNorm", network.recursion).dimensions(network.width)
        few = not errors_have_a_mean_square(dimensions, network.recursion.activation)
        often_near = (
            f" No order in mean square is known in {dimensions} dimensions with this activation: near 0 N"
            " magnifies errors, and states come there so often that it may be less than 1/2."
        )
        return Regime(
            "sde",
            SOURCE,
            None if few else 0.5,
            "pathwise",
            "independent Gaussian layers at the critical exponent 1/2: the network is the Euler-Maruyama"
            " scheme of a neural SDE, whose direction is a diffusion on the sphere."
            + (often_near if few else ""),
            corrections=(0.5, 1.0) if has_kink(network.recursion.activation) else (1.0,),
        )

    def limit(self, network: Network) -> Limit:
        weights = cast("tuple[IndependentLaw, ...]", network.weights)
        return NeuralSDE(cast("PreNorm", network.recursion), weights, network.width)


@final
class PreNormDiffusionInLaw(_OfIndependentLayers):
    """The same for other laws, by Donsker's principle: the limit is one in law only."""

    further = (AWAY_FROM_ZERO,)

    def matches(self, network: Network) -> bool:
        facts = network.facts
        gaussian = facts.gaussian and facts.independent_entries is True
        return _is_independent(network) and not gaussian and side(network.exponent, 0.5) == 0

    def _regime(self, network: Network) -> Regime:
        return Regime(
            "sde",
            f"{SOURCE}, by Donsker's invariance principle",
            None,
            "in law",
            "the weights are not Gaussian, so the SDE is a limit in law only. On one path, coarse layers are"
            " normalised sums of the finest layers' draws, and so not of the named law.",
            "weights=Brownian(), for which the limit is pathwise.",
        )

    def limit(self, network: Network) -> Limit:
        weights = cast("tuple[IndependentLaw, ...]", network.weights)
        return NeuralSDE(cast("PreNorm", network.recursion), weights, network.width)


@final
class PreNormIdentity(_OfIndependentLayers):
    """Independent layers at a larger exponent: their sum vanishes."""

    def matches(self, network: Network) -> bool:
        return _is_independent(network) and side(network.exponent, 0.5) > 0

    def _regime(self, network: Network) -> Regime:
        order = network.exponent - 0.5
        kinked = has_kink(network.recursion.activation)
        return Regime(
            "identity",
            SOURCE,
            order,
            "pathwise",
            "independent layers with an exponent above 1/2 have a vanishing sum: the network tends to the"
            " identity.",
            corrections=(2 * order, *((3 * order,) if kinked else ()), 1.0),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


@final
class PreNormClock(_OfIndependentLayers):
    """Independent layers at a smaller exponent: states grow, and directions move with a logarithm."""

    further = (ALIVE,)

    def matches(self, network: Network) -> bool:
        return _is_independent(network) and side(network.exponent, 0.5) < 0

    def _regime(self, network: Network) -> Regime:
        power = 1.0 - 2.0 * network.exponent
        return Regime(
            "logarithmic clock",
            SOURCE,
            None,
            None,
            f"independent layers with an exponent below 1/2 make |h_L|² grow like L^{power:g}, which is no"
            f" explosion. Directions move as far as log(1 + L^{power:g} v²/c), v² and c the mean squares of"
            " an update and of the first state; CorrelationClock computes how far.",
            "the same network with exponent=0.5, which has a limit.",
        )


@final
class PreNormODE(EulerOfODE):
    """Functions of time at the exponent 1: Euler's scheme of a neural ODE."""

    statement = SOURCE

    def matches(self, network: Network) -> bool:
        functions = layers_are_functions(network) and network.facts.holder == 1.0
        return is_one_of(network, PreNorm) and functions and side(network.exponent, 1.0) == 0

    def regime(self, network: Network) -> Regime:
        return super().regime(network).under(AWAY_FROM_ZERO)


ROWS: tuple[Theorem, ...] = (
    PreNormDiffusion(),
    PreNormDiffusionInLaw(),
    PreNormIdentity(),
    PreNormClock(),
    PreNormODE(),
)


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a pre-norm network, and the closest one that has a limit."""
    if not is_one_of(network, PreNorm):
        return None
    return (
        "of pre-norm networks the table has independent layers at any exponent, and functions of time at"
        " exponents from 1 on, Lipschitz ones at 1.",
        "the same network with Brownian weights and exponent=0.5, or with SmoothGaussian or Trend weights and"
        " exponent=1.",
    )
