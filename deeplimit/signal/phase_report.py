"""The map of output and gradient over Hurst index and residual exponent, with the boundary between identity
and explosion.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimit.ground import files as store, validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND = "phase-diagram"


@dataclass(frozen=True, eq=False)
class PhaseDiagram:
    """Mean log10 changes of signal and gradient, by Hurst index (m of them) and residual exponent (n of
    them).

    Attributes:
        hurst: (m,). exponents: (n,), increasing.
        hidden: Mean over draws and inputs of log10 |h_L - h_0|/|h_0|, (m, n). gradient: Of log10 |p_0 -
            p_L|/|p_L|.
        hidden_draws, gradient_draws: The same for each weight draw, means over its inputs, (m, n, draws).
            hidden_shallow_draws, gradient_shallow_draws at `shallow_depth`.
        boundary: The exponent at which the signal's change is the same at `depth` as at `shallow_depth`,
            (m,): below it the change grows with depth, above it it dies. NaN where that does not happen
            within `exponents`.
        boundary_interval: Its Student intervals over the weight draws at `confidence`, (m, 2); NaN for fewer
            than 3 draws. They hold the sampling error, not what either depth is short of infinity.
        gradient_boundary, gradient_boundary_interval: The same for the gradient.
        unit_exponent, gradient_unit_exponent: Where the mean logarithm passes 0: the change is as large as
            the signal, (m,). This is what the map's colours show; it is off the boundary by log(size of the
            change there)/log L.
        critical: What theory says of the boundary (`StabilityReport.critical_exponent`), (m,): max(H, 1/2)
            for res-3, as [M] Section 4.1 finds; NaN where it does not know.
        overflowed: Values that overflowed and were left out of the means, (m, n).
    """

    network: str
    depth: int
    shallow_depth: int
    width: int
    draws: int
    inputs: int
    hurst: np.ndarray
    exponents: np.ndarray
    hidden: np.ndarray
    gradient: np.ndarray
    hidden_draws: np.ndarray
    gradient_draws: np.ndarray
    hidden_shallow_draws: np.ndarray
    gradient_shallow_draws: np.ndarray
    boundary: np.ndarray
    boundary_interval: np.ndarray
    gradient_boundary: np.ndarray
    gradient_boundary_interval: np.ndarray
    unit_exponent: np.ndarray
    gradient_unit_exponent: np.ndarray
    critical: np.ndarray
    overflowed: np.ndarray
    confidence: float
    seed: int
    device: str
    dtype: str
    seconds: float
    versions: dict[str, str]
    reservations: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            self.summary(),
            f"network    {self.network}, d = {self.width}",
            (
                f"{self.draws} weight draws x {self.inputs} inputs a Hurst index, seed {self.seed},"
                f" {self.dtype} on {self.device}, {self.seconds:.1f} s"
            ),
            "",
            (
                f"{'H':>6}  {'theory':>9}  {'boundary of the signal':>26}  {'of the gradient':>26}  changes"
                " are 1 at"
            ),
        ]
        for i, hurst in enumerate(self.hurst.tolist()):
            signal = _boundary_cell(self.boundary[i], self.boundary_interval[i])
            gradient = _boundary_cell(self.gradient_boundary[i], self.gradient_boundary_interval[i])
            units = ", ".join(
                f"{at[i]:.3f}" if np.isfinite(at[i]) else "-"
                for at in (self.unit_exponent, self.gradient_unit_exponent)
            )
            theory = f"{self.critical[i]:.3f}" if np.isfinite(self.critical[i]) else "not known"
            lines.append(f"{hurst:>6.3f}  {theory:>9}  {signal:>26}  {gradient:>26}  {units}")
        lines += ["", "Reservations:", *(f"- {text}" for text in self.reservations)]
        return "\n".join(lines)

    def summary(self) -> str:
        """Return how the signal's boundary compares with theory, in a sentence."""
        known = np.isfinite(self.boundary) & np.isfinite(self.critical)
        if not known.any():
            none = (
                "is not within these exponents"
                if not np.isfinite(self.boundary).any()
                else "is found; theory does not know it"
            )
            return f"boundary between identity and explosion of the signal: it {none}."
        farthest = float(np.abs(self.boundary - self.critical)[known].max())
        sure = known & np.isfinite(self.boundary_interval).all(axis=1)
        low, high = self.boundary_interval[sure].T
        agree = int(((low <= self.critical[sure]) & (self.critical[sure] <= high)).sum())
        share = (
            f", within the {100 * self.confidence:g} % interval at {agree} of {int(sure.sum())} Hurst indices"
            if sure.any()
            else ""
        )
        missing = int((~np.isfinite(self.boundary)).sum())
        rest = f"; not within these exponents at {missing}" if missing else ""
        return (
            f"boundary between identity and explosion of the signal: at most {farthest:.3f} from"
            f" theory{share}{rest}."
        )

    def __repr__(self) -> str:
        grid = f"{len(self.hurst)} Hurst indices x {len(self.exponents)} exponents"
        return f"<PhaseDiagram {self.network}, {grid}, depth {self.depth}>"

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers; NaN and infinities as strings."""
        return {field.name: store.plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> PhaseDiagram:
        """Return the diagram whose `to_dict()` this is; raise TypeError or ValueError where it is none."""
        what = "the diagram"
        values = store.fields_of(cls, content, what)
        for name in ("hurst", "exponents"):
            if not isinstance(values[name], list) or not values[name]:
                raise ValueError(
                    f"{name} of {what} must be a list of numbers, got {validation.named(values[name])}"
                )
        m, n, draws = len(values["hurst"]), len(values["exponents"]), values["draws"]
        shapes: dict[str, tuple[int, ...]] = {
            "hurst": (m,),
            "exponents": (n,),
            "overflowed": (m, n),
            "critical": (m,),
        }
        for of in ("hidden", "gradient"):
            shapes |= {of: (m, n), f"{of}_draws": (m, n, draws), f"{of}_shallow_draws": (m, n, draws)}
        for prefix in ("", "gradient_"):
            shapes |= {
                f"{prefix}boundary": (m,),
                f"{prefix}boundary_interval": (m, 2),
                f"{prefix}unit_exponent": (m,),
            }
        for name, shape in shapes.items():
            values[name] = store.array(values[name], f"{name} of {what}", shape, whole=name == "overflowed")
        for name in ("hurst", "exponents"):
            if not bool(np.isfinite(values[name]).all()):
                raise ValueError(f"{name} of {what} must be finite")
        if not isinstance(values["versions"], dict):
            raise TypeError(
                f"versions of {what} must have named fields, got {validation.named(values['versions'])}"
            )
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the diagram as JSON; `deeplimit.load_report` reads it back."""
        store.save(KIND, self.to_dict(), path)

    def plot(self, ax: Axes | str | os.PathLike[str] | None = None, *, of: str = "hidden") -> Axes:
        """Draw the map of "hidden" or "gradient", with the theoretical and the measured boundary.

        `ax` is axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
        Nothing is shown.
        """
        from deeplimit.ground import plotting

        which = validation.choice(of, "of", ("hidden", "gradient"))
        return plotting.plot(lambda axes: plotting.draw_phase_diagram(self, axes, which), ax)


def _boundary_cell(at: float, interval: np.ndarray) -> str:
    if not np.isfinite(at):
        return "not within these exponents"
    return f"{at:.3f}" + (
        f"  [{interval[0]:.3f}, {interval[1]:.3f}]" if np.isfinite(interval).all() else "  (no interval)"
    )
