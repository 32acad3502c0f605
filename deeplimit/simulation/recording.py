"""The measurement behind `simulate`: the passes of a comparison, whose states are kept or summarised."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast, final

import numpy as np
import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.measurement import Arrays, Measurement, Tick
from deeplimit.common.specification import describe
from deeplimit.driving import Layer, Path
from deeplimit.layers import Recursion
from deeplimit.simulation import pathwise
from deeplimit.simulation.kernels import numba_pass, projected
from deeplimit.simulation.summaries import Summary
from deeplimit.simulation.task import Task

LIMIT = "limit"
TOGETHER = 8
"""Blocks whose summaries are merged at once: one at a time takes longer, all of them their memory."""


@dataclass(frozen=True)
class Stops:
    """Where states are kept: numbers of steps of the grid, their times, and which columns each keeps.

    Attributes:
        steps: numbers of steps made (S,), 0 for the start.
        times: times (S,).
        kept: whether each depth's state, and last the limit's, is kept there (S, m + 1).
    """

    steps: np.ndarray
    times: np.ndarray
    kept: np.ndarray

    def times_of(self, column: int) -> np.ndarray:
        """Return the times (K,) at which a column is kept."""
        return np.asarray(self.times[self.kept[:, column]])


class _Present:
    """The states of the present time, as a walk tells of them."""

    def __init__(self, h0: Tensor, depths: int) -> None:
        self.limit = h0
        self.states = [h0] * depths

    def at(self, limit: Tensor, coarse: Tensor | None, is_common: bool) -> None:
        self.limit = limit

    def between(self, j: int, state: Tensor) -> None:
        """Nothing to do: the state stays."""

    def layer(self, j: int, state: Tensor, scheme: Tensor | None = None) -> None:
        self.states[j] = state


def _compiled_steps(
    run: numba_pass.Compiled, present: _Present, tick: Tick | None, stops: list[int]
) -> Iterator[tuple[int, None]]:
    """Advance compiled loops; yield the number of steps made at each of `stops`."""
    wanted = set(stops)
    for done in run.steps(tick, stops):
        if done in wanted:
            present.states = [torch.from_numpy(run.run.states[j]).T for j in range(len(present.states))]
            present.limit = torch.from_numpy(run.run.reference).T
            yield done, None


class _Listening:
    """A path whose layers are seen: the weights of some rows of each, in the network's formula's scale."""

    def __init__(self, path: Path, depths: int, rows: slice) -> None:
        self.path, self.rows = path, rows
        self.layers: list[list[Layer]] = [[] for _ in range(depths)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.path, name)

    def layer(self, j: int) -> Layer:
        layer = self.path.layer(j)
        self.layers[j].append(_seen(layer, self.rows))
        return layer


def _seen(layer: Layer, rows: slice) -> Layer:
    """Return a copy of some rows of a layer whose values contain all of its scale."""

    def some(values: Tensor) -> Tensor:  # one for all paths stays one
        return (values if values.shape[0] == 1 else values[rows]).clone()

    if layer.product_of is not None and layer.blocks is None:
        raise ValueError(
            "weights of this law are drawn only through their products with the states, so there are none to"
            " return; leave out keep_weights, and read states alone."
        )
    values = None if layer.values is None else some(layer.values) * layer.scale()
    bias = None if layer.bias is None else some(layer.bias)
    blocks = None if layer.blocks is None else layer.blocks[rows]
    return Layer(values, layer.depth, 0.0, 1.0, bias, None, blocks)


class SampledBlock(nn.Module):
    """One layer of a sampled network: weights are parameters, `forward` is the recursion's step.

    Attributes:
        recursion: what the layer does.
        exponent: the residual exponent.
        depth: number of layers of the whole network.
        names: names of the weights, in the order of the recursion; a bias is named b.
    """

    def __init__(self, recursion: Recursion, layers: Sequence[Layer], exponent: float) -> None:
        super().__init__()
        self.recursion, self.exponent, self.depth = recursion, exponent, layers[0].depth
        self.names = tuple(weight.name for weight in recursion.weights)
        for name, layer in zip(self.names, layers, strict=True):
            values = None if layer.values is None else layer.values[0]
            if values is not None and values.ndim == 0:  # such as the time, which nobody trains
                self.register_buffer(name, values)
            else:
                self.register_parameter(name, None if values is None else nn.Parameter(values))
            self.register_parameter(f"{name}_b", None if layer.bias is None else nn.Parameter(layer.bias[0]))

    def forward(self, h: Tensor) -> Tensor:
        """Return the states after the layer, for states h (n, *state_shape)."""
        layers = tuple(
            Layer(_one(getattr(self, name)), self.depth, 0.0, 1.0, _one(getattr(self, f"{name}_b")))
            for name in self.names
        )
        return self.recursion.advance(h, layers, self.exponent)

    def extra_repr(self) -> str:
        return f"{self.recursion.name}, layer of depth {self.depth}"


def _one(value: Tensor | None) -> Tensor | None:
    return None if value is None else value[None]


@final
@dataclass(frozen=True)
class Recording(Measurement[Arrays, Arrays]):
    """States of a task's networks and limit at chosen times, kept whole or as summaries.

    Attributes:
        task: what advances.
        times: times that are asked for; None for every layer.
        summaries: whether summaries are kept in place of states.
        weights: whether the weights of every layer are kept, too.
        limited: whether the limit is wanted.
        solved: whether the limit stands in every depth's place, since an equation is solved alone.
    """

    task: Task
    times: tuple[float, ...] | None
    summaries: bool
    weights: bool
    limited: bool
    solved: bool = False

    what: ClassVar[str] = "simulate"

    @property
    def blocks(self) -> int:
        return self.task.blocks

    @property
    def columns(self) -> list[tuple[str, int]]:
        """The names of what is kept and their numbers: depths, and last the limit."""
        named = [(str(depth), j) for j, depth in enumerate(self.task.grid.depths)]
        return [*named, (LIMIT, len(named))] if self.limited else named

    @cached_property
    def stops(self) -> Stops:
        """Where states are kept."""
        chunks = list(self.task.grid.chunks())
        times = np.concatenate([[0.0], *(chunk.times for chunk in chunks)])
        ends = np.concatenate([np.ones((1, len(self.task.grid.depths)), bool), *(c.ends for c in chunks)])
        if self.times is None:
            kept = np.concatenate([ends, ends.any(axis=1, keepdims=True)], axis=1)
            steps = np.flatnonzero(kept[:, -1])
            return Stops(steps, times[steps], kept[steps])
        # The last time of the grid that is not later; times are rounded to 1e-12, a grid's differ by more.
        steps = np.unique(np.searchsorted(times, np.asarray(self.times) + 1e-12, side="right") - 1)
        return Stops(steps, times[steps], np.ones((len(steps), ends.shape[1] + 1), bool))

    def run(self, block: int, tick: Tick | None = None) -> Arrays:
        task, stops, heard = self.task, self.stops, cast("list[_Listening]", [])
        rows = slice(None) if self.weights else None
        starts = len(task.starts(block))
        series: dict[str, list[list[Tensor]]] = {
            name: [[] for _ in range(starts)] for name, _ in self.columns
        }
        for place, present in self._walk(block, tick, rows, heard):
            for name, column in self.columns:
                if stops.kept[place, column]:
                    for kept, now in zip(series[name], present, strict=True):
                        kept.append(
                            (now.limit if self.solved or name == LIMIT else now.states[column]).clone()
                        )
        found: Arrays = {}
        for name, column in self.columns:
            each = torch.stack([torch.stack(kept, dim=1) for kept in series[name]], dim=1)  # (P, n, K, …)
            if self.summaries:
                summary = Summary.of(each.flatten(0, 1), stops.times_of(column))
                found |= {f"summary/{name}/{key}": value for key, value in summary.arrays().items()}
            else:
                found[f"states/{name}"] = (each if task.same_network else each[:, 0]).cpu().numpy()
        return found | self._weights(heard, task.held(block))

    def _weights(self, heard: list[_Listening], paths: int) -> Arrays:
        """Return the weights of every layer by name, (P, L, *shape); those given to all paths once each."""
        found: Arrays = {}
        for weight, each in zip(self.task.network.recursion.weights, heard, strict=bool(heard)):
            for depth, layers in zip(self.task.grid.depths, each.layers, strict=True):
                for part, values in (("", [e.values for e in layers]), ("_b", [e.bias for e in layers])):
                    if values[0] is not None:
                        stack = torch.stack(cast("list[Tensor]", values), dim=1)
                        stack = stack.expand(paths, *stack.shape[1:])
                        found[f"weights/{depth}/{weight.name}{part}"] = stack.cpu().numpy()
        return found

    @torch.no_grad()
    def _walk(
        self, block: int, tick: Tick | None, rows: slice | None, heard: list[_Listening]
    ) -> Iterator[tuple[int, list[_Present]]]:
        """Yield at every stop its number and what is present then, for each start.

        With `rows`, paths that were listened to are put into `heard`.
        """
        task, starts, stops = self.task, self.task.starts(block), self.stops.steps.tolist()
        present = [_Present(h0, len(task.grid.depths)) for h0 in starts]
        if self._compiled and (loops := numba_pass.loops()) is not None:
            compiled = numba_pass.Compiled(loops, task, block)
            walk: Iterator[tuple[int, None]] = _compiled_steps(compiled, present[0], tick, stops)
        elif task.coupling == "projected":
            walk = enumerate(projected.steps(task, projected.Block(task, block), present, tick), 1)
        else:
            paths = task.network_paths(block, len(starts[0]))
            if rows is not None:
                heard += [_Listening(path, len(task.grid.depths), rows) for path in paths]
                paths = cast("tuple[Path, ...]", tuple(heard))
            solvers = [pathwise.make_solver(task, block, h0, paths) for h0 in starts]
            walk = enumerate(pathwise.steps(task, paths, starts, solvers, present, tick), 1)
        places = {step: place for place, step in enumerate(stops)}
        for done, _ in itertools.chain([(0, None)], walk):
            if done in places:
                yield places[done], present

    @property
    def _compiled(self) -> bool:
        """Whether compiled loops advance; where every layer is kept they would stop too often."""
        return self.times is not None and numba_pass.applies(self.task)

    def merge(self, parts: Iterator[Arrays]) -> Arrays:
        if self.summaries:
            earliest = next(parts)
            summed = {name: self._summary(earliest, name) for name, _ in self.columns}
            while together := [*itertools.islice(parts, TOGETHER)]:
                summed = {n: k.merge(*(self._summary(p, n) for p in together)) for n, k in summed.items()}
            return {f"summary/{n}/{key}": v for n, each in summed.items() for key, v in each.arrays().items()}
        whole: Arrays = {}
        first = 0
        for part in parts:
            for name, values in part.items():
                if name not in whole:
                    whole[name] = np.empty((self.task.paths, *values.shape[1:]), values.dtype)
                whole[name][first : first + len(values)] = values
            first += len(next(iter(part.values())))
        return whole

    @staticmethod
    def _summary(part: Arrays, name: str) -> Summary:
        first = f"summary/{name}/"
        return Summary.from_arrays({k.removeprefix(first): v for k, v in part.items() if k.startswith(first)})

    def key(self) -> dict[str, Any]:
        """Return all but the number of paths, which `label` has of each block."""
        compiled = "compiled" if self._compiled else "torch"
        described = {
            name: describe(getattr(self, name), name) for name in ("task", "times", "limited", "solved")
        }
        kept = {"summaries": self.summaries, "weights": self.weights, "computed by": compiled}
        task = {**described.pop("task"), "paths": "as many as a block says"}
        return {**described, **kept, "task": task}

    def label(self, block: int) -> str:
        return f"{block}, {self.task.held(block)} paths"

    def name(self) -> str:
        task = self.task
        return f"simulate: {task.network}; depths {[*task.grid.depths]}, {task.paths} paths, seed {task.seed}"

    def write(self, part: Arrays) -> Arrays:
        return part

    def read(self, arrays: Arrays) -> Arrays:
        return arrays

    def path(self, index: int, *which: int) -> nn.Sequential:
        """Draw path `index` again; return its network of depth `which` as torch blocks."""
        task, (depth,) = self.task, which
        number = validation.integer(index, "path", minimum=0, maximum=task.paths - 1)
        if self.solved:
            raise ValueError(
                f"path {number} of {task.limit.equation} was solved, not stepped, so it has no blocks;"
                " simulate a network that tends to it."
            )
        if task.coupling != "pathwise":
            raise ValueError(
                f"path {number} has no weights to return: coupling={task.coupling!r} draws only their"
                " products with the states. Simulate with coupling='pathwise'."
            )
        block, row = divmod(number, task.block_size)
        heard: list[_Listening] = []
        for _ in self._walk(block, None, slice(row, row + 1), heard):
            pass
        j, network = task.grid.depths.index(depth), task.network
        layers = [tuple(each.layers[j][k] for each in heard) for k in range(depth)]
        if layers[0][0].blocks is not None:
            blocks = [layer.blocks[0] for (layer,) in layers if layer.blocks is not None]
            return nn.Sequential(*(block.requires_grad_() for block in blocks))
        recursion, exponent = network.recursion, network.exponent
        return nn.Sequential(*(SampledBlock(recursion, each, exponent) for each in layers))
