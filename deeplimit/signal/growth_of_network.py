"""The growth of a network's signal and gradient: what theory knows of each, the fits, and both verdicts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import final

import numpy as np
from torch import Tensor

from deeplimit.common.verdict import StabilityVerdict
from deeplimit.driving import Dependence
from deeplimit.layers import Res1
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.signal.growth import Growth, is_straighter_as_an_exponential, measure_growth, together
from deeplimit.signal.growth_fit import GRID_SCALE, MEMORY_SCALE
from deeplimit.signal.layer_time import Curves, curves_of
from deeplimit.signal.undefined import OVERFLOW, Undefined
from deeplimit.theory import Growth as Known, growth_of
from deeplimit.theory.theorem import is_one_of


@final
@dataclass(frozen=True)
class Growths:
    """How signal and gradient grow with depth, and what theory says of the signal."""

    hidden: Growth
    gradient: Growth
    known: Known

    @property
    def verdict(self) -> StabilityVerdict:
        """What both agree on; explosion of either decides."""
        return together(self.hidden, self.gradient)


def growths_of(
    network: ResidualNetwork,
    depths: np.ndarray,
    logs: np.ndarray,
    h0: Tensor | None,
    confidence: float,
    *,
    exact: int = 0,
    undefined: Undefined = OVERFLOW,
    spent: float = 1.0,
) -> Growths:
    """Fit and judge both.

    Args:
        network: the network.
        depths: numbers of layers (m,).
        logs: logs of |h_L|/|h_0|, |h_L - h_0|/|h_0|, |p_0|/|p_L| and |p_0 - p_L|/|p_L| (4, m, draws).
        h0: inputs (n, d); None for standard normal ones.
        confidence: confidence level of the intervals.
        exact: how many draws of the signal differ where nothing is random, else 0.
        undefined: what made the NaN among the changes.
        spent: part of each error rate of the verdict that may be spent here.
    """
    ratio, change, gradient_ratio, gradient_change = logs
    said, curves = _known(network, h0)
    remembers = _remembers_briefly(network)
    known = (
        Known(0.5, 1.0 - 2.0 * network.exponent if network.exponent >= 0.5 else None) if remembers else said
    )
    scale = MEMORY_SCALE if remembers else GRID_SCALE
    scalable, beta = network.is_homogeneous, network.exponent
    # Behind an activation that bends, a gradient may explode more slowly than the signal.
    bends = not scalable and curves is None
    exponential = scalable or (
        bends and is_straighter_as_an_exponential(depths, change[:, :exact] if exact else change)
    )
    one_of = _one_of(known) if curves is None else ()
    hidden = measure_growth(
        depths,
        change,
        ratio,
        confidence,
        known,
        beta,
        exponential=exponential,
        exact=exact,
        curve=None if curves is None else curves.hidden,
        grid_scale=scale,
        undefined=undefined.hidden,
        spent=spent,
        one_of=one_of,
    )
    gradient = measure_growth(
        depths,
        gradient_change,
        gradient_ratio,
        confidence,
        Known(vanishes_beyond=known.vanishes_beyond, faster=known.faster)
        if bends and not _is_bounded(known)
        else known,
        beta,
        exponential=True,
        curve=None if curves is None else curves.gradient,
        grid_scale=scale,
        undefined=undefined.gradient,
        spent=spent,
        one_of=one_of,
    )
    return Growths(hidden, gradient, said)


def _known(network: ResidualNetwork, h0: Tensor | None) -> tuple[Known, Curves | None]:
    """Return what is known of γ, and the curves of change by time where they agree with it.

    Curves give γ on both sides of the critical exponent.
    """
    known, curves = growth_of(network), curves_of(network, h0)
    if curves is None or known.critical != 0.5 or known.predicted not in (None, curves.exponent):
        return known, None
    return dataclasses.replace(known, predicted=curves.exponent), curves


def _remembers_briefly(network: ResidualNetwork) -> bool:
    """Whether layers are stationary chains whose sums grow like those of independent layers, and centred.

    No theorem is about them. By the central limit theorem their critical exponent is 1/2 nevertheless.
    """
    facts = [law.facts.at(network.width) for law in network.weights]
    stationary = [fact.dependence == Dependence.STATIONARY for fact in facts]
    short = all(fact.natural_exponent == 0.5 for fact in facts)
    return is_one_of(network, Res1) and any(stationary) and short


def _is_bounded(known: Known) -> bool:
    """Whether the signal's change stays bounded and has one part: a gradient's then grows like it."""
    return known.predicted is not None and known.predicted <= 0.0 and known.faster is None


def _one_of(known: Known) -> tuple[float, ...]:
    """Return the γ of a change that stays bounded and has two parts: of the coherent one, or of the other.

    The coherent one may be missing, as where σ' has no mean slope, or too small to be seen.
    """
    if known.predicted is None or known.predicted > 0.0 or known.faster is None:
        return ()
    return known.predicted, round(known.predicted - 2.0 * known.faster, 9)
