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
from deeplimit.driving.written_layers import written_layers
from deeplimit.modules.trace.batches import Batch, run

LINEAR = 1e-4
"""Relative error up to which a step between states is a multiple of what a branch returned: float32
arithmetic of one step leaves about 1e-6."""


@dataclass(frozen=True)
class Stack:
    """One network: N blocks, each a function of a state (n, *shape), and the states of one forward.

    Attributes:
        blocks: state -> next state.
        states: the N + 1 states (n, *shape) of the forward, the input of the first block first.
        written: whether blocks are lines of the forward, and not the modules of the list.
    """

    blocks: tuple[Callable[[Tensor], Tensor], ...]
    states: tuple[Tensor, ...]
    written: bool = False


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


def growing_list(models: Sequence[nn.Module]) -> str | None:
    """Return the name of the outermost list of modules that is longer in every deeper model, or None."""
    lists = [{name: len(blocks) for name, blocks in lists_of(model).items()} for model in models]
    names = [name for name in lists[0] if all(name in found for found in lists)]
    growing = [name for name in names if all(before[name] < after[name] for before, after in pairwise(lists))]
    return min(growing, key=lambda name: (name.count("."), -lists[-1][name])) if growing else None


@torch.no_grad()
def read(
    model: nn.Module,
    where: str | None,
    batch: Batch,
    depth: int = 0,
    name: str = "x",
    given: str = "factory must return",
) -> Stack:
    """Run one forward, in evaluation mode, and return the blocks of the list of this name with its states.

    Without a list they are the layers, as many as the depth, that the forward writes out. `name` is what the
    batch is called where the user gives it, `given` what models are in an error.
    """
    if where is None:
        written = _written(model, depth, batch)
        if written is None:
            raise ValueError(
                f"{given} blocks in a list that is longer the deeper the network, or a model whose forward"
                f" writes {depth} layers out, h = h + f(h); {type(model).__name__} does neither. Take the"
                " list of its blocks instead, [block] * depth where one block runs in every layer, or use"
                " check_depth, which follows the forward."
            )
        return written
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

    each = [*dict.fromkeys(blocks)]  # one block may stand in every layer
    handles = [block.register_forward_pre_hook(before, with_kwargs=True) for block in each]
    handles += [block.register_forward_hook(note, with_kwargs=True) for block in each]
    try:
        _run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    try:
        if [call.module for call in calls] != blocks:
            raise ValueError(
                f"the {len(blocks)} blocks in {where or 'the list'} of {type(model).__name__} must run once"
                f" each, in order; {len(calls)} calls of them were seen. Return the list of blocks instead."
            )
        return _stack(calls, type(model).__name__)
    except ValueError:
        written = _written(model, len(blocks), batch)
        if written is None:
            raise
        return written


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
    """Return the stack of a module that is the list of its blocks itself, with a stem and a head or without.

    These change the shape of what they are given; the blocks are the longest run of one class that does not.
    """
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} must be a tensor of floating-point states for a list of blocks, got {named(x)}."
        )
    blocks, states = _states_of(model, x.detach())
    if all(map(_same_state, states, states[1:])):
        return Stack(blocks, tuple(states))
    first, last = _run_of_blocks(blocks, states)
    if last - first < LEAST_RUN:
        changed = next(k for k in range(len(blocks)) if not _same_state(states[k], states[k + 1]))
        start = "" if x.is_floating_point() else f" {name} is of {x.dtype}: give floating-point states."
        raise ValueError(
            f"blocks must return floating-point states of the shape that they are given, but block {changed},"
            f" of class {type(blocks[changed]).__name__}, returned {named(states[changed + 1])} for"
            f" {named(states[changed])}.{start}"
        )
    return Stack(blocks[first:last], tuple(states[first : last + 1]))


def _states_of(model: nn.Sequential, x: Tensor) -> tuple[tuple[nn.Module, ...], list[Any]]:
    """Return the children of an nn.Sequential, and what each is given, the output last."""
    blocks, states = tuple(model), [x]
    for block in blocks:
        with noted(f"deeplimit called {type(block).__name__} with {named(states[-1])}."):
            states.append(block(states[-1].clone()))
        if not isinstance(states[-1], Tensor):
            raise ValueError(
                f"blocks must return states, as tensors; a {type(block).__name__} returned"
                f" {named(states[-1])}."
            )
    return blocks, states


LEAST_RUN = 2
"""Of fewer blocks after a stem nobody can say that they are layers."""


def _same_state(one: Any, other: Any) -> bool:
    """Whether two values are floating-point tensors of one shape."""
    tensors = isinstance(one, Tensor) and isinstance(other, Tensor) and other.is_floating_point()
    return bool(tensors and one.is_floating_point() and one.shape == other.shape)


def _run_of_blocks(blocks: Sequence[nn.Module], states: Sequence[Any]) -> tuple[int, int]:
    """Return the longest run of blocks of one class that return states as they are given."""
    best, first = (0, 0), 0
    for k, block in enumerate(blocks):
        if not _same_state(states[k], states[k + 1]):
            first = k + 1
        elif type(block) is not type(blocks[first]):
            first = k
        best = max(best, (first, k + 1), key=lambda run: run[1] - run[0])
    return best


@torch.no_grad()
def with_its_blocks_apart(model: nn.Module, batch: Batch) -> nn.Module:
    """Return an nn.Sequential of stem, blocks and head with the blocks in a list of their own.

    Any other module is returned as it is.
    """
    if not isinstance(model, nn.Sequential) or batch.kwargs or len(batch.args) != 1:
        return model
    blocks, states = _states_of(model, batch.args[0])
    first, last = _run_of_blocks(blocks, states)
    if last - first < LEAST_RUN or all(map(_same_state, states, states[1:])):
        return model
    return nn.Sequential(*blocks[:first], nn.Sequential(*blocks[first:last]), *blocks[last:])


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


def _written(model: nn.Module, depth: int, batch: Batch) -> Stack | None:
    """Return the layers that a forward writes out; None where it has others than `depth` of them."""
    inputs = [*batch.args, *batch.kwargs.values()]
    place = next((k for k, each in enumerate(inputs) if isinstance(each, Tensor) and each.ndim), None)
    if place is None:
        return None

    def forward(first: Tensor) -> Any:
        given = [first if k == place else _copied(each) for k, each in enumerate(inputs)]
        args, named = given[: len(batch.args)], given[len(batch.args) :]
        return model(*args, **dict(zip(batch.kwargs, named, strict=True)))

    found = written_layers(forward, depth, inputs[place], alone=len(inputs) == 1)
    return None if found is None else Stack(found.blocks, found.states, written=True)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


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
