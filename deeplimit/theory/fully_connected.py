"""The row on the fully connected recursion with a factor δ: the neural ODE (2) of Cohen et al. (2021)."""

from __future__ import annotations

from typing import cast, final

from deeplimit.limits import Limit, NeuralODE
from deeplimit.recursions import FullyConnected
from deeplimit.theory.matching import COHEN, COHEN_KEY, is_critical, is_one_of, laws, lipschitz
from deeplimit.theory.regime import Regime
from deeplimit.theory.theorem import Network, Theorem
from deeplimit.weights import Dependence, FunctionLaw


def _are_functions(network: Network) -> bool:
    return is_one_of(network, FullyConnected) and all(
        facts.dependence == Dependence.SMOOTH and facts.holder is not None for facts in laws(network)
    )


@final
class ScaledNeuralODE(Theorem):
    """[C] (2) with δ_k = δ(k/L)/L: an Euler scheme of dH = δ_t σ(A_t H + b_t) dt."""

    def matches(self, network: Network) -> bool:
        return _are_functions(network) and is_critical(network.exponent, 1.0)

    def regime(self, network: Network) -> Regime:
        holder = network.facts.holder
        assert holder is not None  # matches asked
        checked, unchecked = lipschitz(network)
        given = not all(facts.gaussian for facts in laws(network))
        rough = holder < 1.0
        return Regime(
            "ode",
            None if rough else f"Equation (2) {COHEN}, after Thorpe and van Gennip (2018)",
            holder,
            "pathwise",
            (
                "weights and factors δ that are only Hölder functions of time, which no statement covers,"
                if rough
                else "weights and factors δ that are Lipschitz functions of time,"
            )
            + " and a branch scaled by 1/L: the network is an Euler scheme of a neural ODE in which δ stays.",
            corrections=(1.0 - holder, 1.0) if rough else (1.0,),
            checked=checked,
            not_checked=(
                *unchecked,
                *(
                    (f"that the given functions of time are Hölder with exponent {holder:g}, as stated.",)
                    if given
                    else ()
                ),
            ),
            citations=() if rough else (COHEN_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        functions = cast("tuple[FunctionLaw, ...]", network.weights)
        return NeuralODE(network.recursion, functions, network.width)


ROWS: tuple[Theorem, ...] = (ScaledNeuralODE(),)


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why the row does not match a fully connected network with a factor δ."""
    if not is_one_of(network, FullyConnected):
        return None
    return (
        "of networks with a factor δ in each layer, only weights and δ that are functions of time at exponent"
        " 1 have a theorem in the table.",
        "SmoothGaussian or Trend weights, a delta that is constant or a function of time, and exponent=1.",
    )
