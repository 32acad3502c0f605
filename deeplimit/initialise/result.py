"""What an initialiser has set, in numbers and words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from deeplimit.ground import files as store
from deeplimit.initialise.destination import outlook, without_scale
from deeplimit.theory.regime import Regime
from deeplimit.weights import FractionalBrownian, IncrementProcess, Process, SmoothGaussian


@dataclass(frozen=True)
class Initialisation:
    """What an initialiser has set in the weights of one role, a tensor a layer.

    Attributes:
        law: The law across the layers, in words. layers: The number of layers L. shape: Of the weight of one
            layer.
        fan_in: The number of inputs that 1/√fan_in stands for. gain, exponent: The other two factors.
        standard_deviation: Of every entry, in every layer: L^-exponent · gain/√fan_in.
        hurst: The Hurst index of the law, 1/2 for independent layers; None for smooth ones.
        length_scale: Of smooth layers, as a share of the depth; None for others.
        critical_exponent: The exponent between explosion and identity for this law.
        limit: "sde", "ode", "young", "identity", "explosion", "no theorem", or "unscaled" for the exponent 0:
            where the residual recursions of the papers go with this law and exponent. It is read off these
            two alone, not measured on the module.
        theorem: The statement that says so, or None.
        explanation: Sentences for a person, with what the statement does not cover.
    """

    law: str
    layers: int
    shape: tuple[int, ...]
    fan_in: int
    gain: float
    exponent: float
    standard_deviation: float
    hurst: float | None
    length_scale: float | None
    critical_exponent: float
    limit: str
    theorem: str | None
    explanation: str

    def __str__(self) -> str:
        size = f"{self.layers} layers of shape {self.shape}"
        factors = f"{self.layers}^-{self.exponent:g} · {self.gain:g}/√{self.fan_in}"
        return "\n".join(
            [
                f"{self.law} across {size}",
                f"standard deviation {self.standard_deviation:.4g} = {factors}",
                *_destination(self.limit, self.theorem, self.explanation),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers."""
        return {field.name: store.plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


@dataclass(frozen=True)
class RoleInitialisation:
    """What `residual_` has set in one role of a model's branches.

    Attributes:
        role: The weights' name with * for the layer. stream: The residual stream that its branches belong to.
        part: "output" for an output projection, which carries L^-exponent; "inner" for the branch's other
            weights, which do not.
        depth: The number L of branches of this kind in the stream.
        layers: The positions 1 … L that were set; fewer than L where a weight has another shape, and so is a
            role of its own.
        shape: Of one layer's weight. fan_in: For an output projection; None for inner weights.
        standard_deviation: Of every entry. before: The root mean square of the entries that were replaced.
    """

    role: str
    stream: int
    part: str
    depth: int
    layers: tuple[int, ...]
    shape: tuple[int, ...]
    fan_in: int | None
    standard_deviation: float
    before: float


@dataclass(frozen=True)
class ResidualInitialisation:
    """What `residual_` has set in a model.

    Attributes:
        model: The model's class. law: The law across the layers, in words.
        exponent: Of the depth, in the output projections. critical_exponent, hurst, length_scale, limit,
            theorem, explanation: As in `Initialisation`.
        roles: What was set, a row a role.
        notes: What a reader must know besides: gains that scale branches further, weights left as they were.
    """

    model: str
    law: str
    exponent: float
    critical_exponent: float
    hurst: float | None
    length_scale: float | None
    limit: str
    theorem: str | None
    explanation: str
    roles: tuple[RoleInitialisation, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        wide = max(len(role.role) for role in self.roles)
        lines = [
            f"{self.model}: {self.law}, residual exponent {self.exponent:g}",
            *_destination(self.limit, self.theorem, self.explanation),
            "",
            f"{'weights':<{wide}}  {'part':<6}  {'layers':>6}  {'deviation':>9}  {'before':>9}",
            *(
                f"{role.role:<{wide}}  {role.part:<6}  {len(role.layers):>6}  {role.standard_deviation:>9.4g}"
                f"  {role.before:>9.4g}"
                for role in self.roles
            ),
        ]
        if self.notes:
            lines += ["", "Notes:", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers; each role as a dictionary."""
        content = {
            field.name: store.plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name != "roles"
        }
        return content | {"roles": [store.plain(dataclasses.asdict(role)) for role in self.roles]}


def destination(process: Process, exponent: float, *, whole: bool) -> dict[str, Any]:
    """Return the fields that both results share; `whole` branches are known to have their exponent at the
    output.
    """
    regime: Regime = outlook(process, exponent) if whole or exponent > 0.0 else without_scale(process)
    return {
        "law": process.describe(),
        "exponent": exponent,
        "critical_exponent": process.critical_exponent,
        "hurst": _hurst(process),
        "length_scale": float(process.length_scale) if isinstance(process, SmoothGaussian) else None,
        "limit": regime.name,
        "theorem": regime.theorem,
        "explanation": regime.explanation,
    }


def _hurst(process: Process) -> float | None:
    if isinstance(process, FractionalBrownian):
        return float(process.hurst)
    return 0.5 if isinstance(process, IncrementProcess) else None


def _destination(limit: str, theorem: str | None, explanation: str) -> list[str]:
    return [f"leads to: {limit}" + (f" ({theorem})" if theorem else ""), f"  {explanation}"]
