"""Errors of small noise beside a drift: what every path has falls like 1/n, and what is left like n^-1/2."""

import numpy as np
import pytest

import deeplimit as dl

STEPS = np.array([8, 16, 32, 64, 128, 256])


def euler(seed, noise, drift=-2.0, paths=1000):
    """Errors of Euler's scheme for dX = drift X dt + noise X dB at time 1."""
    fine = 2 * STEPS[-1]
    dB = np.random.default_rng(seed).standard_normal((paths, fine)) * fine**-0.5
    exact = np.exp(drift - noise**2 / 2 + noise * dB.sum(axis=1))
    ends = [np.prod(1 + drift / n + noise * dB.reshape(paths, n, -1).sum(axis=2), axis=1) for n in STEPS]
    return np.abs(np.stack(ends, axis=1) - exact[:, None])


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "drift"), [(0.1, -2.0), (0.2, -2.0), (0.04, 1.0)])
def test_the_order_is_that_of_the_noise(noise, drift):
    """Of 20 intervals of 95 % twelve cover, but for one case in 10^8."""
    reports = [dl.order(euler(seed, noise, drift), STEPS) for seed in range(20)]
    assert sum(report.rate_interval[0] <= 0.5 <= report.rate_interval[1] for report in reports) >= 12
    assert {report.verdict for report in reports} == {"power law"}
    assert sum("order_is_of_a_part" in report.caveats for report in reports) >= 12


def test_no_line_of_a_part_is_drawn_through_the_whole():
    hidden, plain = dl.order(euler(0, 0.1), STEPS), dl.order(measured(0, 1.0), STEPS)
    for report, lines in ((hidden, 0), (plain, 1)):
        labels = report.plot().get_legend_handles_labels()[1]
        assert sum(label.startswith("order") for label in labels) == lines
        assert np.isfinite(report._curves()[0].slope) == bool(lines)


@pytest.mark.statistical
def test_where_either_part_may_decide_the_interval_holds_both(monkeypatch):
    """Of 20 intervals two covered 1/2 before: nine do, but for one case in 10^5 of 16."""
    monkeypatch.setitem(globals(), "STEPS", STEPS[1:])
    reports = [dl.order(euler(seed, 0.1, drift=0.5, paths=500), STEPS) for seed in range(20)]
    assert sum(report.rate_interval[0] <= 0.5 <= report.rate_interval[1] for report in reports) >= 9


def alone(seed, order):
    """Errors with a correction that differs from path to path."""
    drawn = np.abs(np.random.default_rng(seed).standard_normal((2, 400, 1)))
    return drawn[0] * STEPS**-order * (1 + 0.3 * drawn[1] / STEPS**0.5)


def measured(seed, order):
    """Errors that are known to 30 % each."""
    random = np.random.default_rng(seed)
    sizes = np.abs(random.standard_normal((400, 1))) * STEPS**-order
    return sizes * np.abs(1 + 0.3 * random.standard_normal((400, len(STEPS))))


@pytest.mark.parametrize("errors", [alone, measured])
@pytest.mark.parametrize("order", [0.5, 1.0])
def test_errors_of_one_order_have_no_other_part(errors, order):
    for seed in range(10):
        report = dl.order(errors(seed, order), STEPS)
        assert "order_is_of_a_part" not in report.caveats
        assert abs(report.rate - order) < 0.1


def test_slopes_whose_changes_double_are_no_power_law():
    errors = np.hypot(0.02 * STEPS**-0.5, 1.0 / STEPS)
    assert (dl.order(errors, STEPS).verdict, dl.order(1.0 / STEPS, STEPS).verdict) == (
        "cannot tell",
        "power law",
    )
