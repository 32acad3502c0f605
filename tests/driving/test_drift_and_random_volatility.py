"""What moves noise on average and what makes its size random: drifts, auxiliary diffusions, stochastic
volatility.
"""

import math

import pytest
import torch
from noises import (
    DRIFT,
    MATRIX_KINDS,
    PUSH,
    TURN,
    randn,
    random_matrix_covariance,
    random_psd,
)

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


@pytest.mark.parametrize("leverage", [-1.0, -0.7, 0.0, 0.4])
def test_v_leans_on_the_weights_own_motions_by_the_leverage(leverage):
    """dv = 3 dt + (1 + t)(2 + v) dZ; Z_i leans on B_i, the i-th motion of the weights, and on no other."""
    v = dl.AuxiliaryDiffusion(
        lambda t, v: 3.0 * torch.ones_like(v), lambda t, v: (1.0 + t) * (2.0 + v), [0.5] * 2, leverage
    )
    noise = dl.Ito(A=lambda t, v: 0.1 + v[:, 0] ** 2, auxiliary=v)
    path = noise.start(2, 3, torch.Generator(), torch.float64)
    brownian = randn(3, 6, seed=4)
    path.move(1.0, 0.25, brownian)
    z = leverage * brownian[:, :2] + (1.0 - leverage**2) ** 0.5 * brownian[:, 4:]
    torch.testing.assert_close(path.v, 0.5 + 3.0 * 0.25 + 2.0 * 2.5 * z)


def test_stochastic_volatility_is_an_ornstein_uhlenbeck_process_from_0():
    noise = dl.stochastic_volatility(A=0.3, mean_reversion=2.0, volatility=1.5, leverage=0.0)
    path = noise.start(1, 1, torch.Generator(), torch.float64)
    for motion, v in ((0.4, 0.6), (0.0, 0.3)):  # 1.5 · 0.4, and 0.6 (1 - 2/4)
        path.move(0.0, 0.25, torch.tensor([[9.0, motion]], dtype=torch.float64))
        assert path.v.item() == pytest.approx(v)


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
