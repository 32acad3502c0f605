"""A scheme of an equation as a network: layer k is step k, and its weights are Brownian increments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import Brownian, Layer, Shape, SpaceTimeBrownian, Trend, WeightLaw
from deeplimit.equations import Noise, ODELimit, Scheme, SDELimit
from deeplimit.layers import Formula, Recursion, Weight, activations
from deeplimit.layers.activations import Activation
from deeplimit.networks.residual_network import ResidualNetwork


@final
@dataclass(frozen=True)
class SchemeSteps(Recursion):
    """One step of a scheme per layer: its weights are the time at its end, and Brownian increments.

    Attributes:
        activation: not used; equations bring their own functions.
        scheme, equation: what is stepped.
        motions: how many Brownian motions there are; 0 for an ODE.
    """

    activation: Activation
    scheme: Scheme
    equation: SDELimit | ODELimit
    motions: int
    name: ClassVar[str] = "scheme"

    @property
    def formula(self) -> Formula:  # type: ignore[override]
        """The scheme's name stands for its step."""
        return Formula(f"{self.scheme.name}(h)", network_latex=r"\mathrm{step}(h)")

    @property
    def weights(self) -> tuple[Weight, ...]:  # type: ignore[override]
        """The time, and Brownian increments where there are any."""
        return (Weight("t", ""), *([Weight("ΔB", "m")] if self.motions else []))

    @property
    def activation_in_words(self) -> str:
        return self.equation.equation

    def sizes(self, width: int) -> dict[str, int]:
        return {"m": max(self.motions, 1) * (1 + self.scheme.reads_areas)}

    def check(self, width: int) -> None:
        """Nothing to do: `scheme_network` has tried a step on states of this width."""

    def state_shape(self, width: int) -> Shape:
        return (width,)

    def advance(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        clock, *noise = layers
        assert clock.values is not None
        length = 1.0 / clock.depth
        start = float(clock.values.reshape(-1)[0]) - length
        increments = h.new_zeros(len(h), 0)
        if noise:
            (moved,) = noise
            assert moved.values is not None
            increments = (moved.values * moved.scale(exponent)).expand(len(h), -1)
            if self.scheme.reads_areas:  # b ΔB - Δ∫ s dB, b the step's end
                along = increments[:, : self.motions]
                area = (start + length) * along - increments[:, self.motions :]
                increments = torch.cat([along, area], dim=1)
        return self.scheme.step(self.equation, start, length, h, increments)

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return self.advance(h, layers, exponent) - h


def _time(t: float) -> Tensor:
    return torch.as_tensor(t, dtype=torch.float64)


@by_default
def scheme_network(scheme: Scheme, equation: SDELimit | ODELimit, width: int) -> ResidualNetwork:
    """Return the network whose layers are a scheme's steps, so that `compare` measures its order and limit.

    Args:
        scheme: how a step is made, such as `Milstein()`.
        equation: an `SDE` or `ODE`, or a limit of the library that reads no functions of a network.
        width: number d of coordinates of a state.

    Raises:
        TypeError: For a scheme or an equation of another kind.
        ValueError: For a scheme that makes no single steps, functions that return other shapes, and a limit
            that reads functions of a network, or has states that are no vectors.

    Examples:
        >>> import deeplimit as dl
        >>> sde = dl.SDE(
        ...     drift=lambda t, h: 0.5 * h,
        ...     diffusion=lambda t, h, dB: 0.2 * h * dB,
        ...     noise="diagonal",
        ...     solution=lambda t, h0, B: h0 * ((0.5 - 0.02) * t + 0.2 * B).exp(),
        ... )
        >>> network = dl.scheme_network(dl.Milstein(), sde, width=1)
        >>> report = dl.compare(network, sde, dtype="float64")
        >>> report.verdict, report.rate_interval[0] < 1 < report.rate_interval[1]
        ('converges', True)
    """
    validation.instance(scheme, "scheme", Scheme, "a Scheme, such as Milstein()")
    validation.instance(equation, "equation", (SDELimit, ODELimit), "an SDE or an ODE")
    d = validation.integer(width, "width", minimum=1, hint="It is the number of coordinates of a state.")
    if equation.functions or equation.state_shape(d) != (d,) or equation.width not in (None, d):
        raise ValueError(
            f"equation {equation.equation} reads weights of a network, or has states other than ({d},), so a"
            " scheme alone cannot step it; simulate its network, which draws both."
        )
    probe = torch.ones(2, d, dtype=torch.float64)
    equation.try_on(probe)
    motions = 0 if equation.noise_structure is Noise.NONE else int(equation.noise_size(probe) or 0)
    moved = scheme.step(equation, 0.0, 0.5, probe, probe.new_zeros(2, motions * (1 + scheme.reads_areas)))
    if moved.shape != probe.shape:
        raise ValueError(
            f"scheme {scheme.name} returns states of shape {tuple(moved.shape)} for those of shape"
            f" {tuple(probe.shape)}; drift and diffusion must return one number for each coordinate."
        )
    noise = SpaceTimeBrownian() if scheme.reads_areas else Brownian()
    laws: tuple[WeightLaw, ...] = (Trend(_time), *([noise] if motions else []))
    recursion = SchemeSteps(activations.resolve("identity"), scheme, equation, motions)
    return ResidualNetwork(recursion, d, laws, 0.5 if motions else 1.0)
