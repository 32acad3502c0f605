"""The limit equations, readable by torchsde and torchdiffeq as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from deeplimit.ground.randomness import Purpose, generator
from deeplimit.recursions import Layer, Recursion, Res1
from deeplimit.weights import FunctionPath, FunctionProcess, IncrementProcess, Process

VectorField = Callable[[Any, Tensor], Tensor]


class Limit(ABC):
    """A continuous limit: an SDE or an ODE, and whether it reads the network's own path."""

    @property
    @abstractmethod
    def equation(self) -> str:
        """The equation in a line of text."""


class SDELimit(Limit):
    """An Itô equation advanced by Euler-Maruyama on given Brownian increments."""

    @abstractmethod
    def noise_size(self, h: Tensor) -> int | None:
        """Return the number of Brownian motions, or None where any number will do (only a product is
        known).
        """

    @abstractmethod
    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        """Return what one step adds to the state h (P, d), for increments `noise` (P, number of Brownian
        motions).
        """


class ODELimit(Limit):
    """An equation dH = f(t, H) dt, solved by torchdiffeq."""

    @property
    def functions(self) -> tuple[FunctionProcess, ...]:
        """The laws of the functions that f reads; empty where f is a fixed function."""
        return ()

    @abstractmethod
    def bind(self, paths: tuple[FunctionPath, ...]) -> VectorField:
        """Return f(t, h) for one block of sampled functions, one for each of `functions`."""


@dataclass(frozen=True)
class NeuralSDE(SDELimit):
    """The neural SDE dH = (1/√d) dB σ(H) of [M] Prop. 11, B a d × d Brownian motion, in Itô's sense.

    A torchsde object as it is: f (P, d), g (P, d, d²), g_prod (P, d). The d² Brownian motions are B's
    entries, row by row.

    Examples:
        >>> import torch, torchsde, deeplimit as dl
        >>> sde = dl.res1(width=3, activation="tanh").limit()
        >>> ys = torchsde.sdeint(sde, torch.ones(5, 3), torch.tensor([0.0, 1.0]), dt=0.1, method="euler")
        >>> ys.shape
        torch.Size([2, 5, 3])
    """

    recursion: Res1
    weights: tuple[IncrementProcess, ...]
    width: int
    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    @property
    def equation(self) -> str:
        return f"dH = (1/√d) dB σ(H), σ = {self.recursion.activation.name}, d = {self.width}"

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift, which is zero, as (P, d)."""
        return torch.zeros_like(y)

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion as (P, d, d²): entry (i, (a, b)) is σ(y_b)/√d where a = i, else 0."""
        row = self.recursion.activation(y) * self.weights[0].entry_scale(self.width)  # (P, d)
        eye = torch.eye(self.width, dtype=y.dtype, device=y.device)
        return torch.einsum("ia,pb->piab", eye, row).reshape(y.shape[0], self.width, -1)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        """Return the diffusion times `v` (P, d²) as (P, d), without building the diffusion."""
        (process,) = self.weights
        matrix = v.reshape(y.shape[0], self.width, self.width)
        layer = Layer(matrix, 1, process.layer_exponent, process.entry_scale(self.width))
        return self.recursion.residual(y, (layer,), exponent=0.0)

    def noise_size(self, h: Tensor) -> int | None:
        return self.width**2

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.g_prod(time, h, noise)


@dataclass(frozen=True)
class NeuralODE(ODELimit):
    """The neural ODE dH = V_t g(H, W_t) dt of [M] Prop. 12, for weights that are functions of time.

    A torchdiffeq function as it is: calling it as f(t, h) reads one draw of the random weights, the one of
    `seed`, for the whole batch. `deeplimit.compare` gives every path its own draw instead, the same that
    the networks read.

    Examples:
        >>> import torch, torchdiffeq, deeplimit as dl
        >>> ode = dl.res1(width=3, activation="tanh", weights=dl.SmoothGaussian()).limit()
        >>> torchdiffeq.odeint(ode, torch.ones(5, 3), torch.tensor([0.0, 1.0])).shape
        torch.Size([2, 5, 3])
    """

    recursion: Recursion
    weights: tuple[FunctionProcess, ...]
    width: int
    seed: int = field(default=0, compare=False)  # which draw f(t, h) reads is no part of the equation

    @property
    def equation(self) -> str:
        right = self.recursion.formula.removeprefix("h + L^-β ").replace("h", "H")
        right = right.replace("V", "V_t").replace("W", "W_t").replace(" + b", " + b_t")
        return f"dH = {right} dt, σ = {self.recursion.activation.name}, d = {self.width}"

    @property
    def functions(self) -> tuple[FunctionProcess, ...]:
        return self.weights

    def bind(self, paths: tuple[FunctionPath, ...]) -> VectorField:
        def vector_field(t: Any, h: Tensor) -> Tensor:
            time = torch.as_tensor(t, device=h.device, dtype=torch.float64).reshape(1)
            return self.recursion.residual(
                h, layers_at(paths, self.weights, self.width, time, 0, depth=1), exponent=0.0
            )

        return vector_field

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        """Return dH/dt (P, d) at time `t` and state `h` (P, d), for the draw of `seed`."""
        return self.bind(draw_one(self.weights, self.width, self.seed, h.dtype, h.device))(t, h)


@lru_cache(maxsize=8)
def draw_one(
    weights: tuple[FunctionProcess, ...], width: int, seed: int, dtype: torch.dtype, device: torch.device
) -> tuple[FunctionPath, ...]:
    """Return the one draw of each function that a limit reads when it is called by itself."""
    return tuple(
        process.sample(width, 1, generator(seed, Purpose.NETWORK_WEIGHTS, 0, index, device), dtype, device)
        for index, process in enumerate(weights)
    )


def layers_at(
    paths: tuple[FunctionPath, ...],
    weights: tuple[Process, ...],
    width: int,
    times: Tensor,
    index: int,
    depth: int,
) -> tuple[Layer, ...]:
    """Return the layers of a depth-`depth` network whose weights are the functions' values at
    `times[index]`.
    """
    at = times[index : index + 1]
    layers = []
    for path, process in zip(paths, weights, strict=True):
        bias = path.bias_at(at)
        scale = process.entry_scale(width)
        layers.append(
            Layer(path.at(at)[0], depth, process.layer_exponent, scale, None if bias is None else bias[0])
        )
    return tuple(layers)


@dataclass(frozen=True)
class Identity(ODELimit):
    """dH = 0: what a network becomes whose residual branches are scaled down too much ([M] Cor. 5, Prop.
    13).
    """

    @property
    def equation(self) -> str:
        return "dH = 0 (the identity)"

    def bind(self, paths: tuple[FunctionPath, ...]) -> VectorField:
        return self.__call__

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        return torch.zeros_like(h)


@dataclass(frozen=True)
class Independent:
    """A limit driven by noise of its own instead of the network's: equal in law, not the same path.

    The control that must come out "does not converge": `compare(resnet, Independent(resnet.limit()))`
    measures the distance between two independent draws, whatever the depth. For an ODE limit the random
    weights are drawn afresh.
    """

    limit: Any
