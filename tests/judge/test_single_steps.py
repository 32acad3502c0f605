"""Single steps show the order of a part that usual numbers of steps hide, and accuse nobody wrongly."""

from __future__ import annotations

import itertools

import pytest
import torch

import deeplimit as dl
from deeplimit.judge.solver.runs import Plan, resolve
from deeplimit.judge.solver.single_steps import single_steps

STEPS = (16, 32, 64, 128, 256)
X = torch.ones(1, 1, dtype=torch.float64)


def geometric(drift, noise):
    return dl.SDE(lambda t, h: drift * h, lambda t, h, dB: noise * h * dB, noise="diagonal")


def sine(noise):
    """A drift beside which multiplicative noise is small."""
    return dl.SDE(
        lambda t, h: torch.cos(2 * h), lambda t, h, dB: noise * (1 + torch.sin(h) / 2) * dB, noise="diagonal"
    )


def milstein(term, drift=-0.5, noise=0.3):
    """Milstein's scheme for `geometric(drift, noise)`, with `term` for 1/2."""

    def solver(equation, x, brownian, times):
        for s, t in itertools.pairwise(times):
            dB = brownian(s, t)
            x = x + drift * x * (t - s) + noise * x * dB + term * noise**2 * x * (dB**2 - (t - s))
        return x

    return solver


def seen(scheme, equation, x=X, seed=0):
    return single_steps(Plan(resolve(scheme, equation), equation, STEPS, x, "fine", seed))


@pytest.mark.parametrize(
    ("scheme", "equation", "order"),
    [
        (dl.EulerMaruyama(), sine(0.03), 0.5),
        (dl.EulerMaruyama(), geometric(-2.0, 0.1), 0.5),
        (dl.Milstein(), sine(0.03), 1.0),
        (milstein(0.49), geometric(-0.5, 0.3), 0.5),
        (milstein(0.5), geometric(-0.5, 0.3), 1.0),
        ("srk", geometric(0.5, 0.5), 1.5),
    ],
)
def test_single_steps_show_the_order_as_steps_vanish(scheme, equation, order):
    found = seen(scheme, equation)
    assert found.interval[0] < order < found.interval[1]
    assert found.within < 0.06


@pytest.mark.parametrize("name", ["Lévy area", "Lévy area, Stratonovich", "circle"])
def test_they_show_it_of_noise_with_areas(name):
    problem = dl.testing.PROBLEMS[name]
    for scheme in problem.strong:
        found = seen(problem.solvers.get(scheme, scheme), problem.equation, problem.x.double())
        truth = 1.0 if scheme == "log_ode" else problem.strong[scheme]  # it is given areas
        assert found.interval[0] < truth < found.interval[1]


def starts_with_euler(equation, x, brownian, times):
    """Milstein's scheme, whose first step is one of Euler's: its order is still 1."""
    first = milstein(0.0)(equation, x, brownian, times[:2])
    return milstein(0.5)(equation, first, brownian, times[1:])


def takes_times_for_the_whole(equation, x, brownian, times):
    for s, t in itertools.pairwise(times):
        x = x - 0.5 * x / (len(times) - 1) + 0.3 * x * brownian(s, t)
    return x


def asks_from_the_start(equation, x, brownian, times):
    return x * torch.exp(-0.545 * times[-1] + 0.3 * brownian(0.0, times[-1]))


def in_single_precision(equation, x, brownian, times):
    narrow = x.float()
    for s, t in itertools.pairwise(times.tolist()):
        dB = brownian(s, t).float()
        narrow = narrow * (1 - 0.5 * (t - s) + 0.3 * dB) + 0.045 * narrow * (dB**2 - (t - s))
    return narrow.double()


@pytest.mark.parametrize(
    "solver", [starts_with_euler, takes_times_for_the_whole, asks_from_the_start, in_single_precision]
)
def test_what_they_cannot_show_is_unknown(solver):
    assert seen(solver, geometric(-0.5, 0.3)) is None


def test_the_first_step_alone_is_no_order_of_the_solver():
    report = dl.check_solver(starts_with_euler, geometric(-0.5, 0.3), X, order=1.0, paths=256)
    assert report.source == "differences"
    assert report.verdict == "documented order"


def test_at_small_noise_the_order_of_eulers_scheme_is_one_half():
    report = dl.check_solver(dl.EulerMaruyama(), sine(0.1), X, steps=(16, 32, 64, 128), paths=256)
    assert report.source == "single steps"
    assert "order_is_of_single_steps" in report.caveats
    assert report.verdict == "documented order"
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    labels = [text.get_text() for text in report.plot().get_legend().get_texts()]
    assert not any("order" in label for label in labels)  # no line of that slope goes through these changes


def test_additive_noise_keeps_its_order_of_one():
    additive = dl.SDE(lambda t, h: torch.cos(2 * h), lambda t, h, dB: 0.1 * dB, noise="diagonal")
    report = dl.check_solver(dl.EulerMaruyama(), additive, X, paths=256)
    assert report.source == "differences"
    assert report.rate_interval[0] < 1.0 < report.rate_interval[1]


@pytest.mark.parametrize(("term", "verdict"), [(0.49, "not the documented order"), (0.5, "documented order")])
def test_a_milstein_term_two_percent_short_has_not_its_order(term, verdict):
    report = dl.check_solver(milstein(term), geometric(-0.5, 0.3), X, order=1.0, paths=256)
    assert report.verdict == verdict
