"""Orders from errors that somebody has, and from means of differences: what solvers are judged by.

`fit_errors` reads distances to an exact or fine solution at several numbers of steps, by the model that
`consecutive` fits to differences, and asks for the part of them that would remain at infinitely many steps.
`fit_means` reads E f(h^{2L}) - E f(h^L), the weak error. A mean may have any sign and may be lost in noise,
so no logarithm is taken: for each order r on a grid

    mean_j = c L_j^-r (1 + Σ_s b_s (L_j/L_1)^-s) + noise,    s = 1, 2, b_s ~ N(0, τ²),

with c profiled out and τ integrated over. Where the means are noise, the interval is the prior's, [0, 4].
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from deeplimit.statistics.consecutive import (
    ANCHOR,
    DOUBLE_INTEGRALS,
    MODEL_ERROR,
    SCATTERS,
    SIZES,
    TAIL_SHARE,
    TRIPLE_INTEGRALS,
    Corrections,
    log_means,
    log_medians,
    mixture_of_orders,
    share_of_the_largest,
    with_half_a_power,
    with_other_moments,
)
from deeplimit.statistics.power_law import CorrelatedData, Floor, StudentMixture, slopes_between

OF_SOLVERS = Corrections((1.0, 2.0), 0.25, moments=3.0, at_coarsest=True, scatters=SCATTERS)
"""Corrections of a solver's error go in whole powers of the step: the mean of an even function of the noise
is even in the step's root. With a power 1/2, too, intervals are 1.4 times as long and cover as often, up to
`TRIPLE_INTEGRALS`.
Sums of few heavy terms, such as Heun's (ΔB)³ on the circle, have a correction linear in p that vanishes at
p = 2, three steps of 1/2 beyond p = 1/2. Without this share 80 % of 148 of their intervals cover, with it
94 %."""
OF_HALVES = 0.01 * 2.0 ** np.arange(9)
HALVES = 0.1
"""Sizes c, of either sign, of a correction of half a power in errors of unknown origin, c (L/16)^-½, and
their scale: half-Cauchy. It is there or not, each as likely. It is taken as it is, log(1 + c (L/16)^-½):
added to the logarithm beside whole powers, which bend as much and say another order, it hardly counts. Of
errors L^-r (1 + a L^-½), a of 1, -1 and 3, 20 to 31 of 40 intervals covered so with 400 and 1,000 paths, and
33 to 38 do; with 30 paths 20 to 25, and 27 to 38 do. Intervals of exact power laws are 1.4 to 1.6 times as
long for it."""
MOST_TAKEN = 0.7
"""Of the coarsest error such a correction takes at most this part: more is another power law."""
SOME = 50
"""Of fewer paths no medians are taken: the density at the median, from two quantiles, is then too uncertain.
Of 8 to 20 paths 84 to 93 % of 300 intervals covered an exact power law with medians, and 95 to 100 % with
means of square roots, a quarter shorter from 12 on; of 40 Cauchy variables means cover in 97 %."""
FEW = 100
"""Of fewer paths a covariance between levels is too uncertain to be inverted as it is: 10 levels of 20 paths
covered in 91 %, with the factor of an inverse Wishart matrix in 96 %."""
STEEPEST = 8.0
"""The largest order that errors above a floor may have: no solver in use has a higher one."""
FLOOR_POWERS = (0.5, 1.0, 2.0)
"""Powers of the step in the corrections beside a floor. One of 1/4, as `consecutive` allows, is all but a
floor itself: with it 1,000 paths of Euler's scheme could not exclude that errors stay."""
FLOOR_SIZES = SIZES / (1.0 + (SIZES / 0.2) ** 2)
"""Prior of the sizes of these corrections at 16 steps: half-Cauchy on a geometric grid, its scale about
0.7 · 16^-½, as in `power_law.CORRECTION_SCALE`."""
SHARES = np.concatenate([[0.0, 0.003, 0.01, 0.02], np.arange(0.05, 0.96, 0.05), [0.97, 0.98, 0.99, 0.995]])
"""Shares of the deepest squared error that may remain, a grid to integrate over."""
WEAK_POWERS = (1.0, 2.0)
"""Weak errors of smooth functions expand in whole powers of the step (Talay & Tubaro 1990)."""
WEAK_SIZES = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
"""Sizes τ L_1 of these corrections, with prior 1/τ, a half-Cauchy tail. Smaller ones are left out, since weak
errors hardly ever come without corrections. With 2 as the smallest, 71 % of 100 intervals covered the order
of E h² of Euler's scheme on geometric Brownian motion with drift 2, with 4 they are 93 % of 200; with eight
milder drifts, volatilities and functions 92 to 99 %."""
WEAK_ORDERS = np.arange(0.0, 4.0001, 0.01)
"""Weak orders looked at; solvers in use have 1 or 2."""
TURNS = 3.0
"""Standard errors from which two means of opposite signs, or a mean that is larger than the coarsest one, are
taken for a leading term that does not lead yet."""
SURE = 0.999
"""Probability, by chance alone, below which means of differences are called noise."""


@dataclass(frozen=True)
class ErrorOrder:
    """The order of errors at m numbers of steps.

    Attributes:
        orders: distribution of the order, a mixture over the sizes of the corrections.
        slopes, slope_errors: local orders (m - 1,) of what was fitted, with standard errors.
        floor: what is known of the share of the deepest squared error that remains.
        medians: whether medians were taken.
        uncertain: whether large corrections have most of the weight, so that no power law is in sight.
    """

    orders: StudentMixture
    slopes: np.ndarray
    slope_errors: np.ndarray
    floor: Floor
    medians: bool
    uncertain: bool


def fit_errors(
    errors: np.ndarray,
    steps: np.ndarray,
    *,
    exact: bool = False,
    prior: float = OF_SOLVERS.prior,
    halves: bool = False,
    scatters: Sequence[float] = (MODEL_ERROR,),
) -> ErrorOrder:
    """Return the order of positive, finite errors (P, m) at steps (m,), at least three of them.

    Means of square roots are fitted; of `SOME` paths or more medians, where the largest 1 % make up a tenth
    of the means. `exact` says that another run would give the same numbers; else at least m + 3 paths are
    needed. The prior of the corrections' size τ is τ^-prior. `halves` admits a correction of half a power.
    """
    count, levels = errors.shape
    medians = not exact and count >= SOME and share_of_the_largest(errors) >= TAIL_SHARE
    logs, influence = log_medians(errors) if medians else log_means(errors)
    covariance = influence.T @ influence / max(count - 1, 1) / count
    if exact:
        covariance = np.zeros_like(covariance)
    slopes, slope_errors = slopes_between(np.log(steps), logs, covariance)
    if count < FEW:
        covariance = covariance * (count - 1) / max(count - levels - 2, 1)
    allowed = dataclasses.replace(OF_SOLVERS, prior=prior).of(steps)
    degrees = math.inf if exact else max(count - levels, 1)  # an exact covariance, 0, is not estimated
    depths = steps.astype(float)
    bends, shares = _half_a_power(depths / allowed.anchor) if halves else (None, None)
    fit = mixture_of_orders(depths, logs, covariance, allowed, degrees, bends, scatters, shares)
    if not exact and not medians and fit.orders.quantile(0.5) > DOUBLE_INTEGRALS:
        if fit.orders.quantile(0.5) > TRIPLE_INTEGRALS and not halves:
            allowed = with_half_a_power(allowed)
        other, its = with_other_moments(errors, logs, influence, allowed)
        fit = mixture_of_orders(depths, other, its, allowed, degrees, bends, scatters, shares)
    return ErrorOrder(
        fit.orders,
        slopes,
        slope_errors,
        _floor(depths, logs, covariance, scatters),
        medians,
        fit.has_no_power_law(slopes),
    )


def _half_a_power(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what corrections of half a power add to logarithms (o, m), and their probabilities (o,)."""
    sizes = np.concatenate([-OF_HALVES, OF_HALVES])
    sizes = sizes[sizes * ratio[0] ** -0.5 > -MOST_TAKEN]
    shares = np.abs(sizes) / (1.0 + (sizes / HALVES) ** 2)
    added = np.log1p(sizes[:, None] * ratio**-0.5)
    return np.concatenate([np.zeros((1, len(ratio))), added]), np.append(0.5, 0.5 * shares / shares.sum())


def either(one: StudentMixture, other: StudentMixture) -> StudentMixture:
    """Return the distribution of an order that is one of two, each as likely."""
    return StudentMixture(
        np.concatenate([one.weights, other.weights]) / 2,
        np.concatenate([one.centres, other.centres]),
        np.concatenate([one.scales, other.scales]),
        min(one.degrees, other.degrees),
    )


def _floor(steps: np.ndarray, logs: np.ndarray, covariance: np.ndarray, scatters: Sequence[float]) -> Floor:
    """Return what is known of φ in e² = g² + φ e_m², g a power of the step with corrections, e_m the last."""
    squares = np.exp(2 * (logs - logs[-1]))
    ratio = steps / ANCHOR
    bend = sum(np.outer(ratio, ratio) ** -s for s in FLOOR_POWERS)
    loose = np.array(scatters)
    fixed = covariance + (loose**2)[:, None, None] * np.eye(len(steps))
    design = np.stack([np.ones(len(steps)), -np.log(steps / steps[0])], axis=1)
    likelihoods = np.full(len(SHARES), -np.inf)
    for row, share in enumerate(SHARES):
        rest = squares - share
        if rest.min() <= 0:
            continue
        # The floor is a share of the measured e_m²: luck that all levels share leaves the shape of g alone.
        jacobian = np.diag(squares / rest)
        jacobian[:, -1] -= share / rest
        covariances = (jacobian @ fixed @ jacobian.T)[:, None] + (SIZES**2)[:, None, None] * bend
        covariances = covariances.reshape(-1, len(steps), len(steps))
        volume = float(np.linalg.slogdet(jacobian)[1])
        data = CorrelatedData.of(0.5 * np.log(rest), covariances, volume)
        fits = data.regress(design, np.zeros((1, len(steps))))
        order, scale = fits.coefficients[:, 1, 0], np.sqrt(fits.covariances[:, 1, 1])
        inside = special.ndtr((STEEPEST - order) / scale) - special.ndtr(-order / scale)
        likelihoods[row] = special.logsumexp(
            fits.log_likelihoods[:, 0]
            + np.log(np.maximum(inside, 1e-300))
            + (np.log(FLOOR_SIZES) - np.log(loose)[:, None]).ravel()
        )
    posterior = np.exp(likelihoods - likelihoods.max()) * np.gradient(SHARES)
    cumulative = np.cumsum(posterior) / posterior.sum()
    lower, middle, upper = (float(SHARES[int(np.searchsorted(cumulative, q))]) for q in (0.05, 0.5, 0.95))
    return Floor(middle, lower, upper, float(posterior[SHARES > 0.5].sum() / posterior.sum()))


def steepest_falls(steps: np.ndarray, distances: np.ndarray) -> tuple[float, float]:
    """Return how steeply distances (P, m) fall at most, over all levels and over the last two.

    The first is an order plus four standard errors, of means of square roots, the second one plus two;
    infinite where distances vanish or paths are few.
    """
    kept = distances[(distances > 0).all(axis=1)]
    if len(kept) < distances.shape[1] + 3:
        return math.inf, math.inf
    logs, influence = log_means(kept)
    found = []
    for first, last, errors in ((0, -1, 4), (-2, -1, 2)):
        octaves = math.log(steps[last] / steps[first])
        error = float((influence[:, first] - influence[:, last]).std(ddof=1)) / math.sqrt(len(kept))
        found.append((float(logs[first] - logs[last]) + errors * error) / octaves)
    return found[0], found[1]


@dataclass(frozen=True)
class WeakOrder:
    """The order of a mean that tends to 0.

    Attributes:
        rate, low, high: median of the order and its central interval, within [0, 4].
        sure_upper: the order lies below this with probability (1 + `SURE`)/2.
        resolved: whether the means are more than noise, and fall, from the coarsest level on.
    """

    rate: float
    low: float
    high: float
    sure_upper: float
    resolved: bool


def fit_means(values: np.ndarray, steps: np.ndarray, confidence: float) -> WeakOrder:
    """Return the order of the means of per-path values (P, m) at steps (m,); P is at least m + 3."""
    count, levels = values.shape
    means = values.mean(axis=0)
    centred = values - means
    covariance = centred.T @ centred / (count - 1) / count
    scale = max(float(np.abs(means).max()), float(np.sqrt(np.diag(covariance).max()))) or 1.0
    means, covariance = means / scale, covariance / scale**2
    covariance = covariance + np.diag((MODEL_ERROR * means) ** 2 + 1e-24)
    ratio = steps / steps[0]
    bend = sum(np.outer(ratio, ratio) ** -s for s in WEAK_POWERS)
    # Corrections are relative to the means as measured. Relative to c L^-r, c from the fine levels, they
    # would favour small orders, whose corrections are smaller at coarse levels.
    sizes = WEAK_SIZES / steps[0]
    whole = covariance + (sizes**2)[:, None, None] * bend * np.outer(means, means)
    shapes = ratio ** -WEAK_ORDERS[:, None]  # (r, m)
    inverses = np.linalg.inv(whole)  # (τ, m, m)
    information = np.einsum("rm,tmn,rn->tr", shapes, inverses, shapes)
    projected = np.einsum("rm,tmn,n->tr", shapes, inverses, means)
    left = np.einsum("m,tmn,n->t", means, inverses, means)[:, None] - projected**2 / information
    logs = -0.5 * (left + np.linalg.slogdet(whole)[1][:, None]) - np.log(sizes)[:, None]
    posterior = np.exp(logs - logs.max()).sum(axis=0)
    cumulative = np.cumsum(posterior) / posterior.sum()
    tail = (1.0 - confidence) / 2
    low, rate, high, sure = np.interp((tail, 0.5, 1.0 - tail, (1.0 + SURE) / 2), cumulative, WEAK_ORDERS)
    chi2, z = float(means @ np.linalg.inv(covariance) @ means), means / np.sqrt(np.diag(covariance))
    turns = np.abs(z).max() > TURNS and (z[0] * z[np.abs(z).argmax()] < 0 or abs(z[0]) < TURNS)
    signs = np.sign(means)
    growth = signs * means - signs[0] * means[0]
    spread = np.diag(covariance) + covariance[0, 0] - 2 * signs * signs[0] * covariance[0]
    turns = bool(turns or (growth > TURNS * np.sqrt(np.maximum(spread, 0.0))).any())
    resolved = special.chdtrc(levels, chi2) < 1.0 - SURE and not turns
    return WeakOrder(float(rate), float(low), float(high), float(sure), bool(resolved))
