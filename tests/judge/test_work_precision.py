"""`dl.work_precision`: an adaptive solver follows its tolerance, and twins that do not are named."""

import math

import numpy as np
import pytest
import torch
import torchdiffeq
from listed_rules import rule_names
from refusals import assert_refused, row

import deeplimit as dl
from deeplimit.judge.solver import wording
from deeplimit.judge.solver.work_report import of_tolerances

GBM = dl.testing.PROBLEMS["geometric Brownian motion"]
OSCILLATOR = dl.testing.PROBLEMS["oscillator"]
LOOSE = (1e-2, 1e-3, 1e-4, 1e-5)
ENDS = torch.tensor([0.0, 1.0], dtype=torch.float64)


def check(scheme, problem=OSCILLATOR, **given):
    return dl.work_precision(scheme, problem.equation, problem.x, **given)


@pytest.mark.parametrize("method", ["dopri5", "fehlberg2"])
def test_a_controlled_error_follows_the_tolerance(method):
    report = check(method)
    assert report.verdict == "follows the tolerance"
    assert report.exponent_interval[0] < 1.0 < report.exponent_interval[1] + 0.05
    assert (np.diff(report.evaluations) >= 0).all()
    assert (np.diff(report.errors) < 0).all()


def test_the_cost_of_heuns_pair_is_that_of_order_2():
    report = check("adaptive_heun", tolerances=LOOSE)
    assert report.documented == 2.0
    assert report.work_order_interval[0] < 2.0 < report.work_order_interval[1]


def test_a_solver_that_does_not_read_its_tolerance_is_named():
    def blind(equation, x, brownian, tolerance):
        return torchdiffeq.odeint(equation, x, ENDS, rtol=1e-3, atol=1e-3)[-1]

    report = check(blind)
    assert (report.verdict, report.rule) == ("does not follow the tolerance", "hardly_moves")
    assert not math.isfinite(report.work_order)  # the cost does not move either


@pytest.mark.parametrize("ends", [0.9999, 1 - 1e-5, 1 - 1e-6])
def test_a_solver_that_ends_too_early_does_not_follow_its_tolerance_for_long(ends):
    def short(equation, x, brownian, tolerance):
        return torchdiffeq.odeint(equation, x, ENDS * ends, rtol=tolerance, atol=tolerance)[-1]

    assert check(short).verdict == "does not follow the tolerance"


def test_a_solver_that_reads_the_root_of_its_tolerance_lags():
    def rooted(equation, x, brownian, tolerance):
        return torchdiffeq.odeint(equation, x, ENDS, rtol=tolerance**0.5, atol=tolerance**0.5)[-1]

    assert check(rooted, tolerances=[10.0**-k for k in range(3, 13)]).verdict == "lags behind the tolerance"


def test_torchsdes_adaptive_euler_tends_to_another_solution_for_multiplicative_noise():
    """Its steps depend on the noise within them; torchsde warns of it."""
    report = check("euler", GBM, tolerances=10.0 ** -np.arange(1, 3.1, 0.25), paths=6)
    assert report.verdict == "does not follow the tolerance"
    assert report.errors[-1] > 10 * report.tolerances[-1]


def test_evaluations_are_counted_and_paths_shared():
    seen = []

    def once(equation, x, brownian, tolerance):
        seen.append(float(brownian(0.0, 1.0)))
        return x + equation.f(0.0, x) + equation.g_prod(0.0, x, brownian(0.0, 1.0))

    report = check(once, GBM, tolerances=LOOSE, paths=3)
    assert report.evaluations.tolist() == [2.0] * 4
    assert len({*seen}) == 3
    assert check(once, GBM, tolerances=LOOSE, paths=3, seed=1).errors[0] != report.errors[0]


def test_lost_runs_and_errors_below_the_references_are_said():
    lost = check(lambda equation, x, brownian, tolerance: x * math.nan)
    assert (lost.verdict, lost.rule, lost.lost) == ("cannot tell", "runs_are_lost", 2)
    exact = check(lambda equation, x, brownian, tolerance: equation.solution(ENDS[1], x))
    assert (exact.verdict, exact.rule) == ("cannot tell", "tolerances_are_few")


def test_every_rule_has_a_sentence():
    assert set(rule_names(of_tolerances)) == set(wording.WORK)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        row("scheme", lambda: check(3), TypeError, "scheme", "3"),
        row("a fixed step", lambda: check("rk4"), ValueError, "scheme", "'rk4'"),
        row("of torchsde", lambda: check("heun", GBM), ValueError, "scheme", "'heun'"),
        row(
            "solution",
            lambda: check("srk", dl.testing.PROBLEMS["double well"]),
            ValueError,
            "equation",
            "solution=",
        ),
        row("tolerances", lambda: check("dopri5", tolerances=[1e-3, 1e-4]), ValueError, "tolerances"),
        row("rising", lambda: check("dopri5", tolerances=[1e-5, 1e-4, 1e-3]), ValueError, "tolerances"),
        row("shape", lambda: check(lambda e, x, b, t: x[0]), ValueError, "scheme", "(1, 2)"),
        row("tensor", lambda: check(lambda e, x, b, t: 1.0), TypeError, "scheme", "1.0"),
    ],
)
def test_bad_calls_are_refused_by_the_argument(call, error, named):
    assert_refused(call, error, *named)


def test_the_line_through_the_errors_falls_at_the_order_of_the_work():
    report = check("adaptive_heun", tolerances=LOOSE)
    (line,) = [each for each in report.plot().get_lines() if each.get_label().startswith("order")]
    (left, right), (high, low) = line.get_data()
    assert (left, right) == (report.evaluations[0], report.evaluations[report.levels - 1])
    assert -np.log(low / high) / np.log(right / left) == pytest.approx(report.work_order)


def test_progress_rises_to_one():
    seen = []
    check("dopri5", tolerances=LOOSE, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) > 1


@pytest.mark.parametrize(("steps", "verdict"), [(64, "cannot tell"), (2, "does not follow the tolerance")])
def test_an_error_below_every_tolerance_does_not_show_whether_it_follows(steps, verdict):
    """RK4 on equal steps: with 64 its error is below all that is asked; the twin's, with 2, is not."""

    def equal(equation, x, brownian, tolerance):
        return torchdiffeq.odeint(equation, x, ENDS, method="rk4", options={"step_size": 1 / steps})[-1]

    report = check(equal, tolerances=[1e-3, 1e-4, 1e-5, 1e-6])
    assert report.verdict == verdict
    assert (report.rule == "tolerances_are_met") is (steps == 64)
