"""What remains of errors at infinite depth: the floor, which the distance to another limit leaves.

Errors are e² = f² + 2ρ f g + g², with a floor f and a part g that falls as `power_law` says. Errors of
diffusions fluctuate about either limit, so that ρ = 0. Errors of smooth weights do not fluctuate: network,
limit and another limit are three points, and ρ is the cosine of the angle between two of their differences.
It is then integrated over. With ρ < 0 errors pass a minimum, where g has fallen to about f. Beyond it g is
the smaller root of the equation.

The floor's share φ = f²/(f² + g²) at the deepest network is between 0 and 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from deeplimit.statistics.power_law import (
    STEEPEST,
    ErrorEstimates,
    correlated,
    design_of,
    second_contributions,
    size_prior,
)
from deeplimit.statistics.regression import CorrelatedData

SLOWER = 0.05
"""Prior probability that errors fall more slowly than the network's order, instead of levelling off."""
FASTER = 0.1
"""Prior probability that the distance of two schemes of one order falls faster than both: then their leading
terms cancel, which takes schemes that are nearly one.
"""
_SHARES = np.concatenate(
    [
        [0.0, 0.003, 0.006],
        np.arange(0.01, 0.1, 0.01),
        np.arange(0.1, 0.96, 0.025),
        [0.96, 0.97, 0.98, 0.99, 0.995],
    ]
)
_COSINES = {-1.0: 0.075, -0.9: 0.075, -0.5: 0.15, 0.0: 0.4, 0.5: 0.15, 0.9: 0.075, 1.0: 0.075}
"""Values of ρ with their prior probabilities."""
_CANCELLED = 1e-3
"""Errors at the deepest network smaller than this times f² + g² are not considered."""
_MOST_TURNED = 2
"""How many of the deepest networks may lie beyond the minimum that errors pass where ρ < 0."""


@dataclass(frozen=True)
class Floor:
    """How much of the deepest squared error would remain at infinite depth.

    Attributes:
        share: median of f²/e² at the deepest depth, between 0 and 1.
        lower, upper: its 5 % and 95 % quantiles.
        probability: probability that the share exceeds one half, or what `fit_floor` was told is large.
    """

    share: float
    lower: float
    upper: float
    probability: float

    @property
    def error(self) -> float:
        """Standard error of the share, at least the distance of the nodes that integrate it."""
        spacing = float(np.interp(self.share, _SHARES, np.gradient(_SHARES)))
        return max((self.upper - self.lower) / (2 * 1.645), spacing)

    def of_whole(self, part: float) -> Floor:
        """Return the same as a share of a square of which the one here is this part."""
        shares = (part * self.share, part * self.lower, part * self.upper)
        return Floor(*shares, self.probability)


def fit_floor(
    estimates: ErrorEstimates,
    predicted: float | None,
    *,
    is_bound: bool = False,
    coherent: bool = False,
    large: float = 0.5,
    measured: tuple[float, float] | None = None,
) -> Floor:
    """Fit e² = f² + 2ρ f g + g² and return what is known of f²/(f² + g²) at the deepest depth.

    Over a short range of depths a floor and a slow order look alike. If a theorem says how fast this network
    reaches its limit, that order (`predicted`) has the prior probability 1 - SLOWER, and otherwise the order
    is uniform between 0 and it. The distance to a wrong limit may fall more slowly than that to the right
    one, but not faster. If the theorem gives a lower bound alone, the order is uniform between it and the
    bound plus STEEPEST. Where no order is predicted, it is uniform from 0 to STEEPEST. Where it was
    `measured` by other means, it is uniform in that interval, or if that is a bound perhaps above it.

    ρ is 0, or integrated over where errors are `coherent`.
    """
    factors, prior = second_contributions(estimates)
    order = _Order(predicted, is_bound, measured)
    joint = np.full((len(_SHARES), len(size_prior(estimates)), len(prior)), -np.inf)
    for row, share in enumerate(_SHARES):
        seen = [
            order.likelihoods(data, design_of(estimates), factors) + np.log(weight)
            for data, weight in _falling_parts(estimates, float(share), coherent=coherent)
        ]
        if seen:
            joint[row] = np.logaddexp.reduce(seen, axis=0)
    posterior = (
        np.exp(joint - joint.max())
        * np.gradient(_SHARES)[:, None, None]
        * size_prior(estimates)[:, None]
        * prior
    )
    marginal = posterior.sum(axis=(1, 2)) / posterior.sum()
    cumulative = np.cumsum(marginal)
    lower, share, upper = (
        float(_SHARES[min(int(np.searchsorted(cumulative, q)), len(_SHARES) - 1)]) for q in (0.05, 0.5, 0.95)
    )
    return Floor(share, lower, upper, float(marginal[large < _SHARES].sum()))


@dataclass(frozen=True)
class _Order:
    """What is known of the falling part's order before errors are seen."""

    predicted: float | None
    is_bound: bool
    measured: tuple[float, float] | None = None

    def likelihoods(self, data: CorrelatedData, design: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return log likelihoods (sizes, contributions) of the falling part."""
        fits = data.regress(design, factors)
        order, scale = fits.coefficients[:, 1], np.sqrt(fits.covariances[:, 1, 1])[:, None]

        def between(low: float, high: float) -> np.ndarray:
            inside = special.ndtr((high - order) / scale) - special.ndtr((low - order) / scale)
            found: np.ndarray = fits.log_likelihoods + np.log(np.maximum(inside, 1e-300) / (high - low))
            return found

        if self.predicted is None:
            return between(0.0, STEEPEST)
        if self.measured is not None:
            known = between(*self.measured)
            if self.is_bound:
                faster = between(self.measured[0], self.measured[1] + STEEPEST)
                known = np.logaddexp(np.log1p(-FASTER) + known, np.log(FASTER) + faster)
        elif self.is_bound:
            known = between(self.predicted, self.predicted + STEEPEST)
        else:
            known = data.regress(design[:, :1], factors + self.predicted * design[:, 1]).log_likelihoods
        slower = between(0.0, self.predicted)
        both: np.ndarray = np.logaddexp(np.log(SLOWER) + slower, np.log1p(-SLOWER) + known)
        return both


def _falling_parts(
    estimates: ErrorEstimates, share: float, *, coherent: bool
) -> Iterator[tuple[CorrelatedData, float]]:
    """Yield the logs of what falls, for each way in which a floor of this share may be hidden, with weights.

    A floor that is too high for some error yields nothing.
    """
    if not coherent or share == 0.0:
        data = _falling(estimates, share, 0.0, 0)
        if data is not None:
            yield data, 1.0
        return
    for cosine, weight in _COSINES.items():
        is_beyond = np.sqrt((1.0 - share) / share) < -cosine
        for turned in range(1, _MOST_TURNED + 1) if is_beyond else (0,):
            data = _falling(estimates, share, cosine, turned)
            if data is not None:
                yield data, weight


def _falling(estimates: ErrorEstimates, share: float, cosine: float, turned: int) -> CorrelatedData | None:
    """Return log g; None where no g gives these errors.

    The deepest `turned` networks lie beyond the minimum of errors that a cosine below 0 brings.
    """
    squares = _squares(estimates)
    whole = 1.0 + 2.0 * cosine * np.sqrt(share * (1.0 - share))
    if whole < _CANCELLED:
        return None
    floor = share / whole  # f² over the deepest error squared
    rest = squares - floor * (1.0 - cosine**2)
    if rest.min() <= 0:
        return None
    if cosine == 0.0:
        stretch, logs = squares / rest, 0.5 * np.log(rest)
    else:
        side = np.where(np.arange(len(squares)) < len(squares) - turned, 1.0, -1.0)
        part = -cosine * np.sqrt(floor) + side * np.sqrt(rest)
        if part.min() <= 0:
            return None
        # Beyond the minimum errors grow as g falls.
        stretch, logs = side * squares / (part * np.sqrt(rest)), np.log(part)
    return correlated(estimates, logs + estimates.log_errors[-1] - estimates.log_bias, stretch)


def above_floor(estimates: ErrorEstimates, share: float) -> ErrorEstimates:
    """Return the estimates with the reference's bias taken only from what lies above a floor.

    The reference shrinks the part of an error that comes from the step size, not a difference between two
    limits. Of squares e² the part e² - f² is divided by the squared factor, and f² is left. Where e² is below
    f², nothing lies above the floor, and e² is left as measured. `share` is f² over the deepest e². The
    covariance stays that of the measured errors, with which verdicts were calibrated.
    """
    squares, growth = _squares(estimates), _growth(estimates, share)
    corrected = squares + (squares - share) * (growth - 1.0)
    return dataclasses.replace(estimates, log_bias=0.5 * np.log(squares / corrected))


def above_uncertain_floor(estimates: ErrorEstimates, floor: Floor) -> ErrorEstimates:
    """Return the same with the covariance of the result, by the delta method: what a table may show.

    It contains what the correction magnifies, and what is not known of the floor.
    """
    share, squares, growth = floor.share, _squares(estimates), _growth(estimates, floor.share)
    corrected = squares + (squares - share) * (growth - 1.0)
    # f² is a share of the deepest square, and so moves with it.
    change = np.diag(squares * growth / corrected)
    change[:, -1] += share * (1.0 - growth) / corrected
    by_share = 0.5 * (1.0 - growth) / corrected * floor.error
    covariance = change @ np.nan_to_num(estimates.covariance) @ change.T + np.outer(by_share, by_share)
    return dataclasses.replace(above_floor(estimates, share), covariance=covariance)


def _squares(estimates: ErrorEstimates) -> np.ndarray:
    """Return squared errors (m,) over the deepest one."""
    squares: np.ndarray = np.exp(2 * (estimates.log_errors - estimates.log_errors[-1]))
    return squares


def _growth(estimates: ErrorEstimates, share: float) -> np.ndarray:
    """Return by what the square above the floor is multiplied (m,); 1 where there is nothing above it."""
    return np.where(_squares(estimates) > share, np.exp(-2 * estimates.log_bias), 1.0)
