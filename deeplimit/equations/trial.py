"""A user's functions, tried on a few states: shapes, dtypes, values, and how noise enters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deeplimit.equations.schemes import Equation, Noise, derivative_along

TRIED = 4
"""States that functions are tried on: a stated structure that fails at none of them is believed."""


def states_near(h: Tensor) -> Tensor:
    """Return a few states (TRIED, *state_shape) like h, near its first row, or near 1 where that is 0."""
    base = h[:1] if bool((h[:1] != 0).any()) else torch.ones_like(h[:1])
    generator = torch.Generator().manual_seed(0)
    shift = torch.rand(TRIED, *h.shape[1:], generator=generator, dtype=torch.float64).to(h)
    return base * (1.0 + 0.2 * shift)


def check_noise(equation: Equation, h: Tensor, motions: int) -> None:
    """Raise ValueError where noise does not enter as `equation.noise_structure` says, at states h (P, d).

    Structures are compared up to the root of round-off. What torch cannot differentiate is believed.
    """
    stated = equation.noise_structure
    generator = torch.Generator().manual_seed(1)
    first, second = (
        torch.randn(len(h), motions, generator=generator, dtype=torch.float64).to(h) for _ in range(2)
    )
    at = equation.diffused(0.0, h, first)
    if _differ(equation.diffused(0.0, h, 2 * first - second), 2 * at - equation.diffused(0.0, h, second)):
        raise ValueError(
            "diffusion(t, h, dB) must be linear in dB, Σ_j g_j(t, h) dB_j; it is not. What does not multiply"
            " dB belongs to drift."
        )
    apart = None
    if stated is Noise.ADDITIVE and _differ(at, equation.diffused(0.0, h.flip(0), first)):
        apart = "its diffusion changes with the state"
    elif stated is Noise.DIAGONAL and motions != h.shape[1]:
        apart = f"it has {motions} Brownian motions for {h.shape[1]} coordinates"
    elif stated is Noise.DIAGONAL and h.shape[1] > 1:
        others = torch.cat([h[:, :1], h.flip(0)[:, 1:]], dim=1)
        noises = torch.cat([first[:, :1], second[:, 1:]], dim=1)
        moved = equation.diffused(0.0, others, noises)
        if _differ(at[:, :1], moved[:, :1]):
            apart = "its first coordinate changes with another state or with another Brownian motion"
    elif stated is Noise.SCALAR and motions != 1:
        apart = f"it has {motions} Brownian motions"
    elif stated is Noise.COMMUTATIVE and not _commutes(equation, h, first, second):
        apart = "(∂g u) g v and (∂g v) g u differ for some increments u and v"
    if apart is not None:
        raise ValueError(
            f"noise={str(stated)!r} is not how noise enters this equation: {apart}. Schemes have their orders"
            " by it; say what holds, or noise='general'."
        )


def check_start(found: Tensor, h: Tensor) -> None:
    """Raise ValueError where what a solution gives at t = 0 is not h, where it starts."""
    if _differ(found, h):
        raise ValueError("solution must return h0 at t = 0, where B is 0; it returns other states.")


def _commutes(equation: Equation, h: Tensor, u: Tensor, v: Tensor) -> bool:
    def along(noise: Tensor, other: Tensor) -> Tensor:
        direction = equation.diffused(0.0, h, other)
        return derivative_along(lambda at: equation.diffused(0.0, at, noise), h, direction)

    try:
        return not _differ(along(u, v), along(v, u))
    except RuntimeError:  # no derivative by torch
        return True


def _differ(a: Tensor, b: Tensor) -> bool:
    close = torch.finfo(a.dtype).eps ** 0.5
    return bool(((a - b).abs() > close * (1.0 + a.abs().max())).any())


def checked_call(
    what: str,
    call: Callable[[], Any],
    h: Tensor,
    shape: tuple[int | None, ...],
    hint: tuple[int, ...] | None = None,
) -> None:
    """Call, and raise in words unless it returns a finite tensor of `shape` (None: any) and of h's dtype."""
    wanted = hint if hint is not None else shape
    names = "(paths, width)" if len(shape) == 2 else "(paths, width, Brownian motions)"
    try:
        with torch.no_grad():
            value = call()
    except TypeError as error:
        raise TypeError(
            f"{what} must take just these arguments, and be f(t, h) for an ODE; calling it raised: {error}. A"
            " module that does not depend on t goes in as lambda t, h: module(h)."
        ) from error
    except Exception as error:
        cast = (
            " Cast what it holds to the dtype of h, as in W.to(h) or module.double(), or choose dtype=."
            if "dtype" in str(error)
            else ""
        )
        raise ValueError(
            f"{what} must be defined on the given inputs; calling it raised {type(error).__name__}: {error}."
            + cast
        ) from error
    if not isinstance(value, Tensor):
        raise TypeError(f"{what} must return a tensor of shape {wanted}, got {type(value).__name__}.")
    if len(value.shape) != len(shape) or any(
        n not in (None, got) for n, got in zip(shape, value.shape, strict=True)
    ):
        raise ValueError(f"{what} must return shape {names} = {wanted}, got {tuple(value.shape)}.")
    if value.dtype != h.dtype:
        advice = (
            f"pass dtype={value.dtype}"
            if value.dtype in (torch.float32, torch.float64)
            else "return what it is given"
        )
        raise ValueError(f"{what} must keep the states' dtype {h.dtype}, got {value.dtype}; {advice}.")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"{what} must be finite at t = 0 on the given inputs, but holds NaN or infinity.")
