"""Rows on limits that hold in law only: other laws than the Gaussian, and products of two matrices."""

from __future__ import annotations

from typing import ClassVar, final

from deeplimit.equations import Limit
from deeplimit.equations.in_law import IsotropicSDE
from deeplimit.layers import Res1, Res2, Res3, activations
from deeplimit.theory.independent_layers import PAIRED, neural_sde
from deeplimit.theory.matching import (
    MARION,
    MARION_KEY,
    is_one_of,
    layers_are_independent,
    lipschitz,
    of_the_weights,
    side,
)
from deeplimit.theory.regime import Regime
from deeplimit.theory.theorem import Network, Theorem

PRODUCT = (
    "multiplies two independent matrices per layer. Their product is not an increment of the driving path, so"
    " its diffusion limit holds in law only, and no Euler scheme runs on the same noise."
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


def _is_isotropic(network: Network) -> bool:
    """Whether the branch V ReLU(W h) has covariance |h|²/(2d) I: a symmetric W passes half of |h|²."""
    return network.recursion.activation == activations.resolve("relu") and network.facts.symmetric


class _Product(Theorem):
    """Two independent matrices per layer, at the critical exponent 1/2."""

    isotropic: ClassVar[bool]

    def matches(self, network: Network) -> bool:
        return (
            is_one_of(network, Res2, Res3)
            and layers_are_independent(network)
            and side(network.exponent, 0.5) == 0
            and _is_isotropic(network) == self.isotropic
        )

    def _regime(self, network: Network, limit: str) -> Regime:
        return Regime(
            "sde",
            None,
            None,
            "in law",
            f"{network.recursion.name} {PRODUCT}{limit}",
            PAIRED,
            hypotheses=of_the_weights(network),
        )


@final
class RectifiedProduct(_Product):
    """V ReLU(W h) with symmetric laws, as in res-3: the library's derivation, which no paper states."""

    isotropic = True

    def regime(self, network: Network) -> Regime:
        return self._regime(
            network,
            " Every layer's branch has the covariance |h|²/(2d) I, so that limit is dH = |H|/√(2d) dβ.",
        )

    def limit(self, network: Network) -> Limit:
        return IsotropicSDE(network.width)


@final
class OtherProduct(_Product):
    """V σ(W h) with any other activation or law: a diffusion limit in law, whose equation is not known."""

    isotropic = False

    def regime(self, network: Network) -> Regime:
        return self._regime(network, "")


ROWS: tuple[Theorem, ...] = (DiffusionInLaw(), RectifiedProduct(), OtherProduct())
