"""The projected coupling against the pathwise one: fed the same noise to rounding, with noise of its own in
law.
"""

from unittest import mock

import pytest
import torch
from couplings import Setting, all_recorded, inner_settings, res1_settings, turning
from hypothesis import given, settings

import deeplimit as dl
from deeplimit.simulation import Task
from deeplimit.simulation.kernels import projected
from deeplimit.simulation.kernels.products import Products


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
@settings(max_examples=10)
@given(setting=res1_settings())
def test_res1_fed_true_products_moves_as_with_whole_matrices(setting):
    """Operands, factors, times, norms and the order of reading are the pathwise ones, of all depths and the
    limit.
    """
    assert_equal_to_rounding(*run_on_the_same_noise(setting))


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=15)
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
