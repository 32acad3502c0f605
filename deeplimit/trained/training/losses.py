"""What training makes small: a loss of outputs and targets, with its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredError(), CrossEntropy())}


def loss_of(given: str | None, data: Data) -> Loss:
    """Return the loss of this name, or the one that suits the targets; raise as its `check` does."""
    usual = SquaredError.name if data.classes is None else CrossEntropy.name
    loss = LOSSES[validation.choice(usual if given is None else given, "loss", tuple(LOSSES))]
    loss.check(data)
    return loss
