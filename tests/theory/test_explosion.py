"""Theorem 4.4 where its limit explodes: named only up to that time, and how likely it is."""

import math

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.theory import explosion

STATED = "Theorem 4.4 of Cohen et al. (2021)"
EYE = torch.eye(2)


def regime(activation, noise, width=2, **more):
    return dl.inner(width, activation, noise=noise, **more).regime()


@pytest.mark.parametrize(
    "noise",
    [
        dl.Ito(A=0.1),
        dl.Ito(A=0.1, b=0.1),
        dl.Ito(A=torch.tensor([[0.1, 0.2], [0.3, 0.4]])),
        dl.Ito(A=dl.Kronecker(torch.tensor([[0.2, 0.1], [0.1, 0.2]]), EYE)),
        dl.Ito(A=0.1 * torch.eye(4).reshape(2, 2, 2, 2), b=0.1),
        dl.Ito(A=0.1, b=0.1, cross=0.01 * torch.ones(2, 2, 2)),
    ],
)
def test_the_theorem_is_named_up_to_the_explosion_where_noise_moves_every_direction(noise):
    said = regime("scaled_gelu", noise)
    assert said.theorem == f"{STATED}, localised: up to the time of explosion"
    assert "positive probability" in said.explanation
    assert not any("uniformly integrable" in sentence for sentence in said.not_checked)
    assert said.rate == 0.5
    assert not said.moments
    assert regime("tanh", noise).moments
    assert dl.inner(2, "scaled_gelu", noise=noise).limit().curvature > 1.5  # it is measured all the same


@pytest.mark.parametrize(
    "noise",
    [
        dl.Ito(A=lambda t: 0.1),
        dl.Ito(A=torch.tensor([[0.1, 0.0], [0.3, 0.4]])),
        dl.Ito(A=dl.Kronecker(EYE, torch.ones(2, 2))),
        dl.stochastic_volatility(A=0.1),
    ],
)
def test_elsewhere_the_regime_says_that_explosion_was_not_ruled_out(noise):
    said = regime("scaled_gelu", noise)
    assert said.theorem == STATED
    assert any("does not explode" in sentence for sentence in said.not_checked)


def test_limits_whose_drift_is_linear_do_not_explode():
    for activation, noise in (("tanh", dl.Ito(A=0.1)), ("scaled_gelu", dl.Ito(b=0.1))):
        said = regime(activation, noise)
        assert said.theorem == STATED
        assert not any("explode" in sentence for sentence in (*said.checked, *said.not_checked))


def yor(start, variance, slope, curvature, paths, steps=500):
    """P(½σ''(0) A h_0 ∫ exp(M_s - ½[M]_s) ds > 1), M = σ'(0) W: for d = 1 the equation of 1/H is linear."""
    generator = np.random.default_rng(5)
    moved, total, last = np.zeros(paths), np.zeros(paths), np.ones(paths)
    size = slope * math.sqrt(variance)
    for step in range(1, steps + 1):
        moved += size * generator.standard_normal(paths) / math.sqrt(steps)
        now = np.exp(moved - size**2 * step / steps / 2)
        total, last = total + (last + now) / (2 * steps), now
    return float((0.5 * curvature * variance * start * total > 1.0).mean())


@pytest.mark.parametrize(
    ("start", "variance", "slope", "curvature"),
    [(1.0, 1.0, 0.5, 1.6), (3.0, 0.3, 2.0, 1.0), (-1.0, 1.0, 1.0, -1.2)],
)
def test_the_probability_in_one_dimension_is_that_of_the_exponential_functional(
    start, variance, slope, curvature
):
    paths = 20_000
    known = yor(start, variance, slope, curvature, paths)
    found = explosion.probability(np.full((paths, 1), start), variance, 0.0, slope, curvature)
    assert found == pytest.approx(known, abs=5 * math.sqrt(2 * known * (1 - known) / paths))
    assert known > 0.01
    assert explosion.probability(np.full((1000, 1), -start), variance, 0.0, slope, curvature) == 0.0


@pytest.mark.parametrize(("slope", "curvature"), [(0.5, 2.0), (1.5, 1.0)])
def test_the_probability_is_the_share_of_paths_that_a_scheme_loses(slope, curvature):
    """Euler's scheme with A = 0.5 and b = 0.3 in 3 dimensions; lost beyond 1e6."""
    paths, steps = 4000, 2000
    generator = np.random.default_rng(2)
    starts = generator.standard_normal((paths, 3))
    state = starts.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            rate = 0.5 * (state**2).sum(axis=1, keepdims=True) + 0.3
            noise = slope * np.sqrt(rate / steps) * generator.standard_normal(state.shape)
            moved = noise + 0.5 * curvature * rate / steps
            state = np.where(np.abs(state) < 1e6, state + moved, state)
    lost = float((np.abs(state).max(axis=1) >= 1e6).mean())
    found = explosion.probability(starts, 0.5, 0.3, slope, curvature)
    assert 0.05 < lost < 0.95
    assert found == pytest.approx(lost, abs=0.04)


def test_the_regime_states_the_probability_where_noise_is_isotropic():
    said = regime("scaled_gelu", dl.Ito(A=1 / 8), width=8).checked[-1]
    assert "explodes before time 1 with probability 0.06" in said
    assert "below" in regime("scaled_silu", dl.Ito(A=0.1, b=0.1), width=4).checked[-1]
    skew = regime("scaled_gelu", dl.Ito(A=torch.full((2, 2), 0.1)))
    assert not any("probability" in sentence for sentence in skew.checked)
    assert any("how likely" in sentence for sentence in skew.not_checked)
