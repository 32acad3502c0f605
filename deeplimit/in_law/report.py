"""The result of a comparison of laws: plain numbers, a table a person reads, a plot and a file."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimit.ground import files as store
from deeplimit.in_law.verdict import ANOTHER, CANNOT_TELL, SAME

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND = "laws"
VERDICTS = (SAME, ANOTHER, CANNOT_TELL)
INTEGRAL = ("depths", "diverged")


@dataclass(frozen=True, eq=False)
class LawReport:
    """What `compare_laws` measured: m depths, T tests, K test functions, G points of a grid.

    Attributes:
        verdict: "same law", "another law" or "cannot tell"; `reason` says why in a sentence.
        depths: Numbers of layers (m,).
        statistics, p_values, adjusted, distances: The tests (T,), their p-values (T, m), the same after
            Holm's correction for all of them, and the distances tested (largest difference of distribution
            functions; energy distance for the joint law).
        effects, differences, difference_errors: The test functions (K,), network minus limit (K, m), and its
            standard error. A location is in standard deviations of the limit, a spread a relative change of
            it; shapes are differences of means of functions bounded by 1.
        floors, floor_margins: The differences at infinite depth (K,), and half the widths of their
            simultaneous intervals.
        mean_squares, mean_square_errors: E |h_L|² / |h_0|² (m,) and standard errors.
        grid, distributions, limit_distribution: Distribution functions of ln(|h_L|/|h_0|) at G points, (m,
            G), and the limit's.
        diverged: Draws that were not finite (m,).
        level: Of the simultaneous intervals, and of all tests together. tolerance: What "same law" calls
            negligible.
        reservations: What a reader must know before trusting the numbers.
    """

    verdict: str
    reason: str
    network: str
    limit: str
    regime: str
    theorem: str | None
    depths: np.ndarray
    statistics: tuple[str, ...]
    p_values: np.ndarray
    adjusted: np.ndarray
    distances: np.ndarray
    effects: tuple[str, ...]
    differences: np.ndarray
    difference_errors: np.ndarray
    floors: np.ndarray
    floor_margins: np.ndarray
    mean_squares: np.ndarray
    mean_square_errors: np.ndarray
    grid: np.ndarray
    distributions: np.ndarray
    limit_distribution: np.ndarray
    diverged: np.ndarray
    level: float
    tolerance: float
    draws: int
    seed: int
    inputs: str
    sampling: str
    device: str
    dtype: str
    seconds: float
    versions: dict[str, str]
    reservations: tuple[str, ...]

    @property
    def differs(self) -> np.ndarray:
        """Whether the tests tell the network at each depth from the limit, (m,), at `level` over all tests
        and depths.
        """
        return np.asarray((self.adjusted <= self.level).any(axis=0))

    def __str__(self) -> str:
        lines = [
            f"{self.verdict}: {self.reason}.",
            self._where(),
            f"network    {self.network}",
            f"limit      {self.limit}; {self.sampling}",
            f"theorem    {self.theorem or 'none in the papers'}",
            f"inputs     {self.inputs}",
            (
                f"{self.draws} draws of each law, level {self.level:g}, tolerance {self.tolerance:g}, seed"
                f" {self.seed}, {self.dtype} on {self.device}, {self.seconds:.1f} s"
            ),
            "",
            (
                f"{'depth':>8}  {'E|h_L|²/|h_0|²':>18}  {'log norm: location':>20}  {'spread':>18} "
                f" {'smallest p':>10}  statistic"
            ),
        ]
        for j, depth in enumerate(self.depths.tolist()):
            least = int(self.adjusted[:, j].argmin())
            mark = " differs" if self.differs[j] else ""
            lines.append(
                f"{depth:>8}  {_with(self.mean_squares[j], self.mean_square_errors[j]):>18} "
                f" {_with(self.differences[0, j], self.difference_errors[0, j]):>20} "
                f" {_with(self.differences[1, j], self.difference_errors[1, j]):>18} "
                f" {self.adjusted[least, j]:>10.2g}  {self.statistics[least]}{mark}"
            )
        lines += [
            "p is corrected for all tests and depths (Holm); differences are ± one standard error",
            "",
            f"at infinite depth, simultaneous intervals at {100 * (1 - self.level):g} %:",
        ]
        width = max(len(name) for name in self.effects)
        for name, floor, margin in zip(self.effects, self.floors, self.floor_margins, strict=True):
            lines.append(
                f"  {name:<{width}}  {floor:>8.4f} ± {margin:.4f}{'' if abs(floor) <= margin else '  not 0'}"
            )
        if self.reservations:
            lines += ["", "Reservations:", *(f"- {text}" for text in self.reservations)]
        return "\n".join(lines)

    def _where(self) -> str:
        """Return at which depths the tests see a difference, in a sentence."""
        found = [
            str(depth) for depth, differs in zip(self.depths.tolist(), self.differs, strict=True) if differs
        ]
        if not found:
            return f"no test tells any depth from the limit with {self.draws} draws"
        rest = "" if len(found) == len(self.depths) else ", the other depths from it by none"
        return f"at depth {', '.join(found)} the law differs measurably from the limit's{rest}"

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers; NaN and infinities as strings."""
        return {field.name: store.plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> LawReport:
        """Return the report whose `to_dict()` this is; raise KeyError, TypeError or ValueError where it is
        none.
        """
        values = dict(content)
        if values["verdict"] not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {values['verdict']!r}")
        m, t, k, g = (len(values[name]) for name in ("depths", "statistics", "effects", "grid"))
        shapes: dict[str, tuple[int, ...]] = {name: (t, m) for name in ("p_values", "adjusted", "distances")}
        shapes |= {"differences": (k, m), "difference_errors": (k, m), "floors": (k,), "floor_margins": (k,)}
        shapes |= {"grid": (g,), "limit_distribution": (g,), "distributions": (m, g)}
        for field in dataclasses.fields(cls):
            value = values[field.name]
            if field.type == "np.ndarray":
                array = np.array(value, dtype=np.float64)
                expected = shapes.get(field.name, (m,))
                if array.shape != expected:
                    raise ValueError(f"{field.name} must have shape {expected}, got {array.shape}")
                values[field.name] = array.astype(np.int64) if field.name in INTEGRAL else array
            elif field.type == "float":
                values[field.name] = float(value)
            elif field.type == "tuple[str, ...]":
                values[field.name] = tuple(value)
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON; `deeplimit.load_report` reads it back."""
        store.save(KIND, self.to_dict(), path)

    def plot(self, ax: Axes | str | os.PathLike[str] | None = None) -> Axes:
        """Draw the distribution function of ln(|h_L|/|h_0|) at each depth over the limit's, and their
        differences in an inset.

        Args:
            ax: Axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).

        Returns:
            The axes. Nothing is shown.
        """
        from deeplimit.ground import plotting

        return plotting.plot(lambda axes: plotting.draw_laws(self, axes), ax)


def _with(value: float, error: float) -> str:
    return f"{value:.4f} ± {error:.4f}"
