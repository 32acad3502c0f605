"""On every device present a verb ends, gives itself again, and measures what the CPU measures."""

import numpy as np
import pytest
import torch
from test_every_function import CALLS, timeless

import deeplimit as dl

LEVEL_5E_7 = 5.0
"""Standard errors that a difference may have: at level 6e-7 each, over some fifty numbers."""
DEPTHS = [4, 16, 32]
pytestmark = pytest.mark.nightly  # where there is no card this compares the CPU with itself


@pytest.mark.parametrize("verb", sorted(set(CALLS) - {"validate"}))  # which is many comparisons
def test_every_function_runs_and_gives_itself_again(verb, device):
    first, again = (timeless(CALLS[verb](device=device)) for _ in range(2))
    assert first == again


NETWORKS = {
    "the fused kernel, tanh": (lambda: dl.res1(16, "tanh"), lambda: dl.res1(16, "relu").limit()),
    "the fused kernel, ReLU": (lambda: dl.res1(16, "relu"), lambda: dl.res1(16, "tanh").limit()),
    "torch's operations, GELU": (lambda: dl.res1(16, "gelu"), lambda: dl.res1(16, "relu").limit()),
    "torch's operations, width 4": (lambda: dl.res1(4, "tanh"), lambda: dl.res1(4, "identity").limit()),
    "smooth weights": (
        lambda: dl.res1(4, "tanh", weights=dl.SmoothGaussian(0.3)),
        lambda: dl.res1(4, "relu", weights=dl.SmoothGaussian(0.3)).limit(),
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", NETWORKS)
def test_errors_are_those_that_the_cpu_measures(name, device):
    network, wrong = NETWORKS[name]
    given = {"depths": DEPTHS, "paths": 1024}
    there = dl.compare(network(), **given, seed=1, device=device)
    here = dl.compare(network(), **given, seed=2)
    assert torch.device(there.device).type == device
    assert np.all(distances(there, here) < LEVEL_5E_7)
    other = dl.compare(network(), wrong(), **given, seed=2)  # the control: it must be seen
    assert distances(there, other).max() > LEVEL_5E_7


def distances(first, second):
    """Return how many standard errors two reports' errors are apart, depth by depth."""
    spread = np.hypot(first.standard_errors, second.standard_errors)
    return np.abs(first.errors - second.errors) / spread


@pytest.mark.statistical
def test_growth_is_that_which_the_cpu_measures(device):
    given = {"depths": [10, 100], "draws": 400}
    there = dl.stability(dl.res3(32), **given, seed=1, device=device)
    here = dl.stability(dl.res3(32), **given, seed=2)
    control = dl.stability(dl.res3(32, exponent=0.4), **given, seed=2)
    for quantity in ("log_hidden_change", "log_gradient_change"):
        assert apart(getattr(there, quantity), getattr(here, quantity)) < LEVEL_5E_7
        assert apart(getattr(there, quantity), getattr(control, quantity)) > LEVEL_5E_7


def apart(first, second):
    """Return how many standard errors the means over draws are apart, at most over depths."""
    error = np.hypot(first.std(axis=1), second.std(axis=1)) / np.sqrt(first.shape[1])
    return np.max(np.abs(first.mean(axis=1) - second.mean(axis=1)) / error)
