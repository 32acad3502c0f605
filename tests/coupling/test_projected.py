"""The projected coupling against the pathwise one: fed the same noise to rounding, with noise of its own in
law.
"""

from functools import lru_cache
from unittest import mock

import numpy as np
import pytest
import torch
from couplings import (
    FAULTS,
    Setting,
    all_recorded,
    faulty,
    inner_settings,
    neural_sde,
    res1_settings,
    turning,
)
from hypothesis import example, given, settings
from noises import LEVEL
from scipy import stats

import deeplimit as dl
from deeplimit.coupling import Task
from deeplimit.coupling.kernels import projected
from deeplimit.coupling.kernels.products import Products

PATHS = 8_000


class Matrices:
    """Stands in for `Products`, with whole increments of the Brownian matrix: what products there are is
    plain to see.
    """

    increments: tuple = ()

    def __init__(self, columns, like):
        self.held = like.new_zeros(columns, *like.shape)
        self.sums = [0.0] * columns
        self.passed = 0

    def hold(self, column, vector):
        self.held[column] = vector
        self.sums[column] = 0.0

    def pass_over(self, vectors, normals, step):
        increment = self.increments[self.passed]
        self.passed += 1
        self.sums = [passed + increment for passed in self.sums]
        return [torch.einsum("pij,jp->ip", increment, vector) for vector in vectors]

    def take(self, column, normals):
        return torch.einsum("pij,jp->ip", self.sums[column], self.held[column])


def run_on_the_same_noise(setting, paths=5, seed=0):
    """Return the recorders of both couplings, the projected one fed the very Brownian motions that the
    pathwise one drew.
    """
    drawn, steps, width = [], [], setting.network.width
    make = Task.network_paths

    def recording(*arguments):
        (path,) = make(*arguments)
        move = path.advance

        def step(index):
            move(index)
            drawn.append(path.brownian.clone())
            steps.append(float(path.steps[index]))

        path.advance = step
        return (path,)

    with mock.patch.object(Task, "network_paths", recording):
        whole = all_recorded(setting.task("pathwise", paths, seed))

    class Fed:
        """The biases' Brownian motions as standard normals; what the other streams would give is not read."""

        def __init__(self, shape, generator, dtype):
            self.used = 0

        def next(self):
            index = min(self.used, len(drawn) - 1)
            self.used += 1
            bias = drawn[index][:, width**2 :]
            return (
                bias.T / steps[index] ** 0.5
                if bias.shape[1]
                else torch.zeros(width, paths, dtype=torch.float64)
            )

    matrices = [increment[:, : width**2].reshape(paths, width, width) for increment in drawn]
    with (
        mock.patch.object(projected, "Normals", Fed),
        mock.patch.object(projected, "Products", Matrices),
        mock.patch.object(Matrices, "increments", matrices),
    ):
        return whole, all_recorded(setting.task("projected", paths, seed))


def assert_equal_to_rounding(whole, through_products):
    for one, other in zip(whole, through_products, strict=True):
        torch.testing.assert_close(one.states(), other.states(), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(one.errors(), other.errors(), rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=25)
@given(setting=res1_settings())
def test_res1_fed_true_products_moves_as_with_whole_matrices(setting):
    """Operands, factors, times, norms and the order of reading are the pathwise ones, of all depths and the
    limit.
    """
    assert_equal_to_rounding(*run_on_the_same_noise(setting))


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=40)
@given(setting=inner_settings())
def test_inner_fed_true_products_moves_as_with_whole_matrices(setting):
    """As above, with trends read at their times, biases, curvature and the limit's second solution."""
    assert_equal_to_rounding(*run_on_the_same_noise(setting))


class Signed(Products):
    """At width 1, with each normal's sign turned so that it is that of the increment, whatever the sign of
    the reference.
    """

    increments: tuple = ()
    passed = 0

    def pass_over(self, vectors, normals, step):
        increment = self.increments[self.passed] / step**0.5
        self.passed += 1
        (vector,) = vectors
        out = super().pass_over(vectors, [increment.T * torch.where(vector == 0.0, 1.0, vector.sign())], step)
        assert not self.overlap.any(), "nothing is left that the reference does not tell"
        return out


@pytest.mark.parametrize("depths", [(2, 4, 8), (4, 6, 10)], ids=["nested", "crossing"])
@pytest.mark.parametrize("kind", ["res1", "inner"])
def test_at_width_one_the_reference_tells_everything(kind, depths):
    """e_k = ±1, so that no residual is left, not even rounding, and both couplings move alike on the same
    increments.
    """
    network = dl.res1(1, turning) if kind == "res1" else dl.inner(1, "scaled_softplus", noise=dl.Ito(A=0.5))
    drawn = []
    make = Task.network_paths

    def recording(*arguments):
        (path,) = make(*arguments)
        move = path.advance
        path.advance = lambda index: (move(index), drawn.append(path.brownian.clone()))
        return (path,)

    setting = Setting(network, network.limit(), depths)
    with mock.patch.object(Task, "network_paths", recording):
        whole = all_recorded(setting.task("pathwise", 64, 3))
    with mock.patch.object(projected, "Products", Signed), mock.patch.object(Signed, "increments", drawn):
        through_products = all_recorded(setting.task("projected", 64, 3))
    assert_equal_to_rounding(whole, through_products)


def largest_score(one, other):
    """Return the largest |z| of all second moments (n, n) of two samples (P, n), and how many there are."""
    if other.abs().max() > 1e6 * one.abs().max():
        return np.inf, 1
    moments, variances = [], []
    for sample in (one, other):
        values = sample.numpy() / np.abs(one.numpy()).max(axis=0).clip(1e-300)
        square = values.T @ values / len(values)
        moments.append(square)
        variances.append(((values**2).T @ values**2 / len(values) - square**2).clip(0.0) / len(values))
    apart, spread = np.abs(moments[0] - moments[1]), np.sqrt(variances[0] + variances[1])
    scores = np.where(spread > 1e-13, apart / np.maximum(spread, 1e-13), np.where(apart > 1e-11, np.inf, 0.0))
    return scores.max(), len(scores) * (len(scores) + 1) // 2


def rejected(one, other):
    """Return which comparisons of two samples tell their laws apart at LEVEL: none if all is well."""
    found = []
    for name in ("states", "differences"):
        score, count = largest_score(one[name], other[name])
        if score > stats.norm.isf(LEVEL / 8 / count):
            found.append(f"second moments of the {name}: |z| = {score:.1f}")
    for name in ("errors", "distances"):
        for index, (mine, theirs) in enumerate(zip(one[name].T, other[name].T, strict=True)):
            if (level := stats.ks_2samp(mine, theirs, method="asymp").pvalue) < LEVEL / 4 / one[name].shape[
                1
            ]:
                found.append(f"{name} in column {index}: p = {level:.1g}")
    return found


def sample(setting, coupling, paths=PATHS, seed=0, products=Products):
    """Return what one coupling gives on noise of its own: states, their differences from the limit and from
    each other, errors.

    The distances between any two depths say most of how their noise is coupled.
    """
    with mock.patch.object(projected, "Products", products):
        recorders = all_recorded(setting.task(coupling, paths, seed))
    states = torch.cat([part for recorder in recorders for part in recorder.states()], dim=1)
    trajectories = states.unflatten(1, (-1, setting.network.width))
    first, second = torch.triu_indices(trajectories.shape[1], trajectories.shape[1], offset=1)
    return {
        "states": states,
        "differences": torch.cat([recorder.differences() for recorder in recorders], dim=1),
        "distances": (trajectories[:, first] - trajectories[:, second]).norm(dim=2).numpy(),
        "errors": torch.cat([recorder.errors() for recorder in recorders], dim=1).numpy(),
    }


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=6)
@given(setting=res1_settings())
@example(setting=Setting(dl.res1(3, turning), dl.res1(3, turning).limit(), (4, 6, 10), "sup-continuous"))
def test_res1_has_the_joint_law_of_whole_matrices(setting):
    assert not rejected(sample(setting, "pathwise", seed=1), sample(setting, "projected", seed=2))


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=8)
@given(setting=inner_settings(random_trends=False))
def test_inner_has_the_joint_law_of_whole_matrices(setting):
    assert not rejected(sample(setting, "pathwise", seed=1), sample(setting, "projected", seed=2))


def even(h):
    """Of a limit whose vectors are far from the networks', so that it tells little and they tell each other
    the rest.
    """
    return torch.cos(2.0 * h)


TWINS = {
    "nested": Setting(dl.res1(3, turning), neural_sde(even, 3), (1, 2, 4), reference=8),
    "crossing": Setting(dl.res1(3, turning), neural_sde(even, 3), (2, 3, 5), reference=10),
}


@lru_cache
def whole_matrices(name):
    return sample(TWINS[name], "pathwise", seed=1)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", TWINS)
def test_the_setting_that_faults_must_show_in_is_passed_without_them(name):
    assert not rejected(whole_matrices(name), sample(TWINS[name], "projected", seed=2))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", TWINS)
def test_every_fault_of_the_products_shows_in_the_joint_law(name, fault):
    assert rejected(
        whole_matrices(name), sample(TWINS[name], "projected", seed=2, products=faulty(*FAULTS[fault]))
    )
