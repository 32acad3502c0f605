"""From slopes over depth to a hypothesis: a list of rules, the first that holds decides.

Noise is judged by fourth differences D4, which leave out smooth trends. Under Hypothesis 2 their size does
not change with depth, whatever the trend's exponent. Under Hypothesis 1 it falls.
"""

from __future__ import annotations

from dataclasses import dataclass

from deeplimit.common.verdict import Verdict
from deeplimit.statistics import verdict
from deeplimit.statistics.verdict import Judgement
from deeplimit.trained.diagnosis.slopes import Slope
from deeplimit.trained.diagnosis.trend import TrendEvidence

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
        depths: how many different depths there are.
        homogeneous: whether weights are multiplied by the residual factors of a homogeneous activation.
    """

    weight: str
    noise: Slope
    below_rounding: bool
    concentration: Slope
    smoothness: Slope
    fresh: tuple[float, float]
    trend: TrendEvidence
    size: Slope
    depths: int
    homogeneous: bool = False

    @property
    def has_trend(self) -> bool:
        """Whether chance would hardly make networks as alike."""
        return self.trend.p_value <= LEVEL

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

    @property
    def falls(self) -> str:
        """How fast noise falls, in words."""
        if self.below_rounding:
            return "differences of neighbouring layers are below the round-off of the weights"
        return f"D4 falls like L^{self.noise.value:.2f} {words(self.noise)}"


def words(slope: Slope) -> str:
    """Return the interval on which verdicts rest, in brackets."""
    return f"[{slope.sure[0]:.2f}, {slope.sure[1]:.2f}]"


def has_too_few_depths(e: Evidence) -> str | None:
    """No slope has an interval."""
    if e.depths >= 3 and (e.noise.is_known or e.below_rounding):
        return None
    depths = "1 depth gives" if e.depths == 1 else f"{e.depths} depths give"
    return f"{depths} no slope of {e.weight} with an interval; at least three are needed"


def is_sparse(e: Evidence) -> str | None:
    """A few layers hold most of the weights."""
    if not e.concentration.sure[1] < SPARSE:
        return None
    return (
        f"few layers hold most of {e.weight}: the participation ratio falls like"
        f" L^{e.concentration.value:.2f} {words(e.concentration)}"
    )


def may_be_sparse(e: Evidence) -> str | None:
    """A few layers may hold most of the weights."""
    if not e.concentration.sure[0] < FEW:
        return None
    return (
        f"the participation ratio of {e.weight} changes like L^{e.concentration.value:.2f}"
        f" {words(e.concentration)}: a few layers may hold most of it. More depths would tell"
    )


def may_be_a_rough_path(e: Evidence) -> str | None:
    """Differences keep their size, but are not those of independent noise."""
    if not (e.noise_stays and e.has_trend and e.fresh[1] < FRESH):
        return None
    return (
        f"D4 of {e.weight} keeps its size (L^{e.noise.value:.2f} {words(e.noise)}), but D4²/D2² is"
        f" [{e.fresh[0]:.2f}, {e.fresh[1]:.2f}] and not 1: either a rough trend whose exponents add up to"
        " 1/2, or noise that depends on the layers before"
    )


def keeps_noise_and_trend(e: Evidence) -> str | None:
    """Noise of bounded quadratic variation about a trend."""
    if not (e.noise_stays and e.has_trend):
        return None
    return (
        f"{e.weight} has noise whose quadratic variation stays bounded and does not vanish: D4 changes like"
        f" L^{e.noise.value:.2f} {words(e.noise)}. It also has a trend, which networks share (p ="
        f" {e.trend.p_value:.2g})"
    )


def is_noise_that_stays(e: Evidence) -> str | None:
    """Noise of bounded quadratic variation, and next to no trend."""
    share = e.trend.share()
    if not (e.noise_stays and share < NEGLIGIBLE):
        return None
    return (
        f"{e.weight} is noise whose quadratic variation stays bounded (D4 changes like L^{e.noise.value:.2f}"
        f" {words(e.noise)}), and no trend is found (p = {e.trend.p_value:.2g}; it has at most"
        f" {100 * share:.0f} % of the noise's slow energy). This is Hypothesis 2 without a trend: β is not"
        " identified"
    )


def may_hide_a_trend(e: Evidence) -> str | None:
    """Noise stays, but a trend of its size would not be seen."""
    if not e.noise_stays:
        return None
    return (
        f"{e.weight} has noise that stays, and no trend is found (p = {e.trend.p_value:.2g}); one as large"
        f" as {e.trend.share():.2g} times the noise's slow energy is not excluded. More depths or seeds would"
        " tell"
    )


def is_noise_that_changes(e: Evidence) -> str | None:
    """Neighbours differ by as much as layers are large, whatever the depth: noise of another Hurst index."""
    low, high = e.smoothness.sure
    if e.below_rounding or not (e.noise_falls or e.noise_grows) or not low <= 0 <= high < ROUGH:
        return None
    if e.noise_grows and e.has_trend:
        return None
    return (
        f"{e.weight} is noise at every depth: neighbouring layers differ by a fixed share of their size. It"
        f" has Hurst index {0.5 - e.noise.value:.2f} [{0.5 - e.noise.sure[1]:.2f},"
        f" {0.5 - e.noise.sure[0]:.2f}], not 1/2"
    )


def grows_rough(e: Evidence) -> str | None:
    """Neither hypothesis allows differences that grow with depth."""
    if not e.noise_grows:
        return None
    return (
        f"the noise of {e.weight} has a quadratic variation that grows with depth (D4 changes like"
        f" L^{e.noise.value:.2f} {words(e.noise)}): neither hypothesis holds"
    )


def keeps_its_size(e: Evidence) -> str | None:
    """A smooth trend without a power of depth, or one of a homogeneous activation."""
    low, high = e.size.sure
    if not _is_smooth(e):
        return None
    if e.homogeneous:
        return (
            f"{e.weight} is a trend alone, of size L^{-e.size.value:.2f} ({e.falls}); a homogeneous"
            " activation is not linear at any scale"
        )
    if not (-NEURAL < low <= 0 <= high < NEURAL):
        return None
    size = f"{e.size.value:.2f} {words(e.size)}"
    return f"{e.weight} is a trend alone ({e.falls}), and keeps its size: β is {size}"


def shrinks_smoothly(e: Evidence) -> str | None:
    """A trend that vanishes like a power of depth, and noise that vanishes faster."""
    if not (_is_smooth(e) and e.size.sure[0] > 0):
        return None
    return (
        f"{e.weight} is a trend alone, of size L^-β with β = {e.size.value:.2f} {words(e.size)}: {e.falls},"
        " so that it has no quadratic variation in the limit"
    )


def is_uncertain(e: Evidence) -> str:
    """What remains."""
    told = e.falls if e.noise_falls else f"D4 changes like L^{e.noise.value:.2f} {words(e.noise)}"
    return (
        f"{e.weight}: {told}; its size is L^-β with β = {e.size.value:.2f} {words(e.size)}; neighbours differ"
        f" by a share L^-ν with ν = {e.smoothness.value:.2f} {words(e.smoothness)}. These intervals leave"
        " several hypotheses; more depths or seeds would tell"
    )


def _is_smooth(e: Evidence) -> bool:
    return e.noise_falls and (e.below_rounding or e.smoothness.sure[0] > CHANGES)


RULES: verdict.Rules[Verdict, Evidence] = (
    (Verdict.CANNOT_TELL, has_too_few_depths),
    (Verdict.SPARSE, is_sparse),
    (Verdict.CANNOT_TELL, may_be_sparse),
    (Verdict.CANNOT_TELL, may_be_a_rough_path),
    (Verdict.SDE, keeps_noise_and_trend),
    (Verdict.NO_TREND, is_noise_that_stays),
    (Verdict.CANNOT_TELL, may_hide_a_trend),
    (Verdict.NO_TREND, is_noise_that_changes),
    (Verdict.CANNOT_TELL, grows_rough),
    (Verdict.NEURAL_ODE, keeps_its_size),
    (Verdict.LINEAR_ODE, shrinks_smoothly),
    (Verdict.CANNOT_TELL, is_uncertain),
)


def judge(evidence: Evidence) -> Judgement[Verdict]:
    """Return the judgement of the first rule that holds."""
    return verdict.judge(RULES, evidence)
