"""Gradients by the layers' states: backpropagation on the layers themselves, Jacobians, closed forms."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from pairs import TREND
from refusals import assert_refused
from runs import task_of as small_task
from scipy import stats

import deeplimit as dl
from deeplimit.simulation import gradients, pathwise
from deeplimit.simulation.moments import ErrorAccumulator
from deeplimit.theory import gradients_of

NETWORKS = {
    "res-1": lambda d: dl.res1(d, "tanh"),
    "res-1, softplus": lambda d: dl.res1(d, "softplus", exponent=0.7),
    "res-2, smooth": lambda d: dl.res2(d, "tanh", weights=dl.SmoothGaussian(0.3)),
    "rough": lambda d: dl.res1(d, "sin", weights=dl.FractionalBrownian(0.8)),
    "Theorem 4.4": lambda d: dl.inner(d, "scaled_silu", noise=dl.Ito(A=0.05, b=0.1)),
    "random volatility": lambda d: dl.inner(d, "scaled_gelu", noise=dl.stochastic_volatility(A=0.05)),
    "Theorem 4.3": lambda d: dl.inner(2, "tanh", trend=TREND, alpha=0.5, beta=0.5),
}
NOISY = ("res-1", "rough", "Theorem 4.4", "random volatility")


class Told(ErrorAccumulator):
    """An accumulator that keeps what it is told, the gradients by h_0 first."""

    def __init__(self, task, h0):
        super().__init__(task, h0)
        self.limits, self.layers = [], [[] for _ in task.grid.depths]

    def at(self, limit, coarse, is_common):
        super().at(limit, coarse, is_common)
        self.limits.append(limit)

    def layer(self, j, state, scheme=None):
        super().layer(j, state, scheme)
        self.layers[j].append(state)

    def in_order(self):
        return ([each[-1], *each[:-1]] for each in (self.limits, *self.layers))


def task_of(network, **given):
    return small_task(network, **{"depths": (4, 6), "paths": 5, "quantity": "gradient", **given})


def told(task):
    kept = []
    gradients.run_block(task, 0, accumulator=lambda task, h0: kept.append(Told(task, h0)) or kept[0])
    limit, *networks = kept[0].in_order()
    return torch.stack(limit), [torch.stack(each) for each in networks]


@torch.no_grad()
def propagated(task):
    """The states and gradients of every depth, layer by layer, by the recursion's own backward step."""
    network, h0 = task.network, task.initial_states(0)
    paths = task.network_paths(0, len(h0))
    layers = [[] for _ in task.grid.depths]
    held = [gradients.HeldPath(path) for path in paths]
    for chunk in task.grid.chunks():
        for path in held:
            path.begin(chunk)
        for index, ends in enumerate(chunk.ends):
            for path in held:
                path.advance(index)
            for j in reversed(range(len(layers))):
                if ends[j]:
                    with torch.enable_grad():  # layers are copies then
                        layers[j].append(tuple(path.layer(j) for path in held))
    for each in layers:
        states = [h0]
        for layer in each:
            states.append(network.recursion.advance(states[-1], layer, network.exponent))
        back = [states[-1]]
        for state, layer in zip(reversed(states[:-1]), reversed(each), strict=True):
            back.append(network.recursion.vjp(state, layer, network.exponent, back[-1]))
        yield torch.stack(states), torch.stack(back[::-1])


@given(name=st.sampled_from([*NETWORKS]), width=st.integers(1, 4), seed=st.integers(0, 99),
       depths=st.sampled_from([(2, 4), (3, 5), (4, 6, 12)]))  # fmt: skip
def test_gradients_of_networks_are_those_of_backpropagation(name, width, seed, depths):
    task = task_of(NETWORKS[name](width), depths=depths, seed=seed)
    _, networks = told(task)
    for found, (_, expected) in zip(networks, propagated(task), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", NOISY)
def test_gradients_of_a_limit_are_its_jacobians_inverted_and_transposed(name):
    """The formula of the paper, from the Jacobian of every state by h_0: (J_1 J_t^-1)ᵀ ∇ℓ(H_1)."""
    task = task_of(NETWORKS[name](3))
    found, _ = told(task)
    start = task.initial_states(0).requires_grad_()
    paths = tuple(gradients.HeldPath(path) for path in task.network_paths(0, len(start)))
    states = gradients.States(task, start)
    pathwise.walk(task, paths, [start], [pathwise.make_solver(task, 0, start, paths)], [states])
    rows = [
        [torch.autograd.grad(state[:, i].sum(), start, retain_graph=True)[0] for i in range(3)]
        for state in states.limit
    ]
    jacobians = torch.stack([torch.stack(row, dim=1) for row in rows])  # (times, P, d, d)
    by_start = torch.einsum("pij,pi->pj", jacobians[-1], states.limit[-1].detach())
    expected = torch.linalg.solve(jacobians.mT, by_start.expand(len(jacobians), -1, -1).unsqueeze(-1))
    torch.testing.assert_close(found, expected.squeeze(-1), rtol=1e-8, atol=1e-8)


def test_the_adjoint_of_a_linear_equation_is_a_matrix_exponential():
    matrix = torch.tensor([[0.2, 1.0], [-0.5, 0.1]], dtype=torch.float64)
    h0 = torch.tensor([[1.0, 2.0], [-0.3, 0.7]], dtype=torch.float64)
    times = torch.tensor([0.0, 0.3, 0.8, 1.0], dtype=torch.float64)
    found = gradients.adjoint(lambda t, h: h @ matrix.T, h0, times, 1e-10)
    end = h0 @ torch.matrix_exp(matrix).T
    expected = torch.stack([end @ torch.matrix_exp((1 - t) * matrix) for t in times])
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@given(activation=st.sampled_from(["relu", "leaky_relu", "identity"]), width=st.integers(2, 5))
@settings(max_examples=10)
def test_gradient_times_state_is_the_same_at_all_layers_if_homogeneous(activation, width):
    """Euler's identity: ⟨p_k, h_k⟩ = |h_L|² where h_L is homogeneous in h_k, and so for the limit."""
    task = task_of(dl.res1(width, activation))
    limit, networks = told(task)
    for found, (states, _) in zip(networks, propagated(task), strict=True):
        torch.testing.assert_close(
            (found * states).sum(-1), states[-1:].square().sum(-1).expand(len(states), -1)
        )
    start = task.initial_states(0)
    torch.testing.assert_close((limit[0] * start).sum(-1), limit[-1].square().sum(-1))


def test_gradients_of_attention_are_its_states_since_every_token_keeps_its_norm():
    task = task_of(dl.attention(3, tokens=2, weights=dl.SmoothGaussian(0.3)))
    limit, networks = told(task)
    for found, (states, _) in zip(networks, propagated(task), strict=True):
        torch.testing.assert_close(found, states)
    torch.testing.assert_close(limit[-1].square().sum(-1), task.initial_states(0).square().sum(-1))
    torch.testing.assert_close(limit[0], task.initial_states(0), rtol=1e-6, atol=1e-6)


@pytest.mark.statistical
def test_the_log_of_a_gradient_is_normal_for_the_identity_of_width_one():
    """p_0/p_1 is the Jacobian, a geometric Brownian motion: ln ~ N(-1/2, 1). Level 1e-5; N(1/2, 1) fails."""
    task = task_of(dl.res1(1, "identity"), depths=(4, 256), paths=3000)
    limit, _ = told(task)
    drawn = (limit[0] / limit[-1]).abs().log().flatten().numpy()
    assert len(drawn) > 1000
    assert stats.kstest(drawn, stats.norm(-0.5, 1.0).cdf).pvalue > 1e-5
    assert stats.kstest(drawn, stats.norm(0.5, 1.0).cdf).pvalue < 1e-5


def test_a_norm_that_looks_at_the_end_sees_the_end_of_the_backward_pass():
    report = dl.compare(dl.res1(3, "tanh"), depths=[4, 8], paths=20, quantity="gradient", norm="final")
    path = report.path(3)
    for depth, error in zip(path.depths, path.errors, strict=True):
        assert error == pytest.approx(np.linalg.norm(path.states[depth][0] - path.limit_states[0]))
    assert all(len(path.states[depth]) == depth + 1 for depth in path.depths)


def test_the_norm_over_all_times_sees_gradients_between_layers():
    given = {"depths": [4, 8], "paths": 20, "quantity": "gradient", "norm": "sup-continuous"}
    path = dl.compare(dl.res1(3, "tanh"), **given).path(3)
    for depth, error in zip(path.depths, path.errors, strict=True):
        times = np.round(path.limit_times, 9)
        before, after = (np.searchsorted(path.times[depth], times, side) for side in ("left", "right"))
        kept = np.concatenate([np.clip(before - 1, 0, None), after - 1])  # just before a time, and at it
        gaps = np.concatenate([path.limit_states] * 2) - path.states[depth][kept]
        assert error == pytest.approx(np.linalg.norm(gaps, axis=1).max())


def test_gradients_split_at_the_scheme_of_the_limit_as_states_do():
    network = dl.inner(2, "scaled_silu", noise=dl.Ito(A=0.05))
    gap, scheme = dl.compare(network, depths=[8, 16, 32], paths=200, quantity="gradient").parts
    assert gap.name == "network to scheme"
    assert (gap.errors > 0.02).all()
    linear = dl.inner(2, "identity", noise=dl.Ito(A=0.05))
    (only,) = dl.compare(linear, depths=[8, 16, 32], paths=200, quantity="gradient").parts
    assert only.name == scheme.name == "scheme to limit"


@final
@dataclass(frozen=True)
class Overwriting(dl.WeightLaw):
    """Brownian layers that all stand in the same place in memory, as the contract of paths allows."""

    facts = dl.Brownian().facts
    layer_exponent = 0.5

    def path(self, shape, grid, paths, generator, dtype):
        inner = dl.Brownian().path(shape, grid, paths, generator, dtype)
        inner.layer = partial(self._overwritten, inner.layer, torch.empty(paths, *shape, dtype=dtype))
        return inner

    def _overwritten(self, layer, place, j):
        found = layer(j)
        return dataclasses.replace(found, values=place.copy_(found.values))

    def channels(self, shape):
        return dl.Brownian().channels(shape)

    def describe(self):
        return "layers in one place"


def test_layers_that_overwrite_each_other_give_the_same_gradients():
    one, two = (dl.res1(3, "tanh", weights=law) for law in (dl.Brownian(), Overwriting()))
    for found, expected in zip(told(task_of(two, limit=one.limit()))[1], told(task_of(one))[1], strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"quantity": "hessian"}, ["quantity", "hessian"]),
        ({"coupling": "projected"}, ["coupling", "projected", "pathwise"]),
        ({"same_network": True, "x": torch.ones(2, 3)}, ["same_network", "gradient"]),
    ],
)
def test_what_gradients_cannot_be_had_with_is_refused(changed, words):
    call = partial(dl.compare, dl.res1(3, "tanh"), **{"depths": [4, 8], "quantity": "gradient", **changed})
    assert_refused(call, ValueError, *words)


def test_graphs_that_would_fill_the_memory_are_cut_or_refused():
    call = partial(dl.compare, dl.res1(64, "tanh"), depths=[63, 8192], quantity="gradient")
    assert_refused(call, ValueError, "quantity", "at most 1 equal part", "shallower", "common divisor")
    task = task_of(dl.res1(64, "tanh"), depths=(64, 8192))
    assert task.segments == 3
    assert gradients.segment_ends(task) == [0, 16384 * 22 // 64, 16384 * 44 // 64, 16384]


SEGMENTED = {
    **NETWORKS,
    "attention": lambda d: dl.attention(d, tokens=2),
    "pre-norm": lambda d: dl.ResidualNetwork(dl.PreNorm("tanh"), d, dl.IID(), exponent=0.5),
}


@given(name=st.sampled_from([*SEGMENTED]), segments=st.integers(2, 9), seed=st.integers(0, 99),
       depths=st.sampled_from([(4, 8), (6, 9), (4, 12, 24)]))  # fmt: skip
@example(name="res-1", segments=3, seed=0, depths=(3, 6, 300))  # on a grid of two chunks
@settings(max_examples=6)
def test_gradients_of_segments_are_those_of_the_whole_path(name, segments, seed, depths):
    whole = task_of(SEGMENTED[name](2), depths=depths, seed=seed)
    parts = dataclasses.replace(whole, segments=segments)
    assert len(gradients.segment_ends(parts)) > 2
    (limit, networks), (limit_of_whole, of_whole) = told(parts), told(whole)
    for found, expected in zip([limit, *networks], [limit_of_whole, *of_whole], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_solver_that_goes_on_from_a_copy_is_refused_where_graphs_are_cut(monkeypatch):
    made = pathwise.make_solver

    def copying(*given):
        solver = made(*given)
        step = solver.step
        solver.step = lambda index: step(index).clone()
        return solver

    monkeypatch.setattr(pathwise, "make_solver", copying)
    task = task_of(dl.res1(2, "tanh"), depths=(4, 8))
    told(task)
    assert_refused(
        lambda: told(dataclasses.replace(task, segments=2)), RuntimeError, "quantity='gradient'", "go on from"
    )


def test_every_row_says_what_follows_for_gradients():
    rates = {name: gradients_of(make(3)).rate for name, make in NETWORKS.items() if name != "rough"}
    assert rates == {
        "res-1": 0.5, "res-1, softplus": pytest.approx(0.2), "res-2, smooth": 1.0, "Theorem 4.4": 0.5,
        "random volatility": 0.5, "Theorem 4.3": 1.0,
    }  # fmt: skip
    assert all(a.rate is None for a in map(gradients_of, (dl.res1(3, "relu"), NETWORKS["rough"](3))))
    nothing = gradients_of(dl.res1(3, "relu"))
    assert (nothing.theorem, nothing.rate) == (None, None)
    assert "slope of relu jumps" in nothing.explanation
    identity = gradients_of(dl.res1(3, "relu", exponent=0.8))
    assert (identity.name, identity.rate) == ("identity", pytest.approx(0.3))
    with dl.Theorem.register(
        matches=lambda n: n.width == 3, name="sde", limit=lambda n: dl.Identity(), rate=2.0
    ):
        assert gradients_of(dl.res1(3, "tanh")).rate is None


def test_noise_in_the_biases_alone_has_no_statement_on_gradients():
    network = dl.inner(3, "scaled_silu", noise=dl.Ito(b=0.1))
    assert network.regime().rate is not None
    assert gradients_of(network).rate is None
