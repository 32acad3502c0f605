"""Correlations of layers at every lag: a common trend, a decaying one, or none.

The correlation of neighbours alone cannot tell these apart. A common trend gives the same correlation at all
lags, and the sum of layers grows like their number. A decaying one belongs to a process in depth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch

from deeplimit.common import randomness
from deeplimit.common.verdict import Judgement, RuleByRule, judge
from deeplimit.trained.diagnosis.hurst import Roughness
from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines
from deeplimit.trained.diagnosis.order_test import OrderTest

LEVEL = 0.003
"""P-values up to this count as seen; two tests then mislead together in at most 0.6 % of networks."""
DOUBT = 0.02
"""An order with a p-value up to this is not called absent."""
RESOLUTION = 0.1
"""About their mean, layers are uncorrelated where the interval of the Hurst index lies within 0.5 ± this."""
MOST_COHERENT = 2.0
"""Sums of uncorrelated layers have at most this many times the square of sums of independent ones."""
MARGIN = 2.6
"""Standard errors above the estimate that bound the mean correlation in 99.5 % of draws."""
FLIPS = 1999
"""Number of random draws of the layers' signs."""

Answer = Literal["none", "constant", "decaying", "cannot tell"]


@final
@dataclass(frozen=True, eq=False)
class LagCorrelations:
    """How layers of one group are correlated, by the number of layers between them.

    Attributes:
        lags: distances in layers, those at which a group has pairs (n,).
        means: mean cosine of pairs at each lag (n,).
        errors: standard errors of these, if layers were independent (n,).
        mean: mean cosine of all pairs.
        error: its standard error, if layers were independent.
        p_common: p-value of layers that are more alike than layers with random signs.
        coherence: square of the layers' sum over that of independent layers of equal size.
        coherence_error: its standard error, if layers were independent.
    """

    lags: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    mean: float
    error: float
    p_common: float
    coherence: float
    coherence_error: float


def lag_correlations(gram: LayerGram, effective_entries: float, seed: int = 0) -> LagCorrelations:
    """Return correlations at every lag, and an exact test of their mean.

    Under the hypothesis that layers are independent with laws that are symmetric about 0, signs of layers are
    free: the p-value is at most p with probability at most p, whatever spikes the layers have.

    Args:
        gram: products of layers; pairs are within groups.
        effective_entries: for the standard errors, such as `Roughness.effective_entries`.
        seed: which signs are drawn.

    Raises:
        ValueError: where no two layers are of one group.

    Not checked: `effective_entries`.

    Examples:
        >>> import numpy as np
        >>> found = lag_correlations(LayerGram(np.eye(4) + 1, 100), 100.0)
        >>> found.lags.tolist(), found.means.round(3).tolist()
        ([1, 2, 3], [0.5, 0.5, 0.5])
    """
    depth = len(gram.products)
    groups = np.asarray(gram.groups or (0,) * depth)
    cosine = cosines(gram) * np.equal.outer(groups, groups)
    np.fill_diagonal(cosine, 0.0)
    first, second = np.nonzero(np.triu(np.equal.outer(groups, groups), 1))
    if len(first) == 0:
        raise ValueError(
            f"correlations need two layers of one group, got groups {gram.groups}; give layers that are alike"
            " the same number in groups=."
        )
    counts = np.bincount(second - first, minlength=depth)
    sums = np.bincount(second - first, weights=cosine[first, second], minlength=depth)
    lags = np.flatnonzero(counts)
    generator = randomness.generator(seed, randomness.Purpose.LAYER_SIGNS)
    signs = 2.0 * torch.randint(2, (FLIPS, depth), generator=generator).numpy() - 1
    flipped = np.einsum("nk,nk->n", signs @ cosine, signs)
    total = float(cosine.sum())
    at_least = int((flipped >= total - 1e-12 * depth).sum())
    return LagCorrelations(
        lags,
        sums[lags] / counts[lags],
        1 / np.sqrt(counts[lags] * effective_entries),
        total / (2 * len(first)),
        1 / math.sqrt(len(first) * effective_entries),
        (1 + at_least) / (1 + FLIPS),
        1 + total / depth,
        2 * math.sqrt(len(first) / effective_entries) / depth,
    )


@dataclass(frozen=True)
class Evidence:
    """What decides which of the three it is: correlations, the test of order, roughness about the mean.

    The order is seen at `level`, which is smaller where many objects are tested. Layers that come in copies
    have one, wherever the copies are.
    """

    lags: LagCorrelations
    order: OrderTest
    about_mean: Roughness
    level: float = LEVEL
    twins: tuple[tuple[int, ...], ...] = ()

    @property
    def most_coherent(self) -> float:
        """Bound of the square of the layers' sum over that of independent layers."""
        return self.lags.coherence + MARGIN * self.lags.coherence_error


def order_is_open(seen: Evidence) -> bool:
    """An order that is not seen is not excluded either."""
    low, high = seen.about_mean.interval
    resolved = low > 0.5 - RESOLUTION and high < 0.5 + RESOLUTION
    return not (seen.order.p_value > DOUBT and resolved)


def rules(seen: Evidence) -> RuleByRule[Answer]:
    """Yield the rules on correlations between layers."""
    # Layers have twins somewhere, and are far from all others.
    yield "decaying", "has_twins", bool(seen.twins)
    # Neighbours are more alike, or less, than in random orders.
    yield "decaying", "order_matters", seen.order.p_value <= seen.level
    yield "cannot tell", "order_is_open", order_is_open(seen)
    # Layers share a part.
    yield "constant", "all_are_alike", seen.lags.p_common <= LEVEL
    # Neither an order nor a common part of any size is left.
    yield "none", "none_is_left", seen.most_coherent <= MOST_COHERENT
    # What remains: a common part is not excluded.
    yield "cannot tell", "common_part_is_open", True


def answer(seen: Evidence) -> Judgement[Answer]:
    """Return which correlation it is: "constant" (a common trend), "decaying", "none" or "cannot tell"."""
    return judge(rules, seen)
