"""Which limit a network with fractional Brownian weights has: the Young equation at the critical exponent,
if any.
"""

from __future__ import annotations

import math

import torch

from deeplimit.activations import derivative, is_odd
from deeplimit.ground.validation import NoTheoremError
from deeplimit.limits.equations import Identity, Limit
from deeplimit.limits.young import NeuralYoung, modified_order
from deeplimit.recursions import Inner, ModifiedRes1, Recursion, Res1, Res3
from deeplimit.theory.regime import Regime
from deeplimit.weights import FractionalBrownian

HU_LIU_NUALART = "Hu, Liu and Nualart (2016)"
FIGURE = "Section 4.1 of Marion et al. (2025)"
CLOSEST = (
    "res1(..., weights=FractionalBrownian(H), exponent=H) with H > 1/2 and a smooth σ, whose limit is a Young"
    " equation."
)


SLOWEST = 0.1
"""Near H = 3/4 the variance of the second-order terms sums k^(4H - 4): a slow power, a logarithm at 3/4,
taken for this power.
"""


def classify_fractional(
    recursion: Recursion, weights: tuple[FractionalBrownian, ...], exponent: float
) -> Regime:
    """Return the regime of a network all of whose weights are fractional Brownian, none with Hurst index
    1/2.
    """
    indices = sorted({float(law.hurst) for law in weights})
    if len(indices) > 1:
        return _nothing(
            "the weight matrices have different Hurst indices,"
            f" {' and '.join(f'{hurst:g}' for hurst in indices)}, of which nothing is known."
        )
    (hurst,) = indices
    critical = max(hurst, 0.5)
    if abs(exponent - critical) < 1e-9:
        return _critical(recursion, hurst)
    if exponent > critical:
        return _identity(recursion, hurst, exponent)
    return _explosion(recursion, hurst, exponent)


def limit_of_fractional(
    recursion: Recursion, weights: tuple[FractionalBrownian, ...], exponent: float, width: int
) -> Limit:
    """Return the limit equation; raise NoTheoremError where there is none."""
    regime = classify_fractional(recursion, weights, exponent)
    if regime.name == "identity":
        return Identity()
    if regime.name == "young":
        return NeuralYoung(Res1(recursion.activation), weights, width)
    raise NoTheoremError(
        f"cannot pair {recursion.name} ({', '.join(law.describe() for law in weights)}, exponent"
        f" {exponent:g}) with a limit because {regime.explanation} Closest: {regime.closest}"
    )


def _critical(recursion: Recursion, hurst: float) -> Regime:
    if hurst < 0.5:
        return _nothing(
            f"negatively correlated layers (H = {hurst:g}) with the exponent 1/2 are rougher than Young's"
            " integral allows (H > 1/2); no Euler scheme of theirs follows a limit equation path by path."
        )
    if not isinstance(recursion, (Res1, ModifiedRes1)):
        return _nothing(
            f"{recursion.name} is not linear in its weights: a layer is no increment of the driving path, so"
            " no Euler scheme runs on the same path."
        )
    if (why := _kink(recursion)) is not None:
        return _nothing(why)
    naive, better = round(2 * hurst - 1.0, 9), round(modified_order(hurst), 9)
    assumed = (
        "Not checked: that σ is three times continuously differentiable, bounded with its derivatives, as"
        " they ask."
        if hurst != 0.75
        else (
            "At H = 3/4 the better order carries a factor √log L. Not checked: that σ is C³, bounded with its"
            " derivatives."
        )
    )
    if isinstance(recursion, ModifiedRes1):
        return Regime(
            "young",
            f"{HU_LIU_NUALART} for the modified Euler scheme, applied here",
            better,
            "pathwise",
            "increments of fractional Brownian motion with H > 1/2 and the exponent H, with the mean of the"
            f" second-order term added: the modified Euler scheme of a Young equation. {assumed}",
            corrections=(max(round(abs(4 * hurst - 3.0), 9), SLOWEST), 1.0),
        )
    # What the second-order terms do besides their mean is smaller by a power of its own, and larger at
    # small depth.
    second = round(better - naive, 9)
    return Regime(
        "young",
        f"{HU_LIU_NUALART} for the Euler scheme, applied here",
        naive,
        "pathwise",
        "increments of fractional Brownian motion with H > 1/2 and the exponent H: the network is the Euler"
        " scheme of a Young equation. The order 2H - 1 is that of the second-order terms' mean, and is"
        f" reached slowly. {assumed}",
        corrections=tuple(sorted({naive, second, 1.0})),
        seconds=(second,),
        hides=True,
    )


def _identity(recursion: Recursion, hurst: float, exponent: float) -> Regime:
    if isinstance(recursion, Inner) and not is_odd(recursion.activation) and exponent <= 1.0:
        return _nothing(
            f"{recursion.activation.name} is not odd, so that σ(W h) has a mean, of every layer alike: it"
            " adds up like L, and vanishes above the exponent 1 only."
        )
    linear = isinstance(recursion, (Res1, ModifiedRes1))
    # The sum of the increments, and the mean of products of neighbouring layers, which is the smaller one
    # for H > 1/2 alone.
    first, second = sorted((round(exponent - hurst, 9), round(2 * exponent - max(2 * hurst, 1.0), 9)))
    rate = None if not linear else round(exponent - hurst, 9) if hurst > 0.5 else first
    order = {
        None: "No order is known.",
        True: "The order exponent - H is that of the sum of the increments, for any Lipschitz activation.",
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
        f"an exponent above max(H, 1/2) = {max(hurst, 0.5):g}: the network tends to the identity. {FIGURE}"
        f" finds so by simulation (Figure 7), without proof. {order}",
        corrections=(1.0,) if rate is None else tuple(sorted({round(rate, 9), 1.0})),
        seconds=(round(second - first, 9),) if linear and hurst < 0.5 and second - first > 1e-9 else (),
        hides=linear and hurst < 0.5,
    )


def _explosion(recursion: Recursion, hurst: float, exponent: float) -> Regime:
    if hurst < 0.5 and (isinstance(recursion, Res1) or recursion.activation.name == "identity"):
        return _nothing(
            f"negatively correlated layers (H = {hurst:g}) nearly cancel where they enter linearly, so an"
            f" exponent below 1/2 need not lead to explosion, as it does for res-3 in {FIGURE} (Figure 7, by"
            " simulation)."
        )
    if exponent >= 0.5 and not isinstance(recursion, (Res1, Res3, Inner)):
        return _nothing(
            f"{FIGURE} finds explosion below the exponent H = {hurst:g} for res-3, by simulation; products"
            " with another activation need not remember as much, and nothing is known between 1/2 and H."
        )
    return Regime(
        "explosion",
        None,
        None,
        None,
        f"an exponent below max(H, 1/2) = {max(hurst, 0.5):g}: the hidden state grows without bound. {FIGURE}"
        " finds so by simulation (Figure 7, for res-3), without proof.",
        CLOSEST,
    )


def _nothing(why: str) -> Regime:
    return Regime("no theorem", None, None, None, why, CLOSEST)


def _kink(recursion: Recursion) -> str | None:
    """Return why σ is not differentiable enough at 0 for the Young equation to have one solution, or None."""
    name, step = recursion.activation.name, 1e-6
    try:
        left, right = derivative(
            recursion.activation, torch.tensor([-step, step], dtype=torch.float64)
        ).tolist()
    except RuntimeError as error:
        return f"the Young equation needs σ', but {error}"
    if (
        math.isfinite(left)
        and math.isfinite(right)
        and abs(right - left) <= 1e-3 * (1.0 + abs(left) + abs(right))
    ):
        return None
    return (
        f"a Young equation has one solution if σ' is Hölder continuous, and {name} has a kink at 0: "
        f"σ' = {left:.4g} at {-step:g} and {right:.4g} at {step:g}."
    )
