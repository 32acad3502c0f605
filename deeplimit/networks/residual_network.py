"""Residual networks of unspecified depth, and the factories `res1`, `res2`, `res3`, `inner`.

A user's torch module is one, too: its blocks are called in order, with fresh weights per path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default, seeded
from deeplimit.driving import (
    AR1,
    Brownian,
    Channel,
    Dependence,
    Facts,
    FractionalBrownian,
    FreshBlocks,
    FunctionLaw,
    Ito,
    MovingAverage,
    Shape,
    TrendAndNoise,
    WeightLaw,
    channels_of,
    critical_exponent,
    together,
)
from deeplimit.driving.blocks import blocks_of, factory_of_blocks
from deeplimit.driving.normal_blocks import normal_blocks
from deeplimit.equations import Limit
from deeplimit.layers import (
    Inner,
    LinearBlocks,
    ModifiedRes1,
    ModuleBlocks,
    Recursion,
    Res1,
    Res2,
    Res3,
    activations,
)
from deeplimit.layers.activations import Activation
from deeplimit.theory import Regime, find, limit_of

ActivationLike = str | Callable[[Tensor], Tensor] | Activation
WeightsLike = WeightLaw | tuple[WeightLaw, ...]

FACTORIES = (__name__, "deeplimit.networks.architectures")
"""The modules whose functions make networks."""
FOR_MODULES = (
    " For torch modules, check_depth(factory) measures what factory(depth) builds at several depths, and"
    " probe(model, batch) one model. A function of the depth that returns the blocks in order is a network,"
    " too: identify(factory, x) names its limit, compare(factory, limit, x) takes an ODE f(t, h), or an SDE"
    " if weights are normal, compare_laws(factory, limit, x) any SDE, and stability(factory, x=x) measures"
    " growth."
)


@dataclass(frozen=True)
class ResidualNetwork:
    """A residual network of open depth L: h_{k+1} = h_k + L^-exponent · branch(h_k, layer k + 1).

    Made by `res1`, `res2`, `res3`, `inner`, `fully_connected`, `convolutional` and `attention`, or by hand
    for any other recursion, such as `PreNorm`.

    Attributes:
        recursion: What a layer adds to the state.
        width: Number of hidden units d (channels, for convolutions).
        weights: One weight law for each weight of a layer; a single law is meant for all of them, drawn
            independently. Brownian motion if left out.
        exponent: The residual exponent; if left out the natural one of the weight laws.

    Raises:
        TypeError: For an argument of the wrong kind, and a recursion without name, formula or weights.
        ValueError: For a recursion whose residual, tried once, has another shape than the states. Also for
            weight laws that cannot be drawn in the weights' shapes, and for a missing exponent where the
            laws have no natural one.
    """

    recursion: Recursion
    width: int
    weights: tuple[WeightLaw, ...] = None  # type: ignore[assignment]  # filled in below
    exponent: float = None  # type: ignore[assignment]  # filled in below

    @by_default
    def __post_init__(self) -> None:
        if not isinstance(self.recursion, Recursion):
            raise TypeError(
                f"recursion must be a Recursion, such as Res1('tanh'); got"
                f" {validation.named(self.recursion)}."
            )
        hint = "It is the number of hidden units d."
        width = validation.integer(self.width, "width", minimum=1, hint=hint)
        self.recursion.check(width)
        laws, name = _checked_laws(self.weights, self.recursion), self.recursion.name
        shapes = self.recursion.weight_shapes(width)
        for law, shape, weight in zip(laws, shapes, self.recursion.weights, strict=True):
            law.check(shape)
            # The b of Cohen et al. (2021) comes with their A; a recursion without biases may read A alone.
            biased = law.facts.biased and law.facts.dependence is not Dependence.SHRINKING
            if biased and not shape:
                raise ValueError(f"{weight.name} has no bias, so Trend's b would be ignored; leave b out.")
            if biased and not self.recursion.takes_bias:
                raise ValueError(f"{name} has no bias, so b would be ignored; use inner, or leave b out.")
        exponent = self.exponent
        if exponent is None:
            exponent = min(critical_exponent(law, shape) for law, shape in zip(laws, shapes, strict=True))
        checked = validation.real(
            exponent, "exponent", minimum=0.0, maximum=100.0, hint="the branch is multiplied by L**-exponent."
        )
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "weights", laws)
        object.__setattr__(self, "exponent", checked)

    @property
    def facts(self) -> Facts:
        """What theory may use of the weight laws: what holds of all of them together."""
        return together(tuple(law.facts.at(self.width) for law in self.weights))

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What the weights' paths are made of, in the order of the weights."""
        return channels_of(self.weights, self.weight_shapes)

    @property
    def citations(self) -> tuple[str, ...]:
        """Keys or BibTeX entries of the works that the weights' paths rest on."""
        return tuple(key for channel in self.channels for key in channel.citations)

    @property
    def is_random(self) -> bool:
        """Whether weights are drawn, so that two networks of one specification differ."""
        return not all(law.facts.deterministic for law in self.weights)

    @property
    def is_homogeneous(self) -> bool:
        """Whether scaling the state by a positive number scales what every layer adds to it."""
        biased = any(law.facts.dependence is Dependence.SHRINKING or law.facts.biased for law in self.weights)
        return self.recursion.is_homogeneous and not biased

    @by_default
    def regime(self) -> Regime:
        """Return what becomes of the network as L → ∞, with the theorem that says so.

        Examples:
            >>> import deeplimit as dl
            >>> dl.res1(width=4, activation="tanh", exponent=0.25).regime().name
            'explosion'
        """
        return find(self).regime

    @by_default
    def limit(self) -> Limit:
        """Return the limit equation, usable by torchsde or torchdiffeq as it is.

        Raises NoTheoremError (a ValueError) where no theorem pairs the network with a limit on the same
        noise. The message says why, and names the closest setting that has one.
        """
        return limit_of(self)

    @property
    def state_shape(self) -> Shape:
        """The shape of one state: (d,), or (channels, height, width) for convolutions."""
        return self.recursion.state_shape(self.width)

    @property
    def weight_shapes(self) -> tuple[Shape, ...]:
        """The shape of each weight."""
        return self.recursion.weight_shapes(self.width)

    @property
    def laws_and_shapes(self) -> tuple[tuple[WeightLaw, Shape], ...]:
        """Each weight's law beside its shape."""
        return tuple(zip(self.weights, self.weight_shapes, strict=True))

    def __str__(self) -> str:
        laws = dict.fromkeys(law.describe() for law in self.weights)
        return ", ".join((self.describe(), *laws))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # what IPython and notebooks show
        printer.text(str(self))

    def describe(self) -> str:
        """Return the recursion, its sizes and exponents in one line, without the weight laws."""
        inside, formula = self.weights[0].facts.weight_exponent, self.recursion.formula
        # The letters of Cohen et al. (2021), whose β is Marion et al.'s law's.
        letters = {} if inside is None else {"exponent": "α", "W": "A"}
        exponents = f"β = {self.exponent:g}" if inside is None else f"α = {self.exponent:g}, β = {inside:g}"
        parts = (
            formula.text(letters),
            self.recursion.activation_in_words,
            self.recursion.width_in_words(self.width),
            exponents if "{exponent}" in formula.network else "",
        )
        return f"{self.recursion.name}: {', '.join(part for part in parts if part)}"


OTHER_NAMES = (AR1(0.0), FractionalBrownian(0.5), MovingAverage((1.0,)))
"""Laws that are `Brownian()`, whose theorems and passes a network of them then has."""


def simplest(law: WeightLaw) -> WeightLaw:
    """Return the same law in its simplest form, which a network keeps."""
    return Brownian() if law in OTHER_NAMES else law


def _checked_laws(weights: object, recursion: Recursion) -> tuple[WeightLaw, ...]:
    """Return one law for each weight; one law alone is meant for all of them."""
    count = len(recursion.weights)
    given = Brownian() if weights is None else weights
    laws: tuple[Any, ...] = given if isinstance(given, tuple) else (given,) * count
    for law in laws:
        if isinstance(law, type):
            raise TypeError(
                f"weights must be a weight law such as Brownian(); got the class {law.__name__}. Use an"
                f" object, {law.__name__}()."
            )
        if not isinstance(law, WeightLaw):
            names = ", ".join(weight.name for weight in recursion.weights)
            tuples = f", or a tuple of one per weight ({names})" if count > 1 else ""
            raise TypeError(
                "weights must be a weight law such as Brownian(), IID('uniform'), SmoothGaussian() or"
                f" Trend(A){tuples}; got {validation.named(law)}."
            )
    if len(laws) != count:
        raise ValueError(
            f"weights must be one weight law, or a tuple with one per weight for the {count} weights of"
            f" {recursion.name} ({', '.join(weight.name for weight in recursion.weights)}); got {len(laws)}."
        )
    return tuple(simplest(law) for law in laws)


def _make(
    kind: type[Recursion],
    width: int,
    activation: ActivationLike,
    weights: WeightsLike | None,
    exponent: float | None,
) -> ResidualNetwork:
    recursion = kind(activations.resolve(activation))
    return ResidualNetwork(recursion, width, weights, exponent)  # type: ignore[arg-type]  # None is filled in


@by_default
def res1(
    width: int,
    activation: ActivationLike = "relu",
    *,
    weights: WeightLaw | None = None,
    exponent: float | None = None,
) -> ResidualNetwork:
    """Make the simple residual network h_{k+1} = h_k + L^-exponent V_{k+1} σ(h_k), res-1.

    It stands in Table 1 of Marion et al. (2025).

    Args:
        width: d, at least 1.
        activation: A name (`deeplimit.activations.NAMES`) or a callable on tensors (P, d), applied entry
            by entry.
        weights: Weight law of V, (d, d) per layer; `Brownian()` if left out.
        exponent: The residual exponent; if left out the critical one, 1/2 for independent layers and 1 for
            functions.

    Raises:
        TypeError: For a wrong kind of argument.
        ValueError: For a wrong value, weights of another shape, or an activation that grows faster than
            linearly.

    Examples:
        >>> import deeplimit as dl
        >>> print(dl.res1(width=40, activation="tanh"))
        res1: h + L^-β V σ(h), σ = tanh, d = 40, β = 0.5, i.i.d. Gaussian weights
    """
    return _make(Res1, width, activation, weights, exponent)


@by_default
def modified_res1(
    width: int, activation: ActivationLike = "tanh", *, weights: FractionalBrownian
) -> ResidualNetwork:
    """Make res-1 with the mean of its second-order term: h + L^-H V σ(h) + ½ L^-2H σ'(h) σ(h)/d.

    H is the Hurst index of the weights and the exponent, above 1/2.

    It is the modified Euler scheme of Hu, Liu and Nualart (2016), for the same Young equation as `res1`
    with the exponent H. Its order is min(2H - 1/2, 1) instead of 2H - 1.

    Args:
        width: d, at least 1.
        activation: A name (`deeplimit.activations.NAMES`) or a callable on tensors (P, d), applied entry by
            entry; σ' is taken by automatic differentiation.
        weights: `FractionalBrownian(hurst)` with hurst above 1/2.

    Raises:
        TypeError: For a wrong kind of argument.
        ValueError: For a wrong value, such as a Hurst index of at most 1/2.

    Examples:
        >>> import deeplimit as dl
        >>> rough = dl.FractionalBrownian(0.7)
        >>> naive, modified = dl.res1(4, "tanh", weights=rough), dl.modified_res1(4, "tanh", weights=rough)
        >>> naive.limit() == modified.limit(), naive.regime().rate, modified.regime().rate
        (True, 0.4, 0.9)
    """
    if not isinstance(weights, FractionalBrownian):
        raise TypeError(
            "weights must be FractionalBrownian(hurst), the law that the modified scheme is known for; got "
            f"{validation.named(weights)}."
        )
    if weights.hurst <= 0.5:
        raise ValueError(
            f"weights must have a Hurst index above 1/2, got {weights.hurst:g}: at 1/2 the added mean would"
            " lead to the Stratonovich equation instead of Itô's, and below it nothing is known. res1 takes"
            " any Hurst index."
        )
    return _make(ModifiedRes1, width, activation, weights, None)


@by_default
def res2(
    width: int,
    activation: ActivationLike = "relu",
    *,
    weights: WeightsLike | None = None,
    exponent: float | None = None,
) -> ResidualNetwork:
    """Make the parametric network h_{k+1} = h_k + L^-exponent V_{k+1} σ(W_{k+1} h_k), res-2.

    It stands in Table 1 of Marion et al. (2025).

    Arguments and errors as for `res1`; `weights` is one law for both matrices (drawn independently), or a
    pair (V's, W's). NOT checked: Marion et al.'s bounds a|x| ≤ |σ(x)| ≤ b|x|. ReLU, the default here, does
    not satisfy them; with ReLU the network is res-3.

    Examples:
        >>> import deeplimit as dl
        >>> both = dl.SmoothGaussian(0.1), dl.SmoothGaussian(0.5)
        >>> dl.res2(width=4, activation="tanh", weights=both).exponent
        1.0
    """
    return _make(Res2, width, activation, weights, exponent)


@by_default
def res3(width: int, *, weights: WeightsLike | None = None, exponent: float | None = None) -> ResidualNetwork:
    """Make the original network h_{k+1} = h_k + L^-exponent V_{k+1} ReLU(W_{k+1} h_k), res-3.

    It stands in Table 1 of Marion et al. (2025).

    Arguments and errors as for `res2` (width, weights, exponent); the activation is ReLU.

    Examples:
        >>> import deeplimit as dl
        >>> dl.res3(width=4, weights=dl.SmoothGaussian()).limit().equation
        'dH = V_t ReLU(W_t H) dt, σ = relu, d = 4'
    """
    return _make(Res3, width, "relu", weights, exponent)


@by_default
def inner(
    width: int,
    activation: ActivationLike = "tanh",
    *,
    trend: FunctionLaw | None = None,
    noise: Ito | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    weights: WeightLaw | None = None,
    exponent: float | None = None,
) -> ResidualNetwork:
    """Make the fully connected network h_{k+1} = h_k + L^-α σ(A_k h_k + b_k).

    It is (10) of Cohen et al. (2021), and stands in Remark 2 of Marion et al. (2025).

    With `trend` or `noise`, the weights are those of Hypothesis 1 (no noise) or 2 of Cohen et al. (2021): A_k
    = L^-β Ā(k/L) + W^A_{(k+1)/L} - W^A_{k/L}, and b_k likewise, k = 0 … L - 1. With `weights` instead, A_k is
    layer k + 1 of that weight law, and L^-exponent multiplies outside σ (Marion et al. 2025; arguments as for
    `res1`).

    Args:
        width: d, at least 1.
        activation: A name (`deeplimit.activations.NAMES`) or a callable on tensors (P, d), applied entry by
            entry. Theorems 4.3 and 4.4 need Assumption 4.2: σ(0) = 0, σ'(0) ≠ 0, smooth; `limit()` refuses
            others by name.
        trend: Ā and b̄ as functions of time: `Trend(A, b)`, or a random function such as
            `SmoothGaussian()`.
        noise: The Itô processes W^A and W^b: `Ito(A=..., b=...)`.
        alpha: α ≥ 0, the branch is multiplied by L^-α; 0 if left out.
        beta: β ≥ 0, the trend is multiplied by L^-β; 1 if left out, which with α = 0 is the diffusive
            case.
        weights: The other kind of weights; not together with those above.
        exponent: The residual exponent, for `weights` only.

    Raises:
        TypeError: For a wrong kind of argument.
        ValueError: For a wrong value, weights of another shape, or both kinds of weights at once.

    Examples:
        >>> import torch, deeplimit as dl
        >>> turn = dl.Trend(lambda t: torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        >>> dl.inner(2, "tanh", trend=turn, alpha=0.5, beta=0.5).limit().equation
        'dH = (Ā_t H + b̄_t) dt, d = 2'
        >>> print(dl.inner(2, "scaled_silu", noise=dl.Ito(A=0.1, b=0.2)).limit().equation)
        dH = dW^A H + dW^b + 0.5 Q(t, H) dt, d = 2
        >>> dl.inner(width=4, activation="sin", weights=dl.SmoothGaussian()).regime().rate
        1.0
    """
    if trend is None and noise is None:
        for name, value in (("alpha", alpha), ("beta", beta)):
            if value is not None:
                raise ValueError(
                    f"got {name}={value!r} without trend= or noise=, whose exponent it is. With weights=,"
                    " give exponent= instead."
                )
        return _make(Inner, width, activation, weights, exponent)
    for name, given in (("weights", weights), ("exponent", exponent)):
        if given is not None:
            raise ValueError(
                f"got {name}= together with trend= or noise=, another way to give weights. Leave"
                f" {name}= out; alpha= and beta= are the exponents."
            )
    if trend is not None and not isinstance(trend, FunctionLaw):
        raise TypeError(
            f"trend must be a function of time, such as Trend(A, b); got {validation.named(trend)}."
        )
    if noise is not None and not isinstance(noise, Ito):
        raise TypeError(
            f"noise must be Itô processes, such as Ito(A=0.05, b=0.25); got {validation.named(noise)}."
        )
    hint = "Cohen et al. (2021) ask for exponents of at least 0."
    outside = validation.real(0.0 if alpha is None else alpha, "alpha", minimum=0.0, maximum=100.0, hint=hint)
    inside = validation.real(1.0 if beta is None else beta, "beta", minimum=0.0, maximum=100.0, hint=hint)
    recursion = Inner(activations.resolve(activation, lipschitz=False))
    return ResidualNetwork(recursion, width, (TrendAndNoise(trend, noise, inside),), outside)


def checked_network(value: object, name: str = "resnet") -> ResidualNetwork:
    """Return `value` if it is a residual network; else raise TypeError that says what takes it."""
    if isinstance(value, ResidualNetwork):
        return value
    kind = value if isinstance(value, type) else type(value)
    passed = f"the class {kind.__name__}" if kind is value else validation.named(value)
    hint = ""
    if issubclass(kind, nn.Module):
        hint = FOR_MODULES
    elif callable(value) and getattr(value, "__module__", "") in FACTORIES:
        called = getattr(value, "__name__", "")
        passed = f"the function {called}, not what it returns"
        hint = f" Call it first: {called}({'width=40' if value.__module__ == __name__ else '...'})."
    elif callable(value):
        hint = (
            " A function of the depth that returns a stack of torch blocks needs x=, their input:"
            " identify(factory, x) says which limit it has, compare(factory, limit, x) takes an ODE f(t, h),"
            " or an SDE if weights are normal, and stability(factory, x=x) measures growth."
            " check_depth(factory) takes any module."
        )
    raise TypeError(f"{name} must be a ResidualNetwork, such as res1(width=40); got {passed}.{hint}")


TRIED = 2
"""Depth at which a factory is tried."""
A_MODULE_WEIGHS = 1000
"""What a module costs in memory beside its parameters, in numbers."""


@by_default
def module_network(
    factory: Callable[[int], nn.Module | list[nn.Module]], width: int | tuple[int, ...]
) -> ResidualNetwork:
    """Make a network of the blocks that `factory(depth)` builds: h_{k+1} = block_{k+1}(h_k).

    Every path has a separate stack at every depth, built with generators seeded for it. The global
    generators are restored afterwards. No theorem is about such a network. `stability(factory, x=x)` and
    `compare(factory, limit, x=x)` make it themselves, with the shape of x.

    Args:
        factory: Function of the depth that returns as many blocks, as an `nn.Sequential`, `nn.ModuleList` or
            list; or a model, or its class, whose forward calls one such list in order, or writes its layers
            out, h = h + f(h), which is tried. Each is called on one state at a time, (1, *shape), in
            evaluation mode.
        width: Shape of a state: an integer d for vectors, or a tuple such as (channels, height, width).

    Raises:
        TypeError: For a factory that cannot be called, or does not return modules.
        ValueError: For another number of blocks than the depth, or a block that changes a state's shape.

    NOT checked: that blocks draw their weights when they are built, and that they treat states one by one.

    Examples:
        >>> import torch, deeplimit as dl
        >>> class Block(torch.nn.Module):
        ...     def __init__(self, depth):
        ...         super().__init__()
        ...         self.linear, self.depth = torch.nn.Linear(4, 4), depth
        ...     def forward(self, h):
        ...         return h + torch.tanh(self.linear(h)) / self.depth
        >>> def blocks(depth):
        ...     return torch.nn.Sequential(*(Block(depth) for _ in range(depth)))
        >>> network = dl.module_network(blocks, width=4)
        >>> print(network)
        module: block(h), states of 4, fresh blocks of blocks(depth)
        >>> dl.stability(network, depths=[10, 20, 40], draws=20).hidden_ratio.shape
        (3, 20)
    """
    if isinstance(factory, nn.Module) or not callable(factory):
        raise TypeError(
            "factory must be a function of the depth that returns a stack of blocks; got"
            f" {validation.named(factory)}."
        )
    shape = _shape(width)
    with seeded(0):
        with validation.noted(f"deeplimit called the factory with depth {TRIED} to try it."):
            factory = factory_of_blocks(factory, TRIED, shape)
            blocks, again = blocks_of(factory, TRIED, shape), blocks_of(factory, TRIED, shape)
        keeps = any(block is other for block in blocks for other in again)
    law = FreshBlocks(factory, keeps, shape, keeps or _same_numbers(blocks, again))
    tried = law.stack(TRIED, 0, torch.device("cpu"), torch.float32)
    _try(tried[0], shape)
    numbers = sum(tensor.numel() for tensor in (*tried[0].parameters(), *tried[0].buffers()))
    recursion = ModuleBlocks(shape=shape, numbers=numbers + A_MODULE_WEIGHS)
    return ResidualNetwork(recursion, shape[0], (law,), 0.0)


def _same_numbers(first: Sequence[nn.Module], second: Sequence[nn.Module]) -> bool:
    """Whether two stacks hold the same numbers, bit by bit: then a factory draws none."""
    return all(
        one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
        for one, other in ((a.state_dict(), b.state_dict()) for a, b in zip(first, second, strict=True))
    )


def network_of(value: object, x: Tensor | None, name: str = "resnet") -> ResidualNetwork:
    """Return a network as it is, and one of the blocks that a factory builds for states shaped as x."""
    is_module = isinstance(value, type) and issubclass(value, nn.Module)
    factory = is_module or (callable(value) and not isinstance(value, (type, nn.Module, ResidualNetwork)))
    # A method of a dict has no module.
    if not factory or x is None or str(getattr(value, "__module__", "")).startswith("deeplimit."):
        return checked_network(value, name)
    if not isinstance(x, Tensor) or x.ndim < 2:
        raise ValueError(f"x must have shape (inputs, *shape of a state); got {validation.named(x)}.")
    return module_network(value, tuple(x.shape[1:]))  # type: ignore[arg-type]  # it was found to be callable


def on_shared_noise(network: ResidualNetwork) -> ResidualNetwork:
    """Return a network of torch blocks on Brownian motions that an equation may read, where there are any.

    Normal weights in which blocks are linear are increments of such; any other network is returned as it is.
    """
    law, blocks = network.weights[0], network.recursion
    if not isinstance(law, FreshBlocks) or not isinstance(blocks, ModuleBlocks):
        return network
    found = normal_blocks(law)
    linear = LinearBlocks(shape=blocks.shape, numbers=blocks.numbers)
    return network if found is None else dataclasses.replace(network, recursion=linear, weights=(found,))


def _shape(width: Any) -> Shape:
    sizes = width if isinstance(width, tuple) else (width,)
    hint = "It is the shape of a state: d, or a tuple such as (channels, height, width)."
    return tuple(validation.integer(size, "width", minimum=1, hint=hint) for size in sizes)


def _try(block: nn.Module, shape: Shape) -> None:
    """Call a block once; raise in words unless it returns a state of the same shape."""
    with torch.no_grad(), seeded(0):
        try:
            after = block(torch.ones(1, *shape))
        except (RuntimeError, ValueError, IndexError) as error:
            raise ValueError(
                f"width must be the shape of the states that blocks take; one on (1, {_told(shape)}) raised"
                f" {type(error).__name__}: {str(error)[:200]}."
            ) from error
    if not isinstance(after, Tensor):
        raise TypeError(f"factory's blocks must return a tensor; one returned {type(after).__name__}.")
    if tuple(after.shape) != (1, *shape):
        raise ValueError(
            f"factory's blocks must keep the shape of states, (1, {_told(shape)}); one returned"
            f" {tuple(after.shape)}."
        )


def _told(shape: Shape) -> str:
    return ", ".join(map(str, shape))
