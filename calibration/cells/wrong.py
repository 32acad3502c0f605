"""Limits that are wrong by a known amount: which amount is caught."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

import deeplimit as dl
from calibration.cell import DIVERGES, Cell, Converging, InLaw, Trial
from calibration.cells.smooth import recorded
from deeplimit.equations import IsotropicSDE
from deeplimit.papers.cases.noises import covariances
from deeplimit.papers.cases.trends import mixing, push, weak, weak_push
from deeplimit.papers.cases.wrong_limits import (
    AlteredSDE,
    neural_ode_of,
    quadratic_without_cross_term,
    stratonovich_drift,
    tanh_derivative,
    with_noise_scaled,
    with_other_quadratic,
)

GROUP, CALLS = "Wrong limits in default calls", 40
TINY_SIZES = (0.0002, 0.0005)
SMALL_SIZES = (0.0003, 0.001, 0.003)
SIZES = (0.005, 0.01, 0.02)
LARGE_SIZES = (0.02, 0.05)
ROUGH_SIZES = (0.02, 0.05, 0.1)
IN_LAW = (0.05, 0.1)
TOLERANCE = 0.1
"""Default of `compare_laws`; "same law" claims that differences are less, in standard deviations."""
SHARES = (0.1, 0.25, 0.5)

Alter = Callable[[Any, float], Any]
"""A function of the right limit and a size that returns the wrong limit."""


def cells() -> Iterator[Cell]:
    """Yield a cell per family and size."""
    yield from _independent()
    yield from _trends()
    yield from _diffusions()
    yield from _others()


def _family(
    family: str, network: Any, alter: Alter, sizes: tuple[float, ...], **settings: Any
) -> Iterator[Cell]:
    for size in sizes:
        yield _cell(family, size, _comparison(network, alter, size, settings))


def _cell(family: str, size: float, make: Callable[[int], Trial]) -> Cell:
    return Cell(GROUP, f"{family}: {size:g}", make, size=size, family=family, calls=CALLS)


def _comparison(
    network: Any, alter: Alter, size: float, settings: dict[str, Any]
) -> Callable[[int], Converging]:
    limit, chosen = alter(network.limit(), size), {"depths": "auto", "paths": "auto", **settings}
    return lambda seed: Converging(network, math.nan, limit, (DIVERGES,), chosen)


def _diffusion(sde: Any, size: float) -> Any:
    return AlteredSDE(sde, diffusion_scale=1 + size)


def _drift(sde: Any, size: float) -> Any:
    return AlteredSDE(sde, drift=lambda h: size * torch.ones_like(h))


def _stratonovich(sde: Any, size: float) -> Any:
    whole = stratonovich_drift(sde, tanh_derivative)
    return AlteredSDE(sde, drift=lambda h: size * whole(h))


def _independent() -> Iterator[Cell]:
    for width, activation in ((6, "tanh"), (40, "tanh"), (6, "relu")):
        name = f"diffusion × (1 + size), res1, {activation}, d = {width}"
        yield from _family(name, dl.res1(width, activation), _diffusion, TINY_SIZES)
    name = "drift of this size, res1, tanh, d = 4"
    yield from _family(name, dl.res1(4, "tanh"), _drift, TINY_SIZES)
    for width in (4, 16):
        name = f"Stratonovich's drift times size, res1, tanh, d = {width}"
        yield from _family(name, dl.res1(width, "tanh"), _stratonovich, LARGE_SIZES)
    quick = _comparison(dl.res1(6, "tanh"), _diffusion, 0.2, {"depths": [8, 16, 32, 64], "paths": 256})
    name = "diffusion × 1.2, res1, tanh, d = 6, depths 8 … 64, 256 paths"
    yield Cell(GROUP, name, quick, size=0.2, quick=True, calls=CALLS)


def _slope(limit: Any, size: float) -> Any:
    return dataclasses.replace(limit, slope=limit.slope * (1 + size))


def _shift(limit: Any, size: float) -> Any:
    trend = limit.trend
    return dataclasses.replace(limit, trend=dl.Trend(trend.A, lambda t: trend.b(t) + size))


def _trends() -> Iterator[Cell]:
    trend = dl.Trend(mixing, push)
    for activation, alpha in (("tanh", 0.5), ("scaled_silu", 0.5), ("tanh", 0.7)):
        network = dl.inner(4, activation, trend=trend, alpha=alpha, beta=round(1 - alpha, 6))
        setting = f"Theorem 4.3, {activation}, α = {alpha:g}"
        yield from _family(f"slope of σ × (1 + size), {setting}", network, _slope, SMALL_SIZES)
        yield from _family(f"trend shifted by size, {setting}", network, _shift, SMALL_SIZES)
        ode = _comparison(network, lambda _, __, of=network: neural_ode_of(of), 1.0, {})
        yield Cell(GROUP, f"neural ODE for the linear one, {setting}", ode, size=1.0, calls=CALLS)


def _missing_q(limit: Any, size: float) -> Any:
    return dataclasses.replace(limit, curvature=limit.curvature * (1 - size))


def _stratonovich_of_noise(rate: float) -> Alter:
    """Add ½ A H: of the products of W^A's entries only squares on the diagonal have a mean."""

    def alter(limit: Any, size: float) -> Any:
        drift = 0.5 * size * rate * torch.eye(limit.width)
        return dataclasses.replace(limit, trend=dl.Trend(lambda t: drift))

    return alter


def _without_cross_term(limit: Any, size: float) -> Any:
    def quadratic(rate: Any, h: torch.Tensor) -> torch.Tensor:
        whole = rate.quadratic(h)
        missing: torch.Tensor = whole - quadratic_without_cross_term(rate, h)
        return whole - size * missing

    return with_other_quadratic(limit, quadratic)


def _diffusions() -> Iterator[Cell]:
    for width in (4, 8, 16):
        network = dl.inner(width, "tanh", noise=dl.Ito(A=1 / width, b=0.1))
        setting = f"Theorem 4.4, tanh, d = {width}, A = 1/{width}"
        yield from _family(f"slope of σ × (1 + size), {setting}", network, _slope, SIZES)
        alter = _stratonovich_of_noise(1 / width)
        yield from _family(f"Stratonovich's drift times size, {setting}", network, alter, SHARES)
    for activation, width, rate, fraction in (
        ("scaled_silu", 4, 0.04, "0.04"),
        ("scaled_gelu", 4, 0.25, "1/4"),
        ("scaled_gelu", 8, 0.125, "1/8"),
    ):
        network = dl.inner(width, activation, noise=dl.Ito(A=rate, b=0.1))
        name = f"share of ½σ''Q that is missing, Theorem 4.4, {activation}, d = {width}, A = {fraction}"
        yield from _family(name, network, _missing_q, SHARES)
    network = dl.inner(4, "scaled_silu", noise=covariances()["W^A and W^b covary"])
    name = "share of Q's cross term that is missing, Theorem 4.4, scaled_silu, d = 4"
    yield from _family(name, network, _without_cross_term, (*SHARES, 1.0))
    network = dl.inner(4, "tanh", trend=dl.Trend(weak, weak_push), noise=dl.Ito(A=0.04, b=0.1))
    yield from _family("trend shifted by size, Theorem 4.4, tanh, d = 4", network, _shift, LARGE_SIZES)


def _others() -> Iterator[Cell]:
    for size in SMALL_SIZES:
        yield _cell(
            "recorded weights × (1 + size), res1, tanh, d = 4",
            size,
            recorded(lambda t: 1.0, 1 + size, DIVERGES),
        )
    network = dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7))
    name = "noise × (1 + size), Young equation, tanh, d = 4, H = 0.7"
    yield from _family(name, network, lambda limit, size: with_noise_scaled(limit, 1 + size), ROUGH_SIZES)
    for network, setting in (
        (dl.res1(4, "tanh"), "res1, tanh, d = 4"),
        (dl.inner(8, "tanh", noise=dl.Ito(A=1 / 8, b=0.1)), "Theorem 4.4, tanh, d = 8, A = 1/8"),
    ):
        make = _comparison(network, lambda limit, _: dl.Independent(limit), 1.0, {})
        yield Cell(GROUP, f"noise of another path, {setting}", make, size=1.0, calls=CALLS)
    for size in IN_LAW:
        yield _cell("rate × (1 + size), in law, res3, d = 8", size, _in_law(dl.res3(8), size, _faster))
    for size in IN_LAW:
        yield _cell(
            "diffusion × (1 + size), in law, res1, tanh, d = 4",
            size,
            _in_law(dl.res1(4, "tanh"), size, _diffusion),
        )


def _faster(limit: Any, size: float) -> Any:
    return IsotropicSDE(limit.width, rate=limit.rate * (1 + size))


def _in_law(network: Any, size: float, alter: Alter) -> Callable[[int], InLaw]:
    limit = alter(network.limit(), size)
    near = ("same law",) if size < TOLERANCE else ()
    return lambda seed: InLaw(network, limit, ("another law",), tolerated=near)
