"""Known pairs of network and limit, right ones and wrong ones: for tests, documentation and anyone who checks
a method.

A right pair must come out "converges" at its order; a wrong one must come out "does not converge", or the
method that says otherwise cannot be trusted. Every wrong limit is wrong in one way only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from deeplimit.limits import Independent, ItoCorrectedSDE, NeuralODE, NeuralSDE, NeuralYoung
from deeplimit.networks import ResidualNetwork, inner, res1, res2, res3
from deeplimit.weights import Brownian, Ito, SmoothGaussian, Trend
from deeplimit.weights.covariance import Rate


@dataclass(frozen=True)
class AlteredSDE:
    """A torchsde object: a neural SDE with its diffusion scaled, its noise transposed or a drift added."""

    sde: NeuralSDE
    diffusion_scale: float = 1.0
    transpose: bool = False
    drift: Callable[[Tensor], Tensor] = torch.zeros_like
    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    def f(self, t: Any, y: Tensor) -> Tensor:
        return self.drift(y)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        width = self.sde.width
        noise = v.reshape(-1, width, width).transpose(1, 2).reshape(len(v), -1) if self.transpose else v
        return self.diffusion_scale * self.sde.g_prod(t, y, noise)


@dataclass(frozen=True)
class AlteredYoung(NeuralYoung):
    """A Young equation with its noise scaled: by √d, the 1/√d is dropped."""

    diffusion_scale: float = 1.0

    @property
    def scale(self) -> float:
        return self.diffusion_scale * super().scale


@dataclass(frozen=True)
class ExchangedQ(ItoCorrectedSDE):
    """The diffusive limit with the rows and columns of Σ^A exchanged in Q: Σ_jk x_j x_k Σ_jiki for Σ_ijik."""

    def quadratic(self, rate: Rate, h: Tensor) -> Tensor:
        matrix, vector, _ = rate.dense()
        column = (
            torch.diagonal(matrix, dim1=-3, dim2=-1) if matrix is not None else torch.zeros(1)
        )  # (…, j, k, i) = Σ_jiki
        exchanged = torch.einsum("...j,...jki,...k->...i", h, column, h)
        return exchanged if vector is None else exchanged + torch.diagonal(vector, dim1=-2, dim2=-1)


@dataclass(frozen=True)
class WithoutCrossTerm(ItoCorrectedSDE):
    """The diffusive limit with Q as (12) of Cohen et al. (2021) prints it, without the covariance of W^A and
    W^b.
    """

    def quadratic(self, rate: Rate, h: Tensor) -> Tensor:
        return (rate.quadratic(h) + rate.quadratic(-h)) / 2  # the cross term is the part that is odd in h


def neural_ode_of(network: ResidualNetwork) -> NeuralODE:
    """Return dH = σ(Ā_t H + b̄_t) dt, the limit of `inner` at α = 1, β = 0 and nowhere else."""
    functions = tuple(function for law in network.weights for function in law.functions)
    return NeuralODE(network.recursion, functions, network.width)


@dataclass(frozen=True, repr=False)
class Pair:
    """A network, a limit, and what must come of comparing them.

    Attributes:
        name: A few words.
        network, limit: What is compared.
        equation: What the limit says, in LaTeX.
        rate: The order if the limit is right; None if it is wrong.
        source: Where it comes from, or in what the limit is wrong.
    """

    name: str
    network: ResidualNetwork
    limit: Any
    equation: str
    rate: float | None
    source: str

    def __repr__(self) -> str:
        return f"Pair({self.name!r}: {self.network} | {self.equation} | must be {self.verdict!r})"

    @property
    def verdict(self) -> str:
        """The verdict that `compare` must reach, given enough paths and depths."""
        return "does not converge" if self.rate is None else "converges"


def stratonovich_drift(sde: NeuralSDE, derivative: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return ½ σ(h) σ'(h) / d, the drift that reading the neural SDE in Stratonovich's sense would add."""

    def drift(y: Tensor) -> Tensor:
        return 0.5 * sde.recursion.activation(y) * derivative(y) / sde.width

    return drift


def _tanh_derivative(y: Tensor) -> Tensor:
    return 1.0 - torch.tanh(y) ** 2


def _rotation(t: float) -> Tensor:
    return torch.tensor([[0.0, 2.0 + t], [-2.0, -t]])


def _shear(t: float) -> Tensor:
    return torch.tensor([[0.4, 1.0], [-0.8 * t, -0.2]])


def _push(t: float) -> Tensor:
    return torch.tensor([0.5, -0.5 * t])


def pairs(width: int = 4) -> tuple[Pair, ...]:
    """Return the right pairs and the wrong ones, for networks of this width.

    Examples:
        >>> from deeplimit import zoo
        >>> sorted({pair.verdict for pair in zoo.pairs()})
        ['converges', 'does not converge']
    """
    brownian, smooth = (
        res1(width, "tanh", weights=Brownian()),
        res1(width, "tanh", weights=SmoothGaussian(0.2)),
    )
    sde, ode = brownian.limit(), smooth.limit()
    assert isinstance(sde, NeuralSDE)
    prop11, prop12 = "Marion et al. (2025), Prop. 11", "Marion et al. (2025), Prop. 12"
    neural_sde, neural_ode = r"dH = d^{-1/2}\,dB\,\sigma(H)", r"dH = V_t\,\sigma(H)\,dt"
    right = (
        Pair("res-1, Gaussian", brownian, sde, neural_sde, 0.5, prop11),
        Pair("res-1, smooth", smooth, ode, neural_ode, 1.0, prop12),
        *(
            Pair(f"{network.recursion.name}, smooth", network, network.limit(), equation, 1.0, prop12)
            for network, equation in (
                (res2(width, "tanh", weights=SmoothGaussian(0.2)), r"dH = V_t\,\sigma(W_t H)\,dt"),
                (res3(width, weights=SmoothGaussian(0.2)), r"dH = V_t\,\mathrm{ReLU}(W_t H)\,dt"),
                (inner(width, "tanh", weights=SmoothGaussian(0.2)), r"dH = \sigma(W_t H)\,dt"),
            )
        ),
        Pair(
            "spiral",
            (spiral := res1(2, "tanh", weights=Trend(_rotation))),
            spiral.limit(),
            r"dH = A(t)\,\sigma(H)\,dt",
            1.0,
            prop12,
        ),
        Pair(
            "too small a branch",
            (small := res1(width, "tanh", exponent=0.8)),
            small.limit(),
            r"dH = 0",
            0.3,
            "Marion et al. (2025), Cor. 5",
        ),
    )
    sheared = Trend(_shear, _push)
    linear = inner(2, "scaled_silu", trend=sheared, alpha=0.5, beta=0.5)
    bent = inner(2, "scaled_silu", noise=Ito(A=0.03, b=0.1))
    corrected = bent.limit()
    assert isinstance(corrected, ItoCorrectedSDE)
    thm43, thm44 = "Cohen et al. (2021), Thm 4.3", "Cohen et al. (2021), Thm 4.4"
    corrected_sde = r"dH = dW^A H + dW^b + \frac12\sigma''(0)Q(t, H)\,dt"
    right += (
        Pair("linear ODE", linear, linear.limit(), r"dH = (\bar A_t H + \bar b_t)\,dt", 0.5, thm43),
        Pair("second-order drift", bent, corrected, corrected_sde, 0.5, thm44),
    )
    wrong = (
        Pair(
            "neural ODE for the linear ODE",
            linear,
            neural_ode_of(linear),
            r"dH = \sigma(\bar A_t H + \bar b_t)\,dt",
            None,
            "σ",
        ),
        Pair(
            "second-order drift left out",
            bent,
            dataclasses.replace(corrected, curvature=0.0),
            r"dH = dW^A H + dW^b",
            None,
            "the drift ½σ''(0)Q",
        ),
        Pair("independent noise", brownian, Independent(sde), neural_sde, None, "right law, other path"),
        Pair(
            "transposed noise",
            brownian,
            AlteredSDE(sde, transpose=True),
            r"dH = d^{-1/2}\,dB^\top\sigma(H)",
            None,
            "right law, other path",
        ),
        Pair(
            "diffusion 10 % too large",
            brownian,
            AlteredSDE(sde, diffusion_scale=1.1),
            r"dH = 1.1\,d^{-1/2}\,dB\,\sigma(H)",
            None,
            "a constant",
        ),
        Pair(
            "Stratonovich for Itô",
            brownian,
            AlteredSDE(sde, drift=stratonovich_drift(sde, _tanh_derivative)),
            r"dH = d^{-1/2}\,dB\circ\sigma(H)",
            None,
            "the drift ½σσ'/d, which shrinks with the width",
        ),
        Pair("ODE for the SDE network", brownian, ode, neural_ode, None, "the other regime"),
        Pair("SDE for the ODE network", smooth, sde, neural_sde, None, "the other regime"),
        Pair("other smooth weights", smooth, Independent(ode), neural_ode, None, "right law, other path"),
    )
    return right + wrong
