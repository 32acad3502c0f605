"""Shaped multilayer perceptrons, as the covariance of what several inputs become (Li et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import Layer, Shape
from deeplimit.layers import activations
from deeplimit.layers.activations import Activation
from deeplimit.layers.base import Formula, Recursion, Weight

LARGEST_SLOPE = 1e3


@final
@dataclass(frozen=True)
class ShapedMLP(Recursion):
    """z_{k+1} = √(c/n) W φ(z_k), φ(z) = s₊ z⁺ - s₋ z⁻ with slopes s_± = 1 + c_± n^-β near the identity.

    W is n × n standard normal, c = 2/(s₊² + s₋²) keeps the mean of |z|², and n = L/T units grow with the
    depth (`HiddenUnits`). There is no skip connection: φ takes its place (Li, Nica and Roy 2022).

    The state is not z, but what m inputs have in common: h (P, m, m) is the lower Cholesky factor of the
    covariance V = h hᵀ, V^ab = ⟨φ(z^a), φ(z^b)⟩ c/n. Given V, the n rows of W draw z independently, so that
    the states are a Markov chain with the law of the whole network. The formula writes R(V) for the factor
    of V. Any h may be the first, such as m inputs as rows; `width` is m. `deeplimit.shaped_mlp` makes the
    network in one call.

    Attributes:
        activation: not used; φ is piecewise linear.
        slopes: c₊ and c₋; (0, -1) flattens the negative side, as in a leaky ReLU.

    Raises:
        TypeError, ValueError: For slopes that are no pair of numbers between -1000 and 1000.

    NOT checked: that n^-β is small. Where it is not, φ may turn the sign of one side, as leaky units with a
    negative slope.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.ResidualNetwork(dl.ShapedMLP((0.0, -1.0)), width=2, weights=dl.HiddenUnits(0.5))
        >>> network.state_shape, network.regime().name
        ((2, 2), 'sde')
    """

    activation: Activation = field(
        default_factory=lambda: activations.resolve("identity"), init=False, repr=False
    )
    slopes: tuple[float, float] = (0.0, -1.0)
    name: ClassVar[str] = "shaped MLP"
    formula: ClassVar[Formula] = Formula(
        "R((c/n) Σ_i φ(h ξ_i) φ(h ξ_i)ᵀ), φ(z) = z + n^-{exponent} (c₊ z⁺ - c₋ z⁻)",
        "",
        r"R((c/n) \Sigma_i \varphi(h \xi_i) \varphi(h \xi_i)^\top),"
        r" \varphi(z) = z + n^{-%(exponent)s} (c_+ z^+ - c_- z^-)",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("ξ", "m"),)

    @by_default
    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.slopes, tuple) or len(self.slopes) != 2:
            raise TypeError(
                f"slopes must be the pair (c₊, c₋), such as (0.0, -1.0); got {validation.named(self.slopes)}."
            )
        hint = "The slopes of φ are 1 + c/√n."
        checked = [
            validation.real(slope, "slopes", minimum=-LARGEST_SLOPE, maximum=LARGEST_SLOPE, hint=hint)
            for slope in self.slopes
        ]
        object.__setattr__(self, "slopes", tuple(checked))

    @property
    def difference(self) -> float:
        """c₊ - c₋, all that the limit knows of the slopes."""
        return self.slopes[0] - self.slopes[1]

    @property
    def is_homogeneous(self) -> bool:
        return True

    @property
    def activation_in_words(self) -> str:
        return "c = ({:g}, {:g})".format(*self.slopes)

    def width_in_words(self, width: int) -> str:
        return f"{width} input{'s' if width > 1 else ''}"

    def powers_in_law(self, exponent: float) -> tuple[float, float]:
        """Return the powers of 1/n in n (s₊ - s₋)²/(s₊² + s₋²), the drift of correlations, and what follows.

        At the exponent 1/2 it differs from its limit by the relative size (c₊ + c₋)/√n. Above 1/2 its limit
        is 0, and all of it is the difference, of size n^(1-2β). Its square follows, or the error 1/n of
        linear networks.
        """
        above = exponent - 0.5
        if self.difference == 0.0 or exponent >= 1.0:
            return 1.0, 2.0
        if above > 1e-9:  # the tolerance of the rows of theorems
            return 2.0 * above, min(4.0 * above, 1.0)
        return (0.5, 1.0) if sum(self.slopes) else (1.0, 2.0)

    def state_shape(self, width: int) -> Shape:
        return (width, width)

    def sizes(self, width: int) -> dict[str, int]:
        return {"m": width}

    def advance(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (units,) = layers
        assert units.values is not None
        normal = units.values.reshape(len(units.values), -1, h.shape[-1])
        count = normal.shape[1]
        above, below = (1.0 + slope * count**-exponent for slope in self.slopes)
        z = (normal @ h.mT).double()
        after = torch.where(z > 0, above * z, below * z)
        factor = 2.0 / (above**2 + below**2) / count  # c/n
        return cholesky(factor * (after.mT @ after)).to(h.dtype)

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return self.advance(h, layers, exponent) - h


def cholesky(covariance: Tensor) -> Tensor:
    """Return the lower Cholesky factors (P, m, m) of covariances, which may be singular.

    `torch.linalg.cholesky` refuses singular ones. A pivot that rounding makes negative counts as 0 here.
    """
    columns: list[Tensor] = []
    for j in range(covariance.shape[-1]):
        column = covariance[:, :, j]
        for known in columns:
            column = column - known * known[:, j, None]
        pivot = column[:, j, None].clamp_min(0.0).sqrt()
        column = torch.where(pivot == 0, 0.0, column / pivot)
        columns.append(column)
    return torch.stack(columns, dim=-1).tril()
