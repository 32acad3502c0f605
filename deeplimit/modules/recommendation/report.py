"""What `recommend` says: exponent, code, sizes before and after, learning rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.fields import Depths, PerDepth, Seconds, Seed, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import RecommendationVerdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True, eq=False)
class Recommendation(Report):
    """A scaling for the residual branches of a module, tried at every depth that was measured (m,).

    Attributes:
        verdict: "change", "right as it is", or "cannot tell" where no line passed.
        rule, reason: name of the rule that decided, and why, in a sentence.
        exponent: residual exponent that the layers of most kinds ask for: 0.5 if they are independent, 1 if
            aligned.
        code: lines that set it right, with their imports; they read `model`, `depth` and, where weights are
            drawn again, `batch`. "" where nothing is to be done, or no line passed.
        learning_rate: by optimizer and place (of each kind of branch, where kinds differ), what to do with
            learning rates then, such that a step changes the output as much at any depth; "tuned depth" is
            the depth at which they were tuned.
        depth: the depth that was asked for, the last of `depths`.
        model, kinds: class of the module, and its kinds of branches.
        exponents: measured exponent of each kind before the code; NaN for none.
        needed: exponent that each kind asks for; empty in files of earlier versions.
        depths: depths that were measured (m,).
        signal_before, signal_after: growth of the state along the stream (m,).
        gradient_before, gradient_after: growth of the gradient backwards (m,).
        seed, seconds, versions: how it was run.
        reservations: what to know before trusting it.
    """

    kind = "recommendation"
    no_paths = "modules are built and run once per depth; probe(factory(depth), batch) measures one again"

    verdict: RecommendationVerdict
    rule: str
    reason: str
    exponent: float
    code: str
    learning_rate: dict[str, str]
    depth: int
    model: str
    kinds: Annotated[tuple[str, ...], Shape("kinds")]
    exponents: Annotated[np.ndarray, Shape("kinds")]
    depths: Depths
    signal_before: PerDepth
    signal_after: PerDepth
    gradient_before: PerDepth
    gradient_after: PerDepth
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...] = ()
    needed: tuple[float, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict and its reason."""
        return f"{self.verdict}: {self.reason}."

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("exponent needed", f"{self.exponent:g}")]
        if len({*self.needed}) > 1:
            pairs = zip(self.kinds, self.needed, strict=True)
            facts = [(f"exponent needed by {kind}", f"{need:g}") for kind, need in pairs]
        facts += [("", line) for line in self.code.splitlines()]
        facts += [(f"learning rate, {place}", what) for place, what in self.learning_rate.items()]
        if any("tuned depth" in what for what in self.learning_rate.values()):
            facts.append(("tuned depth", "the depth at which the learning rate was tuned"))
        return facts

    def _setting(self) -> list[tuple[str, str]]:
        return [("", f"{self.model}, seed {self.seed}, {self.seconds:.1f} s")]

    def _table(self) -> Table:
        return Table(
            (
                Column("depth", self.depths),
                Column("signal before", self.signal_before, ".3g"),
                Column("signal after", self.signal_after, ".3g"),
                Column("gradient before", self.gradient_before, ".3g"),
                Column("gradient after", self.gradient_after, ".3g"),
            )
        )

    def _draw(self, axes: Axes) -> None:
        series = {
            "signal": (self.signal_before, "o--"),
            "signal, after": (self.signal_after, "o-"),
            "gradient": (self.gradient_before, "s--"),
            "gradient, after": (self.gradient_after, "s-"),
        }
        for name, (values, style) in series.items():
            axes.plot(self.depths, np.where(np.isfinite(values), values, np.nan), style, label=name, ms=4)
        axes.set_xscale("log")
        axes.set_yscale("log")
        drawing.depth_ticks(axes, self.depths.tolist())
        drawing.label(axes, "depth", "growth", [f"{self.model}: {self.verdict}"])
        drawing.legend(axes, 8)
