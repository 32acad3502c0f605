"""Rows on weights that are functions of time: Propositions 12, 13 and 14 of Marion et al. (2025)."""

from __future__ import annotations

from typing import ClassVar, cast, final

from deeplimit.driving import Dependence, FunctionLaw
from deeplimit.equations import Identity, Limit, NeuralODE
from deeplimit.layers import FullyConnected, Inner, PreNorm, Res1
from deeplimit.theory import functions_of_time
from deeplimit.theory.gradients import first_variation
from deeplimit.theory.theorem import (
    MARION,
    MARION_KEY,
    PAPERS,
    Network,
    Regime,
    Theorem,
    is_one_of,
    layers_are_functions,
    lipschitz,
    side,
)

ADD_UP = (
    "weights that are functions of time add up coherently, and below exponent 1 they add up to too much."
    " Proposition 14 proves explosion for res-1 with the identity activation where V(0)ᵀ has a positive"
    " eigenvalue; other networks may explode, saturate or contract."
)
EULER = "at the critical exponent 1: the network is an Euler scheme of a neural ODE."
SAME_AT_ONE = "the same network with exponent=1, which has a limit."


def _has_functions(network: Network) -> bool:
    """Return whether this is one of the papers' recursions whose layers are values of functions of time."""
    ignores_a_bias = network.facts.biased and not is_one_of(network, Inner)
    return is_one_of(network, *PAPERS) and layers_are_functions(network) and not ignores_a_bias


@final
class SmoothIdentity(Theorem):
    """Marion et al. (2025), Proposition 13 above the exponent 1: h_L tends to h_0."""

    def matches(self, network: Network) -> bool:
        return _has_functions(network) and side(network.exponent, 1.0) > 0

    def regime(self, network: Network) -> Regime:
        return Regime(
            "identity",
            f"Proposition 13 {MARION}",
            network.exponent - 1.0,
            "pathwise",
            "weights that are functions of time with an exponent above 1: the network tends to the identity.",
            corrections=(network.exponent - 1.0, 1.0),
            citations=(MARION_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()

    def gradients(self, network: Network) -> Regime | None:
        return first_variation(self.regime(network), network, for_any_slope=True)


@final
class SmoothVanishing(Theorem):
    """The same for recursions of other papers: L bounded updates of size L^-exponent add up to nothing."""

    def matches(self, network: Network) -> bool:
        others = is_one_of(network, FullyConnected, PreNorm) and layers_are_functions(network)
        return others and side(network.exponent, 1.0) > 0

    def regime(self, network: Network) -> Regime:
        order = network.exponent - 1.0
        return Regime(
            "identity",
            None,
            order,
            "pathwise",
            "weights that are functions of time with an exponent above 1: the sum of all updates vanishes,"
            " and the network tends to the identity. The order is exact unless the updates add up to 0.",
            corrections=(order, 1.0),
            hypotheses=(
                lipschitz(network),
                *functions_of_time.as_stated(cast("tuple[FunctionLaw, ...]", network.weights), network.width),
            ),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


@final
class SmoothExplosion(Theorem):
    """Marion et al. (2025), Proposition 14 below the exponent 1, for random functions of time."""

    def matches(self, network: Network) -> bool:
        return _has_functions(network) and side(network.exponent, 1.0) < 0 and network.facts.gaussian

    def regime(self, network: Network) -> Regime:
        proved = is_one_of(network, Res1) and network.recursion.activation.name == "identity"
        return Regime(
            "explosion",
            f"Proposition 14 {MARION}" if proved else None,
            None,
            None,
            ADD_UP,
            SAME_AT_ONE,
            citations=(MARION_KEY,) if proved else (),
        )


class EulerOfODE(Theorem):
    """Functions of time at the exponent 1; for Hölder functions the same ODE, without the statement."""

    statement: ClassVar[str]
    source: ClassVar[str] = ""
    """The key of its citation, if a work states it."""
    lipschitz_words: ClassVar[str] = f"weights that are Lipschitz functions of time {EULER}"
    holder_words: ClassVar[str]

    def regime(self, network: Network) -> Regime:
        holder = network.facts.holder
        assert holder is not None  # matches asked
        functions = cast("tuple[FunctionLaw, ...]", network.weights)
        rough = holder < 1.0
        gone = not rough and functions_of_time.first_term_vanishes(network)
        return Regime(
            "ode",
            None if rough else self.statement,
            holder,
            "pathwise",
            self.holder_words if rough else self.lipschitz_words,
            corrections=(1.0 - holder, 1.0) if rough else (1.0,),
            hypotheses=(lipschitz(network), *functions_of_time.as_stated(functions, network.width)),
            citations=() if rough or not self.source else (self.source,),
            rate_is_bound=rough or gone,
        )

    def limit(self, network: Network) -> Limit:
        functions = cast("tuple[FunctionLaw, ...]", network.weights)
        return NeuralODE(network.recursion, functions, network.width)

    def gradients(self, network: Network) -> Regime | None:
        return first_variation(self.regime(network), network)


@final
class NeuralODEOfTime(EulerOfODE):
    """Marion et al. (2025), Proposition 12: the papers' recursions."""

    statement = f"Proposition 12 {MARION}"
    source = MARION_KEY
    holder_words = (
        f"weights that are only Hölder functions of time, which Proposition 12 does not cover {EULER}"
    )

    def matches(self, network: Network) -> bool:
        return _has_functions(network) and side(network.exponent, 1.0) == 0


ROWS: tuple[Theorem, ...] = (
    SmoothIdentity(),
    SmoothVanishing(),
    SmoothExplosion(),
    NeuralODEOfTime(),
)


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a network with functions of time, or with laws of different kinds."""
    if _has_functions(network):
        return ADD_UP, SAME_AT_ONE
    if is_one_of(network, *PAPERS) and network.facts.dependence == Dependence.MIXED:
        return (
            "the weight matrices have laws of different kinds (independent layers, functions of time,"
            " fractional Brownian motion); no proposition covers the mix.",
            "SmoothGaussian or Trend weights for all matrices, with exponent=1 (Proposition 12).",
        )
    return None
