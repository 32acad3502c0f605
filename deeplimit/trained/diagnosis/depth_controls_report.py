"""What a network does when its layers are replaced, as a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import FITTED, MEASURED
from deeplimit.common.fields import Seconds, Seed
from deeplimit.common.report import Column, Report, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OFF, TREND, MOVED, NEW, ORDER, FEW, HALF = (
    "branches off",
    "trend alone",
    "noise in other layers",
    "new noise",
    "layers in another order",
    "largest layers alone",
    "half the layers",
)
READINGS = {
    OFF: "the network does as well without its layers: the evaluation does not see them, nor what they do",
    TREND: "the trend alone does as well, so the noise is not needed: read the network as an ODE",
    NEW: "new noise of the same covariance does as well, and the trend alone does not: read it as an SDE",
    MOVED: (
        "the network's noise may sit in other layers, but new noise does not do as well: noise matters by"
        " more than its covariance, such as by its sum over layers"
    ),
    ORDER: "layers may stand in any order, though trend and noise alone do not do as well",
    FEW: "a few layers do as well alone, with the branches of all others off: single layers matter",
    "": "neither the trend alone nor other noise does as well, nor other orders: layers matter as they are",
}
"""What each reading means, in the order in which they are tried.

Without an evaluation that sees the layers all other controls do as well, whatever the layers are."""


MOSTLY_NOISE = (
    "the trend alone does as well, though most of every layer is noise: smoothing keeps the sum of layers,"
    " and the evaluation sees no more of them. That says nothing of an ODE"
)
"""What `TREND` means where noise has more than half of the squares, as in untrained networks."""
OPEN = (
    "cannot tell: neither the trend alone nor new noise does as well, but both are those of single entries,"
    " and hidden units may stand in another order in every layer"
)
"""What it means that no control does as well where entries have no counterpart in the next layer."""
UNMATCHED = (
    "Trend and noise are those of single entries. The same network with its hidden units in another order in"
    " each layer, or its heads rotated, has another trend and more noise: before new noise is said to do"
    " harm, pass batch=, which replaces a module's blocks as functions, or give only= a weight that maps the"
    " stream to itself."
)
"""A caveat where a layer has several matrices, so hidden units, and replacing single entries does harm."""


@final
@dataclass(frozen=True)
class Control:
    """One way in which layers were replaced.

    Attributes:
        name: which way.
        values: what `evaluate` returned, once per draw.
    """

    name: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over draws."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """The standard deviation over draws; 0 where there is one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0


@final
@dataclass(frozen=True, eq=False)
class DepthControls(Report):
    """What `depth_controls` found: the number of the network, and of each control.

    Attributes:
        original: what `evaluate` returned for the network itself.
        controls: what it returned for the others.
        tolerance: part of the original by which a control may differ and do as well.
        noise_share: share of noise in the mean square, by weight.
        depth: number of layers.
        seed, seconds, versions: how it was run.
        reservations: what to know before trusting the numbers.
        largest: layers, from 0, that have nearly all squares, where they are few.
    """

    kind = "depth-controls"
    no_paths = "controls replace trained weights, which no seed draws"

    original: float
    controls: tuple[Control, ...]
    tolerance: float
    noise_share: dict[str, float]
    depth: int
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...] = ()
    largest: tuple[int, ...] = ()

    def control(self, name: str) -> Control | None:
        """Return the control of this name; None if it was not run."""
        return next((each for each in self.controls if each.name == name), None)

    @property
    def allowed(self) -> float:
        """How far a number may be from that of the network: the tolerance times it.

        Where it is 0, as the best error rate is, the tolerance times what the branches do.
        """
        off = self.control(OFF)
        whole = 0.0 if self.original or off is None else off.mean - self.original
        return self.tolerance * abs(self.original or whole)

    def is_as_good(self, name: str) -> bool:
        """Whether every draw of a control is within the tolerance of the network itself."""
        found = self.control(name)
        return found is not None and all(abs(value - self.original) <= self.allowed for value in found.values)

    @property
    def reading(self) -> str:
        """The first of `READINGS` whose control does as well as the network; "" if none does."""
        return next((name for name in READINGS if name and self.is_as_good(name)), "")

    @property
    def headline(self) -> str:
        """The reading in words."""
        if self.reading in ("", MOVED, ORDER) and UNMATCHED in self.reservations:
            return f"{OPEN}."
        mostly_noise = self.reading == TREND and min(self.noise_share.values(), default=0.0) > 0.5
        return f"{MOSTLY_NOISE if mostly_noise else READINGS[self.reading]}."

    def _facts(self) -> list[tuple[str, str]]:
        shares = ", ".join(f"{name} {share:.3g}" for name, share in self.noise_share.items())
        told = [
            ("itself", f"{self.original:.4g}, {self.depth} layers"),
            ("noise", f"share of the mean square: {shares}"),
        ]
        if self.largest:
            told.append(("largest", f"nearly all squares are in layers {', '.join(map(str, self.largest))}"))
        return told

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("", f"within {100 * self.tolerance:g} % counts as well, seed {self.seed}, {self.seconds:.1f} s")
        ]

    def _table(self) -> Table:
        return Table(
            (
                Column("layers replaced", [each.name for each in self.controls], left=True),
                Column("value", [each.mean for each in self.controls], ".4g"),
                Column("std. deviation", [each.deviation for each in self.controls], ".2g"),
                Column("draws", [len(each.values) for each in self.controls]),
                Column("as well", [self.is_as_good(each.name) for each in self.controls], _yes),
            )
        )

    def _draw(self, axes: Axes) -> None:
        for place, each in enumerate(self.controls):
            axes.plot(each.values, np.full(len(each.values), place), "o", color=MEASURED, ms=4, alpha=0.7)
        axes.axvline(self.original, color=FITTED, label="the network itself")
        ends = self.original - self.allowed, self.original + self.allowed
        axes.axvspan(*ends, color=FITTED, alpha=0.12, lw=0)
        axes.set_ylim(len(self.controls) - 0.4, -0.6)
        drawing.names(axes, range(len(self.controls)), [each.name for each in self.controls])
        short = self.headline.partition(",")[0].partition(":")[0]
        drawing.label(axes, "what evaluate returns", "", [short])
        drawing.legend(axes)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
