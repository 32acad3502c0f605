"""What `stability` measured: ratios of norms at every depth, how they grow, and the theory beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import FITTED, MEASURED
from deeplimit.common.curve import Curve
from deeplimit.common.fields import Count, CountPerDepth, Depths, Seconds, Seed, Shape
from deeplimit.common.report import REPEAT, Column, Report, Table
from deeplimit.common.verdict import StabilityVerdict
from deeplimit.signal.bounds import Bound, power_of_ten
from deeplimit.signal.growth import Growth
from deeplimit.signal.one_signal import OneSignal
from deeplimit.statistics.adaptive_sampling import InterimAnalysis, RequiredSampleSize, analyses, required

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PerDraw = Annotated[np.ndarray, Shape("depths draws")]


@final
@dataclass(frozen=True, eq=False)
class StabilityReport(Report):
    """The distributions of a network's output and gradient at initialisation, by depth.

    Logarithms are natural; they are NaN or infinite where a network overflowed.

    Attributes:
        verdict: "identity", "stable", "explosion" or "cannot tell". Where the verdicts of `hidden_growth` and
            `gradient_growth` differ, an explosion of either decides, then "cannot tell" of either; else the
            verdict is "stable".
        network: its formula, weights and width.
        exponent: residual exponent of the network; NaN for blocks of a module, which scale themselves.
        critical_exponent: exponent between explosion and identity; None where theory does not know it.
        depths: numbers of layers (m,).
        draws: networks per depth, each with its input and its output gradient.
        log_hidden_ratio, log_hidden_change: log |h_L|/|h_0| and log |h_L - h_0|/|h_0| (m, draws).
        log_gradient_ratio, log_gradient_change: log |p_0|/|p_L| and log |p_0 - p_L|/|p_L| (m, draws).
        hidden_growth, gradient_growth: fitted exponents γ of growth with depth, with intervals and verdicts.
        predicted_growth: γ by theory, or None.
        bounds: statements of Section 2 of Marion et al. (2025) beside the data.
        bounds_refused: why these statements do not apply; empty if they do.
        delta: probability δ in those statements.
        log_normal: mean and standard deviation of the limit law of log |h_L|/|h_0| (m, 2); NaN if unknown.
        overflowed: networks that overflowed (m,).
        method: how the weights were drawn.
        inputs: where the networks start.
        seed, device, dtype, seconds, versions: how it was run.
        reservations: what to know before trusting the numbers.
        citations: keys or BibTeX entries of the theorems and methods that were used.
        looks: analyses of an adaptive call, the last of which this report is; empty for a call of fixed size.
        needs: what an adaptive call that cannot tell would measure next, and how long that would take.
    """

    kind = "stability"
    no_paths = REPEAT

    verdict: StabilityVerdict
    network: str
    exponent: float
    critical_exponent: float | None
    depths: Depths
    draws: Count
    log_hidden_ratio: PerDraw
    log_hidden_change: PerDraw
    log_gradient_ratio: PerDraw
    log_gradient_change: PerDraw
    hidden_growth: Growth
    gradient_growth: Growth
    predicted_growth: float | None
    bounds: tuple[Bound, ...]
    bounds_refused: str
    delta: float
    log_normal: Annotated[np.ndarray, Shape("depths 2")]
    overflowed: CountPerDepth
    method: str
    inputs: str
    seed: Seed
    device: str
    dtype: str
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]
    citations: tuple[str, ...] = ()
    looks: tuple[InterimAnalysis, ...] = ()
    needs: RequiredSampleSize | None = None

    @property
    def hidden_ratio(self) -> np.ndarray:
        """|h_L|/|h_0|, (m, draws); infinite where a float64 cannot hold it, which `log_hidden_ratio` can."""
        return _exponential(self.log_hidden_ratio)

    @property
    def hidden_change(self) -> np.ndarray:
        """|h_L - h_0|/|h_0|, (m, draws)."""
        return _exponential(self.log_hidden_change)

    @property
    def gradient_ratio(self) -> np.ndarray:
        """|p_0|/|p_L|, (m, draws)."""
        return _exponential(self.log_gradient_ratio)

    @property
    def gradient_change(self) -> np.ndarray:
        """|p_0 - p_L|/|p_L|, (m, draws)."""
        return _exponential(self.log_gradient_change)

    def path(self, index: int) -> OneSignal:
        """Draw one network per depth again, and keep the sizes of signal and gradient after every layer.

        Args:
            index: Number of the draw, from 0.

        Returns:
            Logarithms by depth and layer; their last entries are those of this report.

        Raises:
            TypeError: For an index of another kind.
            ValueError: For an index that was not drawn, and a report from a file of a user's own network,
                which no file can hold.

        Examples:
            >>> import deeplimit as dl
            >>> report = dl.stability(dl.res3(8), depths=[5, 10, 20], draws=30)
            >>> draw = report.path(4)
            >>> bool(draw.log_hidden_ratio[20][-1] == report.log_hidden_ratio[2, 4])
            True
        """
        draw: OneSignal = self._path(index)
        return draw

    def quantiles(self, name: str, *probabilities: float) -> np.ndarray:
        """Return quantiles (m, len(probabilities)) of log_<name>, such as "hidden_ratio"; NaN after NaN."""
        values = getattr(self, f"log_{name}")
        result: np.ndarray = np.quantile(values, probabilities, axis=1, method="inverted_cdf").T
        return result

    @property
    def confidence(self) -> float:
        """The level of the growths' intervals."""
        return self.hidden_growth.confidence

    @property
    def broken(self) -> tuple[Bound, ...]:
        """The bounds that the data contradict."""
        return tuple(bound for bound in self.bounds if bound.holds is False)

    @property
    def headline(self) -> str:
        """The verdict, and the exponents that it turns on."""
        # Exponents such as .7 + .2 + .1 - .5 are 1/2 up to round-off.
        growth = self.predicted_growth
        predicted = "" if growth is None else f"; predicted growth {round(growth, 9):g}"
        signal, gradient = self.hidden_growth.verdict, self.gradient_growth.verdict
        parts = "" if signal == gradient else f" (signal: {signal}, gradient: {gradient})"
        return f"{self.verdict}{parts}: {self.exponent_words}{predicted}."

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("signal", str(self.hidden_growth)),
            ("gradient", str(self.gradient_growth)),
            *required(self.needs, "draws"),
        ]

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("network", self.network),
            ("inputs", self.inputs),
            ("weights", self.method),
            (
                "",
                f"{self.draws} draws per depth, seed {self.seed}, {self.dtype} on {self.device},"
                f" {self.seconds:.1f} s",
            ),
            *analyses(self.looks),
        ]

    def _table(self) -> Table:
        return Table(
            (
                Column("depth", self.depths),
                self._column("|h_L|/|h_0|", "hidden_ratio"),
                self._column("|h_L-h_0|/|h_0|", "hidden_change"),
                self._column("|p_0|/|p_L|", "gradient_ratio"),
                Column("overflow", self.overflowed),
            ),
            title="medians [first quartile, third quartile]",
            notes=("", *self._theory_lines()),
        )

    def _column(self, heading: str, name: str) -> Column:
        """Return medians and quartiles; their logarithms are kept, which no float is too small for."""
        low, middle, high = self.quantiles(name, 0.25, 0.5, 0.75).T
        return Column(heading, middle, power_of_ten, interval=(low, high), number=_exponential)

    @property
    def exponent_words(self) -> str:
        """The residual exponent and the critical one in words."""
        if math.isnan(self.exponent):
            return "residual factors are those of the blocks"
        critical = self.critical_exponent
        known = "critical exponent not known" if critical is None else f"critical {critical:g}"
        return f"exponent {self.exponent:g}, {known}"

    def _theory_lines(self) -> list[str]:
        if not self.bounds:
            return [f"The bounds of Section 2 of Marion et al. (2025) do not apply: {self.bounds_refused}."]
        tested = [bound for bound in self.bounds if bound.holds is not None]
        count = (
            f"{len(tested)} of {len(self.bounds)} statements of Section 2 of Marion et al. (2025) could be"
            f" tested, over all depths (δ = {self.delta:g})"
        )
        end = "all hold" if not self.broken else f"{len(self.broken)} are BROKEN"
        listed = "report.full() lists those of the deepest network"
        return [f"{count}{f', and {end}' if tested else ''}; {listed}.", *map(str, self.broken)]

    def _details(self) -> list[str]:
        deepest = [bound for bound in self.bounds if bound.depth == self.depths[-1]]
        return ["At the deepest network:", *map(str, deepest)] if deepest else []

    def _curves(self) -> list[Curve]:
        found = []
        for name, quantity, growth, ratio in (
            ("signal", "hidden_change", self.hidden_growth, "$|h_L - h_0|\\,/\\,|h_0|$"),
            ("gradient", "gradient_change", self.gradient_growth, "$|p_0 - p_L|\\,/\\,|p_L|$"),
        ):
            low, middle, high = _exponential(self.quantiles(quantity, 0.25, 0.5, 0.75)).T
            found.append(
                Curve(
                    name,
                    f"change of the {name}, {ratio}",
                    self.depths,
                    middle,
                    low,
                    high,
                    "quartiles",
                    growth.exponent,
                    growth.interval,
                    "growth $\\gamma$",  # of averages, which a median need not follow: no line is drawn
                )
            )
        return found

    def _draw(self, axes: Axes) -> None:
        """Draw medians and quartiles of the changes of signal and gradient against depth."""
        depths = self.depths.astype(float)
        small = drawing.is_small(axes)
        axes.set_xscale("log")
        apart = 1.02 if len(depths) > 1 else 1.0
        for shift, name, growth, style, colour, fill, ratio in (
            (1 / apart, "hidden", self.hidden_growth, "o-", MEASURED, "full", "|h_L - h_0|\\,/\\,|h_0|"),
            (apart, "gradient", self.gradient_growth, "s--", FITTED, "none", "|p_0 - p_L|\\,/\\,|p_L|"),
        ):
            tens = self.quantiles(f"{name}_change", 0.25, 0.5, 0.75) / np.log(10.0)
            good = np.isfinite(tens).all(axis=1)
            low, middle, high = tens[good].T
            lost = "" if good.all() else " (missing: overflowed, or no change at all)"
            word = "signal" if name == "hidden" else "gradient"
            axes.errorbar(
                depths[good] * shift,
                middle,
                np.stack([middle - low, high - middle]),
                fmt=style,
                color=colour,
                fillstyle=fill,
                capsize=3,
                ms=5,
                lw=1.2,
                label=f"{word}: {growth.verdict}" if small else f"{word}: ${ratio}$, {growth.verdict}{lost}",
            )
        drawing.power_axis(axes)
        drawing.depth_ticks(axes, self.depths.tolist())
        drawing.label(
            axes,
            "depth L" if small else "depth L (number of residual layers)",
            "relative change",
            [
                f"{self.verdict.capitalize()}: {self.exponent_words}",
                self.network,
            ],
        )
        axes.grid(alpha=0.3)
        axes.set_xlim(depths[0] / 1.3, depths[-1] * 1.3)
        told = "median, quartiles" if small else f"median and quartiles, draws per depth: {self.draws}"
        drawing.legend(axes, title=told)


def _exponential(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        result: np.ndarray = np.exp(values)
    return result
