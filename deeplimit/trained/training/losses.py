"""What training makes small: a loss of outputs and targets, with its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.trained.datasets import Data


class Loss(FinalWhereMarked, ABC):
    """A mean over inputs of a loss per input."""

    name: str

    @abstractmethod
    def check(self, data: Data) -> None:
        """Raise ValueError where targets are of another kind."""

    @abstractmethod
    def evaluated(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of each network (S,), and the gradient of the outputs (S, n, outputs)."""

    def accuracy(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the share of inputs of each network whose largest output is the right one (S,)."""
        right = targets if targets.ndim == outputs.ndim - 1 else targets.argmax(-1)
        return (outputs.argmax(-1) == right).to(torch.float64).mean(-1)


@final
class SquaredError(Loss):
    """Mean of (output - target)² over inputs and outputs."""

    name = "squared error"

    def check(self, data: Data) -> None:
        if data.classes is not None:
            raise ValueError(
                f"loss 'squared error' needs targets that are numbers; got the labels of {data.name!r}. Use"
                " 'cross entropy', or targets of one number per class (one-hot)."
            )

    def evaluated(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        difference = outputs - targets
        count = difference[0].numel()
        # One network after the other: the order of a sum must not depend on how many there are.
        losses = [one.square().sum(dtype=torch.float64) / count for one in difference]
        return torch.stack(losses), difference * (2.0 / count)


@final
class CrossEntropy(Loss):
    """Mean over inputs of -log of the softmax of the outputs at the label."""

    name = "cross entropy"

    def check(self, data: Data) -> None:
        if data.classes is None:
            raise ValueError(
                f"loss 'cross entropy' needs labels; the targets of {data.name!r} are numbers. Use 'squared"
                " error'."
            )

    def evaluated(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logs, labels = log_softmax(outputs, -1), targets[..., None]
        losses = [-one.sum(dtype=torch.float64) / len(one) for one in logs.gather(-1, labels)]
        hit = torch.zeros_like(logs).scatter_(-1, labels, 1.0)
        return torch.stack(losses), (logs.exp() - hit) / outputs.shape[1]


LossFunction = Callable[[Tensor, Tensor], Tensor]
"""Outputs (n, outputs) and targets of one network, to a loss per input (n,) or their mean ()."""


@final
class UserLoss(Loss):
    """The user's function, differentiated automatically, one network after the other."""

    def __init__(self, function: LossFunction) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))

    def check(self, data: Data) -> None:
        """Which targets suit it is tried on outputs, by `tried`."""

    def tried(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise TypeError or ValueError where it has no finite value or gradient at outputs (n, outputs)."""
        asked = outputs.detach().clone().requires_grad_()
        value = self._mean(asked, targets)
        if not value.requires_grad:
            gradient = None
        else:
            (gradient,) = torch.autograd.grad(value, asked, allow_unused=True)
        if gradient is None:
            raise ValueError(
                f"loss {self.name!r} must be differentiable by torch, but its value does not depend on the"
                " outputs there: compute it with torch's operations, without .item(), .detach(), .numpy()"
                " or argmax."
            )
        for what, found in (("value", value), ("gradient", gradient)):
            if not bool(torch.isfinite(found).all()):
                raise ValueError(
                    f"loss {self.name!r} must be finite with a finite gradient; its {what} is not, at the"
                    f" outputs of an untrained network, from {float(outputs.min()):.3g} to"
                    f" {float(outputs.max()):.3g}. Outputs may be any real numbers."
                )

    def evaluated(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        losses, gradients = [], []
        for one, wanted in zip(outputs, targets, strict=True):
            asked = one.detach().clone().requires_grad_()
            value = self._mean(asked, wanted)
            losses.append(value.detach().to(torch.float64))
            gradients.append(torch.autograd.grad(value, asked)[0])
        return torch.stack(losses), torch.stack(gradients)

    def _mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss () of one network."""
        note = f"deeplimit called loss(outputs {tuple(outputs.shape)}, targets {tuple(targets.shape)})."
        with torch.enable_grad(), validation.noted(note):
            # A copy: a function that writes into its targets must not change the data.
            value = self.function(outputs, targets.clone())
        if not isinstance(value, Tensor):
            raise TypeError(
                f"loss {self.name!r} must return a tensor of torch, got {validation.named(value)}."
            )
        if value.shape not in ((), (len(outputs),)) or not value.is_floating_point():
            raise ValueError(
                f"loss {self.name!r} must return one number, or one per input ({len(outputs)},); got a tensor"
                f" of {value.dtype} with shape {tuple(value.shape)}."
            )
        return value.sum(dtype=torch.float64) / len(outputs) if value.ndim else value


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredError(), CrossEntropy())}


def loss_of(given: str | LossFunction | None, data: Data) -> Loss:
    """Return the loss of this name, the user's, or the one that suits the targets; raise as `check` does."""
    if callable(given):
        if isinstance(given, type) or not validation.takes(given, 2):
            raise TypeError(
                "loss must be a name or a function (outputs, targets) that returns a tensor, got"
                f" {validation.named(given)}."
            )
        return UserLoss(given)
    usual = SquaredError.name if data.classes is None else CrossEntropy.name
    loss = LOSSES[validation.choice(usual if given is None else given, "loss", tuple(LOSSES))]
    loss.check(data)
    return loss
