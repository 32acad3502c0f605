"""Modules whose blocks are replaced as functions of their state, whatever the order of hidden units."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from deeplimit.judge.block_limit.reading import LINEAR, check_inputs, lists_of, read, with_its_blocks_apart
from deeplimit.modules.trace.batches import as_batch
from deeplimit.trained.diagnosis.layer_families import LEAST, SameLayersError, refuse_copies
from deeplimit.trained.diagnosis.replaceable import Layers, Replaceable
from deeplimit.trained.diagnosis.stacks import Stack

INSTEAD = "Leave batch out to replace weights in place of blocks."


class Mixture(nn.Module):
    """A block that adds a combination of what several blocks add, Σ_l w_l F_l(h).

    Attributes:
        own: the block in whose place it is; what it returns beside the state is its own.
        blocks: all blocks.
        shares: the weights w_l.
        whole: whether blocks return the next state, h + F(h); else F(h).
    """

    def __init__(
        self, own: nn.Module, blocks: Sequence[nn.Module], shares: Sequence[float], whole: bool
    ) -> None:
        super().__init__()
        self.own = own
        kept = [(block, share) for block, share in zip(blocks, shares, strict=True) if share != 0]
        self.blocks, self.shares = nn.ModuleList(block for block, _ in kept), [share for _, share in kept]
        self.whole = whole

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the block in whose place it is would, with another state."""
        state = _state(args, kwargs).clone()
        result = state if self.whole else torch.zeros_like(state)
        for block, share in zip(self.blocks, self.shares, strict=True):
            added = _first(block(*map(_copied, args), **{key: _copied(each) for key, each in kwargs.items()}))
            result = result + share * (added - state if self.whole else added)
        own = self.own(*args, **kwargs)
        return result if isinstance(own, Tensor) else type(own)((result, *own[1:]))


def _state(args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    found: Tensor = next(
        value
        for value in (*args, *kwargs.values())
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2
    )
    return found


def _first(result: Any) -> Tensor:
    first: Tensor = result if isinstance(result, Tensor) else result[0]
    return first


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


@final
class FunctionLayers(Replaceable):
    """A module whose layers are the blocks of a list, as functions; layer k is the k-th unit vector.

    Combinations of functions are rows of a matrix (L, L), which is what the controls replace. The trend is
    estimated from what the blocks add to the states before the middle one.
    """

    def __init__(self, model: nn.Module, batch: Any, layers: str | None) -> None:
        taken = as_batch(model, batch)
        check_inputs(taken, batch, "batch")
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        if layers is None:
            self.model = with_its_blocks_apart(self.model, taken)
        self.where = _list_of(self.model, layers)
        self.left_out = {}
        blocks = lists_of(self.model)[self.where]
        outputs: list[Tensor] = []
        handle = blocks[0].register_forward_hook(
            lambda module, args, result: outputs.append(_first(result).clone())
        )
        try:
            with torch.no_grad():
                stack = read(self.model, self.where, taken, name="batch")
                states = stack.states[len(stack.blocks) // 2]
                added = torch.stack([block(states.clone()) - states for block in stack.blocks])
        except ValueError as error:
            raise ValueError(f"{error} {INSTEAD}") from error
        finally:
            handle.remove()
        # Where factors differ, the next state tells what a block adds, and the last one has none.
        if stack.written or len(stack.blocks) != len(blocks):
            raise ValueError(
                "weights has a forward that bends what its blocks return, or scales each in another way, so"
                f" that blocks are not the layers. {INSTEAD}"
            )
        self.whole = torch.allclose(outputs[0], stack.states[1], rtol=LINEAR, atol=LINEAR)
        try:
            refuse_copies(range(len(added)), list(added))
        except SameLayersError as error:
            raise ValueError(
                f"weights must have blocks that differ: {error}. Take them after training."
            ) from error
        self.name = f"{self.where}.*" if self.where else "*"
        self.added = Stack(self.name, added)
        self.stacks = {self.name: Stack(self.name, torch.eye(len(blocks), dtype=torch.float64))}

    def measured(self, name: str) -> Stack:
        return self.added

    def off(self) -> Layers:
        return {self.name: torch.zeros_like(self.stacks[self.name].values)}

    def with_layers(self, replaced: Layers) -> nn.Module:
        model = copy.deepcopy(self.model)
        if self.name not in replaced:
            return model
        place: Any = model.get_submodule(self.where)
        blocks = list(place)
        for k, shares in enumerate(replaced[self.name].tolist()):
            place[k] = Mixture(blocks[k], blocks, shares, self.whole)
        return model

    def halved(self) -> nn.Module:
        raise ValueError("halve=True needs stacks, since a module has a fixed number of layers.")


def _list_of(model: nn.Module, layers: str | None) -> str:
    """Return the name of the list with the most blocks, or of the one that `layers` names."""
    lists = {name: len(blocks) for name, blocks in lists_of(model).items() if len(blocks) >= LEAST}
    if layers is not None:
        named = str(layers).removesuffix("{}").removesuffix(".")
        if named not in lists:
            known = ", ".join(f"{name}.{{}}" if name else "{}" for name in lists) or "none"
            raise ValueError(
                f"layers={layers!r} must name a list of at least {LEAST} blocks; there are {known}."
            )
        return named
    if not lists:
        raise ValueError(
            f"weights must have a list of at least {LEAST} blocks, an nn.Sequential or nn.ModuleList;"
            f" {type(model).__name__} has none. {INSTEAD}"
        )
    return min(lists, key=lambda name: (-lists[name], name.count(".")))
