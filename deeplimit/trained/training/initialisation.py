"""What the weights of a network are before training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.driving import check_depths, draw_layers
from deeplimit.layers.stacked import BIAS
from deeplimit.networks.residual_network import ResidualNetwork

FACTOR = "δ"
"""The name of the residual factor among the weights of a recursion."""


class Initialisation(FinalWhereMarked, ABC):
    """Draws the weights of one network before it is trained."""

    @property
    def same_at_all_depths(self) -> bool:
        """Whether networks of all depths are drawn from one stream, and so are their ends."""
        return False

    def check(self, network: ResidualNetwork, depths: tuple[int, ...]) -> None:
        """Raise ValueError where it has no weights for this network at one of these depths."""

    def describe(self, network: ResidualNetwork) -> str:
        """Return the weights before training in a few words."""
        return str(self)

    def citations(self, network: ResidualNetwork) -> tuple[str, ...]:
        """Return sources of these weights."""
        return ()

    @abstractmethod
    def draw(
        self, network: ResidualNetwork, depth: int, tied: frozenset[str], generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the weights by name, (L, *shape) in float64, biases under "b"; (1, *shape) where tied."""


@final
@dataclass(frozen=True)
class FromWeightLaws(Initialisation):
    """Each weight as the network's weight laws draw it; biases are 0 where a law gives none.

    Examples:
        >>> import deeplimit as dl
        >>> dl.FromWeightLaws()
        FromWeightLaws(same_in_all_layers=False, same_at_all_depths=False)

    Attributes:
        same_in_all_layers: whether all layers begin with the weights of the first (weight-tied
            initialisation); they are trained one by one all the same.
        same_at_all_depths: whether that layer, and the ends, are the same in networks of all depths. It is
            then the layer of a network of depth 1.

    Raises:
        ValueError: for layers that differ within a network and shall be the same at all depths.
    """

    same_in_all_layers: bool = False
    same_at_all_depths: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.same_in_all_layers, bool):
            raise TypeError(
                f"same_in_all_layers must be True or False, got {validation.named(self.same_in_all_layers)}."
            )
        if not isinstance(self.same_at_all_depths, bool):
            raise TypeError(
                f"same_at_all_depths must be True or False, got {validation.named(self.same_at_all_depths)}."
            )
        if self.same_at_all_depths and not self.same_in_all_layers:
            raise ValueError(
                "same_at_all_depths=True must come with same_in_all_layers=True, got False: layers that"
                " differ cannot be the same in networks of 8 and of 16 layers."
            )

    def check(self, network: ResidualNetwork, depths: tuple[int, ...]) -> None:
        for law, shape in network.laws_and_shapes:
            check_depths(law, shape, (1,) if self.same_at_all_depths else depths)

    def describe(self, network: ResidualNetwork) -> str:
        laws = " and ".join(dict.fromkeys(law.describe() for law in network.weights))
        if not self.same_in_all_layers:
            return laws
        return f"{laws}, the same in all layers{' and at all depths' if self.same_at_all_depths else ''}"

    def citations(self, network: ResidualNetwork) -> tuple[str, ...]:
        return tuple(dict.fromkeys(network.citations))

    def draw(
        self, network: ResidualNetwork, depth: int, tied: frozenset[str], generator: torch.Generator
    ) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        names = [weight.name for weight in network.recursion.weights]
        layers = 1 if self.same_at_all_depths else depth
        for place, (name, (law, shape)) in enumerate(zip(names, network.laws_and_shapes, strict=True)):
            drawn = draw_layers(law, layers, shape, 1, generator, torch.float64)
            zeros = torch.zeros(layers, *shape, dtype=torch.float64)
            found[name] = zeros if drawn.matrices is None else drawn.matrices[:, 0] * drawn.scale
            if place == 0 and network.recursion.takes_bias:
                biases = None if drawn.biases is None else drawn.biases[:, 0]
                found[BIAS] = (
                    torch.zeros(layers, network.width, dtype=torch.float64) if biases is None else biases
                )
        for name, stack in found.items():
            if name in tied:
                found[name] = stack[:1].clone()
            elif self.same_in_all_layers:
                found[name] = stack[:1].expand(depth, *stack.shape[1:]).clone()
        return found


@final
@dataclass(frozen=True)
class SmallGaussian(Initialisation):
    """Gaussian weights that shrink with depth: entries of size s/(L·fan-in), biases s/(L·√d).

    That is the initialisation "xavier-depth" in the public code of Cohen et al. (2021), with s = 0.01. A
    residual factor δ is 1/L where all layers share it, else Gaussian of standard deviation 1/L.

    Examples:
        >>> import torch, deeplimit as dl
        >>> network = dl.fully_connected(10, "tanh", exponent=0.0)
        >>> drawn = dl.SmallGaussian().draw(network, 50, frozenset({"δ"}), torch.Generator().manual_seed(0))
        >>> drawn["δ"], {name: tuple(stack.shape) for name, stack in drawn.items()}
        (tensor([0.0200], dtype=torch.float64), {'A': (50, 10, 10), 'δ': (1,), 'b': (50, 10)})
    """

    size: float = 0.01

    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.real(self.size, "size", above=0.0)

    def describe(self, network: ResidualNetwork) -> str:
        return f"Gaussian weights of size {self.size:g}/(L · fan-in)"

    def citations(self, network: ResidualNetwork) -> tuple[str, ...]:
        return ("cohen2021",)

    def draw(
        self, network: ResidualNetwork, depth: int, tied: frozenset[str], generator: torch.Generator
    ) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        names = [weight.name for weight in network.recursion.weights]
        for name, shape in zip(names, network.weight_shapes, strict=True):
            layers = 1 if name in tied else depth
            normal = torch.randn(layers, *shape, generator=generator, dtype=torch.float64)
            if name == FACTOR:
                found[name] = (
                    torch.full((1, *shape), 1.0 / depth, dtype=torch.float64)
                    if name in tied
                    else normal / depth
                )
            else:
                fan_in = torch.Size(shape[1:]).numel()
                found[name] = normal * (self.size / (depth * fan_in))
        if network.recursion.takes_bias:
            normal = torch.randn(
                1 if BIAS in tied else depth, network.width, generator=generator, dtype=torch.float64
            )
            found[BIAS] = normal * (self.size / (depth * network.width**0.5))
        return found
