"""The order of a scheme from its consecutive differences alone: no reference, no correction for one.

Levels are numbers of steps L_1 < … < L_m on the same paths, and d_j = h^{L_{j+1}} - h^{L_j} at the times that
all share. Whatever the sequence tends to, |d_j| falls at its order. What is fitted is

    log |d_j| = a - r log L_j + Σ_s b_s (L_j/16)^-s + noise,    s = 1/4, 1/2, 1, 2, b_s ~ N(0, τ²) together,

with τ integrated over by its marginal likelihood. A straight line would cover the truth half of the time.

Two parts of an error may have two orders: one that keeps its direction from level to level (the drift's, of a
smooth right side) and one whose d_j are uncorrelated (a martingale, as of Euler's scheme with multiplicative
noise). Their shares follow from ρ_j = (E d_j·d_{j+1})² / (E|d_j|² E|d_{j+1}|²), the squared cosine: ρ_j =
θ_j θ_{j+1}, θ_j the coherent share of E|d_j|². If 1 - ρ_j changes with depth, one of the two takes over, and
the order is that of the part that does. At small noise the coherent part makes up all but a thousandth of
|d_j|² and its order is not the scheme's; ρ_j shows the other part all the same. That part has two orders
itself (`FASTER_PARTS`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from scipy import special

from deeplimit.statistics.power_law import (
    CorrelatedData,
    Floor,
    StudentMixture,
    slope_weights,
    slopes_between,
)

POWERS = (0.25, 0.5, 1.0, 2.0)
"""Powers of 1/L of the corrections, which are there together: one power alone covered 70 to 80 %."""
SIZES = np.array([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28])
"""Sizes τ of the corrections at depth 16."""
ANCHOR = 16.0
"""The depth at which corrections have their size: the coarsest one of usual sweeps."""
MODEL_ERROR = 1e-3
"""Relative error that the model itself is allowed."""
SCATTERS = tuple(MODEL_ERROR * 10**k for k in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5))
"""Relative errors that single levels may have where nobody knows that errors are smooth in the step, a
logarithmic scale: a kink of a right side falls elsewhere within a step at every level."""
HALF = 0.5
"""The power of |d_j| that is averaged: E |d|^½ has less than half of E |d|²'s sampling error for ReLU layers,
and exists where second moments do not."""
TAIL_SHARE, LONG_TAIL_SHARE = 0.1, 0.045
"""Share of Σ|d|^½ in the top 1 % of the paths (light tails: 2 %) from which medians are taken instead, and
from which a smaller correction is no longer preferred."""
LARGEST_KURTOSIS, LARGEST_SHARE = 100.0, 0.25
"""Kurtosis of |d|² from which a few paths make up its mean, and the same per path: one path alone has P.
In Theorem 4.4 with scaled SiLU (width 8, 512 paths), whose limit explodes on some paths, 31 of 400 intervals
missed 1/2 by means and 128 calls could not tell; by medians 6 and 33.
"""
MOST_LOST = 0.1
"""Share of paths that may overflow: in medians they count as the largest."""
SURE = 2.81
"""Standard errors from which one of two trends counts: the two-sided 1 % point, shared."""
STEEP, TURNING = 0.1, 0.01
"""Changes per octave, of log2(1 - ρ) and of the cosine, below which even a sure trend moves no order much."""
COHERENT = 0.99
"""Squared cosine above which differences that become ever more coherent need no part taken out."""
ROUNDED = 30.0
"""Differences below this many times round-off are left out."""
DRIFT = 0.2
"""Relative change, at depth 16, of a right limit's squared distance over that of the difference there:
corrections of either are L^-1/2 at the most, of size 1/4 then, and cancel in part."""
FEWEST = 30
"""Paths from which a logarithm of their average is taken for normal."""
LARGEST_SIZE = 0.32
"""No power law is in sight where corrections of this size or more have most of the weight,"""
SLOWEST = 0.05
"""An order below which nothing is said to fall: 28 times the deepest difference is left at this one."""
LEAST_LEVELS = 3
"""Differences that say an order: two have one slope, and no way to see that it changes."""
SPREAD = 0.3
"""and local orders differ by this much: those of stiff equations by ten, of slow corrections by 0.2."""


class Coherence(StrEnum):
    """How consecutive differences lie to each other, which says how their errors add up."""

    ORTHOGONAL = "orthogonal"
    """Uncorrelated: the errors of a martingale, as of Euler's scheme for an SDE."""
    STEADY = "steady"
    """Correlated alike at all depths, or parallel: one order."""
    MARTINGALE_TAKES_OVER = "the orthogonal part takes over"
    """Two orders: the coherent part is the larger one at small depth and falls faster."""
    COHERENT_TAKES_OVER = "the coherent part takes over"
    """Two orders: the orthogonal part falls faster."""


PRIOR_POWERS = {
    Coherence.ORTHOGONAL: 0.75,
    Coherence.STEADY: 0.0,
    Coherence.MARTINGALE_TAKES_OVER: 0.25,
    Coherence.COHERENT_TAKES_OVER: -0.75,
}
"""The prior of τ is τ^-a. Five depths cannot exclude small corrections, so that a buys length: it is large
where martingales leave next to none, and negative where orders mix."""
FASTER_PARTS = (0.0, 1.0, 3.0)
"""E|d|² of a martingale's part of order 1 over that of its part of order 1/2, at depth 16: equally likely.
Drift μh and noise s h together make it, and the ratio is 2μ²/(3s²L): for μ = -1, s = 0.1 it is the larger
one up to depth 67. In seven cells of such equations 448 of 560 intervals contained 1/2 without it, and 543 do
with it.
"""
DOUBLE_INTEGRALS = 0.75
"""The order up to which a martingale's differences are sums of double integrals, whose law is settled after
few steps. Milstein's are triple ones: at geometric noise of 0.8, depths 16 to 256, local orders begin at
0.89. Of 40 intervals 20 contained 1 with the prior of martingales, 37 without, and 39 with other moments'
orders.
"""
TRIPLE_INTEGRALS = 1.25
"""The order from which the next part of a solver's error may be half an order higher, not orthogonal: SRK on
a double well has one of order 2 beside 3/2. With whole powers alone 85 of 100 of its intervals cover, where
drift and noise are drawn within a factor of 2.5, and 55 of 60 with a power 1/2, too."""
OF_HALF_A_POWER = -0.25
"""Exponent of the prior of τ there, at most: of 200 intervals of SRK on the double well at 96 % 180 contained
3/2 with 1/4 for martingales, and of 100 of them 97 do with this one, 99 with -1/2."""
MOMENTS_APART = 1.5
"""Standard deviation of the share of log E|d| - log (E|d|^½)² that is added to the latter: sums of few heavy
terms have a p-th moment whose correction is linear in p (Edgeworth), and vanishes at p = 2, 3 such steps on.
"""


MOMENTS_OF_HIGH = 3.0
"""Mean of that share for networks of an order above `TRIPLE_INTEGRALS`, such as schemes of Runge and Kutta:
their differences are sums of few heavy terms, (ΔB)^5, whose correction vanishes at p = 2. Of 40 intervals of
RK4 on linear noise 13 lay below 2 without it."""


@dataclass(frozen=True)
class Corrections:
    """Which corrections a power law may have: their powers of 1/L together, and τ^-prior for their size τ.

    Where differences say how they lie to each other, that prior is the one of `PRIOR_POWERS`, if smaller.
    `moments` is the mean of the share whose standard deviation is `MOMENTS_APART`. Corrections have their
    size at the depth `anchor`: the coarsest level given, if that is deeper than `ANCHOR` and `at_coarsest`
    says so. Equations have time scales of their own, and of one of 1/100 a level of 64 is a coarse one.
    `scatters` are what single levels may be off by where another run would give the same numbers.
    """

    powers: tuple[float, ...]
    prior: float
    moments: float = 0.0
    at_coarsest: bool = False
    anchor: float = ANCHOR
    scatters: tuple[float, ...] = (MODEL_ERROR,)

    def of(self, depths: np.ndarray) -> Corrections:
        """Return them as they are for levels of these depths."""
        anchor = max(ANCHOR, float(depths[0])) if self.at_coarsest else ANCHOR
        return dataclasses.replace(self, anchor=anchor)


@dataclass(frozen=True)
class Differences:
    """Consecutive differences of m levels on P paths.

    Attributes:
        depths: numbers of steps (m,), increasing.
        sizes: |d_j| (P, m - 1) in the norm asked for, over the times that all levels share.
        squares: |d_j|² at the last time (P, m - 1).
        products: d_j·d_{j+1} there (P, m - 2).
        resolution: what round-off leaves uncertain of a difference.
        exact: whether another run would give the same numbers, so that there is no sampling error.
    """

    depths: np.ndarray
    sizes: np.ndarray
    squares: np.ndarray
    products: np.ndarray
    resolution: float = 0.0
    exact: bool = False

    def __len__(self) -> int:
        return int(self.sizes.shape[1])


@dataclass(frozen=True)
class Order:
    """The order of a sequence of levels.

    Attributes:
        orders: its distribution, a mixture over the sizes of the corrections.
        slopes, slope_errors: local orders (levels - 1,) of E|d|^½ or of medians, and their standard errors.
        coherence: how differences lie to each other.
        medians: whether medians were taken.
        coherent_share: share of the coarsest E|d|² that keeps its direction.
        uncertain: whether large corrections have most of the weight, so that no power law is in sight.
        levels: number of differences that were used.
        deepest: root mean square of the deepest of them, or their median.
        ratio: of its depths, the coarser over the finer.
        scatter: what single levels are off by from all power laws with corrections, where that was asked.
        whole_slopes, whole_errors: the same as `slopes` of all differences, where those are of a part.
    """

    orders: StudentMixture
    slopes: np.ndarray
    slope_errors: np.ndarray
    coherence: Coherence
    medians: bool
    coherent_share: float
    uncertain: bool
    levels: int
    deepest: float
    ratio: float
    scatter: float = 0.0
    whole_slopes: np.ndarray = field(default_factory=lambda: np.empty(0))
    whole_errors: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def remaining(self) -> float:
        """The most that is left between the finest level and what the levels tend to.

        The triangle inequality adds up what further doublings change, at the low end of the order's interval
        or the deepest local order, if that is less; it is infinite where that is 0. Where no power law is in
        sight, the order is taken to fall to SLOWEST.
        """
        last = float(self.slopes[-1]) if len(self.slopes) else math.inf
        low = min(SLOWEST if self.uncertain else self.interval(0.95)[0], last)
        return self.deepest * self.doublings(low)

    def doublings(self, order: float) -> float:
        """Return the sum of all further differences at this order, in units of the deepest one."""
        left = self.ratio**order if order > 0 else 1.0
        return left / (1.0 - left) if left < 1.0 else math.inf

    @property
    def rate(self) -> float:
        """The order: the mixture's median."""
        return self.orders.quantile(0.5)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the central interval of the order at this level."""
        tail = (1.0 - confidence) / 2
        return float(self.orders.quantile(tail)), float(self.orders.quantile(1.0 - tail))


def fit_order(found: Differences, corrections: Corrections | None = None) -> Order | None:
    """Return the order; its corrections are those of networks where no others are given.

    Where all levels together follow no power law, the deepest of them may: at least LEAST_LEVELS differences.
    So an error that falls at order 4 until what is left of order 1 takes over has order 1.

    None where fewer than two differences are larger than round-off, where no path moves, and where more than
    `MOST_LOST` of the paths are not finite. Paths whose differences vanish at some level are left out.
    """
    sizes, lost = with_lost_ones_last(found.sizes)
    if lost > MOST_LOST or (lost and found.exact):
        return None
    found = _resolved(dataclasses.replace(found, sizes=sizes))
    corrections = None if corrections is None else corrections.of(found.depths)
    whole = order = _fitted(found, corrections, lost)
    while order is not None and order.uncertain and len(found) > LEAST_LEVELS:
        found = _without_the_coarsest(found)
        order = _fitted(found, corrections, lost)
    if whole is None or order is None or order.uncertain:
        return whole
    slopes = {
        name: getattr(whole, name) for name in ("slopes", "slope_errors", "whole_slopes", "whole_errors")
    }
    return dataclasses.replace(order, **slopes)


def _fitted(found: Differences, corrections: Corrections | None, lost: float) -> Order | None:
    """Return the order of all levels together."""
    last = (found.squares > 0) | ~np.isfinite(found.squares) | found.exact  # those at the end, of noise alone
    kept = (found.sizes > 0).all(axis=1) & last.all(axis=1)
    sizes, squares, products = found.sizes[kept], found.squares[kept], found.products[kept]
    count, levels = sizes.shape
    if levels < 2 or count < (1 if found.exact else levels + 3):
        return None
    few = 3 * max(1, count // 100) / count  # one path of eight makes up an eighth whatever its size
    medians = lost > 0 or (not found.exact and share_of_the_largest(sizes) >= max(TAIL_SHARE, few))
    logs, influence = of_all = log_medians(sizes) if medians else log_means(sizes)
    coherence, share, log_part, part_influence = _parts(
        squares, products, found.depths, found.exact or medians
    )
    faster = np.zeros((1, levels))
    if coherence == Coherence.MARTINGALE_TAKES_OVER:
        # Shares are those at the last time, and so must be the sizes: in between, drifts can be larger.
        logs, influence = log_means(np.sqrt(squares))
        faster = 0.5 * np.log1p(np.outer(FASTER_PARTS, ANCHOR / found.depths[:-1]))
    logs, influence = logs + log_part, influence + part_influence
    covariance = influence.T @ influence / max(count - 1, 1) / count
    if found.exact:
        covariance = np.zeros_like(covariance)
    most = Corrections(POWERS, math.inf) if corrections is None else corrections
    prior = min(most.prior, PRIOR_POWERS[coherence])
    if medians or share_of_the_largest(sizes) > LONG_TAIL_SHARE:
        prior = min(prior, 0.0 if medians else 0.5)
    allowed = dataclasses.replace(most, prior=prior)
    depths = found.depths.astype(float)
    logs = logs - _spacing(depths, logs, coherence)
    degrees = math.inf if found.exact else max(count - levels, 1)  # an exact covariance, 0, is not estimated
    scatters = most.scatters if found.exact else (MODEL_ERROR,)
    fit = mixture_of_orders(depths[:-1], logs, covariance, allowed, degrees, faster, scatters)
    orders = fit.orders
    if not found.exact and orders.quantile(0.5) > DOUBLE_INTEGRALS:
        if corrections is None:
            moments = MOMENTS_OF_HIGH if orders.quantile(0.5) > TRIPLE_INTEGRALS else allowed.moments
            allowed = dataclasses.replace(allowed, prior=min(prior, 0.0), moments=moments)
        elif orders.quantile(0.5) > TRIPLE_INTEGRALS:
            allowed = with_half_a_power(allowed)
        other, its = (logs, covariance) if medians else with_other_moments(sizes, logs, influence, allowed)
        fit = mixture_of_orders(depths[:-1], other, its, allowed, degrees, faster)
        orders = fit.orders
    slopes, slope_errors = slopes_between(np.log(depths[:-1]), logs, covariance)
    whole = of_all[1].T @ of_all[1] / max(count - 1, 1) / count * (not found.exact)
    apart = of_all[0] - _spacing(depths, of_all[0], coherence)
    whole_slopes, whole_errors = slopes_between(np.log(depths[:-1]), apart, whole)
    return Order(
        orders,
        slopes,
        slope_errors,
        coherence,
        medians,
        share,
        fit.has_no_power_law(slopes),
        levels,
        float(np.median(sizes[:, -1]) if medians else np.sqrt((sizes[:, -1] ** 2).mean())),
        float(found.depths[-2] / found.depths[-1]),
        fit.scatter if len(scatters) > 1 else 0.0,
        whole_slopes,
        whole_errors,
    )


def with_lost_ones_last(sizes: np.ndarray) -> tuple[np.ndarray, float]:
    """Return sizes (P, m), infinite where they are not finite, and the share of paths that have such one."""
    finite = np.isfinite(sizes)
    return np.where(finite, sizes, np.inf), float(1.0 - finite.all(axis=1).mean()) if len(sizes) else 0.0


def _resolved(found: Differences) -> Differences:
    """Return the levels, from the coarsest on, whose differences are well above round-off."""
    moving = (found.sizes > 0).all(axis=1)
    if not moving.any():
        return found
    typical = np.median(found.sizes[moving], axis=0)
    above = typical > ROUNDED * found.resolution
    count = len(above) if above.all() else int(np.argmin(above))
    return dataclasses.replace(
        found,
        depths=found.depths[: count + 1],
        sizes=found.sizes[:, :count],
        squares=found.squares[:, :count],
        products=found.products[:, : max(count - 1, 0)],
    )


def _without_the_coarsest(found: Differences) -> Differences:
    """Return the levels but the coarsest."""
    return dataclasses.replace(
        found,
        depths=found.depths[1:],
        sizes=found.sizes[:, 1:],
        squares=found.squares[:, 1:],
        products=found.products[:, 1:],
    )


def share_of_the_largest(sizes: np.ndarray) -> float:
    """Return the share of Σ|d|^½ in the top 1 % of the paths, at the worst level of sizes (P, m)."""
    roots = np.sort(sizes**HALF, axis=0)
    top = max(1, len(roots) // 100)
    return float((roots[-top:].sum(axis=0) / roots.sum(axis=0)).max())


def rests_on_few_paths(sizes: np.ndarray) -> bool:
    """Return whether a few paths make up the mean square at some level of sizes (P, m)."""
    squares = sizes**2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        away = (squares - squares.mean(axis=0)) ** 2
        kurtosis = (away**2).mean(axis=0) / away.mean(axis=0) ** 2
    return bool(np.nanmax(kurtosis, initial=0.0) > max(LARGEST_KURTOSIS, LARGEST_SHARE * len(sizes)))


def log_means(sizes: np.ndarray, power: float = HALF) -> tuple[np.ndarray, np.ndarray]:
    """Return log (E|d|^p)^(1/p) (m,), p = 1/2 unless given, and the influence (P, m) of every path on it."""
    roots = sizes**power
    mean = roots.mean(axis=0)
    return np.log(mean) / power, (roots / mean - 1.0) / power


def with_half_a_power(corrections: Corrections) -> Corrections:
    """Return the corrections with a power of 1/2, too, for orders above `TRIPLE_INTEGRALS`."""
    powers, prior = tuple(sorted({0.5, *corrections.powers})), min(corrections.prior, OF_HALF_A_POWER)
    return dataclasses.replace(corrections, powers=powers, prior=prior)


def with_other_moments(
    sizes: np.ndarray, logs: np.ndarray, influence: np.ndarray, corrections: Corrections
) -> tuple[np.ndarray, np.ndarray]:
    """Return logs (m,) and their covariance, to which an unknown share of log E|d| - log (E|d|^½)² is added.

    That difference is how the law's shape changes from level to level.
    """
    (first, of_first), (half, of_half) = log_means(sizes, 1.0), log_means(sizes)
    apart = first - half
    other = MOMENTS_APART * (apart - apart.mean())
    influence = influence + corrections.moments * (of_first - of_half)
    covariance = influence.T @ influence / max(len(sizes) - 1, 1) / len(sizes)
    return logs + corrections.moments * apart, covariance + np.outer(other, other)


def log_medians(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log medians (m,) and the influence of every path, with the density from two quantiles."""
    logs = np.log(sizes)
    middle, near = np.median(logs, axis=0), len(logs) ** -0.5
    low, high = np.quantile(logs, [0.5 - near, 0.5 + near], axis=0)
    return middle, ((logs > middle) - 0.5) * (high - low) / (2 * near)


def _parts(
    squares: np.ndarray, products: np.ndarray, depths: np.ndarray, whole: bool
) -> tuple[Coherence, float, np.ndarray, np.ndarray]:
    """Return the coherence, the coarsest coherent share, and log of the root share (m,) that the order is of.

    Last comes the influence (P, m) of every path on it. Paths count alike, whatever their size: each is in
    units of its own differences, relative to the medians of their levels.
    """
    count, levels = squares.shape
    nothing = np.zeros(levels), np.zeros((count, levels))
    if whole or levels < 3:
        return Coherence.STEADY, math.nan, *nothing
    typical = np.sqrt(np.median(squares, axis=0)).clip(1e-150)
    squares, products = squares / typical**2, products / (typical[:-1] * typical[1:])
    unit = squares.mean(axis=1, keepdims=True)
    columns = np.concatenate([squares, products], axis=1) / unit
    mean = columns.mean(axis=0)
    if not (np.isfinite(mean).all() and (mean[:levels] > 0).all()):
        return Coherence.STEADY, math.nan, *nothing
    per_octave = slope_weights(np.log2(depths[:-2] / depths[0]))

    def cosines(mean: np.ndarray) -> np.ndarray:
        square, product = mean[:levels], mean[levels:]
        return np.asarray(product / np.sqrt(square[:-1] * square[1:]))

    def trends(mean: np.ndarray) -> np.ndarray:
        cosine = cosines(mean)
        apart = np.log2(np.maximum(1.0 - cosine**2, 1e-12))
        return np.asarray(per_octave @ np.stack([apart, cosine], axis=1))

    def z(influence: np.ndarray, value: np.ndarray) -> np.ndarray:
        return np.asarray(value / np.maximum(influence.std(axis=0, ddof=1) / math.sqrt(count), 1e-15))

    rho = cosines(mean) ** 2
    change, influence = _spread(columns, mean, trends)
    if rho.min() > COHERENT and change[0] < 0:
        return Coherence.STEADY, math.sqrt(rho[0]), *nothing
    sure = np.abs(z(influence, change)) > SURE
    if not ((sure[0] and abs(change[0]) > STEEP) or (sure[1] and abs(change[1]) > TURNING)):
        level = z(*_spread(columns, mean, lambda at: cosines(at).mean(keepdims=True))[::-1])
        kind = Coherence.STEADY if abs(level[0]) > SURE else Coherence.ORTHOGONAL
        return kind, math.sqrt(rho[0]), *nothing
    martingale = rho[-1] < rho[0]

    def log_part(mean: np.ndarray) -> np.ndarray:
        share = _coherent_shares(cosines(mean) ** 2)
        return 0.5 * np.log(1.0 - share if martingale else share)

    part, influence = _spread(columns, mean, log_part)
    kind = Coherence.MARTINGALE_TAKES_OVER if martingale else Coherence.COHERENT_TAKES_OVER
    return kind, float(_coherent_shares(rho)[0]), part, influence


def _spread(columns: np.ndarray, mean: np.ndarray, function) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    """Return a function of column means and every path's influence on it, by the delta method."""
    value = function(mean)
    step = 1e-6  # columns are of size 1: truncation and round-off are both below 1e-9
    jacobian = []
    for k in range(len(mean)):
        shift = np.zeros(len(mean))
        shift[k] = step
        jacobian.append((function(mean + shift) - function(mean - shift)) / (2 * shift[k]))
    return value, (columns - mean) @ np.array(jacobian)


def _coherent_shares(rho: np.ndarray) -> np.ndarray:
    """Return θ (m,) with θ_j θ_{j+1} = ρ_j (m - 1,), whose odds θ/(1 - θ) change by one factor per level."""
    rho = np.clip(rho, 1e-12, 1 - 1e-12)
    factor = 1.0
    for _ in range(60):  # a fixed point; it contracts
        # θ = ω/(1 + ω): ω²g/((1 + ω)(1 + ωg)) = ρ, a quadratic in ω.
        a, b = factor * (1.0 - rho), -rho * (1.0 + factor)
        odds = (-b + np.sqrt(b * b + 4 * a * rho)) / (2 * a)
        slope = slope_weights(np.arange(len(odds))) @ np.log(odds)
        new = float(np.exp(np.clip(slope, -4.0, 4.0)))
        if abs(new - factor) < 1e-10:
            break
        factor = new
    share = np.append(odds, odds[-1] * factor)
    return np.asarray(share / (1.0 + share))


def _spacing(depths: np.ndarray, logs: np.ndarray, coherence: Coherence) -> np.ndarray:
    """Return log of the factors by which unequal ratios of depths make differences larger or smaller.

    A coherent error c L^-r leaves |1 - q^r| of itself between levels of ratio q = L_j/L_{j+1}, an orthogonal
    one √(1 - q^2r). Where depths double the factor is one for all, and drops out.
    """
    ratio = depths[:-1] / depths[1:]
    if np.allclose(ratio, ratio[0]):
        return np.zeros(len(ratio))
    orthogonal = coherence in (Coherence.ORTHOGONAL, Coherence.MARTINGALE_TAKES_OVER)
    rate, factor = 0.5, np.zeros(len(ratio))
    for _ in range(20):
        left = 1.0 - ratio ** (2 * rate if orthogonal else rate)
        factor = np.log(left) * (0.5 if orthogonal else 1.0)
        rate = max(0.05, -float(slope_weights(np.log(depths[:-1])) @ (logs - factor)))
    return factor


LARGEST_LOG = 300.0
"""Of squares with larger logarithms, products of two have no number in float64."""


def paired_floor(
    depths: np.ndarray,
    distances: np.ndarray,
    sizes: np.ndarray,
    order: Order,
    *,
    exact: bool = False,
    rate: float | None = None,
) -> Floor | None:
    """Return the share of the deepest squared distance that remains at infinite depth.

    Distances e (P, m) to the right limit are a constant times the differences d (P, m - 1) of the same
    depths. Those to another limit are e² = κ² |d|² + f², so that e²/|d|² rises like 1/|d|². Both are of the
    same paths, whose luck cancels in the ratio. The difference beyond the deepest one is extrapolated at its
    order, or at `rate` where that is known. κ² may drift by `DRIFT` (depth/16)^-1/2 of itself. None where
    nothing moves, a path is lost and the order is not one of medians, or the share is surely below 0.
    """
    (distances, lost), (sizes, _) = with_lost_ones_last(distances), with_lost_ones_last(sizes)
    kept = (distances > 0).all(axis=1) & (sizes > 0).all(axis=1)
    if lost > (MOST_LOST if order.medians else 0.0) or kept.sum() < sizes.shape[1] + 3:
        return None
    logs = log_medians if order.medians else log_means
    far, far_influence = logs(distances[kept])
    near, near_influence = logs(sizes[kept])
    octave = math.log(depths[-1] / depths[-2])
    near = np.append(near, near[-1] - (order.rate if rate is None else rate) * octave)
    near_influence = np.column_stack([near_influence, near_influence[:, -1]])
    # e²/|d|² = κ² + share e_m²/|d|², each divided by its left side, since sizes may differ by any factor.
    logs_of_ratio, fall = 2 * (far - near), 2 * (far[-1] - far)
    if max(np.abs(logs_of_ratio).max(), np.abs(fall).max()) > LARGEST_LOG:
        return None
    design = np.stack([np.exp(-logs_of_ratio), np.exp(fall)], axis=1)
    influence = 2 * (far_influence - near_influence)
    count, levels = influence.shape
    low, high = order.interval(0.95) if rate is None else (rate, rate)
    extrapolated = 2 * octave * (high - low) / 3.92
    model = np.diag(DRIFT**2 * ANCHOR / depths)
    model[-1, -1] += extrapolated**2
    model += (2 * order.scatter) ** 2 * np.eye(levels) if exact else 0.0
    sampling = influence.T @ influence / (count - 1) / count
    data = CorrelatedData.of(np.ones(levels), (model if exact else sampling + model)[None])
    fit = data.regress(design, np.zeros((1, levels)))
    share, error = float(fit.coefficients[0, 1, 0]), math.sqrt(float(fit.covariances[0, 1, 1]))
    if share < -SURE * error:  # distances fall faster than their own differences: not of one power
        return None
    lower, middle, upper = (min(max(share + z * error, 0.0), 1.0) for z in (-1.645, 0.0, 1.645))
    return Floor(middle, lower, upper, float(special.ndtr((share - 0.5) / error)))


def apart_by_paths(distances: np.ndarray, sizes: np.ndarray, order: Order, rate: float) -> float:
    """Return the deepest distance over the most that differences leave of it, if they fall at order `rate`.

    Given are distances to a limit (P, m) and differences (P, m - 1) of the same paths. As in `paired_floor`
    their luck cancels: path by path the triangle inequality gives at most 1 for the limit that the networks
    tend to. The lower end at SURE is returned, and 0 where paths are few, or one is lost and the order is not
    one of medians, or where differences do not surely fall, or do so more slowly.
    """
    low, high = order.interval(0.95)
    (distances, lost), (sizes, _) = with_lost_ones_last(distances), with_lost_ones_last(sizes)
    kept = (distances[:, -1] > 0) & (sizes[:, -1] > 0)
    if lost > (MOST_LOST if order.medians else 0.0) or kept.sum() < FEWEST or not low > 0 or high < rate:
        return 0.0
    logs = log_medians if order.medians else log_means
    (far, far_influence), (near, near_influence) = (logs(each[kept, -1:]) for each in (distances, sizes))
    influence = far_influence - near_influence
    error = float(influence.std(ddof=1)) / math.sqrt(len(influence))
    return math.exp(float(far[0] - near[0]) - SURE * error) / order.doublings(rate)


@dataclass(frozen=True)
class Orders:
    """The order's distribution, the weights of `SIZES`, and what single levels are off by in the mean."""

    orders: StudentMixture
    weights: np.ndarray
    scatter: float

    def has_no_power_law(self, slopes: np.ndarray) -> bool:
        """Whether large corrections have most of the weight, and local slopes differ."""
        return bool(self.weights[SIZES >= LARGEST_SIZE].sum() > 0.5 and np.ptp(slopes) > SPREAD)


UNLIKELY = 1e-9
"""Of many offsets those are left out that have less than this part of the likeliest one's weight."""


def mixture_of_orders(
    depths: np.ndarray,
    logs: np.ndarray,
    covariance: np.ndarray,
    corrections: Corrections,
    degrees: float,
    offsets: np.ndarray | None = None,
    scatters: Sequence[float] = (MODEL_ERROR,),
    shares: np.ndarray | None = None,
) -> Orders:
    """Return the order's distribution.

    One of the `offsets` (o, m) is part of `logs`, with the probabilities `shares` (o,), or all alike; left
    out, there is none. `scatters` are standard deviations that single levels may have beside the sampling
    error; they are integrated over, each as likely as its inverse.
    """
    ratio = depths / corrections.anchor
    bend = sum(np.outer(ratio, ratio) ** -s for s in corrections.powers)
    loose = np.array(scatters)
    fixed = covariance + (loose**2)[:, None, None] * np.eye(len(depths))
    bent = fixed[:, None] + (SIZES**2)[:, None, None] * bend
    data = CorrelatedData.of(logs, bent.reshape(-1, len(depths), len(depths)))
    design = np.stack([np.ones(len(depths)), -np.log(depths / depths[0])], axis=1)
    fits = data.regress(design, np.zeros((1, len(depths))) if offsets is None else offsets)
    prior = (corrections.prior * np.log(SIZES) + np.log(loose)[:, None]).ravel()
    likelihood = fits.log_likelihoods - prior[:, None] + (0.0 if shares is None else np.log(shares))
    weights = np.exp(likelihood - special.logsumexp(likelihood))
    scales = np.broadcast_to(np.sqrt(fits.covariances[:, 1, 1])[:, None], weights.shape)
    kept = weights >= (0.0 if shares is None else UNLIKELY * weights.max())
    orders = StudentMixture(weights[kept], fits.coefficients[:, 1, :][kept], scales[kept], float(degrees))
    weights = weights.sum(axis=1).reshape(len(loose), len(SIZES))
    return Orders(orders, weights.sum(axis=0), float(weights.sum(axis=1) @ loose))
