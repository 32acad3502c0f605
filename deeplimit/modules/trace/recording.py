"""One forward of a module, recorded: additions, projections and scalings by place in the autograd graph.

The record holds sizes and places, never activations: a few floats per operation.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from deeplimit.modules.trace.operations import (
    DIVIDE,
    MULTIPLY,
    PROJECT,
    Call,
    Operands,
    TorchCalls,
    changes,
    size,
)
from deeplimit.modules.trace.orientation import stored_in_out


class Edge(NamedTuple):
    """One output of one node of the autograd graph: a tensor's place in it."""

    node: Any
    output: int


def place(tensor: torch.Tensor) -> Edge | None:
    """Return where `tensor` comes from; None if nothing that requires a gradient does."""
    return None if tensor.grad_fn is None else Edge(tensor.grad_fn, tensor.output_nr)


def source(tensor: torch.Tensor) -> tuple[Edge, ...]:
    """Return the place of `tensor`, a leaf included, before an operation in place moves it.

    Nothing if it requires no gradient.
    """
    if not tensor.requires_grad or not torch.is_grad_enabled():
        return ()
    found = get_gradient_edge(tensor)
    return (Edge(found.node, found.output_nr),)


def edges(node: Any) -> tuple[Edge | None, ...]:
    """Return what `node` was computed from, in the order of its arguments."""
    return tuple(Edge(*item) if item[0] is not None else None for item in node.next_functions)


def reaches(tensor: torch.Tensor, node: Any, around: Any) -> bool:
    """Return whether `tensor` was computed from what `node` returned by a way that does not pass `around`."""
    waiting, seen = [tensor.grad_fn], {around}
    while waiting:
        at = waiting.pop()
        if at is None or at in seen:
            continue
        if at is node:
            return True
        seen.add(at)
        waiting += [following for following, _ in at.next_functions]
    return False


def edges_with_gradient(node: Any) -> list[Edge]:
    """Return those of its edges along which a gradient flows."""
    return [edge for edge in edges(node) if edge is not None]


def kind(node: Any) -> str:
    """Return the name of a node's operation: "View" for <ViewBackward0 object>."""
    return _operation(node.name())


@cache
def _operation(name: str) -> str:
    return re.sub(r"Backward\d*$", "", name.rsplit("::", maxsplit=1)[-1])


@dataclass(frozen=True)
class Summand:
    """One operand of an addition: where it comes from, its root mean square as added, its constant factor,
    and whether that is negative.
    """

    sources: tuple[Edge, ...]
    size: float
    factor: float = 1.0
    negative: bool = False

    @property
    def value(self) -> float:
        """The constant factor with its sign."""
        return -self.factor if self.negative else self.factor


@dataclass(frozen=True)
class Addition:
    """The sum of two tensors of one shape.

    `ordinal` counts the additions of a forward, `owner` names the module that adds.
    """

    ordinal: int
    owner: str
    place: Edge
    sides: tuple[Summand, Summand]
    size: float
    shape: tuple[int, ...]
    epsilon: float


@dataclass(frozen=True)
class Projection:
    """The output of an operation with a weight: its size, and the names of the weights in order of use.

    `owner` names the module that ran it: torch's attention applies its projection's weight itself. `in_out`
    says of weights whether they are stored as (in, out), where that is known.
    """

    weights: tuple[str, ...]
    size: float
    shape: tuple[int, ...]
    biases: tuple[str, ...] = ()
    owner: str = ""
    in_out: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Scaling:
    """A product with a number or with a few parameters: the factor, the names of the parameters, and whether
    the number is negative. `single` says that it is one number, of a parameter or not.
    """

    factor: float
    parameters: tuple[str, ...]
    negative: bool = False
    single: bool = False

    @property
    def value(self) -> float:
        """The number with its sign."""
        return -self.factor if self.negative else self.factor


@dataclass
class Trace:
    """What one forward did, keyed by place in its autograd graph."""

    additions: list[Addition] = field(default_factory=list)
    projections: dict[Edge, Projection] = field(default_factory=dict)
    scalings: dict[Edge, Scaling] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    calls: dict[Edge, Call] = field(default_factory=dict)
    scripted: tuple[str, ...] = ()  # modules whose operations are not seen
    # Sums that are not joins but that a stream passes through: where it comes from.
    continued: dict[Edge, Edge] = field(default_factory=dict)
    # Those that add an earlier state of the stream again, by ordinal: which side is the stream.
    injected: dict[int, int] = field(default_factory=dict)
    # What dropout would drop in training: the probability, by the place of its output.
    dropped: dict[Edge, float] = field(default_factory=dict)


class ParameterChanged(Exception):
    """The running module would change the parameter of this name in place; the change was taken back."""


class Recorder(TorchCalls):
    """Writes a `Trace` while a module runs."""

    def __init__(self, model: nn.Module, owners: list[str]) -> None:
        super().__init__()
        named = {name.removeprefix("_orig_mod."): parameter for name, parameter in model.named_parameters()}
        self.trace = Trace(
            names={id(parameter): name for name, parameter in named.items()},
            shapes={name: tuple(parameter.shape) for name, parameter in named.items()},
            scripted=tuple(
                name or type(module).__name__
                for name, module in model.named_modules()
                if isinstance(module, torch.jit.ScriptModule)
            ),
        )
        self.owners = owners

    def returned(self, this: Call, result: Any) -> Any:
        if isinstance(result, torch.Tensor) and (where := place(result)) is not None:
            self.trace.calls.setdefault(where, this)
        return result

    def dropout(self, given: torch.Tensor, share: float) -> torch.Tensor:
        if share <= 0 or given.grad_fn is None or given.is_nested:
            return given
        passed = given.view_as(given)  # a place of its own: the tensor may also go elsewhere, undropped
        where = place(passed)
        if where is not None:
            self.trace.dropped[where] = share
        return passed

    def call(
        self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, operands: Operands | None
    ) -> Any:
        parameter = self.trace.names.get(id(args[0])) if args and changes(name) else None
        before = None if parameter is None else args[0].detach().clone()
        result = self._recorded(name, func, args, kwargs, operands)
        if before is not None and not torch.allclose(args[0], before, rtol=0.0, atol=0.0, equal_nan=True):
            with torch.no_grad():
                args[0].copy_(before)
            raise ParameterChanged(parameter)
        return result

    def _recorded(
        self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, operands: Operands | None
    ) -> Any:
        if operands is None:
            result = _own_memory(func(*args, **kwargs), args, kwargs)
            self._product(name, args, kwargs, result)
            return result
        if any(map(torch._C._functorch.is_batchedtensor, (operands.first, *operands.second))):
            self.trace.additions.append(_hidden(len(self.trace.additions)))  # torch.func.vmap hides values
            return func(*args, **kwargs)
        with torch.no_grad():
            sizes = size(operands.first), size(operands.branch())
        # Before the sum is made: a sum in place, into a view, leaves no edges of its own in the graph.
        sides = (
            Summand(source(operands.first), sizes[0]),
            Summand(
                tuple(edge for operand in operands.second for edge in source(operand)),
                sizes[1],
                abs(operands.factor),
                operands.factor < 0,
            ),
        )
        result = func(*args, **kwargs)
        where = place(result)
        if where is not None:
            epsilon = torch.finfo(result.dtype).eps
            owner = self.owners[-1] if self.owners else ""
            addition = Addition(
                len(self.trace.additions), owner, where, sides, size(result), tuple(result.shape), epsilon
            )
            self.trace.additions.append(addition)
            if len(operands.second) == 2:
                self._scaling(where, operands.second)
        else:
            # It counts all the same: a second forward must number its additions in the same way.
            self.trace.additions.append(_hidden(len(self.trace.additions)))
        return result

    def _product(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        outcome = result[0] if isinstance(result, tuple) and result else result
        if not isinstance(outcome, torch.Tensor) or outcome.grad_fn is None:
            return
        where = Edge(outcome.grad_fn, outcome.output_nr)
        if name in MULTIPLY or name in DIVIDE:
            power = 1.0 if name in MULTIPLY else -1.0
            self._scaling(where, args[:2] if len(args) > 1 else (*args, kwargs.get("other")), power)
            return
        given = [value for value in _flat((args, kwargs)) if isinstance(value, torch.Tensor)]
        tensors = [value for value in given if matrix(value.shape)]
        if len(given) < 2:  # a weight by itself, as its transpose, is applied to nothing
            return
        names = [self.trace.names[id(value)] for value in tensors if id(value) in self.trace.names]
        if not names and name in PROJECT:  # one expert's slice of a stack of weights, a standardised weight
            names = [item for value in tensors for item in _behind(value, self.trace.names)]
        weights = [item for item in names if weighs(item, self.trace.shapes[item])]
        if weights and outcome.is_floating_point():
            small = [value for value in given if not matrix(value.shape)]
            biases = tuple(self.trace.names[id(value)] for value in small if id(value) in self.trace.names)
            self.trace.projections[where] = Projection(
                tuple(weights),
                size(outcome),
                tuple(outcome.shape),
                biases,
                self.owners[-1] if self.owners else "",
                dict(self._stored(name, (*args, *kwargs.values()), tensors)),
            )

    def _stored(
        self, name: str, given: Sequence[Any], tensors: Sequence[torch.Tensor]
    ) -> Iterator[tuple[str, bool]]:
        for value in tensors:
            behind = _behind(value, self.trace.names)
            if len(behind) == 1 and (in_out := stored_in_out(name, given, value)) is not None:
                yield behind[0], in_out

    def _scaling(self, where: Edge, factors: Any, power: float = 1.0) -> None:
        """Record a product as a scaling if all factors but one are numbers, or made of parameters."""
        numbers = [value for value in factors if self._is_number(value)]
        tensors = [
            value for value in factors if isinstance(value, torch.Tensor) and not self._is_number(value)
        ]
        if len(tensors) == 1 and len(numbers) == 1:
            number = numbers[0]
            names = _behind(number, self.trace.names) if isinstance(number, torch.Tensor) else ()
            value = float(number.detach() if isinstance(number, torch.Tensor) else number)
            self.trace.scalings[where] = Scaling(
                abs(value) ** power if value else 0.0, names, value < 0, True
            )
        elif len(tensors) == 2:
            small = min(tensors, key=lambda tensor: tensor.numel())
            names = _behind(small, self.trace.names)
            if names:
                self.trace.scalings[where] = Scaling(size(small) ** power if size(small) else 0.0, names)

    def _is_number(self, value: Any) -> bool:
        """Whether a factor is one number, of whatever shape, that does not depend on data."""
        if not isinstance(value, torch.Tensor):
            return isinstance(value, (int, float))
        if value.dim() == 0:
            return True
        return value.numel() == 1 and (not value.requires_grad or bool(_behind(value, self.trace.names)))


def _own_memory(result: Any, args: Any, kwargs: Any) -> Any:
    """Return a copy of a view of something made inside the call, as that of an instance normalisation is.

    No other name sees what it is a view of. An operation in place on it would leave no edges of its own in
    the graph, on a copy it does.
    """
    if not isinstance(result, torch.Tensor) or not result._is_view():
        return result
    given = [value for value in _flat((args, kwargs)) if isinstance(value, torch.Tensor)]
    outside = any(result._base is value or result._base is value._base for value in given)
    return result if outside else result.clone()


def _hidden(ordinal: int) -> Addition:
    """An addition outside the autograd graph, which only keeps the count."""
    nothing = Summand((), 0.0)
    return Addition(ordinal, "", Edge(None, 0), (nothing, nothing), 0.0, (), 0.0)


def matrix(shape: Sequence[int]) -> bool:
    """Whether a parameter of this shape is a weight: at least two axes longer than one."""
    return sum(length > 1 for length in shape) >= 2


def weighs(name: str, shape: Sequence[int]) -> bool:
    """Whether a parameter is a weight; a bias for each of several experts is none, whatever its shape."""
    return matrix(shape) and not name.endswith("bias")


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, Mapping):
        yield from _flat(list(value.values()))
    else:
        yield value


def _behind(tensor: torch.Tensor, names: Mapping[int, str], limit: int = 16) -> tuple[str, ...]:
    """Return the names of the parameters that `tensor` is computed from, if from few of them alone."""
    if id(tensor) in names:
        return (names[id(tensor)],)
    if tensor.grad_fn is None:
        return ()
    found: list[str] = []
    waiting, seen = [tensor.grad_fn], 0
    while waiting:
        node = waiting.pop()
        seen += 1
        if seen > limit or node.name().startswith(("Embedding", "Index")):
            return ()
        variable = getattr(node, "variable", None)
        if variable is not None:
            if id(variable) not in names:
                return ()
            found.append(names[id(variable)])
        waiting += [edge.node for edge in edges(node) if edge is not None]
    return tuple(dict.fromkeys(found))


def _enter(running: list[str], name: str, _module: nn.Module, _arguments: Any) -> None:
    running.append(name)


def _leave(running: list[str], _module: nn.Module, _arguments: Any, _result: Any) -> None:
    running.pop()


@contextlib.contextmanager
def module_names(model: nn.Module) -> Iterator[list[str]]:
    """Keep the names of the modules that are running, outermost first; the hooks go when the context does."""
    running: list[str] = []
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue  # takes no hooks
        handles.append(
            module.register_forward_pre_hook(partial(_enter, running, name.removeprefix("_orig_mod.")))
        )
        handles.append(module.register_forward_hook(partial(_leave, running)))
    try:
        yield running
    finally:
        for handle in handles:
            handle.remove()
