"""Controls of weak errors: their mean is 0, they leave means alone, and take most of the noise away."""

import math

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common.randomness import Purpose
from deeplimit.judge.solver.controls import MOST_MOTIONS, controls, without_noise
from deeplimit.judge.solver.shared_path import draw


def path(motions, paths=20_000, intervals=16, seed=0):
    return draw(intervals, 1, (paths, motions), False, seed, 0, Purpose.SOLVER_PATHS).path


@pytest.mark.statistical
@pytest.mark.parametrize("motions", [1, 2, 3])
@pytest.mark.parametrize("coarse", [2, 8])
def test_controls_have_mean_0(motions, coarse):
    """Of up to 36 controls none is 5.5 standard errors off, but for one case in 10^6."""
    given = controls(path(motions), coarse, 2 * coarse).numpy()
    assert given.shape[1] == {1: 9, 2: 36, 3: 24}[motions]
    errors = given.std(axis=0) / math.sqrt(len(given))
    assert (np.abs(given.mean(axis=0)) < 5.5 * errors).all()


def test_levels_that_do_not_double_and_many_motions_have_none():
    assert controls(path(1, 10, 12), 4, 12).shape == (10, 0)
    assert controls(path(MOST_MOTIONS + 1, 10), 4, 8).shape == (10, 0)


def test_few_paths_keep_their_changes():
    changes, given = np.ones((30, 2, 1)), np.ones((30, 2, 5))
    assert without_noise(changes, given) is changes


def euler_mean(steps, drift, noise):
    """E h and E h² of Euler's scheme for geometric Brownian motion from 1, which are known."""
    return (1 + drift / steps) ** steps, ((1 + drift / steps) ** 2 + noise**2 / steps) ** steps


@pytest.mark.parametrize(("drift", "noise"), [(1.0, 0.5), (-1.0, 0.3)])
def test_means_of_changes_are_the_known_ones_with_far_smaller_errors(drift, noise):
    gbm = dl.SDE(
        drift=lambda t, h: drift * h,
        diffusion=lambda t, h, dB: noise * h * dB,
        noise="diagonal",
        solution=lambda t, h0, B: h0 * ((drift - noise**2 / 2) * t + noise * B).exp(),
    )
    how = {"kind": "weak", "steps": (8, 16, 32, 64), "paths": 4096}
    report = dl.check_solver(dl.EulerMaruyama(), gbm, torch.ones(1, 1), **how)
    for which, least in (("mean", 3.0), ("mean square", 1.5)):
        found = next(each for each in report.functions if each.name == which)
        place = ["mean", "mean square"].index(which)
        known = np.diff([euler_mean(steps, drift, noise)[place] for steps in report.steps])
        assert (np.abs(found.differences - known) < 5 * found.standard_errors).all()
        # One path's change without controls has a standard deviation of about this.
        plain = _spread(gbm, report.steps[-2:], place)
        assert found.standard_errors[-1] * math.sqrt(report.paths) < plain / least


def _spread(equation, steps, place):
    function = [lambda h: h[:, 0], lambda h: h[:, 0] ** 2][place]
    drawn = path(1, 4096, int(steps[-1]), seed=1)
    ends = []
    for count in steps:
        h, noise = (
            torch.ones(4096, 1, dtype=torch.float64),
            drawn[:: int(steps[-1]) // int(count)].diff(dim=0),
        )
        for moved in noise:
            h = h + equation.f(0.0, h) / int(count) + equation.g_prod(0.0, h, moved)
        ends.append(function(h))
    return float((ends[1] - ends[0]).std())
