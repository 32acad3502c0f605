"""Rows on pre-norm networks h + L^-β V σ(N(h)); derived in docs/theorems/prenorm.md."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import ClassVar, cast, final

from deeplimit.driving import IndependentLaw
from deeplimit.equations import Identity, Limit, NeuralSDE
from deeplimit.layers import PreNorm
from deeplimit.layers.activations import has_kink
from deeplimit.theory.matching import (
    is_one_of,
    layers_are_functions,
    layers_are_independent,
    lipschitz,
    not_known,
)
from deeplimit.theory.regime import Regime
from deeplimit.theory.smooth_layers import EulerOfODE
from deeplimit.theory.theorem import Network, Theorem

SOURCE = "Pre-norm networks (derived on the page Pre-norm)"
AWAY_FROM_ZERO = "that states stay away from 0, where N jumps."
MAGNIFIED = "that errors which N magnifies near 0 have a mean square, as they have for σ(x) = x."
DIMENSIONS = 11
"""From this number of dimensions on they have one: n - 1 ≤ (n - 2)²/8, step 3 of the page."""
ALIVE = "that updates do not die out, as those of ReLU do once no entry of N(h) is positive."


def _is_independent(network: Network) -> bool:
    return is_one_of(network, PreNorm) and layers_are_independent(network)


class _OfIndependentLayers(Theorem):
    """What rows on independent layers share: the conditions."""

    further: ClassVar[tuple[str, ...]] = ()
    """What only this row does not check."""

    def regime(self, network: Network) -> Regime:
        checked, unchecked = lipschitz(network)
        return dataclasses.replace(
            self._regime(network),
            checked=(*checked, *network.facts.tested),
            not_checked=(*unchecked, *self.further, *not_known(network.facts)),
        )

    @abstractmethod
    def _regime(self, network: Network) -> Regime:
        """Return what the statement says, without its conditions."""


@final
class PreNormDiffusion(_OfIndependentLayers):
    """Independent Gaussian layers at the exponent 1/2: the Euler-Maruyama scheme of a neural SDE.

    Its order is stated from 11 dimensions on. In fewer, states often come near 0, where N magnifies errors.
    """

    further = (AWAY_FROM_ZERO, MAGNIFIED)

    def matches(self, network: Network) -> bool:
        facts = network.facts
        gaussian = facts.gaussian and facts.independent_entries is True
        return _is_independent(network) and gaussian and network.exponent == 0.5

    def _regime(self, network: Network) -> Regime:
        dimensions = cast("PreNorm", network.recursion).dimensions(network.width)
        few = dimensions < DIMENSIONS
        often_near = (
            f" No order in mean square is known in {dimensions} dimensions, below {DIMENSIONS}: near 0 N"
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
class PreNormIdentity(_OfIndependentLayers):
    """Independent layers at a larger exponent: their sum vanishes."""

    def matches(self, network: Network) -> bool:
        return _is_independent(network) and network.exponent > 0.5

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
        return _is_independent(network) and network.exponent < 0.5

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
        return is_one_of(network, PreNorm) and functions and network.exponent == 1.0

    def regime(self, network: Network) -> Regime:
        said = super().regime(network)
        return dataclasses.replace(said, not_checked=(*said.not_checked, AWAY_FROM_ZERO))


ROWS: tuple[Theorem, ...] = (PreNormDiffusion(), PreNormIdentity(), PreNormClock(), PreNormODE())


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a pre-norm network, and the closest one that has a limit."""
    if not is_one_of(network, PreNorm):
        return None
    return (
        "of pre-norm networks the table has independent layers at any exponent, Gaussian ones alone at 1/2,"
        " and Lipschitz functions of time at exponent 1.",
        "the same network with Brownian weights and exponent=0.5, or with SmoothGaussian or Trend weights and"
        " exponent=1.",
    )
