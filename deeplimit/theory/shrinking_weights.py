"""The plane of exponents (α, β) of Cohen et al. (2021): which limit a fully connected network has, and how
fast.

One layer adds L^-α σ(M) with M = L^-β (Ā h + b̄) + ΔW^A h + ΔW^b, and σ(M) = σ'(0) M + ½σ''(0) M² + O(M³).
Summed over L layers,

    trend    L^{1-α-β}    its square  ½σ''(0) L^{1-α-2β}    its cube  L^{1-α-3β}
    noise    L^{-α}       its square  ½σ''(0) L^{-α} ∫Q dt + L^{-α} O(L^{-1/2})

and Riemann sums of the trend are off by L^{-ν}, ν its Hölder exponent, at most 1. What has exponent 0 makes
the limit; the smallest other exponents are the order and the correction to it (docs/theorems/theorem-4-4.md
derives them).
"""

from __future__ import annotations

import math

from deeplimit.activations import ASSUMPTION, Expansion, expansion
from deeplimit.ground.validation import NoTheoremError
from deeplimit.limits.equations import Identity, Limit, NeuralODE
from deeplimit.limits.linearised import ItoCorrectedSDE, LinearODE
from deeplimit.recursions import Recursion
from deeplimit.theory.regime import Regime
from deeplimit.weights import TrendAndNoise

COHEN = "of Cohen et al. (2021)"
EXPANSION = f"The expansion (13) {COHEN}"
COINCIDING = 0.0025
"""Contributions closer than this are of one order up to a factor 1 + cL^-s, s tiny, whose products are no
terms of their own.
"""
UNCHECKED = (
    "Not checked: that σ is C³ with a bounded third derivative away from 0, and that states are uniformly"
    " integrable."
)


def classify_plane(recursion: Recursion, weights: TrendAndNoise, alpha: float) -> Regime:
    """Return the regime of h + L^-α σ(A h + b) under Hypothesis 1 or 2."""
    beta, trend, noisy = weights.exponent, weights.trend, weights.noise is not None
    drift = alpha + beta - 1.0 if trend is not None else math.inf  # the trend's sum is L^-drift
    if _zero(drift) and _zero(beta):
        return _neural_ode(weights, recursion)
    if _zero(beta) and trend is not None and drift > 0:
        return _identity(
            "weights that do not shrink with depth, inside an activation scaled by L^-α with α > 1", [drift]
        )
    try:
        taylor = expansion(recursion.activation)
    except NoTheoremError as refusal:
        return Regime(
            "no theorem",
            None,
            None,
            None,
            f"{refusal}",
            "the same network with a smooth activation, such as tanh, sin, scaled_softplus, scaled_silu or"
            " scaled_gelu.",
        )
    if drift < 0 and not _zero(drift):
        return Regime(
            "explosion",
            EXPANSION,
            None,
            None,
            f"the trend's layers add up to L^{-drift:g}: the hidden state moves without bound, unless the"
            " trend vanishes, contracts or drives σ to 0 (not checked).",
            f"the same network with alpha + beta = 1, such as beta={1 - alpha:g}, if alpha is at most 1.",
        )
    if noisy and _zero(alpha):
        return _diffusive(weights, drift, taylor)
    if _zero(drift):
        return _linear_ode(weights, alpha, taylor)
    parts = {"the trend's layers add up to": drift, "the noise adds up to": alpha if noisy else math.inf}
    what = " and ".join(f"{words} L^-{power:g}" for words, power in parts.items() if power < math.inf)
    shares = [
        *parts.values(),
        *([beta + drift] if trend is not None else []),
        *([alpha + 0.5] if noisy else []),
    ]
    return _identity(what, shares)


def limit_of_plane(recursion: Recursion, weights: TrendAndNoise, alpha: float, width: int) -> Limit:
    """Return the limit equation; raise NoTheoremError where there is none."""
    regime = classify_plane(recursion, weights, alpha)
    trend, noise = weights.trend, weights.noise
    if regime.name == "identity":
        return Identity()
    if regime.name == "ode" and trend is not None:
        return NeuralODE(recursion, (trend,), width)
    if regime.name == "linear-ode" and trend is not None:
        return LinearODE(trend, width, expansion(recursion.activation).slope)
    if regime.name == "sde" and noise is not None:
        taylor = expansion(recursion.activation)
        kept = trend if _zero(weights.exponent - 1.0) else None
        return ItoCorrectedSDE(noise, kept, width, taylor.slope, taylor.curvature)
    raise NoTheoremError(
        f"cannot pair {recursion.name} (σ = {recursion.activation.name}, α = {alpha:g}, β ="
        f" {weights.exponent:g}) with a limit because {regime.explanation} Closest: {regime.closest}"
    )


def _zero(value: float) -> bool:
    """Whether an exponent is 0 up to the rounding of sums such as 0.7 + 0.3 - 1."""
    return abs(value) < 1e-9


def _corrections(exponents: list[float]) -> tuple[float, ...]:
    """Return by what powers of 1/L these contributions, and the first one's feedback, are smaller than the
    first.
    """
    return _apart(exponents, COINCIDING)


def _seconds(exponents: list[float]) -> tuple[float, ...]:
    """Return the same for contributions that may be larger than the first at small depth, however close to
    it.
    """
    return _apart(exponents, 1e-9)


def _apart(exponents: list[float], least: float) -> tuple[float, ...]:
    first = min(exponents)
    apart = {round(value - first, 9) for value in exponents if least < value - first < math.inf}
    return tuple(sorted(apart | {round(first, 9), 1.0}))


def _identity(what: str, contributions: list[float]) -> Regime:
    return Regime(
        "identity",
        EXPANSION,
        min(contributions),
        "pathwise",
        f"{what}, which tends to 0: the network tends to the identity.",
        corrections=_corrections(contributions),
        seconds=_seconds(contributions),
        interfere=True,
    )


def _neural_ode(weights: TrendAndNoise, recursion: Recursion) -> Regime:
    smoothness = 1.0 if weights.trend is None else weights.trend.smoothness
    return Regime(
        "ode",
        f"Equation (2) {COHEN}, after Thorpe and van Gennip (2018)",
        min(1.0, smoothness),
        "pathwise",
        "weights that do not shrink with depth (β = 0) and a branch scaled by 1/L (α = 1): the neural ODE,"
        f" in which σ stays. Noise in the weights averages out. Not checked: that {recursion.activation.name}"
        " is Lipschitz (smooth, with noise).",
        corrections=_corrections([1.0, smoothness]),
    )


def _linear_ode(weights: TrendAndNoise, alpha: float, taylor: Expansion) -> Regime:
    beta, trend, noisy = weights.exponent, weights.trend, weights.noise is not None
    assert trend is not None
    square = beta if taylor.curvature != 0.0 else math.inf
    contributions = [trend.smoothness, square, 2 * beta, *([alpha, alpha + 0.5] if noisy else [])]
    why = (
        f"its square leaves L^-{beta:g}"
        if taylor.curvature != 0.0
        else f"its cube leaves L^-{2 * beta:g}, since σ''(0) = 0"
    )
    theorem = (
        f"Theorem 4.4 {COHEN}" if noisy else f"Theorem {'4.3' if alpha > 0 else '4.4 without noise'} {COHEN}"
    )
    rough = (
        ""
        if trend.smoothness == 1.0
        else f" The trend is Hölder-{trend.smoothness:g}, which bounds the order from below."
    )
    return Regime(
        "linear-ode",
        theorem,
        min(contributions),
        "pathwise",
        "α + β = 1 with weights that shrink: σ acts as its tangent at 0. Of the trend,"
        f" {why}{f'; the noise leaves L^-{alpha:g}' if noisy else ''}; Riemann sums leave"
        f" L^-{trend.smoothness:g}.{rough} {ASSUMPTION} holds at 0. {UNCHECKED}",
        corrections=_corrections(contributions),
        seconds=tuple(power for power in _seconds(contributions) if power <= 1.0),
        interfere=True,
    )


def _diffusive(weights: TrendAndNoise, drift: float, taylor: Expansion) -> Regime:
    trend = weights.trend
    gone = drift if trend is not None and not _zero(drift) else math.inf
    rough = trend.smoothness if trend is not None and trend.smoothness < 1.0 and _zero(drift) else math.inf
    # Additive noise that σ does not bend has no iterated integrals and no squares to be off by.
    additive = weights.noise is not None and weights.noise.is_additive and taylor.curvature == 0.0
    first = 1.0 if additive else 0.5
    # Squared errors expand in whole powers of 1/L; the trend that vanishes adds powers of L^-gone to them.
    pure = [value for value in (2 * first, 2 * first + 1.0, 2 * gone, 2 * rough) if value < math.inf]
    mixed = [value for value in (3 * gone, 2 * first + gone, first + rough) if value < math.inf]
    least = min(pure)
    apart = [value - least for value in pure if value - least > 2 * COINCIDING]
    apart += [value - least for value in mixed if value - least > 1e-9]
    q = "the second-order drift ½σ''(0)Q appears" if taylor.curvature else "σ''(0) = 0, so Q leaves no drift"
    kept = (
        ""
        if trend is None
        else " The trend stays."
        if gone == math.inf
        else f" The trend vanishes like L^-{drift:g}."
    )
    return Regime(
        "sde",
        f"Theorem 4.4 {COHEN}",
        min(first, gone, rough),
        "pathwise",
        f"noise of diffusive size in every layer (α = 0): an SDE driven by the weights' own noise; {q}.{kept}"
        f" {ASSUMPTION} holds at 0. {UNCHECKED}",
        corrections=tuple(sorted({*(round(value, 9) for value in apart), 1.0})),
        seconds=tuple(sorted({round((value - least) / 2, 9) for value in pure if value - least > 1e-9})),
    )
