"""What is measured along the grid: per-path distances between the limit and the network at every depth."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimit.coupling.moments import Moments
from deeplimit.coupling.task import Task


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the Euclidean distance (P,) between states (P, *state_shape), in float64."""
    difference = (a - b).flatten(1)
    if (
        difference.stride(0) == 1
    ):  # paths innermost: torch's norm over the other dimension is many times slower
        return difference.double().square().sum(dim=1).sqrt()
    norm: Tensor = torch.linalg.vector_norm(difference, dim=1, dtype=torch.float64)
    return norm


class _Errors:
    """Per-path errors of every depth against one solution of the limit: in the task's norm, and at the
    common times.
    """

    def __init__(self, task: Task, zero: Tensor) -> None:
        self.norm = task.norm
        self.errors = [zero] * len(task.grid.depths)
        self.common = [zero] * len(task.grid.depths)

    def between(self, j: int, distance: Tensor) -> None:
        """Take in a distance at a time between two layers."""
        self.errors[j] = torch.maximum(self.errors[j], distance)

    def at_layer(self, j: int, distance: Tensor, is_common: bool) -> None:
        """Take in a distance at a layer's end."""
        self.errors[j] = distance if self.norm == "final" else torch.maximum(self.errors[j], distance)
        if is_common:
            self.common[j] = distance if self.norm == "final" else torch.maximum(self.common[j], distance)

    def columns(self) -> list[Tensor]:
        return self.errors + self.common


class Account:
    """Takes in states in the order of time; `limit` first at every time, then each depth, deeper ones
    first.
    """

    def __init__(self, task: Task, h0: Tensor) -> None:
        zero = torch.zeros(len(h0), dtype=torch.float64, device=task.device)
        self.task = task
        self.limit = h0
        self.coarse: Tensor | None = None
        self.is_common = False
        self.fine, self.against_coarse = _Errors(task, zero), _Errors(task, zero)
        self.apart, self.common_apart = zero, zero
        self.twice = False

    def at(self, limit: Tensor, coarse: Tensor | None, is_common: bool) -> None:
        """Take in the limit, and its coarser solution where there is one at this time."""
        self.limit, self.coarse, self.is_common = limit, coarse, is_common
        if coarse is not None:
            self.twice = True
            gap = distance(limit, coarse)
            self.apart = torch.maximum(self.apart, gap)
            if is_common:
                self.common_apart = (
                    gap if self.task.norm == "final" else torch.maximum(self.common_apart, gap)
                )

    def between(self, j: int, state: Tensor) -> None:
        """Take in depth j's state just before the present time."""
        if self.task.norm == "sup-continuous":
            self.fine.between(j, distance(self.limit, state))

    def layer(self, j: int, state: Tensor) -> None:
        """Take in depth j's state after a layer that ends at the present time."""
        self.fine.at_layer(j, distance(self.limit, state), self.is_common)
        if self.coarse is not None:
            self.against_coarse.at_layer(j, distance(self.coarse, state), self.is_common)

    def errors(self) -> Tensor:
        """Return the per-path errors, one column each.

        For every depth the error in the task's norm, then for every depth the largest error at the times
        that all depths share (the maximum over more and more points creeps, the one over fixed points does
        not). Where the reference is solved twice, the same against the coarser solution, then the distance
        between the two, at the common times and at all.
        """
        both = [*self.against_coarse.columns(), self.common_apart, self.apart] if self.twice else []
        return torch.stack(self.fine.columns() + both, dim=1)


def moments_of(accounts: list[Account]) -> Moments:
    """Return the moments of the errors to the power p, in the mean over the inputs of a network, which
    have an account each.
    """
    task = accounts[0].task
    errors = torch.stack([account.errors() for account in accounts])
    if len(accounts) > 1:
        largest = errors.amax(dim=0).clamp(min=torch.finfo(errors.dtype).tiny)
        errors = largest * (errors / largest).pow(task.p).mean(dim=0, keepdim=True).pow(1.0 / task.p)
    finite = torch.stack([torch.isfinite(account.limit).flatten(1).all(dim=1) for account in accounts]).all(
        dim=0
    )
    return Moments.of(errors[0].cpu().numpy(), task.p, int((~finite).sum()))
