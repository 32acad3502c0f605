"""The result of a comparison: errors and the fitted order, with a table and a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import FITTED, MEASURED, PREDICTED
from deeplimit.common.curve import Curve
from deeplimit.common.fields import (
    Count,
    CountPerDepth,
    Depths,
    Interval,
    Level,
    PerDepth,
    Seconds,
    Seed,
    Shape,
)
from deeplimit.common.report import REPEAT, Column, Report, Table
from deeplimit.common.verdict import ConvergenceVerdict
from deeplimit.simulation.gradients import LOSS
from deeplimit.simulation.one_path import OnePath
from deeplimit.simulation.task import GRADIENT, STATE
from deeplimit.statistics.adaptive_sampling import InterimAnalysis, RequiredSampleSize, analyses, required

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PART = "tab:gray"
"""Colour of the two parts of an error, where it is split."""
BetweenDepths = Annotated[np.ndarray, Shape("depths-1")]
PerStep = Annotated[np.ndarray, Shape("steps")]
NORMS = {
    "sup": "sup over the layer grid",
    "sup-continuous": "sup over all times t of |H_t - h_floor(tL)|",
    "final": "at the last layer",
}
DISTANCES = {
    "sup": "largest distance over layers",
    "sup-continuous": "largest distance over time",
    "final": "final distance",
}

OVER_COMMON_TIMES = "sup over the times that all depths share"
COMMON_NORMS = {**dict.fromkeys(NORMS, OVER_COMMON_TIMES), "final": NORMS["final"]}
COMMON_DISTANCES = {**dict.fromkeys(NORMS, "largest distance over common times"), "final": "final distance"}
"""The same where medians are taken, of distances at the times that all depths share."""
MEAN, MEDIAN = "mean", "median"

OF_LOSS = f"by the state of each layer, ∂ℓ(h_L)/∂h_k, of the loss {LOSS}"
UNRESOLVED = "no order of the network is given: these paths and depths do not resolve it"
NO_THEOREM = {STATE: "none pairs these two", GRADIENT: "none is about gradients of this pair"}


@dataclass(frozen=True)
class PartOfError:
    """One of two parts of an error, at the times that all depths share; arrays (m,) and (m - 1,).

    Attributes:
        name: what it is.
        errors, standard_errors: its size, corrected for the reference's error.
        local_slopes, local_slope_errors: orders between neighbouring depths.
        rate, rate_interval: its fitted order; NaN where none is given.
    """

    name: str
    errors: PerDepth
    standard_errors: PerDepth
    local_slopes: PerStep
    local_slope_errors: PerStep
    rate: float
    rate_interval: Interval


@final
@dataclass(frozen=True, eq=False)
class CompareReport(Report):
    """What `compare` measured, with its uncertainty and its reservations.

    Arrays have one entry per depth (m,).

    Attributes:
        verdict: "converges", "does not converge" or "cannot tell".
        reason: why, in one sentence.
        network, limit: both sides, as formulas.
        regime, theorem: what theory says of this network; theorem is None if it does not pair the two.
        predicted_rate: order by that theorem, or None.
        depths: numbers of layers.
        errors, standard_errors: errors e_L in the chosen norm, corrected for the reference's error; infinite
            where a path was not finite.
        raw_errors: errors before that correction.
        common_errors, common_standard_errors: the same over the times that all depths share. The order is
            fitted to these (to `errors` for "sup-continuous"), because a maximum over more and more layers
            approaches its constant slowly.
        rate, rate_interval: order r of e_L ~ constant · L**-r, with its interval; NaN where nothing can be
            fitted.
        constant: factor of that power law.
        confidence: level of the order's interval.
        local_slopes, local_slope_errors: orders between neighbouring depths, with standard errors (m - 1,).
        floor, floor_lower, floor_upper: share of the deepest squared error that remains at infinite depth:
            median and bounds at 95 % each.
        floor_probability: probability that this share is more than one half. Where the error has `parts`,
            more than half of the first part's square, or a sixth of the whole if that is more.
        diverged: paths that were not finite.
        worst: error of the worst path; infinite where one was lost.
        kurtosis: kurtosis of the per-path errors to the power p.
        norm, p: how errors of one path, and of all paths, are put together.
        paths, seed, device, dtype, seconds, versions: how it was run.
        coupling: noise that network and limit share.
        inputs: where the paths start.
        reference, reference_error: solver of the limit, and its error (0 where theory corrects for it).
        reservations: what to know before trusting the numbers.
        citations: keys or BibTeX entries of the theorem and of the methods that were used.
        rule: name of the rule that decided.
        looks: analyses of an adaptive call, the last of which this report is; empty for a call of fixed size.
        needs: what an adaptive call that cannot tell, or did not end, would measure next, and how long that
            would take.
        predicted_is_bound: whether `predicted_rate` is only a lower bound of the order.
        parts: of an equation that is not the table's own, the error's two parts: the network's distance to
            its scheme on the same layers, and the scheme's to the equation. The order is that of the part
            that falls more slowly. Whether the limit is the network's shows in the first part. Else empty.
        quantity: "state", or "gradient": what network and limit were compared in.
        average: "mean" where errors are L^p means over paths. "median" where a few paths make up every
            mean, or are not finite: errors are then medians of distances at the times that all depths share,
            and p plays no part. `raw_errors` are means in both cases.
    """

    kind = "compare"
    no_paths = REPEAT

    verdict: ConvergenceVerdict
    reason: str
    network: str
    limit: str
    regime: str
    theorem: str | None
    predicted_rate: float | None
    depths: Depths
    errors: PerDepth
    standard_errors: PerDepth
    raw_errors: PerDepth
    common_errors: PerDepth
    common_standard_errors: PerDepth
    rate: float
    rate_interval: Interval
    constant: float
    confidence: Level
    local_slopes: BetweenDepths
    local_slope_errors: BetweenDepths
    floor: float
    floor_lower: float
    floor_upper: float
    floor_probability: float
    diverged: CountPerDepth
    worst: PerDepth
    kurtosis: PerDepth
    norm: str
    p: float
    paths: Count
    seed: Seed
    coupling: str
    inputs: str
    reference: str
    reference_error: float
    device: str
    dtype: str
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]
    citations: tuple[str, ...] = ()
    rule: str = ""
    looks: tuple[InterimAnalysis, ...] = ()
    needs: RequiredSampleSize | None = None
    parts: tuple[PartOfError, ...] = ()
    predicted_is_bound: bool = False
    quantity: str = STATE
    average: str = MEAN

    @property
    def headline(self) -> str:
        """The verdict and its reason."""
        return f"{self.verdict}: {self.reason}."

    def _facts(self) -> list[tuple[str, str]]:
        low, high = self.rate_interval
        unresolved = self.verdict == "converges" and not np.isfinite(self.rate)
        order = [UNRESOLVED] if unresolved else []
        if np.isfinite(self.rate):
            none = "no theorem predicts one" if self.theorem is None else "the theorem gives none"
            least = "at least " if self.predicted_is_bound else ""
            predicted = none if self.predicted_rate is None else f"predicted {least}{self.predicted_rate:g}"
            interval = f"[{low:.{self.digits}f}, {high:.{self.digits}f}]"
            percent = f"{100 * self.confidence:g} %"
            of = [part.name for part in self.parts if part.rate == self.rate]
            whose = f" ({of[0]})" if len(of) == 1 < len(self.parts) else ""
            order = [f"order {self.rate:.{self.digits}f}{whose}, {percent} interval {interval}, {predicted}"]
        return [
            *(("", text) for text in order),
            *(("part", _told(part, self.digits)) for part in self.parts),
            *required(self.needs, "paths", self.verdict != "cannot tell"),
        ]

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("network", self.network),
            ("limit", self.limit),
            *((("gradients", OF_LOSS),) if self.quantity == GRADIENT else ()),
            ("theorem", self.theorem or NO_THEOREM[self.quantity]),
            ("noise", self.coupling),
            ("inputs", self.inputs),
            ("reference", self.reference),
            (
                "",
                f"{self.paths} paths, {self._average}, seed {self.seed},"
                f" {self.dtype} on {self.device}, {self.seconds:.1f} s",
            ),
            *analyses(self.looks),
        ]

    def path(self, index: int, which: int = 0) -> OnePath:
        """Draw one path of the comparison again.

        Args:
            index: Number of the path, from 0.
            which: Number of the input, where several went through one network (`same_network`).

        Returns:
            The states of the network at every depth and of the limit, and the path's errors; `plot`
            draws them.

        Raises:
            TypeError: For numbers of another kind.
            ValueError: For numbers that the comparison does not have, a report from a file of a user's own
                network or limit, which no file can hold, and noise that was drawn on a GPU.

        Examples:
            >>> import deeplimit as dl
            >>> report = dl.compare(dl.res1(4, "tanh"), depths=[8, 16, 32], paths=64)
            >>> path = report.path(5)
            >>> path.states[16].shape, path.errors.shape
            ((17, 4), (3,))
        """
        path: OnePath = self._path(index, which)
        return path

    def _table(self) -> Table:
        before = [math.nan] * (len(self.depths) > 0)
        slopes, slope_errors = [*before, *self.local_slopes], [*before, *self.local_slope_errors]
        return Table(
            (
                Column("depth", self.depths),
                Column("error", self.errors, ".4g"),
                Column("std. error", self.standard_errors, ".2g"),
                Column("at common times", self.common_errors, ".4g"),
                Column("local slope", slopes, ".3f", error=slope_errors),
                Column("worst path", self.worst, ".4g"),
                Column("diverged", self.diverged),
                *([Column("average", [self.average] * len(self.depths))] * self.takes_medians),
            )
        )

    @property
    def digits(self) -> int:
        """Decimals of the order that its interval supports: two of the interval's width, from 3 to 6."""
        low, high = self.rate_interval
        width = high - low if np.isfinite(high - low) else 1.0
        return min(6, max(3, 1 - math.floor(math.log10(max(width, 1e-9)))))

    def _curves(self) -> list[Curve]:
        half = np.where(np.isfinite(self.errors), 1.96 * self.standard_errors, 0.0)  # lost paths have no bar
        return [
            Curve(
                "error",
                self._axis,
                self.depths,
                self.errors,
                self.errors - half,
                self.errors + half,
                rate=self.rate,
                interval=self.rate_interval,
                slope=-self.rate,
            )
        ]

    @property
    def takes_medians(self) -> bool:
        """Whether errors are medians over paths, and not means."""
        return self.average == MEDIAN

    @property
    def _average(self) -> str:
        if self.takes_medians:
            return f"medians over paths, {COMMON_NORMS.get(self.norm, self.norm)}"
        return f"{NORMS.get(self.norm, self.norm)}, p = {self.p:g}"

    @property
    def _axis(self) -> str:
        of = " of gradients" if self.quantity == GRADIENT else ""
        distances = COMMON_DISTANCES if self.takes_medians else DISTANCES
        return f"{self._mean} {distances.get(self.norm, self.norm)}{of}"

    @property
    def _mean(self) -> str:
        if self.takes_medians:
            return MEDIAN
        return {1.0: "mean", 2.0: "root mean square"}.get(self.p, f"$L^{{{self.p:g}}}$ mean")

    def _draw(self, axes: Axes) -> None:
        """Draw errors against depth, log-log, with the fitted and the predicted slope."""
        small = drawing.is_small(axes)
        good = np.isfinite(self.errors) & (self.errors > 0)
        depths, errors = self.depths[good].astype(float), self.errors[good]
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        measured = "measured median" if self.takes_medians else "measured"
        if len(depths):
            axes.errorbar(
                depths,
                errors,
                yerr=1.96 * self.standard_errors[good],
                fmt="o",
                color=MEASURED,
                markersize=4,
                capsize=4,
                label=f"{measured} (95 %)" if small else f"{measured} error, {self.paths} paths (bars: 95 %)",
                zorder=3,
            )
        for part, marker in zip(self.parts, ("^", "v"), strict=False):
            axes.plot(self.depths, part.errors, marker, ms=3.5, color=PART, alpha=0.8, label=part.name)
        if np.isfinite(self.rate) and len(depths):
            self._draw_orders(axes, depths, errors, small)
        if self.floor_probability > 0.95 and len(depths):
            height = errors[-1] * self.floor**0.5
            axes.axhline(height, ls=":", color=FITTED, label="error left at infinite depth")
        lost = self.depths[~np.isfinite(self.errors)]
        if len(lost):
            top = axes.get_xaxis_transform()
            heights = np.full(len(lost), 0.97)
            axes.plot(lost, heights, "x", color=FITTED, transform=top, label="paths diverged")
        drawing.depth_ticks(axes, self.depths.tolist())
        drawing.number_axis(axes)
        drawing.label(
            axes,
            "depth L" if small else "depth L (number of residual layers)",
            "error" if small else self._curves()[0].axis,
            [self.verdict.capitalize(), self.network, f"limit: {self.limit}"],
        )
        axes.grid(which="major", alpha=0.3)
        drawing.legend(axes)

    def _draw_orders(self, axes: Axes, depths: np.ndarray, errors: np.ndarray, small: bool) -> None:
        """Draw the fitted power law, and the predicted slope above it."""
        ends = np.array([depths[0], depths[-1]])
        low, high = self.rate_interval
        digits = min(4, self.digits)
        law = f"depth$^{{{-self.rate:.{digits}f}}}$"
        interval = f"({100 * self.confidence:g} %: {low:.{digits}f} to {high:.{digits}f})"
        shown = np.exp(np.mean(np.log(errors) + self.rate * np.log(depths)))
        told = f"fitted: {law}" if small else f"fitted: error ∝ {law}  {interval}"
        axes.plot(ends, shown * ends**-self.rate, color=FITTED, label=told)
        if self.predicted_rate is not None:
            anchor = shown * depths[0] ** -self.rate * 1.3
            slope = f"depth$^{{-{self.predicted_rate:g}}}$"
            axes.plot(
                ends,
                anchor * (ends / depths[0]) ** -self.predicted_rate,
                "--",
                color=PREDICTED,
                label=f"predicted: {slope}" if small else f"predicted slope: {slope} (shifted up)",
            )


def _told(part: PartOfError, digits: int) -> str:
    """Return a part of the error in a line."""
    slopes = ", ".join(f"{slope:.2f}" for slope in part.local_slopes)
    ends = f"{part.errors[0]:.3g} to {part.errors[-1]:.3g}, local slopes {slopes}"
    low, high = part.rate_interval
    order = f", order {part.rate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{part.name}: {ends}{order if math.isfinite(part.rate) else ''}"
