"""Trained networks against the limit that the deepest of them suggests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import torch
from torch import nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default, seeded
from deeplimit.driving import Recorded, Trend
from deeplimit.equations import LinearODE, ODELimit
from deeplimit.judge.convergence import CompareReport, compare
from deeplimit.layers import activations
from deeplimit.networks.architectures import fully_connected
from deeplimit.networks.residual_network import ActivationLike, ResidualNetwork
from deeplimit.trained.diagnosis.layer_functions import BetweenLayers, given_layers, neighbours
from deeplimit.trained.diagnosis.networks_of_sweep import Network, networks_of

REGIMES = ("linear-ode", "neural-ode")
LEAST_PATHS = 64
"""Of modules nothing is random but their inputs, which are taken in turn. The judge asks for several paths
per depth: 14 at five depths."""


@final
@dataclass(frozen=True, eq=False)
class FittedLimit:
    """Trained networks of several depths, and the ODE that the deepest one suggests.

    Attributes:
        network: the trained networks, as one network with weights recorded at these depths.
        limit: the ODE.
        depths: depths to compare at: all but the deepest, from which the limit was made.
        states: states (n, *shape) that the deepest module gives its first layer; None for stacks.
        null: the same of untrained modules; None where no factory was given.
    """

    network: ResidualNetwork
    limit: ODELimit
    depths: tuple[int, ...]
    states: torch.Tensor | None = None
    null: FittedLimit | None = None

    def __str__(self) -> str:
        """Return the equation, what it was made from, and what to do with it."""
        beside = ", beside untrained ones" if self.null is not None else ""
        return (
            f"{self.limit}\nfor networks of depths {', '.join(map(str, self.depths))}{beside};"
            " .compare() measures their distance to it"
        )

    __repr__ = __str__

    def compare(self, x: torch.Tensor | None = None, **arguments: Any) -> CompareReport:
        """Measure how fast the trained networks' hidden states approach the limit with depth.

        Args:
            x: Inputs (n, d), such as those of the training set; standard normal ones if left out. For
                modules, states (n, *shape) of the stream: by default `states`.
            arguments: Further ones of `deeplimit.compare`, such as `norm`, `paths` or `tolerance`.

        Returns:
            The report of `deeplimit.compare`. Given the inputs nothing is random, so that its intervals
            speak of truncation alone.

        Raises:
            TypeError, ValueError: As `deeplimit.compare` does.
        """
        given: dict[str, Any] = {"depths": self.depths, "tolerance": 1e-7}
        if self.states is not None:
            x = self.states if x is None else x
            given["paths"] = (
                max(LEAST_PATHS, len(x)) if isinstance(x, torch.Tensor) and x.ndim else LEAST_PATHS
            )
        return compare(self.network, self.limit, x, **{**given, **arguments})


@by_default
def fitted_limit(
    weights: Mapping[int, Any],
    activation: ActivationLike = "tanh",
    *,
    regime: str = "linear-ode",
    batch: Any = None,
    null: Callable[[int], nn.Module] | None = None,
) -> FittedLimit:
    """Return trained networks beside the ODE that the deepest one suggests.

    Stacks of weights are networks h + δ_k σ(A_k h + b_k). Of modules the layers are functions, whatever is in
    them: h + F_k(h), beside dH = L F_t(H) dt. Hidden units may be in any order then.

    Layer k of the deepest network, of L layers, stands for time (k + s)/L; between layers the ODE
    interpolates linearly. The offset s, from 0 to 1 in quarters, is the one at which the two deepest networks
    are most alike. So nothing is smoothed, and noise in the deepest layers stays in the limit.

    Args:
        weights: for each depth L a module with a list of L blocks; or a dict of stacks A (L, d, d), and where
            there are any b (L, d) and delta, () or (L,); or a file that holds them. One network per depth, at
            least three depths.
        activation: σ of stacks, a name or a callable on tensors. Modules bring theirs.
        regime: for stacks, "linear-ode" for dH = σ'(0) Lδ_t (A_t H + b_t) dt (Cohen et al. 2021, Theorem
            4.3), "neural-ode" for dH = Lδ_t σ(A_t H + b_t) dt (Cohen et al. 2021, (2)). `diagnose` says which
            one the weights point to.
        batch: for modules, inputs of their forward, as in `dl.find_branches`.
        null: for modules, function of the depth that builds an untrained one: the control.

    Returns:
        Networks and limit; its method `compare` measures how fast they approach each other. `null.compare`
        does the same of the untrained ones.

    Raises:
        TypeError: For anything but weights by depth, and modules beside stacks.
        ValueError: For layers that are not square, several networks at one depth, fewer than three depths,
            another regime, and (NoTheoremError) for "linear-ode" with an activation such as ReLU that has no
            slope at 0; for modules whose layers are not their blocks, or whose blocks mix inputs; and for a
            batch or `null` of stacks.

    Not checked: that the weights of different depths belong to one limit. That is what `compare` measures.

    Examples:
        >>> import torch, deeplimit as dl
        >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        >>> weights = {L: dict(A=turn.expand(L, 2, 2) * L**-0.5, delta=L**-0.5) for L in (8, 16, 32, 64, 128)}
        >>> report = dl.fitted_limit(weights, "tanh").compare(torch.eye(2, dtype=torch.float64))
        >>> report.verdict, round(report.rate, 1)
        ('converges', 1.0)
    """
    if not isinstance(weights, Mapping):
        raise TypeError(
            "weights must be a dict from depth to stacks, such as {16: dict(A=tensor (16, d, d))}; got"
            f" {validation.named(weights)}."
        )
    validation.choice(regime, "regime", REGIMES)
    modules = {depth: each for depth, each in weights.items() if isinstance(each, nn.Module)}
    if modules:
        if not (isinstance(activation, str) and activation == "tanh"):
            raise ValueError(
                f"activation is for stacks, and modules bring theirs; got {validation.named(activation)}."
                " Leave it out."
            )
        return _of_modules(weights, modules, batch, null)
    for depth, each in weights.items():
        if isinstance(each, (list, tuple)):
            raise TypeError(
                f"weights must hold one network per depth; got {validation.named(each)} at depth {depth}."
                " Give one module, or one dict of stacks, in its place."
            )
    if batch is not None or null is not None:
        raise ValueError(
            f"{'batch' if null is None else 'null'} is for modules, and weights holds stacks or files. Leave"
            " it out, or load the files into modules and give these by depth."
        )
    networks = networks_of(weights)
    depths = [network.depth for network in networks]
    _check_depths(depths)
    width = _width(networks[0])
    recorded = fully_connected(
        width,
        activation,
        weights=Recorded({network.depth: _matrices(network) for network in networks}),
        delta=Recorded({network.depth: _factors(network) for network in networks}),
        exponent=0.0,
    )
    ode = _ode(networks[-1], activation, width, regime, _offset(*map(_flat, networks[-2:])))
    return FittedLimit(recorded, ode, tuple(depths[:-1]))


def _check_depths(depths: Sequence[int]) -> None:
    if len(set(depths)) < len(depths) or len(depths) < 3:
        raise ValueError(
            f"weights must hold one network at each of at least three depths; got depths {[*depths]}. Give"
            " one seed of each depth, and train further depths where there are fewer."
        )


def _of_modules(
    weights: Mapping[int, Any],
    modules: Mapping[int, nn.Module],
    batch: Any,
    null: Callable[[int], nn.Module] | None,
) -> FittedLimit:
    for depth, each in weights.items():
        if depth not in modules:
            raise TypeError(
                f"weights must hold modules alone, or stacks alone; got {validation.named(each)} at depth"
                f" {depth} beside modules."
            )
        validation.integer(depth, "every depth", minimum=2, hint="It is a number of layers.")
    ordered = dict(sorted(modules.items()))
    depths = tuple(ordered)
    _check_depths(depths)
    network, layers, states = given_layers(ordered, batch)
    few, many = (torch.stack([layer(states) - states for layer in layers[depth]]) for depth in depths[-2:])
    limit = BetweenLayers(layers[depths[-1]], _offset(few.flatten(1), many.flatten(1)))
    untrained = None
    if null is not None:
        validation.untrained(null, 1)
        built = {depth: _untrained(null, depth) for depth in depths}
        untrained = _of_modules(built, built, batch, None)
    return FittedLimit(network, limit, depths[:-1], states, untrained)


def _untrained(null: Callable[[int], nn.Module], depth: int) -> nn.Module:
    with validation.noted(f"deeplimit called null with depth {depth}."), seeded(0):
        built = null(depth)
    if not isinstance(built, nn.Module):
        raise TypeError(f"null({depth}) must return an untrained module, got {validation.named(built)}.")
    return built


def _flat(network: Network) -> torch.Tensor:
    """Return the matrices of all layers, with their factors (L, entries)."""
    return (network.stacks["A"].values.to(torch.float64) * _factors(network)[:, None, None]).flatten(1)


def _offset(few: torch.Tensor, many: torch.Tensor) -> float:
    """Return s, if layer k of L stands for time (k + s)/L in two networks (L, numbers), rounded to quarters.

    Layer k of the shallow network is then layer k r + s (r - 1) of the deep one, r the ratio of depths. The
    squared distance of layers around it is a parabola near its minimum. Two networks do not share their
    noise, which adds a constant to it. 0 where there is no minimum.
    """
    ratio = len(many) / len(few)
    shifts = torch.arange(-1, math.ceil(ratio) + 1)
    wanted = torch.arange(len(few), dtype=torch.float64) * ratio
    places = torch.floor(wanted).to(torch.int64)[:, None] + shifts
    inside = (places[:, 0] >= 0) & (places[:, -1] < len(many))
    few, wanted, places = few[inside, None], wanted[inside, None], places[inside]
    if not float(few.square().sum()) > 0:
        return 0.0
    matched = many[places]
    size = (few * matched[:, :2]).sum() / few.square().sum() / 2
    distances = (size * few - matched).square().sum(2)
    curvature, slope, _ = np.polyfit((places - wanted).flatten().numpy(), distances.flatten().numpy(), 2)
    if not curvature > 0:
        return 0.0
    offset = float(-slope / (2 * curvature) / (ratio - 1))
    return round(4 * min(max(offset, 0.0), 1.0)) / 4


def _width(network: Network) -> int:
    if "A" not in network.stacks:
        raise ValueError(
            "weights must hold stacks of square matrices called A, shaped (L, d, d); got"
            f" {sorted(network.stacks)}. Give the matrices that map the stream to the stream as"
            " {L: {'A': stack}}."
        )
    shape = tuple(network.stacks["A"].values.shape[1:])
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(
            f"weights must hold square matrices A (L, d, d); layers have shape {shape}. Give the matrices"
            " that map the stream to the stream, as stacks called A."
        )
    return shape[0]


def _matrices(network: Network) -> dict[str, torch.Tensor]:
    return {name: stack.values.to(torch.float64) for name, stack in network.stacks.items()}


def _factors(network: Network) -> torch.Tensor:
    """Return the residual factor of every layer (L,)."""
    given = [1.0] if network.factors is None else network.factors
    return torch.as_tensor(given, dtype=torch.float64).expand(network.depth).clone()


def _ode(deepest: Network, activation: ActivationLike, width: int, regime: str, offset: float) -> ODELimit:
    stacks, rates = _matrices(deepest), _factors(deepest) * deepest.depth
    if regime == "neural-ode":
        delta = Trend(Interpolated(rates, offset))
        made = fully_connected(width, activation, weights=_trend(stacks, offset), delta=delta, exponent=1.0)
        return cast(ODELimit, made.limit())
    slope = activations.expansion(activations.resolve(activation)).slope
    rated = {name: values * rates.reshape(-1, *[1] * (values.ndim - 1)) for name, values in stacks.items()}
    return LinearODE(_trend(rated, offset), width, slope)


def _trend(stacks: Mapping[str, torch.Tensor], offset: float) -> Trend:
    biases = Interpolated(stacks["b"], offset) if "b" in stacks else None
    return Trend(Interpolated(stacks["A"], offset), biases)


@final
@dataclass(frozen=True, eq=False)
class Interpolated:
    """A function of time that has the value of layer k at time (k + offset)/L, and is linear in between."""

    values: torch.Tensor
    offset: float = 0.0

    def __call__(self, t: float) -> torch.Tensor:
        """Return the value at time `t` in [0, 1]."""
        before, share = neighbours(t, len(self.values), self.offset)
        return torch.lerp(self.values[before], self.values[before + 1], share)
