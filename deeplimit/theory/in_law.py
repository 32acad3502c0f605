"""The row on a limit that holds in law only: res-1 with layers of another law than the Gaussian."""

from __future__ import annotations

from typing import final

from deeplimit.equations import Limit
from deeplimit.layers import Res1
from deeplimit.theory.independent_layers import neural_sde
from deeplimit.theory.theorem import (
    MARION,
    MARION_KEY,
    Network,
    Regime,
    Theorem,
    is_one_of,
    layers_are_independent,
    lipschitz,
    of_the_weights,
    side,
)


@final
class DiffusionInLaw(Theorem):
    """Marion et al. (2025), Proposition 11 with Donsker's principle: res-1 with independent layers of another
    law.
    """

    def matches(self, network: Network) -> bool:
        facts = network.facts
        return (
            is_one_of(network, Res1)
            and layers_are_independent(network)
            and not (facts.gaussian and facts.independent_entries is True)
            and side(network.exponent, 0.5) == 0
        )

    def regime(self, network: Network) -> Regime:
        return Regime(
            "sde",
            f"Proposition 11 {MARION}, by Donsker's invariance principle",
            None,
            "in law",
            "the weights are not Gaussian, so the SDE is a limit in law only. On one path, coarse layers are"
            " normalised sums of the finest layers' draws, and so not of the named law.",
            "weights=Brownian(), for which the limit is pathwise.",
            hypotheses=(lipschitz(network), *of_the_weights(network)),
            citations=(MARION_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return neural_sde(network)


ROWS: tuple[Theorem, ...] = (DiffusionInLaw(),)
