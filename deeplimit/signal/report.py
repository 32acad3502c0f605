"""What `stability` measured: ratios of norms at every depth, how they grow, and the theory beside them."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimit.ground import files as store, validation
from deeplimit.signal.bounds import Bound, power_of_ten
from deeplimit.signal.growth import Growth
from deeplimit.signal.growth_verdict import VERDICTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND = "stability"
ARRAYS = ("log_hidden_ratio", "log_hidden_change", "log_gradient_ratio", "log_gradient_change")


@dataclass(frozen=True, eq=False)
class StabilityReport:
    """The distributions of a network's output and gradient at initialisation, by depth.

    Attributes:
        verdict: "identity", "stable", "explosion" or "cannot tell". `hidden_growth` and `gradient_growth`
            have their own; where they differ, explosion of either is explosion, else "cannot tell" of either
            is that, else it is stable.
        depths: (m,). draws: Networks a depth, each with an input and a gradient at the output of its own.
        log_hidden_ratio, log_hidden_change: log |h_L|/|h_0| and log |h_L - h_0|/|h_0|, (m, draws); natural
            logarithms, NaN or infinite where a network overflowed. `hidden_ratio` and `hidden_change` are
            their exponentials.
        log_gradient_ratio, log_gradient_change: log |p_0|/|p_L| and log |p_0 - p_L|/|p_L|, likewise.
        hidden_growth, gradient_growth: The fitted exponents γ of growth with the depth, with intervals and
            verdicts.
        predicted_growth: What theory says γ is; None where it does not.
        exponent, critical_exponent: The network's residual exponent, and the one between explosion and
            identity; None where theory does not know it.
        bounds: The statements of Section 2 of [M] beside the data; `delta` is their δ.
        log_normal: Mean and standard deviation of the limit law of log |h_L|/|h_0| by depth (m, 2); NaN where
            there is none.
        overflowed: Networks that overflowed, by depth.
        method: How the matrices were drawn. inputs: Where the networks start.
        reservations: What a reader must know before trusting the numbers.
    """

    verdict: str
    network: str
    exponent: float
    critical_exponent: float | None
    depths: np.ndarray
    draws: int
    log_hidden_ratio: np.ndarray
    log_hidden_change: np.ndarray
    log_gradient_ratio: np.ndarray
    log_gradient_change: np.ndarray
    hidden_growth: Growth
    gradient_growth: Growth
    predicted_growth: float | None
    bounds: tuple[Bound, ...]
    bounds_refused: str
    delta: float
    log_normal: np.ndarray
    overflowed: np.ndarray
    method: str
    inputs: str
    seed: int
    device: str
    dtype: str
    seconds: float
    versions: dict[str, str]
    reservations: tuple[str, ...]

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

    def quantiles(self, name: str, *probabilities: float) -> np.ndarray:
        """Return quantiles (m, len(probabilities)) of log_<name>, such as "hidden_ratio"; NaN where a network
        became NaN.
        """
        values = getattr(self, f"log_{name}")
        result: np.ndarray = np.quantile(values, probabilities, axis=1, method="inverted_cdf").T
        return result

    @property
    def broken(self) -> tuple[Bound, ...]:
        """The bounds that the data contradict."""
        return tuple(bound for bound in self.bounds if bound.holds is False)

    def __str__(self) -> str:
        predicted = "" if self.predicted_growth is None else f"; predicted growth {self.predicted_growth:g}"
        apart = self.hidden_growth.verdict != self.gradient_growth.verdict
        parts = (
            f" (signal: {self.hidden_growth.verdict}, gradient: {self.gradient_growth.verdict})"
            if apart
            else ""
        )
        lines = [
            f"{self.verdict}{parts}: exponent {self.exponent:g}, {self.critical_words}{predicted}.",
            f"signal     {self.hidden_growth}",
            f"gradient   {self.gradient_growth}",
            f"network    {self.network}",
            f"inputs     {self.inputs}",
            f"matrices   {self.method}",
            (
                f"{self.draws} draws a depth, seed {self.seed}, {self.dtype} on {self.device},"
                f" {self.seconds:.1f} s"
            ),
            "",
            "medians, with the first and third quartile",
            (
                f"{'depth':>8}  {'|h_L|/|h_0|':^32}  {'|h_L-h_0|/|h_0|':^32}  {'|p_0|/|p_L|':^32} "
                f" {'overflow':>8}"
            ),
        ]
        shown = [
            self.quantiles(name, 0.5, 0.25, 0.75)
            for name in ("hidden_ratio", "hidden_change", "gradient_ratio")
        ]
        for j, depth in enumerate(self.depths.tolist()):
            cells = [_cell(*(float(value) for value in column[j])) for column in shown]
            lines.append(
                f"{depth:>8}  {cells[0]:^32}  {cells[1]:^32}  {cells[2]:^32}  {self.overflowed[j]:>8}"
            )
        lines += ["", *self._theory_lines()]
        if self.reservations:
            lines += ["", "Reservations:", *(f"- {text}" for text in self.reservations)]
        return "\n".join(lines)

    @property
    def critical_words(self) -> str:
        """The critical exponent in words."""
        return (
            "critical exponent not known"
            if self.critical_exponent is None
            else f"critical {self.critical_exponent:g}"
        )

    def __repr__(self) -> str:
        return (
            f"<StabilityReport {self.verdict}: {self.network}, depths {self.depths.tolist()}, {self.draws}"
            " draws>"
        )

    def _theory_lines(self) -> list[str]:
        if not self.bounds:
            return [f"The bounds of Section 2 of Marion et al. (2025) do not apply: {self.bounds_refused}."]
        tested = [bound for bound in self.bounds if bound.holds is not None]
        count = (
            f"{len(tested)} of {len(self.bounds)} statements of Section 2, over all depths, could be tested"
            f" (δ = {self.delta:g})"
        )
        end = "all hold" if not self.broken else f"{len(self.broken)} are BROKEN"
        head = f"{count}{f', and {end}' if tested else ''}; at the deepest network:"
        deepest = [bound for bound in self.bounds if bound.depth == self.depths[-1]]
        rest = [bound for bound in self.broken if bound.depth != self.depths[-1]]
        return [head, *(str(bound) for bound in [*rest, *deepest])]

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers; NaN and infinities as strings."""
        content = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("hidden_growth", "gradient_growth"):
            content[name] = dataclasses.asdict(content[name])
        content["bounds"] = [dataclasses.asdict(bound) for bound in self.bounds]
        return {name: store.plain(value) for name, value in content.items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> StabilityReport:
        """Return the report whose `to_dict()` this is; raise TypeError or ValueError where it is none."""
        what = "the report"
        values = store.fields_of(cls, content, what)
        validation.choice(values["verdict"], f"verdict of {what}", VERDICTS)
        if not isinstance(values["depths"], list):
            raise TypeError(f"depths of {what} must be a list, got {validation.named(values['depths'])}")
        count = len(values["depths"])
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(ARRAYS, (count, values["draws"]))
        shapes |= {"depths": (count,), "overflowed": (count,), "log_normal": (count, 2)}
        for name, shape in shapes.items():
            values[name] = store.array(
                values[name], f"{name} of {what}", shape, whole=name in ("depths", "overflowed")
            )
        if count == 0 or values["depths"][0] < 1 or bool((np.diff(values["depths"]) <= 0).any()):
            raise ValueError(
                f"depths of {what} must be positive and strictly increasing, got {content['depths']}"
            )
        for name in ("hidden_growth", "gradient_growth"):
            values[name] = _growth(values[name], f"{name} of {what}")
        if not isinstance(values["bounds"], list):
            raise TypeError(f"bounds of {what} must be a list, got {validation.named(values['bounds'])}")
        values["bounds"] = tuple(
            Bound(**store.fields_of(Bound, bound, f"bound {number} of {what}"))
            for number, bound in enumerate(values["bounds"], 1)
        )
        if not isinstance(values["versions"], dict):
            raise TypeError(
                f"versions of {what} must have named fields, got {validation.named(values['versions'])}"
            )
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON; `deeplimit.load_report` reads it back."""
        store.save(KIND, self.to_dict(), path)

    def plot(self, ax: Axes | str | os.PathLike[str] | None = None) -> Axes:
        """Draw medians and quartiles of the changes of signal and gradient against depth.

        `ax` is axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
        Nothing is shown.
        """
        from deeplimit.ground import plotting

        return plotting.plot(lambda axes: plotting.draw_stability(self, axes), ax)


def _growth(content: Any, what: str) -> Growth:
    values = store.fields_of(Growth, content, what)
    validation.choice(values["verdict"], f"verdict of {what}", VERDICTS)
    pairs = {
        name: tuple(store.array(values[name], f"{name} of {what}", (2,)).tolist())
        for name in ("interval", "sure")
    }
    return Growth(**{**values, **pairs})


def _exponential(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        result: np.ndarray = np.exp(values)
    return result


def _cell(median: float, low: float, high: float) -> str:
    return f"{power_of_ten(median)}  [{power_of_ten(low)}, {power_of_ten(high)}]"
