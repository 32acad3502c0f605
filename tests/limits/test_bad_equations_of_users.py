"""Equations that users bring as limits are refused by the attribute or the shape that is wrong."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from refusals import assert_refused, row

import deeplimit as dl

NET = dl.res1(width=2, activation="tanh")
SMOOTH = dl.SmoothGaussian()
NAN = math.nan
METHOD = lambda self, t, h: h  # noqa: E731


def go(*args, net=NET, **knobs):
    return dl.compare(net, *args, **({"depths": [2, 4, 8], "paths": 64} | knobs))


def tanh(width=2, **knobs):
    return dl.res1(width, "tanh", **knobs)


def smooth(width=2):
    return tanh(width, weights=SMOOTH)


def equation(**changes):
    """A torchsde object that fits NET, with some attributes changed, or left out where None."""
    zero = {"f": lambda t, h: torch.zeros_like(h), "g": lambda t, h: torch.zeros(len(h), 2, 4)}
    parts = {"sde_type": "ito", "noise_type": "general"} | zero | changes
    return SimpleNamespace(**{name: part for name, part in parts.items() if part is not None})


LIMITS = [
    (
        "Stratonovich",
        equation(sde_type="stratonovich"),
        ValueError,
        "limit",
        "Stratonovich",
        "sde_type = 'ito'",
    ),
    ("unknown sde_type", equation(sde_type="itoo"), ValueError, "sde_type", "'itoo'"),
    ("unknown noise_type", equation(noise_type="x"), ValueError, "noise_type", "'x'"),
    ("no drift", equation(f=None), TypeError, "limit SimpleNamespace", "drift (f)"),
    ("no diffusion", equation(g=None), TypeError, "limit SimpleNamespace", "diffusion (g or g_prod)"),
    (
        "3 noises",
        equation(g=lambda t, h: torch.zeros(len(h), 2, 3)),
        ValueError,
        "limit",
        "3 Brownian",
        "4",
        "(paths, 2, 4)",
    ),
    (
        "diagonal noise",
        equation(noise_type="diagonal", g=lambda t, h: h),
        ValueError,
        "limit",
        "2 Brownian",
        "4",
        "(paths, 2, 4)",
    ),
    ("diagonal noise, full g", equation(noise_type="diagonal"), ValueError, "g(t, h)", "(2, 2)", "(2, 2, 4)"),
    (
        "g a matrix",
        equation(g=lambda t, h: torch.zeros(len(h), 4)),
        ValueError,
        "g(t, h)",
        "(2, 2, 4)",
        "(2, 4)",
    ),
    (
        "g transposed",
        equation(g=lambda t, h: torch.zeros(len(h), 4, 2)),
        ValueError,
        "g(t, h)",
        "(2, 2, 4)",
        "(2, 4, 2)",
    ),
    (
        "g float64",
        equation(g=lambda t, h: torch.zeros(len(h), 2, 4).double()),
        ValueError,
        "g(t, h)",
        "torch.float32",
        "torch.float64",
    ),
    (
        "g no tensor",
        equation(g=lambda t, h: np.zeros((len(h), 2, 4))),
        TypeError,
        "g(t, h)",
        "(2, 2, 4)",
        "ndarray",
    ),
    ("drift of one column", equation(f=lambda t, h: h[:, :1]), ValueError, "f(t, h)", "(2, 2)", "(2, 1)"),
    ("drift NaN", equation(f=lambda t, h: h * NAN), ValueError, "limit SimpleNamespace", "f(t, h)", "finite"),
    (
        "g_prod of one column",
        equation(g=None, g_prod=lambda t, h, v: h[:, :1]),
        ValueError,
        "g_prod(t, h, v)",
        "(2, 2)",
        "(2, 1)",
    ),
    (
        "g_prod of 3 columns",
        equation(g=None, g_prod=lambda t, h, v: v[:, :3]),
        ValueError,
        "g_prod(t, h, v)",
        "(2, 2)",
        "(2, 3)",
    ),
    (
        "class, not object",
        type("Unmade", (), vars(equation(f=METHOD, g=METHOD))),
        TypeError,
        "limit Unmade",
        "class",
        "Unmade(",
    ),
    ("f of one column", lambda t, h: h[:, :1], ValueError, "limit <lambda>(t, h)", "(2, 2)", "(2, 1)"),
    ("f no tensor", lambda t, h: h.tolist(), TypeError, "limit <lambda>(t, h)", "(2, 2)", "list"),
    ("f NaN", lambda t, h: h * NAN, ValueError, "limit <lambda>(t, h)", "finite", "t = 0"),
    (
        "f float64",
        lambda t, h: h.double(),
        ValueError,
        "limit <lambda>(t, h)",
        "torch.float32",
        "torch.float64",
        "dtype=torch.float64",
    ),
    (
        "f float16",
        lambda t, h: h.half(),
        ValueError,
        "limit <lambda>(t, h)",
        "torch.float32",
        "torch.float16",
        "return what it is given",
    ),
    ("f of h alone", lambda h: h, TypeError, "limit <lambda>(t, h)", "f(t, h)"),
    ("integer", 3, TypeError, "limit", "f(t, h)", "3"),
    ("string", "sde", TypeError, "limit", "f(t, h)", "'sde'"),
    ("inputs", torch.ones(2, 2), TypeError, "limit", "shape (2, 2)", "x="),
    ("network", NET, TypeError, "limit", "network.limit()"),
    ("independent, no noise", dl.Independent(dl.Identity()), ValueError, "Independent", "noise", "dH = 0"),
    ("wider SDE", tanh(3).limit(), ValueError, "limit", "9 Brownian motions", "4", "2 x 2"),
    ("wider SDE, independent", dl.Independent(tanh(3).limit()), ValueError, "limit", "width 3", "width 2"),
]


@pytest.mark.parametrize(
    ("call", "error", "pins"), [row(name, lambda v=value: go(v), *rest) for name, value, *rest in LIMITS]
)
def test_a_bad_equation_is_refused_and_named(call, error, pins):
    assert_refused(call, error, *pins)


def test_an_ode_of_another_width_is_refused():
    assert_refused(lambda: go(smooth(3).limit(), net=smooth()), ValueError, "limit", "width 3", "width 2")
