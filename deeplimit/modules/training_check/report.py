"""The result of a training check: settings of the optimizer, exponents after a few steps, findings."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

from deeplimit.common import axes as drawing, page
from deeplimit.common.fields import Level, Seconds, Seed, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.training_check import drawing as pictures
from deeplimit.modules.training_check.best_rate import RateDrift
from deeplimit.modules.training_check.findings import TrainingFinding, listed, many
from deeplimit.modules.training_check.judgement import meaning
from deeplimit.modules.training_check.rates import ParameterScaling
from deeplimit.modules.training_check.scaling import BranchTransfer, Power, StreamTransfer
from deeplimit.modules.training_check.widths import WidthTransfer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Status = DepthVerdict


@final
@dataclass(frozen=True, eq=False)
class TrainingCheckReport(Report):
    """What `check_training` found: D depths, S measured numbers of steps, one entry per kind of branch.

    Attributes:
        verdict: "as expected", "not as expected", "cannot tell"; "measured" if nothing was expected.
        model, optimizer: classes of module and optimizer.
        depths: depths (D,).
        steps: numbers of steps after which networks were measured (S,). Verdicts use the last.
        expected: name of the rule that was asked for, or None.
        factor: number by which all learning rates were multiplied, so that no branch is saturated.
        branches: kinds of residual branches, with relative change, coherence and nonlinearity as powers of
            the depth.
        streams: change of the features at the end of each stream, and what the branches' changes add up to.
        parameters: learning rate, epsilon and weight decay of every parameter at each depth.
        findings: what is not as expected: settings by name and factor, measured exponents.
        tolerance, confidence: how far an exponent may be off, and joint level of the intervals.
        seeds, seed, seconds, versions: how it was run.
        reservations: what a reader must know before trusting the numbers.
        citations: key or BibTeX entry of the rule that was asked for.
        width: the coordinate check in width, or None.
        drift: how the best learning rate goes with depth, or None.
    """

    kind = "training-check"
    no_paths = (
        "networks are built, trained for a few steps and dropped. factory(depth) and optimizer(model, depth)"
        " make them again"
    )

    verdict: Status
    model: str
    optimizer: str
    depths: Annotated[tuple[int, ...], Shape("depths")]
    steps: tuple[int, ...]
    expected: str | None
    factor: float
    branches: tuple[BranchTransfer, ...]
    streams: tuple[StreamTransfer, ...]
    parameters: tuple[ParameterScaling, ...]
    findings: tuple[TrainingFinding, ...]
    tolerance: float
    confidence: Level
    seeds: int
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]
    citations: tuple[str, ...] = ()
    width: WidthTransfer | None = None
    drift: RateDrift | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against what was expected, and enough was seen to say so."""
        return self.verdict in ("as expected", "measured")

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if self.findings:
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return f"{self.verdict}: {self.findings[0]}{more}"
        features = ", ".join(each.change[-1].in_words for each in self.streams[:4])
        branches = "; ".join(f"{each.kind} {each.change[-1].in_words}" for each in self.branches[:4])
        more = "; ..." if len(self.branches) > 4 else ""
        return f"{self.verdict}: exponent of the features {features}, of {branches}{more}"

    def _facts(self) -> list[tuple[str, str]]:
        return [("", f"- {finding}") for finding in self.findings]

    def _setting(self) -> list[tuple[str, str]]:
        return [("", self.what)]

    @property
    def what(self) -> str:
        """What was measured, and how, in one line."""
        asked = "nothing expected" if self.expected is None else f"expected {self.expected}"
        slower = "" if self.factor == 1 else f" at {self.factor:.3g} of its learning rates"
        return (
            f"{self.model}, {self.optimizer}{slower}, depths {', '.join(map(str, self.depths))}, after"
            f" {many(self.steps[-1], 'step')}, {asked}, {self.seeds} seeds from {self.seed},"
            f" {self.seconds:.1f} s"
        )

    def _table(self) -> Table:
        return Table(self._columns(), notes=("", *self._lines()))

    def _columns(self) -> tuple[Column, ...]:
        percent = f"({100 * self.confidence:g} %)"
        own = {stream.stream: stream for stream in self.streams}
        return (
            Column("residual branch", [branch.kind for branch in self.branches], left=True),
            Column(
                f"change, L={self.depths[0]}",
                [branch.change[-1].values[0] for branch in self.branches],
                ".3g",
                left=True,
            ),
            _exponents("size", [branch.size for branch in self.branches]),
            _exponents(f"change {percent}", [branch.change[-1] for branch in self.branches], interval=True),
            _exponents("coherence", [branch.coherence[-1] for branch in self.branches]),
            _exponents(
                f"nonlinearity {percent}",
                [branch.nonlinearity[-1] for branch in self.branches],
                interval=True,
            ),
            Column(
                "meaning",
                [meaning(branch, own[branch.stream]) for branch in self.branches],
                left=True,
            ),
        )

    def _lines(self) -> list[str]:
        """Return one line per stream, and those for branches from zero, for widths and for learning rates."""
        lines = [self._stream_line(stream) for stream in self.streams]
        zero = [branch.kind for branch in self.branches if branch.starts_at_zero]
        if zero:
            lines.append(
                f"zero before training: {listed(zero)}; their change is relative to the size of the stream"
            )
        if self.width is not None:
            lines.append(self.width.in_words)
        if self.drift is not None:
            lines.append(self.drift.in_words(self.depths))
        return lines

    def _stream_line(self, stream: StreamTransfer) -> str:
        values = ", ".join(f"{value:.3g}" for value in stream.change[-1].values)
        return (
            f"stream {stream.stream + 1}: features move by {values}, exponent {stream.change[-1].in_words};"
            f" the branches' changes add up with exponent {stream.sum[-1].in_words}"
        )

    @property
    def _title(self) -> str:
        return f"Training of {self.model} over depth: {self.verdict}"

    @property
    def _size(self) -> tuple[float, float]:
        return (8.0, 5.0)

    def _draw(self, axes: Axes) -> None:
        """Draw the change of the features and of every kind of branch against depth, over the shallowest."""
        pictures.over_depths(axes, self.depths, self.branches, self.streams)
        y = (
            "relative"
            if drawing.is_small(axes)
            else f"after {many(self.steps[-1], 'step')}, over that at depth {self.depths[0]}"
        )
        drawing.label(axes, "depth", y, [f"{self.model}, {self.optimizer}: {self.verdict}"])
        (drawing.legend_above if drawing.is_small(axes) else drawing.legend)(axes, 8)

    def _sections(self) -> list[page.Section]:
        return [
            ("", f'<p class="what">{html.escape(self.what)}</p>'),
            ("Findings", page.items(map(str, self.findings))),
            ("Residual branches: exponents of the depth", Table(self._columns()).to_html()),
            ("Streams", page.items(self._lines())),
            ("Change against depth", drawing.to_svg(self._draw, self._size)),
            *self._drift_section(),
            ("Settings of the optimizer", self._settings().to_html()),
            ("Caveats", page.items(self.reservations)),
        ]

    def _drift_section(self) -> list[page.Section]:
        drift = self.drift
        if drift is None:
            return []
        picture = drawing.to_svg(lambda axes: pictures.over_rates(axes, self.depths, drift), self._size)
        return [("Loss against learning rate", picture)]

    def _settings(self) -> Table:
        """Return the settings of every parameter at its shallowest and deepest network."""
        columns = [
            Column("parameter", [each.parameter for each in self.parameters], left=True),
            Column("role", [each.role for each in self.parameters], left=True),
        ]
        for words, setting in (("learning rate", "rate"), ("epsilon", "epsilon"), ("weight decay", "decay")):
            for place, depth in ((0, self.depths[0]), (-1, self.depths[-1])):
                values = [each.values(setting)[place] for each in self.parameters]
                columns.append(Column(f"{words}, L={depth}", values, ".4g"))
        return Table(tuple(columns))


def _exponents(title: str, powers: list[Power], *, interval: bool = False) -> Column:
    values = [math.nan if each.exponent is None else each.exponent for each in powers]
    ends = [each.interval or (math.nan, math.nan) for each in powers]
    return Column(
        title,
        values,
        lambda value: "-" if math.isnan(value) else f"{value:+.2f}",
        interval=([end[0] for end in ends], [end[1] for end in ends]) if interval else None,
        left=True,
    )
