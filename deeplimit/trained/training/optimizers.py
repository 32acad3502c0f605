"""Optimisers of S networks at once: stochastic gradient descent, Adam, AdamW, with a step schedule."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from deeplimit.common import validation
from deeplimit.common.arrays import Array, ArrayLibrary
from deeplimit.common.final import FinalWhereMarked

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Optimizer(FinalWhereMarked, ABC):
    """How parameters follow gradients. The formulas, and their order, are those of torch.optim.

    Attributes:
        learning_rate: step size, more than 0.
        depth_exponent: the step size of a network of depth L is `learning_rate` · L^depth_exponent.
        every, factor: after each `every` epochs the step size is multiplied by `factor`; None for never.
        cosine: number of epochs over which the step size falls to 0 along half a cosine; None for never.

    Raises:
        TypeError, ValueError: for numbers of another kind, or out of range.
    """

    learning_rate: float
    depth_exponent: float = 0.0
    every: int | None = None
    factor: float = 0.1
    cosine: int | None = None

    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.real(self.learning_rate, "learning_rate", above=0.0)
        validation.real(self.depth_exponent, "depth_exponent")
        validation.real(self.factor, "factor", above=0.0)
        if self.every is not None:
            validation.integer(self.every, "every", minimum=1, hint="It is a number of epochs.")
        if self.cosine is not None:
            validation.integer(self.cosine, "cosine", minimum=1, hint="It is a number of epochs.")

    def rate(self, depth: int, epoch: int) -> float:
        """Return the step size at this depth in epoch 0, 1, …"""
        steps = 0 if self.every is None else epoch // self.every
        rate = self.learning_rate * math.pow(depth, self.depth_exponent) * self.factor**steps
        if self.cosine is None:
            return rate
        return rate * 0.5 * (1.0 + math.cos(math.pi * min(epoch / self.cosine, 1.0)))

    def describe(self) -> str:
        """Return it as it is made, without what is as usual: "SGD(0.1, momentum=0.9)"."""
        others = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.name != "learning_rate" and getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join((f'{self.learning_rate:g}', *others))})"

    @abstractmethod
    def begin(self, parameters: Arrays, library: ArrayLibrary) -> Arrays:
        """Return what is remembered between steps, before the first one; networks along the second axis."""

    @abstractmethod
    def step(
        self,
        parameters: Arrays,
        gradients: Arrays,
        memory: Arrays,
        rate: float,
        count: int,
        library: ArrayLibrary,
    ) -> None:
        """Change parameters and memory in place; `count` is 1 in the first step."""


@final
@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent on batches, with momentum and weight decay where they are not 0.

    Attributes:
        momentum: share of the last update that is kept, at least 0 and below 1.
        weight_decay: multiple of the parameters that is added to their gradients.

    Examples:
        >>> import deeplimit as dl
        >>> dl.SGD(0.1, depth_exponent=1.0).rate(depth=8, epoch=0)
        0.8
    """

    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _share(self.momentum, "momentum")
        validation.real(self.weight_decay, "weight_decay", minimum=0.0)

    def begin(self, parameters: Arrays, library: ArrayLibrary) -> Arrays:
        return _zeros("momentum", parameters, library) if self.momentum else {}

    def step(
        self,
        parameters: Arrays,
        gradients: Arrays,
        memory: Arrays,
        rate: float,
        count: int,
        library: ArrayLibrary,
    ) -> None:
        for name, value in parameters.items():
            gradient = gradients[name]
            if self.weight_decay:
                gradient = gradient + self.weight_decay * value
            if self.momentum:
                kept = memory[f"momentum.{name}"]
                kept *= self.momentum
                kept += gradient
                gradient = kept
            value -= rate * gradient  # noqa: PLW2901  # in place


@dataclass(frozen=True)
class _Moments(Optimizer):
    """What Adam and AdamW share.

    Attributes:
        first, second: decay of the means of gradients and of their squares.
        epsilon: added to the root of the latter.
        weight_decay: share of the parameters that is taken off, as Adam or AdamW says.
    """

    first: float = 0.9
    second: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _share(self.first, "first")
        _share(self.second, "second")
        validation.real(self.epsilon, "epsilon", above=0.0)
        validation.real(self.weight_decay, "weight_decay", minimum=0.0)

    def begin(self, parameters: Arrays, library: ArrayLibrary) -> Arrays:
        return _zeros("first", parameters, library) | _zeros("second", parameters, library)

    def step(
        self,
        parameters: Arrays,
        gradients: Arrays,
        memory: Arrays,
        rate: float,
        count: int,
        library: ArrayLibrary,
    ) -> None:
        for name, value in parameters.items():
            gradient = self._decayed(value, gradients[name], rate)
            self._move(name, value, gradient, memory, rate, count, library)

    @abstractmethod
    def _decayed(self, value: Array, gradient: Array, rate: float) -> Array:
        """Return the gradient after weight decay, which may change the value in place."""

    def _move(
        self,
        name: str,
        value: Array,
        gradient: Array,
        memory: Arrays,
        rate: float,
        count: int,
        library: ArrayLibrary,
    ) -> None:
        xp = library.xp
        first, second = memory[f"first.{name}"], memory[f"second.{name}"]
        first *= self.first
        first += (1.0 - self.first) * gradient
        second *= self.second
        gradient = gradient * gradient
        gradient *= 1.0 - self.second
        second += gradient
        root = xp.sqrt(second)
        root *= 1.0 / math.sqrt(1.0 - self.second**count)
        root += self.epsilon
        xp.divide(first, root, out=root)
        root *= rate / (1.0 - self.first**count)
        value -= root


@final
@dataclass(frozen=True)
class Adam(_Moments):
    """Adam; weight decay, if any, is added to the gradients.

    Examples:
        >>> import deeplimit as dl
        >>> dl.Adam(1e-3, every=5, factor=0.1).rate(depth=100, epoch=7)
        0.0001
    """

    def _decayed(self, value: Array, gradient: Array, rate: float) -> Array:
        return gradient + self.weight_decay * value if self.weight_decay else gradient


@final
@dataclass(frozen=True)
class AdamW(_Moments):
    """Adam with weight decay apart from the gradients.

    Examples:
        >>> import deeplimit as dl
        >>> dl.AdamW(1e-3, weight_decay=0.01).weight_decay
        0.01
    """

    def _decayed(self, value: Array, gradient: Array, rate: float) -> Array:
        value *= 1.0 - rate * self.weight_decay
        return gradient


def _zeros(what: str, parameters: Arrays, library: ArrayLibrary) -> Arrays:
    return {f"{what}.{name}": library.zeros(*value.shape) for name, value in parameters.items()}


def _share(value: float, name: str) -> None:
    if validation.real(value, name, minimum=0.0) >= 1.0:
        raise ValueError(f"{name} must be below 1, got {value:g}; 0.9 is usual.")
