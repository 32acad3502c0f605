"""The neural SDE with ReLU at finite width: the norm of what a layer reads has a known law."""

import math

import pytest
import torch
from scipy import stats

import deeplimit as dl

STEPS, DRAWS = 256, 3000


def read_norms(width, activation, seed=0):
    """ln |σ(H_t)| along draws of the limit (STEPS + 1, P), and the shares of positive coordinates."""
    limit = dl.res1(width, activation).limit()
    stream = torch.Generator().manual_seed(seed)
    h = torch.rand(DRAWS, width, generator=stream, dtype=torch.float64) + 0.5
    logs, positive = [], []
    for _ in range(STEPS + 1):
        logs.append(torch.relu(h).norm(dim=1).log())
        positive.append((h > 0).double().mean(dim=1))
        noise = torch.randn(DRAWS, width**2, generator=stream, dtype=torch.float64) / math.sqrt(STEPS)
        h = h + limit.increment(0.0, 1 / STEPS, h, noise)
    return torch.stack(logs), torch.stack(positive)


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.parametrize("width", [1, 2, 6])
def test_the_log_of_what_a_layer_reads_is_a_brownian_motion_with_a_known_drift(width):
    """d ln|φ(H)| = d^-1/2 dw + (N/(2d) - 1/d) dt, N positive coordinates; from Itô's formula. Level 1e-5."""
    logs, positive = read_norms(width, "relu")
    kept = torch.isfinite(logs).all(dim=0)  # at width 1 a step of the scheme may leave the half-line
    assert kept.double().mean() > 0.99
    drift = (positive[:-1] / 2 - 1 / width).mean(dim=0)
    martingale = ((logs[-1] - logs[0] - drift) * math.sqrt(width))[kept].numpy()
    assert stats.kstest(martingale, stats.norm.cdf).pvalue > 1e-5
    without = ((logs[-1] - logs[0] + 1 / width - drift) * math.sqrt(width))[kept].numpy()
    assert stats.kstest(without, stats.norm.cdf).pvalue < 1e-5
