"""Many draws of a stack of blocks without building each: what its factory drew is drawn again, in a batch.

Building a module takes a hundred times as long as drawing its numbers. So a factory is called once while
every operation on tensors is written down. Another draw repeats the operations with a generator of its own,
and all draws pass through the blocks at once, by `torch.func`. The numbers are those that the factory itself
would have drawn from the same seed: that is tried for two other seeds, bit by bit, and so is what the blocks
return. A factory that fails this, draws from elsewhere, or looks at what it drew, is called for every draw.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._python_dispatch import TorchDispatchMode

Build = Callable[[int, AbstractContextManager[Any]], Sequence[nn.Module]]
"""Builds a stack of blocks, inside a context and with the global generators set to a seed."""
Place = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""A tensor's storage, where it begins there, its shape and strides."""
FIRST, TRIED = 0x5EED, (1, 2**61 + 7)
"""Seeds of the stack that is written down, and of those that are held against what was."""
AGREES = 1e-4
"""What blocks return alone and in a batch may differ by this part of the largest entry."""
aten = torch.ops.aten
FILLS = {
    aten.randn.default: (aten.normal_.default, (0.0, 1.0)),
    aten.rand.default: (aten.uniform_.default, (0.0, 1.0)),
}
"""Operations that take no generator, and what they are on a new tensor."""
DRAWS = {aten.uniform_.default, aten.normal_.default}
ENTRYWISE = {
    aten.zero_.default,
    aten.fill_.Scalar,
    aten.mul_.Tensor,
    aten.mul.Tensor,
    aten.div_.Tensor,
    aten.div.Tensor,
    aten.add_.Tensor,
    aten.add.Tensor,
    aten.sub_.Tensor,
    aten.sub.Tensor,
    aten.clamp_.default,
    aten.erfinv_.default,
}
"""Operations that take every entry by itself where their other arguments are numbers."""
SEEN = {aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default}
"""Operations by which a program learns what was drawn, and may do something else the next time."""


class UnknownError(Exception):
    """How a factory draws cannot be written down."""


@final
@dataclass(frozen=True)
class Operation:
    """One operation on tensors, which are given by their places.

    Attributes:
        call: the operation.
        given: its arguments.
        named: those by name.
        made: the places of what it returns; None for a tensor that was there before.
        draws: whether it takes a generator.
        depends: whether it draws, or reads what was drawn.
    """

    call: Any
    given: tuple[Any, ...]
    named: dict[str, Any]
    made: tuple[Place | None, ...]
    draws: bool
    depends: bool


def _place(tensor: Tensor) -> Place:
    return (
        tensor.untyped_storage()._cdata,
        int(tensor.storage_offset()),
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )


@final
@dataclass(frozen=True)
class _At:
    """Stands for a tensor among the arguments of an operation."""

    place: Place


class Recorder(TorchDispatchMode):
    """Writes down all operations on tensors; what is there already counts as given.

    Attributes:
        operations: in order; views are left out, as every tensor is given by its place in a storage.
        constants: what storages held that no operation made.
        drawn: storages whose numbers depend on what was drawn.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # to skip what nobody here compiles would load 900 modules

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self.constants: dict[int, Tensor] = {}
        self.drawn: set[int] = set()
        self.known: set[int] = set()
        self.kept: list[Any] = []  # so that no storage is freed, and its number given to another
        self.failure = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        inside = list(_tensors((args, named)))
        for tensor in inside:
            self.meet(tensor)
        written = _written(func, args, named)
        draws = torch.Tag.nondeterministic_seeded in func.tags
        result = func(*args, **named)
        made = list(_tensors(result))
        self.kept.append((inside, made))
        before = {_place(tensor)[0] for tensor in inside}
        depends = draws or bool(before & self.drawn)
        if func in SEEN and depends:
            self.failure = "looks at what it drew"
        if draws and (named.get("generator") is not None or not _takes_a_generator(func)):
            self.failure = f"draws by {func}"
        places = (_place(tensor) for tensor in made)
        new = tuple(None if place[0] in before else place for place in places)
        fresh = {place[0] for place in new if place is not None}
        if not fresh and not written:
            return result  # a view, or a question
        if depends:
            self.drawn |= fresh | {_place(tensor)[0] for tensor in written}
        self.known |= fresh
        given, own = _with_places((args, named))
        self.operations.append(Operation(func, given, own, new, draws, depends))
        return result

    def __enter__(self) -> Recorder:
        self.others = _other_generators()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        if self.others != _other_generators():
            self.failure = "draws from numpy or random"

    def meet(self, tensor: Tensor) -> None:
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            self.failure = "makes tensors elsewhere"
            return
        storage = _place(tensor)[0]
        if storage not in self.known:
            self.known.add(storage)
            self.constants[storage] = _whole(tensor).clone()


def _other_generators() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # what a factory may draw from
    name, keys, *rest = state
    return random.getstate(), name, bytes(keys), *rest


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _with_places(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _At(_place(value))
    if isinstance(value, (list, tuple)):
        return type(value)(_with_places(each) for each in value)
    if isinstance(value, dict):
        return {name: _with_places(each) for name, each in value.items()}
    return value


def _written(func: Any, args: Any, named: dict[str, Any]) -> list[Tensor]:
    """Return the tensors among the arguments that an operation writes to."""
    found = []
    for index, argument in enumerate(func._schema.arguments):
        value = args[index] if index < len(args) else named.get(argument.name)
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += list(_tensors(value))
    return found


def _takes_a_generator(func: Any) -> bool:
    return func in FILLS or any(argument.name == "generator" for argument in func._schema.arguments)


def _whole(tensor: Tensor) -> Tensor:
    """Return all that a tensor's storage holds, as one row."""
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())


@final
class Replay:
    """What storages hold while operations are made again, for as many draws as there are generators.

    Attributes:
        held: a row for each storage, and for those that differ a row per draw.
    """

    def __init__(
        self, held: dict[int, Tensor], drawn: Set[int], generators: Sequence[torch.Generator]
    ) -> None:
        self.generators = generators
        self.held = {at: row.repeat(len(generators), 1) if at in drawn else row for at, row in held.items()}

    def all(self, place: Place) -> Tensor:
        """Return a tensor of all draws, (P, *shape), or the one that all share."""
        storage, offset, shape, strides = place
        rows = self.held[storage]
        if rows.ndim == 1:
            return rows.as_strided(shape, strides, offset)
        return rows.as_strided((len(rows), *shape), (rows.stride(0), *strides), offset)

    def make(self, operation: Operation) -> None:
        """Make one operation again, for all draws at once where it takes entry by entry, or draws."""
        call, (first, *rest), places = operation.call, operation.given or (None,), operation.made
        if call in FILLS:
            fill, values = FILLS[call]
            place = places[0]
            assert place is not None  # it is new
            dtype = operation.named.get("dtype") or torch.get_default_dtype()
            self.held[place[0]] = torch.empty(len(self.generators), math.prod(place[2]), dtype=dtype)
            self._fill(fill, place, values, {})
        elif call in DRAWS and first.place[2:] == (first.place[2], _packed(first.place[2])):
            self._fill(call, first.place, rest, operation.named)
        elif call in ENTRYWISE and not any(_tensors_at((rest, operation.named))):
            made = call(self.all(first.place), *rest, **operation.named)
            for place in filter(None, places):
                self.held[place[0]] = made.reshape(len(self.generators), -1)
        else:
            self._one_by_one(operation)

    def once(self, operation: Operation) -> None:
        """Make an operation that is the same for all draws."""
        made = operation.call(*_filled(operation.given, self.all), **_filled(operation.named, self.all))
        for place, tensor in zip(operation.made, _tensors(made), strict=True):
            if place is not None:
                self.held[place[0]] = _whole(tensor)

    def _fill(self, call: Any, place: Place, values: Sequence[Any], named: dict[str, Any]) -> None:
        for row, generator in zip(self.all(place).unbind(), self.generators, strict=True):
            call(row, *values, **{**named, "generator": generator})

    def _one_by_one(self, operation: Operation) -> None:
        found: list[list[Tensor]] = []
        for draw, generator in enumerate(self.generators):

            def at(place: Place, draw: int = draw) -> Tensor:
                whole = self.all(place)
                return whole if self.held[place[0]].ndim == 1 else whole[draw]

            named = _filled(operation.named, at)
            if operation.draws:
                named = {**named, "generator": generator}
            found.append(list(_tensors(operation.call(*_filled(operation.given, at), **named))))
        for index, place in enumerate(operation.made):
            if place is not None:
                self.held[place[0]] = torch.stack([_whole(made[index]) for made in found])


def _filled(value: Any, at: Callable[[Place], Tensor]) -> Any:
    if isinstance(value, _At):
        return at(value.place)
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(each, at) for each in value)
    if isinstance(value, dict):
        return {name: _filled(each, at) for name, each in value.items()}
    return value


def _tensors_at(value: Any) -> Iterator[bool]:
    if isinstance(value, _At):
        yield True
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors_at(each)
    elif isinstance(value, dict):
        yield from _tensors_at(list(value.values()))


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a tensor that is packed row by row."""
    return tuple(torch.empty(shape, device="meta").stride())


@final
@dataclass(frozen=True)
class Stacks:
    """As many draws of a stack of blocks: the blocks of one, and the numbers of all.

    Attributes:
        blocks: those of one draw, L of them, whose own numbers nobody reads.
        drawn: per block the tensors that differ from draw to draw, (P, *shape) by name.
        same: per block the other ones.
    """

    blocks: Sequence[nn.Module]
    drawn: Sequence[dict[str, Tensor]]
    same: Sequence[dict[str, Tensor]]

    def called(self, k: int, states: Tensor) -> Tensor:
        """Return what block `k` of every draw makes of its own state: (P, *shape) of (P, *shape)."""
        block, same = self.blocks[k], self.same[k]

        def one(numbers: dict[str, Tensor], state: Tensor) -> Any:
            return functional_call(block, {**same, **numbers}, (state[None].clone(),))[0]

        returned: Tensor = vmap(one)(self.drawn[k], states)
        return returned

    def hold(self, beside: Sequence[nn.Module], draw: int) -> bool:
        """Return whether a stack that was built has the numbers of a draw, bit by bit."""
        for block, drawn, same in zip(beside, self.drawn, self.same, strict=True):
            tensors = dict((*block.named_parameters(), *block.named_buffers()))
            if tensors.keys() != {*drawn, *same}:
                return False
            own = {**same, **{name: tensor[draw] for name, tensor in drawn.items()}}
            if not all(torch.equal(own[name], tensor) for name, tensor in tensors.items()):
                return False
        return True

    @torch.no_grad()
    def agree(self, k: int, beside: Sequence[nn.Module], draw: int, states: Tensor) -> bool:
        """Return whether block `k` of a stack that was built returns what that of a draw does."""
        alone = beside[k](states[draw : draw + 1].clone())[0]
        try:
            together = self.called(k, states)[draw]
        except Exception:  # noqa: BLE001  # whatever a block does that cannot be done for many at once
            return False
        return close(together, alone)

    def block(self, k: int, draw: int) -> nn.Module:
        """Return block `k` of one draw, a copy."""
        made = copy.deepcopy(self.blocks[k])
        for name, tensor in (*made.named_parameters(), *made.named_buffers()):
            drawn = self.drawn[k].get(name)
            tensor.data = (self.same[k][name] if drawn is None else drawn[draw]).clone()
        return made


@final
@dataclass(frozen=True)
class Recipe:
    """How a factory draws a stack: operations that are the same for all draws have been made once.

    Attributes:
        operations: those that depend on what is drawn.
        held: what storages hold before them.
        places: per block where its tensors are, by name.
        drawn: storages that differ from draw to draw.
    """

    operations: Sequence[Operation]
    held: dict[int, Tensor]
    places: Sequence[dict[str, Place]]
    drawn: frozenset[int]

    def stacks(
        self,
        blocks: Sequence[nn.Module],
        seeds: Sequence[int],
        device: torch.device,
        dtype: torch.dtype,
    ) -> Stacks:
        """Return a draw for each seed, with the blocks of some stack, which nobody else may use."""
        replay = self.draw(seeds)

        def moved(places: dict[str, Place], drawn: bool) -> dict[str, Tensor]:
            found = {
                name: replay.all(place) for name, place in places.items() if (place[0] in self.drawn) == drawn
            }
            return {
                name: each.to(device, dtype if each.is_floating_point() else each.dtype)
                for name, each in found.items()
            }

        drawn, same = ([moved(places, which) for places in self.places] for which in (True, False))
        own = [block.to(device, dtype).eval().requires_grad_(False) for block in blocks]
        return Stacks(own, drawn, same)

    def draw(self, seeds: Sequence[int]) -> Replay:
        """Make all operations again, for each seed."""
        replay = Replay(
            self.held, self.drawn, [torch.Generator().manual_seed(seed % 2**64) for seed in seeds]
        )
        for operation in self.operations:
            replay.make(operation)
        return replay


def close(together: Tensor, alone: Tensor) -> bool:
    """Return whether two states are equal but for the order of sums."""
    most = AGREES * max(float(alone.abs().max()), 1e-30)
    same_shape = together.shape == alone.shape
    return same_shape and torch.allclose(together, alone, rtol=0.0, atol=most, equal_nan=True)


def recipe(build: Build, shape: tuple[int, ...]) -> Recipe | None:
    """Return how a stack is drawn; None where it has to be built each time.

    Args:
        build: builds the stack from a seed, inside a context.
        shape: that of a state.
    """
    try:
        found, blocks = _recorded(build)
    except UnknownError:
        return None
    cpu = torch.device("cpu")
    for seed in TRIED:
        stacks = found.stacks(blocks, (FIRST, seed), cpu, torch.float32)
        beside = [block.float().eval().requires_grad_(False) for block in build(seed, nullcontext())]
        states = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed))
        holds = stacks.hold(beside, 1)
        if not holds or not all(stacks.agree(k, beside, 1, states) for k in range(len(beside))):
            return None
    return found


def _recorded(build: Build) -> tuple[Recipe, Sequence[nn.Module]]:
    recorder = Recorder()
    blocks = build(FIRST, recorder)
    named = [dict((*block.named_parameters(), *block.named_buffers())) for block in blocks]
    for tensor in _tensors(named):
        recorder.meet(tensor.detach())
    if recorder.failure:
        raise UnknownError(recorder.failure)
    places = [{name: _place(tensor) for name, tensor in tensors.items()} for tensors in named]
    once = Replay({at: row.clone() for at, row in recorder.constants.items()}, frozenset(), ())
    for operation in recorder.operations:
        if not operation.depends:
            once.once(operation)
    later = [operation for operation in recorder.operations if operation.depends]
    return Recipe(later, once.held, places, frozenset(recorder.drawn)), blocks
