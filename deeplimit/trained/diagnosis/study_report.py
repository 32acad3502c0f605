"""The result of a study: trained, untrained and shuffled networks in one table over depths."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.fields import Level, Seconds, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import Verdict
from deeplimit.trained.diagnosis.network_report import DECAYING, Examined
from deeplimit.trained.diagnosis.sweep_report import TINY, Null

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAINED, DURING = "trained", "checkpoint"
"""Networks after training, and at a step of it."""


@final
@dataclass(frozen=True, eq=False)
class StudyRow:
    """One weight of the networks of one kind and depth, all seeds pooled.

    Attributes:
        network: "trained", "untrained", "shuffled", or "checkpoint" for networks at a step of training.
        depth: number of layers.
        size: root mean square of the layers' norms, mean over seeds.
        examined: statistics over layers.
        step: step of training, of a checkpoint; else None.
    """

    network: str
    depth: int
    size: float
    examined: Examined
    step: int | None = None

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
    confidence: Level
    seconds: Seconds
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

    def first_ordered(self) -> dict[str, dict[int, int | None]]:
        """Return the first checkpoint at which the order of layers is real, by object and depth.

        None where it is real at no checkpoint. The level of 1 % holds over all objects, depths and steps
        together. Empty where the training function took no `checkpoint`.
        """
        found: dict[str, dict[int, int | None]] = {}
        for row in self._during:
            steps = found.setdefault(row.examined.name, {})
            if steps.setdefault(row.depth) is None and row.is_ordered:
                steps[row.depth] = row.step
        return found

    @property
    def _during(self) -> list[StudyRow]:
        return [row for row in self.rows if row.network == DURING]

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
                if np.isfinite(size.slope):
                    told.append(("", f"{finding.weight}: size L^{size.slope:.2f} [{low:.2f}, {high:.2f}]"))
        for place, (name, steps) in enumerate(self.first_ordered().items()):
            alike: dict[int | None, list[str]] = {}
            for depth, step in steps.items():
                alike.setdefault(step, []).append(str(depth))
            words = "; ".join(
                f"{'at no step' if step is None else f'step {step}'} at L = {', '.join(depths)}"
                for step, depths in alike.items()
            )
            told.append(("" if place else "order first real", f"{name}: {words}"))
        return told

    def _table(self) -> Table:
        rows = self.rows
        steps = (Column("step", [row.step for row in rows]),) if self._during else ()
        return Table(
            (
                Column("network", [row.network for row in rows], left=True),
                *steps,
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
        return (15.0, 4.0) if self._during else (10.0, 4.0)

    def _draw(self, axes: Axes) -> None:
        """Draw shares of noise and sizes of the first weight against depth, by kind of network.

        With checkpoints a third panel has the share of noise at each step.
        """
        count, gap = (3, 0.08) if self._during else (2, 0.12)
        left, right, *third = drawing.panels(axes, count, gap)
        name = self.rows[0].examined.name if self.rows else ""
        for place, each in enumerate(self.sweeps):
            rows = [row for row in self.rows if row.network == each.name and row.examined.name == name]
            depths, colour = [row.depth for row in rows], drawing.COLOURS[place]
            noise = [row.examined.noise for row in rows]
            left.plot(depths, noise, "o-", ms=4, color=colour, label=each.name)
            right.plot(depths, [row.size for row in rows], "o-", ms=4, color=colour, label=each.name)
        for panel, what in ((left, "share of noise"), (right, "size of a layer")):
            panel.set_xscale("log", base=2)
            drawing.depth_ticks(panel, self.depths.tolist())
            tiny = drawing.width(panel) < TINY
            drawing.label(panel, "" if tiny else "depth L", "" if tiny else what, [drawing.plain(name)])
            drawing.legend(panel, 8)
        for panel in third:
            self._draw_course(panel, name)
        left.set_ylim(-0.05, 1.3)
        right.set_yscale("log")
        drawing.number_axis(right)

    def _draw_course(self, axes: Axes, name: str) -> None:
        """Draw the share of noise over steps, filled where the order is real; deep networks dark."""
        from matplotlib import colormaps

        shades = colormaps["viridis"](np.linspace(0.0, 0.9, len(self.depths))[::-1])
        for depth, shade in zip(self.depths, shades, strict=True):
            rows = [row for row in self._during if row.depth == depth and row.examined.name == name]
            points = np.array([(row.step, row.examined.noise, row.is_ordered) for row in rows], dtype=float)
            if len(points):
                real = points[:, 2] > 0
                axes.plot(points[:, 0], points[:, 1], "-", color=shade, lw=1, label=f"L = {depth}")
                axes.plot(points[real, 0], points[real, 1], "o", ms=4, color=shade)
                axes.plot(points[~real, 0], points[~real, 1], "o", ms=4, color=shade, mfc="none")
        tiny = drawing.width(axes) < TINY
        names = ("", "") if tiny else ("step of training", "share of noise (filled: order is real)")
        drawing.label(axes, *names, [drawing.plain(name)])
        drawing.legend(axes, 8)
        axes.set_ylim(-0.05, 1.3)
