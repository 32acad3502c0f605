"""Distances along the grid between the limit and the network at every depth, and their running moments.

The moments are all that the statistics need, at a size independent of the number of paths.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimit.simulation.task import Statistic, Task

MOST_ROWS = 2**17
"""Differences of more paths than this are not kept: there sampling errors of an order are negligible."""


@dataclass(frozen=True)
class Moments:
    """Moments of columns of (error / scale)^p, merged in a fixed order, so that workers change no bit.

    Each column's scale is its largest error so far. The p-th powers then lie in [0, 1] and cannot overflow,
    however large p or the errors are.
    """

    power: float
    count: int
    scale: np.ndarray  # (C,): the largest finite error; 1 where all are 0
    mean: np.ndarray  # (C,)
    scatter: np.ndarray  # (C, C): sum of products of deviations
    third: np.ndarray  # (C,): sum of cubed deviations
    fourth: np.ndarray  # (C,)
    diverged: np.ndarray  # (C,) int: errors that were not finite; they enter as 0, and the caller must say so
    limit_lost: int  # paths on which the limit itself was not finite
    # (m, m), or (0, 0) where they are not kept: sums over paths of the products of differences of network and
    # limit at two depths, averaged over the times that all depths share.
    products: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    # (P, columns), or (0, 0) where they are not kept: consecutive differences of the first MOST_ROWS paths.
    differences: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))

    @staticmethod
    def of(
        errors: np.ndarray,
        power: float,
        limit_lost: int = 0,
        products: np.ndarray | None = None,
        differences: np.ndarray | None = None,
    ) -> Moments:
        """Return the moments of `errors` (P, C) to the given power, with sums of products where there are."""
        finite = np.isfinite(errors)
        clean = np.where(finite, errors, 0.0)
        scale = clean.max(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        values = (clean / scale) ** power
        mean = values.mean(axis=0)
        deviation = values - mean
        square = deviation * deviation  # products, since numpy takes other powers than squares by logarithms
        return Moments(
            power,
            len(values),
            scale,
            mean,
            deviation.T @ deviation,
            (square * deviation).sum(axis=0),
            (square * square).sum(axis=0),
            (~finite).sum(axis=0),
            limit_lost,
            np.zeros((0, 0)) if products is None else products,
            np.zeros((0, 0)) if differences is None else differences,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every field as an array, to be written to a file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @staticmethod
    def from_arrays(arrays: dict[str, np.ndarray]) -> Moments:
        """Return the moments whose `arrays()` these are."""
        values: dict[str, Any] = {name: each if each.ndim else each.item() for name, each in arrays.items()}
        return Moments(**values)

    def _at(self, scale: np.ndarray) -> Moments:
        """Return the same moments with other, larger scales."""
        factor = np.minimum(self.scale / scale, 1.0) ** self.power  # above 1 where there is nothing to scale
        return dataclasses.replace(
            self,
            scale=scale,
            mean=self.mean * factor,
            scatter=self.scatter * np.outer(factor, factor),
            third=self.third * factor**3,
            fourth=self.fourth * factor**4,
        )

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both samples together (Chan, Golub & LeVeque; Pébay for the higher ones)."""
        both = np.where(
            self.mean == 0,
            other.scale,
            np.where(other.mean == 0, self.scale, np.maximum(self.scale, other.scale)),
        )
        a, b = self._at(both), other._at(both)
        n, m = a.count, b.count
        total = n + m
        delta = b.mean - a.mean
        mine, theirs = np.diag(a.scatter), np.diag(b.scatter)
        third = (
            a.third
            + b.third
            + delta**3 * n * m * (n - m) / total**2
            + 3 * delta * (n * theirs - m * mine) / total
        )
        fourth = (
            a.fourth
            + b.fourth
            + delta**4 * n * m * (n * n - n * m + m * m) / total**3
            + 6 * delta**2 * (n * n * theirs + m * m * mine) / total**2
            + 4 * delta * (n * b.third - m * a.third) / total
        )
        return Moments(
            self.power,
            total,
            both,
            a.mean + delta * m / total,
            a.scatter + b.scatter + np.outer(delta, delta) * n * m / total,
            third,
            fourth,
            a.diverged + b.diverged,
            a.limit_lost + b.limit_lost,
            a.products + b.products,
            np.concatenate([a.differences, b.differences])[:MOST_ROWS],
        )

    def log_errors(self) -> np.ndarray:
        """Return log of the L^p mean of the errors (C,); minus infinity where all are 0."""
        with np.errstate(divide="ignore"):
            logs: np.ndarray = np.log(self.scale) + np.log(self.mean) / self.power
        return logs

    def relative_covariance(self) -> np.ndarray:
        """Return the covariance of `log_errors` by the delta method (C, C)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            covariance = self.scatter / max(self.count - 1, 1) / np.outer(self.mean, self.mean)
        return covariance / self.count / self.power**2

    def worst(self) -> np.ndarray:
        """Return the largest error (C,); infinite where a path was lost, 0 where there is none."""
        return np.where(self.diverged > 0, np.inf, np.where(self.mean > 0, self.scale, 0.0))

    def kurtosis(self) -> np.ndarray:
        """Return E(x - mean)⁴ / Var², which is 3 for a Gaussian; 0 where a column is constant."""
        variance = np.diag(self.scatter) / self.count
        constant = variance <= 1e-30
        return np.divide(self.fourth / self.count, variance**2, out=np.zeros_like(variance), where=~constant)


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


class Consecutive:
    """Differences of neighbouring depths at the times that all share: sizes, and angles at the last."""

    def __init__(self, statistic: Statistic, depths: int, zero: Tensor) -> None:
        self.statistic, self.depths, self.times = statistic, depths, 0
        self.sizes, self.last = [zero] * (depths - 1), [zero] * (2 * depths - 3)
        self.waiting: list[Tensor] = []

    def take(self, state: Tensor) -> None:
        """Take in the state of one depth at a common time, deeper ones first."""
        self.waiting.insert(0, state)
        if len(self.waiting) < self.depths:
            return
        self.times += 1
        pairs = list(pairwise(self.waiting))
        self.sizes = [
            self.statistic.fold(size, self.statistic.distance(fine, coarse), self.times)
            for size, (coarse, fine) in zip(self.sizes, pairs, strict=True)
        ]
        moves = [(fine - coarse).flatten(1).double() for coarse, fine in pairs]
        self.last = [(move * move).sum(dim=1) for move in moves]
        self.last += [(move * after).sum(dim=1) for move, after in pairwise(moves)]
        self.waiting.clear()

    def columns(self) -> Tensor:
        """Return (P, 3 m - 4): m - 1 sizes; m - 1 squares and m - 2 inner products at the last time."""
        return torch.stack(self.sizes + self.last, dim=1)


class ErrorAccumulator:
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
        self.of_scheme = _Errors(self.statistic, depths, zero)
        self.scheme_against_coarse = _Errors(self.statistic, depths, zero)
        self.from_scheme = _Errors(self.statistic, depths, zero)
        self.apart, self.common_apart, self.commons = zero, zero, 0
        self.twice, self.splits = task.measures_reference, task.splits
        self.rows: list[Tensor] | None = [] if task.keeps_products else None
        self.products = zero.new_zeros(len(h0), depths, depths)
        self.end_alone = task.statistic.reads_the_end_alone
        # Of the networks; where the error is split, of the schemes, and of what lies between the two.
        kinds = (1 + 2 * task.splits) if task.keeps_differences else 0
        self.consecutive = [Consecutive(task.statistic, depths, zero) for _ in range(kinds)]
        self.times = 0

    def at(self, limit: Tensor, coarse: Tensor | None, is_common: bool) -> None:
        """Take in the limit, and its coarser solution where there is one at this time."""
        self.limit, self.coarse, self.is_common = limit, coarse, is_common
        if coarse is not None:
            gap = self.statistic.distance(limit, coarse)
            self.apart = torch.maximum(self.apart, gap)
            if is_common:
                self.commons += 1
                self.common_apart = self.statistic.fold(self.common_apart, gap, self.commons)

    def between(self, j: int, state: Tensor) -> None:
        """Take in depth j's state just before the present time."""
        if self.statistic.looks_between_layers:
            self.fine.between(j, self.statistic.distance(self.limit, state))

    def layer(self, j: int, state: Tensor, scheme: Tensor | None = None) -> None:
        """Take in depth j's state after a layer that ends now, and the limit's scheme on its layers."""
        self.fine.at_layer(j, self.statistic.distance(self.limit, state), self.is_common)
        if self.rows is not None and self.is_common:
            self._keep_products(self.rows, state)
        if self.coarse is not None:
            distance = self.statistic.distance(self.coarse, state)
            self.against_coarse.at_layer(j, distance, self.is_common)
        if self.is_common:
            sequences = (state,) if scheme is None else (state, scheme, state - scheme)
            for each, value in zip(self.consecutive, sequences, strict=False):
                each.take(value)
        if scheme is not None:
            self.of_scheme.at_layer(j, self.statistic.distance(self.limit, scheme), self.is_common)
            if self.coarse is not None:
                distance = self.statistic.distance(self.coarse, scheme)
                self.scheme_against_coarse.at_layer(j, distance, self.is_common)
            self.from_scheme.at_layer(j, self.statistic.distance(scheme, state), self.is_common)

    def _keep_products(self, differences: list[Tensor], state: Tensor) -> None:
        """Take in a difference of network and limit, and their products once every depth has told its own."""
        differences.insert(0, (state - self.limit).flatten(1).double())
        if len(differences) == self.products.shape[1]:
            rows = torch.stack(differences, dim=1)
            products = torch.bmm(rows, rows.mT)
            self.products = products if self.end_alone else self.products + products
            self.times = 1 if self.end_alone else self.times + 1
            differences.clear()

    def errors(self) -> Tensor:
        """Return the errors (P, C) in the order of `Columns`, each the task's statistic."""
        columns = self.fine.columns()
        if self.twice:
            columns += self.against_coarse.columns()
        if self.splits:
            columns += self.of_scheme.columns() + self.from_scheme.columns()
        if self.twice and self.splits:
            columns += self.scheme_against_coarse.columns()
        if self.twice:
            columns += [self.common_apart, self.apart]
        return torch.stack(columns, dim=1)


LAYERS, COMMON, HALF = "layers", "common", "half"
COARSE_LAYERS, COARSE_COMMON = "coarse layers", "coarse common"
SCHEME_LAYERS, SCHEME_COMMON, SCHEME_HALF = "scheme layers", "scheme common", "scheme half"
SCHEME_COARSE_LAYERS, SCHEME_COARSE_COMMON = "scheme coarse layers", "scheme coarse common"
GAP_LAYERS, GAP_COMMON, GAP_HALF = "gap layers", "gap common", "gap half"
"""Blocks of columns. Network against limit over each depth's layers, and at the times that all depths share.
The first creep up, as a maximum over more and more points does, the second do not. Then the same against the
coarser solution; of the limit's scheme on each depth's layers against the limit; of the network against that
scheme; of the scheme against the coarser solution. A half is the root of the numbers at the common times,
whose powers have lighter tails.
No estimate reads the scheme's errors over its layers. They stay because a store keeps blocks by columns.
"""


@dataclass(frozen=True)
class Columns:
    """Where each block of m numbers stands among the errors of `depths` networks."""

    depths: int
    blocks: tuple[str, ...]

    @staticmethod
    def of(task: Task) -> Columns:
        """Return the columns that a task's moments have."""
        twice, splits = task.measures_reference, task.splits
        blocks: tuple[str, ...] = (LAYERS, COMMON)
        if twice:
            blocks += (COARSE_LAYERS, COARSE_COMMON)
        if splits:
            blocks += (SCHEME_LAYERS, SCHEME_COMMON, GAP_LAYERS, GAP_COMMON)
        if twice and splits:
            blocks += (SCHEME_COARSE_LAYERS, SCHEME_COARSE_COMMON)
        # Errors against two solutions are extrapolated in squares only.
        halves: tuple[str, ...] = () if twice else (SCHEME_HALF,) if splits else (HALF,)
        halves += (GAP_HALF,) if splits else ()
        return Columns(len(task.grid.depths), blocks + halves)

    def at(self, block: str) -> np.ndarray:
        """Return the m columns of a block."""
        first = self.blocks.index(block) * self.depths
        return np.arange(first, first + self.depths)

    @property
    def apart(self) -> int:
        """The distance of two solutions at the common times; the next column has it at all times."""
        return len(self.blocks) * self.depths


HALVES = {HALF: COMMON, SCHEME_HALF: SCHEME_COMMON, GAP_HALF: GAP_COMMON}


def moments_from(
    task: Task,
    errors: np.ndarray,
    lost: int,
    products: np.ndarray | None = None,
    differences: np.ndarray | None = None,
) -> Moments:
    """Return the moments of what a pass measured (P, C), with the halves that it leaves out.

    `products` (m, m) are summed over paths. `differences` (P, 3 m - 4, or thrice that with the limit's
    scheme) are kept by path, with the distances (P, m) to the limit, and to its scheme where there is one.
    """
    columns = Columns.of(task)
    if differences is not None:  # beside the distances that the limit is judged by, path by path
        near = (COMMON, GAP_COMMON) if task.splits else (COMMON,)
        differences = np.concatenate([differences, *(errors[:, columns.at(each)] for each in near)], axis=1)
    halves = [np.sqrt(errors[:, columns.at(HALVES[block])]) for block in columns.blocks if block in HALVES]
    measured = columns.depths * (len(columns.blocks) - len(halves))
    every = [errors[:, :measured], *halves, errors[:, measured:]]
    return Moments.of(np.concatenate(every, axis=1), task.p, lost, products, differences)


def moments_of(accumulators: list[ErrorAccumulator], task: Task) -> Moments:
    """Return the moments of the errors to the power p, averaged over inputs (an accumulator each)."""
    p = task.p
    errors = torch.stack([accumulator.errors() for accumulator in accumulators])
    if len(accumulators) > 1:
        largest = errors.amax(dim=0).clamp(min=torch.finfo(errors.dtype).tiny)
        errors = largest * (errors / largest).pow(p).mean(dim=0, keepdim=True).pow(1.0 / p)
    finite = torch.stack(
        [torch.isfinite(accumulator.limit).flatten(1).all(dim=1) for accumulator in accumulators]
    ).all(dim=0)
    products = [accumulator.products.sum(dim=0) / max(accumulator.times, 1) for accumulator in accumulators]
    kept = torch.stack(products).mean(dim=0).cpu().numpy() if task.keeps_products else None
    rows = [
        torch.cat([each.columns() for each in one.consecutive], dim=1)
        for one in accumulators
        if one.consecutive
    ]
    differences = torch.stack(rows).mean(dim=0).cpu().numpy() if rows else None
    return moments_from(task, errors[0].cpu().numpy(), int((~finite).sum()), kept, differences)
