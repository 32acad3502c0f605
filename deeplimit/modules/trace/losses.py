"""The user's loss of a module's output, checked; and the output that is taken where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from deeplimit.common.validation import named
from deeplimit.modules.trace.batches import outputs

Loss = Callable[[Any], torch.Tensor]
"""A function of a module's output that returns a scalar tensor."""


def check_loss(loss: object) -> None:
    """Raise TypeError for a loss that is neither left out nor a function."""
    if loss is not None and not callable(loss):
        raise TypeError(
            f"loss must be a function of the module's output, got {named(loss)}; pass one that returns a"
            " scalar tensor, such as lambda output: output.square().mean(), or leave it out."
        )


def loss_of(output: Any, loss: Loss) -> torch.Tensor:
    """Return what the loss says of a module's output.

    Raises:
        TypeError: For anything but a tensor of one element that requires a gradient.
        ValueError: For a loss that is NaN or infinite: every gradient and change would be, too.
    """
    value = loss(output)
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
        raise TypeError(
            f"loss must return a tensor of one element that requires a gradient, got {named(value)}; it is"
            " called with the module's output."
        )
    if not bool(torch.isfinite(value.detach()).all()):
        raise ValueError(
            f"loss must be finite, got {float(value.detach())}; look for a logarithm of zero, a division by"
            " zero, or a batch with nan."
        )
    return value


def first_output(model: nn.Module, output: Any) -> torch.Tensor:
    """Return the first tensor of an output that depends on parameters; raise ValueError where none does."""
    first = next(outputs(output), None)
    if first is None:
        raise ValueError(
            f"{type(model).__name__} returned {type(output).__name__} without a floating tensor that depends"
            " on its parameters as autograd sees it: did it run under torch.no_grad? If it returns something"
            " else, pass loss=, a function of the output that returns a scalar tensor."
        )
    return first
