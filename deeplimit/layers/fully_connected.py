"""The fully connected recursion with a trained factor δ in front of each layer (Cohen et al. 2021, (1) and
(10)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from deeplimit.common.arrays import ArrayLibrary
from deeplimit.driving import Layer
from deeplimit.layers.activations import slopes
from deeplimit.layers.base import Formula, Recursion, Side, Weight
from deeplimit.layers.plain_pass import PlainPass
from deeplimit.layers.stacked import StackedPass


@final
@dataclass(frozen=True)
class FullyConnected(Recursion):
    """h + L^-β δ σ(A h + b), δ a number for each layer.

    States h are (P, d), the weights of a layer A (P, d, d), b (P, d) and δ (P,). Of a pair of weight laws,
    the first is for A and b, the second for δ. `deeplimit.fully_connected` makes the network in one call.

    Attributes:
        activation: A name or a callable on tensors, applied entry by entry.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.ResidualNetwork(dl.FullyConnected("tanh"), width=4)
        >>> network.weight_shapes
        ((4, 4), ())
    """

    name: ClassVar[str] = "fully connected"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} δ σ(A h + b)",
        "δ_t σ(A_t H + b_t)",
        r"h + L^{-%(exponent)s} \delta\,\sigma(A h + b)",
        r"\delta_t\,\sigma(A_t H + b_t)",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("A", side=Side.INNER), Weight("δ", shape=""))
    takes_bias: ClassVar[bool] = True

    @property
    def is_homogeneous(self) -> bool:
        return slopes(self.activation) is not None

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        matrix, delta = layers
        inside = matrix.apply(h)
        if matrix.bias is not None:
            inside = inside + matrix.bias
        return delta.apply(self.activation(inside), exponent)

    def stacked_pass(self, library: ArrayLibrary) -> StackedPass:
        matrix, delta = self.weights
        return PlainPass(None, matrix.name, delta.name, self.activation, library)
