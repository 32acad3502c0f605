"""Further networks: fully connected with a factor δ per layer, convolutional, attention, shaped."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import Brownian, HiddenUnits, Trend, WeightLaw
from deeplimit.layers import (
    Attention,
    Convolutional,
    ConvolutionalWithShortcut,
    FullyConnected,
    ShapedMLP,
    activations,
)
from deeplimit.networks.residual_network import ActivationLike, ResidualNetwork, WeightsLike


@dataclass(frozen=True)
class _Constant:
    """A number as a function of time; two of the same number are equal."""

    value: float

    def __call__(self, t: float) -> Tensor:
        return torch.tensor(self.value, dtype=torch.float64)


@by_default
def fully_connected(
    width: int,
    activation: ActivationLike = "tanh",
    *,
    weights: WeightLaw | None = None,
    delta: float | WeightLaw = 1.0,
    exponent: float | None = None,
) -> ResidualNetwork:
    """Make the fully connected network h_{k+1} = h_k + L^-exponent δ_k σ(A_k h_k + b_k) (Cohen et al. 2021,
    (1), (10)).

    With δ = 1 it is `inner`, bit for bit, and has the theorems of `inner`. If weights and δ are functions of
    time and the exponent is 1, the limit is the neural ODE dH = δ_t σ(A_t H + b_t) dt (Cohen et al. 2021,
    (2)), and above 1 the identity. The library knows no theorem about the others.

    Args:
        width: d, at least 1.
        activation: A name (`deeplimit.activations.NAMES`) or a callable on tensors (P, d), applied entry
            by entry.
        weights: The law of A, (d, d) per layer, with b, (d,), where it is `Trend(A, b)`; `Brownian()` if left
            out.
        delta: One number for all layers, or the law of one number δ_k per layer: a function of time such as
            `Trend(lambda t: tensor)` or `SmoothGaussian()`, or random draws such as `IID("uniform")`.
        exponent: The residual exponent; if left out the natural one of the weight laws.

    Raises:
        TypeError: For a wrong kind of argument.
        ValueError: For a wrong value, weights of another shape, or a δ with a bias.

    Examples:
        >>> import deeplimit as dl
        >>> net = dl.fully_connected(4, "tanh", weights=dl.SmoothGaussian(), delta=0.5)
        >>> net.limit().equation
        'dH = δ_t σ(A_t H + b_t) dt, σ = tanh, d = 4'
        >>> dl.fully_connected(4, "tanh", delta=dl.IID("rademacher")).regime().name
        'no theorem'
    """
    if not isinstance(delta, WeightLaw):
        hint = "It multiplies every layer; a weight law gives each layer a separate δ."
        delta = Trend(_Constant(validation.real(delta, "delta", hint=hint)))
    laws = (Brownian() if weights is None else weights, delta)
    recursion = FullyConnected(activations.resolve(activation))
    return ResidualNetwork(recursion, width, laws, exponent)  # type: ignore[arg-type]  # None is filled in


@by_default
def convolutional(
    channels: int,
    activation: ActivationLike = "relu",
    *,
    size: tuple[int, int] = (8, 8),
    kernel: int = 3,
    shortcut: bool = False,
    weights: WeightsLike | None = None,
    exponent: float | None = None,
) -> ResidualNetwork:
    """Make the convolutional network h_{k+1} = σ(h_k + L^-exponent (Δ_k ∗ σ(A_k ∗ h_k) + F_k ∗ h_k)).

    It is (9) of Cohen et al. (2021). States are (channels, height, width) and keep their size: convolutions
    see zeros beyond the border. No theorem about it is known here; `stability` measures it, and `compare`
    does against a limit that the user gives.

    Args:
        channels: number of channels c, at least 1.
        activation: σ, inside and outside; Cohen et al. (2021) take ReLU.
        size: height and width of a state, in pixels.
        kernel: side k of the kernels, an odd number of pixels.
        shortcut: whether there is F; without it Δ ∗ σ(A ∗ h) alone is added.
        weights: One law for all kernels, (c, c, k, k) each and drawn independently, or a tuple with one for
            each of Δ, A (and F); `Brownian()` if left out.
        exponent: The residual exponent; if left out the natural one of the weight laws.

    Raises:
        TypeError: For a wrong kind of argument.
        ValueError: For a wrong value, such as an even kernel, or weights of another shape.

    Examples:
        >>> import torch, deeplimit as dl
        >>> net = dl.convolutional(3, size=(6, 5))
        >>> net.state_shape, net.weight_shapes[0], net.regime().name
        ((3, 6, 5), (3, 3, 3, 3), 'no theorem')
        >>> report = dl.stability(net, depths=[8, 16, 32], x=torch.randn(4, 3, 6, 5), draws=20)
        >>> report.hidden_ratio.shape
        (3, 20)
    """
    checked = validation.integer(channels, "channels", minimum=1, hint="It counts a state's channels.")
    if not isinstance(shortcut, bool):
        raise TypeError(f"shortcut must be True or False; got {validation.named(shortcut)}.")
    kind = ConvolutionalWithShortcut if shortcut else Convolutional
    recursion = kind(activations.resolve(activation), size, kernel)
    # Weights that are None are filled in.
    return ResidualNetwork(recursion, checked, weights, exponent)  # type: ignore[arg-type]


@by_default
def attention(
    width: int,
    *,
    tokens: int,
    inverse_temperature: float = 1.0,
    weights: WeightLaw | None = None,
    exponent: float | None = None,
) -> ResidualNetwork:
    """Make the network of self-attention layers ‖h_i‖ N(u_i + L^-exponent V m_i), u_i = h_i/‖h_i‖.

    m_i = Σ_j softmax_j(κ⟨u_i, u_j⟩) u_j, and N(y) = y/‖y‖: a transformer without key and query matrices, with
    post-normalisation (Geshkovski et al. 2023). A state is n tokens of width d, and every token keeps its
    norm. If V is a function of time and the exponent is 1, the limit is the clustering ODE; for independent
    Gaussian layers and the exponent 1/2 it is the noisy transformer SDE of Fedorov et al. (2026).

    Args:
        width: d, at least 2.
        tokens: number of tokens n, at least 1.
        inverse_temperature: κ, at least 0, which the literature calls β.
        weights: Weight law of V, (d, d) per layer; `Brownian()` if left out.
        exponent: The residual exponent; if left out the natural one of the weight law.

    Raises:
        TypeError: For a wrong kind of argument.
        ValueError: For a wrong value, or weights of another shape.

    Examples:
        >>> import torch, deeplimit as dl
        >>> print(dl.attention(16, tokens=8).regime().name)
        sde
        >>> identity = dl.Trend(lambda t: torch.eye(16))
        >>> dl.attention(16, tokens=8, weights=identity).limit().equation
        'dH = ‖H_i‖ P_i V_t Σ_j softmax_j(κ⟨U_i, U_j⟩) U_j dt, κ = 1, 8 tokens, d = 16'
    """
    recursion = Attention(tokens, inverse_temperature)
    # What is None is filled in.
    return ResidualNetwork(recursion, width, weights, exponent)  # type: ignore[arg-type]


@by_default
def shaped_mlp(
    inputs: int,
    *,
    depth_to_width: float = 1.0,
    slopes: tuple[float, float] = (0.0, -1.0),
    exponent: float | None = None,
) -> ResidualNetwork:
    """Make the shaped multilayer perceptron z_{k+1} = √(c/n) W φ(z_k) with n = L/T units, without skips.

    φ(z) = z + n^-exponent (c₊ z⁺ - c₋ z⁻) is a leaky ReLU near the identity (Li, Nica and Roy 2022). States
    are what m inputs have in common, the Cholesky factors (P, m, m) of their covariance (`ShapedMLP`). At
    the exponent 1/2 the limit, in law, is the neural covariance SDE (`CovarianceSDE`): `compare_laws` takes
    both. One input has a log-normal size of variance 2 T, however wide the network is.

    Args:
        inputs: number of inputs m, at least 1.
        depth_to_width: T, the depth over the width; depths must be multiples of it.
        slopes: the pair (c₊, c₋).
        exponent: how fast φ tends to the identity; 1/2 if left out.

    Raises:
        TypeError: For a wrong kind of argument.
        ValueError: For a wrong value.

    Examples:
        >>> import torch, deeplimit as dl
        >>> network = dl.shaped_mlp(2, depth_to_width=0.5)
        >>> inputs = torch.tensor([[[1.0, 0.0], [0.3, 0.954]]])
        >>> dl.compare_laws(network, x=inputs, depths=[16, 32, 64], draws=1000).regime
        'sde'
    """
    width = validation.integer(inputs, "inputs", minimum=1, hint="It is the number of inputs m.")
    law = HiddenUnits(depth_to_width)
    # An exponent that is None is filled in.
    return ResidualNetwork(ShapedMLP(slopes), width, law, exponent)  # type: ignore[arg-type]
