"""What stands before the first layer and after the last: nothing, or linear maps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.arrays import Array, ArrayLibrary
from deeplimit.common.final import FinalWhereMarked

Parameters = dict[str, Array]
IN, IN_BIAS, OUT, OUT_BIAS = "input.weight", "input.bias", "output.weight", "output.bias"


class Ends(FinalWhereMarked, ABC):
    """From an input to the state before the first layer, and from the state after the last to an output.

    Arrays have networks and inputs as their first two axes, (S, n, ...); parameters are (1, S, ...).
    """

    trained: bool

    @abstractmethod
    def check(self, inputs: tuple[int, ...], outputs: int, state: tuple[int, ...]) -> None:
        """Raise ValueError where inputs, outputs and states of these shapes do not fit."""

    @abstractmethod
    def draw(self, width: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Return the parameters of one network by name, in float64."""

    @abstractmethod
    def enter(self, x: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        """Return the states before the first layer."""

    @abstractmethod
    def leave(self, h: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        """Return the outputs (S, n, outputs)."""

    @abstractmethod
    def enter_backward(self, x: Array, gradient: Array, library: ArrayLibrary) -> Parameters:
        """Return the gradients of the parameters of `enter`, from that of the states."""

    @abstractmethod
    def leave_backward(
        self, h: Array, parameters: Parameters, gradient: Array, library: ArrayLibrary
    ) -> tuple[Array, Parameters]:
        """Return the gradients of the states and of the parameters of `leave`, from that of the outputs."""


@final
@dataclass(frozen=True)
class DirectEnds(Ends):
    """The input is the first state, and the last state is the output."""

    trained: bool = field(default=False, init=False)

    def check(self, inputs: tuple[int, ...], outputs: int, state: tuple[int, ...]) -> None:
        if inputs != state or (outputs,) != state:
            raise ValueError(
                f"ends must be linear maps where inputs {inputs} and outputs ({outputs},) differ in shape"
                f" from states {state}: give LinearEnds({math.prod(inputs)}, {outputs})."
            )

    def draw(self, width: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {}

    def enter(self, x: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        return x

    def leave(self, h: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        return h

    def enter_backward(self, x: Array, gradient: Array, library: ArrayLibrary) -> Parameters:
        return {}

    def leave_backward(
        self, h: Array, parameters: Parameters, gradient: Array, library: ArrayLibrary
    ) -> tuple[Array, Parameters]:
        return gradient, {}


@dataclass(frozen=True)
class _LinearMaps(Ends):
    """What both kinds of linear ends share: two maps with biases, uniform on ±1/√fan-in as torch draws them.

    Attributes:
        inputs, outputs: numbers per input and per output; channels of an input, for convolutions.
        trained: whether they are trained with the layers.
    """

    inputs: int
    outputs: int
    trained: bool = True

    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.inputs, "inputs", minimum=1)
        validation.integer(self.outputs, "outputs", minimum=1)
        if not isinstance(self.trained, bool):
            raise TypeError(f"trained must be True or False, got {validation.named(self.trained)}.")

    def draw(self, width: int, generator: torch.Generator) -> dict[str, Tensor]:
        found = {}
        for weight, bias, rows, columns in (
            (IN, IN_BIAS, width, self.inputs),
            (OUT, OUT_BIAS, self.outputs, width),
        ):
            bound = 1.0 / math.sqrt(columns)
            for name, shape in ((weight, (rows, columns)), (bias, (rows,))):
                empty = torch.empty(shape, dtype=torch.float64)
                found[name] = empty.uniform_(-bound, bound, generator=generator)
        return found


def _flat(x: Array) -> Array:
    """Return inputs (S, n, *shape) as (S, n, numbers)."""
    return x.reshape(*x.shape[:2], -1)


def _mapped(x: Array, weight: Array, bias: Array, library: ArrayLibrary) -> Array:
    """Return the linear map of x (S, n, columns)."""
    return library.xp.matmul(x, weight[0].swapaxes(-1, -2)) + bias[0][:, None, :]


def _of_map(x: Array, gradient: Array, library: ArrayLibrary) -> tuple[Array, Array]:
    """Return the gradients of a map's weight and bias, (1, S, ...) both."""
    return library.xp.matmul(gradient.swapaxes(-1, -2), x)[None], gradient.sum(-2)[None]


@final
@dataclass(frozen=True)
class LinearEnds(_LinearMaps):
    """Linear maps with bias from inputs of any shape, made flat, to states (d,), and from states to outputs.

    Examples:
        >>> import deeplimit as dl
        >>> dl.LinearEnds(784, 10)
        LinearEnds(inputs=784, outputs=10, trained=True)
    """

    def check(self, inputs: tuple[int, ...], outputs: int, state: tuple[int, ...]) -> None:
        if len(state) not in (1, 3):
            raise ValueError(
                f"ends LinearEnds({self.inputs}, {self.outputs}) are for states that are vectors, got states"
                f" {state}: give a subclass of deeplimit.Ends that you write."
            )
        if math.prod(inputs) != self.inputs or outputs != self.outputs or len(state) != 1:
            fitting = "PooledEnds(channels, outputs)" if len(state) == 3 else "LinearEnds"
            numbers = "" if len(state) == 3 else f"({math.prod(inputs)}, {outputs})"
            raise ValueError(
                f"ends LinearEnds({self.inputs}, {self.outputs}) must fit inputs {inputs}, outputs"
                f" ({outputs},) and states {state}: give {fitting}{numbers}."
            )

    def enter(self, x: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        return _mapped(_flat(x), parameters[IN], parameters[IN_BIAS], library)

    def leave(self, h: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        return _mapped(h, parameters[OUT], parameters[OUT_BIAS], library)

    def enter_backward(self, x: Array, gradient: Array, library: ArrayLibrary) -> Parameters:
        weight, bias = _of_map(_flat(x), gradient, library)
        return {IN: weight, IN_BIAS: bias}

    def leave_backward(
        self, h: Array, parameters: Parameters, gradient: Array, library: ArrayLibrary
    ) -> tuple[Array, Parameters]:
        weight, bias = _of_map(h, gradient, library)
        return library.xp.matmul(gradient, parameters[OUT][0]), {OUT: weight, OUT_BIAS: bias}


@final
@dataclass(frozen=True)
class PooledEnds(_LinearMaps):
    """For images (channels, height, width): linear maps of each pixel's channels, and of their means.

    Examples:
        >>> import deeplimit as dl
        >>> dl.PooledEnds(3, 10, trained=False)
        PooledEnds(inputs=3, outputs=10, trained=False)
    """

    def check(self, inputs: tuple[int, ...], outputs: int, state: tuple[int, ...]) -> None:
        fits = len(inputs) == 3 and inputs[0] == self.inputs and outputs == self.outputs
        if not fits or inputs[1:] != state[1:]:
            raise ValueError(
                f"ends PooledEnds({self.inputs}, {self.outputs}) must fit inputs {inputs}, outputs"
                f" ({outputs},) and states {state}: reshape inputs to (channels, {state[-2]}, {state[-1]})"
                f" and give PooledEnds(channels, {outputs})."
                if len(state) == 3
                else f"ends PooledEnds({self.inputs}, {self.outputs}) are for states that are images, got"
                f" states {state}: give LinearEnds({math.prod(inputs)}, {outputs})."
            )

    def enter(self, x: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        flat = x.reshape(*x.shape[:3], -1)  # (S, n, c, pixels)
        mapped = (
            library.xp.matmul(parameters[IN][0][:, None], flat) + parameters[IN_BIAS][0][:, None, :, None]
        )
        return mapped.reshape(*mapped.shape[:3], *x.shape[3:])

    def leave(self, h: Array, parameters: Parameters, library: ArrayLibrary) -> Array:
        return _mapped(h.mean((-2, -1)), parameters[OUT], parameters[OUT_BIAS], library)

    def enter_backward(self, x: Array, gradient: Array, library: ArrayLibrary) -> Parameters:
        flat = x.reshape(*x.shape[:3], -1)
        given = gradient.reshape(*gradient.shape[:3], -1)
        weight = library.xp.matmul(given, flat.swapaxes(-1, -2)).sum(1)
        return {IN: weight[None], IN_BIAS: given.sum((-3, -1))[None]}

    def leave_backward(
        self, h: Array, parameters: Parameters, gradient: Array, library: ArrayLibrary
    ) -> tuple[Array, Parameters]:
        weight, bias = _of_map(h.mean((-2, -1)), gradient, library)
        pixels = h.shape[-2] * h.shape[-1]
        of_means = library.xp.matmul(gradient, parameters[OUT][0]) / pixels
        spread = library.empty(*h.shape)
        spread[...] = of_means[..., None, None]
        return spread, {OUT: weight, OUT_BIAS: bias}


def usual_ends(inputs: tuple[int, ...], outputs: int, state: tuple[int, ...]) -> Ends:
    """Return ends that fit: none where shapes agree, trained linear maps elsewhere."""
    if inputs == state and (outputs,) == state:
        return DirectEnds()
    if len(state) == 3:
        return PooledEnds(inputs[0], outputs)
    return LinearEnds(math.prod(inputs), outputs)
