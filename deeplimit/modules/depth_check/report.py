"""The result of a depth check: every kind of residual branch, what it is and what it should be."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing, page
from deeplimit.common.curve import Curve
from deeplimit.common.fields import Level, Seconds, Seed, Shape
from deeplimit.common.report import Column, Report, Table, one_line
from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check import drawing as pictures, page as tables
from deeplimit.modules.depth_check.findings import Finding, grouped
from deeplimit.modules.depth_check.rules import RULES
from deeplimit.modules.depth_check.scaling import BranchScaling
from deeplimit.modules.depth_check.stream_scaling import StreamScaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Status = DepthVerdict


@final
@dataclass(frozen=True, eq=False)
class DepthReport(Report):
    """What `check_depth` or `probe` found: D depths, one `BranchScaling` per kind of residual branch.

    Attributes:
        verdict: "as expected", "not as expected", "cannot tell"; "measured" if nothing was expected.
        model: class of the module.
        depths, parameters: depths, and numbers of parameters there (D,).
        expected: exponent or name of the rule that was asked for, or None.
        branches: kinds of branches in order of execution, with sizes, exponent, meaning and parts.
        statuses: one verdict per kind of branch.
        streams: each residual stream: growth of the state and of the loss's gradient, gain of the skip, and
            what follows.
        stream_statuses: one verdict per stream.
        trained: whether the weights are taken as trained, and no rule about initialisations is judged.
        findings: what is not as expected: parameter, factor, message.
        tolerance, confidence: how far an exponent may be off, and level of its interval.
        seed, seconds, versions: how it was run.
        reservations: what a reader must know before trusting the numbers.
        citations: key or BibTeX entry of the rule that was asked for.
    """

    kind = "depth"
    no_paths = (
        "a module is built and run once per depth, on one batch. probe(factory(depth), batch) measures it at"
        " one depth, and stability(factory, x=x) draws networks again"
    )

    verdict: Status
    model: str
    depths: Annotated[tuple[int, ...], Shape("depths")]
    parameters: Annotated[tuple[int, ...], Shape("depths")]
    expected: float | str | None
    branches: Annotated[tuple[BranchScaling, ...], Shape("branches")]
    statuses: Annotated[tuple[Status, ...], Shape("branches")]
    streams: tuple[StreamScaling, ...]
    findings: tuple[Finding, ...]
    tolerance: float
    confidence: Level
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]
    citations: tuple[str, ...] = ()
    stream_statuses: tuple[Status, ...] = ()
    trained: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against what was expected, and enough was seen to say so."""
        return self.verdict in (DepthVerdict.AS_EXPECTED, DepthVerdict.MEASURED)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if self.findings:
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return one_line(f"{self.verdict}: {self.findings[0]}{more}")
        seen = "; ".join(f"{kind.kind} {kind.in_words}" for kind in self.branches[:4]) + (
            "; ..." if len(self.branches) > 4 else ""
        )
        return one_line(f"{self.verdict}: {seen}")

    @property
    def in_one_line(self) -> str:
        """The verdict and what to know before trusting it, without characters that a terminal would obey."""
        return one_line("; ".join([self.headline, *self.reservations]))

    @property
    def largest_updates(self) -> tuple[tuple[str, int, float], ...]:
        """Kind, number of the layer and update/stream of the three layers that change the stream most."""
        every = [
            (branch.kind, number, ratio)
            for branch in self.branches
            for number, ratio in zip(branch.numbers, branch.layers, strict=False)
        ]
        return tuple(sorted(every, key=lambda item: -item[2])[:3])

    def _facts(self) -> list[tuple[str, str]]:
        return [("", f"- {told}") for told in grouped(self.findings)]

    def _setting(self) -> list[tuple[str, str]]:
        return [("", self.what)]

    @property
    def what(self) -> str:
        """What was measured, and how, in one line."""
        depths = (
            f"depths {', '.join(map(str, self.depths))}"
            if len(self.depths) > 1
            else f"{self.depths[0]} residual branches"
        )
        asked = "nothing expected" if self.expected is None else f"expected {self.wanted}"
        return (
            f"{self.model}, {depths}, {_count(self.parameters[-1])} parameters, {asked}, seed {self.seed},"
            f" {self.seconds:.1f} s"
        )

    @property
    def wanted(self) -> str:
        """What was expected, in words."""
        if isinstance(self.expected, str):
            rule = RULES.get(self.expected)
            return f"{self.expected} ({rule.formula}; {rule.source})" if rule is not None else self.expected
        return "nothing" if self.expected is None else f"exponent {self.expected:g} for every branch"

    def _table(self) -> Table:
        ends = (0, -1) if len(self.depths) > 1 else (0,)
        return Table(self._columns(ends), notes=("", *self._streams()))

    def _columns(self, places: Sequence[int]) -> tuple[Column, ...]:
        """Return what is known of each kind of branch, with its updates at the depths of these places."""
        several = len(self.depths) > 1
        kinds = self.branches
        columns = [Column("residual branch", [one_line(kind.kind) for kind in kinds], left=True)]
        for place in places:
            heading = f"update/stream, L={self.depths[place]}" if several else "update/stream"
            columns.append(Column(heading, [kind.ratios[place] for kind in kinds], _size, left=True))
        if several:
            intervals = [kind.exponent_interval or (float("nan"),) * 2 for kind in kinds]
            low, high = ([interval[end] for interval in intervals] for end in (0, 1))
            columns += [
                Column(
                    f"exponent ({100 * self.confidence:g} %)",
                    [float("nan") if kind.exponent is None else kind.exponent for kind in kinds],
                    lambda value: "-" if math.isnan(value) else f"{value:.2f}",
                    interval=(low, high),
                    left=True,
                ),
                Column("alignment", [kind.alignment for kind in kinds], ".2f", left=True),
                Column("meaning", [kind.meaning for kind in kinds], left=True),
            ]
        else:
            gains = [
                next((part.sizes[0] for part in kind.parts if part.role == "gain"), None) for kind in kinds
            ]
            normalised = ["yes" if kind.normalised else "no" for kind in kinds]
            columns += [
                Column("normalised", normalised, left=True),
                Column("gain", gains, ".3g", left=True),
            ]
            if self.trained:
                columns += [
                    Column("alignment", [kind.alignment for kind in kinds], ".2f", left=True),
                    Column("meaning", [kind.meaning for kind in kinds], left=True),
                ]
        return tuple(columns)

    def _streams(self) -> list[str]:
        lines = []
        if self.trained:
            largest = (f"{kind} {number} ({ratio:.3g})" for kind, number, ratio in self.largest_updates)
            lines.append(f"largest updates, by layer: {', '.join(largest)}")
        for stream in self.streams:
            gradient = tables.series(stream.gradient_growth)
            backwards = f", gradient backwards {gradient}" if gradient else ""
            name = f"stream {stream.stream + 1}"
            lines.append(f"{name}: state grows {tables.series(stream.growth)}{backwards}")
            if stream.meaning:  # which files of earlier versions lack
                lines.append(f"{name}: skip {stream.skip[-1]:.4g}, {stream.meaning}: {stream.follows}")
        return lines

    @property
    def _title(self) -> str:
        return f"Depth scaling of {self.model}: {self.verdict}"

    @property
    def _size(self) -> tuple[float, float]:
        return (8.0, 5.0)

    def _curves(self) -> list[Curve]:
        """Return the size of each kind of branch's update at the same stream, where depths have one."""
        depths = np.array(self.depths)
        found = []
        for kind in self.branches:
            if len(depths) < 2 or not all(kind.probed) or len(kind.probed) != len(depths):
                continue
            low, high = np.array([np.quantile(layers, (0.25, 0.75)) for layers in kind.probed]).T
            rate = math.nan if kind.exponent is None else kind.exponent
            found.append(
                Curve(
                    kind.kind,
                    "update at the same stream",
                    depths,
                    np.array(kind.sizes),
                    low,
                    high,
                    "quartiles of layers",
                    rate,
                    kind.exponent_interval or (math.nan, math.nan),
                    "exponent",
                    -rate,
                )
            )
        return found

    def _draw(self, axes: Axes) -> None:
        """Draw the size of every kind of branch's update against depth, with its power law; or against
        layers at one depth.
        """
        if len(self.depths) > 1:
            rule = RULES.get(self.expected) if isinstance(self.expected, str) else None
            number = self.expected if isinstance(self.expected, float) else None
            wanted = number if rule is None else rule.exponent
            pictures.over_depths(axes, self.depths, self.branches, self.statuses, wanted)
            x, y = "depth", f"update at the same stream, over that at depth {self.depths[0]}"
            title = f"{self.model}: {self.verdict}"
        else:
            pictures.over_layers(axes, self.branches)
            x, y = "layer", "update over stream"
            title = f"{self.model}, {self.depths[0]} residual branches: {self.verdict}"
        drawing.label(axes, x, "relative update" if drawing.is_small(axes) else y, [title])
        drawing.legend(axes, 8, **({"loc": "lower left"} if len(self.depths) > 1 else {}))

    def _sections(self) -> list[page.Section]:
        branches = self._columns(range(len(self.depths)))
        verdicts = Column("verdict", self.statuses, left=True)
        return [
            ("", f'<p class="what">{html.escape(self.what)}</p>'),
            ("Findings", tables.findings_list(grouped(self.findings))),
            ("Residual branches", Table((*branches, verdicts)).to_html()),
            ("Update against depth", drawing.to_svg(self._draw, self._size)),
            ("Parts of the branches", tables.parts_table(self.depths, self.branches).to_html()),
            ("Streams", tables.streams_table(self.streams).to_html()),
            ("Caveats", page.items(self.reservations)),
            ("Terms", tables.terms()),
        ]


def _size(value: float) -> str:
    """Return a size; "-" where a depth has no such branch."""
    return "-" if math.isnan(value) else f"{value:.3g}"


def _count(number: int) -> str:
    for unit, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return str(number)
