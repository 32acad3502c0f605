"""What a callback is told after each epoch of each network, and what it may answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from deeplimit.common import validation


@final
@dataclass(frozen=True)
class TrainingPoint:
    """One network after one epoch.

    Attributes:
        depth, repeat: which network it is.
        epoch: number of epochs that are done, from 1 on.
        step: number of steps of the optimiser that are done.
        loss: training loss of the epoch, the mean over its batches as they were trained.
        validation_loss: loss on the validation set after the epoch; None without a validation set.
        validation_accuracy: accuracy there; None without a validation set or without classes.
    """

    depth: int
    repeat: int
    epoch: int
    step: int
    loss: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None


@final
@dataclass(frozen=True)
class Callback:
    """The user's function of a point.

    Attributes:
        function: what is called, as `one_at_a_time` gives it; None for nothing.
        may_stop: whether it may end the training of a network.
    """

    function: Callable[[TrainingPoint], Any] | None = None
    may_stop: bool = True

    def stops(self, point: TrainingPoint) -> bool:
        """Return whether the training of this network ends here."""
        if self.function is None:
            return False
        with validation.noted(f"deeplimit called callback({point!r})."):
            answer = self.function(point)
        if answer is not None and not isinstance(answer, (bool, np.bool_)):
            raise TypeError(f"callback must return True, False or None, got {validation.named(answer)}.")
        if not answer:
            return False
        if not self.may_stop:
            raise ValueError(
                f"callback returned True at depth {point.depth}, repeat {point.repeat}, epoch {point.epoch},"
                " but store= and checkpoints= keep networks that a call without it would take for whole."
                " Leave out both, or end training by stop=."
            )
        return True


def one_at_a_time(function: Callable[[TrainingPoint], Any]) -> Callable[[TrainingPoint], Any]:
    """Return the same function for threads that call it one after the other."""
    lock = threading.Lock()

    def call(point: TrainingPoint) -> Any:
        with lock:
            return function(point)

    return call
