"""The result of a study: trained, untrained and shuffled networks in one table over depths."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.fields import Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import Verdict
from deeplimit.trained.diagnosis.network_report import DECAYING, Examined
from deeplimit.trained.diagnosis.sweep_report import TINY, Null

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAINED = "trained"


@final
@dataclass(frozen=True, eq=False)
class StudyRow:
    """One weight of the networks of one kind and depth, all seeds pooled.

    Attributes:
        network: "trained", "untrained" or "shuffled".
        depth: number of layers.
        size: root mean square of the layers' norms, mean over seeds.
        examined: statistics over layers.
    """

    network: str
    depth: int
    size: float
    examined: Examined

    @property
    def is_ordered(self) -> bool:
        """Whether the order of layers is real."""
        return self.examined.correlation == DECAYING


@final
@dataclass(frozen=True, eq=False)
class StudyReport(Report):
    """What `study` found in trained networks of several depths and seeds, beside untrained ones.

    Attributes:
        depths: numbers of layers (n,).
        seeds: seeds of the networks at each depth.
        sweeps: verdict over depths of the trained, untrained and shuffled networks, with findings by weight.
        rows: statistics per kind of network, weight and depth.
        confidence: level of the intervals over depths. Those of H are 95 % intervals.
        seconds, versions: how it was run.
        reservations: what to know before trusting the numbers.
    """

    kind = "study"
    no_paths = "the networks are yours, and weights are not kept. Call study again"

    depths: Annotated[np.ndarray, Shape("depths", whole=True)]
    seeds: Annotated[np.ndarray, Shape("seeds", whole=True)]
    sweeps: tuple[Null, ...]
    rows: tuple[StudyRow, ...]
    confidence: float
    seconds: float
    versions: dict[str, str]
    reservations: tuple[str, ...]

    def of(self, network: str) -> Null:
        """Return the verdict over depths of the "trained", "untrained" or "shuffled" networks.

        Raises:
            ValueError: for another word.
        """
        found = {each.name: each for each in self.sweeps}
        if network not in found:
            raise ValueError(f"network must be one of {', '.join(found)}; got {network!r}.")
        return found[network]

    @property
    def verdict(self) -> Verdict:
        """The verdict over depths on the trained networks."""
        return self.of(TRAINED).verdict

    @property
    def headline(self) -> str:
        """The verdict on trained networks, in how many rows their order is real, and the nulls."""
        told = []
        for each in self.sweeps:
            rows = [row for row in self.rows if row.network == each.name]
            words = Counter(str(row.examined.verdict) for row in rows).most_common(1)
            ordered = sum(row.is_ordered for row in rows)
            layers = f" (order real in {ordered} of {len(rows)}, mostly {words[0][0]})" if rows else ""
            told.append(f"{each.name}: {each.verdict}{layers}")
        return "; ".join(told) + "."

    def _facts(self) -> list[tuple[str, str]]:
        depths = ", ".join(map(str, self.depths))
        told = [
            ("networks", f"depths {depths}, {len(self.seeds)} seeds pooled at each, {self.seconds:.1f} s")
        ]
        for each in self.sweeps:
            told.append((each.name, each.reason))
            for finding in each.findings:
                size = finding.norms["root mean square"]
                low, high = size.interval
                told.append(("", f"{finding.weight}: size L^{size.slope:.2f} [{low:.2f}, {high:.2f}]"))
        return told

    def _table(self) -> Table:
        rows = self.rows
        return Table(
            (
                Column("network", [row.network for row in rows], left=True),
                Column("object", [row.examined.name for row in rows], left=True),
                Column("L", [row.depth for row in rows]),
                Column("verdict", [str(row.examined.verdict) for row in rows], left=True),
                Column("p (order)", [row.examined.p_value for row in rows], ".2g"),
                Column(
                    "H",
                    [row.examined.hurst for row in rows],
                    ".2f",
                    interval=(
                        [row.examined.hurst_interval[0] for row in rows],
                        [row.examined.hurst_interval[1] for row in rows],
                    ),
                ),
                Column("noise", [row.examined.noise for row in rows], ".2f"),
                Column("size", [row.size for row in rows], ".3g"),
            ),
            notes=("H: roughness about the mean; 0.5 for independent layers", ""),
        )

    @property
    def _size(self) -> tuple[float, float]:
        return (10.0, 4.0)

    def _draw(self, axes: Axes) -> None:
        """Draw shares of noise and sizes of the first weight against depth, by kind of network."""
        left, right = drawing.panels(axes, 2, gap=0.12)
        name = self.rows[0].examined.name if self.rows else ""
        for place, each in enumerate(self.sweeps):
            rows = [row for row in self.rows if row.network == each.name and row.examined.name == name]
            depths, colour = [row.depth for row in rows], drawing.COLOURS[place]
            noise = [row.examined.noise for row in rows]
            left.plot(depths, noise, "o-", ms=4, color=colour, label=each.name)
            right.plot(depths, [row.size for row in rows], "o-", ms=4, color=colour, label=each.name)
        for panel, what in ((left, "share of noise"), (right, "size of a layer")):
            panel.set_xscale("log", base=2)
            tiny = drawing.width(panel) < TINY
            drawing.label(panel, "" if tiny else "depth L", "" if tiny else what, [drawing.plain(name)])
            drawing.legend(panel, 8)
        left.set_ylim(-0.05, 1.3)
        right.set_yscale("log")
