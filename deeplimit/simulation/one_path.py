"""One path drawn again: its states at every depth, the limit's, and the errors that were averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import axes as drawing, validation
from deeplimit.simulation import gradients, pathwise
from deeplimit.simulation.kernels import projected
from deeplimit.simulation.moments import ErrorAccumulator
from deeplimit.simulation.task import GRADIENT, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True, eq=False)
class OnePath:
    """One path of a comparison: the network at every depth and its limit, on the noise that they shared.

    Attributes:
        index: Number of the path.
        depths: Numbers of layers.
        times: By depth, the times k/L of its states (L + 1,).
        states: By depth, h_0 … h_L (L + 1, *state_shape); of gradients p_0 … p_L, of their shape.
        limit_times, limit_states: The limit on the whole grid (N + 1,) and (N + 1, *state_shape).
        errors: The statistic that `compare` averaged, one entry per depth, before any correction.
        common_errors: The same over the times that all depths share.
        norm: Name of the statistic.
    """

    index: int
    depths: tuple[int, ...]
    times: dict[int, np.ndarray]
    states: dict[int, np.ndarray]
    limit_times: np.ndarray
    limit_states: np.ndarray
    errors: np.ndarray
    common_errors: np.ndarray
    norm: str

    def __str__(self) -> str:
        rows = [f"{'depth':>8}  {'error':>10}  {'at common times':>15}"]
        for depth, error, common in zip(self.depths, self.errors, self.common_errors, strict=True):
            rows.append(f"{depth:>8}  {error:>10.4g}  {common:>15.4g}")
        return "\n".join([f"path {self.index}, {self.norm}", *rows])

    def plot(self, ax: Axes | str | None = None, coordinate: int = 0) -> Axes:
        """Draw one coordinate of the limit and of the network at every depth against time.

        Args:
            ax: Axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
            coordinate: Number of the coordinate, in the flattened state.

        Raises ValueError for a coordinate that states do not have.
        """
        size = int(np.prod(self.limit_states.shape[1:]))
        place = validation.integer(coordinate, "coordinate", minimum=0, maximum=size - 1)
        return drawing.plot(lambda axes: self._draw(axes, place), ax)

    def _draw(self, axes: Axes, place: int) -> None:
        for depth in self.depths:
            values = self.states[depth].reshape(depth + 1, -1)[:, place]
            axes.plot(self.times[depth], values, drawstyle="steps-post", linewidth=1, label=f"depth {depth}")
        limit = self.limit_states.reshape(len(self.limit_times), -1)[:, place]
        axes.plot(self.limit_times, limit, color="black", linewidth=1, label="limit")
        axes.set_xlabel("time $k/L$")
        axes.set_ylabel(f"coordinate {place}")
        drawing.legend(axes)


class AccumulatorWithStates(ErrorAccumulator):
    """An accumulator that also keeps every state of one row."""

    def __init__(self, task: Task, h0: Tensor, row: int) -> None:
        super().__init__(task, h0)
        self.row = row
        self.limits = [h0[row].clone()]
        self.layers = [[h0[row].clone()] for _ in task.grid.depths]

    def at(self, limit: Tensor, coarse: Tensor | None, is_common: bool) -> None:
        super().at(limit, coarse, is_common)
        self.limits.append(limit[self.row].clone())

    def layer(self, j: int, state: Tensor, scheme: Tensor | None = None) -> None:
        super().layer(j, state, scheme)
        self.layers[j].append(state[self.row].clone())


def draw_again(
    task: Task, index: int, which: int = 0, errors_of: Callable[[Task, int], np.ndarray] | None = None
) -> OnePath:
    """Return path `index` of a task, and of several inputs through one network the one numbered `which`.

    A compiled pass keeps no states: it gives the errors (P, C) of a block as `errors_of`, and states come
    from the same computation in torch, which differs by round-off.

    Raises TypeError or ValueError for numbers that the task does not have, and for a task whose noise is
    drawn by a kernel on a GPU.
    """
    number = validation.integer(index, "index", minimum=0, maximum=task.paths - 1)
    inputs = len(task.h0) if task.same_network and task.h0 is not None else 1
    chosen = validation.integer(which, "which", minimum=0, maximum=inputs - 1)
    if task.device.type != "cpu":
        raise ValueError(
            f"path {number} was drawn on {task.device}, perhaps inside a kernel; compare on device='cpu' to"
            " draw paths again."
        )
    block, row = divmod(number, task.block_size)
    accumulators: list[AccumulatorWithStates] = []

    def keep(task: Task, h0: Tensor) -> AccumulatorWithStates:
        accumulators.append(AccumulatorWithStates(task, h0, row))
        return accumulators[-1]

    run = projected.run_block if task.coupling == "projected" else pathwise.run_block
    if task.quantity == GRADIENT:
        run = gradients.run_block
    run(task, block, accumulator=keep)
    kept, depths = accumulators[chosen], task.grid.depths
    if task.quantity == GRADIENT:  # the gradient by h_0 comes last, and h_0 is none
        for states in (kept.limits, *kept.layers):
            states[0] = states.pop()
    errors = kept.errors()[row].cpu().numpy() if errors_of is None else errors_of(task, block)[row]
    times = np.concatenate([[0.0], *(chunk.times for chunk in task.grid.chunks())])
    return OnePath(
        index=number,
        depths=depths,
        times={depth: np.arange(depth + 1) / depth for depth in depths},
        states={depth: _stacked(states) for depth, states in zip(depths, kept.layers, strict=True)},
        limit_times=times,
        limit_states=_stacked(kept.limits),
        errors=errors[: len(depths)],
        common_errors=errors[len(depths) : 2 * len(depths)],
        norm=task.statistic.name,
    )


def _stacked(states: list[Tensor]) -> np.ndarray:
    result: np.ndarray = torch.stack(states).cpu().numpy()
    return result
