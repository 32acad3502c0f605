"""A module measured at each of several depths: one block per depth, kept as text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import nn

from deeplimit.common import fields, measurement as running, validation
from deeplimit.common.global_state import alone, seeded
from deeplimit.common.installation import advice
from deeplimit.common.measurement import Arrays, Tick
from deeplimit.common.specification import describe
from deeplimit.modules.depth_check.one_depth import AtOneDepth, measure_module
from deeplimit.modules.trace.batches import as_batch
from deeplimit.modules.trace.in_pieces import built_to_fit

Factory = Callable[[int], nn.Module]
Part = tuple[str, AtOneDepth]
"""Modules draw from the global generators, which threads share."""


@final
@dataclass(frozen=True)
class Depths(running.Measurement[Part, list[Part]]):
    """A factory's modules: at each depth, the class's name and what was measured.

    With `further` seeds, all depths of the first of them, then all of the next, in place of `seed`. `before`
    is the key as it was before the factory was called, which may change what the factory holds.
    """

    factory: Factory
    depths: tuple[int, ...]
    batch: Any
    patterns: str | Sequence[str] | None
    loss: Callable[[Any], torch.Tensor] | None
    seed: int
    moved: bool = False  # to the device; else modules stay where the factory puts them
    further: tuple[int, ...] = ()
    before: dict[str, Any] | None = None

    what = "check depth"
    carries = "the factory, the batch and the loss"
    side_by_side = False

    @property
    def blocks(self) -> int:
        return len(self.depths) * max(len(self.further), 1)

    def run(self, block: int, tick: Tick | None = None) -> Part:
        with alone():
            found = self._measured(*self._which(block))
        if tick is not None:
            tick(1.0)
        return found

    def _which(self, block: int) -> tuple[int, int]:
        """Return the depth and the seed of a block."""
        draw, place = divmod(block, len(self.depths))
        return self.depths[place], self.further[draw] if self.further else self.seed

    def label(self, block: int) -> str:
        """Return the block's number, of a further draw with its seed: a store holds as many as are needed."""
        place = block % len(self.depths)
        return f"{place} of seed {self._which(block)[1]}" if self.further else str(block)

    def _measured(self, depth: int, seed: int) -> Part:
        def make() -> nn.Module:
            with seeded(seed):
                return built(self.factory, depth)

        with built_to_fit(make, self.device) as there:
            try:
                model = there.to(self.device) if self.moved else there
                made = callable(self.batch) and not isinstance(self.batch, torch.Tensor)
                batch = as_batch(model, self.batch() if made else self.batch)
                taken = measure_module(model, batch, blocks=self.patterns, loss=self.loss, seed=seed)
            except Exception as error:
                error.add_note(f"deeplimit was measuring factory({depth}).")
                raise
            return type(getattr(model, "_orig_mod", model)).__name__, dataclasses.replace(taken, asked=depth)

    def merge(self, parts: Iterator[Part]) -> list[Part]:
        return [*parts]

    def key(self) -> dict[str, Any]:
        """Return the fields; a factory, batch or loss that cannot be described stands there by its name.

        A store for them has a name of the caller's in any case.
        """
        names = [entry.name for entry in dataclasses.fields(self)]
        return self.before or {
            name: _described(self, name) for name in names if name not in ("further", "before")
        }

    def name(self) -> str:
        factory = getattr(self.factory, "__qualname__", type(self.factory).__name__)
        return f"check depth: {factory}, depths {[*self.depths]}, seed {self.seed}"

    def write(self, part: Part) -> Arrays:
        name, taken = part
        return {"name": np.array(name), "taken": np.array(json.dumps(fields.plain(taken)))}

    def read(self, arrays: Arrays) -> Part:
        taken = fields.read(AtOneDepth, json.loads(arrays["taken"].item()), "the measurement")
        return arrays["name"].item(), taken


def built(factory: Factory, depth: int) -> nn.Module:
    """Return factory(depth); what it raises gets a note, and a result that is not a module is refused."""
    try:
        model = factory(depth)
    except Exception as error:
        error.add_note(
            f"deeplimit called the factory with depth {depth}: it must return an nn.Module of that depth."
        )
        if (known := advice(error)) is not None:
            error.add_note(known)
        raise
    if not isinstance(model, nn.Module):
        raise TypeError(f"factory({depth}) must return a torch.nn.Module, got {validation.named(model)}.")
    return model


def _described(depths: Depths, name: str) -> Any:
    value = getattr(depths, name)
    try:
        return describe(value, name)
    except ValueError:
        return {"is": getattr(value, "__qualname__", type(value).__name__)}
