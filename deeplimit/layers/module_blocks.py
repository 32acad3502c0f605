"""The recursion of a user's torch module: a layer is what its block returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

from torch import Tensor

from deeplimit.driving import Layer, Shape
from deeplimit.layers import activations
from deeplimit.layers.activations import Activation
from deeplimit.layers.base import Formula, Recursion, Weight


@dataclass(frozen=True)
class ModuleBlocks(Recursion):
    """block(h): the blocks of a torch module, called in order.

    Attributes:
        activation: not used; blocks bring their own.
        shape: the shape of one state.
        numbers: how many numbers a block holds, which sizes what is held at once.
    """

    activation: Activation = field(default_factory=lambda: activations.resolve("identity"))
    shape: Shape = (1,)
    numbers: int = 1
    name: ClassVar[str] = "module"
    formula: ClassVar[Formula] = Formula("block(h)", network_latex=r"\mathrm{block}(h)")
    weights: ClassVar[tuple[Weight, ...]] = (Weight("block", "n"),)
    takes_exponent: ClassVar[bool] = False

    @property
    def activation_in_words(self) -> str:
        return ""

    def width_in_words(self, width: int) -> str:
        return f"states of {' x '.join(map(str, self.shape))}"

    def check(self, width: int) -> None:
        """Nothing to do: `module_network` has tried a block, which is no tensor of ones."""

    def state_shape(self, width: int) -> Shape:
        return self.shape

    def sizes(self, width: int) -> dict[str, int]:
        return {"n": self.numbers}

    def advance(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (block,) = layers
        return block.product(h)

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return self.advance(h, layers, exponent) - h


@final
@dataclass(frozen=True)
class LinearBlocks(ModuleBlocks):
    """block(h), of blocks that add something linear in their weights: a step of the Euler scheme."""

    is_euler: ClassVar[bool] = True
