"""What one network's layers say about depth, for one weight: statistics, a verdict and its reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from deeplimit.statistics.verdict import Judgement, Rules, judge
from deeplimit.trained.diagnosis.correlations import (
    Answer,
    Evidence,
    LagCorrelations,
    answer,
    lag_correlations,
)
from deeplimit.trained.diagnosis.hurst import Roughness, roughness
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.nugget import NoiseShare, noise_share
from deeplimit.trained.diagnosis.order_test import OrderTest, order_test
from deeplimit.trained.diagnosis.smoother import ROUGH, ModelComparison, compare_models
from deeplimit.trained.diagnosis.stacks import Stack

COPIES = 0.99
"""Layers of a group with this mean cosine are copies of each other, whatever is left between them."""
DECISIVE = 10.0
"""Smooth and rough are told apart by this ratio of likelihoods, twice its logarithm: odds of 150 : 1."""
ENOUGH_ENTRIES = 30.0
"""From so many effective entries on, dividing layers by their sizes loses next to nothing."""
MARGIN = 4.0
"""Layers alternate where those two apart are alike by so many standard errors."""

Character = Literal["copies", "independent", "common trend", "smooth trend", "rough", "cannot tell"]
"""What layers are as a function of depth. One depth tells no limit and no exponent: those need a sweep."""


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
    verdict: Judgement[Character]

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
            >>> LayerStatistics.of(Stack("A", noise)).verdict.word
            'independent'
        """
        return cls.of_products(stack.name, LayerGram.of(stack), seed, confidence)

    @classmethod
    def of_products(
        cls, name: str, gram: LayerGram, seed: int = 0, confidence: float = 0.95
    ) -> LayerStatistics:
        """Return the same from products of layers."""
        models = compare_models(gram, equal_sizes=True)
        equal = models.effective_entries >= ENOUGH_ENTRIES
        if not equal:
            models = compare_models(gram)
        order, noise = order_test(gram, seed), noise_share(gram, confidence, equal)
        whole = roughness(gram, confidence, equal_sizes=equal)
        about_mean = roughness(gram, confidence, about_mean=True, equal_sizes=equal)
        judged = roughness(gram, about_mean=True, equal_sizes=equal) if confidence != 0.95 else about_mean
        lags = lag_correlations(gram, about_mean.effective_entries, seed)
        correlation = answer(Evidence(lags, order, judged))
        evidence = _Evidence(order, noise, lags, correlation, models)
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
            judge(RULES, evidence),
        )


@dataclass(frozen=True)
class _Evidence:
    order: OrderTest
    noise: NoiseShare
    lags: LagCorrelations
    correlation: Judgement[Answer]
    models: ModelComparison


def _layers_are_copies(seen: _Evidence) -> str | None:
    if seen.lags.mean < COPIES:
        return None
    return (
        f"layers are almost equal, their mean cosine is {seen.lags.mean:.5g}: they are tied, or their"
        " gradients come through the skip connection; their smoothness means nothing"
    )


def _no_correlation(seen: _Evidence) -> str | None:
    return seen.correlation.reason if seen.correlation.word == "none" else None


def _constant_correlation(seen: _Evidence) -> str | None:
    return seen.correlation.reason if seen.correlation.word == "constant" else None


def _correlation_is_open(seen: _Evidence) -> str | None:
    return seen.correlation.reason if seen.correlation.word == "cannot tell" else None


def _layers_alternate(seen: _Evidence) -> str | None:
    two = int(np.searchsorted(seen.lags.lags, 2))
    far = seen.lags.means[two] if two < len(seen.lags.lags) and seen.lags.lags[two] == 2 else 0.0
    error = seen.lags.errors[two] if two < len(seen.lags.lags) else 0.0
    if seen.order.p_smooth < seen.order.p_rough or far <= seen.lags.mean + MARGIN * error:
        return None
    return (
        f"{seen.correlation.reason}; but layers two apart have cosine {far:.3g}: they may be of two kinds in"
        " turn, which groups would tell"
    )


def _neighbours_differ(seen: _Evidence) -> str | None:
    if seen.order.p_smooth < seen.order.p_rough:
        return None
    return f"{seen.correlation.reason}: layers undo their neighbours, as rough processes do"


def _smooth_wins(seen: _Evidence) -> str | None:
    if seen.models.smoother_by < DECISIVE:
        return None
    return (
        f"{seen.correlation.reason}; a smooth trend with noise (share {seen.noise.noise:.2g}) fits better"
        f" than rough processes, by {seen.models.smoother_by:.3g} in twice the log likelihood"
    )


def _rough_wins(seen: _Evidence) -> str | None:
    if seen.models.smoother_by > -DECISIVE:
        return None
    best = min((m for m in seen.models.models if m.name in ROUGH), key=lambda model: model.deviance)
    index = "" if best.hurst is None else f" with Hurst index {best.hurst:.2f}"
    name = "fractional noise" if best.hurst is not None else "an exponential kernel with noise"
    return (
        f"{seen.correlation.reason}; {name}{index} fits better than a smooth trend with noise,"
        f" by {-seen.models.smoother_by:.3g} in twice the log likelihood"
    )


def _smooth_or_rough(seen: _Evidence) -> str | None:
    return (
        f"{seen.correlation.reason}; but a smooth trend with noise and rough processes fit equally,"
        f" up to {abs(seen.models.smoother_by):.2g} in twice the log likelihood"
    )


RULES: Rules[Character, _Evidence] = (
    ("copies", _layers_are_copies),
    ("independent", _no_correlation),
    ("common trend", _constant_correlation),
    ("cannot tell", _correlation_is_open),
    ("cannot tell", _layers_alternate),
    ("rough", _neighbours_differ),
    ("smooth trend", _smooth_wins),
    ("rough", _rough_wins),
    ("cannot tell", _smooth_or_rough),
)
