"""Branches of two layers whose hidden width is not the network's: means over hidden units (Chizat 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.common.global_state import by_default
from deeplimit.driving import Layer
from deeplimit.layers.activations import slopes
from deeplimit.layers.base import Formula, Recursion, Side, Weight
from deeplimit.layers.plain_pass import PlainPass
from deeplimit.layers.stacked import StackedPass


@final
@dataclass(frozen=True)
class TwoLayer(Recursion):
    """h + L^-β M^-γ V σ(W h), with M hidden units: V is (d, M) and W is (M, d).

    At γ = 1 the branch is a mean over hidden units, and at β = 1 the network a mean over L·M of them. A
    weight law gives V entries of variance 1/M, as fan-in has it. Means need V of a size that does not depend
    on M: training takes it from an `Initialisation`.

    Attributes:
        activation: A name or a callable on tensors, applied entry by entry.
        hidden: M, the number of hidden units.
        hidden_exponent: γ.

    Raises:
        TypeError, ValueError: For a number of hidden units below 1, and an exponent that is no real number.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.ResidualNetwork(dl.TwoLayer("tanh", hidden=6), width=4, exponent=1.0)
        >>> network.weight_shapes
        ((4, 6), (6, 4))
    """

    hidden: int = 1
    hidden_exponent: float = 1.0
    name: ClassVar[str] = "two-layer"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} M^-γ V σ({W} h)",
        "(M^-γ V_t σ(W_t H))",
        r"h + L^{-%(exponent)s} M^{-\gamma}\, V \sigma(%(W)s h)",
        r"M^{-\gamma}\, V_t\,\sigma(W_t H)",
    )
    weights: ClassVar[tuple[Weight, ...]] = (
        Weight("V", "d M", side=Side.OUTER),
        Weight("W", "M d", side=Side.INNER),
    )

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        super().__post_init__()
        validation.integer(self.hidden, "hidden", minimum=1, hint="It is the number of hidden units M.")
        validation.real(self.hidden_exponent, "hidden_exponent")

    @property
    def is_homogeneous(self) -> bool:
        return slopes(self.activation) is not None

    @property
    def activation_in_words(self) -> str:
        return f"{super().activation_in_words}, M = {self.hidden}, γ = {self.hidden_exponent:g}"

    def sizes(self, width: int) -> dict[str, int]:
        return {"d": width, "M": self.hidden}

    @property
    def _scale(self) -> float:
        return math.pow(self.hidden, -self.hidden_exponent)

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        v, w = layers
        return self._scale * v.apply(self.activation(w.apply(h)), exponent)

    def stacked_pass(self, library: ArrayLibrary) -> StackedPass:
        v, w = self.weights
        return PlainPass(v.name, w.name, None, self.activation, library, self._scale)
