"""Samplers, length scales and trends that make no weight law are refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from refusals import assert_refused, row

import deeplimit as dl

NAN = math.nan
LOOSE = torch.Generator()  # a generator that a sampler must not use
EYE, ONES = (lambda t: torch.eye(2)), (lambda t: torch.ones(2))


def tanh(width=2, **knobs):
    return dl.res1(width, "tanh", **knobs)


def draws(scale=1, mean=0):
    return lambda shape, generator: mean + scale * torch.randn(shape, generator=generator)


CALLS = [
    ("IID", "unknown", lambda: dl.IID("cauchy"), ValueError, "law", "'cauchy'"),
    ("IID", "number", lambda: dl.IID(3), TypeError, "law", "'gaussian'", "sampler(", "3"),
    (
        "IID",
        "wrong shape",
        lambda: dl.IID(lambda s, g: torch.ones(3)),
        TypeError,
        "sampler",
        "'<lambda>'",
        "(64, 32, 32)",
        "(3,)",
    ),
    (
        "IID",
        "array",
        lambda: dl.IID(lambda s, g: np.ones(s)),
        TypeError,
        "sampler",
        "'<lambda>'",
        "(64, 32, 32)",
        "ndarray",
    ),
    (
        "IID",
        "variance 4",
        lambda: dl.IID(draws(scale=2)),
        ValueError,
        "sampler",
        "'<lambda>'",
        "mean 0 and variance 1",
        "variance 3.99",
        "divide",
    ),
    (
        "IID",
        "mean 1",
        lambda: dl.IID(draws(mean=1)),
        ValueError,
        "sampler",
        "'<lambda>'",
        "mean 0 and variance 1",
        "mean 0.996",
        "Subtract",
    ),
    (
        "IID",
        "NaN",
        lambda: dl.IID(lambda s, g: torch.full(s, NAN)),
        ValueError,
        "sampler",
        "'<lambda>'",
        "finite",
        "NaN",
    ),
    (
        "IID",
        "Cauchy",
        lambda: dl.IID(lambda s, g: torch.empty(s).cauchy_(generator=g)),
        ValueError,
        "sampler",
        "'<lambda>'",
        "mean 0 and variance 1",
    ),
    (
        "IID",
        "own generator",
        lambda: dl.IID(lambda s, g: torch.randn(s, generator=LOOSE)),
        ValueError,
        "sampler",
        "'<lambda>'",
        "generator",
        "same seed",
    ),
    (
        "IID",
        "one argument",
        lambda: dl.IID(lambda s: torch.ones(s)),
        TypeError,
        "sampler",
        "'<lambda>'",
        "(shape, generator)",
    ),
    ("IID", "lwa=", lambda: dl.IID(lwa="uniform"), TypeError, "IID.__init__()", "'lwa'"),
    ("SmoothGaussian", 0, lambda: dl.SmoothGaussian(0), ValueError, "length_scale", "0.005", "0"),
    ("SmoothGaussian", -1, lambda: dl.SmoothGaussian(-1), ValueError, "length_scale", "0.005", "-1"),
    ("SmoothGaussian", NAN, lambda: dl.SmoothGaussian(NAN), ValueError, "length_scale", "nan"),
    ("SmoothGaussian", "'1'", lambda: dl.SmoothGaussian("1"), TypeError, "length_scale", "'1'"),
    (
        "SmoothGaussian",
        "scale=",
        lambda: dl.SmoothGaussian(scale=1),
        TypeError,
        "SmoothGaussian.__init__()",
        "'scale'",
    ),
    ("Trend", "matrix", lambda: dl.Trend(torch.eye(2)), TypeError, "A", "lambda t", "Tensor of shape (2, 2)"),
    ("Trend", "b a vector", lambda: dl.Trend(EYE, torch.ones(2)), TypeError, "b", "Tensor of shape (2,)"),
    (
        "Trend",
        "shape",
        lambda: tanh(weights=dl.Trend(lambda t: torch.eye(3))),
        ValueError,
        "Trend's A(0.0)",
        "(2, 2)",
        "(3, 3)",
    ),
    (
        "Trend",
        "NaN",
        lambda: tanh(weights=dl.Trend(lambda t: torch.eye(2) / t)),
        ValueError,
        "Trend's A(0.0)",
        "finite",
    ),
    (
        "Trend",
        "None",
        lambda: tanh(weights=dl.Trend(lambda t: None)),
        TypeError,
        "Trend's A(0.0)",
        "tensor",
        "NoneType",
    ),
    ("Trend", "b, res1", lambda: tanh(weights=dl.Trend(EYE, ONES)), ValueError, "res1", "b", "inner"),
]


@pytest.mark.parametrize(
    ("call", "error", "pins"), [row(f"{name} {what}", call, *rest) for name, what, call, *rest in CALLS]
)
def test_a_bad_weight_law_is_refused_and_named(call, error, pins):
    assert_refused(call, error, *pins)


def test_a_sampler_only_a_little_off_centre_is_refused():
    with pytest.raises(ValueError, match=r"have mean 0\.(1|09)"):
        dl.IID(lambda shape, generator: torch.randn(shape, generator=generator) + 0.1)


def alternating(mean, variance):
    """A sampler of mean ± √variance in turn: its draws have exactly these moments."""

    def sampler(shape, generator):
        signs = 1.0 - 2.0 * (torch.arange(math.prod(shape), dtype=torch.float64) % 2)
        return (mean + variance**0.5 * signs).reshape(shape)

    return sampler


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_samplers_mean_may_be_off_by_six_standard_errors_and_one_percent(sign):
    """Of the 65,536 draws that are looked at: 6/256 + 0.01 = 0.0334."""
    dl.IID(alternating(sign * 0.0333, 1.0))
    with pytest.raises(ValueError, match=r"mean -?0\.0336"):
        dl.IID(alternating(sign * 0.0336, 1.0))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_samplers_variance_may_be_off_by_one_percent_where_it_has_no_error(sign):
    """Squares of ±√variance are all the same, so that no standard error is added to the 1 %."""
    dl.IID(alternating(0.0, 1.0 + sign * 0.0099))
    with pytest.raises(ValueError, match=r"variance (1\.01|0\.99)"):
        dl.IID(alternating(0.0, 1.0 + sign * 0.0102))
