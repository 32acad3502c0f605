"""The result of a comparison: plain numbers, a table a person reads, a plot and a file."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimit.convergence.verdict import CANNOT_TELL, CONVERGES, DOES_NOT
from deeplimit.ground import files as store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND = "compare"
VERDICTS = (CONVERGES, DOES_NOT, CANNOT_TELL)


@dataclass(frozen=True, eq=False)
class CompareReport:
    """What `compare` measured, with its uncertainty and its reservations.

    Arrays have one entry a depth. Attributes:
        verdict: "converges", "does not converge" or "cannot tell"; `reason` says why in a sentence.
        depths, errors, standard_errors: The errors e_L in the chosen norm, corrected for the reference's own
            error; infinite where a path was not finite.
        raw_errors: Before that correction.
        common_errors, common_standard_errors: The same, over the times that all depths share; the order is
            fitted to these (for "sup-continuous" to `errors`), because a maximum over more and more layers
            creeps towards its constant.
        rate, rate_interval, confidence: e_L ~ L**-rate, with its interval; NaN where nothing can be fitted.
        predicted_rate, theorem, regime: What the theory says; None where no theorem pairs the two.
        local_slopes, local_slope_errors: Between neighbouring depths (one entry fewer).
        floor, floor_lower, floor_upper, floor_probability: Share of the deepest squared error that remains at
            infinite depth: median, bounds at 95 % each, and the probability that it is more than half.
        diverged: Paths that were not finite, by depth. worst: The worst path's error (infinite where one was
            lost).
        kurtosis: Of the per-path errors to the power p.
        inputs: Where the paths start.
        reference, reference_error: What the limit was solved with, and how far off that is (0 where theory
            corrects for it).
        reservations: What a reader must know before trusting the numbers.
    """

    verdict: str
    reason: str
    network: str
    limit: str
    regime: str
    theorem: str | None
    predicted_rate: float | None
    depths: np.ndarray
    errors: np.ndarray
    standard_errors: np.ndarray
    raw_errors: np.ndarray
    common_errors: np.ndarray
    common_standard_errors: np.ndarray
    rate: float
    rate_interval: tuple[float, float]
    constant: float
    confidence: float
    local_slopes: np.ndarray
    local_slope_errors: np.ndarray
    floor: float
    floor_lower: float
    floor_upper: float
    floor_probability: float
    diverged: np.ndarray
    worst: np.ndarray
    kurtosis: np.ndarray
    norm: str
    p: float
    paths: int
    seed: int
    coupling: str
    inputs: str
    reference: str
    reference_error: float
    device: str
    dtype: str
    seconds: float
    versions: dict[str, str]
    reservations: tuple[str, ...]

    def __str__(self) -> str:
        low, high = self.rate_interval
        percent = f"{100 * self.confidence:g} %"
        lines = [f"{self.verdict}: {self.reason}."]
        if np.isfinite(self.rate):
            none = "no theorem predicts one" if self.theorem is None else "the theorem gives none"
            predicted = none if self.predicted_rate is None else f"predicted {self.predicted_rate:g}"
            interval = f"[{low:.{self.digits}f}, {high:.{self.digits}f}]"
            lines.append(f"order {self.rate:.{self.digits}f}, {percent} interval {interval}, {predicted}")
        lines += [
            f"network    {self.network}",
            f"limit      {self.limit}",
            f"theorem    {self.theorem or 'none pairs these two'}",
            f"noise      {self.coupling}",
            f"inputs     {self.inputs}",
            f"reference  {self.reference}",
            (
                f"{self.paths} paths, {_norm_words(self.norm)}, p = {self.p:g}, seed {self.seed},"
                f" {self.dtype} on {self.device}, {self.seconds:.1f} s"
            ),
            "",
            (
                f"{'depth':>8}  {'error':>10}  {'std. error':>10}  {'at common times':>15} "
                f" {'local slope':>15}  {'worst path':>10}  {'diverged':>8}"
            ),
        ]
        for j, depth in enumerate(self.depths.tolist()):
            known = j > 0 and np.isfinite(self.local_slopes[j - 1])
            slope = f"{self.local_slopes[j - 1]:.3f} ± {self.local_slope_errors[j - 1]:.3f}" if known else ""
            lines.append(
                f"{depth:>8}  {self.errors[j]:>10.4g}  {self.standard_errors[j]:>10.2g} "
                f" {self.common_errors[j]:>15.4g}  {slope:>15}  {self.worst[j]:>10.4g}  {self.diverged[j]:>8}"
            )
        if self.reservations:
            lines += ["", "Reservations:", *(f"- {text}" for text in self.reservations)]
        return "\n".join(lines)

    @property
    def digits(self) -> int:
        """Decimals of the order that its interval supports: two of the interval's width, between 3 and 6."""
        low, high = self.rate_interval
        width = high - low if np.isfinite(high - low) else 1.0
        return min(6, max(3, 1 - math.floor(math.log10(max(width, 1e-9)))))

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers; NaN and infinities as strings."""
        return {field.name: store.plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> CompareReport:
        """Return the report whose `to_dict()` this is."""
        values = dict(content)
        if values["verdict"] not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {values['verdict']!r}")
        count = len(values["depths"])
        for field in dataclasses.fields(cls):
            value = values[field.name]
            if field.type == "np.ndarray":
                expected = count - 1 if field.name.startswith("local_slope") else count
                if len(value) != expected:
                    raise ValueError(f"{field.name} must have {expected} entries, got {len(value)}")
                integral = field.name in ("depths", "diverged")
                values[field.name] = np.array([float(item) for item in value]).astype(
                    np.int64 if integral else np.float64
                )
            elif field.type == "float":
                values[field.name] = float(value)
        low, high = values["rate_interval"]
        values["rate_interval"] = (float(low), float(high))
        values["reservations"] = tuple(values["reservations"])
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON; `deeplimit.load_report` reads it back."""
        store.save(KIND, self.to_dict(), path)

    def plot(self, ax: Axes | str | os.PathLike[str] | None = None) -> Axes:
        """Draw errors against depth, log-log, with the fitted and the predicted slope.

        Args:
            ax: Axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).

        Returns:
            The axes. Nothing is shown.
        """
        from deeplimit.ground import plotting

        return plotting.plot(lambda axes: plotting.draw_compare(self, axes), ax)


def _norm_words(norm: str) -> str:
    return {
        "sup": "sup over the layer grid",
        "sup-continuous": "sup over all times t of |H_t - h_floor(tL)|",
        "final": "at the last layer",
    }[norm]
