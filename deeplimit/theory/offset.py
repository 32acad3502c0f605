"""Rows on weights that shrink with the depth inside an activation with σ(0) ≠ 0: Assumption 4.2 fails.

One layer adds L^-α σ(M) with M = L^-β (Ā h + b̄) + ΔW^A h + ΔW^b. Where all M tend to 0, each layer adds
L^-α σ(0), and L layers add up to L^(1 - α) σ(0). States of that size keep M small where α + β > 1 (trend) and
α > 1/2 (noise). docs/theorems/elsewhere.md says so, too.
"""

from __future__ import annotations

import math
from typing import final

from deeplimit.equations import Identity, Limit
from deeplimit.theory.orders import Contributions
from deeplimit.theory.shrinking_weights import Case, Place, place_of
from deeplimit.theory.theorem import Hypothesis, Network, Regime, Theorem, lipschitz, of_the_weights, side

INSTEAD = (
    "the same network with an activation that is 0 at 0, such as scaled_softplus, scaled_silu, scaled_gelu or"
    " tanh."
)


def _place(network: Network) -> Place | None:
    """Return where in the plane of exponents a network with σ(0) ≠ 0 lies; None for other networks."""
    if network.recursion.activation.at_zero == 0.0:
        return None
    place = place_of(network)
    return place if place is not None and place.case is Case.NO_EXPANSION else None


def _offset(network: Network) -> str:
    activation = network.recursion.activation
    return f"σ(0) = {activation.at_zero:.4g} for {activation.name}"


def _assumes(network: Network) -> tuple[Hypothesis, ...]:
    return (lipschitz(network), *of_the_weights(network))


@final
class OffsetExplosion(Theorem):
    """α < 1: the values σ(0) of all layers add up without bound, like L^(1 - α)."""

    def matches(self, network: Network) -> bool:
        place = _place(network)
        if place is None or side(place.alpha, 1.0) >= 0:
            return False
        trend_is_small = place.holder is None or side(place.alpha + place.beta, 1.0) > 0
        noise_is_small = place.noise is None or side(place.alpha, 0.5) > 0
        return trend_is_small and noise_is_small

    def regime(self, network: Network) -> Regime:
        return Regime(
            "explosion",
            None,
            None,
            None,
            f"{_offset(network)}: what every layer adds at 0 adds up to L^{1 - network.exponent:.4g} σ(0),"
            " and the hidden state diverges like it.",
            INSTEAD,
            hypotheses=_assumes(network),
        )


@final
class OffsetIdentity(Theorem):
    """α > 1: the same sum vanishes, and with it all that is left of trend and noise."""

    def matches(self, network: Network) -> bool:
        place = _place(network)
        return place is not None and side(place.alpha, 1.0) > 0

    def regime(self, network: Network) -> Regime:
        place = _place(network)
        assert place is not None  # matches asked
        first = place.alpha - 1.0
        trend = first + place.beta if place.holder is not None else math.inf
        left = Contributions((first, trend, *((place.alpha,) if place.noise is not None else ())))
        return Regime(
            "identity",
            None,
            left.rate,
            "pathwise",
            f"{_offset(network)}: what every layer adds at 0 adds up to L^-{first:.4g} σ(0), which tends to"
            " 0, and all else to less: the network tends to the identity.",
            corrections=left.corrections,
            second_orders=left.second_orders,
            interfere=True,
            hypotheses=_assumes(network),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


ROWS: tuple[Theorem, ...] = (OffsetExplosion(), OffsetIdentity())
