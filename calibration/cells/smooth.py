"""Weights that are smooth in depth, fractional or recorded: ODEs and Young equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import deeplimit as dl
from calibration.cell import Cell, Converging
from calibration.cells.independent import IDENTITY, in_words
from calibration.cells.trends import turning

SMOOTH, YOUNG, RECORDED = "Proposition 12", "Young equation", "Recorded weights"
DEPTHS = (16, 32, 64, 128, 256)


def cells() -> Iterator[Cell]:
    """Yield the cells of smooth, fractional and recorded weights."""
    yield _smooth(dl.res1(8, "tanh", weights=dl.SmoothGaussian(0.1)), "res1, tanh, d = 8, length 0.1")
    yield _smooth(dl.res1(8, "relu", weights=dl.SmoothGaussian(0.3)), "res1, relu, d = 8, length 0.3")
    yield _smooth(dl.res1(8, "tanh", weights=dl.SmoothGaussian(0.05)), "res1, tanh, d = 8, length 0.05")
    yield _smooth(dl.res2(4, "tanh", weights=dl.SmoothGaussian(0.1)), "res2, tanh, d = 4, length 0.1")
    yield _smooth(dl.res3(4, weights=dl.SmoothGaussian(0.1)), "res3, d = 4, length 0.1")
    yield Cell(SMOOTH, "res1, tanh, d = 4, given trend", _given)
    quick: dict[str, Any] = {"depths": [8, 16, 32, 64], "paths": 50}
    network = dl.res1(2, "tanh", weights=dl.SmoothGaussian(0.3))
    yield _smooth(network, f"res1, tanh, d = 2, length 0.3{in_words(quick)}", quick=True, **quick)
    kept = dl.res1(8, "tanh", weights=dl.SmoothGaussian(0.1), exponent=1.5)
    yield Cell(IDENTITY, "tanh res1, d = 8, smooth, β = 1.5", lambda seed: Converging(kept, 0.5))
    for hurst in (0.6, 0.7, 0.85):
        yield _young(hurst, modified=False)
    yield _young(0.7, modified=True)
    yield Cell(YOUNG, "res1, H from 0.55 to 0.95, d from 1 to 8", _mixed_young)
    yield Cell(RECORDED, "res1, tanh, d = 4, constant", recorded(lambda t: 1.0))
    yield Cell(RECORDED, "res1, tanh, d = 4, turning", recorded(lambda t: 1.0 + np.sin(3 * t)))


def _smooth(network: Any, name: str, *, quick: bool = False, **settings: Any) -> Cell:
    return Cell(SMOOTH, name, lambda seed: Converging(network, 1.0, settings=settings), quick=quick)


def _given(seed: int) -> Converging:
    matrix = turning(4, 0.5, seed).A
    return Converging(dl.res1(4, "tanh", weights=dl.Trend(matrix)), 1.0, settings={"paths": 100})


def _order(hurst: float, *, modified: bool) -> float:
    """Return the order by Hu, Liu and Nualart (2016) of Euler's scheme and of the modified one."""
    return min(2 * hurst - 0.5, 1.0) if modified else 2 * hurst - 1.0


def _young(hurst: float, *, modified: bool) -> Cell:
    make = dl.modified_res1 if modified else dl.res1
    network = make(4, "tanh", weights=dl.FractionalBrownian(hurst))
    truth, name = _order(hurst, modified=modified), f"{make.__name__}, tanh, d = 4, H = {hurst:g}"
    return Cell(YOUNG, name, lambda seed: Converging(network, truth))


def _mixed_young(seed: int) -> Converging:
    choice = np.random.default_rng(seed)
    hurst, width = float(choice.uniform(0.55, 0.95)), int(choice.integers(1, 9))
    network = dl.res1(
        width, str(choice.choice(["tanh", "sin", "identity"])), weights=dl.FractionalBrownian(hurst)
    )
    return Converging(network, _order(hurst, modified=False))


def recorded(
    profile: Callable[[float], float], factor: float = 1.0, right: str = "converges"
) -> Callable[[int], Converging]:
    """Return weights recorded at the default depths: a random matrix times a function of time, over L.

    Args:
        profile: the function of time.
        factor: of the limit's weights; 1 for the right limit.
        right: the true verdict.
    """

    def make(seed: int) -> Converging:
        draws = torch.Generator().manual_seed(seed)
        matrix = 0.5 * torch.randn(4, 4, generator=draws, dtype=torch.float64)
        stacks = {
            depth: torch.stack([profile((k + 1) / depth) * matrix / depth for k in range(depth)])
            for depth in DEPTHS
        }
        network = dl.res1(4, "tanh", weights=dl.Recorded(stacks), exponent=0.0)

        def limit(t: Any, h: torch.Tensor) -> torch.Tensor:
            return factor * profile(float(t)) * torch.tanh(h) @ matrix.T.to(h.dtype)

        truth = 1.0 if factor == 1.0 else float("nan")
        return Converging(network, truth, limit, (right,), {"paths": 100, "depths": list(DEPTHS)})

    return make
