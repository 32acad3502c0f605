"""Fits of the growth exponent, on averages whose exponent and uncertainty are known."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from deeplimit.signal.growth_fit import STEP_SCALE, Averages, Deviations, _fit, _of_power, of_power, of_time
from deeplimit.statistics.power_law import MODEL_ERROR
from deeplimit.theory import Growth

DEPTHS = np.array([10, 30, 100, 300, 1000])


@dataclass(frozen=True)
class Straight:
    """Averages are times."""

    uncertainty: float = 0.0

    def log_times(self, log_means, depths):
        return log_means


def known_error(exponent, variances, beta, uncertainty):
    """Return the standard error of a slope by generalised least squares, written out."""
    step = STEP_SCALE * DEPTHS ** (-2.0 * beta)
    inverse = np.linalg.inv(np.diag(variances + MODEL_ERROR**2) + np.outer(step, step))
    design = np.stack([np.ones(5), np.log(DEPTHS)], axis=1)
    return np.hypot(np.linalg.inv(design.T @ inverse @ design)[1, 1] ** 0.5, uncertainty * exponent)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5])
@pytest.mark.parametrize(
    ("noise", "beta", "uncertainty"), [(0.05, 0.5, 0.0), (1e-3, 0.2, 0.0), (1e-3, 0.5, 0.1)]
)
def test_times_give_their_exponent_with_the_error_of_noise_steps_and_curve(
    exponent, noise, beta, uncertainty
):
    """Straight data leave further corrections out, up to their prior probability of 5 %."""
    variances = np.full(5, noise**2)
    averages = Averages(DEPTHS, exponent * np.log(DEPTHS) - 2.0, variances, 10**6)
    found = of_time(averages, Straight(uncertainty), beta)
    assert found.exponent == pytest.approx(exponent, abs=2e-3)
    low, high = found.interval(0.95)
    half = stats.norm.isf(0.025) * known_error(exponent, variances, beta, uncertainty)
    assert (high - low) / 2 == pytest.approx(half, rel=0.15)


def test_two_parts_of_a_change_are_told_apart():
    """1 + L_1/L: from end to end it falls, and its exponent is 0."""
    log_means = np.log1p(DEPTHS[0] / DEPTHS)
    found = of_power(Averages(DEPTHS, log_means, np.full(5, 1e-6), 1000), Growth(predicted=0.0, faster=1.0))
    low, high = found.interval(0.95)
    assert found.exponent == pytest.approx(0.0, abs=0.02)
    assert low < 0.0 < high
    assert high - low < 0.1


@pytest.mark.parametrize("floor", [0.0, 0.001, 0.002])
def test_a_floor_is_no_slow_decay_where_theory_says_nothing(floor):
    """f + 0.3/L: a single power, the wrong twin, is sure that it falls; two parts leave 0 open."""
    noise = np.random.default_rng(0).normal(size=5)
    log_means = np.log(floor + 0.3 / DEPTHS) + 0.05 * noise
    averages = Averages(DEPTHS, log_means, np.full(5, 0.05**2), 400)
    found = of_power(averages, Growth()).interval(0.999)
    assert (found[0] < 0.0 < found[1]) == (floor > 0.0)
    one_power = _fit(averages, Deviations(0.7 / DEPTHS, 0.05, 0.05, 0.0)).interval(0.999)
    assert one_power[1] < 0.0


@pytest.mark.parametrize("speed", [-0.5, 0.5, 1.0])
def test_an_interval_contains_its_estimate_whichever_way_slopes_go(speed):
    """L^-2 (1 + c L_1/L), as of a full turn: slopes that begin below -2 were said to bound it."""
    log_means = -2 * np.log(DEPTHS) + np.log1p(speed * DEPTHS[0] / DEPTHS)
    found = of_power(Averages(DEPTHS, log_means, np.full(5, 1e-6), 1000), Growth(predicted=None, faster=None))
    low, high = found.interval(0.95)
    assert low <= found.exponent <= high
    assert low < -2.0 < high
    assert high - low < 0.5


@pytest.mark.parametrize("pace", [40.0, 60.0, 100.0])
@pytest.mark.parametrize("spread", [0.03, 0.07])
def test_a_change_that_saturates_does_not_vanish(pace, spread):
    """2 (1 - exp(-L/pace)), of a state that forgets its input: powers of 1/L were sure that it falls."""
    log_means = np.log(2.0 * -np.expm1(-DEPTHS / pace))
    averages = Averages(DEPTHS, log_means, np.full(5, (2 * spread / 20) ** 2), 400)
    low, high = of_power(averages, Growth()).interval(0.999)
    assert low < 0.0 <= high < 0.1


def test_a_change_that_rises_and_falls_vanishes_all_the_same():
    """The twin: L/(1 + (L/30)^1.5), whose slopes fall to -1/2."""
    log_means = np.log(DEPTHS) - np.log1p((DEPTHS / 30) ** 1.5)
    low, high = of_power(Averages(DEPTHS, log_means, np.full(5, 0.003**2), 400), Growth()).interval(0.999)
    assert low < -0.5 <= high < -0.3


@pytest.mark.parametrize(
    ("slope", "known"), [(-0.1, Growth()), (None, Growth(predicted=0.0))], ids=["straight", "known"]
)
def test_the_last_slope_bounds_nothing_where_data_are_straight_or_theory_knows(slope, known):
    """Of a straight power the last slope is the least precise; its error alone would leave 0 open."""
    bent = np.log(2.0 * -np.expm1(-DEPTHS / 60.0))
    log_means = bent if slope is None else slope * np.log(DEPTHS)
    averages = Averages(DEPTHS, log_means, np.full(5, (0.03 if known == Growth() else 0.003) ** 2), 400)
    found = of_power(averages, known)
    assert found.interval(0.999) == _of_power(averages, known, 0.7).interval(0.999)
