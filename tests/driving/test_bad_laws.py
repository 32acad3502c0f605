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


CALLS = [
    ("IID", "unknown", lambda: dl.IID("cauchy"), ValueError, "law", "'cauchy'"),
    ("IID", "number", lambda: dl.IID(3), TypeError, "law", "'gaussian'", "sampler(", "3"),
    ("IID", "wrong shape", lambda: dl.IID(lambda s, g: torch.ones(3)), TypeError, "sampler", "'<lambda>'"),
    ("IID", "NaN", lambda: dl.IID(lambda s, g: torch.full(s, NAN)), ValueError, "sampler", "'<lambda>'"),
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
    ("IID", "one argument", lambda: dl.IID(lambda s: torch.ones(s)), TypeError, "sampler", "'<lambda>'"),
    ("SmoothGaussian", 0, lambda: dl.SmoothGaussian(0), ValueError, "length_scale", "0.005", "0"),
    ("SmoothGaussian", -1, lambda: dl.SmoothGaussian(-1), ValueError, "length_scale", "0.005", "-1"),
    ("SmoothGaussian", NAN, lambda: dl.SmoothGaussian(NAN), ValueError, "length_scale", "nan"),
    ("SmoothGaussian", "'1'", lambda: dl.SmoothGaussian("1"), TypeError, "length_scale", "'1'"),
    ("Trend", "matrix", lambda: dl.Trend(torch.eye(2)), TypeError, "A", "lambda t", "Tensor of shape (2, 2)"),
    ("Trend", "b a vector", lambda: dl.Trend(EYE, torch.ones(2)), TypeError, "b", "Tensor of shape (2,)"),
    ("Trend", "b, res1", lambda: tanh(weights=dl.Trend(EYE, ONES)), ValueError, "res1", "b", "inner"),
]


@pytest.mark.parametrize(
    ("call", "error", "pins"), [row(f"{name} {what}", call, *rest) for name, what, call, *rest in CALLS]
)
def test_a_bad_weight_law_is_refused_and_named(call, error, pins):
    assert_refused(call, error, *pins)


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


class Sampled(dl.FunctionLaw):
    """A user's functions of time, with whatever values."""

    def __init__(self, values):
        self.values = values

    def entry_scale(self, shape):
        return 1.0

    def describe(self):
        return "sampled"

    def sample(self, shape, paths, generator, dtype, device):
        values = self.values

        class Function(dl.SampledFunction):
            def at(self, times):
                return values(len(times), paths, *shape)

        return Function()


@pytest.mark.parametrize(
    ("values", "error", "pins"),
    [
        (lambda k, p, *shape: torch.zeros(k, p, shape[0], 1), ValueError, ["Function.at", "shape (3, 3)"]),
        (
            lambda k, p, *shape: torch.zeros(1, p, *shape).double(),
            ValueError,
            ["Function.at", "shape (3, 3)"],
        ),
        (lambda k, p, *shape: torch.zeros(k, p, *shape, 1), ValueError, ["Function.at", "shape (3, 3)"]),
        (lambda k, p, *shape: torch.zeros(k, p, *shape, dtype=torch.int64), TypeError, ["at"]),
        (lambda k, p, *shape: np.zeros((k, p, *shape)), TypeError, ["at", "ndarray"]),
        (lambda *shape: None, TypeError, ["at", "None"]),
    ],
)
def test_what_a_users_function_of_time_returns_is_checked(values, error, pins):
    network = dl.res1(3, "tanh", weights=Sampled(values))
    assert_refused(lambda: dl.simulate(network, torch.ones(1, 3), depths=[4, 8], paths=8), error, *pins)
