"""`stability` in every regime, and `phase_diagram`."""

from __future__ import annotations

import functools

import deeplimit as dl

from .noise import noises
from .shared import SMOOTH, TREND, WIDTH, bent, normal, skewed


def stable(network, **how):
    return dl.stability(network, **{"depths": (8, 24, 72), "draws": 12, **how})


STABILITY = {
    "gaussian-stable": lambda: stable(dl.res3(16), depths=(10, 30, 100, 300), draws=48),
    "gaussian-explosion": lambda: stable(dl.res3(16, exponent=0.25), depths=(10, 40, 160, 640), draws=16),
    "gaussian-identity": lambda: stable(dl.res3(16, exponent=1.0)),
    "gaussian-res1": lambda: stable(dl.res1(12, "relu")),
    "gaussian-res2": lambda: stable(dl.res2(8, "tanh")),
    "gaussian-inner": lambda: stable(dl.inner(8, "tanh", weights=dl.Brownian(), exponent=0.5)),
    "uniform-stable": lambda: stable(
        dl.res3(16, weights=dl.IID("uniform"), exponent=0.5), seed=5, confidence=0.9
    ),
    "uniform-explosion": lambda: stable(dl.res3(16, weights=dl.IID("uniform"), exponent=0.25), delta=0.1),
    "uniform-identity": lambda: stable(dl.res3(16, weights=dl.IID("uniform"), exponent=1.0), x=normal(4, 16)),
    "sampler": lambda: stable(dl.res1(8, "tanh", weights=dl.IID(skewed)), depths=(8, 24)),
    "smooth": lambda: stable(dl.res3(8, weights=SMOOTH), x=normal(4, 6)),
    "smooth-identity": lambda: stable(dl.res3(8, weights=SMOOTH, exponent=2.0)),
    "fractional-explosion": lambda: stable(dl.res3(8, weights=dl.FractionalBrownian(0.8), exponent=0.2)),
    "smooth-explosion": lambda: stable(dl.res1(8, "identity", weights=SMOOTH, exponent=0.5), dtype="float64"),
    "fractional-above-half": lambda: stable(dl.res3(8, weights=dl.FractionalBrownian(0.8))),
    "fractional-below-half": lambda: stable(dl.res1(8, "relu", weights=dl.FractionalBrownian(0.3))),
    "ito": lambda: stable(dl.inner(WIDTH, "scaled_silu", noise=noises()["cross"], trend=TREND)),
    "stochastic-volatility": lambda: stable(dl.inner(WIDTH, "tanh", noise=noises()["auxiliary"])),
    "users-activation": lambda: stable(dl.res1(8, bent, weights=dl.IID("rademacher"))),
    "overflow": lambda: stable(dl.res1(8, "softplus", exponent=0.0), depths=(30, 300), draws=4),
    "one-draw": lambda: stable(dl.res3(8), draws=1),
}

PHASE = {
    "res3": lambda: dl.phase_diagram(
        dl.res3,
        width=12,
        depth=100,
        hurst=[0.3, 0.5, 0.8],
        exponents=[0.2, 0.4, 0.6, 0.8, 1.0, 1.2],
        draws=3,
        inputs=2,
    ),
    "res1-tanh": lambda: dl.phase_diagram(
        functools.partial(dl.res1, activation="tanh"),
        width=8,
        depth=40,
        hurst=[0.7],
        exponents=[0.3, 0.9, 1.4],
        draws=2,
        x=normal(3, 5),
        seed=1,
    ),
}
