"""When training ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from deeplimit.common import validation


class Ending(StrEnum):
    """Why the training of one network ended."""

    LOSS = "loss"
    """The training loss fell below what was asked for."""
    PATIENCE = "patience"
    """The training loss did not improve any more."""
    CALLBACK = "callback"
    """The user's callback returned True."""
    EPOCHS = "epochs"
    """The number of epochs was reached."""
    DIVERGED = "diverged"
    """The loss was no longer finite."""


@final
@dataclass(frozen=True)
class Stop:
    """When training ends before its last epoch; the loss is the mean over the batches of an epoch.

    Attributes:
        loss: it ends once the training loss is below this; None for never.
        patience: number of epochs without an improvement after which it ends; None for never.
        improvement: share of the least loss so far by which it must fall to count as improved.

    Raises:
        TypeError, ValueError: for numbers of another kind, or out of range.

    Examples:
        >>> import deeplimit as dl
        >>> dl.Stop(loss=1e-3, patience=2).ending([1.0, 0.5, 0.499, 0.498])
        <Ending.PATIENCE: 'patience'>
    """

    loss: float | None = None
    patience: int | None = None
    improvement: float = 0.01

    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        if self.loss is not None:
            validation.real(self.loss, "loss", above=0.0)
        if self.patience is not None:
            validation.integer(self.patience, "patience", minimum=1, hint="It is a number of epochs.")
        if validation.real(self.improvement, "improvement", minimum=0.0) >= 1.0:
            raise ValueError(f"improvement must be below 1, got {self.improvement:g}; 0.01 is 1 %.")

    def ending(self, losses: list[float]) -> Ending | None:
        """Return why training ends after these losses, one per epoch; None where it goes on."""
        if not math.isfinite(losses[-1]):
            return Ending.DIVERGED
        if self.loss is not None and losses[-1] < self.loss:
            return Ending.LOSS
        if self.patience is None:
            return None
        least, since = math.inf, 0
        for loss in losses:
            improved = loss < least * (1.0 - self.improvement)
            since = 0 if improved else since + 1
            least = min(least, loss)
        return Ending.PATIENCE if since >= self.patience else None
