"""Every block of paths, merged into what the statistics need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from deeplimit.common.measurement import Arrays, Measurement, Tick, fold
from deeplimit.common.specification import describe
from deeplimit.simulation import gradients, pathwise
from deeplimit.simulation.kernels import numba_pass, projected, triton_pass
from deeplimit.simulation.moments import Moments
from deeplimit.simulation.one_path import OnePath, draw_again
from deeplimit.simulation.task import GRADIENT, Task


@dataclass(frozen=True)
class Coupled:
    """What a run measured: moments of the per-path errors, and the reference's error."""

    moments: Moments
    reference_error: float


@dataclass(frozen=True)
class Part:
    """What a block measured: moments of its paths, or the reference's error."""

    moments: Moments | None = None
    reference_error: float = 0.0


@final
@dataclass(frozen=True)
class CoupledErrors(Measurement[Part, Coupled]):
    """Per-path errors of a task; the last block of an ODE limit measures the reference's error."""

    task: Task

    what = "compare"

    @staticmethod
    def of(task: Task) -> CoupledErrors:
        """Return the measurement of a task, on the task's device."""
        return CoupledErrors(task, device=task.device)

    @property
    def blocks(self) -> int:
        return self.task.blocks + self.task.is_ode

    def run(self, block: int, tick: Tick | None = None) -> Part:
        if block < self.task.blocks:
            return Part(self.work(self.task, block, tick))
        if self.task.quantity == GRADIENT:
            error = gradients.reference_error(self.task)
        else:
            error = pathwise.reference_error(self.task)
        if tick is not None:
            tick(1.0)
        return Part(reference_error=error)

    @property
    def work(self) -> Callable[[Task, int, Tick | None], Moments]:
        """The pass that runs a block: the fastest one that supports the task."""
        if self.task.quantity == GRADIENT:
            return gradients.run_block
        if self.task.coupling != "projected":
            return pathwise.run_block
        if triton_pass.applies(self.task):
            return triton_pass.run_block
        return numba_pass.run_block if numba_pass.applies(self.task) else projected.run_block

    def merge(self, parts: Iterator[Part]) -> Coupled:
        errors = [0.0]

        def moments() -> Iterator[Moments]:
            for part in parts:
                errors.append(part.reference_error)
                if part.moments is not None:
                    yield part.moments

        return Coupled(fold(moments(), Moments.merge), max(errors))

    def key(self) -> dict[str, Any]:
        """Return all but the number of paths, which `label` has of each block."""
        described = describe(self.task, "task")
        return {**described, "computed by": self.work.__module__, "paths": "as many as a block says"}

    def label(self, block: int) -> str:
        if block < self.task.blocks:
            return f"{block}, {self.task.held(block)} paths"
        return f"error of the reference, {self.task.held(0)} paths"

    def path(self, index: int, *which: int) -> OnePath:
        compiled = self.work is numba_pass.run_block
        errors_of = numba_pass.errors_again if compiled else None
        return draw_again(self.task, index, which[0] if which else 0, errors_of)

    def name(self) -> str:
        task = self.task
        return f"compare: {task.network}; depths {[*task.grid.depths]}, {task.paths} paths, seed {task.seed}"

    def write(self, part: Part) -> Arrays:
        if part.moments is None:
            return {"reference_error": np.array(part.reference_error)}
        return part.moments.arrays()

    def read(self, arrays: Arrays) -> Part:
        if "reference_error" in arrays:
            return Part(reference_error=float(arrays["reference_error"]))
        return Part(Moments.from_arrays(arrays))
