"""Powers of 1/depth by which further terms of an error are smaller than its first."""

import pytest
import torch

import deeplimit as dl
from deeplimit.layers import activations


def turning(t):
    return torch.eye(3) * (1.0 + t)


@pytest.mark.parametrize(
    ("law", "exponent", "corrections"),
    [
        (dl.SmoothGaussian(0.1), 1.0, (1.0,)),
        (dl.Trend(turning), 1.0, (1.0,)),
        # errors L^-H from the roughness and 1/L from Euler's rule: L^-(1 - H) times the first
        (dl.Trend(turning, holder=0.25), 1.0, (0.75, 1.0)),
        (dl.Trend(turning, holder=0.75), 1.0, (0.25, 1.0)),
        # h_L - h_0 is L^-(β - 1) times a first term, so that the next is L^-(β - 1) times it
        (dl.SmoothGaussian(0.1), 1.25, (0.25, 1.0)),
        (dl.SmoothGaussian(0.1), 1.75, (0.75, 1.0)),
    ],
)
def test_functions_of_time_leave_known_powers(law, exponent, corrections):
    assert dl.res1(3, "tanh", weights=law, exponent=exponent).regime().corrections == corrections


def test_a_kink_adds_the_odd_powers_of_the_square_root_of_the_step():
    """Measured for ReLU at d = 6, t = 1 and depths 8 … 512: L^-1/2 with L^-1 fits (chi² 4 with 4 degrees of
    freedom), and L^-1 alone does not (30 with 5).
    """
    for kinked in ("relu", "leaky_relu", torch.nn.Hardtanh()):
        assert dl.res1(6, kinked).regime().corrections == (0.5, 1.0)
        assert dl.res1(6, kinked, exponent=0.7).regime().corrections == pytest.approx((0.4, 0.6, 1.0))
    for smooth in ("tanh", "gelu", "elu", "identity", lambda x: torch.tanh(50.0 * x) / 50.0):
        assert dl.res1(6, smooth).regime().corrections == (1.0,)
        assert dl.res1(6, smooth, exponent=0.7).regime().corrections == pytest.approx((0.4, 1.0))


@pytest.mark.parametrize(
    ("function", "kinked"),
    [
        (lambda x: torch.relu(x - 3.3337), True),
        (lambda x: x + 0.01 * x.abs(), True),
        (torch.nn.Hardswish(), True),
        (torch.nn.SELU(), True),
        (torch.nn.ELU(), False),
        (torch.nn.Softplus(50), False),
        (lambda x: torch.tanh(100.0 * x), False),
        (lambda x: torch.sin(5.0 * x), False),
    ],
)
def test_kinks_are_found_wherever_they_are_and_steep_functions_have_none(function, kinked):
    assert activations.has_kink(activations.resolve(function)) is kinked
