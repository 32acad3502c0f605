"""Faults planted into networks that follow their rule: what goes wrong in people's code, on several bases.

A fault changes the weights, multipliers or sums of a base, and says which parameter a finding must name, how
many times too large it is, and in which layers. Factors hold at the largest of `DEPTHS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

DEPTHS = (4, 8, 16)
DEEPEST = DEPTHS[-1]
CONSTANT = 48  # the depth that a hurried author left in the code


Layers = Callable[[int, int], bool]  # layer, depth: whether the fault is there


def everywhere(layer: int, depth: int) -> bool:
    return True


SOME: dict[str, Layers] = {
    "the second half": lambda layer, depth: 2 * layer >= depth,
    "the first half": lambda layer, depth: 2 * layer < depth,
    "every other layer": lambda layer, depth: layer % 2 == 1,
    "the last layer": lambda layer, depth: layer == depth - 1,
    "the first layer": lambda layer, depth: layer == 0,
    "all but the last layer": lambda layer, depth: layer < depth - 1,
}


def chosen(where: Layers) -> tuple[int, ...]:
    """The layers of the deepest network in which a fault is; none where it is in all."""
    found = tuple(layer for layer in range(DEEPEST) if where(layer, DEEPEST))
    return () if len(found) == DEEPEST else found


@dataclass(frozen=True)
class Wrong:
    """What a finding must name.

    Attributes:
        parameter: With a star for the layer.
        factor: How many times too large; None where no factor says it.
        layers: The layers that depart, where not all do.
    """

    parameter: str
    factor: float | None = None
    layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Base:
    """A network that follows a rule on its weights.

    Attributes:
        name: What the tests call it.
        factory: Builds it at a depth, without the rule.
        batch: What it takes.
        blocks: Name of the list of blocks.
        outputs: Output projection of each kind of branch, by its name in a block.
        wrong: A weight of the first kind that the rule leaves alone.
        own: Whether the factory applies the rule itself.
        siblings: Whether other weights say how `wrong` would be initialised without the rule.
        reset: What initialises a weight again.
    """

    name: str
    factory: Callable[[int], nn.Module]
    batch: Callable[[], Any]
    blocks: str
    outputs: tuple[str, ...]
    wrong: str
    own: bool = False
    siblings: bool = True
    reset: Callable[[torch.Tensor], Any] = field(default=lambda weight: nn.init.normal_(weight, std=0.02))

    def count(self, depth: int) -> int:
        """Number of residual branches, which the rule counts."""
        return depth * len(self.outputs)

    def layers(self, model: nn.Module) -> list[nn.Module]:
        return list(model.get_submodule(self.blocks).children())

    def named(self, name: str, factor: float | None, where: Layers = everywhere) -> Wrong:
        """What a finding must say of a weight; without siblings nobody can know the factor of `wrong`."""
        known = self.siblings or name != self.wrong
        return Wrong(f"{self.blocks}.*.{name}", factor if known else None, chosen(where))

    def right(self, depth: int) -> nn.Module:
        """The network with the rule: output projections times 1/sqrt(N)."""
        model = self.factory(depth)
        if not self.own:
            self.multiply(model, self.outputs, lambda layer: self.count(depth) ** -0.5)
        return model

    def multiply(self, model: nn.Module, names: tuple[str, ...], factor: Callable[[int], float]) -> None:
        with torch.no_grad():
            for place, block in enumerate(self.layers(model)):
                for name in names:
                    block.get_parameter(name).mul_(factor(place))


@dataclass(frozen=True)
class Planted:
    """A base with a fault, the rule it is held to, and what must be named."""

    name: str
    factory: Callable[[int], nn.Module]
    batch: Callable[[], Any]
    expected: Any
    wrong: tuple[Wrong, ...]
    pending: str = ""


def on_weights(base: Base) -> list[Planted]:
    """GPT-2's rule, applied wrongly in every way."""
    both, first, last = base.outputs, base.outputs[:1], base.outputs[-1:]

    def root(depth: int) -> float:
        return math.sqrt(base.count(depth))

    def planted(
        what: str, names: tuple[str, ...], factor: Callable[[int], float], where: Layers = everywhere
    ) -> Planted:
        def factory(depth: int) -> nn.Module:
            model = base.right(depth)
            base.multiply(model, names, lambda layer: factor(depth) if where(layer, depth) else 1.0)
            return model

        return Planted(
            f"{base.name}: {what}",
            factory,
            base.batch,
            "gpt-2",
            tuple(base.named(name, factor(DEEPEST), where) for name in names),
        )

    def elsewhere(depth: int) -> nn.Module:
        model = base.right(depth)
        base.multiply(model, first, lambda layer: root(depth))
        base.multiply(model, (base.wrong,), lambda layer: 1 / root(depth))
        return model

    def again(depth: int) -> nn.Module:
        model = base.right(depth)
        for block in base.layers(model):
            base.reset(block.get_parameter(last[0]))
        return model

    def erased(depth: int) -> nn.Module:
        model = base.right(depth)
        base.multiply(model, last, lambda layer: 0.0)
        return model

    faults = [
        planted("rule left out", both, root),
        planted("applied twice", both, lambda depth: 1 / root(depth)),
        planted("the power 1/4", both, lambda depth: math.sqrt(root(depth))),
        planted("the power 3/4", both, lambda depth: 1 / math.sqrt(root(depth))),
        planted("twice too large", both, lambda depth: 2.0),
        planted("four times too large", last, lambda depth: 4.0),
        planted("half", both, lambda depth: 0.5),
        planted("a constant for the depth", both, lambda depth: root(depth) / root(CONSTANT)),
        *(planted(f"left out in {name}", both, root, where) for name, where in SOME.items()),
        planted("in a weight inside, too", (base.wrong,), lambda depth: 1 / root(depth)),
        Planted(
            f"{base.name}: in a weight inside instead",
            elsewhere,
            base.batch,
            "gpt-2",
            (
                base.named(first[0], root(DEEPEST) if base.siblings else None),
                base.named(base.wrong, 1 / root(DEEPEST)),
            ),
        ),
        Planted(
            f"{base.name}: initialised again after the rule",
            again,
            base.batch,
            "gpt-2",
            (base.named(last[0], root(DEEPEST)),),
        ),
        Planted(f"{base.name}: zero", erased, base.batch, "gpt-2", (base.named(last[0], 0.0),)),
    ]
    if len(both) > 1:
        faults += [
            planted("left out in one branch", first, root),
            planted("left out in the other branch", last, root),
            planted("layers counted, not branches", both, lambda depth: math.sqrt(2)),
            planted("left out in one branch of the second half", last, root, SOME["the second half"]),
        ]
    return faults
