"""Noise that multiplies no state: W^A is missing, or given as zero, which is the same; and its twins, which
only look like it.
"""

import numpy as np
import pytest
import torch
from pairs import SLOWING as TREND

import deeplimit as dl

X = torch.tensor([[0.7, -0.6], [0.3, 0.5]])
EYE, NONE = torch.eye(2), torch.zeros(2, 2)
CORNER = torch.tensor([[0.0, 0.0], [0.0, 1e-3]])
CROSS = torch.zeros(2, 2, 2)

ADDITIVE = {
    "missing": dl.Ito(b=0.4),
    "number": dl.Ito(A=0.0, b=0.4),
    "integer": dl.Ito(A=0, b=0.4),
    "number beside a matrix": dl.Ito(A=0.0, b=0.4 * EYE),
    "entries": dl.Ito(A=NONE, b=0.4),
    "list": dl.Ito(A=[[0, 0], [0, 0]], b=0.4),
    "array": dl.Ito(A=np.zeros((2, 2)), b=0.4),
    "tensor": dl.Ito(A=torch.zeros(2, 2, 2, 2), b=0.4),
    "Kronecker of no rows": dl.Ito(A=dl.Kronecker(NONE, EYE), b=0.4),
    "Kronecker of no columns": dl.Ito(A=dl.Kronecker(EYE, NONE), b=0.4),
    "number, covarying": dl.Ito(A=0.0, b=0.4, cross=CROSS),
    "number with a drift": dl.Ito(A=0.0, b=0.4, drift=TREND),
    "b depends on time": dl.Ito(A=0.0, b=lambda t: 0.4 * t),
    "b is zero too": dl.Ito(A=0.0, b=0.0),
}
MULTIPLICATIVE = {
    "number": dl.Ito(A=1e-3, b=0.4),
    "b alone is zero": dl.Ito(A=0.1, b=0.0),
    "one entry": dl.Ito(A=CORNER, b=0.4),
    "one entry of a tensor": dl.Ito(A=torch.einsum("ik,jl->ijkl", CORNER, CORNER), b=0.4),
    "Kronecker of one row": dl.Ito(A=dl.Kronecker(CORNER, EYE), b=0.4),
    "Kronecker of one column": dl.Ito(A=dl.Kronecker(EYE, CORNER), b=0.4),
    "a function, zero or not": dl.Ito(A=lambda t: 0.0, b=0.4),
    "zero at first": dl.Ito(A=lambda t: 0.1 * t, b=0.4),
    "random": dl.stochastic_volatility(A=0.1, b=0.4),
}


def network(noise, activation="tanh", beta=1.0):
    return dl.inner(2, activation, trend=TREND, noise=noise, alpha=0.0, beta=beta)


@pytest.mark.parametrize("name", ADDITIVE)
def test_noise_without_a_matrix_part_has_order_one_however_that_is_written(name):
    assert ADDITIVE[name].is_additive
    regime, missing = network(ADDITIVE[name]).regime(), network(ADDITIVE["missing"]).regime()
    assert regime == missing
    assert regime.rate == 1.0
    assert network(ADDITIVE[name], "scaled_silu").regime().rate == 0.5  # σ bends it: its squares are random


@pytest.mark.parametrize("name", MULTIPLICATIVE)
def test_noise_that_multiplies_states_or_may_has_order_one_half(name):
    assert not MULTIPLICATIVE[name].is_additive
    assert network(MULTIPLICATIVE[name]).regime().rate == 0.5


def test_a_matrix_part_of_zero_is_measured_to_be_additive():
    given = {"x": X, "depths": [16, 32, 64, 128, 256], "paths": 600, "seed": 1}
    report = dl.compare(network(ADDITIVE["Kronecker of no columns"]), **given)
    assert report.verdict != "does not converge", str(report)
    assert 0.85 < report.local_slopes[-1] < 1.15
    twin = dl.compare(network(dl.Ito(A=0.4, b=0.4)), **given)
    assert 0.35 < twin.local_slopes[-1] < 0.65
