"""Rows on independent layers: Proposition 11 and Corollary 5 of Marion et al. (2025)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import cast, final

import torch

from deeplimit.driving import Dependence, IndependentLaw
from deeplimit.equations import Identity, Limit, NeuralSDE
from deeplimit.layers import Res1, Res2, Res3
from deeplimit.layers.activations import Activation, has_kink, slopes
from deeplimit.theory.gradients import first_variation
from deeplimit.theory.growth import known_growth
from deeplimit.theory.theorem import (
    MARION,
    MARION_KEY,
    Hypothesis,
    Network,
    Regime,
    Theorem,
    failing,
    is_one_of,
    laws,
    layers_are_independent,
    lipschitz,
    of_the_weights,
    side,
    sides,
)

PAIRED = (
    "res1 with the same weights and exponent=0.5 (Proposition 11), or SmoothGaussian weights with exponent=1"
    " (Proposition 12)."
)
WIDTH = 9
"""The least width of Corollary 5 below the exponent 1/2."""
A2 = "(A2), ½‖h‖² ≤ E‖g(h)‖² ≤ ‖h‖², which res-3 satisfies and tanh does not."


def _has_corollary(network: Network) -> bool:
    return is_one_of(network, Res1, Res2, Res3) and layers_are_independent(network)


@final
class IndependentIdentity(Theorem):
    """Marion et al. (2025), Corollary 5 above the exponent 1/2: h_L tends to h_0."""

    def matches(self, network: Network) -> bool:
        return _has_corollary(network) and side(network.exponent, 0.5) > 0

    def regime(self, network: Network) -> Regime:
        exponent = network.exponent
        return Regime(
            "identity",
            f"Corollary 5 {MARION}",
            exponent - 0.5,
            "pathwise",
            "independent layers with an exponent above 1/2 have a vanishing sum: the network tends to the"
            " identity. The order exponent - 1/2 is that of the martingale's standard deviation, for any"
            " Lipschitz activation.",
            # States move by L^-(exponent - 1/2). Squared errors have even powers of it. With a kink, which as
            # large a share of states passes, they have odd ones, too.
            corrections=(
                2 * exponent - 1.0,
                *((3 * (exponent - 0.5),) if has_kink(network.recursion.activation) else ()),
                1.0,
            ),
            is_series=True,
            hypotheses=(
                Hypothesis.unknown("(A2)", f"the corollary's assumption {A2}"),
                *of_the_weights(network),
            ),
            citations=(MARION_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()

    def gradients(self, network: Network) -> Regime | None:
        return first_variation(self.regime(network), network, for_any_slope=True)


@final
class IndependentExplosion(Theorem):
    """Marion et al. (2025), Corollary 5 below the exponent 1/2: h_L grows without bound."""

    def matches(self, network: Network) -> bool:
        return _has_corollary(network) and side(network.exponent, 0.5) < 0

    def regime(self, network: Network) -> Regime:
        return Regime(
            "explosion",
            f"Corollary 5 {MARION}",
            None,
            None,
            "independent layers with an exponent below 1/2 make the hidden state grow without bound.",
            (
                "the same network with exponent=0.5, which has a limit."
                if is_one_of(network, Res1)
                else PAIRED
            ),
            hypotheses=(*_of_the_corollary(network), *of_the_weights(network)),
            citations=(MARION_KEY,),
        )


def _is_wide(network: Network) -> Hypothesis:
    """Return whether the corollary's width is reached.

    With σ(x) = x the logarithm of |h_L|² of res-1 drifts by 1 - 2/d per unit of L^(1 - 2·exponent): at width
    1 the median dies, and at width 2 it stays.
    """
    name, width = f"width at least {WIDTH}", network.width
    if width >= WIDTH:
        return Hypothesis.holds(name, f"the width is at least {WIDTH}.")
    return Hypothesis.fails(
        name,
        f"the width is {width}, and below {WIDTH} states may die, as they do at width 1.",
    )


def _moves_enough(network: Network) -> Hypothesis:
    """Return whether ½‖h‖² ≤ E‖g(h)‖² ≤ ‖h‖² for the branch g: E‖g‖² is E‖σ(W h)‖², or ‖σ(h)‖² for res-1."""
    name, activation = "(A2)", network.recursion.activation
    _, inner = sides(network)
    both = slopes(activation)
    if inner is None or inner.gaussian:
        least, most = _shares_passed(activation, through_normal=inner is not None)
    elif both is not None and inner.symmetric:  # half of the squares are of either sign
        least = most = (both.positive**2 + both.negative**2) / 2
    else:
        return Hypothesis.unknown(name, f"the corollary's assumption {A2}")
    if least >= 0.5 - ROUND_OFF and most <= 1.0 + ROUND_OFF:
        return Hypothesis.holds(name, "½‖h‖² ≤ E‖g(h)‖² ≤ ‖h‖² holds for the branch g (A2).")
    return Hypothesis.fails(
        name,
        f"(A2), ½‖h‖² ≤ E‖g(h)‖² ≤ ‖h‖², fails: the ratio goes from {least:.2g} to {most:.2g}.",
    )


SIZES = torch.logspace(-3.0, 3.0, 61, dtype=torch.float64)
"""Sizes of entries at which the branch is compared with the state."""
ROUND_OFF = 1e-6
"""Of a quadrature of a function with a kink."""


@lru_cache(maxsize=256)
def _shares_passed(activation: Activation, *, through_normal: bool) -> tuple[float, float]:
    """Return the smallest and the largest σ(s)²/s² over sizes s of either sign, or E σ(sZ)²/s², Z normal."""
    with torch.no_grad():
        if not through_normal:
            both = torch.cat([-SIZES, SIZES])
            shares = (activation(both) / both).square()
        else:
            # Half of the mass on either side of a kink at 0, each by the trapezoidal rule, out to 9σ.
            z = torch.linspace(0.0, 9.0, 2001, dtype=torch.float64)
            density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
            at = SIZES[:, None] * z
            squares = (activation(at).square() + activation(-at).square()) * density
            shares = torch.trapezoid(squares, z, dim=1) / SIZES.square()
    return float(shares.min()), float(shares.max())


def _of_the_corollary(network: Network) -> tuple[Hypothesis, ...]:
    return _is_wide(network), _moves_enough(network)


@final
class GrowthWithoutBound(Theorem):
    """The same where the corollary's assumptions fail and the growth is known: no paper states it."""

    def matches(self, network: Network) -> bool:
        return (
            _has_corollary(network)
            and side(network.exponent, 0.5) < 0
            and bool(failing(_of_the_corollary(network)))
            and known_growth(network).predicted is not None
        )

    def regime(self, network: Network) -> Regime:
        why = " ".join(each.why for each in failing(_of_the_corollary(network)))
        return Regime(
            "explosion",
            None,
            None,
            None,
            "independent layers with an exponent below 1/2 make the hidden state grow without bound."
            f" Corollary 5 {MARION} does not cover it: {why}",
            PAIRED,
        )


@final
class Diffusion(Theorem):
    """Marion et al. (2025), Proposition 11: res-1 with Gaussian layers is the Euler-Maruyama scheme of a
    neural SDE.
    """

    def matches(self, network: Network) -> bool:
        return (
            is_one_of(network, Res1)
            and layers_are_independent(network)
            and network.facts.gaussian
            and network.facts.independent_entries is True
            and side(network.exponent, 0.5) == 0
        )

    def regime(self, network: Network) -> Regime:
        return Regime(
            "sde",
            f"Proposition 11 {MARION}",
            0.5,
            "pathwise",
            "independent Gaussian layers at the critical exponent 1/2: the network is the Euler-Maruyama"
            " scheme of a neural SDE.",
            # Squared errors have powers of 1/L. A share L^-1/2 of states passes a kink of σ in a step, where
            # Euler's rule errs by another factor.
            corrections=(0.5, 1.0) if has_kink(network.recursion.activation) else (1.0,),
            hypotheses=(lipschitz(network), *of_the_weights(network)),
            citations=(MARION_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return neural_sde(network)

    def gradients(self, network: Network) -> Regime | None:
        return first_variation(self.regime(network), network)


def neural_sde(network: Network) -> NeuralSDE:
    """Return the SDE of Proposition 11 for a res-1 network."""
    weights = cast("tuple[IndependentLaw, ...]", network.weights)
    return NeuralSDE(cast("Res1", network.recursion), weights, network.width)


ROWS: tuple[Theorem, ...] = (
    IndependentIdentity(),
    IndependentExplosion(),
    GrowthWithoutBound(),
    Diffusion(),
)


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a network with independent layers, and the closest one that has a limit."""
    facts = laws(network)
    if any(fact.found for fact in facts):
        found = "; ".join(dict.fromkeys(text for fact in facts for text in fact.found))
        return (
            f"the sampler's draws are not independent, as was found: {found}. The theorems ask for"
            " independent entries in independent layers.",
            "the same network with Brownian() weights.",
        )
    independent = all(fact.dependence == Dependence.INDEPENDENT for fact in facts)
    if independent and not layers_are_independent(network):
        return (
            "layers are independent, but the weight law does not state that its entries are independent of"
            " each other with mean 0 and variance 1/d, as assumption (A1) asks.",
            "the same network with Brownian() weights.",
        )
    return None
