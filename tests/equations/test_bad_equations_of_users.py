"""Equations that users bring as limits are refused by the attribute or the shape that is wrong."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from refusals import assert_refused, row

import deeplimit as dl

NET = dl.res1(width=2, activation="tanh")
NAN = math.nan
METHOD = lambda self, t, h: h  # noqa: E731


def go(*args, net=NET, **knobs):
    return dl.compare(net, *args, **({"depths": [2, 4, 8], "paths": 64} | knobs))


def equation(**changes):
    """A torchsde object that fits NET, with some attributes changed, or left out where None."""
    zero = {"f": lambda t, h: torch.zeros_like(h), "g": lambda t, h: torch.zeros(len(h), 2, 4)}
    parts = {"sde_type": "ito", "noise_type": "general"} | zero | changes
    return SimpleNamespace(**{name: part for name, part in parts.items() if part is not None})


LIMITS = [
    ("unknown sde_type", equation(sde_type="itoo"), ValueError, "sde_type", "'itoo'"),
    ("unknown noise_type", equation(noise_type="x"), ValueError, "noise_type", "'x'"),
    ("no drift", equation(f=None), TypeError, "limit SimpleNamespace", "drift (f)"),
    ("no diffusion", equation(g=None), TypeError, "limit SimpleNamespace", "diffusion (g or g_prod)"),
    ("diagonal noise, full g", equation(noise_type="diagonal"), ValueError, "g(t, h)", "(2, 2)", "(2, 2, 4)"),
    ("g a matrix", equation(g=lambda t, h: torch.zeros(len(h), 4)), ValueError, "g(t, h)", "(2, 2, 4)"),
    ("drift of one column", equation(f=lambda t, h: h[:, :1]), ValueError, "f(t, h)", "(2, 2)", "(2, 1)"),
    (
        "g_prod of one column",
        equation(g=None, g_prod=lambda t, h, v: h[:, :1]),
        ValueError,
        "g_prod(t, h, v)",
        "(2, 2)",
        "(2, 1)",
    ),
    (
        "class, not object",
        type("Unmade", (), vars(equation(f=METHOD, g=METHOD))),
        TypeError,
        "limit Unmade",
        "class",
        "Unmade(",
    ),
    ("f NaN", lambda t, h: h * NAN, ValueError, "limit <lambda>(t, h)", "finite", "t = 0"),
    ("f float64", lambda t, h: h.double(), ValueError, "limit <lambda>(t, h)", "torch.float32"),
    ("f float16", lambda t, h: h.half(), ValueError, "limit <lambda>(t, h)", "torch.float32"),
    ("f of h alone", lambda h: h, TypeError, "limit <lambda>(t, h)", "f(t, h)"),
    ("integer", 3, TypeError, "limit", "f(t, h)", "3"),
    ("inputs", torch.ones(2, 2), TypeError, "limit", "shape (2, 2)", "x="),
    ("network", NET, TypeError, "limit", "network.limit()"),
]


@pytest.mark.parametrize(
    ("call", "error", "pins"), [row(name, lambda v=value: go(v), *rest) for name, value, *rest in LIMITS]
)
def test_a_bad_equation_is_refused_and_named(call, error, pins):
    assert_refused(call, error, *pins)
