"""What a recursion must say and return, checked when a network is made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.randomness import kept
from deeplimit.driving import Layer, Shape

MOST_NUMBERS = 2**22
"""Residuals with larger weights are not tried, so that making a network stays cheap."""


def check_written(name: str, text: str, write: Callable[[], str], letters: str) -> None:
    """Raise ValueError for a formula that `write` cannot write out, such as one with an unknown letter."""
    try:
        write()
    except KeyError as error:
        wrong = f"the letter {error.args[0]!r} is unknown"
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        wrong = str(error)
    else:
        return
    raise ValueError(
        f"{name}={text!r} cannot be written out: {wrong}. Only {letters} are filled in; write every other"
        " letter as it is, and double literal braces or %."
    )


def check_shapes(owner: str, weights: Any, sizes: Mapping[str, int]) -> None:
    """Raise ValueError for two weights of one name, and for a letter of a shape that has no number."""
    names = [weight.name for weight in weights]
    if len(set(names)) < len(names):
        raise ValueError(f"recursion {owner} has weights of one name, {', '.join(names)}; give each another.")
    for weight in weights:
        for letter in weight.shape.split():
            if letter not in sizes:
                raise ValueError(
                    f"recursion {owner} has the weight {weight.name} of shape {weight.shape!r}, but"
                    f" sizes() gives {letter!r} no number; its letters are {', '.join(map(repr, sizes))}."
                )


def check_residual(
    owner: str, residual: Callable[..., Any], state: Shape, weights: tuple[Shape, ...], has_bias: bool
) -> None:
    """Try a residual on ones, on the CPU, for two paths; raise TypeError or ValueError in words.

    Args:
        owner: the recursion's name, for the message.
        residual: the method of the recursion.
        state: the shape of one state.
        weights: the shape of each weight.
        has_bias: whether layers carry a bias.
    """
    sizes = [math.prod(shape) for shape in (state, *weights)]
    if max(sizes) > MOST_NUMBERS:
        return
    paths = 3 if state[:1] == (2,) else 2  # so that a transposed result is told apart
    shape = (paths, *state)
    try:
        added = _tried(residual, shape, weights, has_bias)
    except Exception as error:
        kind = TypeError if type(error) is TypeError else ValueError
        raise kind(
            f"recursion {owner} has a residual that cannot be called: on states h of shape {shape} and"
            f" weights of shapes {[(paths, *one) for one in weights]} it raised {type(error).__name__}:"
            f" {str(error)[:160].rstrip('.')}. deeplimit.testing.check_recursion names what it breaks."
        ) from error
    if not isinstance(added, Tensor):
        raise TypeError(
            f"recursion {owner} has a residual that returns {validation.named(added)}; return a tensor of"
            f" the shape of the states, here {shape}."
        )
    if tuple(added.shape) != shape:
        raise ValueError(
            f"recursion {owner} has a residual of shape {tuple(added.shape)} for states h of shape {shape}:"
            " return what the layer adds to h, one number for each of its entries."
        )


@torch.no_grad()
def _tried(residual: Callable[..., Any], shape: Shape, weights: tuple[Shape, ...], has_bias: bool) -> Any:
    """Return the residual in float64, or in float32 where float64 raises, as constants may have either."""
    for dtype in (torch.float64, torch.float32):
        h = torch.ones(shape, dtype=dtype, device="cpu")
        layers = tuple(_ones(shape[0], one, has_bias, dtype) for one in weights)
        try:
            with kept():
                return residual(h, layers, 1.0)
        except Exception:
            if dtype is torch.float32:
                raise
    return None


def _ones(paths: int, shape: Shape, has_bias: bool, dtype: torch.dtype) -> Layer:
    """Return a layer of depth 2 whose weight (P, *shape) and bias (P, d) hold ones."""
    one = torch.ones((), dtype=dtype, device="cpu")
    bias = one.expand(paths, shape[0]) if has_bias and shape else None
    return Layer(one.expand(paths, *shape), 2, 0.0, 1.0, bias)
