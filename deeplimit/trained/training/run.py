"""Training as a measurement: a block trains a few networks of one depth, all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch

from deeplimit.common.arrays import ArrayLibrary
from deeplimit.common.measurement import Arrays, Measurement, Tick
from deeplimit.common.randomness import Purpose, generator
from deeplimit.common.specification import describe
from deeplimit.trained.datasets import Data
from deeplimit.trained.training.checkpoint import Checkpoint, Progress
from deeplimit.trained.training.clipping import clipped
from deeplimit.trained.training.initialisation import Initialisation
from deeplimit.trained.training.losses import LOSSES, Loss, LossFunction, UserLoss
from deeplimit.trained.training.network_pass import NetworkPass, Parametrisation
from deeplimit.trained.training.optimizers import Optimizer
from deeplimit.trained.training.points import Callback, TrainingPoint
from deeplimit.trained.training.stop import Ending, Stop

NETWORKS_AT_ONCE = 8
"""How many networks of one depth a block trains."""
TRIED = 4
"""A user's loss is tried on this many inputs before training."""


@final
@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """One network after training.

    Attributes:
        depth, repeat: which one it is.
        parameters: its parameters by name (L, *shape), or (1, *shape) where all layers share them.
        losses: training loss of each epoch.
        validated: loss and accuracy on the validation set after each epoch (epochs, 2); (0, 2) without one.
        test_loss, accuracy: on the test set; NaN for the accuracy of targets that are numbers.
        ending: why training ended.
    """

    depth: int
    repeat: int
    parameters: dict[str, np.ndarray]
    losses: np.ndarray
    validated: np.ndarray
    test_loss: float
    accuracy: float
    ending: Ending


@final
@dataclass(frozen=True)
class Training(Measurement[list[TrainedNetwork], list[TrainedNetwork]]):
    """Networks of several depths, `repeats` of each, trained on the same data.

    The weights of network r of depth L, and the order of its inputs, come from streams of (seed, L, r). So
    a network does not depend on the others. Weights that are the same at all depths come from (seed, 0, r).
    """

    parametrisation: Parametrisation
    depths: tuple[int, ...]
    repeats: int
    data: Data
    validation: tuple[torch.Tensor, torch.Tensor] | None
    loss: str | LossFunction
    optimizer: Optimizer
    clip: float | None
    batch: int | None
    epochs: int
    stop: Stop
    initial: Initialisation
    dtype: torch.dtype
    seed: int
    checkpoints: Checkpoint
    callback: Callback

    what: ClassVar[str] = "training"
    carries: ClassVar[str] = "the activation, the weight laws, the loss and the data"

    def key(self) -> dict[str, Any]:
        """What decides the numbers of one network: neither the depths, nor how many there are."""
        left_out = ("depths", "repeats", "checkpoints", "callback")
        return {name: describe(value, name) for name, value in self._fields().items() if name not in left_out}

    def name(self) -> str:
        network = self.parametrisation.network
        return f"training {network.recursion.name}, d = {network.width}, {self.data.name}"

    def describe(self) -> str:
        """Return in one line what decides the numbers in addition to network and data."""
        of = self.parametrisation
        roles = [
            f"{word} {', '.join(sorted(names))}"
            for word, names in (("tied", of.tied), ("nonnegative", of.nonnegative), ("fixed", of.fixed))
            if names
        ]
        batch = "full batches" if self.batch is None else f"batches of {self.batch}"
        first = f"at first {self.initial.describe(of.network)}"
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        clip = () if self.clip is None else (f"gradients clipped at norm {self.clip:g}",)
        return "; ".join((first, *roles, self.optimizer.describe(), *clip, batch, f"{epochs} at most"))

    @property
    def blocks(self) -> int:
        return len(self._blocks())

    def _blocks(self) -> list[tuple[int, range]]:
        """Return depth and repeats of each block; deep ones first, for they take long."""
        firsts = range(0, self.repeats, NETWORKS_AT_ONCE)
        return [
            (depth, range(first, min(first + NETWORKS_AT_ONCE, self.repeats)))
            for depth in reversed(self.depths)
            for first in firsts
        ]

    def costs(self) -> list[float]:
        return [depth * len(repeats) for depth, repeats in self._blocks()]

    def label(self, block: int) -> str:
        depth, repeats = self._blocks()[block]
        return f"depth {depth}, networks {repeats.start} to {repeats.stop - 1}"

    def run(self, block: int, tick: Tick | None = None) -> list[TrainedNetwork]:
        depth, repeats = self._blocks()[block]
        library = ArrayLibrary(self.device, self.dtype)
        passes = NetworkPass(self.parametrisation, depth, self.objective, library)
        progress = self.checkpoints.found(self, block, library) or self._beginning(depth, repeats, passes)
        inputs = library.array(self.data.inputs)
        targets = self._targets(self.data.targets)
        held = None
        if self.validation is not None:
            held = library.array(self.validation[0]), self._targets(self.validation[1])
        self._tick(tick, progress.epoch)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while progress.epoch < self.epochs and progress.live:
                self._epoch(depth, passes, progress, inputs, targets, library)
                self._validate(passes, progress, held)
                self._end(depth, progress, library)
                self.checkpoints.keep(self, block, progress, library)
                self._tick(tick, 1)
            self._tick(tick, self.epochs - progress.epoch)
            return [self._measured(depth, repeat, progress, passes, library) for repeat in repeats]

    def _tick(self, tick: Tick | None, epochs: int) -> None:
        if tick is not None and epochs:
            tick(epochs / self.epochs)

    @property
    def objective(self) -> Loss:
        """What is made small."""
        return LOSSES[self.loss] if isinstance(self.loss, str) else UserLoss(self.loss)

    def try_loss(self) -> None:
        """Try a user's loss on the first outputs of a network; raise where it cannot be used."""
        if isinstance(self.loss, str):
            return
        loss = UserLoss(self.loss)
        library = ArrayLibrary(self.device, self.dtype)
        passes = NetworkPass(self.parametrisation, self.depths[0], loss, library)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            first = self._beginning(self.depths[0], range(1), passes)
            _, outputs = next(passes.outputs(first.parameters, library.array(self.data.inputs[:TRIED])))
        if not bool(torch.isfinite(outputs).all()):  # of the network, and not the loss's fault
            outputs = torch.zeros_like(outputs)
        loss.tried(outputs[0], self._targets(self.data.targets[:TRIED]))

    def _targets(self, targets: torch.Tensor) -> torch.Tensor:
        moved = targets.to(self.device)
        return moved if self.data.classes is not None else moved.to(self.dtype)

    def _beginning(self, depth: int, repeats: range, passes: NetworkPass) -> Progress:
        """Return the networks before training."""
        of, library = self.parametrisation, passes.library
        block = 0 if self.initial.same_at_all_depths else depth
        drawn = []
        for repeat in repeats:
            stream = generator(self.seed, Purpose.TRAINED_WEIGHTS, block, repeat)
            weights = self.initial.draw(of.network, depth, of.tied, stream)
            ends = generator(self.seed, Purpose.TRAINED_ENDS, block, repeat)
            maps = {name: end[None] for name, end in of.ends.draw(of.network.width, ends).items()}
            drawn.append(weights | maps)
        parameters = {
            name: library.array(torch.stack([one[name] for one in drawn], dim=1).contiguous())
            for name in drawn[0]
        }
        trained = {name: parameters[name] for name in passes.trained(parameters)}
        return Progress(parameters, self.optimizer.begin(trained, library), list(repeats))

    def _epoch(
        self,
        depth: int,
        passes: NetworkPass,
        progress: Progress,
        inputs: Any,
        targets: torch.Tensor,
        library: ArrayLibrary,
    ) -> None:
        """Train every network that still learns on all inputs once."""
        count = len(inputs)
        batch = count if self.batch is None else min(self.batch, count)
        orders = self._orders(depth, progress, count)
        rate, sums = self.optimizer.rate(depth, progress.epoch), np.zeros(len(progress.live))
        for first in range(0, count, batch):
            rows = orders[:, first : first + batch]
            chosen = torch.from_numpy(rows).to(self.device)
            x = inputs[rows] if library.on_cpu else inputs[chosen]
            losses, gradients = passes.losses_and_gradients(progress.parameters, x, targets[chosen])
            if self.clip is not None:
                gradients = clipped(gradients, self.clip, library)
            progress.steps += 1
            parameters = {name: progress.parameters[name] for name in gradients}
            self.optimizer.step(parameters, gradients, progress.memory, rate, progress.steps, library)
            sums += losses * rows.shape[1]
        progress.epoch += 1
        for place, repeat in enumerate(progress.live):
            progress.losses[repeat].append(float(sums[place] / count))

    def _validate(
        self, passes: NetworkPass, progress: Progress, held: tuple[Any, torch.Tensor] | None
    ) -> None:
        """Keep the loss and the accuracy of every network that still learns on the validation set."""
        if held is None:
            return
        found = passes.measured(progress.parameters, *held, self.data.classes is not None)
        for repeat, loss, accuracy in zip(progress.live, *found, strict=True):
            progress.validated[repeat].append((float(loss), float(accuracy)))

    def _end(self, depth: int, progress: Progress, library: ArrayLibrary) -> None:
        """Let those networks end that are done."""
        for place, repeat in enumerate(progress.live):
            ending = self.stop.ending(progress.losses[repeat])
            if self.callback.stops(self._point(depth, repeat, progress)):
                ending = ending or Ending.CALLBACK
            if ending is not None or progress.epoch == self.epochs:
                progress.end(repeat, place, ending or Ending.EPOCHS, library)
        progress.forget_ended(library)

    def _point(self, depth: int, repeat: int, progress: Progress) -> TrainingPoint:
        held = progress.validated[repeat][-1] if self.validation is not None else (None, None)
        accuracy = held[1] if self.data.classes is not None else None
        return TrainingPoint(
            depth, repeat, progress.epoch, progress.steps, progress.losses[repeat][-1], held[0], accuracy
        )

    def _orders(self, depth: int, progress: Progress, count: int) -> np.ndarray:
        """Return the order of inputs of each network in this epoch (networks, n); full batches keep it."""
        if self.batch is None or self.batch >= count:
            return np.tile(np.arange(count), (len(progress.live), 1))
        orders = []
        for repeat in progress.live:
            stream = generator(self.seed, Purpose.ORDER_OF_INPUTS, depth, repeat * 2**20 + progress.epoch)
            orders.append(torch.randperm(count, generator=stream).numpy())
        return np.stack(orders)

    def _measured(
        self, depth: int, repeat: int, progress: Progress, passes: NetworkPass, library: ArrayLibrary
    ) -> TrainedNetwork:
        """Return one network, with its loss on the test set."""
        parameters, ending = progress.ended[repeat]
        loss, accuracy = math.nan, math.nan
        if ending is not Ending.DIVERGED:
            tests = library.array(self.data.test_inputs), self._targets(self.data.test_targets)
            found = passes.measured(parameters, *tests, self.data.classes is not None)
            loss, accuracy = (float(value[0]) for value in found)
            if not math.isfinite(loss):
                loss, accuracy, ending = math.nan, math.nan, Ending.DIVERGED
        return TrainedNetwork(
            depth,
            repeat,
            {name: library.to_numpy(value)[:, 0] for name, value in parameters.items()},
            np.array(progress.losses[repeat]),
            np.array(progress.validated[repeat]).reshape(-1, 2),
            loss,
            accuracy,
            ending,
        )

    def merge(self, parts: Iterator[list[TrainedNetwork]]) -> list[TrainedNetwork]:
        networks = [network for part in parts for network in part]
        return sorted(networks, key=lambda network: (network.depth, network.repeat))

    def write(self, part: list[TrainedNetwork]) -> Arrays:
        arrays: Arrays = {}
        for one in part:
            told = np.array([one.depth, one.repeat, one.test_loss, one.accuracy])
            arrays[f"{one.repeat}/told"] = told
            arrays[f"{one.repeat}/ending"] = np.array(one.ending.value)
            arrays[f"{one.repeat}/losses"] = one.losses
            arrays[f"{one.repeat}/validated"] = one.validated
            arrays |= {f"{one.repeat}/parameter/{name}": value for name, value in one.parameters.items()}
        return arrays

    def read(self, arrays: Arrays) -> list[TrainedNetwork]:
        found = []
        for repeat in sorted({int(name.partition("/")[0]) for name in arrays}):
            depth, _, test_loss, accuracy = arrays[f"{repeat}/told"].tolist()
            prefix = f"{repeat}/parameter/"
            parameters = {
                name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)
            }
            ending = Ending(str(arrays[f"{repeat}/ending"]))
            losses, validated = arrays[f"{repeat}/losses"], arrays[f"{repeat}/validated"]
            found.append(
                TrainedNetwork(int(depth), repeat, parameters, losses, validated, test_loss, accuracy, ending)
            )
        return found
