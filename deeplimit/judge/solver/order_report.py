"""`order`: per-path errors of any solver become an order with its interval, a floor and a verdict."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, final

import numpy as np
import torch

from deeplimit.common import axes as drawing, validation
from deeplimit.common.axes import FITTED, MEASURED
from deeplimit.common.curve import Curve
from deeplimit.common.fields import Count, Interval, Level, Shape
from deeplimit.common.global_state import by_default
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import OrderVerdict, judge
from deeplimit.judge.solver import verdict as rules, wording
from deeplimit.judge.solver.verdict import LEAST_LEVELS, OrderEvidence
from deeplimit.statistics.consecutive import ROUNDED, SCATTERS
from deeplimit.statistics.solver_errors import ErrorOrder, either, fit_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OF_A_PART = 0.0
"""Prior of these corrections for what is left of errors: with 1/4 88 % of 120 intervals of Euler's scheme at
small noise covered 1/2, with 0 they are 95 %."""
SURE, APART = 0.99, 0.975
"""Quantiles of an order beyond which it surely does not lie, and beyond which it hardly does."""
Steps = Annotated[np.ndarray, Shape("steps", whole=True, increasing=True)]
PerStep = Annotated[np.ndarray, Shape("steps")]
BetweenSteps = Annotated[np.ndarray, Shape("steps-1")]


@final
@dataclass(frozen=True, eq=False)
class OrderReport(Report):
    """The order of a solver's errors, with its uncertainty; arrays have one entry per number of steps (m,).

    Attributes:
        verdict: "power law", "levels off" or "cannot tell".
        rule: name of the rule that decided.
        steps: numbers of steps.
        errors, standard_errors: (mean |error|^p)^(1/p) over the paths, with standard errors by the delta
            method.
        rate, rate_interval: order r of error ~ constant · steps**-r, and its interval; NaN where none is
            given.
        confidence: level of the interval.
        local_slopes, local_slope_errors: orders between neighbouring numbers of steps (m - 1,), with standard
            errors, of the mean that was fitted; NaN for levels that were left out.
        floor, floor_lower, floor_upper: share of the deepest squared error that would remain at infinitely
            many steps, with bounds at 95 % each; NaN where it was not fitted.
        floor_probability: probability that this share exceeds one half.
        average: mean that was fitted: "square roots", "medians", or "single" for one vector of errors.
        p, paths: norm over paths, and their number.
        lost, vanished: paths with an error that is not finite, and paths with an error of exactly 0.
        kurtosis: kurtosis of |error|^p at the worst number of steps.
        smallest, resolution: smallest typical error, and size below which errors are round-off.
        levels: numbers of steps that are above round-off, from the coarsest on.
        caveats: names of the rules of what to know before trusting the numbers.
        left_out: coarsest numbers of steps that follow no power law with the others, and were not fitted.
    """

    kind = "order"

    verdict: OrderVerdict
    rule: str
    steps: Steps
    errors: PerStep
    standard_errors: PerStep
    rate: float
    rate_interval: Interval
    confidence: Level
    local_slopes: BetweenSteps
    local_slope_errors: BetweenSteps
    floor: float
    floor_lower: float
    floor_upper: float
    floor_probability: float
    average: str
    p: float
    paths: Count
    lost: int
    vanished: int
    kurtosis: float
    smallest: float
    resolution: float
    levels: int
    caveats: tuple[str, ...]
    left_out: int = 0

    @property
    def reason(self) -> str:
        """The rule that decided, in a sentence."""
        return wording.ORDER[self.rule](self)

    @property
    def headline(self) -> str:
        """The verdict and its reason."""
        return f"{self.verdict}: {self.reason}."

    def _facts(self) -> list[tuple[str, str]]:
        return [("", text) for text in wording.order_line(self)]

    def _setting(self) -> list[tuple[str, str]]:
        return [
            (
                "",
                f"{self.paths} paths, L^{self.p:g} mean of errors; the order is fitted to"
                f" {'the errors themselves' if self.average == 'single' else self.average}",
            )
        ]

    def _reservations(self) -> list[str]:
        return [wording.ORDER_CAVEATS[name](self) for name in self.caveats]

    def _table(self) -> Table:
        return Table(
            (
                Column("steps", self.steps),
                Column("error", self.errors, ".4g"),
                Column("std. error", self.standard_errors, ".2g"),
                Column(
                    "local slope",
                    [math.nan, *self.local_slopes],
                    ".3f",
                    error=[math.nan, *self.local_slope_errors],
                ),
            )
        )

    def _curves(self) -> list[Curve]:
        mean = {1.0: "mean error", 2.0: "root mean square error"}.get(
            self.p, f"$L^{{{self.p:g}}}$ mean error"
        )
        curve = of_steps("error", mean, self, self.steps, self.errors, self.standard_errors)
        # A line through all levels would be neither's.
        return [dataclasses.replace(curve, slope=math.nan) if self._of_a_part or self.left_out else curve]

    @property
    def _of_a_part(self) -> bool:
        """Whether the order is of a part of these errors, through which no line of it goes."""
        return "order_is_of_a_part" in self.caveats

    def _draw(self, axes: Axes) -> None:
        rate = math.nan if self._of_a_part else self.rate
        interval, first = self.rate_interval, self.left_out
        draw_levels(axes, self.steps, self.errors, self.standard_errors, rate, interval, first)
        of_what = ["of the part that is left at more steps"] if self._of_a_part else []
        title = [self.verdict.capitalize(), *wording.order_line(self), *of_what]
        drawing.label(axes, "steps", "error", title)


def of_steps(
    name: str, axis: str, report: Any, steps: np.ndarray, sizes: np.ndarray, errors: np.ndarray
) -> Curve:
    """Return sizes (m,) with 95 % bars against numbers of steps, and the report's order."""
    half = 1.96 * np.nan_to_num(errors)
    fitted = {"rate": report.rate, "interval": report.rate_interval, "slope": -report.rate}
    return Curve(name, axis, steps, sizes, sizes - half, sizes + half, across="number of steps", **fitted)


def draw_levels(
    axes: Axes,
    steps: np.ndarray,
    sizes: np.ndarray,
    errors: np.ndarray,
    rate: float,
    interval: Interval,
    first: int = 0,
) -> None:
    """Draw sizes (m,) with 95 % bars against numbers of steps, log-log, with the slope from `first` on."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    good = np.isfinite(sizes) & (sizes > 0)
    at, shown = steps[good].astype(float), sizes[good]
    if len(at):
        bars = np.minimum(1.96 * np.nan_to_num(errors[good]), 0.9 * shown)
        axes.errorbar(at, shown, yerr=bars, fmt="o", color=MEASURED, ms=4, capsize=4, label="measured (95 %)")
        if math.isfinite(rate):
            fitted = at >= steps[first]
            anchor = np.exp(np.mean((np.log(shown) + rate * np.log(at))[fitted]))
            told = f"order {rate:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"
            ends = at[fitted][[0, -1]]
            axes.plot(ends, anchor * ends**-rate, color=FITTED, label=told)
    drawing.depth_ticks(axes, steps.tolist())
    axes.grid(which="major", alpha=0.3)
    drawing.legend(axes)


@by_default
def order(errors: Any, steps: Any, *, p: float = 2, confidence: float = 0.95) -> OrderReport:
    """Return the order of convergence of a solver from its errors at several numbers of steps.

    The order is fitted to means of square roots, which have lighter tails and fall at the same order, or to
    medians where a few paths make up the mean. `p` decides only which errors the report states.

    Args:
        errors: distances (P, m) of P paths to an exact or fine solution at m numbers of steps, as an array or
            a tensor. All levels share paths, one per row. A vector (m,) holds errors without sampling noise,
            such as an ODE's.
        steps: numbers of steps (m,), increasing; five over a factor of 16 make a useful fit.
        p: power of the mean over paths that `report.errors` states, between 0 (not included) and 100.
        confidence: level of the order's interval.

    Returns:
        A report: verdict, order with interval, local slopes, floor; `print` it, `plot` it, `save` it.

    Raises:
        TypeError: for an argument of the wrong kind.
        ValueError: for errors of another shape, negative errors, and steps that do not increase.

    NOT checked: that rows are independent, and that the fine solution is much finer than the finest level.

    Errors below 30 machine epsilons of their dtype count as round-off, as for states of size 1.

    Examples:
        >>> import numpy as np, deeplimit as dl
        >>> steps = np.array([16, 32, 64, 128, 256])
        >>> paths = np.abs(np.random.default_rng(0).standard_normal((500, 1)))
        >>> report = dl.order(paths / steps, steps)
        >>> report.verdict, report.rate_interval[0] < 1 < report.rate_interval[1]
        ('power law', True)
    """
    numbers = np.array(read_steps(steps, 2), dtype=np.int64)
    values, epsilon = _read_errors(errors, len(numbers))
    power = validation.real(p, "p", above=0.0, maximum=100.0)
    level = validation.probability(confidence, "confidence", "0.95 is usual.")
    evidence = _gathered(values, numbers, np.ndim(errors) == 1, epsilon, level)
    judgement = judge(rules.order, evidence)
    return _reported(evidence, judgement.code, judgement.rule, power, level)


OF_SIZES = "Of steps of size dt on [0, T] give their number, T / dt."
"""What to do with sizes of steps."""


def read_steps(steps: Any, at_least: int) -> tuple[int, ...]:
    """Return numbers of steps as an increasing tuple of positive integers, refused if too few."""
    given = validation.entries(steps, "steps", "a list of integers such as [16, 32, 64]")
    listed = tuple(
        validation.integer(each, "every number of steps", minimum=1, hint=OF_SIZES) for each in given
    )
    if len(listed) < at_least or any(later <= earlier for earlier, later in itertools.pairwise(listed)):
        raise ValueError(
            f"steps must be at least {at_least} increasing numbers, got {list(listed)}; try [16, 32, 64, 128,"
            " 256]."
        )
    return listed


def _read_errors(errors: Any, levels: int) -> tuple[np.ndarray, float]:
    """Return errors as (P, m) in float64, and the machine epsilon of their dtype."""
    if isinstance(errors, torch.Tensor):
        errors = validation.real_tensor(errors, "errors").detach().cpu().numpy()
    try:
        given = np.asarray(errors)
        if given.dtype.kind not in "fiub":
            raise TypeError(f"entries of dtype {given.dtype}")
        epsilon = float(np.finfo(given.dtype).eps) if given.dtype.kind == "f" else float(np.finfo(float).eps)
        values = given.astype(float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"errors must be an array of numbers (paths, {levels}), got {validation.named(errors)}."
        ) from error
    if values.ndim not in (1, 2) or values.shape[-1] != levels or values.size == 0:
        raise ValueError(
            f"errors must have shape (paths, {levels}), one column for each of the {levels} numbers of steps;"
            f" got {values.shape}."
        )
    if bool((values < 0).any()):
        raise ValueError(f"errors must be distances, at least 0, got {np.nanmin(values):g}; take norms.")
    return np.atleast_2d(values), epsilon


def _gathered(
    values: np.ndarray, steps: np.ndarray, single: bool, epsilon: float, confidence: float
) -> OrderEvidence:
    kept = values[(np.isfinite(values) & (values > 0)).all(axis=1)]
    levels = len(steps)
    if len(kept):
        above = np.median(kept, axis=0) > ROUNDED * epsilon
        levels = len(steps) if above.all() else int(np.argmin(above))
    fit, of_a_part, left_out = None, False, 0
    interval, local = (math.nan, math.nan), np.empty((2, 0))
    finite = bool(np.isfinite(values).all())
    if finite and levels >= LEAST_LEVELS and len(kept) >= (1 if single else levels + 3):
        every = _fit(kept[:, :levels], steps[:levels], single)
        local = np.array([every.slopes, every.slope_errors])
        fit, left_out = _without_unstable_levels(every, kept[:, :levels], steps[:levels], single)
        if not single and levels - left_out > LEAST_LEVELS:
            fitted = slice(left_out, levels)
            whole, fit = fit, _with_what_fluctuates(fit, kept[:, fitted], steps[fitted])
            of_a_part = fit is not whole
        tail = (1.0 - confidence) / 2
        interval = (fit.orders.quantile(tail), fit.orders.quantile(1.0 - tail))
    return OrderEvidence(
        values, kept, steps, levels, single, epsilon, fit, interval, of_a_part, left_out, local
    )


def _without_unstable_levels(
    whole: ErrorOrder, errors: np.ndarray, steps: np.ndarray, single: bool
) -> tuple[ErrorOrder, int]:
    """Return the order of errors (P, m), and how many of the coarsest levels are left out; `whole` fits all.

    Steps beyond a solver's stability have errors of any size. Where all levels together follow no power law,
    or may level off, and the finer ones do follow one without a floor, that is the order.
    """
    if whole.uncertain or whole.floor.probability > rules.DOUBTFUL:
        for first in range(1, len(steps) - rules.FEWEST_OF_THE_FINE + 1):
            finer = _fit(errors[:, first:], steps[first:], single)
            law = not finer.uncertain and finer.floor.probability <= rules.DOUBTFUL
            octaves = math.log(steps[first] / steps[first - 1])
            gap = (whole.slopes[first - 1] - finer.orders.quantile(0.5)) * octaves
            if law and abs(gap) > rules.OF_NO_LAW:
                return finer, first
    return whole, 0


def _fit(errors: np.ndarray, steps: np.ndarray, single: bool) -> ErrorOrder:
    return fit_errors(errors, steps, exact=single, halves=True, scatters=SCATTERS)


def _with_what_fluctuates(fit: ErrorOrder, errors: np.ndarray, steps: np.ndarray) -> ErrorOrder:
    """Return the fit with the order of what errors (P, m) do not have in common with the level before.

    Beside a drift the order 1/2 of small noise is hidden: errors of one path fall like 1/L, times what all
    levels have. Without it, what is left falls at the order of the noise. Where it surely falls more slowly
    than the whole, that is the order; where it may, the order is either's.
    """
    typical = np.square(np.sqrt(errors).mean(axis=0))
    left = np.abs(errors[:, 1:] - errors[:, :-1] * (typical[1:] / typical[:-1]))
    left = left[(left > 0).all(axis=1)]
    if len(left) < len(steps) + 3:
        return fit
    part = fit_errors(left, steps[1:], prior=OF_A_PART, halves=True, scatters=SCATTERS)
    if not part.orders.quantile(1.0 - SURE) > 0:  # what is left is a floor, which others look for
        return fit
    if part.orders.quantile(SURE) < fit.orders.quantile(1.0 - SURE) - rules.FLUCTUATING:
        return dataclasses.replace(fit, orders=part.orders)
    if part.orders.quantile(APART) < fit.orders.quantile(0.5) - rules.FLUCTUATING:  # either may decide
        return dataclasses.replace(fit, orders=either(part.orders, fit.orders))
    return fit


def _reported(e: OrderEvidence, code: OrderVerdict, rule: str, p: float, confidence: float) -> OrderReport:
    count, m = e.errors.shape
    scale = np.where(np.isfinite(e.errors), e.errors, 0.0).max(axis=0)
    scale[scale == 0] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        powers = (e.errors / scale) ** p  # the largest finite one is 1, so that no power overflows
        mean = powers.mean(axis=0)
        spread = powers.std(axis=0, ddof=1) if count > 1 else np.zeros(m)
        kurtosis = ((powers - mean) ** 4).mean(axis=0) / np.maximum(powers.var(axis=0), 1e-300) ** 2
    errors = scale * mean ** (1 / p)
    standard_errors = errors * spread / np.maximum(mean, 1e-300) / p / math.sqrt(count)
    fit, slopes = e.fit, np.full((2, m - 1), math.nan)
    if fit is not None:
        slopes[:, : e.local.shape[1]] = e.local
    # Of errors that grow no share remains.
    floor = None if fit is None or (e.interval[1] < 0 and rules.grow(e.steps, slopes[0])) else fit.floor
    report = OrderReport(
        verdict=code,
        rule=rule,
        steps=e.steps,
        errors=errors,
        standard_errors=standard_errors,
        rate=math.nan if fit is None else fit.orders.quantile(0.5),
        rate_interval=e.interval,
        confidence=confidence,
        local_slopes=slopes[0],
        local_slope_errors=slopes[1],
        floor=math.nan if floor is None else floor.share,
        floor_lower=math.nan if floor is None else floor.lower,
        floor_upper=math.nan if floor is None else floor.upper,
        floor_probability=math.nan if floor is None else floor.probability,
        average="single" if e.single else "medians" if fit is not None and fit.medians else "square roots",
        p=p,
        paths=count,
        lost=int((~np.isfinite(e.errors)).any(axis=1).sum()),
        vanished=int((e.errors == 0).any(axis=1).sum()),
        kurtosis=float(kurtosis.max()),
        smallest=e.smallest,
        resolution=e.resolution,
        levels=e.levels,
        caveats=(),
        left_out=e.left_out,
    )
    told = tuple(name for name, holds in rules.order_caveats(report, e.of_a_part) if holds)
    return dataclasses.replace(report, caveats=told)
