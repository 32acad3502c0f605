"""A user's limit: a torchsde-style SDE or torchdiffeq-style function, checked once, read as a `Limit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.equations.base import Limit
from deeplimit.equations.given import ODE, SDE
from deeplimit.equations.schemes import Noise
from deeplimit.equations.trial import check_noise, checked_call, states_near

_SDE_METHODS = ("g", "g_prod", "f_and_g", "f_and_g_prod")


@dataclass(frozen=True)
class TorchsdeParts:
    """Drift and product of a torchsde object, however it gives them: f and g, f_and_g, or products."""

    sde: Any

    def drift(self, t: Tensor, h: Tensor) -> Tensor:
        """Return the drift (P, d)."""
        if hasattr(self.sde, "f"):
            value: Tensor = self.sde.f(t, h)
            return value
        if hasattr(self.sde, "f_and_g"):
            return self.sde.f_and_g(t, h)[0]  # type: ignore[no-any-return]
        return self.sde.f_and_g_prod(t, h, h.new_zeros(len(h), self.motions(h)))[0]  # type: ignore[no-any-return]

    def product(self, t: Tensor, h: Tensor, noise: Tensor) -> Tensor:
        """Return the diffusion times increments (P, Brownian motions), as (P, d)."""
        if hasattr(self.sde, "f_and_g_prod"):
            return self.sde.f_and_g_prod(t, h, noise)[1]  # type: ignore[no-any-return]
        if hasattr(self.sde, "g_prod"):
            return self.sde.g_prod(t, h, noise)  # type: ignore[no-any-return]
        diffusion = self.sde.g(t, h) if hasattr(self.sde, "g") else self.sde.f_and_g(t, h)[1]
        if self.sde.noise_type == Noise.DIAGONAL:
            return diffusion * noise  # type: ignore[no-any-return]
        return torch.bmm(diffusion, noise.unsqueeze(-1)).squeeze(-1)

    def motions(self, h: Tensor) -> int:
        """Return the number of Brownian motions: its columns, or d² where only a product is known."""
        if self.sde.noise_type == Noise.DIAGONAL:
            return h.shape[1]
        if self.sde.noise_type == Noise.SCALAR:
            return 1
        time = torch.zeros((), dtype=h.dtype, device=h.device)
        for method, place in (("g", None), ("f_and_g", 1)):
            if hasattr(self.sde, method):
                got = getattr(self.sde, method)(time, h)
                return int((got if place is None else got[place]).shape[-1])
        return h.shape[1] ** 2


def read_limit(limit: object, h: Tensor, driven: int | None) -> Limit:
    """Return `limit` as a Limit, tried once on the states `h` (P, d).

    `driven` is the number of Brownian motions that the network is driven by; None where the limit brings
    its own.

    Raises TypeError if it is neither kind, takes other arguments or returns no tensors; ValueError for
    Stratonovich equations, wrong shapes or dtypes, or values that are not finite.
    """
    if isinstance(limit, Limit):
        limit.try_on(h)
        return limit
    if isinstance(limit, type):
        raise TypeError(f"limit {limit.__name__} is a class; make an object: {limit.__name__}(...).")
    if any(hasattr(limit, name) for name in ("sde_type", "noise_type", *_SDE_METHODS)):
        return _read_sde(limit, h, driven)
    if callable(limit):
        name = getattr(limit, "__name__", type(limit).__name__)
        time = torch.zeros((), dtype=h.dtype, device=h.device)
        checked_call(f"limit {name}(t, h)", lambda: limit(time, h), h, tuple(h.shape))
        return ODE(limit)
    got = (
        f"a tensor of shape {tuple(limit.shape)}; inputs go in x="
        if isinstance(limit, Tensor)
        else validation.named(limit)
    )
    raise TypeError(
        "limit must be a torchsde-style object (f, g or g_prod, sde_type, noise_type), a torchdiffeq-style"
        f" function f(t, h), or one of the library's own limits, such as network.limit(); got {got}."
    )


def _read_sde(sde: Any, h: Tensor, driven: int | None) -> SDE:
    name = type(sde).__name__
    for attribute, allowed in (
        ("sde_type", ("ito", "stratonovich")),
        ("noise_type", ("general", "diagonal", "scalar", "additive")),
    ):
        value = getattr(sde, attribute, None)
        if value not in allowed:
            raise ValueError(f"limit {name}.{attribute} must be one of {', '.join(allowed)}; got {value!r}.")
    if not any(hasattr(sde, method) for method in ("f", "f_and_g", "f_and_g_prod")):
        raise TypeError(f"limit {name} is a torchsde-style object without a drift (f); add that method.")
    if not any(hasattr(sde, method) for method in _SDE_METHODS):
        raise TypeError(
            f"limit {name} is a torchsde-style object without a diffusion (g or g_prod); add that method."
        )
    _try_sde(sde, sde.noise_type, h, driven)
    parts = TorchsdeParts(sde)
    motions = parts.motions(h)
    if driven is not None and not any(hasattr(sde, method) for method in ("g", "f_and_g")):
        motions = driven if sde.noise_type == Noise.GENERAL else motions
    equation = SDE(
        parts.drift, parts.product, sde.noise_type, None, sde.sde_type, motions, f"the user's SDE {name}"
    )
    check_noise(equation, states_near(h), motions)
    return equation


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
        checked_call(
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
