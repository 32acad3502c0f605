"""Rows on fractional Brownian weights: the Young equation at the critical exponent, above and below it."""

from __future__ import annotations

from abc import abstractmethod
from typing import cast, final

import torch

from deeplimit.driving import Dependence, FractionalBrownian
from deeplimit.equations import Identity, Limit
from deeplimit.equations.young import NeuralYoung, modified_order
from deeplimit.layers import Inner, ModifiedRes1, Res1, Res3
from deeplimit.layers.activations import derivative, has_kink, is_odd, steepening
from deeplimit.theory.theorem import (
    HU_KEY,
    PAPERS,
    Hypothesis,
    Network,
    Regime,
    Theorem,
    is_one_of,
    laws,
    side,
)

HU_LIU_NUALART = "Hu, Liu and Nualart (2016)"
EULER_SCHEME = f"{HU_LIU_NUALART} for the Euler scheme"
FIGURE = "Section 4.1 of Marion et al. (2025)"
CLOSEST = (
    "res1(..., weights=FractionalBrownian(H), exponent=H) with H > 1/2 and a smooth σ, whose limit is a Young"
    " equation."
)
SLOWEST = 0.1
"""Near H = 3/4 the variance of the second-order terms sums k^(4H - 4): a slow power, a logarithm at 3/4,
taken for this power.
"""


def hurst_of(network: Network) -> float | None:
    """Return the Hurst index that all weights of one of these recursions share; None where there is none.

    At H = 1/2 layers are independent, and other rows speak.
    """
    if not is_one_of(network, *PAPERS, ModifiedRes1):
        return None
    if any(facts.dependence != Dependence.FRACTIONAL or facts.biased for facts in laws(network)):
        return None
    hurst = network.facts.hurst
    return None if hurst == 0.5 else hurst


def _side(network: Network, hurst: float) -> int:
    """Return 0 at the critical exponent, 1 above and -1 below."""
    return side(network.exponent, max(hurst, 0.5))


class _Fractional(Theorem):
    """What the rows share: one Hurst index, and a side of the critical exponent."""

    def matches(self, network: Network) -> bool:
        hurst = hurst_of(network)
        return hurst is not None and self._matches(network, hurst)

    @abstractmethod
    def _matches(self, network: Network, hurst: float) -> bool:
        """Return whether the statement is about this network, with this Hurst index of all its weights."""


def _has_young_limit(network: Network, hurst: float) -> bool:
    return hurst > 0.5 and _side(network, hurst) == 0 and _kink(network) is None


def _young(network: Network) -> Limit:
    weights = cast("tuple[FractionalBrownian, ...]", network.weights)
    return NeuralYoung(Res1(network.recursion.activation), weights, network.width)


SMOOTH = Hypothesis.unknown(
    "σ is smooth",
    "that σ is three times continuously differentiable, bounded with its derivatives, as they ask (it has no"
    " kink between -10 and 10).",
)


@final
class Young(_Fractional):
    """Res-1 with increments of fractional Brownian motion, H > 1/2: the Euler scheme of a Young equation."""

    def _matches(self, network: Network, hurst: float) -> bool:
        return is_one_of(network, Res1) and _has_young_limit(network, hurst)

    def regime(self, network: Network) -> Regime:
        hurst = cast("float", hurst_of(network))
        naive = round(2 * hurst - 1.0, 9)
        # What the second-order terms do in addition to their mean is smaller by this power, and larger at
        # small depth.
        second = round(round(modified_order(hurst), 9) - naive, 9)
        return Regime(
            "young",
            f"{EULER_SCHEME}, applied here",
            naive,
            "pathwise",
            "increments of fractional Brownian motion with H > 1/2 and the exponent H: the network is the"
            " Euler scheme of a Young equation. The order 2H - 1 is that of the second-order terms' mean, and"
            f" is reached slowly.{_at_three_quarters(hurst)}",
            corrections=tuple(sorted({naive, second, 1.0})),
            second_orders=(second,),
            hides=True,
            hypotheses=(SMOOTH,),
            citations=(HU_KEY,),
            scheme_rate=round(modified_order(hurst), 9),
            scheme_corrections=_corrections_of_modified(hurst),
            gap=Regime(
                "gap",
                None,
                naive,
                "pathwise",
                "the mean of the second-order terms, which the limit's scheme adds.",
                corrections=tuple(sorted({naive, round(modified_order(hurst), 9), 1.0})),
            ),
        )

    def limit(self, network: Network) -> Limit:
        return _young(network)


@final
class ModifiedYoung(_Fractional):
    """Res-1 with the mean of the second-order term added: the modified Euler scheme of the same equation."""

    def _matches(self, network: Network, hurst: float) -> bool:
        return is_one_of(network, ModifiedRes1) and _has_young_limit(network, hurst)

    def regime(self, network: Network) -> Regime:
        hurst = cast("float", hurst_of(network))
        return Regime(
            "young",
            f"{HU_LIU_NUALART} for the modified Euler scheme, applied here",
            round(modified_order(hurst), 9),
            "pathwise",
            "increments of fractional Brownian motion with H > 1/2 and the exponent H, with the mean of the"
            " second-order term added: the modified Euler scheme of a Young"
            f" equation.{_at_three_quarters(hurst)}",
            corrections=_corrections_of_modified(hurst),
            hypotheses=(SMOOTH,),
            citations=(HU_KEY,),
        )

    def limit(self, network: Network) -> Limit:
        return _young(network)


def _corrections_of_modified(hurst: float) -> tuple[float, ...]:
    """Return by which powers of 1/L further terms of the modified scheme's error are smaller."""
    return max(round(abs(4 * hurst - 3.0), 9), SLOWEST), 1.0


def _at_three_quarters(hurst: float) -> str:
    return " At H = 3/4 the better order carries a factor √log L." if hurst == 0.75 else ""


def _is_linear(network: Network) -> bool:
    """Whether layers enter linearly."""
    return is_one_of(network, Res1, ModifiedRes1)


@final
class FractionalIdentity(_Fractional):
    """Above max(H, 1/2) the network tends to the identity: simulated by Marion et al. (2025), not proved."""

    def _matches(self, network: Network, hurst: float) -> bool:
        return _side(network, hurst) > 0 and not _has_mean(network)

    def regime(self, network: Network) -> Regime:
        hurst, exponent, linear = cast("float", hurst_of(network)), network.exponent, _is_linear(network)
        # The sum of the increments, and the mean of products of neighbouring layers, which is the smaller one
        # for H > 1/2 alone.
        first, second = sorted((round(exponent - hurst, 9), round(2 * exponent - max(2 * hurst, 1.0), 9)))
        rate = None if not linear else round(exponent - hurst, 9) if hurst > 0.5 else first
        order = {
            None: "No order is known.",
            True: "The order exponent - H is that of the sum of the increments, for Lipschitz activations.",
            False: (
                "The order is that of the sum of the increments, exponent - H, or of the mean of products of"
                " neighbouring layers, 2·exponent - 1, whichever is smaller (a heuristic)."
            ),
        }[None if rate is None else hurst > 0.5]
        return Regime(
            "identity",
            None,
            rate,
            "pathwise",
            f"an exponent above max(H, 1/2) = {max(hurst, 0.5):g}: the network tends to the identity."
            f" {FIGURE} finds this by simulation (Figure 7), without proof. {order}",
            corrections=(1.0,) if rate is None else tuple(sorted({round(rate, 9), 1.0})),
            second_orders=(round(second - first, 9),)
            if linear and hurst < 0.5 and second - first > 1e-9
            else (),
            hides=linear and hurst < 0.5,
        )

    def limit(self, network: Network) -> Limit:
        return Identity()


@final
class FractionalExplosion(_Fractional):
    """Below max(H, 1/2) the hidden state grows without bound: simulated by Marion et al. (2025) for res-3,
    not proved.
    """

    def _matches(self, network: Network, hurst: float) -> bool:
        return _side(network, hurst) < 0 and _no_explosion(network, hurst) is None

    def regime(self, network: Network) -> Regime:
        hurst = cast("float", hurst_of(network))
        return Regime(
            "explosion",
            None,
            None,
            None,
            f"an exponent below max(H, 1/2) = {max(hurst, 0.5):g}: the hidden state grows without bound."
            f" {FIGURE} finds this by simulation (Figure 7, for res-3), without proof.",
            CLOSEST,
        )


ROWS: tuple[Theorem, ...] = (Young(), ModifiedYoung(), FractionalIdentity(), FractionalExplosion())


def why_not(network: Network) -> tuple[str, str] | None:
    """Return why no row matches a network with fractional Brownian weights."""
    facts = laws(network)
    if any(fact.dependence != Dependence.FRACTIONAL for fact in facts):
        return None
    indices = sorted({fact.hurst for fact in facts if fact.hurst is not None})
    if len(indices) > 1:
        different = " and ".join(f"{hurst:g}" for hurst in indices)
        return (
            f"the weight matrices have different Hurst indices, {different}, and no result covers that.",
            CLOSEST,
        )
    hurst = hurst_of(network)
    if hurst is None:
        return None
    return _why_not(network, hurst), CLOSEST


def _why_not(network: Network, hurst: float) -> str:
    side = _side(network, hurst)
    if side > 0:
        return (
            f"{network.recursion.activation.name} is not odd, so σ(W h) has a mean, the same in every"
            " layer. It adds up like L, and vanishes only above the exponent 1."
        )
    if side < 0:
        return _no_explosion(network, hurst) or ""
    if hurst < 0.5:
        return (
            f"negatively correlated layers (H = {hurst:g}) with the exponent 1/2 are rougher than Young's"
            " integral allows (H > 1/2); no limit equation is known path by path."
        )
    if not _is_linear(network):
        return (
            f"{network.recursion.name} is not linear in its weights: a layer is not an increment of the"
            " driving path, so the network is not an Euler scheme on that path."
        )
    return _kink(network) or ""


def _has_mean(network: Network) -> bool:
    """Whether every layer of σ(W h) has a mean, which adds up like L."""
    return (
        is_one_of(network, Inner)
        and not is_odd(network.recursion.activation)
        and side(network.exponent, 1.0) <= 0
    )


def _no_explosion(network: Network, hurst: float) -> str | None:
    """Return why explosion is not claimed below the critical exponent, or None where it is."""
    if hurst < 0.5 and (is_one_of(network, Res1) or network.recursion.activation.name == "identity"):
        return (
            f"negatively correlated layers (H = {hurst:g}) nearly cancel where they enter linearly. An"
            f" exponent below 1/2 need not lead to explosion; it does for res-3 in {FIGURE} (Figure 7, by"
            " simulation)."
        )
    if side(network.exponent, 0.5) >= 0 and not is_one_of(network, Res1, Res3, Inner):
        return (
            f"{FIGURE} finds explosion below the exponent H = {hurst:g} for res-3, by simulation. Products"
            " with another activation may depend less on each other; between 1/2 and H nothing is known."
        )
    return None


def _kink(network: Network) -> str | None:
    """Return why σ is not differentiable enough for the Young equation to have one solution, or None."""
    activation = network.recursion.activation
    needs = "a Young equation has one solution if σ' is Hölder continuous, and"
    if (steep := steepening(activation)) is not None:
        return f"{needs} {activation.name} is not even Lipschitz: {steep}."
    if has_kink(activation):
        return f"{needs} that of {activation.name} jumps."
    try:
        derivative(activation, torch.zeros(1, dtype=torch.float64))
    except RuntimeError as error:
        return f"the Young equation needs σ', but {error}"
    return None
