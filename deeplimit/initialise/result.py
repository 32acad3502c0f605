"""What an initialiser has set, in numbers and words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from deeplimit.ground import files as store
from deeplimit.initialise.expected_limit import expected_limit, unscaled
from deeplimit.weights import Dependence, Process


@dataclass(frozen=True)
class Initialisation:
    """What an initialiser has set in the weights of one role, one tensor per layer.

    Attributes:
        law: Weight law across the layers, in words.
        layers: Number L of layers.
        shape: Shape of one layer's weight.
        fan_in: Number of inputs in the factor 1/√fan_in.
        gain: Second factor of the standard deviation.
        exponent: Exponent of the depth in the third factor, L^-exponent.
        standard_deviation: Standard deviation of every entry in every layer: L^-exponent · gain/√fan_in.
        hurst: Hurst index of the law, 1/2 for independent layers; None for smooth ones.
        length_scale: Length scale of smooth layers, as a share of the depth; None for other laws.
        critical_exponent: Exponent between explosion and identity for this law.
        limit: Where the papers' recursions go with this law and exponent: "sde", "ode", "young", "identity",
            "explosion", "no theorem", or "unscaled" for the exponent 0. Read off the law and the
            exponent, not measured on the module.
        theorem: Statement that says so, or None.
        explanation: Why, and what the statement does not cover.
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
                *_leads_to(self.limit, self.theorem, self.explanation),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers."""
        return {field.name: store.plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


@dataclass(frozen=True)
class RoleInitialisation:
    """What `residual_` has set in one role of a model's branches.

    Attributes:
        role: Name of the weights with * for the layer.
        stream: Number of the residual stream that the branches add to, from 0.
        part: "output" for an output projection, which carries L^-exponent; "inner" for the branch's other
            weights, which do not.
        depth: Number L of branches of this kind in the stream.
        layers: Positions 1 … L that were set; fewer than L where some layers have a weight of another shape,
            which is a role of its own.
        shape: Shape of one layer's weight.
        fan_in: Number of inputs of an output projection; None for inner weights.
        standard_deviation: Standard deviation of every entry.
        before: Root mean square of the entries that were replaced.
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
        model: Name of the model's class.
        law: Weight law across the layers, in words.
        exponent: Exponent of the depth in the output projections.
        critical_exponent: Exponent between explosion and identity for this law.
        hurst: Hurst index of the law, 1/2 for independent layers; None for smooth ones.
        length_scale: Length scale of smooth layers, as a share of the depth; None for other laws.
        limit: Where the papers' recursions go with this law and exponent, as in `Initialisation`.
        theorem: Statement that says so, or None.
        explanation: Why, and what the statement does not cover.
        roles: What was set, one entry per role.
        notes: What else a reader must know: gains that scale branches further, weights left as they were.
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
            *_leads_to(self.limit, self.theorem, self.explanation),
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


def shared_fields(law: Process, exponent: float, *, whole: bool) -> dict[str, Any]:
    """Return the fields that both results share; `whole` branches are known to be scaled at their output."""
    regime = expected_limit(law, exponent) if whole or exponent > 0.0 else unscaled(law)
    facts = law.facts
    length_scale = getattr(law, "length_scale", None)
    return {
        "law": law.describe(),
        "exponent": exponent,
        "critical_exponent": law.critical_exponent,
        "hurst": 0.5 if facts.dependence == Dependence.INDEPENDENT else facts.hurst,
        "length_scale": None if length_scale is None else float(length_scale),
        "limit": regime.name,
        "theorem": regime.theorem,
        "explanation": regime.explanation,
    }


def _leads_to(limit: str, theorem: str | None, explanation: str) -> list[str]:
    return [f"leads to: {limit}" + (f" ({theorem})" if theorem else ""), f"  {explanation}"]
