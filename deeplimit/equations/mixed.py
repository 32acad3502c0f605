"""The SDE of res-2 with a Brownian matrix outside σ and a function of time inside."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import FunctionLaw, SampledFunction, Shape, WeightLaw, channels_of, functions_of
from deeplimit.equations.base import SDELimit
from deeplimit.equations.drive import Drive, Sharing, places
from deeplimit.equations.neural import draw_one, layers_at
from deeplimit.equations.solvers import OnGrid, Solver
from deeplimit.layers.activations import Activation


@final
@dataclass(frozen=True)
class MixedSDE(SDELimit):
    """dH = (1/√d) dB σ(W_t H) in Itô's sense, B a d × d Brownian motion and W a function of time.

    It is the limit of V σ(W h) with independent Gaussian layers V and layers W that are values of a function
    of time. That network is its Euler-Maruyama scheme, which reads W at the end of every step. Called as it
    is, it reads one draw of a random W, that of `seed`; `deeplimit.compare` gives every path its own, which
    the networks read too. A torchsde object as it is: f (P, d), g (P, d, d²), g_prod (P, d).

    Args:
        activation: σ, an `Activation`.
        inside: weight law of W, a function of time.
        width: d.
        seed: which draw of W is read where nothing else gives one.

    Raises TypeError or ValueError for an argument of another kind. NOT checked: that σ is Lipschitz.

    Examples:
        >>> import torch, deeplimit as dl
        >>> turn = dl.Trend(lambda t: torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        >>> limit = dl.res2(2, "tanh", weights=(dl.Brownian(), turn)).limit()
        >>> limit.equation
        'dH = (1/√d) dB σ(W_t H), σ = tanh, d = 2'
        >>> limit.g_prod(0.0, torch.ones(1, 2), torch.tensor([[1.0, 0.0, 0.0, 1.0]]))  # tanh(±1)/√2
        tensor([[ 0.5385, -0.5385]])
    """

    activation: Activation
    inside: FunctionLaw
    width: int
    seed: int = field(default=0, compare=False)  # which draw is read is no part of the equation

    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"
    is_drawable: ClassVar[bool] = True
    has_schemes: ClassVar[bool] = False
    """Its scheme on a depth's layers is the network itself."""

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        validation.instance(
            self.activation, "activation", Activation, "an Activation, such as activations.resolve('tanh')"
        )
        validation.instance(self.inside, "inside", FunctionLaw, "a function of time, such as Trend(W)")
        self.inside.check(self._shape)
        validation.seed(self.seed)

    @property
    def _shape(self) -> Shape:
        return (self.width, self.width)

    @property
    def equation(self) -> str:
        return f"dH = (1/√d) dB σ(W_t H), σ = {self.activation.name}, d = {self.width}"

    @property
    def functions(self) -> tuple[FunctionLaw, ...]:
        return (self.inside,)

    def sharing(self, laws: tuple[WeightLaw, ...], shapes: tuple[Shape, ...]) -> Sharing:
        theirs = functions_of(channels_of(laws, shapes))
        shares = places(self.functions, theirs) is not None
        return Sharing(super().sharing(laws, shapes).increments, functions=shares)

    def solver(self, drive: Drive) -> Solver:
        own = None if drive.sharing.increments else drive.stream(0)
        functions = drive.functions_for(self.functions, (self._shape,))
        return OnGrid(_Sampled(self, functions), drive, own)

    def noise_size(self, h: Tensor) -> int | None:
        return self.width**2

    def moved(self, time: float, h: Tensor, noise: Tensor, functions: tuple[SampledFunction, ...]) -> Tensor:
        """Return (1/√d) ΔB σ(W_t h) (P, d), for these sampled functions and increments (P, d²)."""
        (layer,) = layers_at(time, functions, self.functions, (self._shape,), h.device)
        matrix = noise.reshape(len(h), *self._shape)
        product = torch.bmm(matrix, self.activation(layer.apply(h)).unsqueeze(2)).squeeze(2)
        moved: Tensor = product / math.sqrt(self.width)
        return moved

    def _drawn(self, h: Tensor) -> tuple[SampledFunction, ...]:
        return draw_one(self.functions, (self._shape,), self.seed, h.dtype, h.device)

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift, which is zero, as (P, d)."""
        return torch.zeros_like(y)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        """Return the diffusion times `v` (P, d²) as (P, d), without building the diffusion."""
        return self.moved(float(t), y, v, self._drawn(y))

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion as (P, d, d²): entry (i, (a, b)) is σ(W_t y)_b/√d where a = i, else 0."""
        units = torch.eye(self.width**2, dtype=y.dtype, device=y.device)
        return torch.stack([self.g_prod(t, y, unit.expand(len(y), -1)) for unit in units], dim=-1)

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.g_prod(time, h, noise)

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        """Return draws of H_1 (P, d) by Euler-Maruyama; a random W is drawn for every path."""
        function = self.inside.sample(self._shape, len(h0), generator, h0.dtype, h0.device)
        h, deviation = h0, (self.width * steps) ** -0.5
        for step in range(steps):
            (layer,) = layers_at(step / steps, (function,), self.functions, (self._shape,), h.device)
            size = torch.linalg.vector_norm(self.activation(layer.apply(h)), dim=1, keepdim=True)
            h = h + size * torch.empty_like(h).normal_(0.0, deviation, generator=generator)
        return h


@dataclass(frozen=True)
class _Sampled:
    """The equation on one block's functions of time, read at the ends of steps as the network does.

    W is independent of B, so that the scheme is Itô's still.
    """

    limit: MixedSDE
    functions: tuple[SampledFunction, ...]

    def noise_size(self, h: Tensor) -> int | None:
        return self.limit.noise_size(h)

    def advanced(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        # Functions need not exist beyond 1, which a sum may exceed by round-off.
        return h + self.limit.moved(min(time + step, 1.0), h, noise, self.functions)
