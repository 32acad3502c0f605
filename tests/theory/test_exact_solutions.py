"""Networks reach exact solutions of the limits of Cohen et al. (2021), at the predicted order and no other
solution.

Orders are least-squares slopes of log errors, with a stated tolerance that covers what lower-order terms
leave of it at these depths and the slope's own standard error, about 0.02.
"""

import math

import numpy as np
import pytest
import torch
import torchdiffeq
from noises import randn
from pairs import SMOOTH, SMOOTH_IDS, brownian_increments, own
from runs import walk

import deeplimit as dl
from deeplimit.common.randomness import Purpose, generator

pytestmark = pytest.mark.usefixtures("one_thread")

# dH = a H dt + s H dW + κ H² dt in one dimension, κ = ½ c s²: H = h Φ/(1 - κ h ∫Φ), Φ_t = exp((a - s²/2) t +
# s W_t).


GROWTH, SIZE, START = (
    0.3,
    0.5,
    -0.6,
)  # below 0, where κ pulls back: no explosion, and σ''(0) does not mend Euler's error
SCALAR_TREND = dl.Trend(lambda t: torch.full((1, 1), GROWTH, dtype=torch.float64))
DEPTHS = [32, 64, 128, 256, 512]


def exact_errors(network, slope, kappas, paths=300, seed=1):
    """For each κ, root mean square distances to the formula at t = 1, on the same path, of DEPTHS and of the
    reference.

    σ'(0) = slope multiplies trend and noise. ∫Φ is summed by the trapezoidal rule on the reference's grid of
    2,048 steps; it is off by about κ times its step, a hundredth of the smallest error here.
    """
    x = torch.full((1, 1), START, dtype=torch.float64)
    run = {"x": x, "paths": paths, "seed": seed, "reference": 2048}
    times, states, limits = walk(network, DEPTHS, **run)
    w = brownian_increments(network, DEPTHS, **run)[:, :, 0].cumsum(dim=0)
    w = torch.cat([torch.zeros(1, paths, dtype=torch.float64), w])
    t = torch.from_numpy(times)[:, None]
    phi = torch.exp((slope * GROWTH - (slope * SIZE) ** 2 / 2) * t + slope * SIZE * w)
    ends = torch.stack([*(states[depth][-1] for depth in DEPTHS), limits[-1]])[:, :, 0]
    for kappa in kappas:
        below = 1 - kappa * START * torch.trapezoid(phi, t, dim=0)
        assert below.min() > 0.1  # no path comes near the equation's explosion
        yield (ends - START * phi[-1] / below).square().mean(dim=1).sqrt().numpy()


def order(errors):
    return -np.polyfit(np.log(DEPTHS), np.log(errors), 1)[0]


CHOSEN = [
    pytest.param(*given, id=name, marks=[] if name in ("silu", "tanh", "own") else pytest.mark.nightly)
    for name, given in zip(SMOOTH_IDS, SMOOTH, strict=True)
]


@pytest.mark.parametrize(("activation", "slope", "curvature"), CHOSEN)
def test_scalar_networks_reach_the_exact_solution_at_order_one_half_and_no_other(
    activation, slope, curvature
):
    network = dl.inner(1, activation, noise=dl.Ito(A=SIZE**2), trend=SCALAR_TREND)
    kappa = 0.5 * curvature * SIZE**2
    twins = (-kappa, 0.0) if curvature else (0.25 * SIZE**2, -0.25 * SIZE**2)
    right, *wrong = exact_errors(network, slope, (kappa, *twins))
    assert abs(order(right[:-1]) - 0.5) < 0.1
    assert right[-1] < 0.7 * right[-2]  # the reference, four times as deep as the deepest network, is closer
    for errors in wrong:
        assert order(errors[:-1]) < 0.2
        assert errors[-2] > 4 * right[-2]
        assert errors[-1] > 0.9 * errors[-2]  # they have levelled off


PLANE = torch.tensor([[0.2, 1.0], [-2.0, -0.5]], dtype=torch.float64)
SHIFT = torch.tensor([0.5, -1.0], dtype=torch.float64)
CONSTANT = dl.Trend(lambda t: PLANE, lambda t: SHIFT)


def exponential(t, x, slope=1.0):
    """The solution of dH = slope (PLANE H + SHIFT) dt at time t: the exponential of the matrix bordered by
    SHIFT.
    """
    bordered = torch.zeros(3, 3, dtype=torch.float64)
    bordered[:2, :2], bordered[:2, 2] = PLANE, SHIFT
    return (torch.linalg.matrix_exp(t * slope * bordered) @ torch.cat([x, x.new_ones(1)]))[:2]


@pytest.mark.parametrize(("activation", "slope", "curvature"), CHOSEN)
def test_the_linear_ode_is_the_matrix_exponential(activation, slope, curvature):
    network = dl.inner(2, activation, trend=CONSTANT, alpha=0.5, beta=0.5)
    x = torch.tensor([[1.0, 0.5]], dtype=torch.float64)
    times, _, limits = walk(network, [16, 64], x=x, paths=1)
    for time, state in zip(times, limits, strict=True):
        torch.testing.assert_close(state[0], exponential(time, x[0], slope), rtol=1e-7, atol=1e-8)
    (end,) = torchdiffeq.odeint(network.limit(), x, torch.tensor([0.0, 1.0]).double(), rtol=1e-9, atol=1e-9)[
        -1
    ]
    torch.testing.assert_close(end, exponential(1.0, x[0], slope), rtol=1e-7, atol=1e-8)
    assert type(network.limit()).__name__ == "LinearODE"


@pytest.mark.parametrize(
    ("activation", "slope", "alpha", "expected"),
    [
        ("tanh", 1.0, 0.25, 1.0),
        ("tanh", 1.0, 0.75, 0.5),
        ("silu", 0.5, 0.5, 0.5),
        ("scaled_silu", 1.0, 0.0, 1.0),
        (own, 1.0, 0.25, 0.75),
    ],
)
def test_networks_reach_the_matrix_exponential_at_the_order_of_the_tangents_error(
    activation, slope, alpha, expected
):
    """β with a square left, 2β without, at most 1: no randomness here, and depths large enough for a
    tolerance of 0.05.
    """
    network = dl.inner(2, activation, trend=CONSTANT, alpha=alpha, beta=1.0 - alpha)
    x = torch.tensor([[0.3, 0.2]], dtype=torch.float64)
    _, states, _ = walk(network, [512, 4096], x=x, paths=1)
    coarse, fine = (
        (states[depth][-1][0] - exponential(1.0, x[0], slope)).norm().item() for depth in (512, 4096)
    )
    assert math.log(coarse / fine, 8) == pytest.approx(expected, abs=0.05)
    assert network.regime().rate == pytest.approx(expected)


RANDOM = dl.SmoothGaussian(0.5)


@pytest.mark.parametrize(
    ("alpha", "beta", "noise", "expected"),
    [(0.25, 0.75, None, 1.0), (0.0, 1.0, dl.Ito(A=0.2, b=0.1), 0.5)],
    ids=["ODE", "SDE"],
)
def test_a_random_trend_is_the_same_function_for_networks_and_limit(alpha, beta, noise, expected):
    """Path by path; medians, since solutions of random linear equations are heavy-tailed. Tolerance 0.1 at
    400 paths.
    """
    network = dl.inner(3, "tanh", trend=RANDOM, noise=noise, alpha=alpha, beta=beta)
    fine = None if noise is None else 2048
    _, states, limits = walk(network, [32, 512], x=0.3 * randn(1, 3), paths=400, reference=fine)
    coarse, fine = ((states[depth][-1] - limits[-1]).norm(dim=1).median().item() for depth in (32, 512))
    assert math.log(coarse / fine, 16) == pytest.approx(expected, abs=0.1)


def test_a_random_trend_has_entries_of_variance_1_over_d():
    """As in every network: its draw is divided by √d in layers and limits; called by itself, a limit reads
    one draw.
    """
    path = RANDOM.sample(
        (3, 3), 1, generator(0, Purpose.NETWORK_WEIGHTS, 0, 0), torch.float64, torch.device("cpu")
    )
    h = randn(5, 3)
    expected = 0.5 * h @ path.at(torch.tensor([0.3]))[0, 0].T / 3**0.5
    ode = dl.inner(3, "silu", trend=RANDOM, alpha=0.5, beta=0.5).limit()
    torch.testing.assert_close(ode(0.3, h), expected)
    sde = dl.inner(3, "silu", trend=RANDOM, noise=dl.Ito(A=0.2)).limit()
    q = dl.Ito(A=0.2).Q(0.3, h)
    torch.testing.assert_close(sde.f(0.3, h), expected + 0.25 * q)
