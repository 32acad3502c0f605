"""The compiled loops are the torch ones: same streams, same numbers up to rounding; and they are only used
where they are.
"""

import dataclasses
import functools
import math
import pickle
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from runs import task_of

import deeplimit as dl
from deeplimit.layers import activations
from deeplimit.simulation import CoupledErrors, pathwise
from deeplimit.simulation.kernels import numba_pass as compiled, projected
from deeplimit.simulation.task import read_statistic

lanes = pytest.importorskip(
    "deeplimit.simulation.kernels.numba_loops", reason="numba is not installed; pip install deeplimit[fast]"
)


@pytest.fixture(autouse=True)
def small_tasks_too(monkeypatch):
    monkeypatch.setattr(compiled, "WORTHWHILE", 0)


def single(network, limit=None, **given):
    given = {"dtype": None, "coupling": "projected", "paths": 30, **given}
    return task_of(network, limit, **given)


def columns(task):
    """Return the moments' columns of the compiled run and of the torch one."""
    return (
        np.stack(
            [
                moments.scale * moments.mean
                for moments in (compiled.run_block(task, 0), projected.run_block(task, 0))
            ]
        ),
        compiled.run_block(task, 0).diverged,
    )


def blur(task, plain):
    """What may be off: a network and its limit's scheme multiply equal vectors in their first layers, whose
    products differ by roots of round-off of the scheme's size.
    """
    return 8 * math.sqrt(torch.finfo(task.dtype).eps) * plain.max() if task.splits else 0.0


SMOOTH = [name for name in lanes.NAMES if name not in ("relu", "leaky_relu")]


@settings(max_examples=15)
@given(
    st.sampled_from(lanes.NAMES),
    st.sampled_from([None, "tanh", "relu"]),
    st.integers(1, 9),
    st.lists(st.integers(1, 24), min_size=2, max_size=4, unique=True).map(sorted).map(tuple),
    st.sampled_from(["sup", "final"]),
    st.sampled_from([0.5, 0.75]),
)
def test_res1_gives_the_numbers_of_the_torch_loops(activation, other, width, depths, norm, exponent):
    network = dl.res1(width, activation, exponent=exponent)
    limit = dl.res1(width, activation if other is None else other).limit()
    task = single(network, limit, depths=depths, norm=norm)
    assert compiled.applies(task)
    (fast, plain), diverged = columns(task)
    np.testing.assert_allclose(fast, plain, rtol=2e-3, atol=1e-6 + blur(task, plain))
    assert not diverged.any()


@settings(max_examples=15)
@given(
    st.sampled_from(SMOOTH),
    st.sampled_from([None, 0.1, "entries"]),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.integers(1, 7),
    st.lists(st.integers(1, 12), min_size=2, max_size=3, unique=True).map(sorted).map(tuple),
    st.sampled_from(["sup", "final"]),
    st.booleans(),
)
def test_inner_gives_the_numbers_of_the_torch_loops(activation, bias, variance, width, depths, norm, flipped):
    b = [0.1 * (i + 1) for i in range(width)] if bias == "entries" else bias
    network = dl.inner(width, activation, noise=dl.Ito(A=variance, b=b))
    limit = network.limit()
    limit = dataclasses.replace(limit, curvature=-limit.curvature) if flipped else limit
    task = single(network, limit, depths=depths, norm=norm)
    assert task.splits
    assert compiled.applies(task)
    (fast, plain), _ = columns(task)
    np.testing.assert_allclose(fast, plain, rtol=2e-3, atol=1e-6 + blur(task, plain))


@pytest.mark.parametrize("name", lanes.NAMES)
def test_activations_are_the_librarys_to_single_precision(name):
    sigma = activations.resolve(name)
    points = np.concatenate(
        [np.linspace(-30, 30, 4001), np.geomspace(1e-20, 1.0, 400), -np.geomspace(1e-20, 1.0, 400), [0.0]]
    )
    x = points.astype(np.float32)
    out = np.empty_like(x)
    lanes.activate(lanes.NAMES.index(name), x, out)
    exact = sigma(torch.from_numpy(x.astype(np.float64))).numpy()
    np.testing.assert_allclose(out, exact, rtol=6e-7, atol=3e-7 * np.abs(x).clip(max=1.0).max())
    near = np.abs(x) < 1e-2
    np.testing.assert_allclose(out[near], exact[near], rtol=6e-7, atol=1e-37)
    lost = np.array([math.nan, math.inf], np.float32)
    lanes.activate(lanes.NAMES.index(name), lost, lost)
    assert math.isnan(lost[0])


def test_only_what_the_loops_know_goes_through_them():
    yes = single(dl.res1(4, "tanh"))
    assert compiled.applies(yes)
    assert not compiled.applies(dataclasses.replace(yes, coupling="pathwise"))
    assert not compiled.applies(dataclasses.replace(yes, dtype=torch.float64))
    assert not compiled.applies(dataclasses.replace(yes, statistic=read_statistic("sup-continuous")))
    assert not compiled.applies(dataclasses.replace(yes, independent=True))
    assert not compiled.applies(single(dl.res1(4, torch.tanh)))
    assert not compiled.applies(
        single(dl.res1(4, dataclasses.replace(activations.resolve("relu"), function=torch.tanh)))
    )
    assert not compiled.applies(single(dl.res1(4, "tanh"), dl.res1(4, torch.sin).limit()))
    assert not compiled.applies(
        single(dl.res1(4, "tanh", exponent=1.0))
    )  # the limit is the identity, which reads no noise
    trend = dl.Trend(lambda t: torch.eye(3))
    assert not compiled.applies(single(dl.inner(3, "tanh", trend=trend, noise=dl.Ito(A=0.1))))
    rows = dl.Kronecker(torch.diag(torch.tensor([1.0, 2.0, 3.0])), torch.eye(3))
    assert not compiled.applies(single(dl.inner(3, "tanh", noise=dl.Ito(A=rows))))
    assert not compiled.applies(single(dl.inner(3, "tanh", noise=dl.Ito(A=0.1, b=torch.eye(3)))))
    assert not compiled.applies(
        single(dl.inner(3, "tanh", noise=dl.Ito(A=torch.tensor([[1.0], [2.0], [3.0]]).expand(3, 3))))
    )

    network = dl.inner(3, "scaled_silu", noise=dl.Ito(A=0.1))
    louder = dl.zoo.with_other_quadratic(network.limit(), lambda rate, h: 2 * rate.quadratic(h))
    assert compiled.applies(single(network))
    assert not compiled.applies(single(network, louder))


def test_without_the_loops_torch_does_it(monkeypatch):
    monkeypatch.setattr(compiled, "loops", lambda: None)
    assert not compiled.applies(single(dl.res1(4, "tanh")))


@pytest.mark.parametrize("error", [ImportError("no numba"), RuntimeError("no locator available for file")])
def test_a_numba_that_cannot_be_used_is_as_none(monkeypatch, error):
    class Broken:
        def find_spec(self, name, *_):
            if name == "deeplimit.simulation.kernels.numba_loops":
                raise error

    monkeypatch.delitem(sys.modules, "deeplimit.simulation.kernels.numba_loops")
    monkeypatch.delattr("deeplimit.simulation.kernels.numba_loops")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    monkeypatch.setattr(compiled, "load", functools.cache(compiled.load.__wrapped__))
    with pytest.warns(UserWarning, match="deeplimit\\[fast\\].*pathwise") as warned:
        assert (compiled.loops(), compiled.loops()) == (None, None)
    assert [each.filename for each in warned] == [__file__]


def test_small_tasks_do_not_wait_for_the_loops(monkeypatch):
    monkeypatch.setattr(compiled, "WORTHWHILE", 2**24)
    assert not compiled.applies(single(dl.res1(4, "tanh")))
    assert compiled.applies(single(dl.res1(40, "tanh"), depths=(16, 512), paths=2000))


def test_few_paths_take_the_loops_where_torch_would_make_many_calls(monkeypatch):
    monkeypatch.setattr(compiled, "WORTHWHILE", 2**20)
    few = {"depths": (16, 32, 64, 128), "paths": 64}
    assert compiled.applies(single(dl.res1(8, "tanh"), **few))
    monkeypatch.setattr(compiled, "EACH", 0)
    assert not compiled.applies(single(dl.res1(8, "tanh"), **few))


def test_the_run_takes_the_loops_where_they_apply(monkeypatch):
    task = single(dl.res1(4, "tanh"))
    assert CoupledErrors(task).work is compiled.run_block
    monkeypatch.setattr(compiled, "ENABLED", False)
    assert CoupledErrors(task).work is projected.run_block
    assert CoupledErrors(dataclasses.replace(task, coupling="pathwise")).work is pathwise.run_block


def test_a_path_that_is_lost_is_counted_and_touches_no_other():
    network, x = dl.res1(4, "relu"), torch.ones(30, 4)
    before = compiled.run_block(single(network, x=x), 0)
    x[7, 2] = 3.4e38
    after, plain = (work.run_block(single(network, x=x), 0) for work in (compiled, projected))
    assert (after.diverged == 1).any()
    assert after.limit_lost == plain.limit_lost
    np.testing.assert_array_equal(after.diverged, plain.diverged)
    kept = single(network, x=torch.cat([x[:7], torch.ones(1, 4), x[8:]]))
    np.testing.assert_array_equal(compiled.run_block(kept, 0).mean, before.mean)
    assert np.isfinite(after.mean).all()


def test_an_activation_of_a_users_stays_what_it_is_in_another_process():
    own = dataclasses.replace(dl.res1(2, "tanh").recursion.activation, curvature=0.1)
    again = pickle.loads(pickle.dumps(own))  # noqa: S301
    assert again == own
    assert again != dl.res1(2, "tanh").recursion.activation


def test_a_task_that_was_sent_to_another_process_takes_the_loops_as_well():
    task = single(dl.res1(4, "tanh"))
    assert CoupledErrors(pickle.loads(pickle.dumps(task))).work is CoupledErrors(task).work  # noqa: S301
    assert CoupledErrors(task).work is compiled.run_block
