"""Powers of 1/depth by which further terms of an error are smaller than its first, for functions of time."""

import torch

import deeplimit as dl


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
