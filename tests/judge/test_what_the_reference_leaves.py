"""Networks next to their limit: what remains is the reference's own error, and no other limit."""

import math

import pytest
import torch

import deeplimit as dl

MATRIX = torch.tensor([[1.0, 0.4], [-0.3, 0.8]], dtype=torch.float64)
X = torch.tensor([[0.7, 1.3]], dtype=torch.float64)


def slow(amplitude, factor=1.0):
    """Weights so small that errors are near those of a solver at its usual tolerance."""
    return dl.Trend(lambda t: factor * amplitude * math.cos(3 * t) * MATRIX)


@pytest.mark.parametrize("amplitude", [2e-4, 7e-5])
def test_small_weights_converge_to_their_own_limit(amplitude):
    report = dl.compare(dl.res1(2, "tanh", weights=slow(amplitude)), x=X)
    assert report.verdict == "converges"
    assert report.rate_interval[0] < 1 < report.rate_interval[1]


@pytest.mark.parametrize("amplitude", [2e-4, 7e-5])
def test_small_weights_one_per_cent_off_do_not(amplitude):
    wrong = dl.res1(2, "tanh", weights=slow(amplitude, 1.01)).limit()
    assert dl.compare(dl.res1(2, "tanh", weights=slow(amplitude)), wrong, X).verdict == "does not converge"


def exact(rate, shift):
    """The solution is tan(rate t + shift), of which Euler's scheme is of order 2: its first term vanishes."""
    weights = dl.Trend(lambda t: torch.tensor([[rate / math.cos(rate * t + shift)]], dtype=torch.float64))
    x = torch.tensor([[math.tan(shift)]], dtype=torch.float64)
    return dl.res1(1, lambda h: torch.sqrt(1 + h * h), weights=weights), x


def test_errors_of_twice_the_order_are_followed_as_far_as_the_reference_allows():
    network, x = exact(0.7, 0.2)
    report = dl.compare(network, x=x)
    assert report.verdict == "converges"
    assert abs(report.rate - 2) < 0.02


def test_at_a_tolerance_of_the_callers_what_may_be_its_error_is_not_decided():
    network, x = exact(0.6, 0.3)
    report = dl.compare(network, x=x, tolerance=1e-9, depths=[16, 32, 64, 128, 256])
    assert (report.verdict, report.rule) == ("cannot tell", "tends_to_what_can_be_resolved")
