"""The convolutional recursion (9) of Cohen et al. (2021), with and without a shortcut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.common.global_state import by_default
from deeplimit.driving import Layer, Shape
from deeplimit.layers.activations import slopes
from deeplimit.layers.base import Formula, Recursion, Weight
from deeplimit.layers.convolution_pass import ConvolutionPass
from deeplimit.layers.stacked import StackedPass

KERNEL = "c c k k"


@dataclass(frozen=True)
class _Convolution(Recursion):
    """What the two share: states (channels, height, width), kernels (channels, channels, k, k) with k odd."""

    size: tuple[int, int] = (8, 8)
    kernel: int = 3

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        super().__post_init__()
        if not isinstance(self.size, tuple):
            raise TypeError(
                f"size must be a tuple (height, width), such as (8, 8); got {validation.named(self.size)}."
            )
        if len(self.size) != 2:
            raise ValueError(f"size must be (height, width), such as (8, 8); got {self.size!r}.")
        for name, length in zip(("height", "width"), self.size, strict=True):
            validation.integer(length, f"size's {name}", minimum=1, hint="It is a number of pixels.")
        validation.integer(self.kernel, "kernel", minimum=1, hint="It is the kernel's side in pixels.")
        if self.kernel % 2 == 0:
            raise ValueError(
                f"kernel must be odd, so that states keep their size; got {self.kernel}; try"
                f" {self.kernel + 1}."
            )

    @property
    def is_homogeneous(self) -> bool:
        return slopes(self.activation) is not None

    def width_in_words(self, width: int) -> str:
        return f"{width} channels of {self.size[0]} x {self.size[1]}"

    def state_shape(self, width: int) -> Shape:
        return (width, *self.size)

    def sizes(self, width: int) -> dict[str, int]:
        return {"c": width, "k": self.kernel}

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return self.advance(h, layers, exponent) - h

    def stacked_pass(self, library: ArrayLibrary) -> StackedPass:
        outer, inner, *shortcut = (weight.name for weight in self.weights)
        return ConvolutionPass(outer, inner, shortcut[0] if shortcut else None, self.activation, library)


@final
@dataclass(frozen=True)
class Convolutional(_Convolution):
    """σ(h + L^-β Δ ∗ σ(A ∗ h)): Cohen et al. (2021), (9) without its shortcut.

    States h are (P, c, height, width), the kernels Δ and A of a layer (P, c, c, k, k). The width of the
    network is the number c of channels. `deeplimit.convolutional` makes the network in one call.

    Attributes:
        activation: A name or a callable on tensors, applied entry by entry.
        size: Height and width of a state, in pixels.
        kernel: Side k of the kernels, odd, so that states keep their size.

    Raises:
        TypeError: For a size that is not a tuple, or numbers that are not integers.
        ValueError: For other than two lengths, a length below 1, or an even kernel.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.ResidualNetwork(dl.Convolutional("relu", size=(5, 4)), width=3)
        >>> network.state_shape, network.weight_shapes
        ((3, 5, 4), ((3, 3, 3, 3), (3, 3, 3, 3)))
    """

    name: ClassVar[str] = "convolutional"
    formula: ClassVar[Formula] = Formula(
        "σ(h + L^-{exponent} Δ ∗ σ(A ∗ h))",
        network_latex=r"\sigma(h + L^{-%(exponent)s} \Delta * \sigma(A * h))",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("Δ", KERNEL), Weight("A", KERNEL))

    def advance(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        delta, inner = layers
        return self.activation(h + delta.apply(self.activation(inner.apply(h)), exponent))


@final
@dataclass(frozen=True)
class ConvolutionalWithShortcut(_Convolution):
    """σ(h + L^-β (Δ ∗ σ(A ∗ h) + F ∗ h)): Cohen et al. (2021), (9) with all three kernels."""

    name: ClassVar[str] = "convolutional with shortcut"
    formula: ClassVar[Formula] = Formula(
        "σ(h + L^-{exponent} (Δ ∗ σ(A ∗ h) + F ∗ h))",
        network_latex=r"\sigma(h + L^{-%(exponent)s} (\Delta * \sigma(A * h) + F * h))",
    )
    weights: ClassVar[tuple[Weight, ...]] = (*Convolutional.weights, Weight("F", KERNEL))

    def advance(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        delta, inner, shortcut = layers
        branch = delta.apply(self.activation(inner.apply(h)), exponent)
        return self.activation(h + branch + shortcut.apply(h, exponent))
