"""The pass over one block: who draws from which stream, when a drift is read, what is counted as lost."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from runs import task_of, walk

import deeplimit as dl
from deeplimit.common.initial_layer import initial_layer
from deeplimit.driving.path import Grid
from deeplimit.simulation import coupled_errors
from deeplimit.simulation.moments import Moments
from deeplimit.simulation.pathwise import make_solver, run_block


def test_a_users_drift_enters_times_the_step_and_is_read_at_its_start():
    """dH = (1 + t) dt: each Euler step adds (1 + t) Δ with t where the step starts, across chunks of the grid
    too.
    """

    class Ramp:
        sde_type, noise_type = "ito", "diagonal"

        def f(self, t, y):
            return (1 + t) * torch.ones_like(y)

        def g(self, t, y):
            return torch.zeros_like(y)

    smooth = dl.res1(2, "tanh", weights=dl.SmoothGaussian())
    times, _, limits = walk(smooth, [300], limit=dl.Independent(Ramp()), reference=900)
    assert len(times) > 700  # more than one chunk
    added = torch.as_tensor((1 + times[:-1]) * np.diff(times))
    torch.testing.assert_close(limits.diff(dim=0), added[:, None, None].expand(-1, 3, 2), rtol=0, atol=1e-14)


@pytest.mark.parametrize("combined", [False, True])
def test_a_limit_with_noise_of_its_own_gets_independent_standard_brownian_motions(combined):
    """dH = dB with diagonal noise: increments are independent, with the step as variance, by z-scores at
    level 1e-5.
    """

    class Motion:
        sde_type, noise_type = "ito", "diagonal"

        def f(self, t, y):
            return torch.zeros_like(y)

        def g(self, t, y):
            return torch.ones_like(y)

    limit = Motion()
    if combined:
        limit = type("Product", (), {"sde_type": "ito", "noise_type": "diagonal"})()
        limit.f_and_g_prod = lambda t, y, v: (torch.zeros_like(y), v)
    smooth = dl.res1(2, "tanh", weights=dl.SmoothGaussian())
    times, _, limits = walk(smooth, [2, 3], limit=dl.Independent(limit), reference=4, paths=4000)
    steps = torch.as_tensor(np.diff(times)).sqrt()[:, None, None]
    scaled = (limits.diff(dim=0) / steps).permute(1, 0, 2).flatten(1)  # (paths, steps * width)
    products = scaled.T @ scaled / len(scaled) - torch.eye(scaled.shape[1], dtype=torch.float64)
    spread = (1 + torch.eye(scaled.shape[1])).sqrt() / len(scaled) ** 0.5
    assert (products.abs() < 4.42 * spread).all()


def test_blocks_and_matrices_draw_from_streams_of_their_own():
    """Repeated blocks would look like certainty, a matrix repeated like a law of its own."""
    network = dl.res2(3, "tanh", weights=dl.SmoothGaussian(0.5))
    task = task_of(network, dl.Independent(network.limit()))
    still = torch.ones(5, 3, dtype=torch.float64)
    drawn = []
    for block in (0, 1):
        paths = task.network_paths(block, 5)
        drawn += [path.functions[0].coefficients.flatten()[:15] for path in paths]
        drawn.append(task.limit.bind(tuple(path.functions[0] for path in paths))(0.5, still).flatten())
        drawn.append(make_solver(task, block, still, paths).field(0.5, still).flatten())
    correlation = torch.corrcoef(torch.stack(drawn)[[0, 1, 4, 5]])
    assert (correlation.fill_diagonal_(0).abs() < 0.99).all()
    assert not torch.equal(drawn[3], drawn[7])
    assert not torch.equal(drawn[2], drawn[3])
    gaussian = dl.res1(40, "tanh")
    task = task_of(gaussian, dl.Independent(gaussian.limit()), coupling="pathwise")
    assert task.blocks == 3
    states = [task.initial_states(block) for block in range(3)]
    assert [len(state) for state in states] == [81, 81, 38]
    assert not torch.equal(states[0], states[1])
    seeds = [
        make_solver(task, block, states[block], task.network_paths(block, 2)).own.initial_seed()
        for block in range(3)
    ]
    seeds += [task.network_paths(block, 2)[0].generator.initial_seed() for block in range(3)]
    assert len(set(seeds)) == 6
    # the initial states are not the weights' own numbers
    weights = torch.empty(81, 40, dtype=torch.float64).normal_(
        generator=task.network_paths(0, 2)[0].generator
    )
    assert not torch.equal(states[0], weights)


def test_the_two_matrices_of_a_limit_passed_to_odeint_are_two_draws():
    """res-2 with the identity is h -> V W h; res-1 with it is h -> V h, from the same stream as res-2's V."""
    weights, eye = dl.SmoothGaussian(0.5), torch.eye(3, dtype=torch.float64)
    product = dl.res2(3, "identity", weights=weights).limit()(0.3, eye).T
    v = dl.res1(3, "identity", weights=weights).limit()(0.3, eye).T
    assert not torch.allclose(product, v @ v)


def test_inputs_are_taken_in_turn_across_blocks():
    network, x = (
        dl.res1(40, "tanh"),
        torch.randn(7, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    )
    task = task_of(network, x=x, coupling="pathwise")
    states = torch.cat([task.initial_states(block) for block in range(task.blocks)])
    assert task.blocks > 2
    assert torch.equal(states, x[torch.arange(200) % 7])


def test_the_input_layer_has_variance_one_over_the_number_of_inputs():
    eye = torch.eye(400, dtype=torch.float64)
    layer = initial_layer(eye, (50,), 0, torch.float64)  # its rows are A's columns
    assert layer.shape == (400, 50)
    assert abs(layer.square().mean().item() * 400 - 1) < 4.42 * (2 / layer.numel()) ** 0.5


def test_common_errors_are_the_largest_at_the_times_that_all_depths_share():
    depths = [6, 9, 12]
    network = dl.res1(3, "tanh")
    report = dl.compare(network, depths=depths, paths=40, seed=4, dtype="float64")
    times, states, limits = walk(network, depths, paths=40, seed=4)
    shared = [np.argmin(abs(times - t)) for t in (1 / 3, 2 / 3, 1.0)]
    for j, depth in enumerate(depths):
        at_shared = torch.stack(
            [(limits[i] - states[depth][round(times[i] * depth)]).norm(dim=1) for i in shared]
        )
        largest = at_shared.amax(dim=0).square().mean().sqrt().item()
        assert largest > 1.01 * at_shared[-1].square().mean().sqrt().item()
        bias = (1 - depth * (np.diff(times) ** 2).sum()) ** 0.5
        assert report.common_errors[j] == pytest.approx(largest / bias, rel=1e-12)


def test_lost_values_add_up_over_blocks_in_either_order():
    lost = Moments.of(np.array([[1.0, np.nan], [2.0, np.nan], [np.inf, 4.0]]), 2.0, limit_lost=2)
    clean = Moments.of(np.ones((4, 2)), 2.0)
    for merged in (lost.merge(clean), clean.merge(lost)):
        assert (merged.diverged.tolist(), merged.limit_lost, merged.count) == ([1, 2], 2, 7)


def test_the_stated_error_of_an_ode_reference_is_of_the_size_of_the_true_one():
    """h(t) = h(0) exp(t) exactly; a loose tolerance makes the solver's error visible."""
    network = dl.res1(1, "identity", weights=dl.Trend(lambda t: torch.ones(1, 1)))
    x = torch.ones(1, 1, dtype=torch.float64)
    for tolerance in (1e-2, 1e-4, 1e-6, 1e-8):
        report = dl.compare(network, x=x, depths=[4, 8, 16], paths=20, norm="final", tolerance=tolerance)
        true = abs(report.errors[-1] - (np.e - (1 + 1 / 16) ** 16))
        assert tolerance / 1000 < report.reference_error < 100 * tolerance
        assert true < 10 * report.reference_error


def test_smooth_weights_are_held_constant_outside_the_unit_interval():
    path = dl.SmoothGaussian().sample(
        (2, 2), 3, torch.Generator().manual_seed(0), torch.float64, torch.device("cpu")
    )
    outside, ends = path.at(torch.tensor([-0.5, 1.5])), path.at(torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(outside, ends)


def test_the_loss_of_one_coordinate_of_the_limit_is_a_lost_path():
    task = task_of(dl.res1(3, "tanh"), paths=10)
    h0 = torch.tensor(
        [[1.0, math.inf, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64
    )  # tanh keeps the others finite
    assert run_block(dataclasses.replace(task, h0=h0), 0).limit_lost == 5


def test_local_slopes_are_those_of_the_errors_that_the_order_is_fitted_to():
    """In the theorems' norm those over time, else those at the times that all depths share."""
    network = dl.res1(6, "tanh")
    for norm, source in (("sup", "common_errors"), ("sup-continuous", "errors")):
        report = dl.compare(network, norm=norm, depths=[8, 16, 32, 64], paths=200)
        by_hand = -np.diff(np.log(getattr(report, source))) / np.log(2)
        np.testing.assert_allclose(report.local_slopes, by_hand, rtol=1e-9)
        assert not np.allclose(report.errors, report.common_errors)


def test_blocks_hold_as_many_numbers_of_functions_of_time_as_memory_allows():
    """The functions of a limit are drawn beside the network's where they are others."""
    smooth, rough = (dl.SmoothGaussian(length_scale=scale) for scale in (0.5, 0.01))
    network = dl.res1(8, "tanh", weights=smooth)
    limits = (network.limit(), dl.Independent(dl.res1(8, "tanh", weights=rough).limit()))
    sizes = [task_of(network, limit).block_size for limit in limits]
    assert sizes == [2048, 2**21 // rough.held_per_path((8, 8))]  # 2048: by its increments


def test_a_fractional_path_is_held_on_equal_steps_that_hold_every_layer():
    network = dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.7))
    assert task_of(network, depths=(4, 6)).grid == Grid((4, 6), (24,), halved=True)  # 8 times 6 steps
    assert task_of(network, depths=(4, 6), reference=49).grid == Grid((4, 6), (36,), halved=True)
    other = dl.Independent(dl.res1(2, "tanh").limit())  # with noise of its own: no second, coarser solution
    assert task_of(network, other, depths=(4, 6)).grid == Grid((4, 6), (12,))


def test_a_block_has_a_path_however_little_memory_it_may_take(monkeypatch):
    network = dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.7))
    monkeypatch.setitem(coupled_errors.WHOLE_PATH_NUMBERS_PER_BLOCK, "cpu", 1)
    assert task_of(network).block_size == 1
