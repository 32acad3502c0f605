"""A user's limit: a torchsde-style SDE or torchdiffeq-style function, checked once, read as a `Limit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.driving import SampledFunction
from deeplimit.equations.base import Limit, ODELimit, SDELimit, VectorField

_SDE_METHODS = ("g", "g_prod", "f_and_g", "f_and_g_prod")


@final
@dataclass(frozen=True)
class UserSDE(SDELimit):
    """A torchsde object: f with g or g_prod, or f_and_g, or f_and_g_prod; Itô; any noise type."""

    sde: Any
    noise_type: str
    is_drawable: ClassVar[bool] = True

    @property
    def equation(self) -> str:
        return f"the user's SDE {type(self.sde).__name__} (Itô, {self.noise_type} noise)"

    def _drift_and_diffusion(self, time: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        if hasattr(self.sde, "f_and_g"):
            drift, diffusion = self.sde.f_and_g(time, h)
            return drift, diffusion
        return self.sde.f(time, h), self.sde.g(time, h)

    def noise_size(self, h: Tensor) -> int | None:
        if self.noise_type == "diagonal":
            return h.shape[1]
        if self.noise_type == "scalar":
            return 1
        if hasattr(self.sde, "g") or hasattr(self.sde, "f_and_g"):
            return int(
                self._drift_and_diffusion(torch.zeros((), dtype=h.dtype, device=h.device), h)[1].shape[-1]
            )
        return None

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        at = torch.as_tensor(time, dtype=h.dtype, device=h.device)
        if hasattr(self.sde, "f_and_g_prod"):
            drift, product = self.sde.f_and_g_prod(at, h, noise)
        elif hasattr(self.sde, "f") and hasattr(self.sde, "g_prod"):
            drift, product = self.sde.f(at, h), self.sde.g_prod(at, h, noise)
        else:
            drift, diffusion = self._drift_and_diffusion(at, h)
            if self.noise_type == "diagonal":
                product = diffusion * noise
            else:
                product = torch.bmm(diffusion, noise.unsqueeze(-1)).squeeze(-1)
        result: Tensor = drift * step + product
        return result

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        motions = self.noise_size(h0)
        size = motions if motions is not None else h0.shape[1] ** 2
        noise = torch.empty(len(h0), size, dtype=h0.dtype, device=h0.device)
        h = h0
        times = np.linspace(0.0, 1.0, steps + 1).tolist()
        for start, end in pairwise(times):
            noise.normal_(0.0, (end - start) ** 0.5, generator=generator)
            h = h + self.increment(start, end - start, h, noise)
        return h


@final
@dataclass(frozen=True)
class UserODE(ODELimit):
    """A torchdiffeq function f(t, h)."""

    function: Callable[..., Tensor]

    @property
    def equation(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"the user's ODE dH = {name}(t, H) dt"

    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        return self.function


def read_limit(limit: object, h: Tensor, driven: int | None) -> Limit:
    """Return `limit` as a Limit, tried once on the states `h` (P, d).

    `driven` is the number of Brownian motions that the network is driven by; None where the limit brings
    its own.

    Raises TypeError if it is neither kind, takes other arguments or returns no tensors; ValueError for
    Stratonovich equations, wrong shapes or dtypes, or values that are not finite.
    """
    if isinstance(limit, Limit):
        return limit
    if isinstance(limit, type):
        raise TypeError(f"limit {limit.__name__} is a class; make an object: {limit.__name__}(...).")
    if any(hasattr(limit, name) for name in ("sde_type", "noise_type", *_SDE_METHODS)):
        return _read_sde(limit, h, driven)
    if callable(limit):
        name = getattr(limit, "__name__", type(limit).__name__)
        time = torch.zeros((), dtype=h.dtype, device=h.device)
        _checked(f"limit {name}(t, h)", lambda: limit(time, h), h, tuple(h.shape))
        return UserODE(limit)
    got = (
        f"a tensor of shape {tuple(limit.shape)}; inputs go in x="
        if isinstance(limit, Tensor)
        else validation.named(limit)
    )
    raise TypeError(
        "limit must be a torchsde-style object (f, g or g_prod, sde_type, noise_type), a torchdiffeq-style"
        f" function f(t, h), or one of the library's own limits, such as network.limit(); got {got}."
    )


def _read_sde(sde: Any, h: Tensor, driven: int | None) -> UserSDE:
    name = type(sde).__name__
    for attribute, allowed in (
        ("sde_type", ("ito", "stratonovich")),
        ("noise_type", ("general", "diagonal", "scalar", "additive")),
    ):
        value = getattr(sde, attribute, None)
        if value not in allowed:
            raise ValueError(f"limit {name}.{attribute} must be one of {', '.join(allowed)}; got {value!r}.")
    if sde.sde_type == "stratonovich":
        raise ValueError(
            f"limit {name} is a Stratonovich equation; the limits of Propositions 11 and 12 are Itô"
            " equations. Add the Itô correction ½ Σ_j (∂g_j) g_j to its drift and set sde_type = 'ito'."
        )
    if not any(hasattr(sde, method) for method in ("f", "f_and_g", "f_and_g_prod")):
        raise TypeError(f"limit {name} is a torchsde-style object without a drift (f); add that method.")
    if not any(hasattr(sde, method) for method in _SDE_METHODS):
        raise TypeError(
            f"limit {name} is a torchsde-style object without a diffusion (g or g_prod); add that method."
        )
    result = UserSDE(sde, str(sde.noise_type))
    _try_sde(sde, result.noise_type, h, driven)
    return result


def _try_sde(sde: Any, noise_type: str, h: Tensor, driven: int | None) -> None:
    """Call every method that a step uses, and check each result by itself, since sums would broadcast."""
    name = type(sde).__name__
    if h.ndim > 2:
        raise ValueError(
            f"limit {name} is a torchsde object, which takes states (paths, width), but the network's are"
            f" {tuple(h.shape)}; write a deeplimit.SDELimit, whose increment takes states of any shape."
        )
    paths, width = h.shape
    time = torch.zeros((), dtype=h.dtype, device=h.device)
    motions = {"diagonal": width, "scalar": 1}.get(noise_type, driven if driven is not None else width**2)
    noise = torch.zeros(paths, motions, dtype=h.dtype, device=h.device)
    columns: int | None = motions if noise_type == "scalar" else None
    expected = (paths, width) if noise_type == "diagonal" else (paths, width, columns)

    def part(value: Any, index: int) -> Any:
        return value[index] if isinstance(value, tuple) and len(value) == 2 else None

    def check(method: str, call: Callable[[], Any], shape: tuple[int | None, ...]) -> None:
        _checked(
            f"limit {name}: {method}", call, h, shape, hint=(paths, width, motions) if None in shape else None
        )

    if hasattr(sde, "f_and_g_prod"):
        check(
            "the drift of f_and_g_prod(t, h, v)",
            lambda: part(sde.f_and_g_prod(time, h, noise), 0),
            (paths, width),
        )
        check(
            "the product of f_and_g_prod(t, h, v)",
            lambda: part(sde.f_and_g_prod(time, h, noise), 1),
            (paths, width),
        )
        return
    if hasattr(sde, "f"):
        check("f(t, h)", lambda: sde.f(time, h), (paths, width))
    if hasattr(sde, "f") and hasattr(sde, "g"):
        check("g(t, h)", lambda: sde.g(time, h), expected)
    elif hasattr(sde, "f_and_g"):
        check("the drift of f_and_g(t, h)", lambda: part(sde.f_and_g(time, h), 0), (paths, width))
        check("the diffusion g of f_and_g(t, h)", lambda: part(sde.f_and_g(time, h), 1), expected)
    if hasattr(sde, "f") and hasattr(sde, "g_prod"):
        if hasattr(sde, "g") and noise_type != "diagonal":
            noise = torch.zeros(paths, sde.g(time, h).shape[-1], dtype=h.dtype, device=h.device)
        check("g_prod(t, h, v)", lambda: sde.g_prod(time, h, noise), (paths, width))


def _checked(
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
        raise ValueError(
            f"{what} must be defined on the given inputs; calling it raised {type(error).__name__}: {error}."
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
