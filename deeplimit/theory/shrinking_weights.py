"""Rows on weights that shrink with the depth: the plane of exponents (α, β) of Cohen et al. (2021).

One layer adds L^-α σ(M) with M = L^-β (Ā h + b̄) + ΔW^A h + ΔW^b, and σ(M) = σ'(0) M + ½σ''(0) M² + O(M³).
Summed over L layers,

    trend       L^{1-α-β}
    its square  ½σ''(0) L^{1-α-2β}
    its cube    L^{1-α-3β}
    noise       L^{-α}
    its square  ½σ''(0) L^{-α} ∫Q dt + L^{-α} O(L^{-1/2})

and Riemann sums of the trend are off by L^{-ν}, ν its Hölder exponent, at most 1. What has exponent 0 makes
the limit; the smallest other exponents are the order and the correction to it (docs/theorems/theorem-4-4.md
derives them).
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, cast, final

from deeplimit.common.validation import NoTheoremError
from deeplimit.driving import Channel, Dependence, FunctionLaw, Ito, channels_of, functions_of, noise_of
from deeplimit.equations import Identity, Limit, NeuralODE
from deeplimit.equations.linearised import ItoCorrectedSDE, LinearODE
from deeplimit.layers import Inner
from deeplimit.layers.activations import ASSUMPTION, Expansion, expansion
from deeplimit.theory import explosion, functions_of_time
from deeplimit.theory.gradients import first_variation
from deeplimit.theory.orders import COINCIDING, SAME, Contributions
from deeplimit.theory.theorem import (
    COHEN,
    COHEN_KEY,
    Hypothesis,
    Network,
    Regime,
    Theorem,
    is_one_of,
    lipschitz,
)

EXPANSION = f"The expansion (13) {COHEN}"
OWN_EXPLOSION = f"derived here (the expansion (13) {COHEN} is for beta > 0)"
SMOOTH = Hypothesis.unknown("σ is C³", "that σ is C³ with a bounded third derivative away from 0.")
UNCHECKED = (
    SMOOTH,
    Hypothesis.unknown("states are uniformly integrable", "that states are uniformly integrable."),
)
HOLDS = Hypothesis.holds(ASSUMPTION, f"{ASSUMPTION} holds at 0.")
SMOOTH_ACTIVATION = (
    "the same network with a smooth activation, such as tanh, sin, scaled_softplus, scaled_silu or"
    " scaled_gelu."
)


EXPLODES = "how likely the limit explodes"


class Case(Enum):
    """Where in the plane a network lies, by what its trend and its noise add up to."""

    NEURAL_ODE = auto()
    UNSHRUNK = auto()
    EXPLOSION = auto()
    DIFFUSION = auto()
    EXPLODING_DIFFUSION = auto()
    LINEAR_ODE = auto()
    VANISHING = auto()
    NO_EXPANSION = auto()


@dataclass(frozen=True)
class Place:
    """The facts of one network in the plane."""

    case: Case
    alpha: float
    beta: float
    drift: float
    """The trend's layers add up to L^-drift; infinite where there is no trend."""
    holder: float | None
    noise: Ito | None
    taylor: Expansion | None

    @property
    def additive(self) -> bool:
        """Whether there is noise, in the biases alone."""
        return self.noise is not None and self.noise.is_additive


def place_of(network: Network) -> Place | None:
    """Return where in the plane a network lies; None for a network that the paper is not about."""
    facts = network.facts
    if not is_one_of(network, Inner) or facts.dependence != Dependence.SHRINKING:
        return None
    alpha, beta, trend = network.exponent, facts.weight_exponent, facts.holder is not None
    noise = noise_of(_channels(network))
    if beta is None or not (trend or noise is not None):
        return None
    drift = alpha + beta - 1.0 if trend else math.inf
    taylor, case = None, None
    if _zero(beta) and trend and (_zero(drift) or drift > 0):
        case = Case.NEURAL_ODE if _zero(drift) else Case.UNSHRUNK
    else:
        try:
            taylor = expansion(network.recursion.activation)
        except NoTheoremError:
            case = Case.NO_EXPANSION
    if case is None:
        if drift < 0 and not _zero(drift):
            case = Case.EXPLOSION
        elif noise is not None and _zero(alpha):
            quadratic = taylor is not None and taylor.curvature != 0.0 and noise.is_elliptic is True
            case = Case.EXPLODING_DIFFUSION if quadratic else Case.DIFFUSION
        else:
            case = Case.LINEAR_ODE if _zero(drift) else Case.VANISHING
    return Place(case, alpha, beta, drift, facts.holder, noise, taylor)


def _channels(network: Network) -> tuple[Channel, ...]:
    """Return what the weights are made of, from which limits take trend and noise."""
    return channels_of(network.weights, network.recursion.weight_shapes(network.width))


def _trend(network: Network) -> FunctionLaw:
    (trend,) = functions_of(_channels(network))
    return trend


class _InPlane(Theorem):
    """What the rows share: the cases that they are about, and a place in the plane."""

    cases: ClassVar[tuple[Case, ...]]

    def matches(self, network: Network) -> bool:
        place = place_of(network)
        return place is not None and place.case in self.cases

    def regime(self, network: Network) -> Regime:
        return self._regime(cast("Place", place_of(network)), network)

    @abstractmethod
    def _regime(self, place: Place, network: Network) -> Regime:
        """Return what the statement says of a network at this place."""


@final
class ShrinkingIdentity(_InPlane):
    """Trend and noise both vanish."""

    cases = (Case.VANISHING, Case.UNSHRUNK)

    def _regime(self, place: Place, network: Network) -> Regime:
        if place.case == Case.UNSHRUNK:
            what = (
                "weights that do not shrink with depth, inside an activation scaled by L^-α with α > 1, which"
                " tends to 0"
            )
            shares = [place.drift]
        else:
            parts = {
                "the trend's layers add up to": place.drift,
                "the noise adds up to": place.alpha if place.noise is not None else math.inf,
            }
            what = " and ".join(f"{words} L^-{power:g}" for words, power in parts.items() if power < math.inf)
            what += ", which tends to 0"
            shares = [
                *parts.values(),
                *([place.beta + place.drift] if place.holder is not None else []),
                *([place.alpha + 0.5] if place.noise is not None else []),
            ]
        contributions = Contributions(tuple(shares))
        return Regime(
            "identity",
            EXPANSION,
            contributions.rate,
            "pathwise",
            f"{what}: the network tends to the identity.",
            corrections=contributions.corrections,
            second_orders=contributions.second_orders,
            interfere=True,
            citations=(COHEN_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


@final
class ShrinkingExplosion(_InPlane):
    """The trend's layers add up without bound."""

    cases = (Case.EXPLOSION,)

    def _regime(self, place: Place, network: Network) -> Regime:
        return Regime(
            "explosion",
            OWN_EXPLOSION if _zero(place.beta) else EXPANSION,
            None,
            None,
            f"the trend's layers add up to L^{-place.drift:g}: the hidden state moves without bound, unless"
            " the trend vanishes, contracts or drives σ to 0.",
            "the same network with alpha + beta = 1, such as"
            f" beta={1 - place.alpha:g}, if alpha is at most 1.",
            hypotheses=(
                HOLDS,
                functions_of_time.expands(
                    _trend(network), network.width, cast("Expansion", place.taylor).slope
                ),
            ),
            citations=(COHEN_KEY,),
        )


@final
class UnshrunkNeuralODE(_InPlane):
    """(2) of Cohen et al. (2021): α = 1 and β = 0, where σ stays."""

    cases = (Case.NEURAL_ODE,)

    def _regime(self, place: Place, network: Network) -> Regime:
        contributions = riemann_sums(cast("float", place.holder))
        return Regime(
            "ode",
            f"Equation (2) {COHEN}, after Thorpe and van Gennip (2018)",
            contributions.rate,
            "pathwise",
            "weights that do not shrink with depth (β = 0) and a branch scaled by 1/L (α = 1): the neural"
            " ODE, in which σ stays. Noise in the weights averages out.",
            corrections=contributions.corrections,
            hypotheses=(lipschitz(network), *functions_of_time.as_stated((_trend(network),), network.width)),
            citations=(COHEN_KEY,),
            rate_is_bound=contributions.is_bound
            or (place.holder == 1.0 and functions_of_time.first_term_vanishes(network)),
        )

    def limit(self, network: Network) -> Limit:
        return NeuralODE(network.recursion, (_trend(network),), network.width)


@final
class LinearisedODE(_InPlane):
    """Cohen et al. (2021), Theorems 4.3 and 4.4 on the line α + β = 1: σ acts as its tangent at 0."""

    cases = (Case.LINEAR_ODE,)

    def _regime(self, place: Place, network: Network) -> Regime:
        alpha, beta, noisy = place.alpha, place.beta, place.noise is not None
        smoothness, taylor = cast("float", place.holder), cast("Expansion", place.taylor)
        sums, (bent, why) = riemann_sums(smoothness), _left_by_sigma(taylor, beta)
        contributions = Contributions(
            (*sums.exact, *bent.exact, *([alpha, alpha + 0.5] if noisy else [])), (*sums.bounds, *bent.bounds)
        )
        # Theorem 4.3 asks for 0 < α < 1, and Theorem 4.4 has noise: the end α = 0 without it is in neither.
        stated = "4.4" if noisy else None if _zero(alpha) else "4.3"
        theorem = None if stated is None else f"Theorem {stated} {COHEN}"
        rough = "" if smoothness == 1.0 else f" at most, since the trend is Hölder-{smoothness:g}"
        return Regime(
            "linear-ode",
            theorem,
            contributions.rate,
            "pathwise",
            "α + β = 1 with weights that shrink: σ acts as its tangent at 0. Of the trend,"
            f" {why}{f'; the noise leaves L^-{alpha:g}' if noisy else ''}; Riemann sums leave"
            f" L^-{smoothness:g}{rough}.",
            corrections=contributions.corrections,
            second_orders=tuple(power for power in contributions.second_orders if power <= 1.0),
            interfere=True,
            hypotheses=(HOLDS, *UNCHECKED, *functions_of_time.as_stated((_trend(network),), network.width)),
            citations=(COHEN_KEY,),
            rate_is_bound=contributions.is_bound,
        )

    def limit(self, network: Network) -> Limit:
        return LinearODE(_trend(network), network.width, expansion(network.recursion.activation).slope)

    def gradients(self, network: Network) -> Regime | None:
        return first_variation(self.regime(network), network)


class _Diffusion(_InPlane):
    """Cohen et al. (2021), Theorem 4.4 at α = 0: an SDE driven by the weights' noise, with the drift
    ½σ''(0)Q.
    """

    def _regime(self, place: Place, network: Network) -> Regime:
        drift, taylor = place.drift, cast("Expansion", place.taylor)
        gone = drift if place.holder is not None and not _zero(drift) else math.inf
        rough = place.holder if place.holder is not None and place.holder < 1.0 and _zero(drift) else math.inf
        # Noise without iterated integrals that σ does not bend has no squares to be off by either.
        noise = cast("Ito", place.noise)
        flat = place.additive or noise.products_vanish(network.width)
        first = 1.0 if flat and taylor.curvature == 0.0 else 0.5
        kept_trend = rough == gone == math.inf and place.holder is not None
        order = _exactly(first, first == 0.5 or bool(taylor.third) or kept_trend, gone, rough)
        whole = _squared(first, gone, rough)
        # Cubes are left of σ, or squares where it is bent, and the Riemann sums of a trend that stays.
        left = 1.0 if taylor.curvature == 0.0 else 0.5
        apart = _exactly(left, left == 0.5 or bool(taylor.third) or kept_trend, gone, rough)
        gap = _squared(left, gone, rough)
        q = (
            "the second-order drift ½σ''(0)Q appears"
            if taylor.curvature
            else "σ''(0) = 0, so Q adds no drift"
        )
        kept = (
            ""
            if place.holder is None
            else " The trend stays."
            if gone == math.inf
            else f" The trend vanishes like L^-{drift:g}."
        )
        return Regime(
            "sde",
            f"Theorem 4.4 {COHEN}",
            order.rate,
            "pathwise",
            "noise of diffusive size in every layer (α = 0): an SDE driven by the noise of the weights;"
            f" {q}.{kept}",
            corrections=whole.corrections,
            second_orders=whole.second_orders,
            hypotheses=(
                HOLDS,
                *UNCHECKED,
                *(
                    ()
                    if place.holder is None
                    else functions_of_time.as_stated((_trend(network),), network.width)
                ),
            ),
            citations=(COHEN_KEY,),
            rate_is_bound=order.is_bound,
            scheme_rate=1.0 if flat else 0.5,
            # Drift and noise together leave errors of order 1, which a strong trend makes large at first.
            scheme_second_orders=(0.5,) if kept_trend and not flat else (),
            # Where noise saturates σ, the distance to the scheme settles more slowly than it expands.
            gap=dataclasses.replace(
                gap,
                corrections=tuple(sorted({0.5, *gap.corrections})),
                rate=apart.rate,
                rate_is_bound=apart.is_bound,
            ),
        )

    def limit(self, network: Network) -> Limit:
        place, taylor = cast("Place", place_of(network)), expansion(network.recursion.activation)
        kept = _trend(network) if place.holder is not None and _zero(place.beta - 1.0) else None
        return ItoCorrectedSDE(cast("Ito", place.noise), kept, network.width, taylor.slope, taylor.curvature)

    def gradients(self, network: Network) -> Regime | None:
        # Noise in the biases alone drives states, but Jacobians only through σ'': other orders.
        additive = cast("Place", place_of(network)).additive
        return None if additive else first_variation(self.regime(network), network)


def _exactly(first: float, attained: bool, gone: float, rough: float) -> Contributions:
    """Return the order of these contributions; a Hölder index, and an order not attained, are bounds."""
    known, bounds = (first, gone), (rough, math.inf)
    return Contributions(*((known, bounds) if attained else ((gone, math.inf), (rough, first))))


def _squared(first: float, gone: float, rough: float) -> Regime:
    """Return order and further terms where squared errors expand in whole powers of 1/L from L^-2·first on.

    A trend that vanishes adds powers of L^-gone to them, one that is Hölder-continuous L^-2·rough; either is
    infinite where there is none.
    """
    pure = [value for value in (2 * first, 2 * first + 1.0, 2 * gone, 2 * rough) if value < math.inf]
    mixed = [value for value in (3 * gone, 2 * first + gone, first + rough) if value < math.inf]
    least = min(pure)
    apart = [value - least for value in pure if value - least > 2 * COINCIDING]
    apart += [value - least for value in mixed if value - least > 1e-9]
    seconds = {round((value - least) / 2, 9) for value in pure if value - least > 1e-9}
    return Regime(
        "gap",
        None,
        least / 2,
        "pathwise",
        "squared errors expand in powers of 1/L.",
        corrections=tuple(sorted({*(round(value, 9) for value in apart), 1.0})),
        second_orders=tuple(sorted(seconds)),
    )


@final
class CorrectedDiffusion(_Diffusion):
    """The theorem as it stands, where explosion of the limit is not proven."""

    cases = (Case.DIFFUSION,)

    def _regime(self, place: Place, network: Network) -> Regime:
        said = super()._regime(place, network)
        if cast("Expansion", place.taylor).curvature == 0.0 or place.additive:
            return said
        return said.under(Hypothesis.unknown(EXPLODES, explosion.MAY_EXPLODE))


@final
class LocalisedDiffusion(_Diffusion):
    """The theorem up to the time of explosion, where the limit explodes: docs/theorems/theorem-4-4.md."""

    cases = (Case.EXPLODING_DIFFUSION,)

    def _regime(self, place: Place, network: Network) -> Regime:
        said = super()._regime(place, network)
        likely = _how_likely(network)
        side = " if it starts on the side of σ''(0)" if network.width == 1 else ""
        return dataclasses.replace(
            said,
            theorem=f"{said.theorem}, localised: up to the time of explosion",
            moments=False,
            explanation=f"{said.explanation} {explosion.WHY_IT_EXPLODES.format(side=side)}",
            hypotheses=(
                *(each for each in said.hypotheses if each != UNCHECKED[1]),
                *(Hypothesis.holds(EXPLODES, each) for each in likely),
                *(() if likely else (Hypothesis.unknown(EXPLODES, explosion.HOW_LIKELY),)),
            ),
        )


ROWS: tuple[Theorem, ...] = (
    UnshrunkNeuralODE(),
    ShrinkingIdentity(),
    ShrinkingExplosion(),
    CorrectedDiffusion(),
    LocalisedDiffusion(),
    LinearisedODE(),
)


def _how_likely(network: Network) -> tuple[str, ...]:
    """Return how likely the limit explodes before time 1, for isotropic noise and no trend."""
    channels, taylor = _channels(network), expansion(network.recursion.activation)
    noise = noise_of(channels)
    if noise is None or functions_of(channels) or noise.isotropic is None:
        return ()
    return (explosion.in_words(network.width, *noise.isotropic, taylor.slope, taylor.curvature),)


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a network with weights that shrink with the depth."""
    if network.facts.dependence != Dependence.SHRINKING:
        return None
    if not is_one_of(network, Inner):
        return (
            f"Hypotheses 1 and 2 {COHEN} are about h + L^-α σ(A h + b), and {network.recursion.name} is"
            " another recursion.",
            "inner(..., trend=..., noise=...).",
        )
    try:
        expansion(network.recursion.activation)
    except NoTheoremError as refused:
        return f"{refused}", SMOOTH_ACTIVATION
    return None


def _zero(value: float) -> bool:
    """Whether an exponent is 0 up to the rounding of sums such as 0.7 + 0.3 - 1."""
    return abs(value) < SAME


def riemann_sums(holder: float) -> Contributions:
    """Return what Riemann sums of a function of time with this Hölder exponent leave.

    For a Lipschitz function L times the error tends to ½(f·∇f ∓ ∂f/∂t) along the flow, - where layers read
    the function at their ends and + at their starts. Rougher functions leave L^-holder at most, and may leave
    as little as 1/L.
    """
    return Contributions((1.0,), (holder,) if holder < 1.0 else ())


def _left_by_sigma(taylor: Expansion, beta: float) -> tuple[Contributions, str]:
    """Return what σ leaves of the trend beyond its tangent, on the line α + β = 1, and why."""
    if taylor.linear:
        return Contributions(()), "σ leaves nothing, since it is linear"
    if taylor.curvature:
        return Contributions((beta, 2 * beta)), f"its square leaves L^-{beta:g}"
    if taylor.third:
        return Contributions((2 * beta,)), f"its cube leaves L^-{2 * beta:g}, since σ''(0) = 0"
    known = "σ''' jumps at 0" if taylor.third is None else "σ'''(0) = 0, too"
    return (
        Contributions((), (2 * beta,)),
        f"σ leaves L^-{2 * beta:g} at most, since σ''(0) = 0; {known}",
    )
