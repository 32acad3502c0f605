"""The layers of a model whose forward writes them out, h = h + w(act(h)), as blocks that map state to state.

The calls of torch functions in a forward are recorded. A state is a tensor through which all data pass from
the input to the output. From a state a layer forks, into a skip and a branch, and it ends where they meet.

A forward is recorded for two inputs. Numbers that differ must be multiples of how many rows there are.

NOT checked: that a forward draws nothing. Whoever takes its layers runs them beside the forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from deeplimit.driving.drawn_blocks import close

Tree = TreeSpec | tuple[int, tuple[str, ...]]
"""How leaves are put together: as torch says, or how many arguments there are, and the names of others."""


class Made(NamedTuple):
    """A tensor that an earlier call returned: which call, and which of the tensors."""

    call: int
    part: int


class Rows(NamedTuple):
    """A number that is a multiple of how many rows the state has."""

    times: int


class _Mark(Enum):
    """What stands for a tensor of the model's own, and for numbers in which two recordings differ."""

    OWN = auto()
    DIFFERS = auto()


class Own(NamedTuple):
    """A tensor of the layer's own, by name, and the order in which its axes are read."""

    name: str
    axes: tuple[int, ...]


@final
@dataclass(frozen=True)
class Property:
    """What reads a property of a tensor, as `.T`; torch's own reader can be neither written nor compared."""

    name: str

    def __call__(self, tensor: Tensor) -> Any:
        return getattr(tensor, self.name)


@final
@dataclass(frozen=True)
class Step:
    """One call of a torch function: its arguments as leaves of a tree, with `Made` for what was computed."""

    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    tree: Tree

    def __call__(self, value: Callable[[Any], Any]) -> Any:
        args, kwargs = _together([value(leaf) for leaf in self.leaves], self.tree)
        returned = self.function(*args, **kwargs)
        return args[0] if _writes(self.function) else returned

    @property
    def takes(self) -> set[int]:
        """The calls whose results it takes."""
        return {leaf.call for leaf in self.leaves if isinstance(leaf, Made)}

    @property
    def weighs(self) -> bool:
        """Whether a tensor of several numbers that were there before is among the arguments."""
        return any(isinstance(leaf, Tensor) and leaf.numel() > 1 for leaf in self.leaves)


def _apart(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], Tree]:
    """Return arguments as leaves, and what puts them together; most calls have no nested ones."""
    leaves = [*args, *kwargs.values()]
    if any(isinstance(leaf, (tuple, list, dict)) for leaf in leaves):
        return tree_flatten((args, dict(kwargs)))
    return leaves, (len(args), tuple(kwargs))


def _together(leaves: list[Any], tree: Tree) -> tuple[Sequence[Any], dict[str, Any]]:
    if isinstance(tree, TreeSpec):
        args, kwargs = tree_unflatten(leaves, tree)
        return args, kwargs
    count, names = tree
    return leaves[:count], dict(zip(names, leaves[count:], strict=True))


SCALES = {"mul", "__mul__", "__rmul__", "multiply", "div", "__truediv__", "true_divide", "neg", "__neg__"}
"""Functions that multiply a tensor by a number."""


def _scales(function: Callable[..., Any], leaves: Sequence[Any]) -> bool:
    """Whether a call multiplies one tensor by numbers, as L**-0.5 * w does before a state is met."""
    tensors = sum(isinstance(leaf, Tensor) for leaf in leaves)
    numbers = sum(isinstance(leaf, (int, float)) for leaf in leaves)
    return getattr(function, "__name__", "") in SCALES and tensors == 1 and tensors + numbers == len(leaves)


def _versions(leaves: Sequence[Any]) -> tuple[int, ...]:
    return tuple(leaf._version for leaf in leaves if isinstance(leaf, Tensor) and not leaf.is_inference())


def _writes(function: Callable[..., Any]) -> bool:
    """Whether a function returns nothing and changes its first argument."""
    return getattr(function, "__name__", "") == "__setitem__"


class _Recording(TorchFunctionMode):
    """Writes down the calls that read what was computed from one tensor, which is call 0."""

    def __init__(self, first: Tensor) -> None:
        super().__init__()
        self.steps: list[Step | None] = [None]
        self.made = {id(first): Made(0, 0)}
        self.kept: list[Any] = [first]  # so that no number of a tensor is given to another
        # Weights times numbers, before a state is met, and how often each was written on until then.
        self.scaled: dict[int, tuple[Tensor, Step, tuple[int, ...]]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves, tree = _apart(args, kwargs or {})
        called = Property(func.__self__.__name__) if getattr(func, "__name__", "") == "__get__" else func
        known = tuple(self.made.get(id(leaf), leaf) for leaf in leaves)
        reads = any(isinstance(leaf, Made) for leaf in known)
        if reads:
            known = tuple(map(self._unscaled, known))
        returned = func(*args, **(kwargs or {}))
        parts = tensors_in(args[0] if _writes(func) else returned)
        if parts and reads:
            self.kept.append((leaves, parts, parts[0].clone()))  # which a later call may change
            for part, tensor in enumerate(parts):
                self.made[id(tensor)] = Made(len(self.steps), part)
            self.steps.append(Step(called, known, tree))
        elif isinstance(returned, Tensor) and (_scales(func, leaves) or self._turns(leaves, returned)):
            self.scaled[id(returned)] = returned, Step(called, known, tree), _versions([returned, *leaves])
        return returned

    def _turns(self, leaves: Sequence[Any], returned: Tensor) -> bool:
        """Whether a call has all numbers of such a product in another order or shape, as (c * w).T."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if len(tensors) != 1 or id(tensors[0]) not in self.scaled or returned is tensors[0]:
            return False
        return returned.numel() == tensors[0].numel()

    def _unscaled(self, leaf: Any) -> Any:
        """Return the call that scaled a weight, so that layers hold the weight itself."""
        if id(leaf) not in self.scaled:
            return leaf
        product, step, versions = self.scaled[id(leaf)]
        if versions != _versions([product, *step.leaves]):
            return leaf  # it was written on since
        step = Step(step.function, tuple(map(self._unscaled, step.leaves)), step.tree)
        self.kept.append((step, product, product.clone()))
        self.steps.append(step)
        return Made(len(self.steps) - 1, 0)


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, lists and dicts; in other objects, as models return, those too."""
    if isinstance(value, Tensor):
        return [value]
    found = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    return found or [each for each in getattr(value, "__dict__", {}).values() if isinstance(each, Tensor)]


@final
class WrittenLayer(nn.Module):
    """One layer: the next state of a state. Its tensors are those of the model."""

    def __init__(self, start: int, steps: Mapping[int, Step]) -> None:
        super().__init__()
        self.start = start
        self.steps: dict[int, Step] = {}
        names: dict[int, Own] = {}
        for call, step in steps.items():
            for leaf in step.leaves:
                if isinstance(leaf, Tensor) and id(leaf) not in names:
                    held, axes = _as_stored(leaf.detach())
                    names[id(leaf)] = Own(f"weight_{len(names)}", axes)
                    self.register_buffer(names[id(leaf)].name, held)
            leaves = tuple(names.get(id(leaf), leaf) for leaf in step.leaves)
            self.steps[call] = Step(step.function, leaves, step.tree)

    def forward(self, state: Tensor) -> Any:
        found: dict[int, list[Tensor]] = {self.start: [state.clone()]}  # which a forward may change

        def value(leaf: Any) -> Any:
            if isinstance(leaf, Made):
                return found[leaf.call][leaf.part]
            if isinstance(leaf, Own):
                return getattr(self, leaf.name).permute(leaf.axes)
            return leaf.times * len(state) if isinstance(leaf, Rows) else leaf

        for call, step in self.steps.items():
            found[call] = tensors_in(step(value))
        return found[call][0]

    def __deepcopy__(self, memory: Any) -> WrittenLayer:
        copied = WrittenLayer(self.start, {})
        copied.steps = self.steps
        for name, tensor in self.named_buffers():
            copied.register_buffer(name, tensor.clone())
        return copied.train(self.training)


def _as_stored(tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """Return a tensor with its axes as they lie in memory, and those that bring it back: W of W.T."""
    stored = sorted(range(tensor.ndim), key=tensor.stride().__getitem__, reverse=True)
    held, back = tensor.permute(stored), tuple(stored.index(axis) for axis in range(tensor.ndim))
    return (held, back) if held.is_contiguous() else (tensor, tuple(range(tensor.ndim)))


@final
@dataclass(frozen=True)
class Plan:
    """What a forward is known to do; `_Mark.OWN` stands for a tensor of the model's own.

    Attributes:
        steps: all calls, as they were first recorded.
        layers: of each layer the start, and its calls with numbers that follow the rows.
        bounds: the states.
        begins, ends: as in `Written`.
    """

    steps: tuple[Step | None, ...]
    layers: tuple[tuple[int, dict[int, Step]], ...]
    bounds: tuple[int, ...]
    begins: bool
    ends: bool

    def of(self, taken: _Taken) -> Written | None:
        """Return the layers of another model of the same forward; None where it is another one."""
        if len(taken.steps) != len(self.steps) or not all(map(_alike, self.steps, taken.steps)):
            return None
        blocks = []
        for start, steps in self.layers:
            own = {}
            for call, step in steps.items():
                there = taken.steps[call]
                assert there is not None  # they are alike
                leaves = zip(step.leaves, there.leaves, strict=True)
                own[call] = Step(
                    step.function, tuple(b if a is _Mark.OWN else a for a, b in leaves), step.tree
                )
            blocks.append(WrittenLayer(start, own))
        states = tuple(taken.made[call] for call in self.bounds)
        return Written(tuple(blocks), self.begins, self.ends, states, self)


def _plain(step: Step) -> Step:
    leaves = tuple(_Mark.OWN if isinstance(leaf, Tensor) else leaf for leaf in step.leaves)
    return Step(step.function, leaves, step.tree)


def _alike(plain: Step | None, step: Step | None) -> bool:
    """Whether a call is one that was seen, but for the tensors of the model's own."""
    if plain is None or step is None:
        return plain is step
    return (
        plain.function == step.function
        and plain.tree == step.tree
        and all(
            isinstance(b, Tensor) if a is _Mark.OWN else type(a) is type(b) and a == b
            for a, b in zip(plain.leaves, step.leaves, strict=True)
        )
    )


@final
@dataclass(frozen=True)
class Written:
    """A forward in layers.

    Attributes:
        blocks: the layers in order.
        begins: whether the first state is the input of the forward.
        ends: whether the last state is what the forward returns.
        states: the states, the last one included.
        plan: how they were found, by which those of a model of the same forward are found at once.
    """

    blocks: tuple[WrittenLayer, ...]
    begins: bool
    ends: bool
    states: tuple[Tensor, ...]
    plan: Plan


def written_layers(
    forward: Callable[[Tensor], Any],
    depth: int,
    first: Tensor,
    *,
    alone: bool = True,
    plan: Plan | None = None,
) -> Written | None:
    """Return the layers that a forward writes out, as many as `depth` says; None where it has others.

    They are tried: through them another input becomes what the forward makes of it. Not so where a plan is
    known, and all calls are as in it.

    Args:
        forward: calls a model in evaluation mode.
        depth: how many layers.
        first: its input, of n rows.
        alone: whether the number of rows may change, as beside no further inputs.
    """
    other = first.flatten().roll(1).reshape(first.shape)
    other = 0.7 * other + 0.1 if first.is_floating_point() else other
    with torch.no_grad():
        try:
            taken = _record(forward, first)
            if plan is not None and (known := plan.of(taken)) is not None:
                return known
            again = _record(forward, torch.cat([other, first[:1]]) if alone else other)
            found = _cut(taken, again, depth)
            if found is None:
                return None
            *_, last = accumulate(found[0].blocks, lambda h, block: block(h.clone()), initial=found[1])
        except Exception:  # noqa: BLE001  # whatever a forward does with numbers that are not its own
            return None
        return found[0] if close(last, found[2]) else None


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Have a module in evaluation mode inside."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@final
@dataclass(frozen=True)
class _Taken:
    """One forward: its calls, the tensors that each returned, and those in its output."""

    steps: tuple[Step | None, ...]
    made: dict[int, Any]
    rows: int
    ends: tuple[Made, ...]


def _record(forward: Callable[[Tensor], Any], first: Tensor) -> _Taken:
    recording = _Recording(given := first.clone())
    with recording:
        returned = forward(given)
    made = {0: first} | {call: copy for call, (*_, copy) in enumerate(recording.kept[1:], 1)}
    ends = [recording.made[id(each)] for each in tensors_in(returned) if id(each) in recording.made]
    return _Taken(tuple(recording.steps), made, len(first), tuple(ends))


def _cut(taken: _Taken, again: _Taken, depth: int) -> tuple[Written, Tensor, Tensor] | None:
    """Return the layers between states, and the first and last state of the second recording.

    Several parts that fork may be one layer, as attention and perceptron.
    """
    if not taken.ends or taken.ends != again.ends:
        return None
    calls = _leading(taken)
    place = {call: k for k, call in enumerate(calls)}
    states = _states(taken, calls, place)
    forks = []
    for k, (start, end) in enumerate(pairwise(states)):
        inside = [taken.steps[call] for call in calls[place[start] + 1 : place[end] + 1]]
        if len(inside) > 1 and any(step is not None and step.weighs for step in inside):
            forks.append(k)
    each, rest = divmod(len(forks), depth)
    if each == 0 or rest:
        return None
    starts, ends = forks[::each], [fork + 1 for fork in forks[each - 1 :: each]]
    # What follows a sum, as a normalisation, belongs to the layer before; after the last one it is the same.
    tails = {later - end for later, end in zip(starts[1:], ends, strict=False)} or {
        len(states) - 1 - ends[-1]
    }
    tail = tails.pop()
    last = ends[-1] + tail
    if tails or last >= len(states):
        return None
    follow = [[_function(taken, call) for call in states[end + 1 : end + 1 + tail]] for end in ends]
    bounds = [states[start] for start in [*starts, last]]
    layers = [_layer(taken, again, calls[place[a] : place[b] + 1]) for a, b in pairwise(bounds)]
    if any(one != follow[0] for one in follow) or None in layers:
        return None
    plan = Plan(
        tuple(None if step is None else _plain(step) for step in taken.steps),
        tuple(layer for layer in layers if layer is not None),
        tuple(bounds),
        bounds[0] == 0,
        taken.ends == (Made(bounds[-1], 0),),
    )
    written = plan.of(taken)
    return None if written is None else (written, again.made[bounds[0]], again.made[bounds[-1]])


def _leading(taken: _Taken) -> list[int]:
    """Return the calls that lead from the input to the output, in order."""
    found: set[int] = set()
    waiting = [end.call for end in taken.ends]
    while waiting:
        call = waiting.pop()
        if call not in found:
            found.add(call)
            step = taken.steps[call]
            waiting += [] if step is None else step.takes
    return sorted(found)


def _states(taken: _Taken, calls: Sequence[int], place: Mapping[int, int]) -> list[int]:
    """Return the calls that every way from the input to the output passes, in order."""
    farthest = [0] * len(calls)
    for call in calls:
        step = taken.steps[call]
        for source in set() if step is None else step.takes:
            farthest[place[source]] = max(farthest[place[source]], place[call])
    for end in taken.ends:
        if end.call != taken.ends[-1].call or len(taken.ends) > 1:
            farthest[place[end.call]] = len(calls)
    found, reached = [], 0
    for k, call in enumerate(calls):
        if reached <= k:
            found.append(call)
        reached = max(reached, farthest[k])
    return found


def _function(taken: _Taken, call: int) -> Any:
    step = taken.steps[call]
    return None if step is None else step.function


def _layer(taken: _Taken, again: _Taken, calls: Sequence[int]) -> tuple[int, dict[int, Step]] | None:
    """Return what is between two states, with numbers that follow the rows; None where others differ."""
    start, *inside = calls
    steps: dict[int, Step] = {}
    for call in inside:
        one, other = taken.steps[call], again.steps[call]
        if one is None or other is None or one.tree != other.tree or one.function != other.function:
            return None
        leaves = tuple(
            _common(a, b, taken.rows, again.rows) for a, b in zip(one.leaves, other.leaves, strict=True)
        )
        if any(leaf is _Mark.DIFFERS for leaf in leaves):
            return None
        steps[call] = Step(one.function, leaves, one.tree)
    return start, steps


def _common(one: Any, other: Any, rows: int, others: int) -> Any:
    """Return a leaf that two recordings have in common, or a multiple of the rows."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same = one is other or (one.shape == other.shape and torch.equal(one, other))
        return _Mark.OWN if same else _Mark.DIFFERS
    if type(one) is not type(other):
        return _Mark.DIFFERS
    if isinstance(one, int) and one != other:
        return Rows(one // rows) if one * others == other * rows and one % rows == 0 else _Mark.DIFFERS
    return one if one == other else _Mark.DIFFERS
