"""Covariances of a wrong shape, sign or symmetry are refused, however they are given; so is what is no
covariance.
"""

from __future__ import annotations

import pytest
import torch
from refusals import (
    BOTH,
    EYE,
    PUSHED,
    RANDOM,
    TREND,
    WIDE,
    assert_refused,
    auxiliary,
    covariance,
    net,
    row,
)

import deeplimit as dl

SKEW = torch.tensor([[1.0, 0.5], [-0.5, 1.0]])
SQUARE = torch.eye(4).reshape(2, 2, 2, 2)
V = {"auxiliary": auxiliary()}
COVARIANCES = [
    ("A (3,)", lambda: dl.Ito(A=torch.ones(3)), "Ito's A", "(3,)"),
    ("A (2, 2, 2)", lambda: dl.Ito(A=torch.ones(2, 2, 2)), "Ito's A", "(2, 2, 2)"),
    ("A a tensor of width 2 in width 3", lambda: net(width=3, A=SQUARE), "Ito's A", "(2, 2, 2, 2)"),
    (
        "A of width 3 at 1/2",
        lambda: net(A=lambda t: WIDE if t == 0.5 else EYE),
        "Ito's A at t = 0.5",
        "(3, 3)",
    ),
    ("b of width 3", lambda: net(b=[0.1, 0.1, 0.1]), "Ito's b", "(3,)"),
    ("cross a number", lambda: net(cross=0.1), "Ito's cross", "()"),
    ("cross without A", lambda: dl.Ito(b=0.1, cross=torch.zeros(2, 2, 2)), "Ito's cross", "A and b"),
    ("nothing", lambda: dl.Ito(), "Ito", "A of W^A", "b of W^b"),
    ("drift of no A", lambda: dl.Ito(b=0.1, drift=TREND), "Ito's drift", "A", "W^", "A=0.0"),
    ("drift of no b", lambda: dl.Ito(A=0.1, drift=PUSHED), "Ito's drift", "b", "W^", "b=0.0"),
    ("A negative", lambda: dl.Ito(A=-0.05), "Ito's A", "-0.05"),
    ("b an entry negative", lambda: dl.Ito(b=[0.1, -0.2]), "Ito's b", "-0.2"),
    ("A negative at 1/2", lambda: net(A=lambda t: -1.0 if t == 0.5 else 1.0), "Ito's A at t = 0.5", "-1"),
    ("b asymmetric", lambda: dl.Ito(b=SKEW), "Ito's b", "symmetric", "1"),
    ("b indefinite", lambda: dl.Ito(b=BOTH), "Ito's b", "semidefinite", "-1"),
    ("A indefinite", lambda: dl.Ito(A=-SQUARE), "Ito's A", "semidefinite", "-1"),
    (
        "cross too large",
        lambda: net(A=1.0, b=1.0, cross=torch.ones(2, 2, 2)),
        "the joint covariance of A",
        "semidefinite",
        "-1.83",
    ),
    ("Kronecker, R a number", lambda: dl.Kronecker(1.0, EYE), "Kronecker's R", "()"),
    ("Kronecker, R not square", lambda: dl.Kronecker(torch.ones(2, 3), EYE), "Kronecker's R", "(2, 3)"),
    ("Kronecker, two widths", lambda: dl.Kronecker(WIDE, EYE), "Kronecker's R", "3 and 2"),
    ("Kronecker, R asymmetric", lambda: dl.Kronecker(SKEW, EYE), "Kronecker's R", "symmetric", "1"),
    ("Kronecker, C indefinite", lambda: dl.Kronecker(EYE, BOTH), "Kronecker's C", "semidefinite", "-1"),
    ("Kronecker of width 3", lambda: net(A=dl.Kronecker(WIDE, WIDE)), "Ito's A", "(3, 3)"),
    (
        "Kronecker a path, nothing random",
        lambda: net(A=dl.Kronecker(EYE.expand(3, 2, 2), EYE)),
        "Ito's A",
        "(3, 2, 2)",
    ),
    (
        "Kronecker of another P",
        lambda: net(A=lambda t, v: dl.Kronecker(EYE, EYE.expand(9, 2, 2)), **V),
        "Ito's A at t = 0",
        "(9, 2, 2)",
    ),
    ("another P", lambda: net(b=lambda t, v: torch.ones(9), **V), "Ito's b at t = 0", "(9,)"),
    ("P missing", lambda: net(A=lambda t, v: 0.1, auxiliary=auxiliary()), "Ito's A at t = 0", "()"),
    (
        "a covariance of width 3 that is taken for one of 3 paths",
        lambda: net(width=3, b=lambda t, v: WIDE, auxiliary=auxiliary()),
        "Ito's b at t = 0",
        "(3, 3)",
    ),
    (
        "NaN of (t, v) at 1/2",
        lambda: net(A=lambda t, v: covariance(t, v) / (t != 0.5), auxiliary=auxiliary()),
        "Ito's A at t = 0.5",
        "NaN",
    ),
    ("leverage 2", lambda: auxiliary(leverage=2), "leverage", "2"),
    (
        "leverage on too few motions",
        lambda: net(width=1, A=None, auxiliary=auxiliary(start=[0.0, 0.0], leverage=0.5)),
        "leverage",
        "2",
        "1",
        "leverage=0",
    ),
    ("start empty", lambda: auxiliary(start=[]), "the auxiliary start", "(0,)"),
    (
        "the auxiliary drift transposed, as many dimensions as the usual probe has paths",
        lambda: net(auxiliary=auxiliary(drift=lambda t, v: v.mT, start=[0.0] * 3)),
        "the auxiliary drift at t = 0",
        "(3, 4)",
    ),
    (
        "stochastic_volatility of a random Kronecker",
        lambda: dl.stochastic_volatility(A=dl.Kronecker(EYE.expand(3, 2, 2), EYE)),
        "A",
        "Kronecker(R, C)",
    ),
    ("mean_reversion -1", lambda: dl.stochastic_volatility(A=0.1, mean_reversion=-1), "mean_reversion", "-1"),
    ("volatility -1", lambda: dl.stochastic_volatility(A=0.1, volatility=-1), "volatility", "-1"),
]

KIND = {
    "cross a Kronecker": (lambda: net(cross=dl.Kronecker(EYE, EYE)), "Ito's cross", "Kronecker"),
    "A a Trend": (lambda: dl.Ito(A=TREND), "Ito's A", "Trend"),
    "A None of t": (lambda: net(A=lambda t: None), "Ito's A at t = 0", "None"),
    "Kronecker without C": (lambda: dl.Kronecker(EYE), "C"),
    "A of no argument": (lambda: net(A=lambda: 0.1), "Ito's A", "(t, v)", "takes 0 positional"),
    "A of (t, v), no v": (lambda: net(A=lambda t, v: 0.1), "v"),
    "A of t, with v": (lambda: net(A=lambda t: 0.1, auxiliary=auxiliary()), "Ito's A", "(t, v)"),
    "A a module": (lambda: net(A=torch.nn.ReLU()), "Ito's A", "raised", "relu"),
    "drift a function": (lambda: dl.Ito(A=0.1, drift=lambda t: EYE), "Ito's drift", "function"),
    "drift of t, with v": (lambda: net(drift=TREND, **RANDOM), "the A of Ito's drift", "(t, v)"),
    "auxiliary a function": (
        lambda: dl.Ito(A=0.1, auxiliary=max),
        "Ito's auxiliary",
        "<built-in function max>",
    ),
    "auxiliary of nothing": (lambda: dl.AuxiliaryDiffusion(), "drift", "diffusion"),
    "start None": (lambda: auxiliary(start=None), "the auxiliary start", "None"),
    "volatile A a function": (lambda: dl.stochastic_volatility(A=lambda t: 0.1), "A", "function", "Ito"),
}


TABLE = [
    *(row(name, call, ValueError, *pins) for name, call, *pins in COVARIANCES),
    *(row(name, call, TypeError, *pins) for name, (call, *pins) in KIND.items()),
]


@pytest.mark.parametrize(("call", "error", "pins"), TABLE)
def test_bad_covariances_are_refused_in_words(call, error, pins):
    assert_refused(call, error, *pins)
