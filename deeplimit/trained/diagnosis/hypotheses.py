"""From slopes over depth to a hypothesis: a list of rules, the first that holds decides.

Noise is judged by fourth differences D4, which leave out smooth trends. Under Hypothesis 2 their size does
not change with depth, whatever the trend's exponent. Under Hypothesis 1 it falls.
"""

from __future__ import annotations

from dataclasses import dataclass

from deeplimit.common import verdict
from deeplimit.common.verdict import Judgement, RegimeVerdict
from deeplimit.trained.diagnosis.slopes import Slope
from deeplimit.trained.diagnosis.trend import MEMORY, TrendEvidence

STEADY = 0.15
"""The size of noise does not change with depth where its slope is surely within this of 0."""
CHANGES = 0.05
"""It does change where its slope is surely further than this from 0."""
SPARSE = -0.5
"""The participation ratio of a few layers falls like 1/L, that of all layers not at all."""
FEW = -0.8
"""A slope of the participation ratio that may be as low leaves a few layers possible."""
LEVEL = 0.005
"""A trend is found where networks without one are as alike with at most this probability."""
NEGLIGIBLE = 0.5
"""There is no trend where it has at most this share of the noise's energy in the slow components."""
FRESH = 0.97
"""Noise is not new in every layer where D4²/D2² is surely below this."""
MIXED = 0.9
"""D4²/D2² below this leaves no room for noise that is new in every layer beside a rough path."""
ROUGH = 0.25
"""Layers are noise alone where neighbours differ by a share of their size that falls more slowly."""
NEURAL = 0.1
"""Weights keep their size where the exponent is surely within this of 0."""
INDEPENDENT = 0.1
"""Layers are independent where their Hurst index is surely within this of 1/2, as in `correlations`.

They are called related where it is surely further from 1/2 than half of this: intervals of 99 % miss 1/2 once
in a hundred times, by little."""


@dataclass(frozen=True)
class Evidence:
    """What a verdict on one stack of weights rests on.

    Attributes:
        weight: what the stack is called.
        noise: slope of D4; `UNKNOWN` where fewer than three depths have one.
        below_rounding: whether noise is below the round-off of the weights, so that it has no slope.
        concentration: slope of the participation ratio.
        smoothness: exponent by which neighbours' differences fall, relative to the layers.
        fresh: interval of D4²/D2², 1 for noise that is new in every layer.
        trend: evidence of a trend.
        size: exponent of the root mean square.
        roughness: Hurst index of layers about their mean, within each network; `UNKNOWN` where layers are
            not noise alone. The size of layers does not enter.
        depths: how many different depths there are.
        homogeneous: whether weights are multiplied by the residual factors of a homogeneous activation.
        bent: exponent of the size of what branches bend, where these are not the layers themselves; `UNKNOWN`
            where nobody knows it.
    """

    weight: str
    noise: Slope
    below_rounding: bool
    concentration: Slope
    smoothness: Slope
    fresh: tuple[float, float]
    trend: TrendEvidence
    size: Slope
    roughness: Slope
    depths: int
    homogeneous: bool = False
    bent: Slope | None = None

    @property
    def has_trend(self) -> bool:
        """Whether chance would hardly make networks as alike."""
        return self.trend.p_value <= LEVEL

    @property
    def has_own_trends(self) -> bool:
        """Whether networks have trends, each its own or all one."""
        return self.has_trend or self.trend.over_memory(self.memory) > 1

    @property
    def memory(self) -> float:
        """The power 2H - 1 of the longest memory that differences allow, at least that of steady noise.

        Fractional noise has D4²/D2² = 0.98, 0.958, 0.934 and 0.908 at H = 0.6, 0.7, 0.8 and 0.9. Its size
        says nothing of H.
        """
        return min(max(MEMORY, 10.0 * (1.0 - self.fresh[0])), 1.0)

    @property
    def noise_stays(self) -> bool:
        """Whether noise keeps a bounded quadratic variation at all depths."""
        low, high = self.noise.sure
        return -STEADY <= low <= 0 <= high <= STEADY

    @property
    def noise_falls(self) -> bool:
        """Whether noise surely vanishes with depth."""
        return self.below_rounding or self.noise.sure[1] < -CHANGES

    @property
    def noise_grows(self) -> bool:
        """Whether the noise's quadratic variation surely grows with depth."""
        return self.noise.sure[0] > CHANGES


def layers_are_independent(e: Evidence) -> bool:
    """No network's layers are related, and networks share no trend: the size of layers says no more."""
    low, high = e.roughness.sure
    near = 0.5 - INDEPENDENT < low <= high < 0.5 + INDEPENDENT
    return near and not e.has_trend and e.trend.share() < NEGLIGIBLE


def is_noise_that_changes(e: Evidence) -> bool:
    """Neighbours differ by as much as layers are large, whatever the depth: noise of another Hurst index."""
    low, high = e.smoothness.sure
    # A trend of each network beside fresh noise, both of one size, has partial sums of L^1: no Hurst index.
    own = e.has_own_trends and e.fresh[0] >= FRESH
    changes = (e.noise_falls or e.noise_grows) and not e.has_trend and not outlives_noise(e)
    return not e.below_rounding and not own and changes and low <= 0 <= high < ROUGH


def keeps_its_size(e: Evidence) -> bool:
    """A smooth trend without a power of depth, or one of a homogeneous activation."""
    low, high = e.size.sure
    return _is_smooth(e) and (e.homogeneous or -NEURAL < low <= 0 <= high < NEURAL)


def keeps_what_it_bends(e: Evidence) -> bool:
    """A smooth trend of any size, whose activation gets what keeps its size, or which is never linear."""
    return _is_smooth(e) and e.bent is not None and -NEURAL < e.bent.sure[0] <= 0 <= e.bent.sure[1] < NEURAL


def may_keep_what_it_bends(e: Evidence) -> bool:
    """Whether what activations get is not known to shrink."""
    return e.bent is not None and not e.bent.sure[0] > 0


def outlives_noise(e: Evidence) -> bool:
    """Whether a trend stays where noise vanishes with depth, at whatever share of its size at each.

    Networks share it, or each has more slow energy than noise of any memory that its differences allow.
    """
    shared = e.has_trend and e.fresh[1] >= FRESH
    return e.noise_falls and (shared or (e.has_own_trends and e.fresh[0] >= FRESH))


def _is_smooth(e: Evidence) -> bool:
    draws_near = e.below_rounding or e.smoothness.sure[0] > CHANGES
    return (e.noise_falls and draws_near) or outlives_noise(e)


def rules(e: Evidence) -> verdict.RuleByRule[RegimeVerdict]:
    """Yield the rules on one weight at several depths."""
    # No slope has an interval.
    yield (
        RegimeVerdict.CANNOT_TELL,
        "has_too_few_depths",
        not (e.depths >= 3 and (e.noise.is_known or e.below_rounding)),
    )
    # A few layers hold most of the weights.
    yield RegimeVerdict.SPARSE, "is_sparse", e.concentration.sure[1] < SPARSE
    # A few layers may hold most of the weights.
    yield RegimeVerdict.CANNOT_TELL, "may_be_sparse", e.concentration.sure[0] < FEW
    # Differences keep their size, but are not those of independent noise.
    yield (
        RegimeVerdict.CANNOT_TELL,
        "may_be_a_rough_path",
        e.noise_stays and e.has_own_trends and e.fresh[1] < FRESH,
    )
    # Noise of bounded quadratic variation about a trend.
    yield RegimeVerdict.SDE, "keeps_noise_and_trend", e.noise_stays and e.has_trend
    # The same, and the trend of each network is another one.
    yield RegimeVerdict.SDE, "keeps_noise_and_own_trends", e.noise_stays and e.has_own_trends
    # Noise of bounded quadratic variation, and next to no trend.
    yield RegimeVerdict.NO_TREND, "is_noise_that_stays", e.noise_stays and e.trend.share() < NEGLIGIBLE
    # Layers of any size that are independent in every network.
    yield RegimeVerdict.NO_TREND, "layers_are_independent", layers_are_independent(e)
    # Noise stays, but a trend of its size would not be seen.
    yield RegimeVerdict.CANNOT_TELL, "may_hide_a_trend", e.noise_stays
    # Layers are related, and noise of their Hurst index changes its size.
    low, high = e.roughness.sure
    related = low > 0.5 + INDEPENDENT / 2 or high < 0.5 - INDEPENDENT / 2
    yield RegimeVerdict.NO_TREND, "is_noise_that_changes", is_noise_that_changes(e) and related
    # Whether layers are related is open.
    yield RegimeVerdict.CANNOT_TELL, "may_be_independent", is_noise_that_changes(e)
    # Neither hypothesis allows differences that grow with depth.
    yield RegimeVerdict.CANNOT_TELL, "grows_rough", e.noise_grows
    yield RegimeVerdict.NEURAL_ODE, "keeps_its_size", keeps_its_size(e)
    yield RegimeVerdict.NEURAL_ODE, "keeps_what_it_bends", keeps_what_it_bends(e)
    # What activations get may keep its size, so that branches are not linear in the limit.
    yield RegimeVerdict.CANNOT_TELL, "may_be_linear", _is_smooth(e) and may_keep_what_it_bends(e)
    # A trend that vanishes like a power of depth, and noise that vanishes faster.
    yield RegimeVerdict.LINEAR_ODE, "shrinks_smoothly", _is_smooth(e) and e.size.sure[0] > 0
    # Layers are smooth; whether they keep their size is open.
    yield RegimeVerdict.CANNOT_TELL, "is_smooth", _is_smooth(e) and e.size.sure[1] > 0
    # What remains.
    yield RegimeVerdict.CANNOT_TELL, "is_uncertain", True


def judge(evidence: Evidence) -> Judgement[RegimeVerdict]:
    """Return the judgement of the first rule that holds."""
    return verdict.judge(rules, evidence)
