"""Layers of trained modules as functions of a state: a network of them, and the ODE between them.

Hidden units may be permuted and heads turned in every layer: what a layer adds to a state stays the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.driving import Dependence, Facts, Layer, Path, SampledFunction, Shape, WeightLaw
from deeplimit.driving.law import Channel, ChannelKind
from deeplimit.driving.path import Grid
from deeplimit.equations.base import ODELimit, VectorField
from deeplimit.judge.block_limit.reading import LINEAR, Stack, check_inputs, growing_list, read
from deeplimit.layers.module_blocks import ModuleBlocks
from deeplimit.modules.trace.batches import Batch, as_batch
from deeplimit.networks.residual_network import ResidualNetwork

Function = Callable[[Tensor], Tensor]
"""What a layer makes of states (n, *shape): the next ones."""


@final
@dataclass(frozen=True)
class GivenLayers(WeightLaw):
    """Layer k of depth L is the k-th function that is given for L, the same in every path."""

    stacks: Mapping[int, tuple[Function, ...]] = field(repr=False)

    @property
    def facts(self) -> Facts:
        return Facts(Dependence.RECORDED, deterministic=True)

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        return (Channel("block", ChannelKind.RECORDED, shape, depths=tuple(self.stacks)),)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return GivenPath(self.stacks, grid.depths)

    def describe(self) -> str:
        return f"the layers of modules of depths {', '.join(map(str, self.stacks))}"


class GivenPath(Path):
    """Counts the layers of each depth, and gives the function."""

    def __init__(self, stacks: Mapping[int, tuple[Function, ...]], depths: tuple[int, ...]) -> None:
        self.stacks, self.depths = stacks, depths
        self.passed = [0] * len(depths)

    def advance(self, index: int) -> None:
        """Nothing to do: layers do not depend on time."""

    def layer(self, j: int) -> Layer:
        k, depth = self.passed[j], self.depths[j]
        self.passed[j] = k + 1
        return Layer(None, depth, 0.0, 1.0, product_of=self.stacks[depth][k])

    def rewind(self) -> None:
        self.passed = [0] * len(self.depths)


@final
@dataclass(frozen=True)
class BetweenLayers(ODELimit):
    """dH/dt = L F_t(H): what the L layers add, F_k at time (k + offset)/L, and linear in time in between."""

    layers: tuple[Function, ...] = field(repr=False)
    offset: float = 0.0
    kind: ClassVar[str] = "an ODE"

    @property
    def equation(self) -> str:
        return f"dH/dt = L F_t(H), F_t what the L = {len(self.layers)} layers add, interpolated in time"

    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        return self

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        """Return dH/dt at time `t` in [0, 1] and states `h` (n, *shape)."""
        depth = len(self.layers)
        before, share = neighbours(t, depth, self.offset)
        return depth * torch.lerp(self.layers[before](h) - h, self.layers[before + 1](h) - h, share)


def neighbours(t: Any, depth: int, offset: float) -> tuple[int, float]:
    """Return the layer before time `t`, and the share of the next, if layer k stands for (k + offset)/L."""
    place = min(max(float(t) * depth - offset, 0.0), depth - 1.0)
    before = min(int(place), depth - 2)
    return before, place - before


@torch.no_grad()
def given_layers(
    models: Mapping[int, nn.Module], batch: Any
) -> tuple[ResidualNetwork, dict[int, tuple[Function, ...]], Tensor]:
    """Return the network of the modules' layers, these as functions, and the deepest one's first states.

    Raises:
        TypeError: For a batch of another kind.
        ValueError: For modules without a list of blocks that is longer in every deeper one, whose forward
            does not write as many layers out either; with another number of blocks than said; or whose blocks
            mix the inputs of a batch.
    """
    copies = {
        depth: copy.deepcopy(model).double().eval().requires_grad_(False) for depth, model in models.items()
    }
    where = growing_list(list(copies.values()))
    stacks = {depth: _read(model, where, batch, depth) for depth, model in copies.items()}
    states = stacks[max(stacks)].states[0]
    for depth, stack in stacks.items():
        if stack.states[0].shape[1:] != states.shape[1:]:
            raise ValueError(
                f"weights must hold modules with states of one shape; depth {depth} has"
                f" {tuple(stack.states[0].shape[1:])}, the deepest {tuple(states.shape[1:])}."
            )
        _check_rows(stack, states, type(models[depth]).__name__)
    functions: dict[int, tuple[Function, ...]] = {
        depth: tuple(partial(_next, block) for block in stack.blocks) for depth, stack in stacks.items()
    }
    shape = tuple(states.shape[1:])
    recursion = ModuleBlocks(shape=shape, numbers=states[0].numel())
    return ResidualNetwork(recursion, shape[0], (GivenLayers(functions),), 0.0), functions, states


def _read(model: nn.Module, where: str | None, batch: Any, depth: int) -> Stack:
    taken = as_batch(model, batch)
    check_inputs(taken, batch, "batch")
    args, kwargs = map(_double, taken.args), {key: _double(each) for key, each in taken.kwargs.items()}
    doubled = Batch(tuple(args), kwargs)
    try:
        model(*doubled.args, **doubled.kwargs)
    except Exception as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"batch must be what {type(model).__name__} takes, in float64; its forward raised"
            f" {type(error).__name__}: {str(error)[:200].rstrip('.')}. Tensors that a module holds must be"
            " parameters or buffers."
        ) from error
    stack = read(model, where, doubled, depth, "batch", "weights must hold modules with")
    if len(stack.blocks) != depth:
        raise ValueError(
            f"weights[{depth}] must be a module of {depth} layers; {len(stack.blocks)} blocks were found in"
            f" {where or 'it'}. Give modules by the number of their blocks."
        )
    return stack


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _next(block: Function, h: Tensor) -> Tensor:
    return block(h.clone())  # blocks may change what they are given


def _check_rows(stack: Stack, states: Tensor, name: str) -> None:
    """Raise ValueError where what a block does with one input depends on the others of the batch."""
    if len(states) == 1:
        return
    for block in stack.blocks:
        with validation.noted(f"deeplimit called a block of {name} with one input."):
            alone = block(states[:1].clone())
        together = block(states.clone())[:1]
        if not (alone.isfinite().all() and together.isfinite().all()):
            raise ValueError(
                f"weights must hold modules with finite outputs; a block of {name} returns NaN or infinite"
                " numbers for the batch. Check that its parameters are finite."
            )
        if alone.shape != together.shape or not torch.allclose(alone, together, rtol=LINEAR, atol=LINEAR):
            raise ValueError(
                f"the blocks of {name} must treat inputs one by one; what one makes of the first depends on"
                " the others. Pass a batch of one input."
            )
