"""Rows on V σ(W h) with independent layers V and layers W that are values of a function of time.

Given W, the network is the Euler-Maruyama scheme of dH = d^-½ dB σ(W_t H). Its increments are V's, and W is
read at the end of every step. W is independent of B, so that this reading changes states by L^-ν alone, ν the
Hölder exponent of W. Within a step H moves by L^-½ (docs/theorems/proposition-11.md).
"""

from __future__ import annotations

from typing import cast, final

from deeplimit.driving import Dependence, Facts, FunctionLaw
from deeplimit.equations import Identity, Limit, MixedSDE
from deeplimit.layers import Res2, Res3
from deeplimit.layers.activations import has_kink
from deeplimit.theory import functions_of_time
from deeplimit.theory.orders import Contributions
from deeplimit.theory.theorem import (
    Hypothesis,
    Network,
    Regime,
    Theorem,
    are_independent,
    is_one_of,
    lipschitz,
    of_the_weights,
    side,
    sides,
)

SOURCE = "Independent layers outside σ, functions of time inside (derived on the page Proposition 11)"


def _outside(network: Network) -> Facts | None:
    """Return what is known of V, if the network is of this kind."""
    if not is_one_of(network, Res2, Res3):
        return None
    outer, inner = sides(network)
    assert outer is not None  # these recursions have both
    assert inner is not None
    functions = inner.dependence == Dependence.SMOOTH and inner.holder is not None
    return outer if are_independent(outer) and functions else None


def _inside(network: Network) -> FunctionLaw:
    return cast("FunctionLaw", network.weights[1])


def _assumes(network: Network) -> tuple[Hypothesis, ...]:
    return (
        lipschitz(network),
        *functions_of_time.as_stated((_inside(network),), network.width),
        *of_the_weights(network),
    )


@final
class NoiseOutside(Theorem):
    """Gaussian V at the exponent 1/2: the Euler-Maruyama scheme of dH = d^-½ dB σ(W_t H), path by path."""

    def matches(self, network: Network) -> bool:
        facts = _outside(network)
        normal = facts is not None and facts.gaussian and facts.independent_entries is True
        return normal and side(network.exponent, 0.5) == 0

    def regime(self, network: Network) -> Regime:
        holder = sides(network)[1].holder  # type: ignore[union-attr]  # matches asked
        assert holder is not None
        rough = () if holder == 1.0 else (holder,)
        contributions = Contributions((0.5, 1.0), rough)
        kinked = has_kink(network.recursion.activation)
        # Squared errors have powers of 1/L, as those of Proposition 11; rough functions add their own.
        # Reading W at the ends of steps adds 1/L², which W that changes fast makes large at small depth.
        corrections = contributions.corrections if rough else (0.5, 1.0) if kinked else (1.0,)
        return Regime(
            "sde",
            SOURCE,
            contributions.rate,
            "pathwise",
            "independent Gaussian layers outside σ at the critical exponent 1/2, and functions of time"
            " inside: given these, the network is the Euler-Maruyama scheme of an SDE.",
            corrections=corrections,
            second_orders=contributions.second_orders if rough else (0.5,),
            hypotheses=_assumes(network),
            rate_is_bound=contributions.is_bound,
        )

    def limit(self, network: Network) -> Limit:
        return MixedSDE(network.recursion.activation, _inside(network), network.width)


@final
class NoiseOutsideIdentity(Theorem):
    """The same above the exponent 1/2, for any law of V: a martingale of size L^(1/2 - exponent) vanishes."""

    def matches(self, network: Network) -> bool:
        return _outside(network) is not None and side(network.exponent, 0.5) > 0

    def regime(self, network: Network) -> Regime:
        order = network.exponent - 0.5
        kinked = has_kink(network.recursion.activation)
        return Regime(
            "identity",
            None,
            order,
            "pathwise",
            "independent layers outside σ with an exponent above 1/2, and functions of time inside: the sum"
            " of all updates vanishes, and the network tends to the identity.",
            corrections=(2 * order, *((3 * order,) if kinked else ()), 1.0),
            hypotheses=_assumes(network),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


ROWS: tuple[Theorem, ...] = (NoiseOutside(), NoiseOutsideIdentity())
