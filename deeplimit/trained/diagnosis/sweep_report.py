"""The result of a sweep over depths: verdict, exponents, norms with their slopes, the published steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.fields import Interval, Level, Seconds, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import RegimeVerdict, Verdict
from deeplimit.trained.diagnosis.published_steps import PublishedSteps
from deeplimit.trained.diagnosis.variogram import Variogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Word = RegimeVerdict
PerNetwork = Annotated[np.ndarray, Shape("networks")]
Intervals = Annotated[np.ndarray, Shape("networks 2")]
SIZES = ("maximum", "root mean square", "root sum of squares", "sup of partial sums")
DIFFERENCES = ("increments", "D", "D2", "D4")
"""Quantities in the first and in the second panel."""
MARKERS = ("o", "s", "^", "D")
TINY = 2.0
"""Narrowest panel, in inches, that has a legend and names on its axes."""
DEEPEST = 4
"""Lines are fitted to the deepest network, and to those at most this many times shallower."""


@final
@dataclass(frozen=True, eq=False)
class Quantity:
    """A quantity of n networks, and its slope in depth on logarithmic scales.

    Attributes:
        values: one number per network (n,).
        slope, interval: the slope and its interval; NaN where it is not determined.
    """

    values: PerNetwork
    slope: float
    interval: Interval


@final
@dataclass(frozen=True, eq=False)
class Finding:
    """What n networks say of one weight.

    Attributes:
        weight: what it is called: "A", "b", "|δ|A".
        verdict, reason, rule: the verdict on this weight alone.
        norms: quantities by name, those of the paper and those that repair them.
        beta, holder, hurst: exponent of the trend's size, Hölder exponent of the trend, Hurst index of the
            noise; NaN where the verdict leaves none. Each has its `_interval`.
        trend_share, noise_share: shares of trend and noise in the sum of squares (n,), by fourth differences.
            Each has its `_interval` (n, 2), which counts the sampling error of noise that is new in every
            layer. What a rough trend adds to fourth differences counts as noise.
        variogram: differences of layers by their distance in the deepest network.
        trend_p_value: probability that networks without a trend are as alike in their slow components.
    """

    weight: str
    verdict: Word
    reason: str
    rule: str
    norms: dict[str, Quantity]
    beta: float
    beta_interval: Interval
    holder: float
    holder_interval: Interval
    hurst: float
    hurst_interval: Interval
    trend_share: PerNetwork
    trend_share_interval: Intervals
    noise_share: PerNetwork
    noise_share_interval: Intervals
    variogram: Variogram
    trend_p_value: float


@final
@dataclass(frozen=True, eq=False)
class Null:
    """What networks say in which training left nothing to find.

    Attributes:
        name: "untrained", as the factory makes them, or "shuffled", trained layers in a random order.
        verdict, reason: the verdict on these networks.
        findings: what was found of each weight; empty where they could not be measured.
    """

    name: str
    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...]


@final
@dataclass(frozen=True, eq=False)
class DepthDiagnosis(Report):
    """What `diagnose` found in weights of n networks of several depths.

    Attributes:
        verdict: "linear-ode" (Hypothesis 1 of Cohen et al., 2021), "neural-ode", "sde" (Hypothesis 2),
            "sparse", "no trend" or "cannot tell".
        reason, rule: why, in a sentence, and the name of the rule that decided.
        depths: number of layers of each network (n,); depths repeat where there are several seeds.
        weight: the weight on which the verdict rests.
        findings: what was found of each weight.
        alpha, alpha_interval: the residual factors shrink like L^-alpha; None where none are given.
        published: what the steps of the paper say, and why that differs.
        homogeneous: whether weights are multiplied by the sizes of the residual factors.
        confidence: level of the intervals. Verdicts rest on intervals of 99 %.
        seconds, versions: how it was run.
        reservations: what to know before trusting the numbers.
        nulls: untrained and shuffled networks of the same depths; empty where no null is given.
    """

    kind = "depth-diagnosis"
    no_paths = "weights are given, so that nothing is drawn. Call diagnose on the weights again"

    verdict: Word
    reason: str
    rule: str
    depths: Annotated[np.ndarray, Shape("networks", whole=True)]
    weight: str
    findings: tuple[Finding, ...]
    alpha: float | None
    alpha_interval: Interval | None
    published: PublishedSteps
    homogeneous: bool
    confidence: Level
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]
    nulls: tuple[Null, ...] = ()

    @property
    def finding(self) -> Finding:
        """What was found of the weight on which the verdict rests."""
        return next(each for each in self.findings if each.weight == self.weight)

    @property
    def beta(self) -> float:
        """The trend's size is L^-beta; NaN where no trend is found."""
        return self.finding.beta

    @property
    def beta_interval(self) -> Interval:
        """Interval of `beta`."""
        return self.finding.beta_interval

    @property
    def holder(self) -> float:
        """The Hölder exponent of the trend, at most 1; NaN where noise hides it."""
        return self.finding.holder

    @property
    def holder_interval(self) -> Interval:
        """Interval of `holder`."""
        return self.finding.holder_interval

    @property
    def hurst(self) -> float:
        """The Hurst index of the noise; NaN where no noise remains."""
        return self.finding.hurst

    @property
    def hurst_interval(self) -> Interval:
        """Interval of `hurst`."""
        return self.finding.hurst_interval

    @property
    def norms(self) -> dict[str, dict[str, Quantity]]:
        """Quantities by weight and name."""
        return {each.weight: each.norms for each in self.findings}

    @property
    def trend(self) -> np.ndarray:
        """Share of the trend in the sum of squares of each network (n,), of the weight that decides."""
        return self.finding.trend_share

    @property
    def trend_interval(self) -> np.ndarray:
        """Intervals of `trend` (n, 2)."""
        return self.finding.trend_share_interval

    @property
    def noise(self) -> np.ndarray:
        """Share of the noise (n,)."""
        return self.finding.noise_share

    @property
    def noise_interval(self) -> np.ndarray:
        """Intervals of `noise` (n, 2)."""
        return self.finding.noise_share_interval

    @property
    def headline(self) -> str:
        """The verdict and its reason in one line."""
        return f"{self.verdict}: {self.reason}."

    def _facts(self) -> list[tuple[str, str]]:
        finding = self.finding
        named = (
            ("α", self.alpha, self.alpha_interval),
            ("β", finding.beta, finding.beta_interval),
            ("Hölder", finding.holder, finding.holder_interval),
            ("Hurst", finding.hurst, finding.hurst_interval),
        )
        told = [
            f"{name} = {value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"
            for name, value, interval in named
            if value is not None and interval is not None and math.isfinite(value)
        ]
        percent = f"{100 * self.confidence:g} %"
        published = f"{self.published.verdict} by the published steps"
        if self.published.difference:
            published += f": {self.published.difference}"
        nulls = [(null.name, f"{null.verdict}: {null.reason}") for null in self.nulls]
        return [
            ("weights", f"{len(self.depths)} networks, depths {', '.join(map(str, np.unique(self.depths)))}"),
            ("exponents", f"{'; '.join(told)} ({percent})" if told else "none is identified"),
            ("paper", published),
            *nulls,
        ]

    def _table(self) -> Table:
        rows = [(each, name) for each in self.findings for name in each.norms]
        kinds = ["trained"] * len(rows)
        for null in self.nulls:
            more = [(each, name) for each in null.findings for name in each.norms]
            rows += more
            kinds += [null.name] * len(more)
        quantities = [each.norms[name] for each, name in rows]
        low, high = ([quantity.interval[end] for quantity in quantities] for end in (0, 1))
        deepest = ("last, " if self.depths[0] == self.depths[-1] else "") + f"L = {self.depths[-1]}"
        return Table(
            (
                *([Column("network", kinds, left=True)] if self.nulls else []),
                Column("weight", [each.weight for each, _ in rows], left=True),
                Column("quantity", [name for _, name in rows], left=True),
                Column(f"L = {self.depths[0]}", [quantity.values[0] for quantity in quantities], ".3g"),
                Column(deepest, [quantity.values[-1] for quantity in quantities], ".3g"),
                Column(
                    "slope",
                    [quantity.slope for quantity in quantities],
                    lambda slope: "-" if math.isnan(slope) else f"{slope:+.2f}",
                    interval=(low, high),
                ),
            ),
            title=f"slopes in log depth, {100 * self.confidence:g} % intervals; verdicts rest on 99 %",
            notes=("", "The published steps (Cohen et al., 2021, Section 2):", *self.published.steps),
        )

    def _sources(self) -> list[str]:
        return ["cohen2021"]

    @property
    def _size(self) -> tuple[float, float]:
        return (10.0, 7.6)

    def _draw(self, axes: Axes) -> None:
        """Draw norms and differences against depth, shares of trend and noise, and the deepest variogram."""
        finding = self.finding
        four = drawing.panels(axes, 4, columns=2)
        tiny = drawing.width(four[0]) < TINY
        for panel, names, what in (
            (four[0], SIZES, "sizes and sums"),
            (four[1], DIFFERENCES, "differences"),
        ):
            for place, name in enumerate(names):
                quantity = finding.norms[name]
                shown = quantity.values > 0
                panel.plot(
                    self.depths[shown],
                    quantity.values[shown],
                    MARKERS[place],
                    color=drawing.COLOURS[place],
                    ms=2 if drawing.is_small(panel) else 5,
                    label=name if math.isnan(quantity.slope) else f"{name}: {quantity.slope:+.2f}",
                )
                _draw_line(panel, self.depths, quantity, drawing.COLOURS[place])
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            drawing.label(panel, "" if tiny else "depth L", "", [what])
        _draw_shares(four[2], self.depths, finding)
        _draw_variogram(four[3], finding.variogram)
        if not tiny:
            for panel in four:
                drawing.legend(panel, 8, **({"loc": "center right"} if panel is four[2] else {}))
            axes.set_title(
                f"{drawing.plain(finding.weight)}: {self.verdict}", fontsize=drawing.points(axes, 11), pad=18
            )


def _draw_shares(panel: Axes, depths: np.ndarray, finding: Finding) -> None:
    """Draw shares of trend and noise per network with their intervals."""
    small = drawing.is_small(panel)
    shares = (
        ("trend", finding.trend_share, finding.trend_share_interval, 0.97),
        ("noise", finding.noise_share, finding.noise_share_interval, 1.03),
    )
    for place, (name, share, ends, shift) in enumerate(shares):
        away = np.abs(ends.T - share)
        panel.errorbar(
            depths * shift,
            share,
            yerr=away,
            fmt=MARKERS[place],
            color=drawing.COLOURS[place],
            ms=2 if small else 4,
            lw=1,
            label=name,
        )
    panel.set_xscale("log", base=2)
    panel.set_ylim(-0.03, 1.03)
    drawing.label(panel, "" if drawing.width(panel) < TINY else "depth L", "", ["shares of trend and noise"])


def _draw_variogram(panel: Axes, found: Variogram) -> None:
    """Draw half the mean squared difference of layers by their distance, and the fitted law."""
    law = f"{found.nugget:.2g}"
    if found.slope > 0:
        law += f" + {found.slope:.2g} (h/L)^{found.power:.2f}"
    shown = found.values > 0
    panel.plot(found.lags[shown], found.values[shown], "o", color=drawing.MEASURED, ms=3, label="deepest")
    panel.plot(found.lags, np.maximum(found.fitted, 1e-300), "-", color=drawing.FITTED, lw=1, label=law)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    if shown.any():
        panel.set_ylim(found.values[shown].min() / 1.6, found.values.max() * 1.6)
    if found.values.max() < 2.5 * found.values.min():
        drawing.number_axis(panel)
    x = "" if drawing.width(panel) < TINY else "distance h of layers"
    drawing.label(panel, x, "", ["variogram, deepest"])


def _draw_line(panel: Axes, depths: np.ndarray, quantity: Quantity, colour: str) -> None:
    """Draw the fitted power law through the deepest networks: small depths may not follow it yet."""
    shown = (quantity.values > 0) & (depths >= depths.max() / DEEPEST)
    if math.isnan(quantity.slope) or not shown.any():
        return
    ends = np.array([depths.min(), depths.max()], float)
    centre = np.log(quantity.values[shown]).mean() - quantity.slope * np.log(depths[shown]).mean()
    panel.plot(ends, np.exp(centre + quantity.slope * np.log(ends)), "-", color=colour, lw=0.8, alpha=0.7)
