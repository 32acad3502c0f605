"""What an initialiser has set, in numbers and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from deeplimit.common import axes as drawing
from deeplimit.common.axes import FITTED, MEASURED, PREDICTED
from deeplimit.common.report import Column, Report, Table
from deeplimit.driving import Dependence, WeightLaw, critical_exponent
from deeplimit.networks.initialise.expected_limit import expected_limit, unscaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True)
class Initialisation(Report):
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
            "explosion", "no theorem", or "unscaled" for the exponent 0. Read off the law and the exponent,
            not measured on the module.
        theorem: Statement that says so, or None.
        explanation: Why, and what the statement does not cover.
        citations: Keys or BibTeX entries of the publications that say so.
    """

    kind = "initialisation"
    no_paths = "the weights that were drawn are in the tensors, or the module, that you gave"

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
    citations: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The law, and of how many layers of which shape."""
        return f"{self.law} across {self.layers} layers of shape {self.shape}"

    def _facts(self) -> list[tuple[str, str]]:
        factors = f"{self.layers}^-{self.exponent:g} · {self.gain:g}/√{self.fan_in}"
        return [
            ("", f"standard deviation {self.standard_deviation:.4g} = {factors}"),
            *_leads_to(self.limit, self.theorem, self.explanation),
        ]

    def _table(self) -> Table:
        return Table(
            (
                Column("layers", [self.layers]),
                Column("fan-in", [self.fan_in]),
                Column("gain", [self.gain], "g"),
                Column("exponent", [self.exponent], "g"),
                Column("critical", [self.critical_exponent], "g"),
                Column("deviation", [self.standard_deviation], ".4g"),
            )
        )

    def _draw(self, axes: Axes) -> None:
        """Draw where the exponent lies between explosion and identity."""
        end = 1.2 * max(1.0, self.exponent, self.critical_exponent)
        axes.axvspan(0.0, self.critical_exponent, color=FITTED, alpha=0.15, lw=0, label="explosion")
        axes.axvspan(self.critical_exponent, end, color=MEASURED, alpha=0.15, lw=0, label="identity")
        axes.axvline(self.critical_exponent, color=PREDICTED, ls="--", label="critical exponent")
        axes.plot([self.exponent], [0.5], "o", color="black", label=f"these weights: {self.limit}")
        axes.set_xlim(0.0, end)
        axes.set_ylim(0.0, 1.0)
        drawing.label(axes, "residual exponent", "", [self.headline])
        axes.set_yticks([])
        drawing.legend(axes)


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


@final
@dataclass(frozen=True)
class ResidualInitialisation(Report):
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
        citations: Keys or BibTeX entries of the publications that the limit is read from.
        scaled_further: Whether the forward scales branches by numbers or gains of its own, which may depend
            on the depth; the limit is that without them.
    """

    kind = "residual-initialisation"
    no_paths = "the weights that were drawn are in the tensors, or the module, that you gave"

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
    citations: tuple[str, ...] = ()
    scaled_further: bool = False

    @property
    def headline(self) -> str:
        """The model, the law across its layers, and the residual exponent."""
        of = " of the weights alone" if self.scaled_further else ""
        return f"{self.model}: {self.law}, residual exponent {self.exponent:g}{of}"

    def _facts(self) -> list[tuple[str, str]]:
        provided = " if what else scales the branches does not depend on the depth" * self.scaled_further
        return _leads_to(self.limit, self.theorem, self.explanation, provided)

    def _table(self) -> Table:
        roles = self.roles
        return Table(
            (
                Column("weights", [role.role for role in roles], left=True),
                Column("part", [role.part for role in roles], left=True),
                Column("layers", [len(role.layers) for role in roles]),
                Column("deviation", [role.standard_deviation for role in roles], ".4g"),
                Column("before", [role.before for role in roles], ".4g"),
            )
        )

    def _tail(self) -> list[str]:
        return ["Notes:", *(f"- {note}" for note in self.notes)] if self.notes else []

    def _reservations(self) -> tuple[str, ...]:
        return self.notes

    @property
    def _size(self) -> tuple[float, float]:
        return (8.0, 1.8 + 0.3 * len(self.roles))

    def _draw(self, axes: Axes) -> None:
        """Draw the standard deviation of every role, before and now."""
        from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

        places = range(len(self.roles))[::-1]
        before = [role.before for role in self.roles]
        now = [role.standard_deviation for role in self.roles]
        axes.plot(before, places, "o", color=PREDICTED, fillstyle="none", label="before")
        axes.plot(now, places, "o", color=MEASURED, label="now")
        if all(value > 0 for value in (*before, *now)):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_formatter(NullFormatter())
        drawing.label(axes, "standard deviation", "", [self.headline])
        drawing.names(axes, places, [role.role for role in self.roles])
        axes.set_ylim(-0.7, len(self.roles) + 0.3)
        axes.grid(axis="x", alpha=0.3)
        drawing.legend(axes)


def shared_fields(law: WeightLaw, exponent: float, *, whole: bool) -> dict[str, Any]:
    """Return the fields that both results share; `whole` branches are known to be scaled at their output."""
    regime = expected_limit(law, exponent) if whole or exponent > 0.0 else unscaled(law)
    facts = law.facts
    return {
        "law": law.describe(),
        "exponent": exponent,
        "critical_exponent": critical_exponent(law),
        "hurst": 0.5 if facts.dependence == Dependence.INDEPENDENT else facts.hurst,
        "length_scale": facts.length_scale,
        "limit": regime.name,
        "theorem": regime.theorem,
        "explanation": regime.explanation,
        "citations": (
            "marion2025",
            *regime.citations,
            *(key for channel in law.channels((1, 1)) for key in channel.citations),
        ),
    }


def _leads_to(limit: str, theorem: str | None, explanation: str, provided: str = "") -> list[tuple[str, str]]:
    by = f" ({theorem})" if theorem else ""
    return [("", f"leads to: {limit}{by}{provided}"), ("", f"  {explanation}")]
