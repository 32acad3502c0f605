"""Neural SDE, neural ODE and the identity, readable by torchsde and torchdiffeq as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import (
    Brownian,
    Factors,
    FunctionLaw,
    Layer,
    SampledFunction,
    Shape,
    WeightLaw,
    factors_of,
    layers_in_law,
)
from deeplimit.driving.path import values_of
from deeplimit.equations.base import (
    CompiledStep,
    FunctionValue,
    Motion,
    ODELimit,
    SDELimit,
    Stepper,
    VectorField,
    check_one_law,
)
from deeplimit.equations.drive import Drive
from deeplimit.equations.solvers import Solver, Still
from deeplimit.layers import Form, PreNorm, Recursion, Res1


@final
@dataclass(frozen=True)
class NeuralSDE(SDELimit):
    """The neural SDE dH = (1/√d) dB σ(H) of Marion et al. (2025), Prop. 11, B a d × d Brownian motion, in
    Itô's sense.

    Of a pre-norm recursion it is dH = (1/√d) dB σ(N(H)); below, σ stands for σ∘N then.

    A torchsde object as it is: f (P, d), g (P, d, d²), g_prod (P, d). The d² Brownian motions are B's
    entries, row by row.

    Examples:
        >>> import torch, torchsde, deeplimit as dl
        >>> sde = dl.res1(width=3, activation="tanh").limit()
        >>> ys = torchsde.sdeint(sde, torch.ones(5, 3), torch.tensor([0.0, 1.0]), dt=0.1, method="euler")
        >>> ys.shape
        torch.Size([2, 5, 3])
    """

    recursion: Res1 | PreNorm
    weights: tuple[WeightLaw, ...]
    width: int

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        validation.instance(self.recursion, "recursion", (Res1, PreNorm), "Res1(σ) or PreNorm(σ)")
        check_one_law(self.weights, WeightLaw, "(IID(),)")

    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"
    is_drawable: ClassVar[bool] = True

    @property
    def equation(self) -> str:
        right = self.recursion.formula.field.replace("V_t", "dB")
        return f"dH = (1/√d) {right}, {self.recursion.activation_in_words}, d = {self.width}"

    @property
    def scale(self) -> float:
        """The factor of dB, 1/√d."""
        return self.weights[0].entry_scale((self.width, self.width))

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift, which is zero, as (P, d)."""
        return torch.zeros_like(y)

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion as (P, d, d²): entry (i, (a, b)) is σ(y)_b/√d where a = i, else 0."""
        row = self.recursion.operand(y) * self.scale  # (P, d)
        eye = torch.eye(self.width, dtype=y.dtype, device=y.device)
        return torch.einsum("ia,pb->piab", eye, row).reshape(y.shape[0], self.width, -1)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        """Return the diffusion times `v` (P, d²) as (P, d), without building the diffusion."""
        (law,) = self.weights
        matrix = v.reshape(y.shape[0], self.width, self.width)
        layer = Layer(matrix, 1, law.layer_exponent, self.scale)
        return self.recursion.residual(y, (layer,), exponent=0.0)

    def noise_size(self, h: Tensor) -> int | None:
        return self.width**2

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.g_prod(time, h, noise)

    @property
    def key_in_law(self) -> object:
        return NeuralSDE, self.recursion, self.width  # whatever the law of the network's entries

    def factors(self) -> Factors | None:
        return factors_of(self.weights[0], (self.width, self.width))

    def stepper(self, state: Tensor) -> Stepper:
        return NeuralSDEStepper(state, self)

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        """Return draws of H_1 (P, d) by Euler-Maruyama with Brownian noise, whatever the entries' law."""
        h, shape = h0, (self.width, self.width)
        for layer in layers_in_law(Brownian(), steps, shape, len(h0), generator, h0.dtype):
            h = h + self.recursion.residual(h, (layer,), 0.5)
        return h


class NeuralSDEStepper(Stepper):
    """The neural SDE by Euler-Maruyama, which is the recursion at depth 1 and exponent 0."""

    def __init__(self, state: Tensor, limit: NeuralSDE) -> None:
        factors = limit.factors()
        assert factors is not None
        super().__init__(state, factors, None)
        self.recursion = limit.recursion
        self.layer = Layer(None, 1, limit.weights[0].layer_exponent, limit.scale)

    def operand(self, length: float) -> Tensor:
        return self.recursion.operand(self.state)

    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> Tensor:
        return self.state + self.recursion.with_product(self.state, product, self.layer, 0.0)

    def compiled_step(self) -> CompiledStep | None:
        if self.recursion.form is not Form.LINEAR:
            return None
        none, sigma = torch.zeros(self.state.shape[1]), self.recursion.activation
        product = self.factor * self.layer.scale()
        return CompiledStep(Motion.LINEAR, sigma, product, none, 0.0, 0.0, none)


@final
@dataclass(frozen=True)
class NeuralODE(ODELimit):
    """The neural ODE dH = V_t g(H, W_t) dt of Marion et al. (2025), Prop. 12, for weights that are functions
    of time.

    A torchdiffeq function as it is. Called as f(t, h), it reads one draw of the random weights for the whole
    batch, the draw of `seed`. `deeplimit.compare` gives every path its own draw instead, which the networks
    read too.

    Examples:
        >>> import torch, torchdiffeq, deeplimit as dl
        >>> ode = dl.res1(width=3, activation="tanh", weights=dl.SmoothGaussian()).limit()
        >>> torchdiffeq.odeint(ode, torch.ones(5, 3), torch.tensor([0.0, 1.0])).shape
        torch.Size([2, 5, 3])
    """

    recursion: Recursion
    weights: tuple[FunctionLaw, ...]
    width: int
    seed: int = field(default=0, compare=False)  # which draw f(t, h) reads is no part of the equation

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        validation.instance(self.recursion, "recursion", Recursion, "a Recursion, such as Res1('tanh')")
        laws = self.weights if isinstance(self.weights, tuple) else ()
        count = len(self.recursion.weights)
        if len(laws) != count or not all(isinstance(law, FunctionLaw) for law in laws):
            raise TypeError(
                f"weights must be a tuple of {count} functions of time, such as SmoothGaussian(); got"
                f" {validation.named(self.weights)}."
            )
        validation.seed(self.seed)

    @property
    def equation(self) -> str:
        formula = self.recursion.formula
        right = formula.field or "F(t, H)"
        where = "" if formula.field else f", F the branch of {formula.text({})} without its power of L"
        sizes = f"{self.recursion.activation_in_words}, {self.recursion.width_in_words(self.width)}"
        return f"dH = {right} dt{where}, {sizes}"

    @property
    def functions(self) -> tuple[FunctionLaw, ...]:
        return self.weights

    def state_shape(self, width: int) -> Shape:
        return self.recursion.state_shape(width)

    def function_shapes(self, width: int) -> tuple[Shape, ...]:
        return self.recursion.weight_shapes(width)

    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        def vector_field(t: Any, h: Tensor) -> Tensor:
            layers = layers_at(t, functions, self.weights, self.function_shapes(self.width), h.device)
            return self.recursion.vector_field(h, layers)

        return vector_field

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        """Return dH/dt (P, d) at time `t` and state `h` (P, d), for the draw of `seed`."""
        return self.bind(
            draw_one(self.weights, self.function_shapes(self.width), self.seed, h.dtype, h.device)
        )(t, h)


@lru_cache(maxsize=8)
def draw_one(
    weights: tuple[FunctionLaw, ...],
    shapes: tuple[Shape, ...],
    seed: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[SampledFunction, ...]:
    """Return the one draw of each function that a limit reads when it is called by itself."""
    return tuple(
        law.sample(shape, 1, generator(seed, Purpose.NETWORK_WEIGHTS, 0, index, device), dtype, device)
        for index, (law, shape) in enumerate(zip(weights, shapes, strict=True))
    )


def layers_at(
    t: Any,
    functions: tuple[SampledFunction, ...],
    weights: tuple[WeightLaw, ...],
    shapes: tuple[Shape, ...],
    device: torch.device,
) -> tuple[Layer, ...]:
    """Return the layers of a network of depth 1 whose weights are the functions' values at time `t`."""
    time = torch.as_tensor(t, device=device, dtype=torch.float64).reshape(1)
    layers = []
    for function, law, shape in zip(functions, weights, shapes, strict=True):
        values, biases = values_of(function, time, shape)
        bias = None if biases is None else biases[0]
        layers.append(Layer(values[0], 1, law.layer_exponent, law.entry_scale(shape), bias))
    return tuple(layers)


@final
@dataclass(frozen=True)
class Identity(ODELimit):
    """dH = 0: the limit where residual branches are scaled down too much (Marion et al. 2025, Cor. 5, Prop.
    13).
    """

    scheme: ClassVar[str] = "the initial state itself, exact"
    is_exact: ClassVar[bool] = True
    citations: ClassVar[tuple[str, ...]] = ()

    @property
    def equation(self) -> str:
        return "dH = 0 (the identity)"

    def reference_in_words(
        self, steps: int, tolerance: float, error: float, measured: float | None, corrected: bool
    ) -> str:
        return self.scheme

    def solver(self, drive: Drive) -> Solver:
        return Still(drive.state)

    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        return self.__call__

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        return torch.zeros_like(h)
