"""What is measured along the grid: per-path distances between the limit and the network at every depth."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimit.coupling.moments import Moments
from deeplimit.coupling.statistics import Statistic
from deeplimit.coupling.task import Task


class _Errors:
    """Per-path errors of every depth against one solution: over the layers, and at the common times."""

    def __init__(self, statistic: Statistic, depths: int, zero: Tensor) -> None:
        self.fold = statistic.fold
        self.errors, self.counts = [zero] * depths, [0] * depths
        self.common, self.common_counts = [zero] * depths, [0] * depths

    def between(self, j: int, distance: Tensor) -> None:
        """Take in a distance at a time between two layers."""
        self.errors[j] = self.fold(self.errors[j], distance, self.counts[j] + 1)

    def at_layer(self, j: int, distance: Tensor, is_common: bool) -> None:
        """Take in a distance at a layer's end."""
        self.counts[j] += 1
        self.errors[j] = self.fold(self.errors[j], distance, self.counts[j])
        if is_common:
            self.common_counts[j] += 1
            self.common[j] = self.fold(self.common[j], distance, self.common_counts[j])

    def columns(self) -> list[Tensor]:
        return self.errors + self.common


class Account:
    """Takes in states in order of time: at each time `limit` first, then each depth, deeper ones first."""

    def __init__(self, task: Task, h0: Tensor) -> None:
        zero = torch.zeros(len(h0), dtype=torch.float64, device=task.device)
        self.statistic = task.statistic
        self.limit = h0
        self.coarse: Tensor | None = None
        self.is_common = False
        depths = len(task.grid.depths)
        self.fine = _Errors(self.statistic, depths, zero)
        self.against_coarse = _Errors(self.statistic, depths, zero)
        self.apart, self.common_apart, self.commons = zero, zero, 0
        self.twice = False

    def at(self, limit: Tensor, coarse: Tensor | None, is_common: bool) -> None:
        """Take in the limit, and its coarser solution where there is one at this time."""
        self.limit, self.coarse, self.is_common = limit, coarse, is_common
        if coarse is not None:
            self.twice = True
            gap = self.statistic.distance(limit, coarse)
            self.apart = torch.maximum(self.apart, gap)
            if is_common:
                self.commons += 1
                self.common_apart = self.statistic.fold(self.common_apart, gap, self.commons)

    def between(self, j: int, state: Tensor) -> None:
        """Take in depth j's state just before the present time."""
        if self.statistic.looks_between_layers:
            self.fine.between(j, self.statistic.distance(self.limit, state))

    def layer(self, j: int, state: Tensor) -> None:
        """Take in depth j's state after a layer that ends at the present time."""
        self.fine.at_layer(j, self.statistic.distance(self.limit, state), self.is_common)
        if self.coarse is not None:
            distance = self.statistic.distance(self.coarse, state)
            self.against_coarse.at_layer(j, distance, self.is_common)

    def errors(self) -> Tensor:
        """Return the errors of every depth over its layers, then those at the times that all depths share.

        Each is the task's statistic. A maximum over more and more points creeps up; over fixed points not.
        Where the reference is solved twice, the same against the coarser solution, then the distance
        between the two, at the common times and at all.
        """
        both = [*self.against_coarse.columns(), self.common_apart, self.apart] if self.twice else []
        return torch.stack(self.fine.columns() + both, dim=1)


def moments_of(accounts: list[Account], p: float) -> Moments:
    """Return the moments of the errors to the power p, averaged over a network's inputs (an account each)."""
    errors = torch.stack([account.errors() for account in accounts])
    if len(accounts) > 1:
        largest = errors.amax(dim=0).clamp(min=torch.finfo(errors.dtype).tiny)
        errors = largest * (errors / largest).pow(p).mean(dim=0, keepdim=True).pow(1.0 / p)
    finite = torch.stack([torch.isfinite(account.limit).flatten(1).all(dim=1) for account in accounts]).all(
        dim=0
    )
    return Moments.of(errors[0].cpu().numpy(), p, int((~finite).sum()))
