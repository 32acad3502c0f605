"""Named activations against formulas written down here, and what is decided from values alone."""

import dataclasses
import math

import pytest
import torch
from torch.nn import functional

from deeplimit.layers import activations
from deeplimit.layers.activations import (
    Activation,
    Slopes,
    derivative,
    has_kink,
    is_bounded,
    is_odd,
    resolve,
    slopes,
)

X = torch.cat(
    [torch.linspace(-30.0, 30.0, 6001, dtype=torch.float64), torch.tensor([-1e3, -1e-9, 1e-9, 1e3])]
)


def normal_below(x):
    return 0.5 * torch.special.erfc(-x / math.sqrt(2.0))


def softplus(x):
    return torch.logaddexp(x, torch.zeros_like(x))


FORMULAS = {
    "elu": lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0.0))),
    "erf": torch.erf,
    "gelu": lambda x: x * normal_below(x),
    "identity": lambda x: x,
    "leaky_relu": lambda x: torch.where(x > 0, x, 0.01 * x),
    "relu": lambda x: x.clamp(min=0.0),
    "scaled_gelu": lambda x: 2.0 * x * normal_below(x),
    "scaled_silu": lambda x: 2.0 * x / (1.0 + torch.exp(-x)),
    "scaled_softplus": lambda x: 2.0 * (softplus(x) - math.log(2.0)),
    "sigmoid": lambda x: 1.0 / (1.0 + torch.exp(-x)),
    "silu": lambda x: x / (1.0 + torch.exp(-x)),
    "sin": torch.sin,
    "softplus": softplus,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("name", activations.NAMES)
def test_a_named_activation_is_its_formula(name):
    """torch leaves the logarithm out of softplus beyond 20, which is e^-20."""
    torch.testing.assert_close(resolve(name)(X), FORMULAS[name](X), rtol=1e-9, atol=3e-9)


def test_the_scaled_softplus_keeps_its_digits_next_to_0_and_where_its_two_forms_meet():
    """2 (softplus(x) - log 2) = x + x²/4 - x⁴/96 + …, and x - 2 log 2 + 2 log(1 + e^-x) far out."""
    small = torch.tensor([-1e-4, -1e-8, 1e-8, 1e-4], dtype=torch.float64)
    found = resolve("scaled_softplus")(small)
    torch.testing.assert_close(found, small + small**2 / 4 - small**4 / 96, rtol=1e-15, atol=0.0)
    at = torch.tensor([7.999999, 8.0, 8.000001, 12.0, 700.0], dtype=torch.float64)
    exact = 2 * at - 2 * math.log(2.0) + 2 * torch.log1p(torch.exp(-at))
    torch.testing.assert_close(resolve("scaled_softplus")(at), exact, rtol=1e-14, atol=0.0)
    torch.testing.assert_close(resolve("scaled_softplus")(-at), exact - 2 * at, rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("name", activations.NAMES)
def test_the_lipschitz_constant_is_the_largest_slope(name):
    x = torch.linspace(-12.0, 12.0, 240_001, dtype=torch.float64)
    steepest = derivative(name, x).abs().max().item()
    assert resolve(name).lipschitz == pytest.approx(steepest, rel=1e-4)


@pytest.mark.parametrize("name", activations.NAMES)
def test_odd_and_bounded_are_told_from_values(name):
    assert is_odd(name) is (name in {"identity", "tanh", "sin", "erf"})
    assert is_bounded(name) is (name in {"tanh", "sin", "erf", "sigmoid"})


@pytest.mark.parametrize(
    ("function", "odd", "bounded"),
    [
        (lambda x: x + 1e-5, False, False),
        (lambda x: torch.tanh(x) + 1e-5 * torch.exp(-(x**2)), False, True),
        (lambda x: torch.sign(x) * x.abs().sqrt(), True, False),  # grows, if slowly
        (lambda x: x.clamp(max=0.0), False, False),  # on one side alone
        (lambda x: x / (1.0 + x.abs()), True, True),
        (lambda x: 0.0 * x, True, True),
        (lambda x: torch.tanh(x) * torch.where(x < 0, 5.0, 1e-3), False, True),  # larger on one side
        (lambda x: torch.tanh(x) * torch.where(x > 0, 5.0, 1e-3), False, True),
    ],
)
def test_odd_and_bounded_of_callables(function, odd, bounded):
    assert is_odd(resolve(function)) is odd
    assert is_bounded(resolve(function)) is bounded


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("identity", Slopes(1.0, 1.0)),
        ("relu", Slopes(1.0, 0.0)),
        ("leaky_relu", Slopes(1.0, 0.01)),
        (lambda x: torch.where(x > 0, 0.25 * x, 3.0 * x), Slopes(0.25, 3.0)),
        ("tanh", None),
        ("elu", None),  # the identity on one side
        (lambda x: torch.where(x < 0, -x, torch.tanh(x)), None),
        (lambda x: torch.where(x.abs() < 500.0, x, 500.0 * torch.sign(x)), None),  # from 500 on
        (lambda x: x + 1e-3 * (x.abs() < 1e-3) * x, None),  # below 0.001
        (lambda x: x + 1.0, None),
        (lambda x: torch.where(x == 0, -1.0, x), None),
    ],
)
def test_slopes_are_those_of_positively_homogeneous_activations_alone(activation, expected):
    found = slopes(resolve(activation))
    if expected is None:
        assert found is None
    else:
        assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(expected), rel=1e-12)


@pytest.mark.parametrize("name", activations.NAMES)
def test_of_named_activations_two_have_a_kink(name):
    assert has_kink(name) is (name in {"relu", "leaky_relu"})


@pytest.mark.parametrize(
    ("function", "kinked"),
    [
        (lambda x: x + 0.0006 * x.abs(), True),  # the slope jumps by 0.0012 of the largest
        (lambda x: x + 0.0004 * x.abs(), False),
        (lambda x: 1e3 * (x + 0.0006 * x.abs()), True),
        (lambda x: (x - 9.9).clamp(min=0.0), True),
        (lambda x: (x + 9.9).clamp(max=0.0), True),
        (lambda x: (x - 10.1).clamp(min=0.0), False),  # beyond what is looked at
        (lambda x: x * x.abs() / 20.0, False),  # a jump of the second derivative
        (lambda x: torch.tanh(3.0 * x) + 0.1 * (x - 4.5678).abs(), True),  # σ' changes elsewhere, too
    ],
)
def test_a_kink_is_a_jump_of_the_slope_by_a_thousandth_of_the_largest(function, kinked):
    assert has_kink(resolve(function, lipschitz=False)) is kinked


@pytest.mark.parametrize(
    ("power", "is_refused"), [(1.0, False), (1.3, False), (1.36, True), (1.5, True), (2.0, True)]
)
def test_growth_beyond_tenfold_over_three_decades_is_refused_where_a_theorem_asks(power, is_refused):
    """From |x| = 1e3 to 1e6 |x|^p grows 10^{3p}-fold; more than 10^4 is refused, on either side of 0."""
    for side in (1.0, -1.0):

        def grows(x, side=side):
            return (side * x).clamp(min=0.0) ** power

        if is_refused:
            with pytest.raises(ValueError, match=r"'grows' grows faster than linearly"):
                resolve(grows)
        else:
            assert resolve(grows).lipschitz is None
        assert resolve(grows, lipschitz=False).function is grows


def test_the_value_of_a_callable_at_0_is_taken_from_it():
    assert resolve(torch.cos).at_zero == 1.0
    assert resolve(lambda x: torch.tanh(x - 0.5)).at_zero == pytest.approx(math.tanh(-0.5), rel=1e-15)


@pytest.mark.parametrize("field", ["lipschitz", "at_zero", "slope", "curvature", "third"])
@pytest.mark.parametrize("value", [math.nan, "1"])
def test_constants_of_an_activation_must_be_numbers(field, value):
    with pytest.raises((TypeError, ValueError), match=rf"{field}.*{value}"):
        Activation("own", torch.tanh, **{field: value})


def without_graph(x):
    if x.requires_grad:
        raise RuntimeError("no graph here.")
    return torch.tanh(x)


def test_a_derivative_that_cannot_be_taken_is_refused_and_a_constant_has_slope_0():
    x = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64)
    with pytest.raises(
        RuntimeError, match=r"activation 'without_graph' could not be differentiated: no graph here"
    ):
        derivative(resolve(without_graph), x)
    assert torch.equal(derivative(resolve(torch.ones_like), x), torch.zeros_like(x))
    with pytest.raises(TypeError, match=r"x must be floating point, got torch\.int64"):
        derivative("tanh", torch.tensor([1, 2]))


def test_a_derivative_has_a_graph_only_where_its_argument_has_one():
    x = torch.linspace(-2.0, 2.0, 9, requires_grad=True)
    slope = derivative("sin", x)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    torch.testing.assert_close(curvature, -torch.sin(x))
    with torch.no_grad():
        assert not derivative("sin", x).requires_grad
    torch.testing.assert_close(derivative("sin", x.detach()), torch.cos(x.detach()))
    torch.testing.assert_close(derivative(resolve(functional.silu), x.detach())[4], torch.tensor(0.5))
