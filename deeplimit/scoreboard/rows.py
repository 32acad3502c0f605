"""What the scoreboard measures: one row a statement and setting, with a limit that is wrong in one way."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deeplimit import zoo
from deeplimit.limits import Independent, ItoCorrectedSDE, LinearODE, NeuralSDE, NeuralYoung
from deeplimit.networks import ResidualNetwork, inner, modified_res1, res1, res2, res3
from deeplimit.weights import (
    AuxiliaryDiffusion,
    FractionalBrownian,
    Ito,
    Kronecker,
    SmoothGaussian,
    Trend,
    stochastic_volatility,
)

PROPOSITION_11, PROPOSITION_12 = "[M] Prop. 11", "[M] Prop. 12"
THEOREM_43, DIFFUSIVE, VANISHING_NOISE = "[C] Thm 4.3", "[C] Thm 4.4, SDE", "[C] Thm 4.4, ODE"
NEURAL_ODE = "[C] (2)"
YOUNG = "Hu, Liu & Nualart"


@dataclass(frozen=True, eq=False)
class Row:
    """One statement in one setting.

    Attributes:
        statement: What is claimed, and by whom.
        setting: The network in a few words; with `statement` it names the row.
        network: Compared with its own limit.
        wrong: A limit that must be called "does not converge".
        wrongly: In what it is wrong.
        x: Inputs, in turn; None for standard normal ones.
        paths: How many in a quick run.
    """

    statement: str
    setting: str
    network: ResidualNetwork
    wrong: Any
    wrongly: str
    x: Tensor | None = None
    paths: int = 1000

    @property
    def name(self) -> str:
        return f"{self.statement}: {self.setting}"


WIDTH = 4
_MIXING = torch.tensor(
    [[0.3, 0.8, -0.2, 0.0], [-0.6, 0.2, 0.5, 0.1], [0.1, -0.4, 0.3, 0.7], [0.2, 0.0, -0.5, -0.3]]
)
_PUSH = torch.tensor([0.5, -0.4, 0.3, 0.6])


def sphere() -> Tensor:
    """Return inputs of norm 1: where Q bends states upwards, large inputs would make the tails heavier
    than they need be.
    """
    x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(1))
    normed: Tensor = x / x.norm(dim=1, keepdim=True)
    return normed


def mixing(t: float) -> Tensor:
    """Return Ā(t): entries of size 1/2 that turn with time."""
    return _MIXING * (0.6 + 0.4 * math.cos(3.0 * t))


def push(t: float) -> Tensor:
    """Return b̄(t)."""
    return _PUSH * (1.0 + 0.5 * math.sin(2.0 * t))


def _weak(t: float) -> Tensor:
    return 0.5 * mixing(t)


def _weak_push(t: float) -> Tensor:
    return 0.5 * push(t)


def _growing(t: float) -> float:
    return 0.02 + 0.06 * t


def _turning(t: float) -> Kronecker:
    rows = torch.diag(torch.tensor([0.1, 0.05, 0.02, 0.01]) * (1.0 + t))
    return Kronecker(rows, 0.4 * torch.eye(WIDTH) + 0.1)


def _leveraged(t: float, v: Tensor) -> Tensor:
    """Return entrywise variances that follow two auxiliary factors, one for even rows and one for odd
    ones.
    """
    factors: Tensor = 0.08 * torch.sigmoid(v)
    return factors[:, [0, 1, 0, 1], None].expand(-1, WIDTH, WIDTH)


def _restoring(t: float, v: Tensor) -> Tensor:
    return -2.0 * v


def _shaking(t: float, v: Tensor) -> Tensor:
    return 2.0 * torch.ones_like(v)


def covariances() -> dict[str, Ito]:
    """Return noise with every kind of covariance, by name; reproducible and of similar size."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(WIDTH**2, WIDTH**2, generator=generator)
    joint = torch.randn(
        WIDTH**2 + WIDTH, 3, generator=generator
    )  # of rank 3, so that W^A and W^b covary strongly
    joint = 0.015 * joint @ joint.T
    matrix = joint[: WIDTH**2, : WIDTH**2].reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    cross = joint[: WIDTH**2, WIDTH**2 :].reshape(WIDTH, WIDTH, WIDTH)
    tensor = (0.05 * spread @ spread.T / WIDTH**2).reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    rows = Kronecker(torch.diag(torch.tensor([0.2, 0.1, 0.05, 0.02])), 0.3 * torch.eye(WIDTH) + 0.1)
    auxiliary = AuxiliaryDiffusion(_restoring, _shaking, start=[0.0, 1.0], leverage=-0.7)
    return {
        "one variance": Ito(A=0.04, b=0.1),
        "entrywise variances": Ito(
            A=torch.linspace(0.01, 0.08, WIDTH**2).reshape(WIDTH, WIDTH), b=torch.linspace(0.05, 0.2, WIDTH)
        ),
        "rows and columns": Ito(A=rows, b=0.02),
        "full tensor": Ito(A=tensor, b=0.1),
        "W^A and W^b covary": Ito(A=matrix, b=joint[WIDTH**2 :, WIDTH**2 :], cross=cross),
        "variance of time": Ito(A=_growing, b=0.1),
        "rows of time": Ito(A=_turning, b=0.02),
        "stochastic volatility": stochastic_volatility(A=0.04, b=0.1),
        "two random factors": Ito(A=_leveraged, b=0.1, auxiliary=auxiliary),
        "with drift": Ito(A=0.04, b=0.1, drift=Trend(_weak, _weak_push)),
    }


def _own(network: ResidualNetwork) -> ItoCorrectedSDE:
    limit = network.limit()
    assert isinstance(limit, ItoCorrectedSDE)
    return limit


def _marion() -> Iterator[Row]:
    for width, activation in ((16, "tanh"), (16, "softplus"), (4, "sin")):
        network = res1(width, activation)
        limit = network.limit()
        assert isinstance(limit, NeuralSDE)
        setting = f"res-1, {activation}, d = {width}"
        yield Row(PROPOSITION_11, setting, network, Independent(limit), "independent noise")
    yield Row(
        PROPOSITION_11,
        "res-1, tanh, d = 6",
        (network := res1(6, "tanh")),
        zoo.AlteredSDE(network.limit(), diffusion_scale=1.1),  # type: ignore[arg-type]
        "diffusion 10 % too large",
    )
    smooth = SmoothGaussian(0.2)
    for network in (
        res1(WIDTH, "tanh", weights=smooth),
        res2(WIDTH, "tanh", weights=smooth),
        res3(WIDTH, weights=smooth),
    ):
        setting = f"{network.recursion.name}, {network.recursion.activation.name}, smooth weights"
        yield Row(
            PROPOSITION_12, setting, network, Independent(network.limit()), "other smooth weights", None, 600
        )


def _linear() -> Iterator[Row]:
    trend = Trend(mixing, push)
    for activation, alpha in (
        ("tanh", 0.5),
        ("tanh", 0.7),
        ("sin", 0.6),
        ("erf", 0.5),
        ("scaled_softplus", 0.5),
        ("scaled_silu", 0.5),
        ("scaled_silu", 0.3),
        ("scaled_gelu", 0.4),
    ):
        network = inner(WIDTH, activation, trend=trend, alpha=alpha, beta=round(1 - alpha, 6))
        setting = f"{activation}, α = {alpha:g}, β = {1 - alpha:g}"
        yield Row(THEOREM_43, setting, network, zoo.neural_ode_of(network), "neural ODE instead", None, 200)
    network = inner(WIDTH, "tanh", trend=trend, alpha=1.0, beta=0.0)
    wrong = LinearODE(trend, WIDTH, 1.0)
    yield Row(NEURAL_ODE, "tanh, α = 1, β = 0", network, wrong, "linear ODE instead", None, 200)
    for activation, alpha in (("tanh", 0.5), ("scaled_silu", 0.5), ("scaled_gelu", 0.4), ("sin", 0.7)):
        network = inner(
            WIDTH, activation, trend=trend, noise=Ito(A=0.04, b=0.1), alpha=alpha, beta=round(1 - alpha, 6)
        )
        setting = f"{activation}, α = {alpha:g}, β = {1 - alpha:g}"
        yield Row(VANISHING_NOISE, setting, network, zoo.neural_ode_of(network), "neural ODE instead")


def _diffusive() -> Iterator[Row]:
    noises, trend, x = covariances(), Trend(_weak, _weak_push), sphere()
    plain = noises["one variance"]
    for activation in ("scaled_softplus", "scaled_silu", "scaled_gelu", "silu"):
        network = inner(WIDTH, activation, trend=trend, noise=plain)
        wrong = dataclasses.replace(_own(network), curvature=0.0)
        yield Row(DIFFUSIVE, f"{activation}, β = 1, one variance", network, wrong, "½σ''Q dropped", x, 2000)
    for activation in ("tanh", "sin"):
        network = inner(WIDTH, activation, trend=trend, noise=plain)
        wrong = dataclasses.replace(_own(network), curvature=1.0)
        yield Row(DIFFUSIVE, f"{activation}, β = 1, one variance", network, wrong, "½Q added", x, 2000)
    for beta in (1.4, 1.5, 2.0):
        network = inner(WIDTH, "scaled_silu", trend=Trend(mixing, push), noise=plain, beta=beta)
        wrong = dataclasses.replace(_own(network), trend=network.weights[0].functions[0])
        yield Row(
            DIFFUSIVE, f"scaled_silu, β = {beta:g}, one variance", network, wrong, "trend kept", x, 2000
        )
    for name, noise in noises.items():
        if name == "one variance":
            continue
        network = inner(WIDTH, "scaled_gelu", noise=noise)
        limit = _own(network)
        wrong, wrongly = dataclasses.replace(limit, curvature=-limit.curvature), "sign of ½σ''Q flipped"
        parts = {field.name: getattr(limit, field.name) for field in dataclasses.fields(limit)}
        if "rows" in name:
            wrong, wrongly = zoo.ExchangedQ(**parts), "rows and columns exchanged in Q"
        elif "covary" in name:
            wrong, wrongly = zoo.WithoutCrossTerm(**parts), "no cross term in Q"
        yield Row(DIFFUSIVE, f"scaled_gelu, {name}", network, wrong, wrongly, x, 2000)


def _young() -> Iterator[Row]:
    # Wider networks reach the order 2H - 1 at depths far beyond these (docs/theorems/young.md).
    for make, activation, width, hurst in (
        (res1, "tanh", 1, 0.7),
        (res1, "sin", 1, 0.65),
        (modified_res1, "tanh", 2, 0.6),
        (modified_res1, "sin", 2, 0.65),
    ):
        network = make(width, activation, weights=FractionalBrownian(hurst))
        limit = network.limit()
        assert isinstance(limit, NeuralYoung)
        wrong = zoo.AlteredYoung(limit.recursion, limit.weights, width, diffusion_scale=0.9)
        setting = f"{network.recursion.name}, {activation}, d = {width}, H = {hurst:g}"
        yield Row(YOUNG, setting, network, wrong, "noise 10 % too small", None, 2000)


def rows() -> tuple[Row, ...]:
    """Return every row, in the order of the statements.

    Examples:
        >>> from deeplimit import scoreboard
        >>> len({row.name for row in scoreboard.rows()}) == len(scoreboard.rows())
        True
    """
    return (*_marion(), *_young(), *_linear(), *_diffusive())
