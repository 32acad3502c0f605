"""Floor and order from the differences themselves, where those of all depths keep their direction.

Network and limit without Brownian noise differ by V_L = c_0 + Σ c_s L^-s, vectors c_s along the path and
exponents s that theory knows. c_0 is 0 where the limit is the network's. Sums Σ w_L V_L in which the first q
exponents cancel approach c_0 (Richardson). All that is needed are the products of differences at two depths,
G = E⟨V_L, V_M⟩, since |Σ w_L V_L|² = wᵀ G w. Nothing is random here: what is left open is what the expansion
leaves out, which is measured by what one more exponent changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import optimize, special

from deeplimit.statistics.power_law import (
    DISTINCT,
    MODEL_ERROR,
    ErrorEstimates,
    Fit,
    Floor,
    StudentMixture,
    local_slopes,
    solution,
)

CERTAIN_CHANGES = 5.0
"""A remainder of this many times what one exponent changes is not 0: right limits reach 2.5."""
POSSIBLE_CHANGES = 3.0
"""How many times that change the remainder may be off."""
LEFT_OUT = 4.0
"""Errors of 1/L² are as many times as large without the deepest network, where depths double."""
LEAST = 0.02
"""A remainder smaller than this share of the deepest difference may be what the model leaves out."""
RESOLVED = 3.0
"""A remainder within this many times the reference's estimated error may be that error: it was 0.17 and 0.2
times the estimate for two right limits that were called wrong."""
ORDER_CHANGES = 2.0
"""Half-width of the order's 95 % interval, in units of what one term changes."""
SLOPE_CHANGES = 1.5
"""The same in units of the distance to the deepest local slope: nearly equal exponents look like one."""
SEPARATED, DENSE = 1.0, 1.25
"""Exponents a distance s apart change by less than a factor e over the depths if s log(range) is below this.
Fitted orders then come near the right one slowly, term by term: intervals are a quarter longer, and given up
to twice as long. Of 43 that were given at s = 0.1 and 0.2 six missed without, of 45 none."""
UNSETTLED_ORDER = 0.2
"""No order is given where its interval extends further than this to either side."""


@dataclass(frozen=True)
class Remainder:
    """What differences tend to as the depth grows, in units of the deepest one.

    Attributes:
        size: norm of c_0.
        error: what leaving out one exponent changes.
        known: whether theory knows the exponents; fitted ones may hide that it is not 0.
        scatter: what it may be off by where errors do not expand: a quarter of what leaving out the deepest
            network changes. Where ReLU meets weights that change with time, its kink falls elsewhere within a
            step at every depth, and errors of 1/L² have no power law.
        resolution: what round-off and the reference's own error may leave, which all differences share.
    """

    size: float
    error: float
    known: bool = True
    scatter: float = 0.0
    resolution: float = 0.0

    @property
    def is_seen(self) -> bool:
        """Whether differences tend to something other than 0, be it the reference's error."""
        return self.known and self.size > max(CERTAIN_CHANGES * max(self.error, self.scatter), LEAST)

    @property
    def is_certain(self) -> bool:
        """Whether differences tend to something other than 0, which no error of the reference explains."""
        return self.is_seen and self.size > RESOLVED * self.resolution

    @property
    def is_small(self) -> bool:
        """Whether differences surely tend to next to nothing; those of layers with noise do not expand so."""
        return self.size + POSSIBLE_CHANGES * self.error < LEAST

    def floor(self) -> Floor:
        """Return the same as a floor's share of the deepest square."""

        def share(size: float) -> float:
            return float(np.clip(size, 0.0, 1.0)) ** 2

        reach = POSSIBLE_CHANGES * self.error
        above = special.ndtr((self.size - np.sqrt(0.5)) / max(self.error, 1e-12))
        return Floor(share(self.size), share(self.size - reach), share(self.size + reach), float(above))


def _norm(weights: np.ndarray, products: np.ndarray) -> float:
    return float(np.sqrt(max(0.0, weights @ products @ weights)))


def _constants(depths: np.ndarray, powers: np.ndarray) -> list[np.ndarray]:
    """Return the weights (m,) that give c_0, for each number q of exponents that cancel, from 0 on."""
    found = []
    for q in range(min(len(depths), len(powers))):
        columns = np.stack([np.ones(len(depths)), *(depths**-power for power in powers[:q])], axis=1)
        # What is left out falls like the next exponent: deeper networks count for more.
        weight = (depths / depths[-1]) ** powers[q]
        found.append(solution(columns, weight)[0])
    return found


def remainder(depths: np.ndarray, products: np.ndarray, powers: np.ndarray) -> Remainder:
    """Return what differences at `depths` (m,) with these products (m, m) tend to.

    `powers` are the exponents s of the expansion in increasing order, at least m.
    """
    scaled = products / products[-1, -1]
    weights = _constants(depths.astype(float), powers)
    changes = [_norm(b - a, scaled) for a, b in pairwise(weights)]
    best = int(np.argmin(changes))
    fewer = _constants(depths[:-1].astype(float), powers)
    moved = _norm(weights[best + 1] - np.append(fewer[min(best + 1, len(fewer) - 1)], 0.0), scaled)
    return Remainder(_norm(weights[best + 1], scaled), changes[best], scatter=moved / LEFT_OUT)


def fit_order(estimates: ErrorEstimates, products: np.ndarray, most: float) -> Fit:
    """Fit r in V_L = Σ c_s L^-s, s = r, r + p, …, p the powers of the correction; r is between 0 and `most`.

    The interval is what the last two terms change, and the distance to the deepest local slope.
    Nothing is random: it speaks of truncation alone. Levels other than 95 % scale it as a normal law would.
    """
    depths, above = estimates.depths.astype(float), np.array(estimates.powers)
    scaled = products / products[-1, -1]
    slope = local_slopes(estimates)[0][-1]
    fitted: list[float] = []
    for q in range(min(len(depths) - 1, len(above) + 1)):
        # Exponents that are not there fit as well, with coefficients of 0: the nearest minimum counts.
        order, misfit = _least_misfit(depths, scaled, above[:q], most, fitted[-1] if fitted else slope)
        fitted.append(order)
        if misfit < MODEL_ERROR:  # a further term would fit the reference's error
            break
    near = (*estimates.corrections, *estimates.second_orders)
    merged = max((power for power in near if power < DISTINCT), default=0.0)
    apart = min((power for power in near if power >= DISTINCT), default=1.0)
    dense = apart * np.log(depths[-1] / depths[0]) < SEPARATED
    changes = np.abs(np.diff(fitted)[-2:]).max(initial=MODEL_ERROR)
    half = float(max(ORDER_CHANGES * changes, SLOPE_CHANGES * abs(fitted[-1] - slope), merged))
    half *= DENSE if dense else 1.0
    scale = half / special.ndtri(0.975)
    orders = StudentMixture(
        np.ones(1), np.array([fitted[-1]]), np.array([scale]), float(estimates.count - len(estimates.depths))
    )
    constant = float(np.mean(estimates.log_errors + fitted[-1] * np.log(depths)))
    longest = (2 if dense and fitted[-1] > half else 1) * UNSETTLED_ORDER  # one that holds 0 says nothing
    return Fit(orders, constant, half if half > longest else 0.0)


def _least_misfit(
    depths: np.ndarray, products: np.ndarray, above: np.ndarray, most: float, near: float
) -> tuple[float, float]:
    """Return the exponent at the minimum of the misfit next to `near`, and the misfit there.

    The misfit is relative to the deepest difference.
    """
    ratio = depths / depths[-1]

    def misfit(r: float) -> float:
        # In units of a difference that falls like L^-r, so that small errors do not win by being small.
        weight = ratio**r
        columns = np.stack([np.ones(len(depths)), *(ratio**-power for power in above)], axis=1)
        away = (np.eye(len(depths)) - columns @ solution(columns, np.ones(len(depths)))) * weight
        return float(np.log(max(np.einsum("ij,jk,ik->", away, products, away), 1e-300)))

    grid = np.linspace(0.0, max(most, 1.0), 121)
    values = np.array([misfit(r) for r in grid])
    padded = np.concatenate([[np.inf], values, [np.inf]])
    minima = np.nonzero((values <= padded[:-2]) & (values <= padded[2:]))[0]
    at = int(minima[np.argmin(np.abs(grid[minima] - near))])
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(misfit, bounds=(low, high), method="bounded", options={"xatol": 1e-6})
    return float(found.x), float(np.exp(0.5 * found.fun))
