"""One layer of a very deep network moves by the limit's drift on average, and not by any wrong limit's.

Statistical tests hold at level 1e-5.
"""

import dataclasses
from itertools import product

import pytest
import torch
from noises import LEVEL
from pairs import NOISES, SMOOTH, SMOOTH_IDS, TREND
from scipy import stats

import deeplimit as dl
from deeplimit.driving.path import Grid

pytestmark = pytest.mark.usefixtures("one_thread")

X = torch.tensor([0.8, -0.5], dtype=torch.float64)  # the state where one layer is looked at


def q_by_hand(noise, x, v=None):
    """Q(0, x) (d,) of one state x (d,), index by index from the dense covariance."""
    matrix, vector, cross = noise.rate(0.0, len(x), v).dense()
    q = torch.zeros(len(x), dtype=torch.float64)
    for i in range(len(x)):
        q[i] += 0.0 if vector is None else vector.reshape(len(x), len(x))[i, i]
        for j, k in product(range(len(x)), repeat=2):
            q[i] += 0.0 if matrix is None else x[j] * x[k] * matrix.reshape((len(x),) * 4)[i, j, i, k]
            q[i] += 0.0 if cross is None or k else 2 * x[j] * cross[i, j, i]
    return q


def first_layers(network, depth, paths, x, seed=0):
    """Return L·(h_1 - h_0) of a deep network on many paths, and the same of the noise of its first layer
    alone, (P, d).
    """
    path = network.weights[0].path(
        (len(x), len(x)), Grid((depth,)), paths, torch.Generator().manual_seed(seed), torch.float64
    )
    chunk = next(iter(Grid((depth,)).chunks()))
    path.begin(chunk)
    path.advance(0)
    layer = path.layer(0)
    moved = network.recursion.residual(x.expand(paths, -1), (layer,), network.exponent)
    along = path.along
    noise = 0.0 if along.matrix is None else along.matrix @ x
    return depth * moved, depth * (noise + (0.0 if along.bias is None else along.bias))


def scores_of_first_layer(activation, slope, noise, *drifts, paths=10_000, depth=10_000):
    """For each of `drifts` (d,), the largest |z| of the mean of L(h_1 - h_0) against it, L large.

    σ'(0) times the noise itself, whose mean is known, is taken out as a control variate; what is left is of
    size 1 instead of √L. The terms of order 1/L that the limit lacks are 1e-4 of it, a hundredth of the
    standard error.
    """
    network = dl.inner(2, activation, noise=noise, trend=TREND)
    moved, tangent = first_layers(network, depth, paths, X)
    pushed = noise.drift_at_paths(0.0, None if noise.auxiliary is None else noise.auxiliary.initial(1), X)
    mean = 0.0 if pushed is None else pushed[0][0] @ X + pushed[1][0]
    left = moved - slope * (tangent - mean)
    return [
        ((left.mean(dim=0) - drift).abs() / (left.std(dim=0) / paths**0.5)).max().item() for drift in drifts
    ]


def drift_by_hand(slope, curvature, noise, trend=TREND):
    """½σ''(0)Q(0, X) + σ'(0)(Ā X + b̄) + σ'(0)(drift of W)."""
    v = None if noise.auxiliary is None else noise.auxiliary.initial(1)
    drift = 0.5 * curvature * q_by_hand(noise, X, v)
    if trend is not None:
        drift = drift + slope * (trend.A(0.0) @ X + trend.b(0.0))
    if (pushed := noise.drift_at_paths(0.0, v, X)) is not None:
        drift = drift + slope * (pushed[0][0] @ X + pushed[1][0])
    return drift


@pytest.mark.statistical
@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(("activation", "slope", "curvature"), SMOOTH, ids=SMOOTH_IDS)
def test_a_layer_moves_by_the_limits_drift_on_average(activation, slope, curvature, name):
    """Level 1e-5 over all cases; the limit's drift is the formula's, and with σ''(0) of the wrong sign it is
    refused.
    """
    noise = NOISES[name]
    level = stats.norm.isf(LEVEL / 2 / 2 / len(SMOOTH) / len(NOISES))
    limit = dl.inner(2, activation, noise=noise, trend=TREND).limit()
    drift = limit.f(0.0, limit.initial(X[None]))[0, :2]
    torch.testing.assert_close(drift, drift_by_hand(slope, curvature, noise), rtol=1e-12, atol=1e-12)
    wrong = drift_by_hand(slope, -curvature if curvature else 0.5, noise)
    score, of_wrong = scores_of_first_layer(activation, slope, noise, drift, wrong)
    assert score < level
    assert of_wrong > 3 * level


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["kronecker", "cross"])
def test_what_else_a_wrong_limit_could_say_of_a_layer_is_refused_too(name):
    """Level 1e-5: without ½, without the trend, with rows and columns exchanged, without the cross term."""
    noise, level = NOISES[name], stats.norm.isf(LEVEL / 2 / 2 / 2)
    other = (
        dataclasses.replace(noise, cross=None)
        if name == "cross"
        else dl.Ito(A=dl.Kronecker(noise.A.C, noise.A.R), b=noise.b)
    )
    wrong = (
        drift_by_hand(1.0, 2.0, noise),
        drift_by_hand(1.0, 1.0, noise, trend=None),
        drift_by_hand(1.0, 1.0, other),
    )
    score, *of_wrong = scores_of_first_layer(
        "scaled_silu", 1.0, noise, drift_by_hand(1.0, 1.0, noise), *wrong
    )
    assert score < level
    assert min(of_wrong) > 2 * level
