"""Every torch function that a module calls, seen as it runs: which calls add two activations."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

ADD = {"add", "add_", "__add__", "__radd__", "__iadd__"}
SUBTRACT = {"sub", "sub_", "__sub__", "__isub__", "subtract"}
ADDCMUL = {"addcmul", "addcmul_"}
MULTIPLY = {"mul", "mul_", "__mul__", "__rmul__", "__imul__", "multiply"}
DIVIDE = {"div", "div_", "__truediv__", "__itruediv__", "true_divide", "divide"}
PROJECT = {
    "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "tensordot",
    "_grouped_mm", "grouped_mm", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "bilinear",
}  # fmt: skip
PARTS = 8
"""At most so many tensors in a stack are taken for the summands of one sum."""
TO_ONE = 1e-6
"""Weights of two states that sum to 1 up to this, the round-off of float32, take their mean."""
# Functional dropout has its own flag for training; a measured model drops nothing.
DROPOUT = {
    "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
    "feature_dropout",
}  # fmt: skip


class Call(NamedTuple):
    """One call of a torch function: how many came before it in the forward, and its name."""

    ordinal: int
    name: str


def size(tensor: torch.Tensor) -> float:
    """Return the root mean square of all entries."""
    values = tensor.detach()
    if values.layout != torch.strided and not values.is_nested:
        values = values.to_dense()
    if not values.is_floating_point():
        return float(values.abs().double().square().mean().sqrt())
    exact = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    return float(torch.linalg.vector_norm(exact)) / math.sqrt(max(exact.numel(), 1))


def changes(name: str) -> bool:
    """Whether a function of this name changes its first argument in place: add_, __iadd__, __setitem__."""
    return name.endswith("_") and (not name.endswith("__") or name.startswith(("__i", "__setitem")))


def summable(value: object, other: object) -> bool:
    """Whether the sum of the two may be a residual join: activations of one shape, at least two axes."""
    return (
        isinstance(value, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and value.shape == other.shape
        and value.dim() >= 2
        and value.is_floating_point()
        and other.is_floating_point()
    )


class Product(NamedTuple):
    """A tensor times a number; `version` counts how often the tensor had been changed in place."""

    result: torch.Tensor
    tensor: torch.Tensor
    version: int
    number: Any

    @property
    def holds(self) -> bool:
        """Whether the tensor is still what it was."""
        return self.tensor._version == self.version


class MomentumStep(NamedTuple):
    """A state that moves on by a share of its velocity, x + c v, before a force is added."""

    whole: torch.Tensor
    x: torch.Tensor
    velocity: torch.Tensor
    share: Any

    def kept(self) -> torch.Tensor:
        """Return what is left of the velocity."""
        return self.velocity if self.share == 1.0 else self.share * self.velocity


class TorchCalls(TorchFunctionMode):
    """Sees every call of a torch function; what it returns is up to `call` and `returned`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.latest_products: deque[Product] = deque(maxlen=PARTS)
        self.latest_sums: deque[tuple[Any, ...]] = deque(maxlen=PARTS)
        self.latest_changes: deque[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = deque(maxlen=PARTS)
        self.latest_momentum_steps: deque[MomentumStep] = deque(maxlen=PARTS)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "").partition(".")[0]  # an exported module calls add.Tensor
        this, self.calls = Call(self.calls, name), self.calls + 1
        sum_of_two = (
            spelled_out(name, args, kwargs, self._adds_to)
            or self._weighted_mean(name, args, kwargs)
            or self._with_force(name, args, kwargs)
        )
        if sum_of_two is not None:
            with self:
                return sum_of_two()
        if (arguments := self._momentum_arguments(name, args, kwargs)) is not None:
            return self.returned(this, self._momentum_step(*arguments))
        if name in DROPOUT and isinstance(args[0] if args else kwargs.get("input"), torch.Tensor):
            given = args[0] if args else kwargs["input"]
            share = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            return self.returned(this, self.dropout(given, float(share)))
        if "dropout_p" in kwargs:
            kwargs["dropout_p"] = 0.0
        result = self.returned(this, self.call(name, func, args, kwargs, _operands(name, args, kwargs)))
        if name in ADD and not changes(name):
            self.latest_sums.append((result, *args))
        if name in SUBTRACT and not changes(name) and len(args) == 2 and summable(*args):
            self.latest_changes.append((result, *args))
        if name in MULTIPLY and not changes(name) and len(args) == 2:
            self.latest_products += [
                Product(result, tensor, tensor._version, number)
                for tensor, number in (args, args[::-1])
                if _scales(number, tensor)
            ]
        return result

    def _weighted_mean(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[[], Any] | None:
        """Return (1 - a) x + a (x + f(x)) as x + a ((x + f(x)) - x); None if the call is no such sum."""
        if name not in ADD or changes(name) or kwargs or len(args) != 2:
            return None
        made = [
            next((each for each in self.latest_products if each.result is summand), None) for summand in args
        ]
        for start, end in (made, made[::-1]):
            if start is None or end is None or abs(_value(start.number) + _value(end.number) - 1.0) > TO_ONE:
                return None
            x, total, share = start.tensor, end.tensor, end.number
            changed = x._version != start.version or total._version != end.version
            if not changed and summable(x, total) and self._adds_to(total, x):
                return lambda: x + (total - x) * share
        return None

    def _with_force(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[[], Any] | None:
        """Return 2 x - y + f, and x + c (x - y) + f, as v <- c v + f and x <- x + v, where x is y + v.

        Y is the state before x, or x itself at the first layer. None if the call is no such sum.
        """
        if name not in ADD | SUBTRACT or changes(name) or kwargs or len(args) != 2:
            return None
        for whole, force in (args,) if name in SUBTRACT else (args, args[::-1]):
            made = next((each for each in self.latest_momentum_steps if each.whole is whole), None)
            if made is not None and summable(whole, force):
                return lambda: made.x + (made.kept() - force if name in SUBTRACT else made.kept() + force)
        return None

    def _momentum_arguments(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor, Any] | None:
        """Return x, y and c of a call that returns x + c (x - y), or 2 x - y; None if it is another one."""
        if name not in ADD | SUBTRACT or changes(name) or kwargs or len(args) != 2:
            return None
        one, other = args
        products = {id(each.result): each for each in self.latest_products if each.holds}
        if name in SUBTRACT:
            made = products.get(id(one))
            if (
                made is None
                or abs(_value(made.number) - 2.0) > TO_ONE
                or not self._is_next(made.tensor, other)
            ):
                return None
            return made.tensor, other, 1.0
        for x, change in ((one, other), (other, one)):
            made = products.get(id(change))
            plain = change if made is None else made.tensor
            for result, state, before in self.latest_changes:
                if result is plain and state is x and self._is_next(x, before):
                    return x, before, 1.0 if made is None else made.number
        return None

    def _is_next(self, x: torch.Tensor, before: Any) -> bool:
        """Whether a state is another one and one more summand, or that state itself."""
        added = next((each[1:] for each in self.latest_sums if each[0] is x), ())
        return summable(x, before) and (
            before is x or (len(added) == 2 and any(each is before for each in added))
        )

    def _momentum_step(self, x: torch.Tensor, before: torch.Tensor, share: Any) -> torch.Tensor:
        """Return x + c (x - before), which is no sum of its own, and remember its velocity."""
        added = next((each[1:] for each in self.latest_sums if each[0] is x), ())
        rest = [] if before is x else [each for each in added if each is not before]
        velocity = rest[0] if rest else x - before
        whole = x + velocity if share == 1.0 else x + share * velocity
        self.latest_momentum_steps.append(MomentumStep(whole, x, velocity, share))
        return whole

    def _adds_to(self, total: torch.Tensor, part: torch.Tensor) -> bool:
        """Whether a tensor is the sum of another one and of a few more, by the latest calls.

        Not by the graph: a forward with a shared stream has another one, and must number the same sums.
        """
        summands = [*next((each[1:] for each in self.latest_sums if each[0] is total), ())]
        while summands:
            summand = summands.pop()
            if summand is part:
                return True
            summands += next((each[1:] for each in self.latest_sums if each[0] is summand), ())
        return False

    def call(
        self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, operands: Operands | None
    ) -> Any:
        """Return func(*args, **kwargs); `operands` are those of an addition of two activations, else None."""
        raise NotImplementedError

    def dropout(self, given: torch.Tensor, share: float) -> torch.Tensor:
        """Return what a module gets of dropout, which drops nothing here."""
        return given

    def returned(self, this: Call, result: Any) -> Any:
        """Return what the module gets of a call."""
        raise NotImplementedError


@dataclass(frozen=True)
class Operands:
    """The two sides of an addition as it is called: a tensor, or for addcmul the product of two, times a
    number.
    """

    first: torch.Tensor
    second: tuple[torch.Tensor, ...]
    factor: float

    def branch(self) -> torch.Tensor:
        """Return the second side as it is added."""
        value = self.second[0] if len(self.second) == 1 else self.second[0] * self.second[1]
        return value if self.factor == 1.0 else value * self.factor


def _operands(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operands | None:
    """Return the two sides if this call adds two activations of one shape."""
    if name in ADD or name in SUBTRACT:
        first, second = _arguments(args, kwargs, "input", "other")
        if summable(first, second):
            alpha = kwargs.get("alpha", 1.0)
            return Operands(first, (second,), float(alpha) * (-1.0 if name in SUBTRACT else 1.0))
    if name in ADDCMUL and len(args) == 3:
        product = torch.broadcast_shapes(args[1].shape, args[2].shape)  # type: ignore[no-untyped-call]
        if args[0].dim() >= 2 and args[0].shape == product and args[0].is_floating_point():
            return Operands(args[0], (args[1], args[2]), float(kwargs.get("value", 1.0)))
    return None


def spelled_out(
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    adds_to: Callable[[torch.Tensor, torch.Tensor], bool],
) -> Callable[[], Any] | None:
    """Return a sum of activations in another spelling as plain additions; None if the call is no such sum.

    The additions change the result by round-off at most.
    """
    if kwargs.get("out") is not None:
        return None
    if name == "lerp":
        start, end, weight = _arguments(args, kwargs, "input", "end", "weight")
        if not summable(start, end):
            return None
        if adds_to(end, start):  # of x and x + f(x): a residual sum
            return lambda: start + (end - start) * weight
        return lambda: start * (1 - weight) + end * weight
    if name == "rsub":
        value, other = _arguments(args, kwargs, "input", "other")
        alpha = kwargs.get("alpha", 1)
        return (lambda: torch.sub(other, value, alpha=alpha)) if summable(value, other) else None
    if name in ("addmm", "baddbmm"):
        value, left, right = _arguments(
            args, kwargs, "input", *(("mat1", "mat2") if name == "addmm" else ("batch1", "batch2"))
        )
        beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
        activation = isinstance(value, torch.Tensor) and value.grad_fn is not None
        if activation and value.shape == (*left.shape[:-1], right.shape[-1]):
            return lambda: torch.add(value if beta == 1 else beta * value, left @ right, alpha=alpha)
    found = _reduction(name, args, kwargs)
    return None if found is None else _sum_of_parts(*found, mean=name == "mean")


def _scales(number: object, tensor: object) -> bool:
    """Whether a product is one of a number and a tensor of which both can be looked at again."""
    if not isinstance(tensor, torch.Tensor) or tensor.dim() < 2 or tensor.is_inference():
        return False
    if isinstance(number, torch.Tensor):
        return number.dim() == 0 and not torch._C._functorch.is_batchedtensor(number)
    return isinstance(number, (int, float))


def _value(number: Any) -> float:
    return float(number.detach() if isinstance(number, torch.Tensor) else number)


Reduction = tuple[Any, int, Any]
"""A tensor, the axis over which it is summed, and the vector that weights its entries there, or None."""


def _reduction(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reduction | None:
    """Return what a call sums over one axis; None if the call is no such sum."""
    if name in ("sum", "mean"):
        axis = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
        axis = axis[0] if isinstance(axis, (tuple, list)) and len(axis) == 1 else axis
        plain = (
            isinstance(axis, int) and len(args) <= 2 and "dtype" not in kwargs and not kwargs.get("keepdim")
        )
        return (_arguments(args, kwargs, "input")[0], axis, None) if plain else None
    if name == "einsum" and isinstance(args[0], str):
        operands = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
        return _summed_by_letters(args[0].replace(" ", ""), operands)
    if name in ("matmul", "__matmul__", "tensordot"):
        left, right = _arguments(args, kwargs, *(("a", "b") if name == "tensordot" else ("input", "other")))
        axes: Any = ([-1], [-2])
        if name == "tensordot":
            dims = args[2] if len(args) > 2 else kwargs.get("dims", 2)
            axes = ([-1], [0]) if dims == 1 else dims
        tensors = isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)
        if tensors and isinstance(axes, (tuple, list)) and [len(one) for one in axes] == [1, 1]:
            if right.dim() == 1:
                return left, axes[0][0], right
            if left.dim() == 1:
                return right, axes[1][0], left
    return None


def _summed_by_letters(equation: str, operands: Sequence[Any]) -> Reduction | None:
    """Return the reduction of "k...,k->..." or "kbd->bd": one axis goes, the others stay in their order."""
    terms, _, result = equation.partition("->")
    names = terms.split(",")
    for place in range(len(names)):
        term, others = names[place], names[:place] + names[place + 1 :]
        letter = others[0] if others else next(iter(set(term) - set(result)), "")
        if len(others) < 2 and len(letter) == 1 and term.count(letter) == 1:
            at = term.index(letter)
            if term.replace(letter, "") == result:
                axis = at - len(term) if "..." in term[:at] else at
                return operands[place], axis, operands[1 - place] if others else None
    return None


def _sum_of_parts(value: Any, axis: int, weights: Any, *, mean: bool) -> Callable[[], Any] | None:
    """Return a sum over tensors that were put together along this axis, one after the other."""
    node = value.grad_fn if isinstance(value, torch.Tensor) else None
    if node is None or not node.name().startswith(("StackBackward", "CatBackward")):
        return None
    count = value.shape[axis]
    if len(node.next_functions) != count or not 1 < count <= PARTS:
        return None

    def added() -> torch.Tensor:
        parts = [value.select(axis, part) for part in range(count)]
        if weights is not None:
            parts = [part * weights[index] for index, part in enumerate(parts)]
        total: torch.Tensor = functools.reduce(torch.add, parts)
        return total / count if mean else total

    return added


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Return the arguments of these names, given by position or by name."""
    return tuple(args[index] if index < len(args) else kwargs.get(name) for index, name in enumerate(names))
