"""On a GPU `compare` runs the kernel; here its interpreter does: with the law of the torch loops, on tasks
that it knows.
"""

import dataclasses

import numpy as np
import pytest
import torch
from runs import task_of
from scipy import stats

import deeplimit as dl
from deeplimit.simulation import CoupledErrors, coupled_errors
from deeplimit.simulation.kernels import projected, triton_pass as fused
from deeplimit.simulation.task import read_statistic

pytest.importorskip("triton", reason="Triton is not installed; pip install deeplimit[gpu]")
pytestmark = pytest.mark.card
LEVEL = 1e-5
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def single(network, limit=None, **given):
    given = {"dtype": None, "coupling": "projected", "paths": 256, "device": DEVICE, **given}
    return dataclasses.replace(task_of(network, limit, **given), block_size=256)


def errors(work, task, monkeypatch):
    """Return the per-path errors (P, columns) behind a block's moments."""
    seen = []
    of = fused.Moments.of
    with monkeypatch.context() as patch:
        patch.setattr(
            fused.Moments, "of", staticmethod(lambda values, *rest: seen.append(values) or of(values, *rest))
        )
        work(task, 0)
    return seen[0]


@pytest.mark.statistical
@pytest.mark.parametrize(("norm", "exponent"), [("sup", 0.75), ("final", 0.5)])
def test_the_kernel_in_place_has_the_law_of_the_torch_loops(norm, exponent, monkeypatch):
    network = dl.res1(6, "tanh", exponent=exponent)
    limit = dl.res1(6, "tanh").limit()
    task = dataclasses.replace(single(network, limit, depths=(2, 4), norm=norm), splits=False)
    assert fused.is_known(task)
    kernel, torch_ = (errors(work, task, monkeypatch) for work in (fused.run_block, projected.run_block))
    assert kernel.shape == torch_.shape == (256, 6)  # layers, common times, and roots of these
    for column in range(4):
        assert stats.ks_2samp(kernel[:, column], torch_[:, column]).pvalue > LEVEL
    other = single(dl.res1(6, "tanh", exponent=exponent - 0.2), limit, depths=(2, 4), norm=norm)
    wrong = errors(fused.run_block, dataclasses.replace(other, splits=False), monkeypatch)
    assert min(stats.ks_2samp(wrong[:, column], torch_[:, column]).pvalue for column in range(4)) < LEVEL


@pytest.mark.statistical
def test_consecutive_differences_have_the_law_of_the_torch_loops():
    limit = dl.res1(3, "tanh").limit()
    right, wrong = (
        dataclasses.replace(
            single(dl.res1(3, "tanh", exponent=exponent), limit, depths=(1, 2, 4)),
            keeps_differences=True,
            splits=False,
        )
        for exponent in (0.5, 0.1)
    )
    torch_ = projected.run_block(right, 0).differences
    kernel, control = (fused.run_block(task, 0).differences for task in (right, wrong))
    assert kernel.shape == torch_.shape == (256, 8)  # of consecutive depths, and distances to the limit
    assert all(stats.ks_2samp(kernel[:, each], torch_[:, each]).pvalue > LEVEL for each in range(8))
    assert all(stats.ks_2samp(control[:, each], torch_[:, each]).pvalue < LEVEL for each in range(4))


def test_blocks_draw_for_their_own_paths():
    halves = dataclasses.replace(
        single(dl.res1(3, "relu"), depths=(2, 4)), block_size=128, h0=torch.ones(1, 3)
    )
    whole = fused.run_block(dataclasses.replace(halves, block_size=256), 0)
    both = fused.run_block(halves, 0).merge(fused.run_block(halves, 1))
    np.testing.assert_allclose(both.mean * both.scale**2, whole.mean * whole.scale**2, rtol=1e-5)


def test_only_what_the_kernel_knows_goes_through_it(monkeypatch):
    yes = single(dl.res1(4, "tanh"))
    assert fused.is_known(yes)
    assert not fused.applies(dataclasses.replace(yes, device=torch.device("cpu")))
    for changes in (
        {"coupling": "pathwise"},
        {"dtype": torch.float64},
        {"statistic": read_statistic("sup-continuous")},
        {"independent": True},
    ):
        assert not fused.is_known(dataclasses.replace(yes, **changes))
    assert not fused.is_known(dataclasses.replace(yes, same_network=True))
    assert not fused.is_known(dataclasses.replace(yes, splits=True))
    assert not fused.is_known(single(dl.res1(4, "gelu")))
    assert not fused.is_known(single(dl.res1(4, torch.tanh)))
    assert not fused.is_known(single(dl.res1(4, "tanh"), dl.res1(4, "relu").limit()))
    assert not fused.is_known(single(dl.inner(4, "tanh", noise=dl.Ito(A=0.1))))
    assert fused.runs_on(DEVICE)
    with monkeypatch.context() as patch:
        patch.setattr(fused, "run_kernel", lambda *_, **__: 1 / 0)
        with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
            assert not fused.runs_on.__wrapped__(DEVICE)
    monkeypatch.setattr(fused, "runs_on", lambda device: device.type == "cuda")
    assert fused.applies(dataclasses.replace(yes, device=torch.device("cuda")))
    monkeypatch.setattr(fused, "applies", fused.is_known)
    assert CoupledErrors(yes).work is fused.run_block


@pytest.mark.parametrize(
    ("network", "on_cpu", "on_card"),
    [
        (dl.res1(4, "tanh"), "pathwise", "projected"),
        (dl.res1(8, "gelu"), "projected", "pathwise"),
        (dl.res1(256, "gelu"), "projected", "projected"),
        (dl.inner(10, "scaled_silu", noise=dl.Ito(A=0.05, b=0.25)), "projected", "pathwise"),
    ],
    ids=str,
)
def test_a_card_takes_products_where_its_kernel_does_or_matrices_are_large(network, on_cpu, on_card):
    def used(device):
        return coupled_errors._coupling("auto", network, network.limit(), False, 1, torch.device(device))

    assert (used("cpu"), used("cuda")) == (on_cpu, on_card)


@pytest.mark.parametrize("size", [1e-24, 1e21, 3.4e38])
def test_states_whose_squares_float32_cannot_hold_are_left_to_torch(size):
    task = single(dl.res1(3, "identity"), x=torch.full((1, 3), size), depths=(2, 4))
    assert fused.is_known(task)
    kernel, plain = fused.run_block(task, 0), projected.run_block(task, 0)
    np.testing.assert_array_equal(kernel.mean, plain.mean)
    np.testing.assert_array_equal(kernel.diverged, plain.diverged)
