"""The loops that numba compiles, run as plain Python, give the numbers of the torch ones."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from runs import task_of

import deeplimit as dl
from deeplimit.layers import activations
from deeplimit.simulation.kernels import numba_pass, projected

lanes = pytest.importorskip(
    "deeplimit.simulation.kernels.numba_loops", reason="numba is not installed; pip install deeplimit[fast]"
)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setattr(numba_pass, "WORTHWHILE", 0)
    for name, value in list(vars(lanes).items()):
        if hasattr(value, "py_func"):
            monkeypatch.setattr(lanes, name, value.py_func)


def noisy(width=3, activation="tanh", flipped=False, b=0.1):
    network = dl.inner(width, activation, noise=dl.Ito(A=0.05, b=b))
    limit = network.limit()
    return network, dataclasses.replace(limit, curvature=-limit.curvature) if flipped else limit


PAIRS = {
    "res-1": lambda: (dl.res1(3, "tanh"), None),
    "width 1": lambda: (dl.res1(1, "sin"), None),
    "another exponent": lambda: (dl.res1(2, "tanh", exponent=0.75), dl.res1(2, "tanh").limit()),
    "another activation": lambda: (dl.res1(3, "gelu"), dl.res1(3, "relu").limit()),
    "linear": lambda: (dl.res1(2, "identity"), None),
    "Theorem 4.4": lambda: noisy(),
    "curved": lambda: noisy(2, "scaled_silu"),
    "curved otherwise": lambda: noisy(2, "scaled_silu", flipped=True),
    "no biases": lambda: noisy(2, "sin", b=None),
    "biases by entry": lambda: noisy(2, "tanh", b=[0.1, 0.3]),
}


@pytest.mark.parametrize("norm", ["sup", "final"])
@pytest.mark.parametrize("name", PAIRS)
def test_loops_in_plain_python_give_the_numbers_of_torch(name, norm):
    network, limit = PAIRS[name]()
    task = task_of(network, limit, dtype=None, coupling="projected", paths=3, depths=(2, 3, 5), norm=norm)
    task = dataclasses.replace(task, keeps_differences=True)
    assert numba_pass.applies(task)
    fast, slow = numba_pass.run_block(task, 0), projected.run_block(task, 0)
    near = 8 * math.sqrt(torch.finfo(torch.float32).eps) * task.splits * np.max(slow.scale * slow.mean)
    for field in dataclasses.fields(slow):
        ours, theirs = getattr(fast, field.name), getattr(slow, field.name)
        if isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f" and field.name != "scale":
            scale = max(np.abs(theirs).max(initial=0.0), 1e-6)
            np.testing.assert_allclose(ours, theirs, rtol=5e-3, atol=1e-3 * scale + near, err_msg=field.name)


@pytest.mark.parametrize("norm", ["sup", "final"])
@pytest.mark.parametrize("name", ["res-1", "Theorem 4.4"])
def test_differences_of_neighbouring_depths_are_those_of_torch(name, norm):
    network, limit = PAIRS[name]()
    task = task_of(network, limit, dtype=None, coupling="projected", paths=3, depths=(2, 3, 5, 7), norm=norm)
    task = dataclasses.replace(task, keeps_differences=True)
    fast, slow = (run.run_block(task, 0).differences for run in (numba_pass, projected))
    np.testing.assert_allclose(fast, slow, rtol=5e-3, atol=2e-3 * np.abs(slow).max())


@pytest.mark.parametrize("name", lanes.NAMES)
def test_activations_in_plain_python_are_the_librarys(name):
    points = np.concatenate([np.linspace(-9, 9, 37), [-30.0, 30.0, 1e-3, -1e-3, 0.0]])
    x = points.astype(np.float32)
    out = np.empty_like(x)
    lanes.activate(lanes.NAMES.index(name), x, out)
    exact = activations.resolve(name)(torch.from_numpy(x.astype(np.float64))).numpy()
    np.testing.assert_allclose(out, exact, rtol=2e-6, atol=1e-6)
