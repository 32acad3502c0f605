"""Powers of 1/depth by which further terms of an error are smaller than its first."""

import pytest
import torch

import deeplimit as dl
from deeplimit import activations


def turning(t):
    return torch.eye(3) * (1.0 + t)


def corrections(law, exponent):
    return dl.res1(3, "tanh", weights=law, exponent=exponent).regime().corrections


def test_functions_of_time_at_exponent_1_have_an_expansion_in_one_over_the_depth():
    assert corrections(dl.SmoothGaussian(0.1), 1.0) == (1.0,)
    assert corrections(dl.Trend(turning), 1.0) == (1.0,)


def test_rough_functions_leave_the_smooth_term_as_their_correction():
    """Errors L^-H from the roughness and 1/L from Euler's rule: L^-(1 - H) times the first."""
    for holder in (0.25, 0.75):
        assert corrections(dl.Trend(turning, holder=holder), 1.0) == (1.0 - holder, 1.0)


def test_above_exponent_1_the_second_power_of_the_change_is_the_correction():
    """h_L - h_0 is L^-(β - 1) times a first term, so that the next is L^-(β - 1) times it."""
    for exponent in (1.25, 1.75):
        assert corrections(dl.SmoothGaussian(0.1), exponent) == (exponent - 1.0, 1.0)


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
