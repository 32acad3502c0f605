"""Weights of networks of several depths: checked, measured, fitted over depth, judged."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import special

from deeplimit.common.randomness import Purpose, generator
from deeplimit.common.verdict import Judgement, RegimeVerdict
from deeplimit.trained.diagnosis import hypotheses, published_steps, slopes, wording
from deeplimit.trained.diagnosis.fresh_noise import fresh_share, sampling_variances
from deeplimit.trained.diagnosis.hidden_slopes import NOTHING, hidden_trends
from deeplimit.trained.diagnosis.hurst import roughness
from deeplimit.trained.diagnosis.hypotheses import Evidence
from deeplimit.trained.diagnosis.layer_families import SameLayersError
from deeplimit.trained.diagnosis.layer_gram import repeated
from deeplimit.trained.diagnosis.measured import MeasuredNetwork, MeasuredWeight
from deeplimit.trained.diagnosis.networks_of_sweep import Network, made_by, networks_of
from deeplimit.trained.diagnosis.norms import PUBLISHED, QUANTITIES
from deeplimit.trained.diagnosis.slopes import Slope
from deeplimit.trained.diagnosis.stacks import NOISE
from deeplimit.trained.diagnosis.sweep_report import DepthDiagnosis, Finding, Null, Quantity
from deeplimit.trained.diagnosis.trend import TrendEvidence, share_draws
from deeplimit.trained.diagnosis.variogram import Variogram
from deeplimit.version import versions

ROUNDED = 4.0
"""Differences below this many units of round-off of the layers are no noise."""
SURE_ERRORS = float(special.ndtri(0.5 + slopes.SURE / 2))
"""Half an interval of level `slopes.SURE`, in standard errors."""
FEW_ENTRIES = 8
"""Layers of fewer entries keep their sizes: divided by them, of 1 entry H = 0.25 reads as 0.33."""
MOST_LAYERS = 256
"""Deeper networks would make the Hurst index more exact than any verdict needs, at a cost of L cubed."""
SIZE = "root mean square"
CLEAN = 0.01
"""Sizes are those of a smooth trend where noise is a smaller share of their squares."""
FOUND = (RegimeVerdict.SDE, RegimeVerdict.LINEAR_ODE, RegimeVerdict.NEURAL_ODE)
"""Verdicts that find a trend."""


def diagnose_sweep(
    weights: Mapping[Any, Any],
    *,
    confidence: float,
    homogeneous: bool,
    spatial: tuple[int, int] | None,
    layers: str | None,
    seed: int,
    batch: Any = None,
    null: Callable[[int], Any] | None = None,
) -> DepthDiagnosis:
    """Return the diagnosis of checked arguments."""
    start = time.perf_counter()
    how = {
        "confidence": confidence,
        "homogeneous": homogeneous,
        "spatial": spatial,
        "layers": layers,
        "seed": seed,
        "batch": batch,
    }
    networks = networks_of(weights, layers, batch)
    if homogeneous and networks[0].factors is None:
        raise ValueError(
            "homogeneous=True needs residual factors: give delta at every depth, 1 where there is none."
        )
    measured = [MeasuredNetwork.of(network, homogeneous, spatial) for network in networks]
    grams = [{key: each.gram for key, each in network.weights.items()} for network in measured]
    if (twice := repeated(grams)) is not None:
        raise ValueError(
            f"weights must be networks of different seeds, but two of depth {measured[twice[1]].depth} have"
            " the same layers; leave one out, or train another one."
        )
    nulls = _nulls(networks, null, how) if null is not None else ()
    report = judge_networks(
        measured, confidence, homogeneous=homogeneous, seed=seed, start=start, nulls=nulls
    )
    if networks[0].unread:
        report = dataclasses.replace(report, reservations=(*report.reservations, _unread(networks[0])))
    if not any(network.by_names for network in networks):
        return report
    orders = [wording.ORDER.format(order) for order in networks[0].orders]
    return dataclasses.replace(
        report,
        reason=wording.AS_STORED.format(report.reason),
        reservations=(*report.reservations, *orders, wording.NO_MODULE),
    )


def _unread(network: Network) -> str:
    """Return the caveat of weights that cannot be compared."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in network.unread.items():
        by_reason.setdefault(reason, []).append(name)
    reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    replaced = any(stack.name.endswith(NOISE) for stack in network.stacks.values())
    return (wording.AS_FUNCTIONS if replaced else wording.NOT_COMPARED).format(reasons)


def judge_networks(
    networks: Sequence[MeasuredNetwork],
    confidence: float,
    *,
    homogeneous: bool = False,
    seed: int = 0,
    start: float | None = None,
    nulls: tuple[Null, ...] = (),
) -> DepthDiagnosis:
    """Return the diagnosis of networks that were measured, shallow ones first; all have the same weights."""
    start = time.perf_counter() if start is None else start
    depths = np.array([network.depth for network in networks])
    reservations, findings, judged, carriers = [], [], [], []
    for key in networks[0].weights:
        ofkind = [network.weights[key] for network in networks]
        if not all(each.norms.total > 0 for each in ofkind):
            reservations.append(f"{ofkind[0].name} is zero at some depth, and is left out")
            continue
        if share_draws([each.norms for each in ofkind]):
            reservations.append(
                f"{ofkind[0].name} begins with the same layers in networks of several depths, as with one"
                " seed for all: what they have in common is no trend. Draw each from a seed of its own"
            )
        finding, evidence = _find(ofkind, depths, confidence, homogeneous, seed)
        findings.append(finding)
        judged.append(evidence)
        carriers.append(ofkind[0].carries)
    if not findings:
        raise ValueError("weights must not be zero at any depth; all stacks are. Take them after training.")
    factors = [network.factors for network in networks if network.factors is not None]
    largest = np.array([np.abs(each).max() for each in factors])
    alpha = -slopes.fit(depths, largest, confidence) if len(largest) and largest.all() else None
    judgement = _together(findings, judged, carriers)
    first = findings[carriers.index(True) if any(carriers) else 0]
    ofcode = [finding for finding in findings if finding.verdict == judgement.code]
    main = first if first in ofcode or not ofcode else ofcode[0]
    reservations += [
        f"{finding.weight} alone is {finding.verdict!s}"
        for finding in findings
        if finding.verdict not in (judgement.code, RegimeVerdict.CANNOT_TELL)
    ]
    published = published_steps.follow(
        depths,
        {name: findings[0].norms[name].values for name in PUBLISHED},
        None if alpha is None or homogeneous else largest,
        judgement.code,
    )
    return DepthDiagnosis(
        verdict=judgement.code,
        reason=wording.reason(judgement),
        rule=judgement.rule,
        depths=depths,
        weight=main.weight,
        findings=tuple(findings),
        alpha=None if alpha is None else alpha.value,
        alpha_interval=None if alpha is None else alpha.interval,
        published=published,
        homogeneous=homogeneous,
        confidence=confidence,
        seconds=time.perf_counter() - start,
        versions=versions(),
        reservations=tuple(reservations),
        nulls=nulls,
    )


def _nulls(
    networks: Sequence[Network], null: Callable[[int], Any], how: Mapping[str, Any]
) -> tuple[Null, ...]:
    """Return what untrained networks of the same depths say, and the layers in a random order."""
    made: dict[int, list[Any]] = {}
    for place, network in enumerate(networks):
        untrained = made_by(null, how["seed"] + place, network.depth)
        made.setdefault(network.depth, []).append(untrained)
    stream = generator(how["seed"], Purpose.LAYER_ORDER)
    shuffled = [each.reordered(torch.randperm(each.depth, generator=stream)) for each in networks]
    ways: dict[str, Callable[[], Sequence[Network]]] = {
        "untrained": lambda: networks_of(made, how["layers"], how["batch"]),
        "shuffled": lambda: shuffled,
    }
    found = []
    for name, way in ways.items():
        try:
            measured = [MeasuredNetwork.of(each, how["homogeneous"], how["spatial"]) for each in way()]
            report = judge_networks(
                measured, how["confidence"], homogeneous=how["homogeneous"], seed=how["seed"]
            )
        except SameLayersError as error:  # copies at the start have no order to speak of
            found.append(Null(name, RegimeVerdict.CANNOT_TELL, error.reason, ()))
        except ValueError as error:  # nor have layers that are zero
            found.append(Null(name, RegimeVerdict.CANNOT_TELL, str(error).rstrip("."), ()))
        else:
            found.append(Null(name, report.verdict, report.reason, report.findings))
    return tuple(found)


def _find(
    weights: Sequence[MeasuredWeight],
    depths: np.ndarray,
    confidence: float,
    homogeneous: bool,
    seed: int,
) -> tuple[Finding, Evidence]:
    """Return what the networks say of one weight."""
    deepest, measured = weights[-1], [each.norms for each in weights]
    numbers = [norms.quantities() for norms in measured]
    values = {each: np.array([one[each] for one in numbers]) for each in QUANTITIES}
    fits = {each: slopes.fit(depths, values[each], confidence) for each in QUANTITIES}
    total = np.sqrt([norms.total for norms in measured])
    rounding = np.array([ROUNDED * norms.rounding for norms in measured]) * total
    seen = np.where(values["D4"] > rounding, values["D4"], 0.0)
    below = len(np.unique(depths[seen > 0])) < slopes.LEAST_DEPTHS <= len(np.unique(depths))
    smoothness = _smoothness(depths, values, rounding, total, confidence)
    clear = [norms for norms, size in zip(measured, seen, strict=True) if size > 0]
    fresh = fresh_share(clear, slopes.SURE)[1] if clear else (0.0, 0.0)
    trend = TrendEvidence.of(measured, generator(seed, Purpose.SIGN_FLIPS))
    if share_draws(measured):  # their agreement is no evidence of a trend
        trend = dataclasses.replace(trend, p_value=1.0)
    hidden = NOTHING
    if clear and fresh[1] >= hypotheses.MIXED:
        found = trend.p_value <= hypotheses.LEVEL
        hidden = hidden_trends(clear, trend.exponent(slopes.SURE).interval if found else None)
    noise = slopes.fit(depths, seen, confidence, sampling_variances(measured), hidden=hidden)
    # Noise of this share of the mean square bends the size's power law by half of it at most.
    clean = bool((seen**2 <= CLEAN * total**2).all()) and smoothness.sure[0] > hypotheses.CHANGES
    corrections = slopes.OF_TRENDS if clean else slopes.LARGE
    fits[SIZE] = slopes.fit(depths, values[SIZE], confidence, corrections=corrections)
    evidence = Evidence(
        weight=deepest.name,
        noise=noise,
        below_rounding=below,
        concentration=fits["participation ratio"],
        smoothness=smoothness,
        fresh=fresh,
        trend=trend,
        size=-fits[SIZE],
        roughness=_roughness(weights, smoothness, confidence),
        depths=len(np.unique(depths)),
        homogeneous=homogeneous,
        bent=_bent(depths, weights, confidence, corrections),
    )
    judgement = hypotheses.judge(evidence)
    shown = fits | ({"D4": noise} if noise.is_known else {})  # one slope of D4: that on which verdicts rest
    exponents = _exponents(evidence, judgement.code, confidence)
    share = np.clip(values["D4"] ** 2 / total**2, 0.0, 1.0)
    reach = _shares_interval(values["D4"] ** 2 / total**2, sampling_variances(measured), confidence)
    return Finding(
        weight=deepest.name,
        verdict=judgement.code,
        reason=wording.reason(judgement),
        rule=judgement.rule,
        norms={each: Quantity(values[each], shown[each].value, shown[each].interval) for each in QUANTITIES},
        trend_share=1 - share,
        trend_share_interval=1 - reach[:, ::-1],
        noise_share=share,
        noise_share_interval=reach,
        variogram=Variogram.of(deepest.gram, float(share[-1])),
        trend_p_value=evidence.trend.p_value,
        **exponents,
    ), evidence


def _bent(
    depths: np.ndarray,
    weights: Sequence[MeasuredWeight],
    confidence: float,
    corrections: slopes.Corrections,
) -> Slope | None:
    """Return the exponent of the size of what branches bend; None where these are the layers themselves."""
    sizes = np.array([np.nan if each.bent is None else each.bent for each in weights])
    if all(each.bent is None for each in weights):
        return None
    if np.ptp(sizes) == 0:  # a branch that is linear at no size
        return Slope(0.0, (0.0, 0.0), (0.0, 0.0))
    if not (sizes > 0).all():
        return slopes.UNKNOWN
    return -slopes.fit(depths, sizes, confidence, corrections=corrections)


def _shares_interval(shares: np.ndarray, variances: np.ndarray, confidence: float) -> np.ndarray:
    """Return intervals of shares of noise (n, 2), from the sampling variances of log D4."""
    reach = 2 * np.sqrt(variances) * special.ndtri(0.5 + confidence / 2)
    ends = shares[:, None] * np.exp(reach[:, None] * np.array([-1.0, 1.0]))
    clipped: np.ndarray = np.clip(ends, 0.0, 1.0)
    return clipped


def _smoothness(
    depths: np.ndarray,
    values: dict[str, np.ndarray],
    rounding: np.ndarray,
    total: np.ndarray,
    confidence: float,
) -> Slope:
    """Return the exponent by which differences of neighbours fall relative to the layers, at most 1.

    Second differences vary less between rough paths than first ones, and fall twice as fast for smooth ones.
    """
    found = slopes.UNKNOWN
    for name in ("D2", "D"):
        if not found.is_known:
            shares = np.where(values[name] > rounding, values[name] / total, 0.0)
            found = -slopes.fit(depths, shares, confidence)
    return found.at_most(1.0)


def _roughness(weights: Sequence[MeasuredWeight], smoothness: Slope, confidence: float) -> Slope:
    """Return the Hurst index that all networks' layers have, sizes divided out.

    Networks are independent: indices of each weigh by the inverse of their squared standard errors. Layers
    whose neighbours draw near with depth are no noise, and have none. Layers of few entries keep their sizes:
    one of one entry would be its sign.
    """
    if not smoothness.is_known or smoothness.sure[0] > hypotheses.CHANGES:
        return slopes.UNKNOWN
    shallow = [weight for weight in weights if weight.norms.depth <= MOST_LAYERS] or weights
    indices, errors = [], []
    for weight in shallow:
        try:
            divided = weight.gram.entries >= FEW_ENTRIES
            found = roughness(weight.gram, slopes.SURE, about_mean=True, equal_sizes=divided)
        except ValueError:  # layers that are equal, or zero
            continue
        indices.append(found.hurst)
        errors.append((found.interval[1] - found.interval[0]) / 2 / SURE_ERRORS)
    if not indices:
        return slopes.UNKNOWN
    trusted = np.maximum(errors, 1e-9) ** -2.0
    value, error = float(np.average(indices, weights=trusted)), float(trusted.sum() ** -0.5)
    return Slope.of(lambda level: value + error * float(special.ndtri(level)), confidence)


def _exponents(e: Evidence, word: RegimeVerdict, confidence: float) -> dict[str, Any]:
    """Return β, the trend's Hölder exponent and the noise's Hurst index, those that the verdict leaves."""
    beta = holder = hurst = slopes.UNKNOWN
    if word is RegimeVerdict.SDE:
        beta = e.trend.exponent(confidence)
    elif word in (RegimeVerdict.LINEAR_ODE, RegimeVerdict.NEURAL_ODE):
        beta, holder = e.size, e.smoothness
    if word in (RegimeVerdict.SDE, RegimeVerdict.NO_TREND):
        hurst = e.roughness if word is RegimeVerdict.NO_TREND else (-e.noise).plus(0.5)
    found = {"beta": beta, "holder": holder, "hurst": hurst}
    return {name: each.value for name, each in found.items()} | {
        f"{name}_interval": each.interval for name, each in found.items()
    }


def _together(
    findings: Sequence[Finding], evidence: Sequence[Evidence], carriers: Sequence[bool]
) -> Judgement[RegimeVerdict]:
    """Return the verdict on all weights.

    Those that carry the function decide, matrices and not their Grams or biases; noise of any weight that
    stays overrules a trend that has none. Where those that decide do not agree, their order decides nothing.
    """
    pairs = [*zip(findings, evidence, strict=True)]
    deciding = [pair for pair, carries in zip(pairs, carriers, strict=True) if carries] or pairs
    for first, e in deciding:
        for finding, other in pairs:
            is_smooth = first.verdict in (RegimeVerdict.LINEAR_ODE, RegimeVerdict.NEURAL_ODE)
            is_noise = finding.verdict in (RegimeVerdict.SDE, RegimeVerdict.NO_TREND)
            if is_smooth and is_noise and other.noise_stays:
                return Judgement(RegimeVerdict.SDE, "noise_of_another_weight_stays", (first, finding))
            if first.verdict is RegimeVerdict.NO_TREND and e.noise_stays and finding.verdict in FOUND:
                return Judgement(RegimeVerdict.SDE, "another_weight_has_a_trend", (first, finding))
    first, e = deciding[0]
    codes = {finding.verdict for finding, _ in deciding}
    if len(codes) > 1 and not codes <= {RegimeVerdict.LINEAR_ODE, RegimeVerdict.NEURAL_ODE}:
        return Judgement(RegimeVerdict.CANNOT_TELL, "weights_disagree", [each for each, _ in deciding])
    return Judgement(first.verdict, first.rule, e)
