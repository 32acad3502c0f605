"""Modules too large for memory: built on the meta device, and filled a few weights at a time.

The factory runs as if its meta tensors were on the CPU. Every operation that changes a large tensor is
written down, with the state of the generator before it. So any value can be dropped, and made again to the
last bit by the initialiser that made it first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

LARGE = 2**16
"""Bytes from which on a tensor may be dropped: to write down what makes a smaller one takes as much room."""
ROOM = 3 * 2**30
"""Bytes of weights in memory at a time, besides the largest weight, activations and torch itself: a check of
7 billion parameters in float32 then stays below 8 GB."""

ON_DEMAND = "_deeplimit_on_demand"
"""Attribute of parameters whose values may not be in memory."""

# Functions that read a tensor's memory without an operation that torch dispatches.
READING = {
    "numpy", "tolist", "data_ptr", "storage", "untyped_storage",
    "__array__", "__deepcopy__", "__dlpack__", "__reduce_ex__",
}  # fmt: skip
# Operations in place whose result does not depend on what was there before.
OVERWRITING = {"normal_", "uniform_", "zero_", "fill_", "copy_", "exponential_", "cauchy_", "log_normal_"}
MAKING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


@contextlib.contextmanager
def built_to_fit(make: Callable[[], nn.Module], device: torch.device) -> Iterator[nn.Module]:
    """Have the module that `make` returns; if it has parameters on the meta device, with values nevertheless.

    On a CPU they are in memory a few at a time, as long as the context lasts. Elsewhere they are made on
    `device`, where all of them need room.
    """
    model = make()
    if not any(parameter.is_meta for parameter in model.parameters()):
        yield model
    elif device.type != "cpu":
        with _Elsewhere(device):
            model = make()
        yield model
    else:
        with (pieces := Pieces()), _Readings(pieces):
            with _Elsewhere(device):
                model = make()
            pieces.close(model)
            yield model


@contextlib.contextmanager
def changing(model: nn.Module) -> Iterator[Callable[[torch.Tensor], bool]]:
    """Have changes of a module's weights written down inside, as they are while it is built.

    Yields a function that says whether a parameter may have been changed inside.
    """
    pieces = Pieces.active if any(map(on_demand, model.parameters())) else None
    if pieces is None:
        yield lambda _: True
        return
    first, pieces.open = len(pieces.steps), True
    try:
        yield lambda parameter: not on_demand(parameter) or pieces.changed_since(first, parameter)
    finally:
        pieces.close(model)


def on_demand(parameter: torch.Tensor) -> bool:
    """Whether the values of a parameter are made when an operation needs them."""
    return getattr(parameter, ON_DEMAND, False)


@dataclass(frozen=True)
class _View:
    """How a tensor lies in a storage, which is given by its address."""

    in_storage: ClassVar[bool] = True

    storage: int
    offset: int
    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class _Step:
    """An operation that made or changed large tensors: what it takes to do it again.

    Attributes:
        arguments: Positional and named ones; large tensors as views, others as copies.
        made: Storages of its results in order, None for those that are small or were there before.
        read: Storages of which it needs the values.
        generator: State of the generator before it, if it draws.
    """

    function: Any
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    made: tuple[int | None, ...]
    read: frozenset[int]
    generator: torch.Tensor | None


class Pieces(TorchDispatchMode):
    """Makes large tensors when an operation needs them, and drops them when others need the room."""

    active: Pieces | None = None

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.open = True  # whether operations are written down
        self.storages: dict[int, torch.UntypedStorage] = {}
        self.bytes: dict[int, int] = {}
        self.steps: list[_Step] = []
        self.makers: dict[int, list[int]] = {}  # the steps that made or changed each storage
        self.overwritten: set[tuple[int, int]] = (
            set()
        )  # storages, with the steps that need not know their values
        self.present: dict[int, None] = {}  # storages with values, in the order in which they got them
        self.pinned: set[int] = set()
        self.used = 0

    def __enter__(self) -> Pieces:
        self.before, Pieces.active = Pieces.active, self
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: object) -> None:
        Pieces.active = self.before
        super().__exit__(*exception)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunction():
            return self._done(func, args, dict(kwargs or {}))

    def _done(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {key for value in tree_leaves((args, kwargs)) if (key := _storage(value)) is not None}
        large = given & self.bytes.keys()
        if large and _name(func) not in ("detach", "alias"):
            self.have(large)
        written = {key for key in _written(func, args, kwargs) if key in large}
        if not self.open:
            self.pinned |= written
            return func(*args, **kwargs)
        before = self._kept(args, kwargs) if func._schema.is_mutable else None
        generator = _generator(func, kwargs)
        result = func(*args, **kwargs)
        results = tree_leaves(result)
        made = [self._new(value, given) for value in results]
        if written or (any(made) and _name(func) not in MAKING):
            self._write_down(func, before or self._kept(args, kwargs), made, large, written, generator)
        return result

    def _new(self, value: Any, given: set[int]) -> int | None:
        """Return the address of a result if it is new and large; from now on it may be dropped."""
        key = _storage(value)
        if key is None or key in given or key in self.bytes:
            return None
        storage = value.untyped_storage()
        if value.device.type != "cpu" or storage.nbytes() < LARGE:
            return None
        self._make_room(storage.nbytes(), {key})
        self.storages[key], self.bytes[key] = storage, storage.nbytes()
        self.present[key] = None
        self.used += storage.nbytes()
        return key

    def _kept(self, args: Any, kwargs: Any) -> Any:
        """Return arguments without the values of large tensors."""

        def kept(value: torch.Tensor) -> Any:
            key = _storage(value)
            if key not in self.bytes or key is None:
                return value.detach().clone()
            return _View(key, int(value.storage_offset()), value.size(), value.stride(), value.dtype)

        return tree_map_only(torch.Tensor, kept, (args, kwargs))

    def _write_down(
        self,
        func: Any,
        arguments: Any,
        made: list[int | None],
        large: set[int],
        written: set[int],
        generator: torch.Tensor | None,
    ) -> None:
        number = len(self.steps)
        first = arguments[0][0] if arguments[0] else None
        read = set(large)
        if _name(func) in OVERWRITING and _is_view(first) and self._is_whole(first):
            others = {value.storage for value in _views((arguments[0][1:], arguments[1]))}
            if first.storage not in others:
                read.discard(first.storage)
                self.overwritten.add((first.storage, number))
        self.steps.append(_Step(func, arguments, tuple(made), frozenset(read), generator))
        for key in (*written, *(key for key in made if key is not None)):
            self.makers.setdefault(key, []).append(number)

    def _is_whole(self, view: _View) -> bool:
        return view.size.numel() * view.dtype.itemsize == self.bytes[view.storage]

    def close(self, model: nn.Module) -> None:
        """Write nothing down any more, and drop what the module's parameters do not need."""
        self.open = False
        with torch._C.DisableTorchFunction():
            own = set()
            for name, parameter in model.named_parameters():
                key = _storage(parameter)
                if key in self.bytes and key is not None:
                    if key not in self.makers:
                        raise ValueError(
                            f"{name} of {type(model).__name__} is made on the meta device, and the factory"
                            " gives it no values: call its initialiser in the factory, on the meta device,"
                            " too."
                        )
                    setattr(parameter, ON_DEMAND, True)
                    own.add(key)
            for key in [key for key in self.present if key not in own | self.pinned]:
                self._drop(key)

    def changed_since(self, step: int, tensor: torch.Tensor) -> bool:
        """Whether a tensor's values were changed in this step or a later one."""
        with torch._C.DisableTorchFunction():
            key = _storage(tensor)
            return key is None or self.makers.get(key, [0])[-1] >= step

    def pin(self, tensor: torch.Tensor) -> None:
        """Have the values of a tensor in memory from now on."""
        with torch._C.DisableTorchFunction():
            key = _storage(tensor)
            if key in self.bytes and key is not None:
                self.have({key})
                self.pinned.add(key)

    def have(self, wanted: set[int]) -> None:
        """Have values in these storages, made by the operations that made them first."""
        for key in wanted - self.present.keys():
            self._make_room(self.bytes[key], wanted)
            self.storages[key].resize_(self.bytes[key])
            self.present[key] = None
            self.used += self.bytes[key]
            state = torch.get_rng_state()
            try:
                with torch.no_grad(), torch.inference_mode(False):
                    self._make(key)
            finally:
                torch.set_rng_state(state)

    def _make_room(self, size: int, wanted: set[int]) -> None:
        # The last made goes first: who runs through all layers again and again finds some there each time.
        for key in reversed(list(self.present)):
            if self.used + size <= ROOM:
                return
            if key not in wanted and key not in self.pinned:
                self._drop(key)

    def _drop(self, key: int) -> None:
        self.storages[key].resize_(0)
        del self.present[key]
        self.used -= self.bytes[key]

    def _make(self, key: int) -> None:
        at_work = {key: self.storages[key]}

        def tensor(view: _View) -> torch.Tensor:
            if view.storage not in at_work:
                room = torch.empty(self.bytes[view.storage], dtype=torch.uint8, device="cpu")
                at_work[view.storage] = room.untyped_storage()
            empty = torch.empty(0, dtype=view.dtype, device="cpu")
            return empty.set_(at_work[view.storage], view.offset, view.size, view.stride)

        for number in self._steps_of(key):
            step = self.steps[number]
            args, kwargs = _with_tensors(step.arguments, tensor)
            if step.generator is not None and isinstance(kwargs.get("generator"), torch.Generator):
                kwargs["generator"] = torch.Generator()
                kwargs["generator"].set_state(step.generator)
            elif step.generator is not None:
                torch.set_rng_state(step.generator)
            results = tree_leaves(step.function(*args, **kwargs))
            for made, result in zip(step.made, results, strict=True):
                if made is not None and made in at_work:
                    at_work[made].copy_(result.untyped_storage())
                elif made is not None:
                    at_work[made] = result.untyped_storage()

    def _steps_of(self, key: int) -> list[int]:
        """Return the steps that a storage's values need, in order."""
        needed: set[int] = set()
        waiting = [(key, len(self.steps))]
        seen = set(waiting)
        while waiting:
            wanted, end = waiting.pop()
            for number in reversed(self.makers.get(wanted, [])):
                if number >= end:
                    continue
                needed.add(number)
                further = {(read, number) for read in self.steps[number].read} - seen
                seen |= further
                waiting += further
                if (wanted, number) in self.overwritten:
                    break
        return sorted(needed)


class _Readings(TorchFunctionMode):
    """Has values in memory that are read in other ways than by an operation."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        self.pieces = pieces

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in READING and args and isinstance(args[0], torch.Tensor):
            self.pieces.pin(args[0])
        return func(*args, **(kwargs or {}))


class _Elsewhere(TorchFunctionMode):
    """Puts on a device what is to be on the meta device."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = list(args), dict(kwargs or {})
        places = args[1:2] if getattr(func, "__name__", "") == "to" else []
        if places and _is_meta(places[0]):
            args[1] = self.device
        if _is_meta(kwargs.get("device")):
            kwargs["device"] = self.device
        return func(*args, **kwargs)


def _is_meta(place: Any) -> bool:
    return isinstance(place, (str, torch.device)) and str(place) == "meta"


def _name(func: Any) -> str:
    return func._schema.name.rpartition("::")[-1]  # type: ignore[no-any-return]


def _storage(value: Any) -> int | None:
    """Return the address of a tensor's storage; None for anything else, and for tensors without one."""
    if not isinstance(value, torch.Tensor) or not torch._C._has_storage(value):
        return None
    return int(value.untyped_storage()._cdata)


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[int]:
    """Yield the storages that an operation writes to."""
    if not func._schema.is_mutable:
        return
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from (key for one in tree_leaves(value) if (key := _storage(one)) is not None)


def _generator(func: Any, kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """Return the state of the generator that an operation is about to draw from."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return None
    given = kwargs.get("generator")
    return torch.get_rng_state() if given is None else given.get_state()


def _views(tree: Any) -> list[_View]:
    return [value for value in tree_leaves(tree, is_leaf=_is_view) if _is_view(value)]


def _with_tensors(tree: Any, tensor: Callable[[_View], torch.Tensor]) -> Any:
    if _is_view(tree):
        return tensor(tree)
    if isinstance(tree, torch.Tensor):
        return tree.clone()  # the operation may write to it
    if isinstance(tree, dict):
        return {key: _with_tensors(value, tensor) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(_with_tensors(value, tensor) for value in tree)
    return tree


def _is_view(value: Any) -> TypeGuard[_View]:
    return getattr(value, "in_storage", False)
