"""What moves noise on average and what makes its size random: drifts, auxiliary diffusions, stochastic
volatility.

Every statistical test holds at level 1e-5: z-scores are compared with the quantile divided among all
comparisons.
"""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from noises import (
    DRIFT,
    LEVEL,
    MATRIX_KINDS,
    PUSH,
    TURN,
    flat,
    quantile,
    randn,
    random_matrix_covariance,
    random_psd,
    score_of_products,
)
from scipy import stats

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")


def test_without_noise_increments_are_the_drift_at_the_steps_start_times_the_step():
    for noise in (
        dl.Ito(A=0.3, b=0.2, drift=DRIFT),
        dl.Ito(A=0.3, b=lambda t: t, cross=torch.zeros(2, 2, 2), drift=DRIFT),
    ):
        path = noise.start(2, 3, torch.Generator(), torch.float64)
        moved = path.move(0.5, 0.25, torch.zeros(3, 6, dtype=torch.float64))
        torch.testing.assert_close(moved.matrix, (1.5 * 0.25 * TURN).expand(3, 2, 2))
        torch.testing.assert_close(moved.bias, (1.5 * 0.25 * PUSH).expand(3, 2))
    alone = dl.Ito(A=0.3, b=0.2, drift=dl.Trend(DRIFT.A)).start(2, 3, torch.Generator(), torch.float64)
    moved = alone.move(0.5, 0.25, torch.zeros(3, 6, dtype=torch.float64))
    torch.testing.assert_close(moved.matrix, (1.5 * 0.25 * TURN).expand(3, 2, 2))
    assert not moved.bias.any()


def test_random_drifts_read_the_auxiliary_diffusion_at_the_steps_start():
    v = dl.AuxiliaryDiffusion(lambda t, v: 1.0 - v, lambda t, v: torch.ones_like(v), start=0.5)
    drift = dl.Trend(lambda t, v: v[:, :, None] * (1.0 + t) * TURN, lambda t, v: v * PUSH)
    path = dl.Ito(A=0.3, b=0.2, drift=drift, auxiliary=v).start(2, 3, torch.Generator(), torch.float64)
    brownian = torch.zeros(3, 7, dtype=torch.float64)
    brownian[:, 6] = torch.tensor([0.0, 1.0, -2.0])
    first = path.move(0.0, 0.5, brownian)
    torch.testing.assert_close(first.bias, (0.5 * 0.5 * PUSH).expand(3, 2))
    torch.testing.assert_close(path.v, torch.tensor([[0.75], [1.75], [-1.25]], dtype=torch.float64))
    second = path.move(0.5, 0.25, torch.zeros(3, 7, dtype=torch.float64))
    for p, now in enumerate((0.75, 1.75, -1.25)):
        torch.testing.assert_close(second.matrix[p], now * 1.5 * 0.25 * TURN)
        torch.testing.assert_close(second.bias[p], now * 0.25 * PUSH)


@pytest.mark.statistical
def test_drift_is_the_mean_of_the_increments(device):
    """Level 1e-5; without the drift, or with another time's, the same scores are far outside."""
    paths, step = 20_000, 0.25
    noise = dl.Ito(A=0.3, b=0.2, drift=DRIFT)
    path = noise.start(2, paths, torch.Generator(device).manual_seed(2), torch.float64)
    means = flat(path.step(0.5, step)).mean(dim=0)
    spread = (torch.tensor([0.3] * 4 + [0.2] * 2, dtype=torch.float64) * step / paths).sqrt()
    limit = stats.norm.isf(LEVEL / 2 / 6)

    def score(t):
        drift = torch.cat([(1.0 + t) * TURN.flatten(), (2.0 - t) * PUSH])
        return ((means - drift * step).abs() / spread).max()

    assert score(0.5) < limit
    assert score(1.0) > 3 * limit
    assert (means.abs() / spread).max() > 3 * limit


@pytest.mark.statistical
@given(
    size=st.integers(1, 3),
    leverage=st.sampled_from([-1.0, -0.7, 0.0, 0.4]),
    step=st.sampled_from([0.01, 0.5]),
    seed=st.integers(0, 99),
)
def test_leverage_is_the_correlation_of_v_with_the_weights_own_motions(size, leverage, step, seed):
    """Level 1e-5. Z_i leans on B_i, the i-th motion of the weights, and on no other; it is a Brownian motion
    itself.
    """
    paths = 20_000
    v = dl.AuxiliaryDiffusion(
        lambda t, v: 3.0 * torch.ones_like(v), lambda t, v: (1.0 + t) * (2.0 + v), 0.5, leverage
    )
    v = dl.AuxiliaryDiffusion(v.drift, v.diffusion, [0.5] * size, leverage)
    path = dl.Ito(A=lambda t, v: 0.1 + v[:, 0] ** 2, auxiliary=v).start(
        2, paths, torch.Generator().manual_seed(seed), torch.float64
    )
    moved = path.step(1.0, step)
    z = (path.v - 0.5 - 3.0 * step) / (2.0 * 2.5)  # dv = 3 dt + 2 · 2.5 dZ
    everything = torch.cat([z, moved.brownian[:, :4]], dim=1)
    expected = torch.eye(size + 4, dtype=torch.float64)
    for i in range(size):
        expected[i, size + i] = expected[size + i, i] = leverage
    assert score_of_products(everything, step, expected[None]) < quantile((size + 4) ** 2)


@pytest.mark.statistical
def test_v_is_an_ornstein_uhlenbeck_process_and_its_factor_lies_between_0_and_2():
    """Level 1e-5: at t = 1 by the law of its Euler scheme (which 200 steps bring within 1 % of the
    diffusion's).
    """
    steps, paths, speed, size = 200, 4000, 2.0, 1.5
    noise = dl.stochastic_volatility(A=0.3, mean_reversion=speed, volatility=size)
    path = noise.start(1, paths, torch.Generator().manual_seed(0), torch.float64)
    for k in range(steps):
        path.step(k / steps, 1 / steps)
    variance = size**2 / steps * sum((1 - speed / steps) ** (2 * j) for j in range(steps))
    assert variance == pytest.approx(size**2 / (2 * speed) * (1 - math.exp(-2 * speed)), rel=0.01)
    v = path.v[:, 0].numpy()
    limit = stats.norm.isf(LEVEL / 2 / 3)
    assert abs(v.mean()) < limit * (variance / paths) ** 0.5
    assert abs((v**2).mean() / variance - 1) < limit * (2 / paths) ** 0.5
    assert stats.kstest(v, stats.norm(scale=variance**0.5).cdf).pvalue > LEVEL / 3
    assert not path.noise.auxiliary.initial(3).any()


@pytest.mark.parametrize("kind", MATRIX_KINDS)
def test_the_volatility_factor_multiplies_every_kind_of_covariance(kind):
    a, b = random_matrix_covariance(kind, 2, 1), random_psd(2, 5)
    noise = dl.stochastic_volatility(A=a, b=b)
    v = torch.tensor([[-30.0], [-1.0], [0.0], [math.log(3.0)], [30.0]], dtype=torch.float64)
    x = randn(2, seed=3).expand(5, -1)
    factors = noise.Q(0.3, x, v) / dl.Ito(A=a, b=b).Q(0.3, x)
    expected = torch.tensor([0.0, 2 / (1 + math.e), 1.0, 1.5, 2.0], dtype=torch.float64)
    torch.testing.assert_close(factors, expected[:, None].expand(5, 2), rtol=1e-9, atol=1e-9)
    assert factors.min() > 0.0
    assert factors.max() < 2.0
    assert noise.auxiliary.leverage == -0.7
