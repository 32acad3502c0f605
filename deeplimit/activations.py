"""Activations with what the theorems ask of them: Lipschitz constant, σ(0), σ'(0), σ''(0).

A name looks up a tabulated activation; a callable is probed once at construction, because a theorem that needs a
Lipschitz σ must refuse x**2 by name rather than overflow later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Activation:
    """An elementwise activation σ with its values at zero.

    `lipschitz` is the global Lipschitz constant, or None where it is not known (a user's callable: growth is probed,
    the constant is not). `slope` is σ'(0) and `curvature` σ''(0); None where they do not exist or are not known.
    """

    name: str
    function: Callable[[Tensor], Tensor] = field(repr=False)
    lipschitz: float | None = None
    at_zero: float = 0.0
    slope: float | None = None
    curvature: float | None = None

    def __call__(self, x: Tensor) -> Tensor:
        return self.function(x)


def _identity(x: Tensor) -> Tensor:
    return x


_NAMED = {
    entry.name: entry
    for entry in (
        Activation("identity", _identity, 1.0, 0.0, 1.0, 0.0),
        Activation("tanh", torch.tanh, 1.0, 0.0, 1.0, 0.0),
        Activation("sin", torch.sin, 1.0, 0.0, 1.0, 0.0),
        Activation("erf", torch.erf, 2 / math.sqrt(math.pi), 0.0, 2 / math.sqrt(math.pi), 0.0),
        Activation("relu", functional.relu, 1.0),
        Activation("leaky_relu", functional.leaky_relu, 1.0),
        Activation("elu", functional.elu, 1.0, 0.0, 1.0),
        Activation("softplus", functional.softplus, 1.0, math.log(2.0), 0.5, 0.25),
        Activation("sigmoid", torch.sigmoid, 0.25, 0.5, 0.25, 0.0),
        Activation("silu", functional.silu, 1.0998, 0.0, 0.5, 0.5),
        Activation("gelu", functional.gelu, 1.1290, 0.0, 0.5, 2 / math.sqrt(2 * math.pi)),
    )
}
NAMES = tuple(sorted(_NAMED))
"""The names that `activation=` accepts."""


def resolve(activation: str | Callable[[Tensor], Tensor] | Activation) -> Activation:
    """Return the Activation for a name or a callable.

    Raises TypeError if it is neither, or if the callable does not return a tensor of its input's shape and dtype;
    ValueError for an unknown name, a callable that is not finite, or one that grows faster than linearly. Smoothness of
    a callable is NOT checked.
    """
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str):
        if activation not in _NAMED:
            raise ValueError(f"activation {activation!r} is not known; use one of {', '.join(NAMES)}, or pass a callable.")
        return _NAMED[activation]
    if isinstance(activation, type):
        raise TypeError(f"activation {activation.__name__} is a class; pass an object: {activation.__name__}().")
    if not callable(activation):
        raise TypeError(
            f"activation must be a name ({', '.join(NAMES)}) or a callable on tensors; got {activation!r} of type "
            f"{type(activation).__name__}."
        )
    return _probe(activation)


def _probe(function: Callable[[Tensor], Tensor]) -> Activation:
    name = getattr(function, "__name__", type(function).__name__)
    probe = torch.tensor([[-1e6, -1e3, -1.0, 0.0], [1e6, 1e3, 1.0, 0.5]], dtype=torch.float64)
    given = probe.clone()
    try:
        with torch.no_grad():
            value = function(given)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise TypeError(
            f"activation {name!r} must map a tensor to a tensor of the same shape and dtype, elementwise; on shape "
            f"{tuple(probe.shape)}, {probe.dtype} it failed: {error}."
        ) from error
    if not torch.equal(given, probe):
        raise ValueError(
            f"activation {name!r} works in place and changes the states it is given; use one that returns a new tensor."
        )
    if not isinstance(value, Tensor) or value.shape != probe.shape or value.dtype != probe.dtype:
        got = f"shape {tuple(value.shape)}, {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(
            f"activation {name!r} must map a tensor to a tensor of the same shape and dtype, elementwise; for shape "
            f"{tuple(probe.shape)}, {probe.dtype} it returned {got}."
        )
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"activation {name!r} must be finite, but is not at {probe[~torch.isfinite(value)].tolist()}.")
    with torch.no_grad():
        alone = function(probe[:, :1].clone())
    if alone.shape != (2, 1) or not torch.allclose(alone, value[:, :1]):
        raise ValueError(f"activation {name!r} must act elementwise, but an entry's value depends on the entries beside it.")
    growth = (value[:, 0].abs() / (1e3 * (1.0 + value[:, 1].abs()))).max().item()
    if growth > 10.0:
        raise ValueError(
            f"activation {name!r} grows faster than linearly (from |x| = 1e3 to 1e6 it grows {1e3 * growth:.3g}-fold), "
            "so it is not Lipschitz; Propositions 11 and 12 of Marion et al. (2025) need a Lipschitz σ."
        )
    return Activation(name, function, at_zero=value[0, 3].item())
