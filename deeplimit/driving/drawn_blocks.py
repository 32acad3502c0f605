"""Many draws of a stack of torch blocks in a batch: a factory's initialisation is traced, and replayed.

A factory is called once while every operation on tensors is traced. Another draw replays the operations with
a generator of its own, and all draws pass through the blocks at once, by `torch.func`. The numbers are those
that the factory itself would have drawn from the same seed: that is tried for two other seeds, bit by bit,
and so is what the blocks return. A factory that fails this, draws from numpy or `random`, or branches on what
it drew, is called for every draw.

NOT checked: that a factory which reads its draws by `numpy()` or `tolist()` does the same for all of them. It
shows in the stacks that are tried, unless it is rare.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar, final

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
"""Seeds of the stack that is traced, and of those that are built and compared with replays."""
AGREES = 1e-4
"""What blocks return alone and in a batch may differ by this part of the largest entry: sums in float32, of
which a wide block has many, are taken in another order."""
aten = torch.ops.aten
Kind = TypeVar("Kind")
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
BRANCHES = {aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default}
"""Operations by which a program reads what was drawn, and may do something else the next time."""


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
class At:
    """Stands for a tensor among the arguments of an operation."""

    place: Place


class Recorder(TorchDispatchMode):
    """Writes down all operations on tensors; what is there already counts as given.

    Attributes:
        operations: in order; views are left out, as every tensor is given by its place in a storage.
        constants: what storages held that no operation made.
        drawn: storages whose numbers depend on what was drawn.
        fails: whether replays would not be what the factory does.
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
        self.fails = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        inside = list(_inside((args, named), Tensor))
        for tensor in inside:
            self.meet(tensor)
        result = func(*args, **named)
        made = list(_inside(result, Tensor))
        self.kept.append((inside, made))
        if not all(map(_is_plain, made)):
            self.fails = True
        if not self.fails:
            self._trace(func, args, named, inside, made)
        return result

    def _trace(
        self, func: Any, args: Any, named: dict[str, Any], inside: list[Tensor], made: list[Tensor]
    ) -> None:
        before = {_place(tensor)[0] for tensor in inside}
        draws = torch.Tag.nondeterministic_seeded in func.tags
        depends = draws or bool(before & self.drawn)
        own = named.get("generator") is not None or not _takes_a_generator(func)
        self.fails |= (draws and own) or (depends and func in BRANCHES)
        places = (_place(tensor) for tensor in made)
        new = tuple(None if place[0] in before else place for place in places)
        fresh = {place[0] for place in new if place is not None}
        written = {_place(tensor)[0] for tensor in _written(func, args, named)}
        if not fresh and not written:
            return  # a view, or a question
        if depends:
            self.drawn |= fresh | written
        self.known |= fresh
        given, by_name = _changed((args, named), Tensor, lambda tensor: At(_place(tensor)))
        self.operations.append(Operation(func, given, by_name, new, draws, depends))

    def __enter__(self) -> Recorder:
        self.others = _other_generators()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        if self.others != _other_generators():
            self.fails = True

    def meet(self, tensor: Tensor) -> None:
        """Keep what a tensor holds that was there before."""
        if not _is_plain(tensor):
            self.fails = True
        elif (storage := _place(tensor)[0]) not in self.known:
            self.known.add(storage)
            self.constants[storage] = _whole(tensor).clone()


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is numbers in a storage on the CPU."""
    return tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_nested


def _other_generators() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # what a factory may draw from
    name, keys, *rest = state
    return random.getstate(), name, bytes(keys), *rest


def _inside(value: Any, kind: type[Kind]) -> Iterator[Kind]:
    """Yield all that is of a kind in nested arguments."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _inside(each, kind)
    elif isinstance(value, dict):
        yield from _inside(list(value.values()), kind)


def _changed(value: Any, kind: type[Kind], change: Callable[[Kind], Any]) -> Any:
    """Return nested arguments with all that is of a kind changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_changed(each, kind, change) for each in value)
    if isinstance(value, dict):
        return {name: _changed(each, kind, change) for name, each in value.items()}
    return value


def _written(func: Any, args: Any, named: dict[str, Any]) -> list[Tensor]:
    """Return the tensors among the arguments that an operation writes to."""
    found = []
    for index, argument in enumerate(func._schema.arguments):
        value = args[index] if index < len(args) else named.get(argument.name)
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += list(_inside(value, Tensor))
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
        elif call in DRAWS:
            self._fill(call, first.place, rest, operation.named)
        elif call in ENTRYWISE and not any(_inside((rest, operation.named), At)):
            made = call(self.all(first.place), *rest, **operation.named)
            for place in filter(None, places):
                self.held[place[0]] = made.reshape(len(self.generators), -1)
        else:
            self._one_by_one(operation)

    def once(self, operation: Operation) -> None:
        """Make an operation that is the same for all draws."""
        given, named = _changed((operation.given, operation.named), At, lambda at: self.all(at.place))
        made = _inside(operation.call(*given, **named), Tensor)
        for place, tensor in zip(operation.made, made, strict=True):
            if place is not None:
                self.held[place[0]] = _whole(tensor)

    def _fill(self, call: Any, place: Place, values: Sequence[Any], named: dict[str, Any]) -> None:
        for row, generator in zip(self.all(place).unbind(), self.generators, strict=True):
            call(row, *values, **{**named, "generator": generator})

    def _one_by_one(self, operation: Operation) -> None:
        found: list[list[Tensor]] = []
        for draw, generator in enumerate(self.generators):

            def own(at: At, draw: int = draw) -> Tensor:
                whole = self.all(at.place)
                return whole if self.held[at.place[0]].ndim == 1 else whole[draw]

            given, named = _changed((operation.given, operation.named), At, own)
            if operation.draws:
                named = {**named, "generator": generator}
            found.append(list(_inside(operation.call(*given, **named), Tensor)))
        for index, place in enumerate(operation.made):
            if place is not None:
                self.held[place[0]] = torch.stack([_whole(made[index]) for made in found])


def called_together(
    block: nn.Module, drawn: dict[str, Tensor], same: dict[str, Tensor], states: Tensor
) -> Tensor:
    """Return what a block makes of states (P, *shape), with numbers (P, ...) by name, and the same ones."""

    def one(numbers: dict[str, Tensor], state: Tensor) -> Any:
        return functional_call(block, {**same, **numbers}, (state[None].clone(),))[0]

    returned: Tensor = vmap(one)(drawn, states)
    return returned


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
        return called_together(self.blocks[k], self.drawn[k], self.same[k], states)

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

    def block(self, k: int, draw: int) -> nn.Module:
        """Return block `k` of one draw, a copy."""
        made = copy.deepcopy(self.blocks[k])
        for name, tensor in (*made.named_parameters(), *made.named_buffers()):
            drawn = self.drawn[k].get(name)
            tensor.data = (self.same[k][name] if drawn is None else drawn[draw]).clone()
        return made


@final
@dataclass(frozen=True)
class TracedFactory:
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
            # A block may write on what all draws share, and so do all stacks.
            return {
                name: each.to(device, dtype if each.is_floating_point() else each.dtype, copy=not drawn)
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


def traced(build: Build, shape: tuple[int, ...]) -> TracedFactory | None:
    """Return how a stack is drawn; None where it has to be built each time.

    Args:
        build: builds the stack from a seed, inside a context.
        shape: that of a state.
    """
    recorder = Recorder()
    blocks = build(FIRST, recorder)
    with torch.no_grad():
        return _tried(recorder, blocks, build, shape)


def _tried(
    recorder: Recorder, blocks: Sequence[nn.Module], build: Build, shape: tuple[int, ...]
) -> TracedFactory | None:
    named = [dict((*block.named_parameters(), *block.named_buffers())) for block in blocks]
    for tensor in _inside(named, Tensor):
        recorder.meet(tensor.detach())
    if recorder.fails:
        return None
    for seed in TRIED:
        beside = [block.float().eval().requires_grad_(False) for block in build(seed, nullcontext())]
        states = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed))
        alone = [block(states[1:].clone())[0] for block in beside]
        try:
            found = _of(recorder, named)
            stacks = found.stacks(blocks, (FIRST, seed), torch.device("cpu"), torch.float32)
            together = [stacks.called(k, states)[1] for k in range(len(blocks))]
        except Exception:  # noqa: BLE001  # whatever an operation or a block does that has no batch
            return None
        if not stacks.hold(beside, 1) or not all(map(close, together, alone)):
            return None
    return found


def _of(recorder: Recorder, named: Sequence[dict[str, Tensor]]) -> TracedFactory:
    once = Replay({at: row.clone() for at, row in recorder.constants.items()}, frozenset(), ())
    for operation in recorder.operations:
        if not operation.depends:
            once.once(operation)
    return TracedFactory(
        [operation for operation in recorder.operations if operation.depends],
        once.held,
        [{name: _place(tensor) for name, tensor in tensors.items()} for tensors in named],
        frozenset(recorder.drawn),
    )
