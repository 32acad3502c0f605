"""A user's own limit: a torchsde-style SDE or a torchdiffeq-style function, checked once and read as a `Limit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deeplimit.limits.equations import Limit, ODELimit, SDELimit, VectorField
from deeplimit.processes import FunctionPath

_SDE_METHODS = ("g", "g_prod", "f_and_g", "f_and_g_prod")


@dataclass(frozen=True)
class UserSDE(SDELimit):
    """A torchsde object: f with g or g_prod, or f_and_g, or f_and_g_prod; Itô; any noise type."""

    sde: Any
    noise_type: str

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
            return int(self._drift_and_diffusion(torch.zeros((), dtype=h.dtype, device=h.device), h)[1].shape[-1])
        return None

    def euler_step(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
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
        result: Tensor = h + drift * step + product
        return result


@dataclass(frozen=True)
class UserODE(ODELimit):
    """A torchdiffeq function f(t, h)."""

    function: Callable[..., Tensor]

    @property
    def equation(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"the user's ODE dH = {name}(t, H) dt"

    def bind(self, paths: tuple[FunctionPath, ...]) -> VectorField:
        return self.function


def read_limit(limit: object, h: Tensor) -> Limit:
    """Return `limit` as a Limit, tried once on the states `h` (P, d).

    Raises TypeError if it is neither kind or returns no tensors, ValueError for Stratonovich equations, wrong shapes,
    or values that are not finite.
    """
    if isinstance(limit, Limit):
        return limit
    if any(hasattr(limit, name) for name in ("sde_type", "noise_type", *_SDE_METHODS)):
        result: Limit = _read_sde(limit, h)
    elif callable(limit):
        _check_ode(limit, h)
        result = UserODE(limit)
    else:
        raise TypeError(
            "limit must be a torchsde-style object (f, g or g_prod, sde_type, noise_type), a torchdiffeq-style function "
            f"f(t, h), or one of the library's own limits; got {limit!r} of type {type(limit).__name__}."
        )
    return result


def _read_sde(sde: Any, h: Tensor) -> UserSDE:
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
            f"limit {name} is a Stratonovich equation; the limits of Propositions 11 and 12 are Itô equations. Add the "
            "Itô correction ½ Σ_j (∂g_j) g_j to its drift and set sde_type = 'ito'."
        )
    has_drift = any(hasattr(sde, method) for method in ("f", "f_and_g", "f_and_g_prod"))
    has_diffusion = any(hasattr(sde, method) for method in _SDE_METHODS)
    if not has_drift or not has_diffusion:
        missing = "a drift (f)" if not has_drift else "a diffusion (g or g_prod)"
        raise TypeError(f"limit {name} is a torchsde-style object without {missing}; add that method.")
    result = UserSDE(sde, str(sde.noise_type))
    size = result.noise_size(h)
    if size is not None:
        noise = torch.zeros(h.shape[0], size, dtype=h.dtype, device=h.device)
        _check_states(f"limit {name}", result.euler_step(0.0, 0.0, h, noise), h)
    return result


def _check_ode(function: Callable[..., Any], h: Tensor) -> None:
    name = getattr(function, "__name__", type(function).__name__)
    with torch.no_grad():
        value = function(torch.zeros((), dtype=h.dtype, device=h.device), h)
    _check_states(f"limit {name}(t, h)", value, h)


def _check_states(what: str, value: object, h: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{what} must return a tensor of shape {tuple(h.shape)}, got {type(value).__name__}.")
    if value.shape != h.shape:
        raise ValueError(f"{what} must return shape (paths, width) = {tuple(h.shape)}, got {tuple(value.shape)}.")
    if value.dtype != h.dtype:
        raise ValueError(f"{what} must keep the states' dtype {h.dtype}, got {value.dtype}; pass dtype={value.dtype}.")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"{what} is not finite at t = 0 on the given inputs.")
