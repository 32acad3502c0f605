"""Layers that are the blocks of a user's torch module, built afresh for each path and depth."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from typing import Any, Protocol, final, overload

import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import seeded
from deeplimit.driving.drawn_blocks import Build, Stacks, TracedFactory, close, traced
from deeplimit.driving.law import Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw
from deeplimit.driving.path import Grid, Layer, Path
from deeplimit.driving.written_layers import Plan, evaluating, written_layers

Factory = Callable[[int], Any]
"""Modules draw their weights from the global generators: one stack is built at a time."""


NOT_KNOWN = (
    "how the blocks of a module draw their weights (an equation that holds one draw is the limit of a factory"
    " that draws the same each time: call torch.manual_seed in it)"
)
"""What every report on a module's blocks says of their weights."""


ENOUGH = 8
"""Fewer networks are built. To trace a factory takes as long as building ten networks, once in a call. Then
eight networks of res-1 at width 40 take .6 times as long as built ones, 32 a third, all layers passed.
"""


@final
@dataclass(frozen=True)
class FreshBlocks(WeightLaw):
    """The blocks that `factory(depth)` builds, with fresh weights for each path at each depth.

    Blocks are put in evaluation mode, so that dropout draws nothing. Where the factory returns the same
    blocks when it is called again, `keeps`, they are copied and stay as they are. Where it returns the same
    numbers, `repeats`, nothing is random. How blocks draw their weights is not known, so no theorem is about
    them.
    """

    factory: Factory
    keeps: bool = False
    state_shape: Shape = ()
    repeats: bool = False

    @property
    def facts(self) -> Facts:
        not_known = () if self.repeats else (NOT_KNOWN,)
        return Facts(Dependence.UNKNOWN, deterministic=self.repeats, not_known=not_known)

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        return (Channel("block", ChannelKind.SEPARATE, shape, held=math.prod(shape)),)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return BlocksPath(self, grid.depths, paths, generator, dtype)

    def describe(self) -> str:
        name = getattr(self.factory, "__name__", type(self.factory).__name__)
        return f"fresh blocks of {name}(depth)"

    def build(self, depth: int) -> Build:
        """Return what builds the blocks of one network from a seed, inside a context."""

        def built(seed: int, inside: AbstractContextManager[Any]) -> Sequence[nn.Module]:
            with seeded(seed):
                if isinstance(self.factory, LayersOf):  # a forward that is recorded is nothing that is drawn
                    with inside:
                        model = self.factory.factory(depth)
                    return checked_blocks(self.factory.of(model, depth), depth)
                with inside:
                    blocks = blocks_of(self.factory, depth)
                    return [copy.deepcopy(block) for block in blocks] if self.keeps else blocks

        return built

    def stack(self, depth: int, seed: int, device: torch.device, dtype: torch.dtype) -> Sequence[nn.Module]:
        """Return the blocks of one network; raise where they are not modules, or not one per layer."""
        blocks = self.build(depth)(seed, nullcontext())
        return [block.to(device, dtype).eval().requires_grad_(False) for block in blocks]

    def draws(self, depth: int, seeds: Sequence[int], device: torch.device, dtype: torch.dtype) -> Drawn:
        """Return the blocks of many networks, drawn in a batch where that gives the same."""
        if self.repeats and self.state_shape and len(seeds) > 1:  # one network, called with all states
            one, beside = (self.stack(depth, seed, device, dtype) for seed in seeds[:2])
            same = [dict((*block.named_parameters(), *block.named_buffers())) for block in one]
            return Together(self, depth, seeds, Stacks(one, [{} for _ in one], same), beside, device, dtype)
        can = bool(self.state_shape) and not self.keeps and isinstance(self.factory, Hashable)
        if can and len(seeds) >= ENOUGH and (found := traced_at(self, depth)) is not None:
            one, beside = (self.stack(depth, seed, device, dtype) for seed in seeds[:2])
            stacks = found.stacks(one, seeds, device, dtype)
            if stacks.hold(beside, 1):  # a factory may do something else by now
                return Together(self, depth, seeds, stacks, beside, device, dtype)
        return _built(self, depth, seeds, device, dtype)


@lru_cache(maxsize=16)
def traced_at(law: FreshBlocks, depth: int) -> TracedFactory | None:
    """Return how a factory draws this many blocks, which all paths of a call ask for."""
    return traced(law.build(depth), law.state_shape)


class Drawn(Protocol):
    """The blocks of many networks."""

    def called(self, k: int, states: Tensor) -> Tensor:
        """Return what block `k` of every network makes of its own state: (P, *shape) of (P, *shape)."""

    def block(self, k: int, draw: int) -> nn.Module:
        """Return block `k` of one network."""


@final
class Together:
    """Blocks that were drawn in a batch; each layer's first states are held against a built network's.

    Where they differ, or blocks cannot be called together, all networks are built.
    """

    def __init__(
        self,
        law: FreshBlocks,
        depth: int,
        seeds: Sequence[int],
        stacks: Stacks,
        beside: Sequence[nn.Module],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.build = partial(_built, law, depth, seeds, device, dtype)
        self.stacks, self.beside = stacks, beside
        self.tried: set[int] = set()
        self.instead: Built | None = None

    def called(self, k: int, states: Tensor) -> Tensor:
        """Return what block `k` of every network makes of its own state."""
        if self.instead is None and (returned := self._returned(k, states)) is not None:
            return returned
        self.instead = self.instead or self.build()
        return self.instead.called(k, states)

    def _returned(self, k: int, states: Tensor) -> Tensor | None:
        """Return the same of the batch; None where a built network shows that it is wrong."""
        if k in self.tried:
            return self.stacks.called(k, states)
        with torch.no_grad(), validation.noted(_called_with(states)):
            alone = self.beside[k](states[1:2].detach().clone())[0]
        try:
            returned = self.stacks.called(k, states)
        except Exception:  # noqa: BLE001  # whatever a block does that cannot be done for many at once
            return None
        self.tried.add(k)
        return returned if close(returned[1].detach(), alone) else None

    def block(self, k: int, draw: int) -> nn.Module:
        """Return block `k` of one network."""
        return (self.instead or self.stacks).block(k, draw)


def _called_with(states: Tensor) -> str:
    kind = str(states.dtype).removeprefix("torch.")
    return (
        f"deeplimit called a block with states of {kind}. Tensors that are neither parameters nor buffers"
        " keep their own dtype: register_buffer moves them, or pass dtype='float32'."
    )


def _built(
    law: FreshBlocks, depth: int, seeds: Sequence[int], device: torch.device, dtype: torch.dtype
) -> Built:
    return Built([law.stack(depth, seed, device, dtype) for seed in seeds])


@final
@dataclass(frozen=True)
class Built:
    """Blocks that were built, network by network."""

    stacks: Sequence[Sequence[nn.Module]]

    def called(self, k: int, states: Tensor) -> Tensor:
        """Return what the blocks make of copies of their states, which they may write on."""
        blocks = [stack[k] for stack in self.stacks]
        with validation.noted(_called_with(states)):
            return torch.cat([block(h.clone()) for block, h in zip(blocks, states.unsqueeze(1), strict=True)])

    def block(self, k: int, draw: int) -> nn.Module:
        """Return a block itself."""
        return self.stacks[draw][k]


def blocks_of(factory: Factory, depth: int, shape: Shape | None = None) -> list[nn.Module]:
    """Return the blocks that a factory builds; raise where they are not modules, or not one per layer."""
    return checked_blocks(factory(depth), depth, shape)


def checked_blocks(built: Any, depth: int, shape: Shape | None = None) -> list[nn.Module]:
    """Return what a factory built as a list of blocks, one per layer; raise as `blocks_of` does.

    Where the shape of a state is given, a model that is no list is called on one, to say what it raises.
    """
    if not isinstance(built, (nn.Sequential, nn.ModuleList, list, tuple)):
        names = [name for name, _ in lists_of(built, depth)] if isinstance(built, nn.Module) else []
        # At depth 2, lists of two modules within a block, or in a head, are as long.
        lists = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
        cure = (
            f" Without its embedding and head, where it has them: lambda depth: factory(depth).{lists[0]},"
            " and x of the states that these blocks get."
            if len(lists) == 1
            else ""
        )
        raise TypeError(
            f"factory({depth}) must return its blocks in order, as an nn.Sequential, nn.ModuleList or list,"
            " or a model whose forward maps a state to a state, layer by layer, and does nothing else;"
            f" got {validation.named(built)}.{_what_it_raises(built, shape)}{cure}"
            " identify(factory, x) takes models with an embedding or a head, and check_depth(factory) any."
        )
    blocks = list(built)
    for k, block in enumerate(blocks):
        if not isinstance(block, nn.Module):
            raise TypeError(f"factory({depth})[{k}] must be an nn.Module; got {validation.named(block)}.")
    if len(blocks) != depth:
        raise ValueError(f"factory({depth}) must return {depth} blocks, one per layer; got {len(blocks)}.")
    return blocks


def _what_it_raises(built: Any, shape: Shape | None) -> str:
    """Return a sentence on the error of a model whose forward takes no single state."""
    if shape is None or not isinstance(built, nn.Module):
        return ""
    try:
        with torch.no_grad(), evaluating(built):
            built(torch.zeros(1, *shape))
    except Exception as error:  # noqa: BLE001  # whatever a forward does with a state
        first_line = str(error).partition("\n")[0].rstrip(".")
        return f" For a state, (1, *shape) = {(1, *shape)}, it raised {type(error).__name__}: {first_line}."
    return ""


@final
@dataclass(frozen=True)
class ListOf:
    """A factory of the blocks of models that another factory makes: their list of this name."""

    factory: Factory
    name: str

    def __call__(self, depth: int) -> list[nn.Module]:
        return list(self.factory(depth).get_submodule(self.name))

    @property
    def __name__(self) -> str:
        return str(getattr(self.factory, "__name__", type(self.factory).__name__))


@final
@dataclass(frozen=True)
class LayersOf:
    """A factory of the layers that the forward of models writes out, for states of a shape."""

    factory: Factory
    shape: Shape

    @cached_property
    def plans(self) -> dict[int, Plan]:
        """How the layers were found, by depth: no field, as what is known so far tells no two apart."""
        return {}

    def __call__(self, depth: int) -> Any:
        return self.of(self.factory(depth), depth)

    def of(self, model: Any, depth: int) -> Any:
        """Return the layers of a model, and anything else as it is."""
        if not isinstance(model, nn.Module) or isinstance(model, (nn.Sequential, nn.ModuleList)):
            return model
        h = torch.randn(1, *self.shape, generator=torch.Generator().manual_seed(0))
        with evaluating(model):
            found = written_layers(model, depth, h, plan=self.plans.get(depth))
        if found is not None:
            self.plans[depth] = found.plan
        return list(found.blocks) if found and found.begins and found.ends else model

    @property
    def __name__(self) -> str:
        return str(getattr(self.factory, "__name__", type(self.factory).__name__))


def factory_of_blocks(factory: Factory, depth: int, shape: Shape) -> Factory:
    """Return what makes the blocks of models whose forward calls one list of `depth` blocks in order.

    Or the layers that a forward writes out. That is tried on a state, and again at four times the depth: a
    model may do more after every few blocks. Any other factory is returned as it is.
    """
    models = [(factory(each), each) for each in (depth, 4 * depth)]
    name, other = (_list_of_blocks(model, each, shape) for model, each in models)
    if name is not None and name == other:
        return ListOf(factory, name)
    written = LayersOf(factory, shape)
    return factory if any(written.of(model, each) is model for model, each in models) else written


def _list_of_blocks(model: Any, depth: int, shape: Shape) -> str | None:
    """Return the name of the list whose blocks are all that a model calls; None if there is none."""
    if not isinstance(model, nn.Module) or isinstance(model, (nn.Sequential, nn.ModuleList)):
        return None
    h = torch.randn(1, *shape)
    for name, blocks in lists_of(model, depth):
        # A list of no blocks may raise anything.
        with torch.no_grad(), evaluating(model), suppress(Exception):
            whole, each = model(h.clone()), reduce(lambda state, block: block(state), blocks, h.clone())
            if isinstance(whole, Tensor) and whole.shape == h.shape and torch.allclose(whole, each):
                return str(name)
    return None


def lists_of(model: nn.Module, depth: int) -> Iterator[tuple[str, nn.Sequential | nn.ModuleList]]:
    """Yield the lists of as many modules as `depth` says in a model, with their names."""
    for name, blocks in model.named_modules():
        if isinstance(blocks, (nn.Sequential, nn.ModuleList)) and len(blocks) == depth:
            yield name, blocks


class BlocksPath(Path):
    """A stack of blocks for every path at every depth, built when the depth's first layer ends."""

    def __init__(
        self,
        law: FreshBlocks,
        depths: tuple[int, ...],
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.law = law
        self.depths = depths
        self.device, self.dtype = torch.device(generator.device), dtype
        many = (len(depths), paths)
        self.seeds = torch.randint(2**62, many, generator=generator, device=self.device).tolist()
        self.drawn: list[Drawn | None] = [None for _ in depths]
        self.passed = [0] * len(depths)

    def advance(self, index: int) -> None:
        """Nothing to do: a depth's blocks follow each other."""

    def layer(self, j: int) -> Layer:
        depth, k, seeds = self.depths[j], self.passed[j], self.seeds[j]
        drawn = self.drawn[j] = self.drawn[j] or self.law.draws(depth, seeds, self.device, self.dtype)
        self.passed[j] += 1
        blocks = BlocksOfLayer(drawn, k, range(len(seeds)))
        return Layer(None, depth, 0.0, 1.0, product_of=partial(drawn.called, k), blocks=blocks)

    def rewind(self) -> None:
        self.passed = [0] * len(self.depths)


@final
@dataclass(frozen=True)
class BlocksOfLayer(Sequence[nn.Module]):
    """The blocks of one layer, a path's made when it is asked for."""

    drawn: Drawn
    k: int
    paths: range

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> nn.Module: ...
    @overload
    def __getitem__(self, index: slice) -> list[nn.Module]: ...
    def __getitem__(self, index: int | slice) -> nn.Module | list[nn.Module]:
        if isinstance(index, slice):
            return [self.drawn.block(self.k, path) for path in self.paths[index]]
        return self.drawn.block(self.k, self.paths[index])
