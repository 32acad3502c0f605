"""What one run consists of: a task that can be sent to another machine, what is kept of a path, and how a
network steps where only products of its noise are drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import Dependence, Layer, Path, factors_of, functions_of, matvec, noise_of
from deeplimit.driving.path import Grid
from deeplimit.equations import CompiledStep, FunctionValue, Limit, Motion, Sharing, Stepper
from deeplimit.layers import Form, activations
from deeplimit.networks.residual_network import ResidualNetwork


def euclidean(limit: Tensor, state: Tensor) -> Tensor:
    """Return the Euclidean distance (P,) between states (P, *state_shape), in float64."""
    difference = (limit - state).flatten(1)
    if difference.stride(0) == 1:
        # Paths are innermost: torch's norm over the other dimension is many times slower.
        return difference.double().square().sum(dim=1).sqrt()
    norm: Tensor = torch.linalg.vector_norm(difference, dim=1, dtype=torch.float64)
    return norm


@dataclass(frozen=True)
class Statistic(FinalWhereMarked, ABC):
    """How the distances along one path become one number per depth; `compare(norm=...)` takes one.

    The error at depth L is then (E s^p)^{1/p} over paths, s this number. A user's statistic is a
    frozen dataclass with `name` and `fold`, and with `distance` if it is not the Euclidean one. It is a
    number made of distances: 0 where network and limit agree, twice as large where they are twice as far
    apart, and no larger over more layers. `compare` tries that on two random states and on distances that
    stay; what it does elsewhere is NOT checked. A functional of the state, such as its largest entry, is no
    statistic: give the difference of the network's and the limit's.

    Raises:
        TypeError, ValueError: By `compare`, for a statistic that fails these trials.

    Examples:
        >>> from dataclasses import dataclass
        >>> import deeplimit as dl
        >>> @dataclass(frozen=True)
        ... class MeanOverTime(dl.Statistic):
        ...     name = "mean over the layers"
        ...     def fold(self, kept, distance, count):
        ...         return kept + (distance - kept) / count
        >>> report = dl.compare(dl.res1(4, "tanh"), depths=[8, 16, 32, 64], norm=MeanOverTime(), paths=200)
        >>> report.norm, report.verdict
        ('mean over the layers', 'converges')
    """

    name: ClassVar[str]
    """What it is called in reports, in a few words."""
    looks_between_layers: ClassVar[bool] = False
    """Whether it also sees the distance to the limit between two layers, at every point of the grid."""

    @abstractmethod
    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        """Return what is kept (P,) after the `count`-th layer, whose end has this `distance` (P,).

        Before the first layer 0 is kept.
        """

    @property
    def reads_the_end_alone(self) -> bool:
        """Whether a distance makes all before it forgotten, so that the last one is the whole."""
        before = torch.ones(1, dtype=torch.float64)
        return bool(self.fold(before, torch.zeros_like(before), 2) == 0)

    def distance(self, limit: Tensor, state: Tensor) -> Tensor:
        """Return the distance (P,) of network and limit states (P, *state_shape), in float64."""
        return euclidean(limit, state)


@final
@dataclass(frozen=True)
class Largest(Statistic):
    """The largest distance over the layer grid."""

    name: ClassVar[str] = "sup"

    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        return torch.maximum(kept, distance)


@final
@dataclass(frozen=True)
class LargestAtAllTimes(Statistic):
    """The largest distance over all times, sup_t |H_t - h_floor(tL)|, as Cohen et al. (2021) state their
    errors.
    """

    name: ClassVar[str] = "sup-continuous"
    looks_between_layers: ClassVar[bool] = True

    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        return torch.maximum(kept, distance)


@final
@dataclass(frozen=True)
class Last(Statistic):
    """The distance at the last layer."""

    name: ClassVar[str] = "final"

    def fold(self, kept: Tensor, distance: Tensor, count: int) -> Tensor:
        return distance


COMPILED: tuple[Statistic, ...] = (Largest(), Last())
"""The ones that the compiled passes know; a user's class is none of these, whatever it says of itself."""
STATISTICS: dict[str, Statistic] = {each.name: each for each in (Largest(), LargestAtAllTimes(), Last())}


TRIED_LAYERS = 32
"""Layers over which a statistic is tried, and twice as many: a mean, a largest value or a discounted sum with
a memory of up to ten layers is the same over both, a sum twice as large."""
NEAR = 0.1
"""What tried statistics may be off: a trapezoid's ends weigh 1/32."""


def try_statistic(statistic: Statistic, like: Tensor) -> None:
    """Raise TypeError or ValueError for a statistic whose numbers would not fall as errors do.

    Distances are tried between two random states (2, *state_shape) of the dtype and on the device of `like`,
    and the way along a path with distances that stay: a statistic is then no larger over more layers, and
    twice as large for distances that are.
    """
    owner = f"norm {type(statistic).__name__}"
    if not isinstance(getattr(statistic, "name", None), str):
        raise TypeError(f"{owner} has no name; give the class one, such as name = 'mean'.")
    if type(statistic).distance is not Statistic.distance:
        _try_distance(statistic, owner, like)
    if statistic not in COMPILED:
        _try_fold(statistic, owner, like.device)


def _try_distance(statistic: Statistic, owner: str, like: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn((2, 2, *like.shape[1:]), generator=generator, dtype=torch.float64)
    one, other = states.to(like.device, like.dtype)
    found = statistic.distance(one, one)
    if not isinstance(found, Tensor) or found.shape != (2,):
        got = tuple(found.shape) if isinstance(found, Tensor) else validation.named(found)
        raise ValueError(
            f"{owner}: distance(limit, state) must return one number for each path, shape (2,); it returned"
            f" {got}."
        )
    if not bool((found == 0).all()):
        raise ValueError(
            f"{owner}: distance(limit, state) must be 0 where limit and state agree; it returned"
            f" {found.tolist()} there. A number made of the state alone is no distance: return the difference"
            " of the limit's and the network's."
        )
    apart = statistic.distance(one, other)
    if not bool((apart >= 0).all()) or not bool(apart.any()):
        raise ValueError(
            f"{owner}: distance(limit, state) must be 0 or more, and not 0 for all states; between states"
            f" that differ it returned {apart.tolist()}. Return its absolute value."
        )


def _try_fold(statistic: Statistic, owner: str, device: torch.device) -> None:
    once = _folded(statistic, 1.0, TRIED_LAYERS, device)
    longer = _folded(statistic, 1.0, 2 * TRIED_LAYERS, device)
    larger = _folded(statistic, 2.0, TRIED_LAYERS, device)
    if not (once > 0 and abs(longer / once - 1.0) < NEAR):
        raise ValueError(
            f"{owner}: fold must give the same over {TRIED_LAYERS} and {2 * TRIED_LAYERS} layers whose"
            f" distance is 1, and more than 0; it gave {once:g} and {longer:g}. A sum over layers grows with"
            " the depth whatever the limit: return kept + (distance - kept) / count for a mean."
        )
    if not abs(larger / once - 2.0) < NEAR:
        raise ValueError(
            f"{owner}: fold must be of first order in the distances; twice as large ones gave"
            f" {larger / once:g} times as much. Its order would be another than the network's: average the"
            " distances themselves, or take p= for a power mean over paths."
        )


def _folded(statistic: Statistic, distance: float, layers: int, device: torch.device) -> float:
    """Return what is kept after this number of layers, if every layer has the same distance."""
    kept, each = torch.zeros((2, 1), dtype=torch.float64, device=device)
    each = each + distance
    for count in range(1, layers + 1):
        kept = statistic.fold(kept, each, count)
    return float(kept)


def read_statistic(value: object) -> Statistic:
    """Return a statistic, given by its name or as an object; raise TypeError or ValueError for others."""
    if isinstance(value, Statistic):
        return value
    if isinstance(value, type) and issubclass(value, Statistic):
        raise TypeError(f"norm must be an object; {value.__name__} is a class, use {value.__name__}().")
    return STATISTICS[validation.choice(value, "norm", tuple(STATISTICS))]


STATE, GRADIENT = QUANTITIES = ("state", "gradient")


@dataclass(frozen=True)
class Task:
    """A network at several depths and a limit, on the same noise: all that a block of paths needs to know.

    `h0` (n, *state_shape) holds the initial states that path p takes in turn (row p mod n), or None for
    standard normal ones. With `same_network`, every path takes all of them. With `splits`, the limit's own
    scheme runs on the layers of every depth too, and stands between the network and the limit. `quantity` is
    "state", or "gradient" for the gradients by the layers' states; their graphs are kept one at a time, of
    `segments` or fewer equal parts of the path. With `keeps_differences`, consecutive differences and
    distances of every path are kept: floors are held against them, and the order is measured from them where
    no theorem says it.
    """

    network: ResidualNetwork
    limit: Limit
    independent: bool
    grid: Grid
    statistic: Statistic
    p: float
    paths: int
    seed: int
    h0: Tensor | None
    device: torch.device
    dtype: torch.dtype
    tolerance: float
    block_size: int
    coupling: str
    same_network: bool = False
    input_size: int | None = None
    narrowed: bool = False
    splits: bool = False
    quantity: str = STATE
    segments: int = 1
    keeps_differences: bool = False

    @property
    def blocks(self) -> int:
        return -(-self.paths // self.block_size)

    @cached_property
    def sharing(self) -> Sharing:
        """What the limit reads of the network's path."""
        return sharing(self.network, self.limit, self.independent)

    @property
    def is_ode(self) -> bool:
        """Whether the limit is an ODE, solved to a tolerance."""
        return self.limit.setting == "tolerance"

    @property
    def measures_reference(self) -> bool:
        """Whether the reference is solved twice, since no theory says how its error enters."""
        return self.sharing.path

    @property
    def keeps_products(self) -> bool:
        """Whether products of two depths' differences are kept: those to an ODE keep their direction.

        Not so where independent layers enter otherwise than linearly: what σ makes of the sum of two draws is
        another thing than the sum of what it makes of each. Nor for a statistic with a distance of its own,
        of which they say nothing.
        """
        bends = not self.network.recursion.is_euler and any(
            law.facts.at(self.network.width).dependence is Dependence.INDEPENDENT
            for law in self.network.weights
        )
        euclidean = type(self.statistic).distance is Statistic.distance
        return self.is_ode and self.coupling == "pathwise" and not bends and euclidean

    def held(self, block: int) -> int:
        """Return the number of paths in a block; the last one may hold fewer than the others."""
        return min(self.block_size, self.paths - block * self.block_size)

    def starts(self, block: int) -> list[Tensor]:
        """Return h_0 of one block, (P, *state_shape), once for each input through a path's network."""
        if self.h0 is None or not self.same_network:
            return [self.initial_states(block)]
        count = self.held(block)
        repeats = [count, *[1] * (self.h0.ndim - 1)]
        return [row[None].to(self.device, self.dtype).repeat(repeats) for row in self.h0]

    def initial_states(self, block: int) -> Tensor:
        """Return h_0 of one block, (P, *state_shape), where every path has its input."""
        first, count = block * self.block_size, self.held(block)
        if self.h0 is not None:
            return self.h0[torch.arange(first, first + count) % len(self.h0)].to(self.device, self.dtype)
        states = torch.empty(count, *self.network.state_shape, dtype=self.dtype, device=self.device)
        return states.normal_(generator=generator(self.seed, Purpose.INPUTS, block, device=self.device))

    def network_paths(self, block: int, paths: int) -> tuple[Path, ...]:
        """Return one path for each weight of the network, each on a separate stream."""
        return tuple(
            law.path(
                shape,
                self.grid,
                paths,
                generator(self.seed, Purpose.NETWORK_WEIGHTS, block, index, self.device),
                self.dtype,
            )
            for index, (law, shape) in enumerate(self.network.laws_and_shapes)
        )

    def limit_stream(self, block: int, index: int) -> torch.Generator:
        """Return the limit's random stream of this number."""
        return generator(self.seed, Purpose.LIMIT_NOISE, block, index, self.device)


def sharing(network: ResidualNetwork, limit: Limit, independent: bool) -> Sharing:
    """Return what a limit reads of a network's path: nothing where it is to be independent."""
    return Sharing() if independent else limit.sharing(network.weights, network.weight_shapes)


def splits(network: ResidualNetwork, limit: Limit, shared: Sharing) -> bool:
    """Return whether the limit's scheme on a depth's layers is another recursion than the network.

    It is the network itself where layers are the increments of that scheme, and the limit is theirs.
    """
    if limit.is_exact or not limit.has_schemes or not (shared.increments or shared.path):
        return False
    own = is_scheme(network) or limit.is_scheme(network.recursion)
    return not (own and is_own(network, limit))


def is_scheme(network: ResidualNetwork) -> bool:
    """Return whether a network is the Euler scheme of its limit, since its layers are increments."""
    return network.recursion.is_euler and network.facts.dependence == Dependence.INDEPENDENT


def is_own(network: ResidualNetwork, limit: Limit) -> bool:
    """Return whether a limit is the one that the network's theorem names."""
    try:
        return bool(limit == network.limit())
    except ValueError:
        return False


class NetworkStepper(Stepper):
    """A network of one depth."""

    reads_limit_trend = False

    def __init__(self, state: Tensor, network: ResidualNetwork, depth: int) -> None:
        (law,) = network.weights
        (shape,) = network.weight_shapes
        factors = factors_of(law, shape)
        assert factors is not None
        super().__init__(state, factors, noise_of(network.channels))
        self.recursion = network.recursion
        self.exponent = network.exponent
        scale = law.entry_scale(shape)
        self.layer = Layer(None, depth, law.layer_exponent, scale)
        self.shrink = float(depth) ** -(law.facts.weight_exponent or 0.0)

    def operand(self, length: float) -> Tensor:
        return self.recursion.multiplied(self.state, self.layer, self.exponent)

    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> Tensor:
        if self.trend is not None:  # read at the layer's start
            matrix, push = self.trend
            product = product + matvec(matrix, self.operand(length)) * self.shrink
            if push is not None:
                bias = push * self.shrink if bias is None else bias + push * self.shrink
        layer = self.layer
        if bias is not None:
            layer = Layer(None, layer.depth, layer.layer_exponent, layer.entry_scale, bias)
        return self.state + self.recursion.with_product(self.state, product, layer, self.exponent)

    def compiled_step(self) -> CompiledStep | None:
        entries, sigma, scale = self.bias_entries(), self.recursion.activation, self.layer.scale
        known = self.recursion.one_product_at(self.state.shape[1])
        if entries is None or known is None or known.form is None:
            return None
        if known.form is Form.LINEAR:
            none = torch.zeros(self.state.shape[1])
            product = self.factor * scale(self.exponent)
            return CompiledStep(Motion.LINEAR, sigma, product, none, 0.0, 0.0, none)
        outer = float(self.layer.depth) ** -self.exponent
        deviations, variances = entries
        return CompiledStep(Motion.BRANCH, sigma, self.factor * scale(), deviations, outer, 0.0, variances)


def failed_precondition(network: ResidualNetwork, limit: Limit, shares: bool) -> str | None:
    """Return why a network needs whole matrices, with or without a shared limit; None where products do."""
    recursion = network.recursion
    if recursion.one_product_at(network.width) is None:
        return f"{recursion.name} needs more of its weights than one product a layer"
    (law,) = network.weights
    if factors_of(law, *network.weight_shapes) is None:
        return (
            f"the weights ({law.describe()}) are not known to be Gaussian matrix noise, with constant row and"
            " column covariances"
        )
    if shares and limit.factors() is None:
        return "the limit may read whole increments, or noise of another kind"
    return None


def compiled_steps(network: ResidualNetwork, limit: Limit) -> list[CompiledStep] | None:
    """Return a step of the network and one of the limit that shares its noise; None without compiled loops.

    Compiled loops know steps that say so, noise of one variance for all entries, no function of time, and
    named activations.
    """
    (law,) = network.weights
    factors = (factors_of(law, *network.weight_shapes), limit.factors())
    one_variance = all(
        part is not None and part.rows.numel() == part.columns.numel() == 1 for part in factors
    )
    if functions_of(network.channels) or not one_variance:
        return None
    state = torch.zeros(1, network.width)
    steppers = [NetworkStepper(state, network, 1), limit.stepper(state)]
    steps = [step for stepper in steppers if (step := stepper.compiled_step()) is not None]
    used = [step.activation for step in steps if step.activation is not None]
    named = all(each.name in activations.NAMES and each is activations.resolve(each.name) for each in used)
    return steps if len(steps) == 2 and named else None
