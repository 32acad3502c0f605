"""Rows on attention: the clustering ODE, the noisy transformer SDE, and the identity above."""

from __future__ import annotations

from typing import cast, final

from deeplimit.equations import AttentionSDE, Identity, Limit
from deeplimit.layers import Attention
from deeplimit.theory.gradients import first_variation
from deeplimit.theory.smooth_layers import EulerOfODE
from deeplimit.theory.theorem import (
    Hypothesis,
    Network,
    Regime,
    Theorem,
    is_one_of,
    layers_are_functions,
    layers_are_independent,
    of_the_weights,
    side,
)

PAGE = "order derived on the page Attention"
FEDOROV, GESHKOVSKI = f"Fedorov et al. (2026), {PAGE}", f"Geshkovski et al. (2023), {PAGE}"
FEDOROV_KEY, GESHKOVSKI_KEY = "fedorov2026", "geshkovski2023"
SMOOTH = Hypothesis.holds(
    "the branch is Lipschitz",
    "Softmax attention is a smooth function of directions, which stay on spheres: nothing explodes.",
)
FORMS = "(the limit's own scheme leaves the sphere, and the network does not)"
EULER = "at exponent 1: up to terms of second order the network is an Euler scheme of the clustering ODE."


def _has_functions(network: Network) -> bool:
    return is_one_of(network, Attention) and layers_are_functions(network)


def _has_independent_layers(network: Network) -> bool:
    return is_one_of(network, Attention) and layers_are_independent(network)


@final
class ClusteringODE(EulerOfODE):
    """Geshkovski et al. (2023): dH_i = ‖H_i‖ P_i V_t m_i dt, for weights that are functions of time."""

    statement = GESHKOVSKI
    source = GESHKOVSKI_KEY
    lipschitz_words = f"values V that are Lipschitz functions of time, {EULER}"
    holder_words = f"values V that are only Hölder functions of time, {EULER}"

    def matches(self, network: Network) -> bool:
        return _has_functions(network) and side(network.exponent, 1.0) == 0

    def regime(self, network: Network) -> Regime:
        return super().regime(network)

    def gradients(self, network: Network) -> Regime | None:
        return first_variation(self.regime(network), network, for_any_slope=True)  # no σ is read


@final
class NoisyAttention(Theorem):
    """Fedorov et al. (2026): one Brownian motion moves all tokens, for independent Gaussian layers."""

    def matches(self, network: Network) -> bool:
        facts = network.facts
        return (
            _has_independent_layers(network)
            and facts.gaussian
            and facts.independent_entries is True
            and side(network.exponent, 0.5) == 0
        )

    def regime(self, network: Network) -> Regime:
        apart = Regime("gap", None, 0.5, "pathwise", f"squared errors expand in powers of 1/L {FORMS}.")
        return Regime(
            "sde",
            FEDOROV,
            0.5,
            "pathwise",
            "independent Gaussian layers at the critical exponent 1/2: one noise moves all tokens, and"
            " normalisation leaves a drift that keeps them on their spheres.",
            hypotheses=(SMOOTH,),
            citations=(FEDOROV_KEY,),
            gap=apart,
        )

    def limit(self, network: Network) -> Limit:
        return AttentionSDE(cast("Attention", network.recursion), network.weights, network.width)


@final
class NoisyAttentionInLaw(Theorem):
    """The same for other laws, by Donsker's principle: drift and covariance need second moments alone."""

    def matches(self, network: Network) -> bool:
        facts = network.facts
        normal = facts.gaussian and facts.independent_entries is True
        return _has_independent_layers(network) and not normal and side(network.exponent, 0.5) == 0

    def regime(self, network: Network) -> Regime:
        return Regime(
            "sde",
            f"{FEDOROV}, by Donsker's invariance principle",
            None,
            "in law",
            "the weights are not Gaussian, so the SDE is a limit in law only. On one path, coarse layers are"
            " normalised sums of the finest layers' draws, and so not of the named law.",
            "weights=Brownian(), for which the limit is pathwise.",
            hypotheses=(SMOOTH, *of_the_weights(network)),
            citations=(FEDOROV_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return AttentionSDE(cast("Attention", network.recursion), network.weights, network.width)


@final
class StillAttention(Theorem):
    """Above the critical exponents no token moves: shown on the page Attention."""

    def matches(self, network: Network) -> bool:
        if _has_functions(network):
            return side(network.exponent, 1.0) > 0
        return _has_independent_layers(network) and side(network.exponent, 0.5) > 0

    def regime(self, network: Network) -> Regime:
        functions = _has_functions(network)
        order = network.exponent - (1.0 if functions else 0.5)
        what = (
            "weights that are functions of time with an exponent above 1"
            if functions
            else "independent layers with an exponent above 1/2"
        )
        return Regime(
            "identity",
            None,
            order,
            "pathwise",
            f"{what}: the sum of all updates vanishes, and the network tends to the identity,"
            " as the page Attention derives.",
            corrections=(order, 1.0) if functions else (2.0 * order, 1.0),
            hypotheses=(SMOOTH, *of_the_weights(network)),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


ROWS: tuple[Theorem, ...] = (ClusteringODE(), NoisyAttention(), NoisyAttentionInLaw(), StillAttention())


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a network of attention, and the closest one that has a limit."""
    if not is_one_of(network, Attention):
        return None
    return (
        "of attention the table has functions of time at exponents from 1 on, and independent layers at"
        " exponents from 1/2 on. Below these exponents tokens stay on their spheres,"
        " but the sum of all updates has no limit.",
        "attention(...) with Brownian weights and exponent=0.5, or with Trend or SmoothGaussian weights and"
        " exponent=1.",
    )
