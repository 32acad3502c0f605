"""A layer is the sum of the increments it spans, plus the trend at its start: at every depth, and a network
by hand.
"""

import pytest
import torch
from hypothesis import given, strategies as st
from noises import DRIFT, PUSH, TURN, random_matrix_covariance, random_psd
from runs import walk

import deeplimit as dl
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import TrendAndNoise
from deeplimit.driving.path import Grid
from deeplimit.driving.trend_and_noise import ShrinkingPath

pytestmark = pytest.mark.usefixtures("one_thread")

depth_lists = st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)


@given(
    depths=depth_lists,
    kind=st.sampled_from(["A", "b", "both", "random"]),
    beta=st.sampled_from([0.0, 0.7, 1.0]),
    seed=st.integers(0, 99),
)
def test_layers_are_sums_of_the_increments_they_span_plus_the_trend_at_their_start(depths, kind, beta, seed):
    """At every depth at once, whether depths divide each other or not; the trend is read at k/L and at no
    other time.
    """
    noise = {
        "A": dl.Ito(A=0.3),
        "b": dl.Ito(b=0.2),
        "both": dl.Ito(A=lambda t: 0.1 + t, b=random_psd(2, 3), drift=DRIFT),
        "random": dl.stochastic_volatility(A=0.3, b=0.2),
    }[kind]
    asked = []

    def matrix(t):
        asked.append(t)
        return (1.0 + t) * TURN

    law = TrendAndNoise(dl.Trend(matrix, lambda t: (2.0 - t) * PUSH), noise, beta)
    path = law.path((2, 2), Grid(depths), 3, torch.Generator().manual_seed(seed), torch.float64)
    assert isinstance(path, ShrinkingPath)
    sums = [[torch.zeros(3, 2, 2).double(), torch.zeros(3, 2).double()] for _ in depths]
    layers = [0] * len(depths)
    grid = Grid(depths, (2 * depths[-1],))
    for chunk in grid.chunks():
        path.begin(chunk)
        for index in range(len(chunk.steps)):
            path.advance(index)
            for total in sums:
                total[0] += 0.0 if path.along.matrix is None else path.along.matrix
                total[1] += 0.0 if path.along.bias is None else path.along.bias
            for j in reversed(range(len(depths))):
                if chunk.ends[index, j]:
                    depth, start = depths[j], layers[j] / depths[j]
                    layer = path.layer(j)
                    trend = depth**-beta * (1.0 + start) * TURN, depth**-beta * (2.0 - start) * PUSH
                    for mine, summed, own in zip((layer.values, layer.bias), sums[j], trend, strict=True):
                        torch.testing.assert_close(
                            mine.expand_as(summed), summed + own, rtol=1e-12, atol=1e-12
                        )
                    assert layer.depth == depth
                    sums[j] = [torch.zeros_like(part) for part in sums[j]]
                    layers[j] += 1
    assert layers == list(depths)
    assert max(asked) < 1.0


def test_a_network_of_three_layers_by_hand():
    """h + L^-α σ(L^-β (Ā(k/L) h + b̄(k/L))), k = 0, 1, 2, beside a depth that 3 does not divide; then with
    noise.
    """
    x = torch.tensor([[0.5, -1.0]], dtype=torch.float64)
    network = dl.inner(2, "tanh", trend=dl.Trend(DRIFT.A, DRIFT.b), alpha=0.3, beta=0.7)
    _, states, _ = walk(network, [3, 7], x=x, paths=1)
    h = x[0]
    for k in range(3):
        h = h + 3**-0.3 * torch.tanh(3**-0.7 * ((1.0 + k / 3) * TURN @ h + (2.0 - k / 3) * PUSH))
        torch.testing.assert_close(states[3][k + 1][0], h, rtol=1e-13, atol=1e-13)
    noisy = dl.inner(
        2,
        "scaled_silu",
        trend=DRIFT,
        noise=(noise := dl.Ito(A=random_matrix_covariance("kronecker", 2, 1), b=0.2)),
    )
    _, states, _ = walk(noisy, [3], x=x, paths=1, reference=12, seed=5)
    path = noise.start(2, 1, generator(5, Purpose.NETWORK_WEIGHTS, 0, 0), torch.float64)
    steps = [path.step(k / 12, 1 / 12) for k in range(12)]
    h = x[0]
    for k in range(3):
        matrix, bias = (
            sum(getattr(step, part)[0] for step in steps[4 * k : 4 * k + 4]) for part in ("matrix", "bias")
        )
        inside = (matrix + (1.0 + k / 3) / 3 * TURN) @ h + bias + (2.0 - k / 3) / 3 * PUSH
        h = h + 2 * inside * torch.sigmoid(inside)
        torch.testing.assert_close(states[3][k + 1][0], h, rtol=1e-12, atol=1e-12)
