"""The blocks of a built module as functions of a state, and the states of one forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from deeplimit.common.validation import named, noted
from deeplimit.modules.trace.batches import Batch, run

TRIED = 4
"""Blocks of a forward, spread over it, at which it is tried whether inputs of blocks are states."""
LINEAR = 1e-4
"""Relative error up to which a step between states is a multiple of what a branch returned: float32
arithmetic of one step leaves about 1e-6."""


@dataclass(frozen=True)
class Stack:
    """One network: N blocks, each a function of a state (n, *shape), and the states of one forward.

    Attributes:
        blocks: state -> next state.
        states: the N + 1 states (n, *shape) of the forward, the input of the first block first.
    """

    blocks: tuple[Callable[[Tensor], Tensor], ...]
    states: tuple[Tensor, ...]


@dataclass(frozen=True)
class _Call:
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Tensor

    @property
    def state(self) -> Tensor:
        found: Tensor = next(value for value in (*self.args, *self.kwargs.values()) if _is_state(value))
        return found


def _is_state(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2


def as_module(built: object, depth: int) -> nn.Module:
    """Return what a factory built as one module; raise TypeError where it built no modules."""
    if isinstance(built, nn.ModuleList):
        return nn.Sequential(*built)
    if isinstance(built, (list, tuple)) and built and all(isinstance(block, nn.Module) for block in built):
        return nn.Sequential(*built)
    if isinstance(built, nn.Module):
        return built
    raise TypeError(
        f"factory({depth}) must return a torch.nn.Module or a list of its blocks in order, got"
        f" {named(built)}."
    )


def lists_of(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Return the modules in each list of a model, by the list's name; the model itself may be one."""
    return {
        name: list(module)
        for name, module in model.named_modules()
        if isinstance(module, (nn.Sequential, nn.ModuleList))
    }


def growing_list(models: Sequence[nn.Module], given: str = "factory must return") -> str:
    """Return the name of the outermost list of modules that is longer in every deeper model.

    `given` says in an error how models were.
    """
    lists = [{name: len(blocks) for name, blocks in lists_of(model).items()} for model in models]
    names = [name for name in lists[0] if all(name in found for found in lists)]
    growing = [name for name in names if all(before[name] < after[name] for before, after in pairwise(lists))]
    if not growing:
        raise ValueError(
            f"{given} blocks in a list that is longer the deeper the network;"
            f" {type(models[0]).__name__} has no nn.Sequential or nn.ModuleList of that kind. Take the"
            " list of its blocks instead, [block] * depth where one block runs in every layer, or use"
            " check_depth, which follows the forward."
        )
    return min(growing, key=lambda name: (name.count("."), -lists[-1][name]))


@torch.no_grad()
def read(model: nn.Module, where: str, batch: Batch, name: str = "x") -> Stack:
    """Run one forward, in evaluation mode, and return the blocks of the list of this name with its states.

    `name` is what the batch is called where the user gives it.
    """
    if where == "" and not batch.kwargs and len(batch.args) == 1 and isinstance(model, nn.Sequential):
        return _in_a_row(model, batch.args[0], name)
    blocks = lists_of(model)[where]
    calls: list[_Call] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        first = output if isinstance(output, Tensor) else output[0]
        calls.append(_Call(module, args, kwargs, first.clone()))

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tuple(v.clone() if _is_state(v) else v for v in args), {
            k: v.clone() if _is_state(v) else v for k, v in kwargs.items()
        }

    handles = [block.register_forward_pre_hook(before, with_kwargs=True) for block in blocks]
    handles += [block.register_forward_hook(note, with_kwargs=True) for block in blocks]
    try:
        _run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    if [call.module for call in calls] != blocks:
        raise ValueError(
            f"the {len(blocks)} blocks in {where or 'the list'} of {type(model).__name__} must run once each,"
            f" in order; {len(calls)} calls of them were seen. Return the list of blocks instead."
        )
    try:
        return _stack(calls, type(model).__name__)
    except ValueError:
        between = _between(model, blocks, calls, batch)
        if between is None:
            raise
        return between


def check_inputs(batch: Batch, x: Any, name: str = "x") -> None:
    """Raise TypeError or ValueError unless `x`, of this name, holds tensors of numbers that are finite."""
    tensors = [each for each in (*batch.args, *batch.kwargs.values()) if isinstance(each, Tensor)]
    if not tensors or not all(isinstance(key, str) for key in batch.kwargs):
        raise TypeError(f"{name} must be a tensor, or tensors in a tuple or by name, got {named(x)}.")
    for each in tensors:
        if each.layout is not torch.strided or each.is_nested:
            raise TypeError(f"{name} must hold ordinary tensors, got one of layout {each.layout}.")
        if each.ndim == 0 or each.numel() == 0:
            raise ValueError(
                f"{name} must hold inputs in the first dimension, got shape {tuple(each.shape)}."
            )
        if not bool(torch.isfinite(each).all()):
            raise ValueError(f"{name} must be finite, got a tensor that is not.")


def _in_a_row(model: nn.Sequential, x: Any, name: str) -> Stack:
    """Return the stack of a module that is the list of its blocks itself."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(
            f"{name} must be a tensor of floating-point states for a list of blocks, got {named(x)}."
        )
    blocks = tuple(model)
    states = [x.detach()]
    for block in blocks:
        with noted(f"deeplimit called {type(block).__name__} with {named(states[-1])}."):
            states.append(block(states[-1].clone()))
        if not isinstance(states[-1], Tensor) or states[-1].shape != states[0].shape:
            raise ValueError(
                f"blocks must return states of the shape {tuple(states[0].shape)} that they are given; a"
                f" {type(block).__name__} returned {named(states[-1])}."
            )
    return Stack(blocks, tuple(states))


def _run(model: nn.Module, batch: Batch) -> None:
    if any(parameter.is_floating_point() for parameter in model.parameters()):
        run(model, batch)
    else:
        with noted(f"deeplimit called {type(model).__name__} with x."):
            model(*batch.args, **batch.kwargs)


def _stack(calls: Sequence[_Call], name: str) -> Stack:
    """Return the stack of recorded calls: blocks that return the next state, or branches that are added."""
    inputs = [call.state for call in calls]
    if len({tuple(state.shape) for state in inputs} | {tuple(call.output.shape) for call in calls}) > 1:
        raise ValueError(
            f"the blocks of {name} must return states of the shape that they are given; got"
            f" {tuple(inputs[0].shape)} to {tuple(calls[0].output.shape)}."
        )
    following = [*inputs[1:], None]
    factors = [_factor(call, nxt) for call, nxt in zip(calls, following, strict=True) if nxt is not None]
    if all(factor is None for factor in factors):
        return Stack(tuple(partial(_whole, call) for call in calls), (*inputs, calls[-1].output))
    if any(factor is None for factor in factors):
        raise ValueError(_unknown(name))
    scales = [factor for factor in factors if factor is not None]
    steps = tuple(partial(_added, call, scale) for call, scale in zip(calls, scales, strict=False))
    # No block follows the last branch, which would show by what it is multiplied. Where the others have one
    # factor it has it, too; else it is left out.
    if max(scales) - min(scales) > LINEAR * max(map(abs, scales)):
        return Stack(steps, tuple(inputs))
    last = inputs[-1] + scales[-1] * calls[-1].output
    return Stack((*steps, partial(_added, calls[-1], scales[-1])), (*inputs, last))


class _Reached(BaseException):
    """Ends a forward where its next block would begin; no `except Exception` of the forward takes it."""

    def __init__(self, state: Tensor) -> None:
        self.state = state


@dataclass(frozen=True)
class _Between:
    """What a forward does from the input of one block to that of the next, its own lines between included.

    The forward runs with a copy of the batch. Blocks before `index` return what they did when they were
    recorded. The state that this one is given becomes another where it lies, so that skips see it, too; it
    may have other rows.
    """

    model: nn.Module
    blocks: Sequence[nn.Module]
    calls: Sequence[_Call]
    batch: Batch
    index: int

    def __call__(self, state: Tensor) -> Tensor:
        return self.reached(state, self.index + 1)

    def reached(self, state: Tensor, until: int) -> Tensor:
        """Return the input of block `until`, if the one of this block is `state`."""

        def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            place = self.blocks.index(module)
            if place in (self.index, until):
                found = next(value for value in (*args, *kwargs.values()) if _is_state(value))
                if place == until:
                    raise _Reached(found.clone())
                found.set_(state.clone())

        args = tuple(map(_copied, self.batch.args))
        kwargs = {key: _copied(each) for key, each in self.batch.kwargs.items()}
        handles = [
            self.blocks[k].register_forward_pre_hook(begin, with_kwargs=True) for k in (self.index, until)
        ]
        before = self.calls[: self.index]
        for call in before:
            vars(call.module)["forward"] = partial(_recorded, call.output)
        try:
            self.model(*args, **kwargs)
        except _Reached as found:
            return found.state
        finally:
            for handle in handles:
                handle.remove()
            for call in before:
                del vars(call.module)["forward"]
        raise ValueError(_unknown(type(self.model).__name__))


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _recorded(output: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return output


def _between(
    model: nn.Module, blocks: Sequence[nn.Module], calls: Sequence[_Call], batch: Batch
) -> Stack | None:
    """Return the stack of what lies between the inputs of blocks, the last block left out; None if unknown.

    Tried where a forward bends what blocks return, x + tanh(block(x)). Inputs are states if what follows one
    is known from it alone: from another state of block k, that of block k + 2 is found in one go and in two.
    """
    if len({*blocks}) < max(3, len(blocks)) or any("forward" in vars(block) for block in blocks):
        return None  # too few to try, one module in several layers, or a forward that is replaced already
    inputs = [call.state for call in calls]
    if len({tuple(state.shape) for state in inputs}) > 1:
        return None
    steps = tuple(_Between(model, blocks, calls, batch, k) for k in range(len(blocks) - 1))
    try:
        tried = range(0, len(steps) - 1, max(1, len(steps) // TRIED))
        for step, after in [(steps[k], steps[k + 1]) for k in tried]:
            if not torch.allclose(step(inputs[step.index]), after.calls[after.index].state, rtol=LINEAR):
                return None
            moved = 0.7 * inputs[step.index].flip(0).repeat(2, *[1] * (inputs[0].ndim - 1)) + 0.1
            once, twice = step.reached(moved, step.index + 2), after(step(moved))
            if not torch.allclose(once, twice, rtol=LINEAR, atol=LINEAR * float(once.abs().max())):
                return None
    except Exception:  # noqa: BLE001 (a forward may raise anything on states that are not its own)
        return None
    return Stack(steps, tuple(inputs))


def _unknown(name: str) -> str:
    return (
        f"the forward of {name} does more between its blocks than to add a multiple of what each returns, so"
        " that its layers are not the blocks. Return blocks that each map a state to the next: skip,"
        " activation and factor inside."
    )


def _factor(call: _Call, following: Tensor) -> float | None:
    """Return c with next state = state + c · output; None where the output is the next state itself."""
    if torch.allclose(following, call.output, rtol=LINEAR, equal_nan=True):
        return None
    size = torch.linalg.vector_norm(following).clamp_min(1e-30)
    step = following - call.state
    square = (call.output * call.output).sum()
    factor = (step * call.output).sum() / square if square > 0 else step.new_zeros(())
    if torch.linalg.vector_norm(step - factor * call.output) > LINEAR * size:
        raise ValueError(_unknown(f"the model of {type(call.module).__name__}s"))
    return float(factor)


def _whole(call: _Call, state: Tensor) -> Tensor:
    out = call.module(*_given(call, state)[0], **_given(call, state)[1])
    result: Tensor = out if isinstance(out, Tensor) else out[0]
    return result


def _added(call: _Call, scale: float, state: Tensor) -> Tensor:
    return state + scale * _whole(call, state.clone())


def _given(call: _Call, state: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the recorded arguments with another state in the place of the recorded one."""
    recorded = call.state
    args = tuple(state if value is recorded else value for value in call.args)
    return args, {key: state if value is recorded else value for key, value in call.kwargs.items()}
