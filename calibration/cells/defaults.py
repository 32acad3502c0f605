"""What a user would try first: 36 networks, 89 calls with default settings, all of them right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import deeplimit as dl
from calibration.cell import Cell, Converging, Growing, InLaw, Trial
from calibration.cells.growth import word_at
from deeplimit.papers.cases.trends import mixing, push, rotation, weak, weak_push

GROUP, ADAPTIVE = "Default calls", "Default calls of any size"
COMPARED, LAST, GROWN, LAWS = "compare", "compare, final", "stability", "compare_laws"
PATHWISE = (COMPARED, LAST)
EACH = 5
"""Calls of a network."""


def networks() -> dict[str, tuple[Any, float, tuple[str, ...]]]:
    """Return the networks by name, with the order of `compare` (NaN where there is none) and the calls."""
    smooth, trend, noise = dl.SmoothGaussian(), dl.Trend(mixing, push), dl.Ito(A=0.04, b=0.1)
    both: dict[str, Any] = {"trend": trend, "noise": noise}
    whole, grown = (*PATHWISE, GROWN, LAWS), (*PATHWISE, GROWN)
    return {
        "res1, tanh, d = 8": (dl.res1(8, "tanh"), 0.5, whole),
        "res1, tanh, d = 40": (dl.res1(40, "tanh"), 0.5, whole),
        "res1, gelu, d = 16": (dl.res1(16, "gelu"), 0.5, whole),
        "res1, relu, d = 8": (dl.res1(8, "relu"), 0.5, whole),
        "res1, relu, d = 32": (dl.res1(32, "relu"), 0.5, whole),
        "res1, identity, d = 4": (dl.res1(4, "identity"), 0.5, whole),
        "res1, sin, d = 16": (dl.res1(16, "sin"), 0.5, whole),
        "res1, silu, d = 64": (dl.res1(64, "silu"), 0.5, PATHWISE),
        "res1, tanh, d = 2": (dl.res1(2, "tanh"), 0.5, PATHWISE),
        "res1, softplus, d = 10": (dl.res1(10, "softplus"), 0.5, PATHWISE),
        "res1, elu, d = 8": (dl.res1(8, "elu"), 0.5, PATHWISE),
        "res1, relu, d = 8, β = 0.7": (dl.res1(8, "relu", exponent=0.7), 0.2, grown),
        "res1, tanh, d = 8, β = 1": (dl.res1(8, "tanh", exponent=1.0), 0.5, grown),
        "res3, d = 8, β = 0.8": (dl.res3(8, exponent=0.8), 0.3, grown),
        "res1, tanh, d = 8, smooth": (dl.res1(8, "tanh", weights=smooth), 1.0, PATHWISE),
        "res2, tanh, d = 4, smooth": (dl.res2(4, "tanh", weights=smooth), 1.0, PATHWISE),
        "res3, d = 4, smooth": (dl.res3(4, weights=smooth), 1.0, PATHWISE),
        "inner, sin, d = 4, smooth": (dl.inner(4, "sin", weights=smooth), 1.0, PATHWISE),
        "res1, relu, d = 4, smooth": (dl.res1(4, "relu", weights=smooth), 1.0, PATHWISE),
        "res1, tanh, d = 4, H = 0.7": (dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7)), 0.4, PATHWISE),
        "modified_res1, tanh, d = 4, H = 0.7": (
            dl.modified_res1(4, "tanh", weights=dl.FractionalBrownian(0.7)),
            0.9,
            PATHWISE,
        ),
        "inner, tanh, trend, α = 0.5": (dl.inner(4, "tanh", trend=trend, alpha=0.5, beta=0.5), 1.0, PATHWISE),
        "inner, scaled_softplus, trend, α = 0.5": (
            dl.inner(4, "scaled_softplus", trend=trend, alpha=0.5, beta=0.5),
            0.5,
            PATHWISE,
        ),
        "inner, tanh, rotation, α = 1": (
            dl.inner(2, "tanh", trend=dl.Trend(rotation), alpha=1.0, beta=0.0),
            1.0,
            PATHWISE,
        ),
        "inner, scaled_silu, trend, α = 0.3": (
            dl.inner(4, "scaled_silu", trend=trend, alpha=0.3, beta=0.7),
            0.7,
            PATHWISE,
        ),
        "inner, tanh, trend and noise, α = 0.5": (
            dl.inner(4, "tanh", **both, alpha=0.5, beta=0.5),
            0.5,
            PATHWISE,
        ),
        "inner, sin, trend and noise, α = 0.7": (
            dl.inner(4, "sin", **both, alpha=0.7, beta=0.3),
            0.6,
            PATHWISE,
        ),
        **{
            f"inner, tanh, noise, d = {d}, A = 1/{d}": (
                dl.inner(d, "tanh", noise=dl.Ito(A=1 / d, b=0.1)),
                0.5,
                PATHWISE,
            )
            for d in (8, 16, 40)
        },
        "inner, sin, noise, d = 8, A = 1/8": (
            dl.inner(8, "sin", noise=dl.Ito(A=1 / 8, b=0.1)),
            0.5,
            PATHWISE,
        ),
        "inner, scaled_silu, noise, d = 4": (dl.inner(4, "scaled_silu", noise=noise), 0.5, PATHWISE),
        "inner, tanh, trend and noise, β = 1": (
            dl.inner(4, "tanh", trend=dl.Trend(weak, weak_push), noise=noise),
            0.5,
            PATHWISE,
        ),
        "res3, d = 8": (dl.res3(8), math.nan, (GROWN, LAWS)),
        "res3, uniform, d = 8": (dl.res3(8, weights=dl.IID("uniform")), math.nan, (GROWN, LAWS)),
        "res1, tanh, uniform, d = 4": (
            dl.res1(4, "tanh", weights=dl.IID("uniform")),
            math.nan,
            (GROWN, LAWS),
        ),
    }


def cells() -> Iterator[Cell]:
    """Yield a cell per kind of call, of fixed size and of a size of its own; seeds choose networks."""
    for group, auto in ((GROUP, False), (ADAPTIVE, True)):
        for call in (*PATHWISE, GROWN, LAWS):
            sizes = {"depths": "auto", "paths" if call in PATHWISE else "draws": "auto"} if auto else {}
            trials = [
                _make(net, order, call, sizes) for net, order, calls in networks().values() if call in calls
            ]
            # Seeds are consecutive, so that all networks have their turn.
            yield Cell(group, call, _in_turn(trials), calls=EACH * len(trials))


def _in_turn(trials: list[Callable[[int], Trial]]) -> Callable[[int], Trial]:
    return lambda seed: trials[seed % len(trials)](seed)


def _make(network: Any, order: float, call: str, sizes: dict[str, Any]) -> Callable[[int], Trial]:
    if call == GROWN:
        beta = network.exponent
        return lambda seed: Growing(network, 1 - 2 * beta, (word_at(beta),), sizes)
    if call == LAWS:
        return lambda seed: InLaw(network, settings=sizes)
    settings = sizes if call == COMPARED else {"norm": "final", **sizes}
    return lambda seed: Converging(network, order, settings=settings)
