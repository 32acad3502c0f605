"""Trajectories that need of the matrix noise its product with one vector a step: networks, and limits that
share their noise.

States are (P, d), held in memory with paths innermost, which elementwise operations keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import NoneType

from torch import Tensor

from deeplimit import activations
from deeplimit.limits import ItoCorrectedSDE, NeuralSDE
from deeplimit.limits.linearised import Passed, TrendValue
from deeplimit.networks import ResidualNetwork
from deeplimit.recursions import Inner, Layer, OneProduct, Res1, matvec
from deeplimit.weights import Factors, IncrementProcess, Ito, TrendAndNoise
from deeplimit.weights.covariance import SeparateRate, VectorEntries


class Follower(ABC):
    """One trajectory: at the start of each step it says what the Brownian matrix is to multiply, at the
    end it moves.
    """

    def __init__(self, state: Tensor, factors: Factors, noise: Ito | None) -> None:
        self.state = state
        self.factors = factors.to(state.dtype, state.device)
        rate = None if noise is None else noise.rate(0.0, state.shape[1]).to(state.dtype, state.device)
        assert rate is None or isinstance(rate, SeparateRate)  # other noise has no factors
        self.rate = rate
        self.trend: TrendValue = None

    @abstractmethod
    def operand(self, length: float) -> Tensor:
        """Return the vector (P, d) that the matrix noise multiplies over a step of this length."""

    @abstractmethod
    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: TrendValue) -> Tensor:
        """Return the next state, given the matrix noise's product, the bias noise and the trend at the
        step's end.
        """

    def multiplied(self, trend: TrendValue, length: float) -> Tensor:
        """Begin a step, at whose start the trend is `trend`."""
        self.trend = trend
        return Factors.apply(self.factors.columns, self.operand(length))

    def move(self, product: Tensor, bias: Tensor | None, length: float, trend: TrendValue) -> None:
        """End a step, given the Brownian matrix's product and the Brownian motion of the biases, both (P,
        d).
        """
        if bias is not None and self.rate is not None and self.rate.vector is not None:
            bias = self.rate.vector.spread(bias)
        self.state = self.step(Factors.apply(self.factors.rows, product), bias, length, trend)


class NetworkFollower(Follower):
    """A network of one depth."""

    def __init__(self, state: Tensor, network: ResidualNetwork, depth: int) -> None:
        (law,) = network.weights
        factors = law.factors(network.width)
        assert factors is not None
        assert isinstance(network.recursion, OneProduct)
        super().__init__(state, factors, law.noise if isinstance(law, TrendAndNoise) else None)
        self.recursion = network.recursion
        self.exponent = network.exponent
        self.layer = Layer(None, depth, law.layer_exponent, law.entry_scale(network.width))
        self.shrink = float(depth) ** -law.exponent if isinstance(law, TrendAndNoise) else 0.0

    def operand(self, length: float) -> Tensor:
        return self.recursion.operand(self.state)

    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: TrendValue) -> Tensor:
        if self.trend is not None:  # read at the layer's start
            matrix, own = self.trend
            product = product + matvec(matrix, self.recursion.operand(self.state)) * self.shrink
            if own is not None:
                bias = own * self.shrink if bias is None else bias + own * self.shrink
        layer = self.layer
        if bias is not None:
            layer = Layer(None, layer.depth, layer.layer_exponent, layer.entry_scale, bias)
        return self.state + self.recursion.finish(product, layer, self.exponent)


class NeuralSDEFollower(Follower):
    """The neural SDE by Euler-Maruyama, which is the recursion at depth 1 and exponent 0."""

    def __init__(self, state: Tensor, limit: NeuralSDE) -> None:
        (process,) = limit.weights
        factors = process.factors(limit.width)
        assert factors is not None
        super().__init__(state, factors, None)
        self.recursion = limit.recursion
        self.layer = Layer(None, 1, process.layer_exponent, process.entry_scale(limit.width))

    def operand(self, length: float) -> Tensor:
        return self.recursion.operand(self.state)

    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: TrendValue) -> Tensor:
        return self.state + self.recursion.finish(product, self.layer, 0.0)


class ItoFollower(Follower):
    """The diffusive limit of Theorem 4.4."""

    def __init__(self, state: Tensor, limit: ItoCorrectedSDE) -> None:
        factors = limit.noise.factors(limit.width)
        assert factors is not None
        super().__init__(state, factors, limit.noise)
        self.limit = limit

    def operand(self, length: float) -> Tensor:
        return self.limit.multiplied(self.state, length, self.trend)

    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: TrendValue) -> Tensor:
        assert self.rate is not None
        curved = self.limit.curved(self.rate, length, self.state)
        return self.limit.advance(self.state, Passed(length, None, bias, curved, product), self.trend, trend)


def factors_of(limit: object) -> Factors | None:
    """Return the factors of a limit's noise; None where it needs more than products, or takes its steps in
    a way of its own.
    """
    if isinstance(limit, NeuralSDE) and _keeps(limit, NeuralSDE, "g_prod", "increment"):
        return limit.weights[0].factors(limit.width)
    if isinstance(limit, ItoCorrectedSDE) and _keeps(
        limit, ItoCorrectedSDE, "pass_over", "curved", "multiplied", "advance"
    ):
        return limit.noise.factors(limit.width)
    return None


def _keeps(limit: object, kind: type, *methods: str) -> bool:
    """Return whether a limit, perhaps of a user's subclass, has these methods as the library wrote them."""
    return all(getattr(type(limit), name) is getattr(kind, name) for name in methods)


def limit_follower(limit: object, state: Tensor) -> Follower:
    """Return the follower of a limit that has factors."""
    if isinstance(limit, NeuralSDE):
        return NeuralSDEFollower(state, limit)
    assert isinstance(limit, ItoCorrectedSDE)
    return ItoFollower(state, limit)


def obstacle(network: ResidualNetwork, limit: object, shares: bool) -> str | None:
    """Return why a network needs whole matrices, with a limit that shares its noise or does not; None
    where products suffice.
    """
    recursion = network.recursion
    if not isinstance(recursion, OneProduct) or type(recursion).residual is not OneProduct.residual:
        return f"{recursion.name} needs more of its weights than one product a layer"
    (law,) = network.weights
    if law.factors(network.width) is None:
        return (
            f"the weights ({law.describe()}) are not known to be Gaussian matrix noise, with constant row and"
            " column covariances"
        )
    if shares and factors_of(limit) is None:
        return "the limit may read whole increments, or noise of another kind"
    return None


def is_plain(network: ResidualNetwork, limit: object) -> bool:
    """Return whether compiled loops may know a network and the limit that shares its noise.

    That is: the library's own recursions, activations and limits, noise of one variance for all entries,
    and no function of time.
    """
    (law,) = network.weights
    rates = [law.noise] if isinstance(law, TrendAndNoise) else []
    sigmas = [network.recursion.activation]
    if isinstance(limit, ItoCorrectedSDE):
        rates.append(limit.noise)
        known = limit.trend is None and _keeps(limit, ItoCorrectedSDE, "quadratic")
    else:
        known = (
            isinstance(limit, NeuralSDE)
            and type(limit.recursion) is Res1
            and isinstance(limit.weights[0], IncrementProcess)
        )
        sigmas += [limit.recursion.activation] if isinstance(limit, NeuralSDE) else []
    vectors = [noise.rate(0.0, network.width) for noise in rates if noise is not None]
    return (
        known
        and type(network.recursion) in (Res1, Inner)
        and not law.functions
        and all(_is_number(factors) for factors in (law.factors(network.width), factors_of(limit)))
        and all(
            isinstance(rate, SeparateRate) and isinstance(rate.vector, (VectorEntries, NoneType))
            for rate in vectors
        )
        and all(
            sigma.name in activations.NAMES and sigma is activations.resolve(sigma.name) for sigma in sigmas
        )
    )


def _is_number(factors: Factors | None) -> bool:
    return factors is not None and factors.rows.numel() == factors.columns.numel() == 1
