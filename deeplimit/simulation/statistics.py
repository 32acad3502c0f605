"""What is kept of one path: a number per depth, made of the distances between the network and its limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked


def euclidean(limit: Tensor, state: Tensor) -> Tensor:
    """Return the Euclidean distance (P,) between states (P, *state_shape), in float64."""
    difference = (limit - state).flatten(1)
    if difference.stride(0) == 1:
        # Paths are innermost: torch's norm over the other dimension is many times slower.
        return difference.double().square().sum(dim=1).sqrt()
    norm: Tensor = torch.linalg.vector_norm(difference, dim=1, dtype=torch.float64)
    return norm


@dataclass(frozen=True)
class Statistic(FinalWhereMarked, ABC):
    """How the distances along one path become one number per depth; `compare(norm=...)` takes one.

    The error at depth L is then (E s^p)^{1/p} over paths, s this number. A user's statistic is a
    frozen dataclass with `name` and `fold`, and with `distance` if it is not the Euclidean one. It must be
    0 where network and limit agree; that, and that it is of first order in the distances, is NOT checked.

    Examples:
        >>> from dataclasses import dataclass
        >>> import deeplimit as dl
        >>> @dataclass(frozen=True)
        ... class MeanOverTime(dl.Statistic):
        ...     name = "mean over the layers"
        ...     def fold(self, kept, distance, count):
        ...         return kept + (distance - kept) / count
        >>> report = dl.compare(dl.res1(4, "tanh"), depths=[8, 16, 32, 64], norm=MeanOverTime(), paths=200)
        >>> report.norm, report.verdict
        ('mean over the layers', 'converges')
    """

    name: ClassVar[str]
    """What it is called in reports, in a few words."""
    looks_between_layers: ClassVar[bool] = False
    """Whether it also sees the distance to the limit between two layers, at every point of the grid."""

    @abstractmethod
    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        """Return what is kept (P,) after the `count`-th layer, whose end has this `distance` (P,).

        Before the first layer 0 is kept.
        """

    def distance(self, limit: Tensor, state: Tensor) -> Tensor:
        """Return the distance (P,) of network and limit states (P, *state_shape), in float64."""
        return euclidean(limit, state)


@final
@dataclass(frozen=True)
class Largest(Statistic):
    """The largest distance over the layer grid."""

    name: ClassVar[str] = "sup"

    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        return torch.maximum(kept, distance)


@final
@dataclass(frozen=True)
class LargestAtAllTimes(Statistic):
    """The largest distance over all times, sup_t |H_t - h_floor(tL)|, as Cohen et al. (2021) state their
    errors.
    """

    name: ClassVar[str] = "sup-continuous"
    looks_between_layers: ClassVar[bool] = True

    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        return torch.maximum(kept, distance)


@final
@dataclass(frozen=True)
class Last(Statistic):
    """The distance at the last layer."""

    name: ClassVar[str] = "final"

    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        return distance


COMPILED: tuple[Statistic, ...] = (Largest(), Last())
"""The ones that the compiled passes know; a user's class is none of these, whatever it says of itself."""
STATISTICS: dict[str, Statistic] = {each.name: each for each in (Largest(), LargestAtAllTimes(), Last())}


def try_statistic(statistic: Statistic, h: Tensor) -> None:
    """Raise TypeError or ValueError for a statistic without a name, or with a distance of another kind.

    The distance is tried between states h (P, *state_shape) and themselves.
    """
    owner = type(statistic).__name__
    if not isinstance(getattr(statistic, "name", None), str):
        raise TypeError(f"norm {owner} has no name; give the class one, such as name = 'mean'.")
    found = statistic.distance(h, h)
    if not isinstance(found, Tensor) or found.shape != (len(h),):
        got = tuple(found.shape) if isinstance(found, Tensor) else validation.named(found)
        raise ValueError(
            f"norm {owner}: distance(limit, state) must return one number for each path, shape ({len(h)},);"
            f" it returned {got}."
        )
    if not bool((found == 0).all()):
        raise ValueError(f"norm {owner}: distance(limit, state) must be 0 where limit and state agree.")


def read_statistic(value: object) -> Statistic:
    """Return a statistic, given by its name or as an object; raise TypeError or ValueError for others."""
    if isinstance(value, Statistic):
        return value
    if isinstance(value, type) and issubclass(value, Statistic):
        raise TypeError(f"norm must be an object; {value.__name__} is a class, use {value.__name__}().")
    return STATISTICS[validation.choice(value, "norm", tuple(STATISTICS))]
