"""res-1, res-2, res-3 (Marion et al. 2025, Table 1) and the inner recursion (Marion et al. 2025, Remark 2;
fully connected, Cohen et al. 2021, (1)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from deeplimit.driving import Layer
from deeplimit.layers.activations import derivative, slopes
from deeplimit.layers.base import Formula, OneProduct, Recursion, Side, Weight
from deeplimit.layers.one_product import Form


@final
@dataclass(frozen=True)
class Res1(OneProduct):
    """h + L^-β V σ(h)."""

    name: ClassVar[str] = "res1"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} V σ(h)",
        "V_t σ(H)",
        r"h + L^{-%(exponent)s} V \sigma(h)",
        r"V_t\,\sigma(H)",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("V", side=Side.OUTER),)
    is_plain: ClassVar[bool] = True
    is_euler: ClassVar[bool] = True
    form: ClassVar[Form | None] = Form.LINEAR

    def operand(self, h: Tensor) -> Tensor:
        return self.activation(h)

    def finish(self, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        return product * layer.scale(exponent)


@final
@dataclass(frozen=True)
class ModifiedRes1(Recursion):
    """h + L^-β V σ(h) + ½ L^-2β σ'(h) σ(h)/d: res-1 with the mean of its second-order term.

    Over a layer the solution of dH = dV σ(H) moves by V σ(h) + ½ Σ_j V_ij σ'(h_j) Σ_k V_jk σ(h_k) + … For
    independent entries of variance 1/d only j = k = i has a mean, σ'(h_i) σ(h_i)/d. With increments of
    fractional Brownian motion and β = H this is the modified Euler scheme of Hu, Liu and Nualart (2016).
    """

    name: ClassVar[str] = "modified res1"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} V σ(h) + ½ L^-2{exponent} σ'(h) σ(h)/d",
        "V_t σ(H)",
        r"h + L^{-%(exponent)s} V \sigma(h) + \tfrac12 L^{-2%(exponent)s} \sigma'(h) \sigma(h)/d",
        r"V_t\,\sigma(H)",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("V", side=Side.OUTER),)

    @property
    def is_homogeneous(self) -> bool:
        return slopes(self.activation) is not None

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (v,) = layers
        value = self.activation(h)
        mean_square = (math.pow(v.depth, -exponent) * v.entry_scale) ** 2
        return v.apply(value, exponent) + 0.5 * mean_square * derivative(self.activation, h) * value


def _two_products(recursion: Recursion, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
    v, w = layers
    return v.apply(recursion.activation(w.apply(h)), exponent)


@final
@dataclass(frozen=True)
class Res2(Recursion):
    """h + L^-β V σ(W h)."""

    name: ClassVar[str] = "res2"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} V σ({W} h)",
        "V_t σ(W_t H)",
        r"h + L^{-%(exponent)s} V \sigma(%(W)s h)",
        r"V_t\,\sigma(W_t H)",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("V", side=Side.OUTER), Weight("W", side=Side.INNER))
    is_plain: ClassVar[bool] = True

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return _two_products(self, h, layers, exponent)


@final
@dataclass(frozen=True)
class Res3(Recursion):
    """h + L^-β V ReLU(W h): res-2 with the one activation that breaks res-2's assumption."""

    name: ClassVar[str] = "res3"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} V ReLU({W} h)",
        "V_t ReLU(W_t H)",
        r"h + L^{-%(exponent)s} V\,\mathrm{ReLU}(%(W)s h)",
        r"V_t\,\mathrm{ReLU}(W_t H)",
    )
    weights: ClassVar[tuple[Weight, ...]] = Res2.weights
    is_plain: ClassVar[bool] = True

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return _two_products(self, h, layers, exponent)


@final
@dataclass(frozen=True)
class Inner(OneProduct):
    """h + L^-β σ(W h + b)."""

    name: ClassVar[str] = "inner"
    formula: ClassVar[Formula] = Formula(
        "h + L^-{exponent} σ({W} h + b)",
        "σ(W_t H + b_t)",
        r"h + L^{-%(exponent)s} \sigma(%(W)s h + b)",
        r"\sigma(W_t H + b_t)",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("W", side=Side.INNER),)
    is_plain: ClassVar[bool] = True
    takes_bias: ClassVar[bool] = True
    form: ClassVar[Form | None] = Form.BRANCH

    def operand(self, h: Tensor) -> Tensor:
        return h

    def finish(self, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        inside = product * layer.scale()
        if layer.bias is not None:
            inside = inside + layer.bias
        return self.activation(inside) * math.pow(layer.depth, -exponent)
