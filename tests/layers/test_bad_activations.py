"""Activations that are not elementwise functions of at most linear growth are refused by name."""

from __future__ import annotations

import pytest
import torch
from refusals import assert_refused, row

import deeplimit as dl

ACTIVATIONS = [
    ("unknown", "tahn", ValueError, "activation", "'tahn'", "tanh"),
    ("changes shape", lambda x: x.sum(-1), TypeError, "activation", "'<lambda>'", "shape (2, 4)"),
    ("changes dtype", lambda x: x.float(), TypeError, "activation", "'<lambda>'", "torch.float64"),
    ("returns None", lambda x: None, TypeError, "activation", "'<lambda>'", "NoneType"),
    ("returns NaN", lambda x: torch.log(x), ValueError, "activation", "'<lambda>'", "[-1000000.0"),
    ("grows like x**2", lambda x: x**2, ValueError, "activation", "'<lambda>'", "Propositions 11 and 12"),
    ("class, not object", torch.nn.Tanh, TypeError, "activation", "Tanh", "class", "Tanh()"),
    ("mixes entries", lambda x: torch.softmax(x, -1), ValueError, "activation", "'<lambda>'", "elementwise"),
    ("changes its input", torch.nn.ReLU(inplace=True), ValueError, "activation", "'ReLU'", "in place"),
]


@pytest.mark.parametrize(
    ("call", "error", "pins"),
    [row(name, lambda v=value: dl.res1(2, v), *rest) for name, value, *rest in ACTIVATIONS],
)
def test_a_bad_activation_is_refused_and_named(call, error, pins):
    assert_refused(call, error, *pins)
