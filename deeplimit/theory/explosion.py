"""How likely the limit of Theorem 4.4 explodes before time 1, where its noise is isotropic.

With W^A's entries independent, of variance A, and W^b's of variance b, the covariance rate of the limit is
q = A|H|² + b times the identity, and its drift is ½σ''(0) q times (1, …, 1). In the clock dτ = q dt it is a
Brownian motion with a constant drift. The limit explodes at the time t = ∫ dτ / (A|H|² + b) over all τ, which
is finite, since |H| grows like τ.

For any constant nonsingular covariance of W^A, take dτ = tr S(H) dt, S the covariance rate of H, and Y the
sum of H's entries times the sign of σ''(0). Q is the diagonal of S, so Y drifts by ½|σ''(0)| per unit of τ,
and its variance grows by at most σ'(0)² d. From a large Y = 2K, with positive probability Y ≥ K + |σ''(0)|
τ/8 for all τ. Then tr S ≥ λ Y²/d, with λ > 0, and all τ up to infinity take a time of size 1/K. Noise reaches
Y = 2K early with positive probability, since it moves H in every direction.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

MAY_EXPLODE = (
    "that the limit does not explode: with σ''(0) ≠ 0 its drift is quadratic in H. That it does is proven"
    " where the covariance of W^A is constant and nonsingular; this one is not known to be."
)
WHY_IT_EXPLODES = (
    "Since Q is quadratic in H, and noise moves H in every direction, the limit explodes before time 1 with"
    " positive probability{side}. So E sup‖H‖^p is infinite, and Theorem 4.4 itself does not apply. Stopped"
    " when it leaves a ball, the limit has bounded coefficients. The network therefore tends to it in"
    " probability, up to the time of explosion. The order is that of errors in probability; no moment of"
    " theirs is claimed."
)
HOW_LIKELY = "how likely the limit explodes before time 1."
NEAR = 1 / 64
"""Step in time t, and the square of the relative step in |H|."""
FAR = 1e3
"""|H|, in units of σ'(0)²/σ''(0) and of its start, beyond which only the drift counts."""
PATHS = 10_000
"""Paths from standard normal states: shares above 0.0003 are seen."""


@lru_cache(maxsize=64)
def in_words(width: int, variance: float, bias: float, slope: float, curvature: float) -> str:
    """Return how likely the limit explodes before time 1 from standard normal states (d,), as a sentence."""
    starts = np.random.default_rng(1).standard_normal((PATHS, width))
    share = probability(starts, variance, bias, slope, curvature)
    about = f"{share:.2g}" if round(share * PATHS) >= 3 else f"below {3 / PATHS:g}"
    return (
        f"from standard normal states the limit explodes before time 1 with probability {about} (simulated)."
    )


def probability(
    starts: np.ndarray, variance: float, bias: float, slope: float, curvature: float, seed: int = 0
) -> float:
    """Return the share of paths that explode before time 1, one from each of the starts (P, d).

    The path is exact in the clock, at steps that follow |H|; time is integrated by the trapezoidal rule. With
    P paths a share s has a standard error of √(s(1 - s)/P).

    Args:
        starts: states h_0, not 0.
        variance: A > 0, of the entries of W^A.
        bias: b ≥ 0, of the entries of W^b.
        slope: σ'(0).
        curvature: σ''(0), not 0.
        seed: seed of the paths.
    """
    paths, width = starts.shape
    random = np.random.default_rng(seed)
    # Along (1, …, 1), in the direction of the drift, and across it.
    direction = math.copysign(1.0, curvature) / math.sqrt(width)
    along = starts.sum(axis=1) * direction
    across = np.sqrt(np.maximum((starts**2).sum(axis=1) - along**2, 0.0))
    drift = 0.5 * abs(curvature) * math.sqrt(width)
    far = FAR * np.maximum(slope**2 / drift, np.hypot(along, across))
    time, running = np.zeros(paths), np.arange(paths)
    exploded = 0
    while len(running):
        rate = variance * (along**2 + across**2) + bias
        size = np.sqrt(rate / variance)  # of |H|; with bias noise the rate does not change below √(b/A)
        step = np.minimum(NEAR * np.minimum(rate, (size / slope) ** 2), math.sqrt(NEAR) * size / drift)
        along = along + drift * step + slope * np.sqrt(step) * random.standard_normal(len(step))
        if width > 1:
            moved = across + slope * np.sqrt(step) * random.standard_normal(len(step))
            more = slope**2 * step * random.chisquare(width - 2, len(step)) if width > 2 else 0.0
            across = np.sqrt(moved**2 + more)
        after = variance * (along**2 + across**2) + bias
        time = time + 0.5 * step * (1.0 / rate + 1.0 / after)
        size = np.hypot(along, across)
        rest = 1.0 / (variance * drift * size)
        gone, late = size > far, time >= 1.0
        exploded += int((gone & (time + rest < 1.0)).sum())
        kept = ~(gone | late)
        running, time, far, along, across = (values[kept] for values in (running, time, far, along, across))
    return float(exploded / paths)
