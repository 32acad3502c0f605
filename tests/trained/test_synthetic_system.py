"""The synthetic system is the public code's, by a second route in numpy, and the paper's but for one norm."""

import math

import numpy as np
import pytest
import torch
from refusals import assert_refused, row
from scipy import stats

from deeplimit.trained.datasets import synthetic_system

FAR = 1e-5


def states_in_numpy(x, steps=100):
    """The recursion by coordinates and Python's own functions."""
    found = []
    for row_ in x.double().numpy():
        z = [float(value) for value in row_]
        for k in range(steps):
            t = 5 * k * np.pi / steps
            z = [each + math.tanh(math.sin(t) * each + math.cos(t)) / math.sqrt(steps) for each in z]
        found.append(np.array(z) / math.sqrt(sum(each * each for each in z)))
    return np.array(found)


def test_targets_are_where_the_recursion_takes_the_inputs():
    data = synthetic_system(4, 20, 10, normalise="targets")
    np.testing.assert_allclose(data.targets, states_in_numpy(data.inputs), atol=1e-6)
    np.testing.assert_allclose(data.test_targets, states_in_numpy(data.test_inputs), atol=1e-6)


def test_code_and_paper_differ_by_the_norm_of_the_inputs_alone():
    code, paper = synthetic_system(), synthetic_system(normalise="targets")
    assert torch.equal(code.targets, paper.targets)
    assert torch.equal(code.test_targets, paper.test_targets)
    torch.testing.assert_close(code.inputs, paper.inputs / paper.inputs.norm(dim=1, keepdim=True))
    assert float(paper.inputs.norm(dim=1).std()) > 0.1
    assert code != paper
    assert code.name != paper.name


def test_targets_of_the_code_do_not_start_at_normalised_inputs():
    """A control: the code computes targets before it normalises; the other order is far away."""
    data = synthetic_system(4, 20, 10)
    assert np.abs(states_in_numpy(data.inputs) - data.targets.numpy()).max() > 0.01


@pytest.mark.statistical
def test_inputs_are_uniform_on_the_cube():
    inputs = synthetic_system(10, 2000, 1, normalise="targets").inputs
    assert float(inputs.abs().max()) <= 1
    assert stats.kstest(inputs.flatten().numpy(), stats.uniform(-1, 2).cdf).pvalue > FAR
    assert float(torch.corrcoef(inputs.T).fill_diagonal_(0).abs().max()) < 6 / math.sqrt(2000)


def test_seeds_differ_and_more_tests_leave_training_alone():
    assert synthetic_system() == synthetic_system()
    assert synthetic_system(seed=1) != synthetic_system()
    assert torch.equal(synthetic_system(test=7).inputs, synthetic_system().inputs)


@pytest.mark.parametrize(
    ("call", "kind", "names"),
    [
        row("no width", lambda: synthetic_system(0), ValueError, "width", "0"),
        row("no inputs", lambda: synthetic_system(count=0), ValueError, "count", "0"),
        row("no tests", lambda: synthetic_system(test=0), ValueError, "test", "0"),
        row("half an input", lambda: synthetic_system(count=0.5), TypeError, "count", "0.5"),
        row("other words", lambda: synthetic_system(normalise="no"), ValueError, "normalise", "'no'"),
        row("a seed below 0", lambda: synthetic_system(seed=-1), ValueError, "seed", "-1"),
    ],
)
def test_sizes_and_words_that_make_no_system_are_refused(call, kind, names):
    assert_refused(call, kind, *names)
