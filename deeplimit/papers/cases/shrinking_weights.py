"""Weights that shrink with depth inside the activation, a trend and noise: Cohen et al. (2021)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import cast

from deeplimit.driving import Ito, Trend, functions_of
from deeplimit.equations import Identity, ItoCorrectedSDE, LinearODE
from deeplimit.networks.residual_network import ResidualNetwork, inner
from deeplimit.papers.cases.case import Case, WrongTwin
from deeplimit.papers.cases.noises import covariances
from deeplimit.papers.cases.trends import WIDTH, mixing, push, shear, shear_push, sphere, weak, weak_push
from deeplimit.papers.cases.wrong_limits import (
    exchanged_quadratic,
    neural_ode_of,
    quadratic_without_cross_term,
    with_other_quadratic,
)

THEOREM_43, DIFFUSIVE, VANISHING_NOISE = "[C] Thm 4.3", "[C] Thm 4.4, SDE", "[C] Thm 4.4, ODE"
NEURAL_ODE = "[C] (2)"
_PAPER = "Cohen et al. (2021)"
_SOURCE_43, _SOURCE_44 = f"{_PAPER}, Thm 4.3", f"{_PAPER}, Thm 4.4"

LINEAR = r"dH = \sigma'(0)\,(\bar A_t H + \bar b_t)\,dt"
NONLINEAR = r"dH = \sigma(\bar A_t H + \bar b_t)\,dt"
TREND = r"\sigma'(0)\,(\bar A_t H + \bar b_t)\,dt"
NOISE = r"\sigma'(0)\,(dW^A H + dW^b)"
DRIFT = r"\frac{1}{2}\sigma''(0)\,Q(t, H)\,dt"


def cases() -> Iterator[Case]:
    """Yield the cases with weights that shrink with depth inside the activation."""
    yield from _linear()
    yield from _diffusive()
    yield _small_linear()
    yield _small_diffusive()
    yield _offset()


def _offset() -> Case:
    """Return an activation with σ(0) ≠ 0, whose values at 0 add up without bound."""
    network = inner(WIDTH, "softplus", trend=Trend(mixing, push), alpha=0.7, beta=0.8)
    left_out = WrongTwin(
        "σ(0) left out",
        Identity(),
        "dH = 0",
        "Without σ(0) the trend's layers add up to L^-0.5; with it they add up to L^0.3 σ(0).",
    )
    return Case(
        "[C] Assumption 4.2",
        "softplus, α = 0.7, β = 0.8: divergence",
        network,
        r"\|h_L\| \to \infty",
        None,
        "derived on the page Elsewhere",
        (left_out,),
    )


def _sum(*terms: str) -> str:
    return "dH = " + " + ".join(term for term in terms if term)


def _sde_of(network: ResidualNetwork) -> ItoCorrectedSDE:
    return cast(ItoCorrectedSDE, network.limit())


def _with_activation(network: ResidualNetwork, wrongly: str = "neural ODE instead") -> WrongTwin:
    return WrongTwin(
        wrongly,
        neural_ode_of(network),
        NONLINEAR,
        "The argument of σ shrinks with depth, so only the slope of σ at 0 matters.",
    )


def _linear() -> Iterator[Case]:
    trend = Trend(mixing, push)
    for activation, alpha, rate in (
        ("tanh", 0.5, 1.0),
        ("tanh", 0.7, 0.6),
        ("sin", 0.6, 0.8),
        ("erf", 0.5, 1.0),
        ("scaled_softplus", 0.5, 0.5),
        ("scaled_silu", 0.5, 0.5),
        ("scaled_silu", 0.3, 0.7),
        ("scaled_gelu", 0.4, 0.6),
    ):
        beta = round(1 - alpha, 6)
        network = inner(WIDTH, activation, trend=trend, alpha=alpha, beta=beta)
        setting = f"{activation}, α = {alpha:g}, β = {1 - alpha:g}"
        wrong = (_with_activation(network),)
        yield Case(THEOREM_43, setting, network, LINEAR, rate, _SOURCE_43, wrong, paths=200)
    linear = WrongTwin(
        "linear ODE instead",
        LinearODE(trend, WIDTH, 1.0),
        LINEAR,
        "At α = 1 and β = 0 the argument of σ does not shrink, so that σ is kept.",
    )
    network = inner(WIDTH, "tanh", trend=trend, alpha=1.0, beta=0.0)
    source = f"{_PAPER}, (2), after Thorpe and van Gennip (2018)"
    yield Case(NEURAL_ODE, "tanh, α = 1, β = 0", network, NONLINEAR, 1.0, source, (linear,), paths=200)
    for activation, alpha, rate in (
        ("tanh", 0.5, 0.5),
        ("scaled_silu", 0.5, 0.5),
        ("scaled_gelu", 0.4, 0.4),
        ("sin", 0.7, 0.6),
    ):
        noise, beta = Ito(A=0.04, b=0.1), round(1 - alpha, 6)
        network = inner(WIDTH, activation, trend=trend, noise=noise, alpha=alpha, beta=beta)
        setting = f"{activation}, α = {alpha:g}, β = {1 - alpha:g}"
        wrong = (_with_activation(network),)
        yield Case(VANISHING_NOISE, setting, network, LINEAR, rate, _SOURCE_44, wrong, paths=1000)


def _diffusive() -> Iterator[Case]:
    noises, x = covariances(), sphere()
    plain = noises["one variance"]
    yield from (dataclasses.replace(case, x=x, paths=2000) for case in _one_variance(plain))
    for name, noise in noises.items():
        if name == "one variance":
            continue
        network = inner(WIDTH, "scaled_gelu", noise=noise)
        wrong = (_wrong_q(name, _sde_of(network)),)
        setting, equation = f"scaled_gelu, {name}", _sum(NOISE, DRIFT)
        yield Case(DIFFUSIVE, setting, network, equation, 0.5, _SOURCE_44, wrong, x, paths=2000)


def _one_variance(noise: Ito) -> Iterator[Case]:
    trend = Trend(weak, weak_push)
    for activation in ("scaled_softplus", "scaled_silu", "scaled_gelu", "silu"):
        network = inner(WIDTH, activation, trend=trend, noise=noise)
        dropped = WrongTwin(
            "½σ''Q dropped",
            dataclasses.replace(_sde_of(network), curvature=0.0),
            _sum(TREND, NOISE),
            "σ is curved at 0, so the variance of the noise produces a drift.",
        )
        setting, equation = f"{activation}, β = 1, one variance", _sum(TREND, NOISE, DRIFT)
        yield Case(DIFFUSIVE, setting, network, equation, 0.5, _SOURCE_44, (dropped,))
    for activation in ("tanh", "sin"):
        network = inner(WIDTH, activation, trend=trend, noise=noise)
        added = WrongTwin(
            "½Q added",
            dataclasses.replace(_sde_of(network), curvature=1.0),
            _sum(TREND, NOISE, r"\frac{1}{2}Q(t, H)\,dt"),
            "σ is odd, so its curvature at 0 is 0 and there is no drift.",
        )
        setting, equation = f"{activation}, β = 1, one variance", _sum(TREND, NOISE)
        yield Case(DIFFUSIVE, setting, network, equation, 0.5, _SOURCE_44, (added,))
    for beta, rate in ((1.4, 0.4), (1.5, 0.5), (2.0, 0.5)):
        network = inner(WIDTH, "scaled_silu", trend=Trend(mixing, push), noise=noise, beta=beta)
        kept = WrongTwin(
            "trend kept",
            dataclasses.replace(_sde_of(network), trend=functions_of(network.channels)[0]),
            _sum(TREND, NOISE, DRIFT),
            f"At β = {beta:g} the trend's updates sum to L^{1 - beta:.1f}, which vanishes.",
        )
        setting, equation = f"scaled_silu, β = {beta:g}, one variance", _sum(NOISE, DRIFT)
        yield Case(DIFFUSIVE, setting, network, equation, rate, _SOURCE_44, (kept,))


def _wrong_q(name: str, limit: ItoCorrectedSDE) -> WrongTwin:
    """Return the limit with the drift that this noise leaves, computed wrongly."""
    if "rows" in name:
        return WrongTwin(
            "rows and columns exchanged in Q",
            with_other_quadratic(limit, exchanged_quadratic),
            _sum(NOISE, DRIFT.replace("Q", r"\tilde Q"))
            + r",\ \tilde Q_i = \sum_{jk} H_j H_k \Sigma^A_{jiki} + \Sigma^b_{ii}",
            "Rows and columns have different covariances, so that the indices of Σ^A matter.",
        )
    if "covary" in name:
        return WrongTwin(
            "no cross term in Q",
            with_other_quadratic(limit, quadratic_without_cross_term),
            _sum(NOISE, DRIFT.replace("Q", r"\tilde Q"))
            + r",\ \tilde Q_i = \sum_{jk} H_j H_k \Sigma^A_{ijik} + \Sigma^b_{ii}",
            "W^A and W^b covary, which adds 2 Σ_j H_j Cov(dW^A_ij, dW^b_i)/dt to Q.",
        )
    return WrongTwin(
        "sign of ½σ''Q flipped",
        dataclasses.replace(limit, curvature=-limit.curvature),
        "dH = " + NOISE + " - " + DRIFT,
        "The drift has the sign of σ''(0).",
    )


def _small_linear() -> Case:
    network = inner(2, "scaled_silu", trend=Trend(shear, shear_push), alpha=0.5, beta=0.5)
    wrong, short = (_with_activation(network, "neural ODE for the linear ODE"),), "linear ODE"
    return Case(THEOREM_43, short, network, LINEAR, 0.5, _SOURCE_43, wrong, short=short)


def _small_diffusive() -> Case:
    network = inner(2, "scaled_silu", noise=Ito(A=0.03, b=0.1))
    left_out = WrongTwin(
        "second-order drift left out",
        dataclasses.replace(_sde_of(network), curvature=0.0),
        _sum(NOISE),
        "σ is curved at 0, so the variance of the noise produces the drift ½σ''(0)Q.",
    )
    short, equation = "second-order drift", _sum(NOISE, DRIFT)
    return Case(DIFFUSIVE, short, network, equation, 0.5, _SOURCE_44, (left_out,), short=short)
