"""The limit of a stack of blocks with the moments that it rests on: table, picture, verdict."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.curve import Curve
from deeplimit.common.fields import Count, Depths, Interval, Level, PerDepth, Seconds, Seed, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import BlockLimitVerdict
from deeplimit.judge.block_limit.measure import LARGER
from deeplimit.judge.block_limit.verdict import ALMOST_EQUAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAME_POWER = 0.03
"""Powers of |h| this close to 0 or 1 are read as these: random blocks move them by .02."""
PerLag = Annotated[np.ndarray, Shape("lags")]


def _above_its_error(mean: tuple[float, float]) -> str:
    value, error = mean
    return f"{value:.3g}" if value >= error else f"< {error:.1g}"


@final
@dataclass(frozen=True, eq=False)
class IdentifiedLimit(Report):
    """What `identify` found: m depths; sizes are divided by the size of the state that all layers were given.

    Attributes:
        verdict: "isotropic SDE", "neural SDE", "neural ODE", "identity", "explosion"; "none" where the stack
            was measured and has none of these limits; "cannot tell".
        rule, reason: name of the rule that decided, and why, in a sentence.
        exponent, exponent_interval: β of the size of one update ~ depth^-β, with its interval.
        model: class of the module that was built.
        depths, blocks: depths as the factory counts them, and numbers of blocks there (m,).
        update_sizes: root mean square of one update (m,).
        fluctuations, drifts: sizes of the sum of all updates about its mean, and of that mean (m,); a drift
            that is not seen is 0.
        fluctuation_exponent, fluctuation_interval: power of the depth that fluctuations follow; NaN for none.
        drift_exponent, drift_interval: the same of drifts.
        alignments: variance of the sum over the sum of the layers' variances (m,): 1 for independent layers;
            NaN where all networks are the same.
        alignment_exponent, alignment_interval: its power of the depth: 0 independent, 1 smooth.
        lags, correlations: distances between layers of the deepest network, and correlations there.
        anisotropy: 1 where the covariance of an update is a multiple of the identity, else larger.
        displacements, growths, turned: mean |h_L - h_0|/|h_0|, |h_L|/|h_0| and cos(h_L, h_0) (m,).
        inputs_before, inputs_after: mean cosine between different inputs before and after all blocks (m,).
        features, distances, p_values: what was compared in law at the deepest network: Kolmogorov distances
            from the measured limit and p-values adjusted by Holm; empty where no diffusion was drawn.
        ode_distances: relative distance of the networks from the ODE through their layers (m,).
        draws, confidence, seed, seconds, versions: how it was run.
        reservations: what to know before trusting the numbers.
        size_power: power of |h| that an SDE's noise grows with, from states three times as large; 0 where it
            does not depend on |h|. NaN for other limits.
        state_size: root mean square norm |h| of the given states, to which sizes are relative.
    """

    kind = "block-limit"
    no_paths = "networks are built and measured one by one; simulate(factory, x) draws their states again"

    verdict: BlockLimitVerdict
    rule: str
    reason: str
    exponent: float
    exponent_interval: Interval
    model: str
    depths: Depths
    blocks: Annotated[np.ndarray, Shape("depths", whole=True)]
    update_sizes: PerDepth
    fluctuations: PerDepth
    drifts: PerDepth
    fluctuation_exponent: float
    fluctuation_interval: Interval
    drift_exponent: float
    drift_interval: Interval
    alignments: PerDepth
    alignment_exponent: float
    alignment_interval: Interval
    lags: Annotated[np.ndarray, Shape("lags", whole=True)]
    correlations: PerLag
    anisotropy: float
    displacements: PerDepth
    growths: PerDepth
    turned: PerDepth
    inputs_before: PerDepth
    inputs_after: PerDepth
    features: Annotated[tuple[str, ...], Shape("features")]
    distances: Annotated[np.ndarray, Shape("features")]
    p_values: Annotated[np.ndarray, Shape("features")]
    ode_distances: PerDepth
    draws: Count
    confidence: Level
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...] = ()
    size_power: float = math.nan
    state_size: float = math.nan

    @property
    def limit(self) -> str | None:
        """The name of the limit; None where nothing is named."""
        named = self.verdict not in (BlockLimitVerdict.NONE, BlockLimitVerdict.CANNOT_TELL)
        return str(self.verdict) if named else None

    @property
    def equation(self) -> str | None:
        """The limit's equation, as text, with what was measured of its functions; None where none is named.

        No object: its functions are known at the given states alone.
        """
        fluctuates, moves = self.fluctuations[-1], self.drifts[-1]
        # A mean that vanishes with depth, or has no power of it, is none of the limit's.
        stays = moves > 0 and self.drift_interval[1] >= 0
        at = " at the given states h"
        drift, beside = ("m(H) dt + ", f", |m(h)| = {moves:.2g} |h|{at}") if stays else ("", "")
        size = f"{fluctuates:.2g} |h|{at}"
        if abs(self.size_power) < SAME_POWER:
            size = f"{fluctuates * self.state_size:.2g}, which does not depend on |h|"
        elif abs(self.size_power - 1) < SAME_POWER:
            size = f"{fluctuates:.2g} |h|, which grows like |h|"
        elif math.isfinite(self.size_power):
            size += f", and like |h|^{self.size_power:.2f} from there to {LARGER:g} times as far"
        one_layer = moves > 0 or not len(self.correlations) or self.correlations[0] > ALMOST_EQUAL
        followed = "the update of the layer at t" if one_layer else "what updates of layers near t share"
        written = {
            BlockLimitVerdict.ISOTROPIC_SDE: (
                f"dH = {drift}s(H) dB, B as wide as H, √width s(h) = {size}{beside}"
            ),
            BlockLimitVerdict.NEURAL_SDE: (
                f"dH = {drift}Σ(H) dB, (tr ΣΣᵀ)^½ = {size}{beside};"
                " ΣΣᵀ is the depth times the covariance of a layer's update"
            ),
            BlockLimitVerdict.NEURAL_ODE: f"dH = f(t, H) dt, f the depth times {followed}",
            BlockLimitVerdict.IDENTITY: "dH = 0",
        }
        return written.get(self.verdict)

    @property
    def headline(self) -> str:
        """The limit, the exponent and the reason."""
        exponent = "" if math.isnan(self.exponent) else f" (exponent {self._exponent()})"
        return f"{self.verdict}{exponent}: {self.reason}."

    def _exponent(self) -> str:
        low, high = self.exponent_interval
        return f"{self.exponent:.2f} [{low:.2f}, {high:.2f}]"

    def _facts(self) -> list[tuple[str, str]]:
        lagged = zip(self.lags, self.correlations, strict=True)
        correlations = ", ".join(f"{value:.2f} at distance {lag}" for lag, value in lagged)
        facts = [] if self.equation is None else [("equation", self.equation)]
        if self.fluctuations[-1] > 0:
            facts.append(("correlation over layers", correlations))
        if self.verdict is BlockLimitVerdict.NEURAL_ODE:
            far = ", ".join(f"{each:.2g}" for each in self.ode_distances)
            facts.append(("distance from the ODE through the layers", far))
        if len(self.features):
            beside = zip(self.features, self.distances, self.p_values, strict=True)
            told = "; ".join(f"{name} {far:.2f} (p = {p:.2g})" for name, far, p in beside)
            facts.append(("distance in law from the measured limit, with adjusted p values", told))
        return facts

    def _setting(self) -> list[tuple[str, str]]:
        drawn = f"{self.draws} networks per depth, {self.confidence:.0%} intervals, seed {self.seed}"
        return [("blocks of", self.model), ("", f"{drawn}, {self.seconds:.1f} s")]

    @property
    def _means(self) -> list[tuple[float, float]]:
        """The means of sums, each with the error of a mean over the networks."""
        errors = self.fluctuations / math.sqrt(self.draws)
        return [*zip(self.drifts.tolist(), errors.tolist(), strict=True)]

    def _table(self) -> Table:
        return Table(
            (
                Column("depth", self.depths),
                Column("update", self.update_sizes, ".3g"),
                Column("fluctuation of sum", self.fluctuations, ".3g"),
                # No larger than the error of a mean over the networks, it is not resolved.
                Column("mean of sum", self._means, _above_its_error, number=operator.itemgetter(0)),
                Column(
                    "sum / independent sum",
                    [None if math.isnan(each) else each for each in self.alignments],
                    ".3g",
                ),
                Column("|h_L - h_0|/|h_0|", self.displacements, ".3g"),
                Column("cos(h_L, h_0)", self.turned, ".3f"),
                Column("cos between inputs", self.inputs_after, ".3f"),
            )
        )

    def _curves(self) -> list[Curve]:
        size = self.update_sizes
        return [
            Curve(
                "update",
                "size of one update",
                self.depths,
                size,
                size,
                size,
                rate=self.exponent,
                interval=self.exponent_interval,
                symbol="exponent",
                slope=-self.exponent,
            )
        ]

    def _draw(self, axes: Axes) -> None:
        series = {
            "one update": self.update_sizes,
            "fluctuation of the sum": self.fluctuations,
            "mean of the sum": self.drifts,
            "state, |h_L - h_0|/|h_0|": self.displacements,
        }
        for name, values in series.items():
            shown = np.where(values > 0, values, np.nan)
            if np.isfinite(shown).any():
                axes.plot(self.depths, shown, "o-", label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        drawing.depth_ticks(axes, self.depths.tolist())
        drawing.label(axes, "depth", "relative size", [f"{self.model}: {self.verdict}"])
        drawing.legend(axes, 8)
