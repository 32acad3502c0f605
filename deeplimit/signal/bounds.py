"""The bounds of Section 2 of Marion et al. (2025), with constants computed for the network, beside what was
measured.

The probability bounds hold with probability at least 1 - δ. Conditions on a = L^-2β are the ones that the
proofs use, with C and s of this block and law: the printed ones are sufficient for constants free of d and L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.theory import Block, block, expected_square

LEVEL = 1e-4
"""How unlikely a count or a mean must be under a bound before the bound is called broken."""
HEAVY = 0.07
"""Relative standard error from which a mean is not called one: too few of the rare large draws are in it."""
NOT_APPLICABLE = "not applicable"
ATOMS = "with Rademacher weights W h may be exactly 0, where σ has a kink (A4)"
SMALLEST = 1e-34
"""L^-2β from which on a layer adds less than a float32 pass resolves."""
TOO_FEW = f"a mean with a standard error above {100 * HEAVY:g} % is not tested: take more draws"
ROUNDING = 4e-6
"""What rounding may add to a mean of squares in float32."""


@dataclass(frozen=True)
class Bound:
    """One statement at one depth, beside the data.

    Attributes:
        statement: Where it is from.
        depth: L.
        says: What it says, with numbers.
        measured: What was measured, in the same terms.
        holds: Whether the data agree (at level LEVEL); None where it does not apply, or the data cannot tell.
        why: Why it does not apply, or why the data cannot tell; empty otherwise.
    """

    statement: str
    depth: int
    says: str
    measured: str
    holds: bool | None
    why: str = ""

    def __str__(self) -> str:
        told = {True: "holds", False: "BROKEN", None: "no test"}[self.holds]
        rest = self.why if self.says == NOT_APPLICABLE else f"{self.says}; measured {self.measured}"
        reason = f" ({self.why})" if self.why and self.says != NOT_APPLICABLE else ""
        return f"{self.depth:>8}  {self.statement:<18}  {told:<7}  {rest}{reason}"


@dataclass(frozen=True)
class Quantile:
    """A bound that holds with probability at least 1 - δ: log x < `log_bound`, or > where `is_lower`.

    `why_not` says why it does not apply, and is empty where it does.
    """

    statement: str
    log_bound: float = math.nan
    is_lower: bool = False
    why_not: str = ""

    def violations(self, log_values: np.ndarray) -> int:
        """Return how many draws lie on the wrong side, by more than rounding."""
        wrong = (
            log_values < self.log_bound - ROUNDING
            if self.is_lower
            else log_values > self.log_bound + ROUNDING
        )
        return int(wrong.sum())


def hidden_bounds(known: Block, width: int, depth: int, a: float, delta: float) -> list[Quantile]:
    """Return Props 3 and 4 at one depth.

    Proposition 3 is on log |h_L - h_0|²/|h_0|², Proposition 4 on log |h_L|²/|h_0|².
    """
    d, c, s = width, math.sqrt(known.eighth), known.sub_gaussian
    total = depth * a
    found = [change_bound("Proposition 3", depth, a, delta)]
    # Moments of one layer's step in log |h|², (E4)-(E7) of the proof, a factor a taken out of each.
    square, fourth = c * (128 * s**4 / d + 1) * a, c**2 * (3072 * s**6 / d + 1) * a**3
    mixed = 2048 * s**4 / d**2 * a
    tail = 2 * depth * math.exp(-d / (64 * a * s**2))
    spread = 2 * (square + 4 / d + 8 * fourth + 8 * mixed)
    too_large = f"a = {a:.3g} is too large for this block and width"
    if d < 64:
        found.append(Quantile("Proposition 4 (i)", why_not=f"it needs d ≥ 64, and d = {d}"))
    elif 0.5 - 4 / d - square < 0.375 or spread > 10 / d:
        found.append(Quantile("Proposition 4 (i)", why_not=too_large))
    elif tail > delta / 11:
        found.append(Quantile("Proposition 4 (i)", why_not=f"its condition (5) asks for δ ≥ {11 * tail:.3g}"))
    else:
        found.append(
            Quantile("Proposition 4 (i)", 0.375 * total - math.sqrt(11 * total / (d * delta)), is_lower=True)
        )
    if square > 1 / d:
        found.append(Quantile("Proposition 4 (ii)", why_not=too_large))
    else:
        found.append(
            Quantile("Proposition 4 (ii)", total + math.sqrt(5 * total / (d * delta)), is_lower=False)
        )
    return found


def change_bound(statement: str, depth: int, a: float, delta: float) -> Quantile:
    """Return the bound of Props 3 and 7 on log |h_L - h_0|²/|h_0|², or on log |p_0 - p_L|²/|p_L|²."""
    total = depth * a
    if total > 1.0:
        return Quantile(statement, why_not=f"it needs L a ≤ 1, and L a = {total:.3g}")
    return Quantile(statement, math.log(2.0 * total / delta), is_lower=False)


def evaluate(
    network: ResidualNetwork,
    depth: int,
    log_ratio: np.ndarray,
    log_change: np.ndarray,
    log_gradient_change: np.ndarray,
    delta: float,
) -> list[Bound]:
    """Return every bound at one depth beside the log ratios (draws,); empty where Section 2 says nothing."""
    known = block(network)
    if known is None or not known.satisfies_a2:
        return []
    a = float(depth) ** (-2.0 * network.exponent)
    if a < SMALLEST:
        return []
    exact = expected_square(network, depth)
    # At least the variance of log |h_L|²/|h_0|², 4qLa/d, as in `theory.log_normal`.
    log_variance = 4.0 * known.kept_most * depth * a / network.width
    powers = [_log_power(depth, a * kept) for kept in (0.5, known.kept_least, known.kept_most, 1.0)]
    ends = min(powers), max(powers)
    rows = [_mean_row("Lemma 15", depth, "|h_L-h_0|²/|h_0|²", 2 * log_change, ends, log_variance)]
    if known.has_atoms:
        rows += [
            Bound(name, depth, NOT_APPLICABLE, "-", None, ATOMS)
            for name in ("Proposition 8", "Proposition 7")
        ]
    else:
        rows.append(
            _mean_row(
                "Proposition 8", depth, "|p_0-p_L|²/|p_L|²", 2 * log_gradient_change, ends, log_variance
            )
        )
    if exact is not None:
        rows.append(
            _mean_row("exact mean", depth, "|h_L|²/|h_0|²", 2 * log_ratio, (exact, exact), log_variance)
        )
    of_gradient = [] if known.has_atoms else [change_bound("Proposition 7", depth, a, delta)]
    for bound in [*hidden_bounds(known, network.width, depth, a, delta), *of_gradient]:
        if bound.why_not:
            rows.append(Bound(bound.statement, depth, NOT_APPLICABLE, "-", None, bound.why_not))
            continue
        values, name = {
            "Proposition 3": (2 * log_change, "|h_L-h_0|/|h_0|"),
            "Proposition 7": (2 * log_gradient_change, "|p_0-p_L|/|p_L|"),
        }.get(bound.statement, (2 * log_ratio, "|h_L|/|h_0|"))
        rows.append(_quantile_row(bound, depth, name, values, delta))
    return rows


def _quantile_row(bound: Quantile, depth: int, name: str, log_values: np.ndarray, delta: float) -> Bound:
    wrong, count = bound.violations(log_values), len(log_values)
    sign = ">" if bound.is_lower else "<"
    says = f"{name} {sign} {power_of_ten(bound.log_bound / 2)} with probability {1 - delta:g}"
    # A broken bound would have more violations than δ explains.
    holds = float(stats.binom.sf(wrong - 1, count, delta)) > LEVEL
    return Bound(bound.statement, depth, says, f"in {100 * (1 - wrong / count):.4g} % of draws", holds)


def log_mean(log_values: np.ndarray) -> tuple[float, float]:
    """Return the logarithm of the mean of exp(values), and the mean's relative standard error."""
    top = float(log_values.max())
    scaled = np.exp(log_values - top)
    mean = float(scaled.mean())
    if len(scaled) < 2:
        return top + math.log(mean), math.inf
    return top + math.log(mean), float(scaled.std(ddof=1)) / math.sqrt(len(scaled)) / mean


def mean_error(log_values: np.ndarray, log_variance: float) -> tuple[float, float, float]:
    """Return the log of the mean of exp(values), its relative standard error, and its error bound at LEVEL.

    Products of many layers are nearly log-normal. Where the rare large draws have not been seen, mean and
    standard error are both too small: a Student interval misses the truth a hundred times too often. So the
    standard error is at least that of a log-normal law whose logarithm has `log_variance`. The interval is
    widened by the first term of Edgeworth's expansion, with the log-normal law's skewness.
    """
    mean, error = log_mean(log_values)
    count = len(log_values)
    error = max(error, math.sqrt(math.expm1(min(log_variance, 100.0)) / count))
    if count < 2:
        return mean, error, math.inf
    student = float(stats.t.isf(LEVEL / 2, count - 1))
    spread = error * math.sqrt(count)
    skewness = 3 * spread + spread**3
    return mean, error, error * (student + skewness * (2 * student**2 + 1) / (6 * math.sqrt(count)))


def _mean_row(
    statement: str,
    depth: int,
    name: str,
    log_squares: np.ndarray,
    ends: tuple[float, float],
    log_variance: float,
) -> Bound:
    """Return a bound on the log of a mean of squares from both sides; equal `ends` say what it is."""
    low, high = ends
    exactly = low == high
    says = f"E {name} = {power_of_ten(low)}"
    if not exactly:
        says = f"{power_of_ten(low)} ≤ E {name} ≤ {power_of_ten(high)}"
    if not bool(np.isfinite(log_squares).all()):
        return Bound(statement, depth, says, "-", None, "some draws are 0 or overflowed")
    mean, error, most = mean_error(log_squares, log_variance)
    measured = f"{power_of_ten(mean)} ± {power_of_ten(math.log(100 * error))} %"
    if error > HEAVY:
        return Bound(statement, depth, says, measured, None, TOO_FEW)
    if exactly:
        most = max(most, ROUNDING)
    return Bound(statement, depth, says, measured, bool(low - most <= mean <= high + most))


def _log_power(depth: int, a: float) -> float:
    """Return log((1 + a)^L - 1), which neither overflows nor cancels."""
    grown = depth * math.log1p(a)
    return grown + math.log(-math.expm1(-grown)) if grown > 1.0 else math.log(math.expm1(grown))


def power_of_ten(log_value: float) -> str:
    """Return exp(log_value) in four digits, however large or small it is."""
    if not math.isfinite(log_value):
        return {math.inf: "inf", -math.inf: "0"}.get(log_value, "nan")
    tens = log_value / math.log(10.0)
    if -5 < tens < 6:
        return f"{math.exp(log_value):.4g}"
    whole = math.floor(tens)
    digits = f"{10 ** (tens - whole):.3g}"
    return f"{digits}e{whole:+d}" if digits != "10" else f"1e{whole + 1:+d}"
