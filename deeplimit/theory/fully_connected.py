"""The row on the fully connected recursion with a factor δ: the neural ODE (2) of Cohen et al. (2021).

Where δ is 1 at every time, the recursion is that of `inner`, and the table asks all rows about that.
"""

from __future__ import annotations

from typing import final

from deeplimit.layers import FullyConnected
from deeplimit.theory.smooth_layers import EulerOfODE
from deeplimit.theory.theorem import COHEN, COHEN_KEY, Network, Theorem, is_one_of, layers_are_functions, side

EULER = "and a branch scaled by 1/L: the network is an Euler scheme of a neural ODE in which δ stays."


@final
class ScaledNeuralODE(EulerOfODE):
    """Cohen et al. (2021), (2) with δ_k = δ(k/L)/L: an Euler scheme of dH = δ_t σ(A_t H + b_t) dt."""

    statement = f"Equation (2) {COHEN}, after Thorpe and van Gennip (2018)"
    source = COHEN_KEY
    lipschitz_words = f"weights and factors δ that are Lipschitz functions of time, {EULER}"
    holder_words = (
        f"weights and factors δ that are only Hölder functions of time, which no statement covers, {EULER}"
    )

    def matches(self, network: Network) -> bool:
        is_ours = is_one_of(network, FullyConnected) and layers_are_functions(network)
        return is_ours and side(network.exponent, 1.0) == 0


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
