"""Networks of several depths and seeds, each trained for a few steps: one block per network, kept as text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
import torch
from torch import nn

from deeplimit.common import fields, measurement as running, validation
from deeplimit.common.global_state import seeded
from deeplimit.common.measurement import Arrays, Tick
from deeplimit.common.specification import describe
from deeplimit.modules.depth_check.runs import built
from deeplimit.modules.trace.batches import Batch, as_batch
from deeplimit.modules.training_check.one_network import AfterSteps, train_and_measure
from deeplimit.modules.training_check.several_optimizers import Several, name_of

Factory = Callable[..., nn.Module]
"""Function of a depth, or of a depth and a width."""
Optimizers = Callable[..., "torch.optim.Optimizer | Sequence[torch.optim.Optimizer]"]
"""Function of a module and its depth, or of both and its width, that returns one optimizer or several."""
Out = TypeVar("Out")
"""Modules draw from the global generators, which threads share."""


@final
@dataclass(frozen=True)
class TrainedNetworks(running.Measurement[AfterSteps, list[AfterSteps]]):
    """Networks of every size, (depth,) or (depth, width), and of `seeds` seeds, after each of the `steps`.

    Learning rates are multiplied by `factor`.
    """

    factory: Factory
    optimizer: Optimizers
    sizes: tuple[tuple[int, ...], ...]
    batch: Any
    loss: Callable[[Any], torch.Tensor] | None
    steps: tuple[int, ...]
    seeds: int
    seed: int
    patterns: str | Sequence[str] | None = None
    factor: float = 1.0
    moved: bool = False  # to the device; else modules stay where the factory puts them

    what = "check training"
    carries = "the factory, the optimizer, the batch and the loss"
    side_by_side = False

    @property
    def blocks(self) -> int:
        return len(self.sizes) * self.seeds

    def run(self, block: int, tick: Tick | None = None) -> AfterSteps:
        found = self.with_network(block, self._measured)
        if tick is not None:
            tick(1.0)
        return found

    def with_network(
        self, block: int, use: Callable[[nn.Module, Callable[[], torch.optim.Optimizer], Batch], Out]
    ) -> Out:
        """Return what `use` makes of a block's network, a maker of its optimizer, and the batch."""
        place, number = divmod(block, self.seeds)
        sizes = self.sizes[place]
        own = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        with seeded(own):
            model = built(lambda depth: self.factory(depth, *sizes[1:]), sizes[0])
            try:
                model = model.to(self.device) if self.moved else model
                with seeded(self.seed):  # the same batch for all
                    made = callable(self.batch) and not isinstance(self.batch, torch.Tensor)
                    batch = as_batch(model, self.batch() if made else self.batch)
                return use(model, lambda: _made(self.optimizer, model, sizes), batch)
            except Exception as error:
                error.add_note(f"deeplimit was training factory({shown(sizes)}).")
                raise

    def _measured(
        self, model: nn.Module, optimizers: Callable[[], torch.optim.Optimizer], batch: Batch
    ) -> AfterSteps:
        return train_and_measure(
            model,
            optimizers(),
            batch,
            self.loss,
            self.steps,
            self.factor,
            blocks=self.patterns,
            seed=self.seed,
        )

    def merge(self, parts: Iterator[AfterSteps]) -> list[AfterSteps]:
        return [*parts]

    def key(self) -> dict[str, Any]:
        """Return the fields; a function that cannot be described stands there by its name."""
        return {entry.name: _described(self, entry.name) for entry in dataclasses.fields(self)}

    def name(self) -> str:
        factory = getattr(self.factory, "__qualname__", type(self.factory).__name__)
        return f"check training: {factory}, sizes {[*self.sizes]}, {self.seeds} seeds from {self.seed}"

    def write(self, part: AfterSteps) -> Arrays:
        return {"after": np.array(json.dumps(fields.plain(part)))}

    def read(self, arrays: Arrays) -> AfterSteps:
        found: AfterSteps = fields.read(AfterSteps, json.loads(arrays["after"].item()), "the measurement")
        return found


def shown(sizes: tuple[int, ...]) -> str:
    """Return the arguments of a factory as they are written in a call."""
    return ", ".join(map(str, sizes))


def _made(optimizers: Optimizers, model: nn.Module, sizes: tuple[int, ...]) -> torch.optim.Optimizer:
    """Return optimizers(model, depth) or optimizers(model, depth, width), checked."""
    given, depth = optimizers(model, *sizes), shown(sizes)
    listed: list[Any] = list(given) if isinstance(given, (list, tuple)) and given else [given]
    for each in listed:
        if not isinstance(each, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer(model, {depth}) must return a torch.optim.Optimizer or a list of them, got"
                f" {validation.named(each)}."
            )
    held = [id(parameter) for each in listed for group in each.param_groups for parameter in group["params"]]
    if len(set(held)) < len(held):
        raise ValueError(
            f"optimizer(model, {depth}) returns optimizers that share {len(held) - len(set(held))}"
            " parameters: give each parameter to one of them."
        )
    made: torch.optim.Optimizer = listed[0] if len(listed) == 1 else Several(listed)
    own = {id(parameter) for parameter in model.parameters()}
    foreign = sum(id(each) not in own for group in made.param_groups for each in group["params"])
    if foreign:
        raise ValueError(
            f"optimizer(model, {depth}) trains {foreign} parameters that are not among model.parameters():"
            " build it from the model that it is given."
        )
    without = [place for place, group in enumerate(made.param_groups) if "lr" not in group]
    if without:
        raise ValueError(
            f"optimizer(model, {depth}) is a {name_of(made)} whose parameter group {without[0]} has no"
            " 'lr', so there is no learning rate to check."
        )
    return made


def _described(networks: TrainedNetworks, name: str) -> Any:
    value = getattr(networks, name)
    try:
        return describe(value, name)
    except ValueError:
        return {"is": getattr(value, "__qualname__", type(value).__name__)}
