"""Trajectories: known answers, hand-written loops, what `compare` measures, and what is refused."""

import math

import numpy as np
import pandas
import pytest
import torch
from refusals import assert_refused, row
from safetensors.torch import save_file
from typer.testing import CliRunner
from users import Gated

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.simulation.kernels import numba_pass

FAR = 4.5
"""Standard errors: a normal variable is further off with probability 7e-6."""
RATE, SPREAD = 0.5, 0.2
GBM = dl.SDE(
    lambda t, h: RATE * h,
    lambda t, h, dB: SPREAD * h * dB,
    noise="diagonal",
    solution=lambda t, h0, B: h0 * ((RATE - SPREAD**2 / 2) * t + SPREAD * B).exp(),
)
X = torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(3, 4)


class Block(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.linear, self.depth = torch.nn.Linear(4, 4), depth

    def forward(self, h):
        return h + torch.tanh(self.linear(h)) / self.depth


@pytest.fixture(autouse=True)
def _global_generator():
    """Blocks draw their weights from torch's global generator."""
    with torch.random.fork_rng():
        yield


def blocks(depth):
    return [Block(depth) for _ in range(depth)]


def same(tensor, other, tolerance=1e-12):
    return torch.allclose(tensor, other, rtol=tolerance, atol=tolerance)


def test_an_exact_solution_is_that_of_the_increments_that_the_scheme_reads():
    t = dl.simulate(GBM, torch.ones(1, 2), steps=[8, 32], paths=5, scheme=dl.Milstein(), keep_weights=True)
    increments = t.weights[32]["ΔB"] / 32**0.5
    path = torch.cat([torch.zeros(5, 1, 2, dtype=torch.float64), increments.cumsum(dim=1)], dim=1)
    exact = ((RATE - SPREAD**2 / 2) * t.times[32][:, None] + SPREAD * path).exp()
    assert same(t.limit_at(32), exact)
    h, hand = torch.ones(5, 2, dtype=torch.float64), []
    for moved in increments.unbind(dim=1):
        hand.append(h)
        h = h + RATE * h / 32 + SPREAD * h * moved + SPREAD**2 * h * (moved**2 - 1 / 32) / 2
    assert same(t.states[32], torch.stack([*hand, h], dim=1))
    assert not same(t.states[32], exact)


def test_a_network_is_the_loop_that_its_weights_say():
    t = dl.simulate(dl.res3(4), X, depths=[6], paths=5, keep_weights=True, limit=False, dtype="float64")
    v, w = t.weights[6]["V"], t.weights[6]["W"]
    assert v.shape == (5, 6, 4, 4)
    h = X[torch.arange(5) % 3]
    for k in range(6):
        assert same(t.states[6][:, k], h)
        inside = torch.relu(torch.einsum("pij,pj->pi", w[:, k], h))
        h = h + 6**-0.5 * torch.einsum("pij,pj->pi", v[:, k], inside)
    assert same(t.states[6][:, -1], h)


SAMPLED = {
    "res1": lambda: dl.res1(4, "tanh"),
    "two weights": lambda: dl.res3(4),
    "fractional": lambda: dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7)),
    "smooth": lambda: dl.res2(4, "tanh", weights=dl.SmoothGaussian()),
    "coloured": lambda: dl.res1(4, "tanh", weights=dl.AR1(0.5)),
    "biases": lambda: dl.inner(4, "tanh", noise=dl.Ito(A=0.1, b=0.2)),
    "given": lambda: dl.inner(4, "tanh", weights=dl.Trend(lambda t: torch.eye(4) * t)),
    "tokens": lambda: dl.attention(4, tokens=3),
    "kernels": lambda: dl.convolutional(2, "tanh", size=(4, 4)),
    "pre-norm": lambda: dl.ResidualNetwork(dl.PreNorm("tanh"), 4),
    "a user's": lambda: dl.ResidualNetwork(Gated("tanh"), 4, dl.Brownian(), 0.5),
    "blocks": lambda: blocks,
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", SAMPLED)
def test_states_are_those_of_the_modules_and_not_of_another_path(name):
    network = SAMPLED[name]()
    x = X if name == "blocks" else None
    t = dl.simulate(network, x, depths=[3, 5], paths=3, dtype="float64", limit=False)
    for depth in (3, 5):
        start, end = t.states[depth][1, :1], t.states[depth][1, -1:]
        made = t.modules(depth, path=1)
        assert len(made) == depth
        assert same(made(start), end, 1e-9)
        assert name == "given" or not same(t.modules(depth, path=2)(start), end, 1e-9)
        assert all(each.requires_grad for each in made.parameters())
        assert len(list(made.parameters())) >= depth


@pytest.mark.parametrize("scheme", [dl.EulerMaruyama(), dl.Heun(), dl.TorchSDE("srk")], ids=lambda s: s.name)
def test_a_flow_of_an_equation_is_a_module_that_takes_any_start(scheme):
    t = dl.simulate(GBM, torch.ones(1, 2), steps=7, paths=2, scheme=scheme)
    flow = t.modules(7, path=1)
    ends = flow(torch.tensor([[1.0, 1.0], [2.0, 3.0]], dtype=torch.float64))
    assert same(ends[0], t.states[7][1, -1])
    assert same(ends[1], ends[0] * torch.tensor([2.0, 3.0], dtype=torch.float64))  # linear equation


SOLVED = {
    "random functions": lambda: dl.res2(4, "tanh", weights=dl.SmoothGaussian()),
    "a linear ODE": lambda: dl.inner(4, "tanh", trend=dl.Trend(lambda t: torch.eye(4)), alpha=0.5, beta=0.5),
    "Young": lambda: dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7)),
    "tokens": lambda: dl.attention(4, tokens=3),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", SOLVED)
def test_a_limit_that_no_scheme_steps_is_solved_and_has_the_law_of_a_networks(name):
    network = SOLVED[name]()
    x = torch.ones(1, *network.state_shape, dtype=torch.float64)
    given = {"paths": 50, "dtype": "float64", "keep": "summaries"}
    alone = dl.simulate(network.limit(), x, steps=16, **given)
    beside = dl.simulate(network, x, depths=[16], **given).limit_summary
    assert alone.limit is None
    own, other = alone.summaries[16], beside
    assert np.allclose(own.mean[0], 1.0)
    error = np.sqrt((own.variance[-1] + other.variance[-1]) / 50) + 1e-6
    assert (np.abs(own.mean[-1] - other.mean[-1]) < FAR * error).all()
    assert not np.allclose(own.mean[-1], own.mean[0], atol=1e-2)
    with pytest.raises(ValueError, match="solved"):
        alone.modules(16, 0)


def test_the_solution_of_a_linear_ode_is_an_exponential():
    trend = dl.Trend(lambda t: torch.eye(2, dtype=torch.float64))
    limit = dl.inner(2, "tanh", trend=trend, alpha=0.5, beta=0.5).limit()
    t = dl.simulate(limit, torch.ones(1, 2), steps=8, paths=1)
    assert same(t.states[8][0, :, 0], t.times[8].exp(), 1e-7)


def test_inputs_of_another_width_enter_the_states_of_an_equation_that_says_its_own():
    trend = dl.Trend(lambda t: (1 + t) * torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    limit = dl.inner(2, "tanh", trend=trend, alpha=0.5, beta=0.5).limit()
    for width in (1, 3):
        found = dl.simulate(limit, X.new_ones(2, width), steps=4, paths=2)
        assert found.states[4].shape == (2, 5, 2)


def test_modules_of_a_sampled_network_can_be_trained():
    made = dl.simulate(dl.res1(4, "tanh"), depths=8, dtype="float64").modules(8, path=0)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.5)
    losses = []
    for _ in range(20):
        loss = (made(X) - X.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


COMPARED = {
    "pathwise": (dl.res1(4, "tanh"), {"depths": [4, 6, 12], "paths": 40, "coupling": "pathwise"}),
    "products": (dl.res1(9, "tanh"), {"depths": [4, 8], "paths": 40, "coupling": "projected"}),
    "split": (
        dl.inner(9, "scaled_silu", noise=dl.Ito(A=0.1, b=0.2)),
        {"depths": [4, 8], "paths": 40, "coupling": "projected"},
    ),
    "smooth": (dl.res1(3, "tanh", weights=dl.SmoothGaussian()), {"depths": [4, 8], "paths": 20}),
    "Young": (dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.7)), {"depths": [4, 8], "paths": 20}),
}


@pytest.mark.parametrize("name", COMPARED)
def test_distances_at_the_end_are_what_compare_measures(name):
    network, settings = COMPARED[name]
    report = dl.compare(network, norm="final", seed=5, **settings)
    t = dl.simulate(network, seed=5, **settings)
    other = dl.simulate(network, seed=6, **settings)
    for j, depth in enumerate(t.depths):
        found = [(of.states[depth] - of.limit_at(depth))[:, -1].double().norm(dim=1) for of in (t, other)]
        drawn = [report.path(i).errors[j] for i in range(3)]
        assert found[0][:3].numpy() == pytest.approx(drawn, rel=1e-6)
        mine, apart = (math.sqrt(float(each.square().mean())) for each in found)
        assert mine == pytest.approx(report.raw_errors[j], rel=1e-6)
        assert apart != pytest.approx(report.raw_errors[j], rel=1e-5)


@pytest.mark.skipif(numba_pass.loops() is None, reason="numba is not installed")
@pytest.mark.parametrize("depths", [[8, 32], [8]])
def test_compiled_loops_stop_at_the_times_and_give_the_states_of_torch(depths, monkeypatch):
    given = {"depths": depths, "paths": 150, "coupling": "projected", "times": [0.0, 0.3, 0.5, 1.0]}
    in_torch = dl.simulate(dl.res1(16, "tanh"), **given)
    monkeypatch.setattr(numba_pass, "WORTHWHILE", 0)
    compiled = dl.simulate(dl.res1(16, "tanh"), **given)
    for depth in depths:
        assert not torch.equal(compiled.states[depth], in_torch.states[depth])  # another arithmetic
        assert same(compiled.states[depth], in_torch.states[depth], 1e-4)
    assert same(compiled.limit_states, in_torch.limit_states, 1e-4)


@pytest.mark.statistical
def test_moments_of_a_linear_network_are_known_in_closed_form():
    """E h_L = h_0 and E|h_L|² = (1 + 1/L)^L |h_0|², for h + L^-1/2 V h with entries N(0, 1/d)."""
    start, depth, paths = torch.tensor([[1.0, 2.0, -1.0]]), 8, 4000
    t = dl.simulate(dl.res1(3, "identity"), start, depths=[depth], paths=paths, limit=False)
    last = t.states[depth][:, -1].double()
    squares = last.square().sum(dim=1)
    off = (last.mean(dim=0) - start[0]) / (last.std(dim=0) / paths**0.5)
    assert off.abs().max() < FAR
    standard_error = squares.std() / paths**0.5

    def away(known):
        return abs(float(squares.mean()) - known * 6.0) / float(standard_error)

    assert away((1 + 1 / depth) ** depth) < FAR
    assert away(math.e) > FAR or standard_error > 0.1  # the limit's, which is another one
    assert away(2 * math.e) > FAR


def test_summaries_are_those_of_the_states_that_another_call_keeps():
    given = {"depths": [4, 8], "paths": 190, "coupling": "pathwise", "times": [0.0, 0.25, 0.6, 1.0]}
    states = dl.simulate(dl.res1(40, "tanh"), **given)  # three blocks
    kept = dl.simulate(dl.res1(40, "tanh"), keep="summaries", **given)
    for depth in (4, 8, None):
        whole = (states.limit_states if depth is None else states.states[depth]).double().numpy()
        summary = kept.limit_summary if depth is None else kept.summaries[depth]
        assert np.allclose(summary.mean, whole.mean(axis=0), atol=1e-6)
        assert np.allclose(summary.covariance[2], np.cov(whole[:, 2].T), atol=1e-6)
        wanted = np.quantile(whole, [0.1, 0.5], axis=0, method="hazen")
        assert np.allclose(summary.quantile([0.1, 0.5]), wanted, atol=1e-6)
        assert np.allclose(states.summary(depth).variance, summary.variance, atol=1e-6)
    assert kept.states == {}
    assert not np.allclose(kept.summaries[4].mean, kept.summaries[8].mean, atol=1e-6)


def test_given_times_choose_the_last_layer_before_and_the_limit_of_the_grid():
    whole = dl.simulate(dl.res1(4, "tanh"), depths=[4, 6], paths=3)
    some = dl.simulate(dl.res1(4, "tanh"), depths=[4, 6], paths=3, times=[0.1, 0.5, 0.7, 1.0])
    assert same(some.times[4], torch.tensor([1 / 12, 0.5, 2 / 3, 1.0], dtype=torch.float64))
    assert torch.equal(some.states[4], whole.states[4][:, [0, 2, 2, 4]])
    assert torch.equal(some.states[6], whole.states[6][:, [0, 3, 4, 6]])
    assert torch.equal(whole.limit_at(4)[:, -1], some.limit_states[:, -1])
    assert whole.limit_at(4).shape == whole.states[4].shape == (3, 5, 4)
    assert same(whole.limit_times, torch.tensor([0, 2, 3, 4, 6, 8, 9, 10, 12]).double() / 12)


def test_several_inputs_go_through_one_network_together():
    t = dl.simulate(dl.res1(4, "tanh"), X, depths=[4, 8], paths=2, same_network=True, dtype="float64")
    assert t.states[8].shape == (2, 3, 9, 4)
    assert t.limit_at(8).shape == (2, 3, 9, 4)
    for path in range(2):
        assert same(t.modules(8, path)(X), t.states[8][path, :, -1])
    assert t.summary(8).paths == 6
    assert t.to_frame().input.max() == 2


def test_one_stack_of_blocks_is_followed_input_by_input():
    stack = torch.nn.Sequential(*blocks(6)).double()
    t = dl.simulate(stack, X, paths=3)
    assert t.depths == (6,)
    h = X
    for k, block in enumerate(stack):
        assert same(t.states[6][:, k], h)
        h = block(h).detach()
    assert same(t.states[6][:, -1], h)
    assert same(t.modules(6, path=0)(X), h)
    assert dl.simulate(stack, X, paths=2).reservations != t.reservations


def test_blocks_of_narrow_numbers_are_followed_in_float32():
    stack = torch.nn.Sequential(*blocks(3)).bfloat16()
    t = dl.simulate(stack, X.bfloat16(), paths=len(X))
    assert t.states[3].dtype == torch.float32
    wanted = stack.float()(X.bfloat16().float()).detach()
    assert torch.allclose(t.states[3][:, -1], wanted)


def test_nothing_but_numbers_depends_on_how_blocks_run_and_are_kept(tmp_path):
    def run(**how):
        return dl.simulate(dl.res1(40, "tanh"), depths=[2, 4], paths=190, **how)

    first, store = run(workers=1), tmp_path / "s.sqlite"
    for again in (run(workers=3), run(store=store), run(store=store)):
        assert torch.equal(again.states[4], first.states[4])
        assert torch.equal(again.limit_states, first.limit_states)
    kept = [run(keep="summaries", **how) for how in ({"workers": 1}, {"store": store}, {"store": store})]
    assert all(np.array_equal(each.summaries[4].scatter, kept[0].summaries[4].scatter) for each in kept)
    assert all(
        np.array_equal(each.limit_summary.quantile(0.3), kept[0].limit_summary.quantile(0.3)) for each in kept
    )


@pytest.mark.parametrize("keep", ["states", "summaries"])
def test_paths_that_are_not_finite_are_counted_and_said(keep):
    exploding = dl.res1(9, "identity", exponent=0.0)  # (1 + 1)^L |h_0|² in the mean
    t = dl.simulate(exploding, depths=[4, 600], paths=6, keep=keep)
    assert t.lost[4] == 0
    assert t.lost[600] > 0
    assert str(t.lost[600]) in t.reservations[-1]
    assert "nan" not in str(t)
    if keep == "summaries":
        assert np.isfinite(t.summaries[600].mean).all()
        assert t.summaries[600].count[-1] == 6 - t.lost[600]
    assert dl.simulate(exploding, depths=[4], paths=6, limit=False, keep=keep).reservations == ()


def test_where_no_theorem_names_a_limit_there_is_none_and_it_is_said():
    t = dl.simulate(dl.res3(4), depths=[4], paths=2)
    assert t.limit is None
    assert t.limit_states is None
    assert len(t.reservations) == 1
    with pytest.raises(ValueError, match="limit"):
        t.limit_at(4)
    given = dl.simulate(
        dl.res1(2, "tanh"), depths=[4, 8], paths=4, limit=dl.Independent(dl.res1(2, "tanh").limit())
    )
    assert (given.states[8] - given.limit_at(8))[:, -1].norm(dim=1).max() > 0.5


def test_files_bring_back_every_number_and_the_modules(tmp_path):
    t = dl.simulate(dl.res1(4, "tanh"), depths=[4, 8], paths=3, keep_weights=True)
    t.save(tmp_path / "t.safetensors")
    again = dl.Trajectories.load(tmp_path / "t.safetensors")
    assert str(again) == str(t)
    assert torch.equal(again.states[8], t.states[8])
    assert torch.equal(again.weights[8]["V"], t.weights[8]["V"])
    assert torch.equal(again.limit_at(4), t.limit_at(4))
    assert torch.equal(again.modules(8, 2)[3].V, t.modules(8, 2)[3].V)
    summed = dl.simulate(dl.res1(4, "tanh"), depths=[4], paths=300, keep="summaries")
    summed.save(tmp_path / "s.safetensors")
    read = dl.Trajectories.load(tmp_path / "s.safetensors")
    assert np.array_equal(read.summaries[4].quantile(0.3), summed.summaries[4].quantile(0.3))
    assert read.lost == summed.lost


def test_a_file_of_a_users_own_network_says_why_it_cannot_draw_again(tmp_path):
    t = dl.simulate(GBM, torch.ones(1, 2), steps=4)
    t.save(tmp_path / "t.safetensors")
    again = dl.Trajectories.load(tmp_path / "t.safetensors")
    assert torch.equal(again.states[4], t.states[4])
    with pytest.raises(ValueError, match="cannot draw"):
        again.modules(4, 0)


def test_a_frame_has_a_row_per_path_and_time_and_the_limit_at_infinity():
    t = dl.simulate(dl.res1(4, "tanh"), depths=[4, 8], paths=3)
    frame = t.to_frame()
    assert len(frame) == 3 * (5 + 9 + 9)
    one = frame[(frame.depth == 8) & (frame.path == 2)]
    assert np.array_equal(one.h1, t.states[8][2, :, 1].numpy())
    assert np.array_equal(one.time, t.times[8].numpy())
    last = frame[np.isinf(frame.depth) & (frame.path == 1)]
    assert np.array_equal(last.h3, t.limit_states[1, :, 3].numpy())
    summed = dl.simulate(dl.res1(4, "tanh"), depths=[4], paths=30, keep="summaries").to_frame()
    assert len(summed) == 2 * 9 * 4  # the grid of the limit has 9 times
    assert (summed.q05 <= summed.q95).all()


def test_few_paths_are_lines_and_many_are_a_fan():
    few = dl.simulate(dl.res1(4, "tanh"), depths=[4, 8], paths=3)
    drawn = few.plot(coordinate=2)
    assert len(drawn.lines) == 9
    assert np.array_equal(drawn.lines[-1].get_ydata(), few.states[8][2, :, 2].numpy())
    assert len(few.plot(depth=4).lines) == 6
    deeper = dl.simulate(dl.res1(4, "tanh"), depths=[2, 4, 8, 16], paths=1).plot()
    assert len({tuple(line.get_color()) for line in deeper.lines[1:]}) == 4
    many = dl.simulate(dl.res1(4, "tanh"), depths=[4, 8], paths=40)
    fan = many.plot(coordinate=1)
    assert len(fan.collections) == 2
    wanted = np.quantile(many.states[8][:, :, 1].numpy(), 0.5, axis=0, method="hazen")
    assert np.allclose(fan.lines[0].get_ydata(), wanted)


REFUSED = [
    row("a class", lambda: dl.simulate(dl.SDE), TypeError, "what", "SDE"),
    row("a number", lambda: dl.simulate(3), TypeError, "what", "3"),
    row("one block", lambda: dl.simulate([Block(1)], X), TypeError, "what", "1"),
    row("depths of an equation", lambda: dl.simulate(GBM, X, depths=[4]), ValueError, "depths", "4"),
    row("steps of a network", lambda: dl.simulate(dl.res1(2), steps=7), ValueError, "steps", "7"),
    row("no steps", lambda: dl.simulate(GBM, X, steps=0), ValueError, "steps", "0"),
    row("scheme", lambda: dl.simulate(dl.res1(2), scheme=dl.Heun()), ValueError, "scheme", "Heun"),
    row("a width nobody says", lambda: dl.simulate(GBM), ValueError, "x", "None"),
    row("another depth", lambda: dl.simulate(blocks(4), X.float(), depths=3), ValueError, "depths", "3"),
    row("no paths", lambda: dl.simulate(dl.res1(2), paths=0), ValueError, "paths", "0"),
    row("too many", lambda: dl.simulate(dl.res1(2), paths=10**8), ValueError, "paths", "100000000"),
    row("times", lambda: dl.simulate(dl.res1(2), times=[0.5, 0.2]), ValueError, "times", "0.2"),
    row("late", lambda: dl.simulate(dl.res1(2), times=[0.5, 2.0]), ValueError, "times[1]", "2"),
    row("keep", lambda: dl.simulate(dl.res1(2), keep="all"), ValueError, "keep", "all"),
    row("inputs", lambda: dl.simulate(dl.res1(2), same_network=True), ValueError, "same_network", "True"),
    row(
        "no weights",
        lambda: dl.simulate(dl.res1(9, "tanh"), keep_weights=True, coupling="projected"),
        ValueError,
        "keep_weights",
        "projected",
    ),
    row("a law", lambda: dl.simulate(dl.res3(2).limit()), ValueError, "what", "law"),
    row(
        "a scheme of a function",
        lambda: dl.simulate(dl.res1(2, "tanh", weights=dl.SmoothGaussian()).limit(), scheme=dl.RK4()),
        ValueError,
        "equation",
        "V_t",
    ),
]


@pytest.mark.parametrize(("call", "error", "names"), REFUSED)
def test_what_cannot_be_simulated_is_refused_by_name(call, error, names):
    assert_refused(call, error, *names)


def test_what_was_not_simulated_is_refused_by_name(tmp_path):
    t = dl.simulate(dl.res1(9, "tanh"), depths=[4], paths=2, coupling="projected")
    summed = dl.simulate(dl.res1(2, "tanh"), depths=[4], paths=2, keep="summaries")
    save_file({"a": torch.ones(2)}, tmp_path / "other.safetensors")
    (tmp_path / "no.safetensors").write_text("no")
    for call, names in (
        (lambda: t.modules(5, 0), ("depth", "5")),
        (lambda: t.modules(4, 2), ("path", "2")),
        (lambda: t.modules(4, 0), ("path 0", "projected")),
        (lambda: t.plot(coordinate=9), ("coordinate", "9")),
        (lambda: summed.limit_at(4), ("keep", "summaries")),
        (lambda: summed.summaries[4].quantile(1.5), ("q", "1.5")),
        (lambda: dl.Trajectories.load(tmp_path / "other.safetensors"), ("other.safetensors",)),
        (lambda: dl.Trajectories.load(tmp_path / "no.safetensors"), ("no.safetensors",)),
        (lambda: dl.Trajectories.load(tmp_path / "missing.safetensors"), ("missing.safetensors",)),
        (lambda: t.save(tmp_path / "t.json"), ("path", "t.json")),
    ):
        assert_refused(call, ValueError, *names)


def test_the_command_writes_what_the_function_returns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_to_simulate.py").write_text("def decay(t, h):\n    return 1.0 - h\n")
    given = ["simulate", "--quiet", "--save", "t.safetensors", "--plot", "t.png", "--paths", "2"]
    result = CliRunner().invoke(app, [*given, "--width", "3", "--depths", "4,8"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "t.png").stat().st_size > 0
    wanted = dl.simulate(dl.res1(3, "tanh"), depths=[4, 8], paths=2)
    assert torch.equal(dl.Trajectories.load("t.safetensors").states[8], wanted.states[8])
    own = ["--width", "1", "--equation", "mine_to_simulate:decay", "--steps", "16"]
    result = CliRunner().invoke(app, [*given, *own])
    assert result.exit_code == 0, result.output
    for option in ("--network res3", "--activation relu", "--weights smooth", "--hurst .3", "--exponent 0"):
        assert CliRunner().invoke(app, [*given, *own, *option.split()]).exit_code == 2, option
    end = dl.Trajectories.load("t.safetensors").states[16][0, -1].item()
    assert end == pytest.approx(1 - math.exp(-1), abs=1e-6)
    table = ["simulate", "--quiet", "--width", "2", "--depths", "2,4", "--paths", "3", "--save", "t.csv"]
    assert CliRunner().invoke(app, table).exit_code == 0
    assert len(pandas.read_csv("t.csv")) == 3 * (3 + 5 + 5)  # of the limit, too
    assert CliRunner().invoke(app, ["simulate", "--steps", "4"]).exit_code == 2


def test_trajectories_are_told_apart_as_objects():
    """Arrays have no single answer to whether they are equal."""
    one, same = (dl.simulate(GBM, X[:, :1], steps=4, paths=2) for _ in range(2))
    assert one == one  # noqa: PLR0124
    assert one != same
    assert len({one, same, one}) == 2


@pytest.mark.parametrize("together", [False, True])
def test_the_distance_in_the_table_is_that_of_the_last_states(together):
    found = dl.simulate(dl.res1(4, "tanh"), X, depths=[4, 8], paths=5, same_network=together)
    ends = {depth: found.states[depth][..., -1, :].double() for depth in (4, 8)}
    gaps = {depth: end - found.limit_states[..., -1, :].double() for depth, end in ends.items()}
    expected = [float(gap.square().sum(dim=-1).mean().sqrt()) for gap in gaps.values()]
    assert found._distances() == pytest.approx(expected, rel=1e-6)


def test_times_that_fall_into_one_step_are_kept_once_and_said():
    asked = [0.0, 0.1, 0.3, 0.31, 1.0]
    found = dl.simulate(dl.res1(3, "tanh"), depths=[10, 30], paths=2, times=asked)
    assert found.states[30].shape[1] == len(found.times[30]) == 4
    assert sum("Of 5 times" in each for each in found.remarks) == 1
    plain = dl.simulate(dl.res1(3, "tanh"), depths=[10, 30], paths=2, times=[0.0, 0.1, 0.5, 1.0])
    assert plain.states[10].shape[1] == 4
    assert not plain.remarks


@pytest.mark.parametrize(("reference", "told"), [(None, 1), (1024, 0)])
def test_a_limit_on_a_grid_that_is_hardly_finer_says_so(reference, told):
    equation = dl.SDE(lambda t, h: -h, lambda t, h, dB: 0.2 * h * dB, noise="diagonal")
    found = dl.simulate(equation, torch.ones(1, 1), steps=[16, 64], reference=reference)
    assert sum("reference=1024" in each for each in found.remarks) == told
