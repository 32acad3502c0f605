"""Why a diagnosis has its verdict, as sentences: of one network's layers, and of several depths."""

from __future__ import annotations

from typing import Any

from deeplimit.common.verdict import Judgement, LayersVerdict, Sentences, said
from deeplimit.trained.diagnosis.correlations import Evidence as OfLayers
from deeplimit.trained.diagnosis.hurst import Roughness
from deeplimit.trained.diagnosis.hypotheses import CHANGES, Evidence
from deeplimit.trained.diagnosis.layer_gram import STRANGERS, TWINS
from deeplimit.trained.diagnosis.one_network import Found
from deeplimit.trained.diagnosis.slopes import SURE, Slope
from deeplimit.trained.diagnosis.smoother import ROUGH
from deeplimit.trained.diagnosis.stacks import NOISE
from deeplimit.trained.diagnosis.undecided import Known

NO_MODULE = (
    "Weights by name show no forward: multipliers, residual scales such as 1/L and normalisations that stand"
    " there are not in these numbers. Pass the module, with batch= where none can be made up."
)
"""A caveat of weights whose forward was not seen."""
AS_FUNCTIONS = (
    "Branches are compared by what they add to noise that all layers share, as these weights have no"
    " counterparts in other layers: {}"
)
NOT_COMPARED = "Not compared, and no part of the verdict: {}"
"""Caveats of weights of a sweep that cannot be compared, with and without functions for them."""
NO_NULL = "null: layers of the untrained network are not compared, of {0}: {1}."
"""A caveat of a null of which nothing can be compared."""
AS_STORED = (
    "of the weights as stored, without factors of the forward such as L^-1/2 (diagnose({{L: model, ...}}) of"
    " loaded modules has them), {}"
)
"""How a reason, in braces, begins where the forward was not seen: sizes, and their verdicts, lack factors."""
ORDERED = "in an order whose kind is open"
"""What is said of layers whose order is real, where nobody can tell more."""
LAYERS = {
    LayersVerdict.COPIES: "copies of one another",
    LayersVerdict.INDEPENDENT: "independent",
    LayersVerdict.COMMON_TREND: "a common trend, alike in any order",
    LayersVerdict.SMOOTH_TREND: "a smooth trend in their order",
    LayersVerdict.ROUGH: "rough in their order",
    LayersVerdict.CANNOT_TELL: "cannot tell",
    LayersVerdict.MEASURED: "measured",
}
"""What layers are, in a headline, by the code."""
ORDER = (
    "Read in the order that names say: {}, with nothing but an activation assumed between them, and a skip"
    " around both."
)
"""A caveat of weights that were put into one branch by their names; what stands in braces is their names."""
COPIED = (
    "Layers {} of {} hold the numbers of another one, or zeros: a copy is as like it as a layer can be, and a"
    " layer of zeros is like none."
)
"""A caveat of a few layers that are copies, or were pruned; what stands in braces is which."""
SIZES = (
    "Sizes are set aside where order is judged: in {}, layers have root mean squares from {:.2g} to {:.2g}."
)
"""A caveat of layers whose sizes differ: they may rise in order though directions do not."""
ENTRY_BY_ENTRY = (
    "Stacks are compared entry by entry. If these are several weights of one branch, hidden units may stand"
    " in another order in every layer, and entries then say nothing about depth: pass the module."
)
"""A caveat of several stacks that were passed as such."""


def reason(judgement: Judgement[Any]) -> str:
    """Return why the verdict is what it is."""
    return said(judgement, {**OF_CORRELATIONS, **OF_ONE_NETWORK, **OF_ONE_WEIGHT, **OF_ALL_WEIGHTS})


def undecided(found: Known) -> str:
    """Return what layers are where their order is left open, up to the number of objects that leave it."""
    if found.reading == "few layers":
        return (
            f"their order stands out among all orders, but {found.layers} layers have too few orders to be"
            " sure: it is left open"
        )
    if found.reading == "shared" and found.noise is not None:
        return (
            f"layers share a part with their neighbours (noise is {_range(found.noise)} of a layer), and"
            " whether their order matters is open"
        )
    if found.reading == "like independent":
        return "layers may well be independent: whether their order matters is open"
    return "no order over depth is seen, and it is left open"


def what_is_known(found: Known) -> str:
    """Return the numbers of objects that cannot tell."""
    noise = "" if found.noise is None else f"noise is {_range(found.noise)} of a layer, and "
    return (
        f"where it cannot tell, {noise}H is {_range(found.hurst)} (95 %; independent layers: 1 and 0.5,"
        " smooth ones: 0 and 1)"
    )


def what_would_decide(found: Known, with_null: bool) -> str:
    """Return what to give to `diagnose` for a verdict."""
    seeds = f"about {found.networks} networks of other seeds, diagnose([a, b, ...]), or "
    null = "" if with_null else "; null=factory puts untrained layers beside these"
    few = "" if found.networks is None else seeds
    return f"{few}deeper networks, or several depths, diagnose({{32: a, 64: b, 128: c}}){null}"


def _range(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"


def _bending(e: Evidence) -> str:
    """Return what makes a branch linear where it vanishes."""
    return "the share that is not linear" if e.weight.endswith(NOISE) else "what its activation gets"


def _altogether(e: Evidence) -> str:
    """Return what becomes of what all layers add, where it neither keeps its size nor that is open."""
    low, high = e.size.sure
    if high < 1:
        return ". With β below 1, what all layers add grows with depth"
    return ". With β above 1, what all layers add vanishes, and the limit is the identity" if low > 1 else ""


def _between(found: Roughness) -> str:
    return f"between {found.interval[0]:.2f} and {found.interval[1]:.2f}"


def _slow_energy(e: Evidence) -> str:
    """Return how much slow energy is left for a trend; alternating layers have less than independent ones."""
    share = e.trend.share()
    if share < 0:
        return (
            f"layers have {-share:.0%} less slow energy than independent ones: each depends on those before"
        )
    return f"it has at most {share:.0%} of the noise's slow energy"


def _best_rough(e: Found) -> str:
    """Return the rough process that fits best."""
    best = min((m for m in e.models.models if m.name in ROUGH), key=lambda model: model.deviance)
    if best.name == "moving":
        return f"a moving average of {best.length or 1:.2g} layers with noise"
    if best.hurst is None:
        return "an exponential kernel with noise"
    return f"fractional noise with Hurst index {best.hurst:.2f}"


def _twins(e: Found) -> str:
    """Return the first groups of copies: "0 and 12, 1 and 13, 2 and 14, ..."."""
    shown = [" and ".join(map(str, group)) for group in e.twins[:3]]
    return ", ".join(shown) + (", ..." if len(e.twins) > len(shown) else "")


def _turns(e: Found) -> str:
    """Return after how many layers those of one kind may come again."""
    distance, cosine = e.period or (2, 0.0)
    return (
        f"layers {distance} apart have cosine {cosine:.3g}: they may be of {distance} kinds in turn, which"
        " groups would tell"
    )


def _value(slope: Slope) -> str:
    """Return a slope and the interval on which verdicts rest."""
    return f"{slope.value:.2f} [{100 * SURE:g} %: {slope.sure[0]:.2f}, {slope.sure[1]:.2f}]"


def _power(slope: Slope) -> str:
    return f"L^{_value(slope)}"


def _trend(e: Evidence) -> str:
    draws_near = e.below_rounding or e.smoothness.sure[0] > CHANGES
    return "a trend alone" if draws_near else "a trend with noise that vanishes"


def _falls(e: Evidence) -> str:
    """Return how fast noise falls."""
    if e.below_rounding:
        return "differences of neighbouring layers are below the round-off of the weights"
    return f"D4 falls like {_power(e.noise)}"


OF_CORRELATIONS: Sentences[OfLayers] = {
    "has_twins": lambda e: "layers have twins",
    "order_matters": lambda e: (
        f"neighbours have cosine {e.order.likeness:.3g},"
        f" {'more' if e.order.likeness > e.order.by_chance else 'less'} than the {e.order.by_chance:.3g} of"
        f" random orders (p = {e.order.p_value:.2g})"
    ),
    "order_is_open": lambda e: (
        f"no order is clearly seen (p = {e.order.p_value:.2g}), but about their mean layers may have any"
        f" Hurst index from {e.about_mean.interval[0]:.2f} to {e.about_mean.interval[1]:.2f}"
    ),
    "all_are_alike": lambda e: (
        f"layers share a mean cosine of {e.lags.mean:.3g} (p = {e.lags.p_common:.2g}), and no order:"
        f" about their mean the Hurst index is {_between(e.about_mean)}"
    ),
    "none_is_left": lambda e: (
        "no order and no common part are seen: the square of the layers' sum is at most"
        f" {e.most_coherent:.2f} times that of independent layers, and about their mean the Hurst index is"
        f" {_between(e.about_mean)}"
    ),
    "common_part_is_open": lambda e: (
        f"layers may share a part: their mean cosine is {e.lags.mean:.3g} ± {e.lags.error:.2g}"
    ),
}
OF_ONE_NETWORK: Sentences[Found] = {
    "layers_are_copies": lambda e: (
        f"layers are almost equal, their mean cosine is {e.lags.mean:.5g}: they are tied, or their"
        " gradients come through the skip connection; their smoothness means nothing"
    ),
    "layers_have_twins": lambda e: (
        f"layers come in copies: {_twins(e)} have cosines of {TWINS:g} or more, and layers of two groups"
        f" {STRANGERS:g} at most. Pass one layer of each"
    ),
    "no_correlation": lambda e: reason(e.correlation),
    "constant_correlation": lambda e: reason(e.correlation),
    "correlation_is_open": lambda e: reason(e.correlation),
    "layers_alternate": lambda e: f"{reason(e.correlation)}; but {_turns(e)}",
    "neighbours_differ": lambda e: (
        f"{reason(e.correlation)}: layers undo their neighbours, as rough processes do"
    ),
    "smooth_wins": lambda e: (
        f"{reason(e.correlation)}; a smooth trend with noise (share {e.noise.noise:.2g}) fits better than"
        f" rough processes, by {e.models.smoother_by:.3g} in twice the log likelihood"
    ),
    "rough_wins": lambda e: (
        f"{reason(e.correlation)}; {_best_rough(e)} fits better than a smooth trend with noise, by"
        f" {-e.models.smoother_by:.3g} in twice the log likelihood"
    ),
    "smooth_or_rough": lambda e: (
        f"{reason(e.correlation)}; but a smooth trend with noise and rough processes fit equally, up to"
        f" {abs(e.models.smoother_by):.2g} in twice the log likelihood"
    ),
}
OF_ONE_WEIGHT: Sentences[Evidence] = {
    "has_too_few_depths": lambda e: (
        f"{'1 depth gives' if e.depths == 1 else f'{e.depths} depths give'} no slope of {e.weight} with an"
        " interval; at least three are needed"
    ),
    "is_sparse": lambda e: (
        f"few layers hold most of {e.weight}: the participation ratio falls like {_power(e.concentration)}"
    ),
    "may_be_sparse": lambda e: (
        f"the participation ratio of {e.weight} changes like {_power(e.concentration)}: a few layers may hold"
        " most of it. More depths would tell"
    ),
    "may_be_a_rough_path": lambda e: (
        f"D4 of {e.weight} keeps its size ({_power(e.noise)}), but D4²/D2² is"
        f" [{e.fresh[0]:.2f}, {e.fresh[1]:.2f}] and not 1: either a rough trend whose exponents add up to"
        " 1/2, or noise that depends on the layers before"
    ),
    "keeps_noise_and_trend": lambda e: (
        f"{e.weight} has noise whose quadratic variation stays bounded and does not vanish: D4 changes like"
        f" {_power(e.noise)}. It also has a trend, which networks share (p = {e.trend.p_value:.2g})"
    ),
    "keeps_noise_and_own_trends": lambda e: (
        f"{e.weight} has noise whose quadratic variation stays bounded and does not vanish: D4 changes like"
        f" {_power(e.noise)}. Each network also has a trend, of at least {e.trend.least_share():.2g} times"
        f" the noise's slow energy, which networks need not share (p = {e.trend.p_value:.2g})"
    ),
    "is_noise_that_stays": lambda e: (
        f"{e.weight} is noise whose quadratic variation stays bounded (D4 changes like {_power(e.noise)}),"
        f" and no trend is found (p = {e.trend.p_value:.2g}; {_slow_energy(e)}). This is Hypothesis 2 without"
        " a trend: β is not identified"
    ),
    "layers_are_independent": lambda e: (
        f"layers of {e.weight} are independent in every network (Hurst index {_value(e.roughness)}, size"
        f" divided out), of size L^-β with β = {_value(e.size)}, and networks share no trend (p ="
        f" {e.trend.p_value:.2g})"
    ),
    "may_hide_a_trend": lambda e: (
        f"{e.weight} has noise that stays, and no trend is found (p = {e.trend.p_value:.2g}); one as large"
        f" as {e.trend.share():.2g} times the noise's slow energy is not excluded. More depths or seeds would"
        " tell"
    ),
    "is_noise_that_changes": lambda e: (
        f"{e.weight} is noise at every depth: neighbouring layers differ by a fixed share of their size. With"
        f" the size L^-β, β = {_value(e.size)}, divided out it has Hurst index {_value(e.roughness)}, not 1/2"
    ),
    "may_be_independent": lambda e: (
        f"{e.weight} is noise at every depth, of size L^-β with β = {_value(e.size)}. Its layers are"
        f" independent, or nearly so: their Hurst index is {_value(e.roughness)}, of independent ones 1/2."
        " Wider networks or more seeds would tell"
    ),
    "grows_rough": lambda e: (
        f"the noise of {e.weight} has a quadratic variation that grows with depth (D4 changes like"
        f" {_power(e.noise)}): neither hypothesis holds"
    ),
    "keeps_its_size": lambda e: (
        f"{e.weight} is {_trend(e)}, of size L^{-e.size.value:.2f} ({_falls(e)}); a homogeneous"
        " activation is not linear at any scale"
        if e.homogeneous
        else f"{e.weight} is {_trend(e)} ({_falls(e)}), and keeps its size: β is {_value(e.size)}"
        + (_altogether(e) if e.bent is not None else "")  # all factors are known
    ),
    "keeps_what_it_bends": lambda e: (
        f"{e.weight} is {_trend(e)} ({_falls(e)}), of size L^-β with all factors, β = {_value(e.size)};"
        + (
            " its activation bends however small its input is: no linear ODE"
            if e.bent is None or e.bent.sure == (0.0, 0.0)
            else f" {_bending(e)} keeps its size (L^-γ with γ = {_value(e.bent)}): no linear ODE"
        )
        + _altogether(e)
    ),
    "may_be_linear": lambda e: (
        f"{e.weight} is {_trend(e)} ({_falls(e)}), as of an ODE. Whether that is linear is open: "
        + (
            f"{_bending(e)} is of size L^-γ with γ = {_value(e.bent)}; more seeds would tell"
            if e.bent is not None and e.bent.is_known
            else "names do not tell what the activation is. Pass the modules and batch="
        )
    ),
    "shrinks_smoothly": lambda e: (
        f"{e.weight} is {_trend(e)}, of size L^-β with β = {_value(e.size)}: {_falls(e)}, so that it has no"
        " quadratic variation in the limit"
    ),
    "is_smooth": lambda e: (
        f"{e.weight} is {_trend(e)} ({_falls(e)}), as of an ODE. Whether it keeps its size (β = 0) or"
        f" shrinks (β > 0, a linear ODE) is open: β is {_value(e.size)}. More depths or seeds would tell"
    ),
    "is_uncertain": lambda e: (
        f"{e.weight}: {_falls(e) if e.noise_falls else f'D4 changes like {_power(e.noise)}'}; its size is"
        f" L^-β with β = {_value(e.size)}; neighbours differ by a share L^-ν with ν ="
        f" {_value(e.smoothness)}. These intervals leave several hypotheses; more depths or seeds would tell"
    ),
}
OF_ALL_WEIGHTS: Sentences[Any] = {
    "weights_disagree": lambda e: (
        "weights have different verdicts: " + "; ".join(f"{each.weight} {each.verdict}" for each in e)
    ),
    "noise_of_another_weight_stays": lambda e: f"{e[0].reason}; but {e[1].reason}",
    "another_weight_has_a_trend": lambda e: f"{e[0].reason}; but {e[1].reason}",
}
