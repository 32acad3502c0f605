"""Rows on independent layers: Proposition 11 and Corollary 5 of Marion et al. (2025)."""

from __future__ import annotations

from typing import cast, final

from deeplimit.driving import Dependence, IndependentLaw
from deeplimit.equations import Identity, Limit, NeuralSDE
from deeplimit.layers import Inner, Res1, Res2, Res3
from deeplimit.layers.activations import has_kink
from deeplimit.theory.gradients import first_variation
from deeplimit.theory.matching import (
    MARION,
    MARION_KEY,
    is_one_of,
    laws,
    layers_are_independent,
    lipschitz,
    not_known,
)
from deeplimit.theory.regime import Regime
from deeplimit.theory.theorem import Network, Theorem

PAIRED = (
    "res1 with the same weights and exponent=0.5 (Proposition 11), or SmoothGaussian weights with exponent=1"
    " (Proposition 12)."
)
A2 = "(A2), ½‖h‖² ≤ E‖g(h)‖² ≤ ‖h‖², which res-3 satisfies and tanh does not."


def _has_corollary(network: Network) -> bool:
    return is_one_of(network, Res1, Res2, Res3) and layers_are_independent(network)


@final
class IndependentIdentity(Theorem):
    """Marion et al. (2025), Corollary 5 above the exponent 1/2: h_L tends to h_0."""

    def matches(self, network: Network) -> bool:
        return _has_corollary(network) and network.exponent > 0.5

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
            corrections=(2 * exponent - 1.0, *((3 * (exponent - 0.5),) if _is_kinked(network) else ()), 1.0),
            checked=network.facts.tested,
            not_checked=(f"the corollary's assumption {A2}", *not_known(network.facts)),
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
        return _has_corollary(network) and network.exponent < 0.5

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
            checked=network.facts.tested,
            not_checked=(f"the corollary's assumptions d ≥ 9 and {A2}", *not_known(network.facts)),
            citations=(MARION_KEY,),
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
            and network.exponent == 0.5
        )

    def regime(self, network: Network) -> Regime:
        checked, unchecked = lipschitz(network)
        return Regime(
            "sde",
            f"Proposition 11 {MARION}",
            0.5,
            "pathwise",
            "independent Gaussian layers at the critical exponent 1/2: the network is the Euler-Maruyama"
            " scheme of a neural SDE.",
            # Squared errors have powers of 1/L. A share L^-1/2 of states passes a kink of σ in a step, where
            # Euler's rule errs by another factor.
            corrections=(0.5, 1.0) if _is_kinked(network) else (1.0,),
            checked=checked,
            not_checked=unchecked,
            citations=(MARION_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return neural_sde(network)

    def gradients(self, network: Network) -> Regime | None:
        return first_variation(self.regime(network), network)


def _is_kinked(network: Network) -> bool:
    return has_kink(network.recursion.activation)


def neural_sde(network: Network) -> NeuralSDE:
    """Return the SDE of Proposition 11 for a res-1 network."""
    weights = cast("tuple[IndependentLaw, ...]", network.weights)
    return NeuralSDE(cast("Res1", network.recursion), weights, network.width)


ROWS: tuple[Theorem, ...] = (IndependentIdentity(), IndependentExplosion(), Diffusion())


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
    if all(fact.dependence == Dependence.INDEPENDENT for fact in facts):
        if not layers_are_independent(network):
            return (
                "layers are independent, but the weight law does not state that its entries are independent"
                " of each other with mean 0 and variance 1/d, as assumption (A1) asks.",
                "the same network with Brownian() weights.",
            )
        if is_one_of(network, Inner):
            return (
                f"independent layers of size 1 inside the activation (exponent {network.exponent:g}) are"
                " outside Propositions 11 and 12. Theorem 4.4 of Cohen et al. (2021) is about layers that are"
                " increments, of size L^-1/2.",
                "inner(..., noise=Ito(A=1/d), alpha=0) (Theorem 4.4), SmoothGaussian or Trend weights with"
                " exponent=1 (Proposition 12), or res1 (Proposition 11).",
            )
    return None
