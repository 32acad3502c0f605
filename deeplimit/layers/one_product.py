"""Whether a residual needs of its one weight matrix nothing but one product: tried on states, not presumed.

Then the product can be drawn in place of the matrix: d normals for d². The residual itself is asked, twice a
layer: what it multiplies, and what it makes of the product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from deeplimit.driving import Layer

Residual = Callable[..., Any]
Activation = Callable[[Tensor], Tensor]
STATES, SIZES = 3, (0.1, 1.0, 30.0)
"""Paths of a trial, and how large their states are: small ones, and some far along a bent function."""
AGREES = 1e-12
"""Relative error up to which a residual of a product is that of the matrix, in float64."""
DEPTH = 7
"""Depth of the layer that is tried: no power of 2, so that a wrong power of the depth shows."""
INSTEAD = "coupling='pathwise' draws whole matrices."
SCALES = {
    torch.ops.aten.mul.Tensor,
    torch.ops.aten.mul.Scalar,
    torch.ops.aten.div.Tensor,
    torch.ops.aten.div.Scalar,
}
"""Operations that multiply all entries by one number, where the other factor is one."""


class Form(Enum):
    """The forms of a residual that compiled loops and kernels know."""

    LINEAR = "α V σ(h)"
    BRANCH = "α σ(W h + b)"


@final
@dataclass(frozen=True)
class OneProductForm:
    """What is known of a residual with one product; the form is None where it is another one."""

    form: Form | None


class _AskedError(BaseException):
    """Carries the vector that a residual multiplies; no `except Exception` of the residual takes it."""

    def __init__(self, vector: Tensor) -> None:
        self.vector = vector


def _ask(vector: Tensor) -> Tensor:
    raise _AskedError(vector)


def operand_of(residual: Residual, h: Tensor, layer: Layer, exponent: float) -> Tensor:
    """Return the vector (P, d) that a residual multiplies with its one weight.

    Raises:
        ValueError: For a residual that multiplies nothing.
    """
    try:
        residual(h, (replace(layer, values=None, product_of=_ask),), exponent)
    except _AskedError as asked:
        return asked.vector
    raise ValueError(
        f"the residual multiplies no vector by its weight at this state, and did at others. {INSTEAD}"
    )


def residual_of(residual: Residual, h: Tensor, product: Tensor, layer: Layer, exponent: float) -> Tensor:
    """Return the residual (P, d), given the unscaled product of its one weight.

    Raises:
        ValueError: For a residual that asks for another number of products than one.
    """
    asked = 0

    def given(vector: Tensor) -> Tensor:
        nonlocal asked
        asked += 1
        return product

    added: Tensor = residual(h, (replace(layer, values=None, product_of=given),), exponent)
    if asked != 1:
        raise ValueError(
            f"the residual asks for {asked} products at this state, and for one at others. {INSTEAD}"
        )
    return added


@torch.no_grad()
def one_product(residual: Residual, activation: Activation, width: int) -> OneProductForm | None:
    """Return what is known of a residual that needs one product of its one d x d matrix; None for others.

    Tried on a few states of several sizes; a residual that reads the matrix finds none. It has a form where
    it makes that one's operations on tensors, and no others but factors, with the same results.
    """
    stream = torch.Generator().manual_seed(0)
    forms = set(Form)
    for size in SIZES:
        h = size * torch.randn(STATES, width, generator=stream, dtype=torch.float64)
        matrix = torch.randn(STATES, width, width, generator=stream, dtype=torch.float64)
        layer = Layer(matrix, DEPTH, 0.0, width**-0.5)
        try:
            with _Operations() as before:
                vector = operand_of(residual, h, layer, 0.5)
            product = layer.product(vector)
            with _Operations() as after:
                added = residual_of(residual, h, product, layer, 0.5)
            of_matrix = residual(h, (layer,), 0.5)
        except Exception:  # noqa: BLE001  # a residual may do anything with a matrix that is not there
            return None
        if vector.shape != h.shape or not _same(added, of_matrix):
            return None
        with _Operations() as bend:
            bent = activation(h)
        linear = layer.scale(0.5) * product
        branch = DEPTH**-0.5 * activation(layer.scale() * product)
        if not before.made == after.made == bend.made or not (_same(vector, bent) and _same(added, linear)):
            forms.discard(Form.LINEAR)
        if (before.made, after.made) != ([], bend.made) or not (_same(vector, h) and _same(added, branch)):
            forms.discard(Form.BRANCH)
    return OneProductForm(next(iter(forms), None))


def _same(one: Any, other: Tensor) -> bool:
    most = AGREES * max(float(other.abs().max()), 1.0)
    return (
        isinstance(one, Tensor)
        and one.shape == other.shape
        and torch.allclose(one, other, rtol=AGREES, atol=most)
    )


class _Operations(TorchDispatchMode):
    """Writes down the operations on tensors, but for products with one number."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # to skip what nobody here compiles would load 900 modules

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in SCALES or (isinstance(args[1], Tensor) and args[1].ndim > 0):
            self.made.append(func)
        return func(*args, **(kwargs or {}))
