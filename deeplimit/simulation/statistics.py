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
    frozen dataclass with `name` and `fold`, and with `distance` if it is not the Euclidean one. It is a
    number made of distances: 0 where network and limit agree, twice as large where they are twice as far
    apart, and no larger over more layers. `compare` tries that on two random states and on distances that
    stay; what it does elsewhere is NOT checked. A functional of the state, such as its largest entry, is no
    statistic: give the difference of the network's and the limit's.

    Raises:
        TypeError, ValueError: By `compare`, for a statistic that fails these trials.

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


TRIED_LAYERS = 32
"""Layers over which a statistic is tried, and twice as many: a mean, a largest value or a discounted sum with
a memory of up to ten layers is the same over both, a sum twice as large."""
NEAR = 0.1
"""What tried statistics may be off: a trapezoid's ends weigh 1/32."""


def try_statistic(statistic: Statistic, like: Tensor) -> None:
    """Raise TypeError or ValueError for a statistic whose numbers would not fall as errors do.

    Distances are tried between two random states (2, *state_shape) of the dtype and on the device of `like`,
    and the way along a path with distances that stay: a statistic is then no larger over more layers, and
    twice as large for distances that are.
    """
    owner = f"norm {type(statistic).__name__}"
    if not isinstance(getattr(statistic, "name", None), str):
        raise TypeError(f"{owner} has no name; give the class one, such as name = 'mean'.")
    if type(statistic).distance is not Statistic.distance:
        _try_distance(statistic, owner, like)
    if statistic not in COMPILED:
        _try_fold(statistic, owner, like.device)


def _try_distance(statistic: Statistic, owner: str, like: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn((2, 2, *like.shape[1:]), generator=generator, dtype=torch.float64)
    one, other = states.to(like.device, like.dtype)
    found = statistic.distance(one, one)
    if not isinstance(found, Tensor) or found.shape != (2,):
        got = tuple(found.shape) if isinstance(found, Tensor) else validation.named(found)
        raise ValueError(
            f"{owner}: distance(limit, state) must return one number for each path, shape (2,); it returned"
            f" {got}."
        )
    if not bool((found == 0).all()):
        raise ValueError(
            f"{owner}: distance(limit, state) must be 0 where limit and state agree; it returned"
            f" {found.tolist()} there. A number made of the state alone is no distance: return the difference"
            " of the limit's and the network's."
        )
    apart = statistic.distance(one, other)
    if not bool((apart >= 0).all()) or not bool(apart.any()):
        raise ValueError(
            f"{owner}: distance(limit, state) must be 0 or more, and not 0 for all states; between states"
            f" that differ it returned {apart.tolist()}. Return its absolute value."
        )


def _try_fold(statistic: Statistic, owner: str, device: torch.device) -> None:
    once = _folded(statistic, 1.0, TRIED_LAYERS, device)
    longer = _folded(statistic, 1.0, 2 * TRIED_LAYERS, device)
    larger = _folded(statistic, 2.0, TRIED_LAYERS, device)
    if not (once > 0 and abs(longer / once - 1.0) < NEAR):
        raise ValueError(
            f"{owner}: fold must give the same over {TRIED_LAYERS} and {2 * TRIED_LAYERS} layers whose"
            f" distance is 1, and more than 0; it gave {once:g} and {longer:g}. A sum over layers grows with"
            " the depth whatever the limit: return kept + (distance - kept) / count for a mean."
        )
    if not abs(larger / once - 2.0) < NEAR:
        raise ValueError(
            f"{owner}: fold must be of first order in the distances; twice as large ones gave"
            f" {larger / once:g} times as much. Its order would be another than the network's: average the"
            " distances themselves, or take p= for a power mean over paths."
        )


def _folded(statistic: Statistic, distance: float, layers: int, device: torch.device) -> float:
    """Return what is kept after so many layers whose distance stays."""
    kept, each = torch.zeros((2, 1), dtype=torch.float64, device=device)
    each = each + distance
    for count in range(1, layers + 1):
        kept = statistic.fold(kept, each, count)
    return float(kept)


def read_statistic(value: object) -> Statistic:
    """Return a statistic, given by its name or as an object; raise TypeError or ValueError for others."""
    if isinstance(value, Statistic):
        return value
    if isinstance(value, type) and issubclass(value, Statistic):
        raise TypeError(f"norm must be an object; {value.__name__} is a class, use {value.__name__}().")
    return STATISTICS[validation.choice(value, "norm", tuple(STATISTICS))]
