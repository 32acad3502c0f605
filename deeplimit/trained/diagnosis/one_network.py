"""What one network's layers say about depth, for one weight: statistics, a verdict and its reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from deeplimit.common.verdict import Judgement, LayersVerdict, RuleByRule, judge
from deeplimit.trained.diagnosis.correlations import (
    LEVEL,
    Answer,
    Evidence,
    LagCorrelations,
    answer,
    lag_correlations,
)
from deeplimit.trained.diagnosis.hurst import Roughness, roughness
from deeplimit.trained.diagnosis.layer_gram import LayerGram, copied_groups
from deeplimit.trained.diagnosis.nugget import NoiseShare, noise_share
from deeplimit.trained.diagnosis.order_test import OrderTest, order_test
from deeplimit.trained.diagnosis.smoother import ModelComparison, compare_models
from deeplimit.trained.diagnosis.stacks import Stack

COPIES = 0.99
"""Layers of a group with this mean cosine are copies of each other, whatever is left between them."""
DECISIVE = 10.0
"""Smooth and rough are told apart by this ratio of likelihoods, twice its logarithm: odds of 150 : 1."""
ENOUGH_ENTRIES = 30.0
"""From so many effective entries on, dividing layers by their sizes loses next to nothing."""
DIRECTIONS = 2.4
"""Effective entries from which layers that are alike have not met by chance. Independent layers of 2 entries
fall into groups of copies in 1 to 3 % of networks, with at most 2.0 effective entries; copied layers have at
least 2.4."""
MARGIN = 3.0
"""Layers come in turns where the cosine of those some distance apart is above the usual one by this many
standard errors. (Kinds of layers make these errors too large.) By chance one of 16 distances is so in 2 % of
networks, of which the verdict is "cannot tell"."""
TURNS = 3
"""So many turns of all kinds a network has at least: fewer are no period."""


@final
@dataclass(frozen=True, eq=False)
class LayerStatistics:
    """Statistics of one weight over the layers of one network.

    Attributes:
        name: of the weight.
        depth: how many layers it has.
        entries: how many entries a layer has.
        sizes: root mean squares of layers (L,).
        equal_sizes: whether layers were divided by their sizes; not where there are few effective entries.
        order: whether the order of layers is real.
        roughness: Hurst index as if the layers were fractional noise, common part included.
        about_mean: Hurst index of what is left about the means of groups.
        noise: shares of noise and trend, as if the layers were a trend with independent noise.
        lags: correlations at every lag.
        correlation: "constant", "decaying", "none" or "cannot tell", with its reason.
        models: processes over depth, compared.
        verdict: what the layers are, with its reason: "copies" of each other, "independent", a "common
            trend" (alike, without order), a "smooth trend" with noise, "rough", or "cannot tell".
    """

    name: str
    depth: int
    entries: int
    sizes: np.ndarray
    equal_sizes: bool
    order: OrderTest
    roughness: Roughness
    about_mean: Roughness
    noise: NoiseShare
    lags: LagCorrelations
    correlation: Judgement[Answer]
    models: ModelComparison
    verdict: Judgement[LayersVerdict]

    @classmethod
    def of(cls, stack: Stack, seed: int = 0, confidence: float = 0.95) -> LayerStatistics:
        """Return the statistics of one stack.

        Args:
            stack: the weight of all layers.
            seed: which permutations and signs are drawn.
            confidence: level of the intervals; the verdict is the same at any level.

        Raises:
            ValueError: where a statistic cannot be had: fewer than 4 layers, fewer than 3 beside the means
                of groups, no three layers of one group, all weights zero, all layers of a group equal.

        Not checked: that entries of different layers are matched. Those of inner weights are not.

        Examples:
            >>> import torch
            >>> from deeplimit.trained.diagnosis.stacks import Stack
            >>> noise = torch.randn(12, 16, 16, generator=torch.Generator().manual_seed(1))
            >>> LayerStatistics.of(Stack("A", noise)).verdict.code
            'independent'
        """
        return cls.of_products(stack.name, LayerGram.of(stack), seed, confidence)

    @classmethod
    def of_products(
        cls, name: str, gram: LayerGram, seed: int = 0, confidence: float = 0.95, level: float = LEVEL
    ) -> LayerStatistics:
        """Return the same from products of layers; an order is seen from p-values of `level` on."""
        models = compare_models(gram, equal_sizes=True)
        equal = models.effective_entries >= ENOUGH_ENTRIES
        if not equal:
            models = compare_models(gram)
        order, noise = order_test(gram, seed), noise_share(gram, confidence, equal)
        whole = roughness(gram, confidence, equal_sizes=equal)
        about_mean = roughness(gram, confidence, about_mean=True, equal_sizes=equal)
        judged = roughness(gram, about_mean=True, equal_sizes=equal) if confidence != 0.95 else about_mean
        lags = lag_correlations(gram, about_mean.effective_entries, seed)
        spread = about_mean.effective_entries >= DIRECTIONS
        twins = tuple(map(tuple, copied_groups(gram))) if spread else ()
        correlation = answer(Evidence(lags, order, judged, level, twins))
        evidence = Found(order, noise, lags, correlation, models, twins)
        return cls(
            name,
            len(gram.products),
            gram.entries,
            np.sqrt(np.diagonal(gram.products)),
            equal,
            order,
            whole,
            about_mean,
            noise,
            lags,
            correlation,
            models,
            judge(rules, evidence),
        )


@dataclass(frozen=True)
class Found:
    """What decides what the layers are, as in `LayerStatistics`."""

    order: OrderTest
    noise: NoiseShare
    lags: LagCorrelations
    correlation: Judgement[Answer]
    models: ModelComparison
    twins: tuple[tuple[int, ...], ...] = ()

    @property
    def period(self) -> tuple[int, float] | None:
        """The distance, of 2 or more, at which layers are alike as no others are, and their mean cosine.

        Rough processes have neighbours that undo each other, and about one correlation at all distances: what
        stands out must do so by half of what neighbours do. The usual one is that of the distances at which
        a period leads to another kind.
        """
        lags = self.lags
        far = lags.lags >= 2
        near = far & (lags.lags <= max(2, (int(lags.lags[-1]) + 1) // TURNS))
        found, most = None, MARGIN
        for place in np.flatnonzero(near):
            others = far & (lags.lags % lags.lags[place] != 0)
            if not others.any():
                continue
            usual = float(np.median(lags.means[others]))
            above, error = float(lags.means[place]) - usual, float(lags.errors[place])
            if above > max(most * error, 0.5 * abs(float(lags.means[0]) - usual)):
                found, most = (int(lags.lags[place]), float(lags.means[place])), above / error
        return found


def rules(seen: Found) -> RuleByRule[LayersVerdict]:
    """Yield the rules on the layers of one network."""
    # Layers are almost equal.
    yield LayersVerdict.COPIES, "layers_are_copies", seen.lags.mean >= COPIES
    # Half of the layers or more are nearly copies of others, which no process in depth makes.
    yield LayersVerdict.CANNOT_TELL, "layers_have_twins", bool(seen.twins)
    # Layers are independent.
    yield LayersVerdict.INDEPENDENT, "no_correlation", seen.correlation.code == "none"
    # Layers share a part, and have no order.
    yield LayersVerdict.COMMON_TREND, "constant_correlation", seen.correlation.code == "constant"
    # Nobody can tell whether layers are correlated.
    yield LayersVerdict.CANNOT_TELL, "correlation_is_open", seen.correlation.code == "cannot tell"
    # Layers some distance apart are more alike than others: they may be of several kinds in turn.
    differ = not seen.order.p_smooth < seen.order.p_rough
    yield LayersVerdict.CANNOT_TELL, "layers_alternate", differ and seen.period is not None
    # Layers undo their neighbours, as rough processes do.
    yield LayersVerdict.ROUGH, "neighbours_differ", differ
    # A smooth trend with noise fits better than rough processes.
    yield LayersVerdict.SMOOTH_TREND, "smooth_wins", seen.models.smoother_by >= DECISIVE
    # A rough process fits better than a smooth trend with noise.
    yield LayersVerdict.ROUGH, "rough_wins", seen.models.smoother_by <= -DECISIVE
    # What remains: both fit equally.
    yield LayersVerdict.CANNOT_TELL, "smooth_or_rough", True
