"""Exact identities in float64: what must hold to the bit or to rounding, whatever the statistics say."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from runs import walk

import deeplimit as dl
from deeplimit.driving import Layer


@given(
    width=st.integers(1, 12),
    depth=st.integers(1, 40),
    activation=st.sampled_from(["tanh", "relu", "identity", "softplus", "sin"]),
    seed=st.integers(0, 1000),
)
def test_res1_at_the_critical_exponent_is_euler_maruyama_bit_for_bit(width, depth, activation, seed):
    """V = √(L/d) ΔB with the factor L^-1/2 is ΔB/√d: the network's step and the neural SDE's are the same
    floats.
    """
    network = dl.res1(width, activation)
    sde = network.limit()
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(5, width, generator=generator, dtype=torch.float64)
    y = h.clone()
    for _ in range(depth):
        increment = torch.randn(5, width, width, generator=generator, dtype=torch.float64) / depth**0.5
        h = h + network.recursion.residual(
            h,
            (Layer(increment, depth, 0.5, network.weights[0].entry_scale((width, width))),),
            network.exponent,
        )
        y = y + sde.increment(0.0, 1 / depth, y, increment.flatten(1))
    assert torch.equal(h, y)


def test_network_as_deep_as_the_reference_is_the_reference(device):
    _, states, limits = walk(dl.res1(7, "tanh"), [8, 32], reference=64, device=device)
    times, deepest, fine = walk(dl.res1(7, "tanh"), [8, 64], reference=128, device=device)
    assert not torch.equal(limits[::2], states[32])
    assert len(times) == 129
    assert torch.equal(fine[0], deepest[64][0])


def test_res1_with_weights_of_the_paper_equals_the_textbook_loop():
    """The [M] recursion written out with explicit weights N(0, 1/d), from the very increments of the
    coupling.
    """
    network = dl.res1(4, "tanh")
    task_seed, depth = 3, 6
    _, states, _ = walk(network, [3, depth], seed=task_seed, reference=2 * depth)
    from deeplimit.common.randomness import Purpose, generator

    stream = generator(task_seed, Purpose.NETWORK_WEIGHTS, 0, 0)
    fine = torch.stack(
        [torch.randn(3, 4, 4, generator=stream, dtype=torch.float64) for _ in range(2 * depth)]
    )
    fine = fine / (2 * depth) ** 0.5
    for levels in (3, depth):
        h = states[levels][0]
        sums = fine.reshape(levels, -1, 3, 4, 4).sum(dim=1)
        for k in range(levels):
            weight = (levels / 4) ** 0.5 * sums[k]  # √(L/d) ΔB: N(0, 1/d) entries
            h = h + levels**-0.5 * torch.einsum("pij,pj->pi", weight, torch.tanh(h))
        torch.testing.assert_close(h, states[levels][-1], rtol=1e-12, atol=1e-12)


def test_depth_one_by_hand():
    v, w, b = (
        torch.tensor([[2.0, 0.0], [1.0, -1.0]]),
        torch.tensor([[0.5, 1.0], [0.0, -2.0]]),
        torch.tensor([0.25, -0.25]),
    )
    v, w, b, h = v.double(), w.double(), b.double(), torch.tensor([[1.0, -0.5]], dtype=torch.float64)
    relu, tanh = torch.relu, torch.tanh
    cases = [
        (dl.res1(2, "tanh", weights=dl.Trend(lambda t: v)), h + (v @ tanh(h[0]))),
        (
            dl.res2(2, "tanh", weights=(dl.Trend(lambda t: v), dl.Trend(lambda t: w))),
            h + (v @ tanh(w @ h[0])),
        ),
        (dl.res3(2, weights=(dl.Trend(lambda t: v), dl.Trend(lambda t: w))), h + (v @ relu(w @ h[0]))),
        (dl.inner(2, "tanh", weights=dl.Trend(lambda t: w, lambda t: b)), h + tanh(w @ h[0] + b)),
    ]
    for network, expected in cases:
        _, states, _ = walk(network, [1, 2], x=h, paths=1)
        torch.testing.assert_close(states[1][1], expected, rtol=1e-14, atol=1e-14)
        field = network.limit()
        torch.testing.assert_close(field(0.3, h), expected - h, rtol=1e-14, atol=1e-14)


def test_constant_linear_ode_against_the_matrix_exponential():
    a = torch.tensor([[0.0, 1.0], [-2.0, -0.5]], dtype=torch.float64)
    network = dl.res1(2, "identity", weights=dl.Trend(lambda t: a))
    x = torch.tensor([[1.0, 0.5]], dtype=torch.float64)
    times, states, limits = walk(network, [4, 16], x=x, paths=1)
    for time, state in zip(times, limits, strict=True):
        torch.testing.assert_close(state[0], torch.linalg.matrix_exp(time * a) @ x[0], rtol=1e-7, atol=1e-8)
    step = torch.eye(2, dtype=torch.float64) + a / 16
    torch.testing.assert_close(
        states[16][-1][0], torch.linalg.matrix_power(step, 16) @ x[0], rtol=1e-12, atol=1e-12
    )


def test_known_errors_of_the_scalar_exponential():
    """h_L = (1 + 1/L)^L against e: the report's errors are the closed form, to the solver's tolerance."""
    one = torch.ones(1, 1, dtype=torch.float64)
    network = dl.res1(1, "identity", weights=dl.Trend(lambda t: one))
    depths = [4, 8, 16, 32, 64]
    report = dl.compare(network, x=one, depths=depths, paths=32, norm="final")
    expected = [np.e - (1 + 1 / depth) ** depth for depth in depths]
    np.testing.assert_allclose(report.errors, expected, rtol=1e-5)
    assert report.verdict == "converges"
    assert report.rate_interval[0] < 1 < report.rate_interval[1]


@pytest.mark.parametrize(("norm", "p"), [("sup", 2.0), ("sup", 3.5), ("final", 1.0), ("sup-continuous", 2.0)])
def test_reported_errors_are_those_of_the_walk(norm, p):
    """The streaming pass against the definition, written out over stored states."""
    depths = [5, 6, 10]
    network = dl.res1(3, "tanh")
    report = dl.compare(network, depths=depths, paths=40, norm=norm, p=p, seed=4, dtype="float64")
    times, states, limits = walk(network, depths, paths=40, seed=4, norm=norm)
    for j, depth in enumerate(depths):
        layer_at = np.floor(times * depth + 1e-9).astype(int)
        distances = torch.linalg.vector_norm(limits - states[depth][layer_at], dim=2)  # (times, paths), at t
        before = torch.linalg.vector_norm(
            limits[1:] - states[depth][layer_at[:-1]], dim=2
        )  # at t from the left
        on_grid = np.isclose(times * depth, np.round(times * depth))
        if norm == "sup":
            per_path = distances[on_grid].amax(dim=0)
        elif norm == "final":
            per_path = distances[-1]
        else:
            per_path = torch.maximum(distances.amax(dim=0), before.amax(dim=0))
        expected = per_path.pow(p).mean().pow(1 / p).item()
        assert report.raw_errors[j] == pytest.approx(expected, rel=1e-12)
        shared = np.isclose(times % 1.0, 0.0)[1:]
        common = distances[1:][shared].amax(dim=0).pow(p).mean().pow(1 / p).item()
        if norm == "sup":
            steps = np.diff(times)
            assert report.common_errors[j] == pytest.approx(
                common / (1 - depth * (steps**2).sum()) ** 0.5, rel=1e-12
            )


def test_ode_reference_never_looks_outside_the_unit_interval():
    """Adaptive solvers like to step past the end and interpolate back; weights need not exist there."""
    asked = []

    def matrix(t):
        asked.append(t)
        return torch.tensor([[0.0, 1.0], [-1.0, t]])

    dl.compare(dl.res1(2, "tanh", weights=dl.Trend(matrix)), depths=[4, 8, 16], paths=20)
    assert min(asked) >= 0.0
    assert max(asked) <= 1.0
