"""Gradients by the layers' states: p_k = ∂ℓ(h_L)/∂h_k against those of the limit, on the same noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from deeplimit.driving import Ito, SmoothGaussian, Trend
from deeplimit.equations import ItoCorrectedSDE
from deeplimit.networks.residual_network import ResidualNetwork, inner, res1
from deeplimit.papers.cases.case import Case, WrongTwin, other_path
from deeplimit.papers.cases.independent import sde_of
from deeplimit.papers.cases.trends import shear, shear_push
from deeplimit.papers.cases.wrong_limits import (
    AlteredSDE,
    neural_ode_of,
    quadratic_without_derivative,
    with_other_quadratic,
)

STATEMENT = "gradients"
_SOURCE = "derived on the page Gradients"
BACKWARD = r"p_t = (J_1 J_t^{-1})^\top \nabla\ell(H_1)"
JACOBIAN_OF_SDE = r"dJ = d^{-1/2}\,dB\,\mathrm{diag}(\sigma'(H))\,J"
JACOBIAN_OF_ODE = r"dJ = V_t\,\mathrm{diag}(\sigma'(H))\,J\,dt"
JACOBIAN_OF_TREND = r"dJ = \sigma'(0)\,\bar A_t\,J\,dt"
JACOBIAN_OF_NOISE = r"dJ = \sigma'(0)\,dW^A J"
VARIED_DRIFT = r"\frac{1}{2}\sigma''(0)\,\partial_x Q(t, H)\,J\,dt"


def cases() -> Iterator[Case]:
    """Yield the cases in which gradients are compared."""
    network = res1(3, "tanh")
    sde = sde_of(network)
    equation = f"{BACKWARD},\\ {JACOBIAN_OF_SDE}"
    too_large = WrongTwin(
        "diffusion 10 % too large",
        AlteredSDE(sde, diffusion_scale=1.1),
        BACKWARD + r",\ dJ = 1.1\,d^{-1/2}\,dB\,\mathrm{diag}(\sigma'(H))\,J",
        "A constant factor 1.1 stays at every depth.",
    )
    wrong: tuple[WrongTwin, ...] = (other_path(sde, equation), too_large)
    yield _case("Prop. 11: res-1, tanh, d = 3", network, equation, 0.5, wrong, 1000)

    network = res1(3, "tanh", weights=SmoothGaussian(0.5))
    equation = f"{BACKWARD},\\ {JACOBIAN_OF_ODE}"
    wrong = (other_path(network.limit(), equation, "other smooth weights"),)
    yield _case("Prop. 12: res-1, tanh, smooth weights", network, equation, 1.0, wrong, 100)

    network = inner(2, "scaled_silu", trend=Trend(shear, shear_push), alpha=0.5, beta=0.5)
    not_linear = WrongTwin(
        "neural ODE for the linear ODE",
        neural_ode_of(network),
        BACKWARD + r",\ dJ = \mathrm{diag}(\sigma'(\bar A_t H + \bar b_t))\,\bar A_t\,J\,dt",
        "The argument of σ shrinks with depth, so only the slope of σ at 0 matters.",
    )
    equation = f"{BACKWARD},\\ {JACOBIAN_OF_TREND}"
    yield _case("Thm 4.3: scaled_silu, α = β = 0.5", network, equation, 0.5, (not_linear,), 100)

    network = inner(2, "scaled_silu", noise=Ito(A=0.01))
    limit = cast(ItoCorrectedSDE, network.limit())
    states_only = WrongTwin(
        "½σ''∂Q dropped, right for states",
        with_other_quadratic(limit, quadratic_without_derivative),
        f"{BACKWARD},\\ {JACOBIAN_OF_NOISE}",
        "The drift ½σ''(0)Q depends on the state, so that its derivative moves the Jacobian.",
    )
    equation = f"{BACKWARD},\\ {JACOBIAN_OF_NOISE} + {VARIED_DRIFT}"
    yield _case("Thm 4.4: scaled_silu, d = 2", network, equation, 0.5, (states_only,), 1600)


def _case(
    setting: str,
    network: ResidualNetwork,
    equation: str,
    rate: float,
    wrong: tuple[WrongTwin, ...],
    paths: int,
) -> Case:
    return Case(STATEMENT, setting, network, equation, rate, _SOURCE, wrong, paths=paths, quantity="gradient")
