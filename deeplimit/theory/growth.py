"""How signals grow with depth: the critical exponent, the growth beyond it, and what is not known."""

from __future__ import annotations

import torch

from deeplimit.common.validation import NoTheoremError
from deeplimit.driving import Dependence, Facts
from deeplimit.layers.activations import Activation, expansion, is_bounded, is_odd, slopes
from deeplimit.theory.theorem import PAPERS, Growth, Network, are_independent, is_one_of, laws, side, sides

NOTHING = Growth()


FAR, FADED = torch.tensor([1e2, 1e3, 1e4], dtype=torch.float64), 1e-6
"""Where a σ that fades, as a bump or ReLU on one side does, is below this; sin is large at some of them."""


def known_growth(network: Network) -> Growth:
    """Return what is known of the signal's growth; nothing unless the recursion is one of the papers'.

    Every weight law must be of a kind that theory covers, by its facts.
    """
    if not is_one_of(network, *PAPERS) or not all(_is_covered(facts) for facts in laws(network)):
        return NOTHING
    if _remembers(network) and sides(network)[1] is not None:
        return NOTHING  # no row is about a σ that reads such layers
    critical = _critical(network)
    return Growth(
        critical, _predicted(network, critical), _vanishes(network, critical), _faster(network, critical)
    )


def _is_covered(facts: Facts) -> bool:
    if facts.dependence == Dependence.INDEPENDENT:
        return are_independent(facts)
    if facts.dependence == Dependence.SMOOTH:
        return facts.holder is not None and facts.natural_exponent is not None
    if facts.dependence == Dependence.FRACTIONAL:
        return facts.hurst is not None and facts.natural_exponent is not None
    known = (Dependence.SHRINKING, Dependence.STATIONARY)
    return facts.dependence in known and facts.natural_exponent is not None


def _is_independent(facts: Facts | None) -> bool:
    return facts is not None and facts.dependence == Dependence.INDEPENDENT


def _shrinks(network: Network) -> bool:
    return any(facts.dependence == Dependence.SHRINKING for facts in laws(network))


def _remembers(network: Network) -> bool:
    """Whether some layers have a short memory."""
    return any(facts.dependence == Dependence.STATIONARY for facts in laws(network))


def _is_rough(network: Network) -> bool:
    """Whether some layers are negatively correlated (H < 1/2)."""
    return any(facts.hurst is not None and facts.hurst < 0.5 for facts in laws(network))


def _has_given_functions(network: Network) -> bool:
    """Whether weights are functions of time of which no law is stated: their integral may vanish."""
    return any(facts.dependence == Dependence.SMOOTH and not facts.gaussian for facts in laws(network))


def _critical(network: Network) -> float | None:
    """Return the residual exponent between explosion and identity; None where it is not known.

    Updates k layers apart have a correlation like k^{2c - 2}: c = 1/2 for independent ones, H for fractional
    Brownian weights, 1 for functions of time. Their sum over the layers is of size L^c. Of V g(h) both
    factors count, c_V + c_g - 1. c_g = 1 where g has no weights, or a mean as ReLU(W h) has; for an odd σ it
    is that of W.

    Not known: layers with H < 1/2 that enter linearly, which nearly cancel; a sampler inside σ, which may be
    skewed; weights that shrink with the depth inside a σ that is not smooth, or not 0, at 0.
    """
    outer, inner = sides(network)
    if _shrinks(network):
        try:
            expansion(network.recursion.activation)
        except NoTheoremError:
            return None
        return min(facts.natural_exponent for facts in laws(network) if facts.natural_exponent is not None)
    skewed = inner is not None and _is_independent(inner) and not inner.symmetric
    if outer is None and skewed:
        return None
    odd = is_odd(network.recursion.activation)
    if skewed and slopes(network.recursion.activation) is None and odd and not _is_independent(outer):
        return None
    if _is_rough(network) and (inner is None or (outer is None and odd)):
        return None
    stands = 1.0 if outer is None else outer.natural_exponent
    reads = 1.0 if inner is None or not odd else inner.natural_exponent
    assert stands is not None  # every law is covered
    assert reads is not None
    return max(0.5, round(stands + reads - 1.0, 12))


def _predicted(network: Network, critical: float | None) -> float | None:
    """Return γ: 2(c - β) from the critical exponent c on.

    Below it the growth is faster than any such law, except for independent layers, where it is 1 - 2β still
    (not at widths 1 and 2, where |h_L| does not grow although its mean square does). Of layers with a short
    memory 0 alone is known: their sum may vanish, and what it leaves falls faster. Not known: res-1 with σ 0
    far out on one side, as ReLU or a bump. A state whose entries all lie there moves no more, and below 1/2
    every direction is reached in the end. At width 3 the median of |h_L|/|h_0| stays at 1.3 up to depth 3000.
    """
    beta = network.exponent
    if critical is None or _shrinks(network) or _has_given_functions(network):
        return None
    if _remembers(network):
        return 0.0 if side(beta, critical) == 0 else None
    if critical > 0.5:
        return 2.0 * (critical - beta) if side(beta, critical) >= 0 else None
    outer, inner = sides(network)
    if _is_independent(outer) or (outer is None and _is_independent(inner)):
        if side(beta, 0.5) >= 0:
            return 1.0 - 2.0 * beta
        activation = network.recursion.activation
        if all(fades(activation)) or (inner is None and any(fades(activation))):
            return None
        known = slopes(activation) is not None or is_bounded(activation)
        return 1.0 - 2.0 * beta if known and (network.width > 2 or activation.at_zero != 0.0) else None
    return 1.0 - 2.0 * beta if side(beta, 0.5) >= 0 and not _is_rough(network) else None


def fades(activation: Activation) -> tuple[bool, bool]:
    """Return whether σ tends to 0 at large arguments, positive and negative ones."""
    positive, negative = (not bool((activation(side * FAR).abs() > FADED).any()) for side in (1.0, -1.0))
    return positive, negative


def _vanishes(network: Network, critical: float | None) -> float | None:
    """Return the largest residual exponent at which the change is known not to vanish.

    Layers with H < 1/2 that enter linearly nearly cancel, but the mean of products of neighbouring layers
    remains at β = 1/2.
    """
    if _shrinks(network) or _has_given_functions(network):
        return None
    return max(0.5, critical or 0.5) if _is_rough(network) else critical


def _faster(network: Network, critical: float | None) -> float | None:
    """Return by what power of 1/L the incoherent part of a change is smaller than the coherent one.

    Of the squared change L^{2(c - β)} is coherent and L^{1 - 2β} is not, so that of its root the power is c -
    1/2.
    """
    smooth = all(facts.dependence == Dependence.SMOOTH for facts in laws(network))
    return round(critical - 0.5, 9) if critical is not None and critical > 0.5 and not smooth else None
